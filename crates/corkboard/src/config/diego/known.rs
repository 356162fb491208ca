//! Every key of the Go BBS's configuration, from the releases of 2017 to those of 2026: what its value must be, and what
//! becomes of it here.
//!
//! When you add one: a row here; if it is used, a line in `meaning.rs`; and a line in the complete file of the tests.

/// What Go's decoder accepts for a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    /// Text that is looked at only to see that it is there.
    Password,
    Flag,
    Whole,
    Duration,
    TextList,
    TimeFormat,
    /// Passphrases by label.
    Keys,
    Group(&'static [(&'static str, Kind)]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Used,
    /// Why it means nothing here.
    Ignored(&'static str),
}

use Fate::{Ignored, Used};
use Kind::{Duration, Flag, Group, Keys, Password, Text, TextList, TimeFormat, Whole};

const NO_SQL: Fate = Ignored("no SQL");
const PULLED: Fate = Ignored("metrics are pulled");
const NOT_LOGGED: Fate = Ignored("never logged");
const NO_CONSUL: Fate = Ignored("no Consul");
const ALWAYS: Fate = Ignored("always");

/// The key under which this file names the directory of the records. Go does not know it, and passes over it.
pub(super) const STORE: &str = "corkboard_store";

pub(super) static KEYS: &[(&str, Kind, Fate)] = &[
    ("access_log_path", Text, Ignored("no access log")),
    ("active_key_label", Text, Used),
    ("advanced_metrics", Group(ADVANCED_METRICS), PULLED),
    ("advertise_url", Text, Used),
    ("auctioneer_address", Text, Used),
    ("auctioneer_ca_cert", Text, Used),
    ("auctioneer_client_cert", Text, Used),
    ("auctioneer_client_key", Text, Used),
    ("auctioneer_require_tls", Flag, Used),
    ("ca_file", Text, Used),
    ("cell_registrations_locket_enabled", Flag, ALWAYS),
    ("cert_file", Text, Used),
    ("communication_timeout", Duration, Used),
    ("consul_cluster", Text, NO_CONSUL),
    ("converge_repeat_interval", Duration, Used),
    ("convergence_workers", Whole, Ignored("not needed")),
    (STORE, Text, Used),
    ("database_connection_string", Password, NO_SQL),
    ("database_driver", Text, NO_SQL),
    ("db_connection_timeout", Duration, NO_SQL),
    ("db_read_timeout", Duration, NO_SQL),
    ("db_write_timeout", Duration, NO_SQL),
    ("debug_address", Text, Ignored("no debug server")),
    ("debug_lrp_start_heartbeats", Flag, NOT_LOGGED),
    ("desired_lrp_creation_timeout", Duration, Ignored("not needed")),
    ("detect_consul_cell_registrations", Flag, NO_CONSUL),
    ("dropsonde_port", Whole, PULLED),
    ("enable_consul_service_registration", Flag, NO_CONSUL),
    ("enable_db_health_check", Flag, NO_SQL),
    ("encryption_keys", Keys, Used),
    ("expire_completed_task_duration", Duration, Used),
    ("expire_pending_task_duration", Duration, Used),
    ("generate_suspect_actual_lrps", Flag, ALWAYS),
    ("health_address", Text, Used),
    ("health_check_failure_threshold", Whole, NO_SQL),
    ("health_check_interval", Duration, NO_SQL),
    ("health_check_timeout", Duration, NO_SQL),
    ("key_file", Text, Used),
    ("kick_task_duration", Duration, Used),
    ("listen_address", Text, Used),
    ("lock_retry_interval", Duration, Ignored("fixed")),
    ("lock_ttl", Duration, Ignored("fixed")),
    ("locket_address", Text, Used),
    ("locket_ca_cert_file", Text, Used),
    ("locket_client_cert_file", Text, Used),
    ("locket_client_keepalive_time", Whole, Used),
    ("locket_client_keepalive_timeout", Whole, Used),
    ("locket_client_key_file", Text, Used),
    ("locks_locket_enabled", Flag, ALWAYS),
    ("log_level", Text, Used),
    ("loggregator", Group(LOGGREGATOR), PULLED),
    ("max_data_string_length", Whole, Used),
    ("max_database_connection_lifetime", Duration, NO_SQL),
    ("max_idle_database_connections", Whole, NO_SQL),
    ("max_open_database_connections", Whole, NO_SQL),
    ("max_task_retries", Whole, Used),
    ("redact_patterns", TextList, NOT_LOGGED),
    ("redact_secrets", Flag, NOT_LOGGED),
    ("rep_ca_cert", Text, Used),
    ("rep_client_cert", Text, Used),
    ("rep_client_key", Text, Used),
    ("rep_client_session_cache_size", Whole, ALWAYS),
    ("rep_require_tls", Flag, Used),
    ("report_interval", Duration, PULLED),
    ("require_ssl", Flag, ALWAYS),
    ("session_name", Text, Used),
    ("skip_consul_lock", Flag, NO_CONSUL),
    ("sql_ca_cert_file", Text, NO_SQL),
    ("sql_enable_identity_verification", Flag, NO_SQL),
    ("task_callback_workers", Whole, Used),
    ("time_format", TimeFormat, Used),
    ("update_workers", Whole, Used),
    ("uuid", Text, Used),
];

const ADVANCED_METRICS: &[(&str, Kind)] =
    &[("enabled", Flag), ("route_config", Group(&[("request_count", TextList), ("request_latency", TextList)]))];

const LOGGREGATOR: &[(&str, Kind)] = &[
    ("loggregator_api_port", Whole),
    ("loggregator_app_metric_exclusion_filter", TextList),
    ("loggregator_batch_max_size", Whole),
    ("loggregator_ca_path", Text),
    ("loggregator_cert_path", Text),
    ("loggregator_instance_id", Text),
    ("loggregator_job_deployment", Text),
    ("loggregator_job_index", Text),
    ("loggregator_job_ip", Text),
    ("loggregator_job_name", Text),
    ("loggregator_job_origin", Text),
    ("loggregator_key_path", Text),
    ("loggregator_source_id", Text),
    ("loggregator_use_v2_api", Flag),
];

/// What the Go BBS does not start without, and what is expected there. The names of files are asked for beside their kin.
pub(super) const REQUIRED: &[(&str, &str)] = &[
    ("active_key_label", "the label of the key that seals what is written"),
    ("auctioneer_address", "the URL of the auctioneer, such as \"https://auctioneer.service.cf.internal:9016\""),
    (
        "database_connection_string",
        "what the Go BBS connects to its database with; here it is not used, and never shown",
    ),
    ("database_driver", "\"mysql\" or \"postgres\""),
    ("encryption_keys", "passphrases by label"),
    ("health_address", "an IP address and a port, such as \"127.0.0.1:8890\""),
    ("listen_address", "an IP address and a port, such as \"0.0.0.0:8889\""),
    ("locket_address", "the host and the port of Locket, such as \"locket.service.cf.internal:8891\""),
    ("log_level", "\"debug\", \"info\", \"error\" or \"fatal\""),
    ("report_interval", "a duration in quotes, such as \"1m\""),
    ("uuid", "a name that no other BBS of this deployment has"),
];
