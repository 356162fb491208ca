//! The files of the programs as they stand: see `config/raw.rs`.
//!
//! When you add a key: a word in its table here, a line where the program reads it, a line in its example and in
//! `docs/how-to/configure.md`.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::config::raw::{Raw, RawTls, TEXT, raw_table};

raw_table! { RawBbs: urls ca cert key; }
raw_table! { RawLocket: address ca cert key; }
raw_table! { RawNats: urls user password_file ca cert key; }

raw_table! {
    RawAuctioneer: node listen health;
    tls = RawTls bbs = RawBbs locket = RawLocket cells = RawCells placement = RawWeights timing = RawAuctionTiming
}
raw_table! { RawCells: require_tls workers ca cert key; }
raw_table! { RawWeights: starting_container_weight bin_pack_first_fit_weight starting_container_count_max; }
raw_table! { RawAuctionTiming: cell_state_timeout communication_timeout; }

raw_table! {
    RawCell: cell_id index zone listen admin rep_url dir;
    tls = RawTls bbs = RawBbs locket = RawLocket capacity = RawCapacity executor = RawExecutor placement = RawTags
    timing = RawCellTiming
}
raw_table! { RawCapacity: memory_mb disk_mb containers; }
raw_table! { RawExecutor: kind address host_ports user stacks grace rootfs runtime; }
raw_table! { RawTags: tags optional_tags; }
raw_table! { RawCellTiming: polling evacuation presence presence_ttl; }

raw_table! {
    RawRouteEmitter: node cell_id health;
    tls = RawTls bbs = RawBbs locket = RawLocket nats = RawNats timing = RawEmitterTiming routes = RawRoutes
}
raw_table! { RawEmitterTiming: sync_interval register_interval; }
raw_table! { RawRoutes: direct_instance_routes internal_routes; }

raw_table! {
    RawRouter: listen listen_tls health;
    nats = RawNats tls = RawServerTls backends = RawBackends timing = RawRouterTiming
}
raw_table! { RawServerTls: cert key; }
raw_table! { RawBackends: ca cert key balance; }
raw_table! {
    RawRouterTiming: register_interval prune_threshold backend_timeout client_idle_timeout drain_wait drain_timeout;
}
