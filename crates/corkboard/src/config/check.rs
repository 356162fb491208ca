//! From what stands in the file to what it means: `RawConfig` to [`Config`], or everything that is wrong with it.
//!
//! Nothing is read from disk here; that the files exist and fit together is checked in `files.rs`. Defaults are those of
//! `bbs::config`, which are Diego's.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use api::client::TlsFiles;
use bbs::config::{
    CallbackBody, Config, Encryption, Finalization, KeySource, Limits, Migration, Mode, Outbound, Standby, Start,
    Store, Timing,
};
use toml::{Spanned, Value};
use url::Url;

use super::encryption::{self, KeySpec};
use super::raw::{Raw, RawAuctioneer, RawCallbacks, RawCells, RawConfig, RawLimits, RawMigration, RawTiming, RawTls};
use super::values::{
    address, boolean, count, data_version, definition_count, duration, number, rate, text, web_url, web_urls, word,
};
use super::{Problem, Problems};
use crate::data_version::NEWEST;
use crate::reach::is_loopback;

pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8889);
pub(crate) const DEFAULT_HEALTH: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8890);
const DEFAULT_NODE: &str = "board";
pub(super) const DEFAULT_TASK_RETRIES: i32 = 3;
/// As many as one can tell apart.
pub(super) const DEFAULT_DEFINITIONS_KEPT: usize = 5;
/// What is added to the path of the store to name the copy of its identity.
const IDENTITY_SUFFIX: &str = ".identity";

const STANDBYS: &[(&str, Standby)] = &[("closed", Standby::Closed), ("redirect", Standby::Redirect)];
const MODES: &[(&str, Mode)] = &[("online", Mode::Online), ("read-only", Mode::ReadOnly), ("offline", Mode::Offline)];
const STARTS: &[(&str, Start)] = &[("auto", Start::Auto), ("manual", Start::Manual)];
const BODIES: &[(&str, CallbackBody)] = &[("guid", CallbackBody::Guid), ("full", CallbackBody::Full)];
const FINALIZATIONS: &[(&str, Finalization)] = &[("auto", Finalization::Auto), ("manual", Finalization::Manual)];

impl TryFrom<RawConfig> for Config {
    type Error = Problems;

    fn try_from(raw: RawConfig) -> Result<Self, Problems> {
        let Checked { mut config, places, keys, .. } = check(raw)?;
        if let Some(keys) = keys {
            let keyring = keys.keyring().map_err(|found| Problems(encryption::problems(found, &places)))?;
            let rotation = keys.rotation;
            let told = |found: Vec<(String, String)>| Problems(encryption::problems(found, &Places::new())).to_string();
            let source = KeySource::new(move || keys.keyring().map_err(told));
            config.encryption = Some(Encryption { keyring, rotation, source });
        }
        Ok(config)
    }
}

/// Where each key stands that was read.
pub(crate) type Places = Vec<(String, Range<usize>)>;

/// A configuration whose files were not looked at yet.
pub(super) struct Checked {
    pub(super) config: Config,
    /// So that a problem found later can still be located.
    pub(super) places: Places,
    /// Where the keys are; the configuration has none until they are read.
    pub(super) keys: Option<KeySpec>,
    /// Where the password for etcd is; the configuration has none until it is read.
    pub(super) password_file: Option<PathBuf>,
    /// Where this node serves Locket, if it does.
    pub(super) serve_locket: Option<SocketAddr>,
}

pub(super) fn check(mut raw: RawConfig) -> Result<Checked, Problems> {
    let mut reader = Reader::default();
    let has_encryption = raw.encryption.is_some();
    let keys = reader.encryption(raw.encryption.take());
    let (store, password_file) = reader.store(raw.store.take().unwrap_or_default());
    if matches!(store, Some(Store::Etcd(_))) && !has_encryption {
        let what = "is missing; records in etcd lie on other machines, so they have to be sealed. `corkboard keys generate` \
                    makes a key";
        reader.note("encryption", what);
    }
    let served = raw.serve_locket.take();
    let config = reader.config(raw, store);
    let serve_locket = config.as_ref().and_then(|config| reader.serve_locket(served, config));
    match config {
        Some(config) if reader.problems.is_empty() => {
            Ok(Checked { config, places: reader.places, keys, password_file, serve_locket })
        }
        _ => Err(Problems(reader.problems)),
    }
}

#[derive(Default)]
pub(crate) struct Reader {
    pub(super) problems: Vec<Problem>,
    pub(super) places: Places,
}

impl Reader {
    /// `None` when something is missing that has no default; other problems leave a default in place and are noted.
    fn config(&mut self, raw: RawConfig, store: Option<Store>) -> Option<Config> {
        self.refuse_unknown("", RawConfig::KEYS, &raw.unknown);
        let is_shared = matches!(store, Some(Store::Etcd(_)));
        if is_shared && raw.node.is_none() {
            self.note("node", "is missing; every node that uses the same etcd needs a name of its own");
        }
        let has_name = raw.node.is_some();
        let node = self.or("node", raw.node, DEFAULT_NODE.to_owned(), text);
        let listen = self.or("listen", raw.listen, DEFAULT_LISTEN, address);
        let health = self.or("health", raw.health, DEFAULT_HEALTH, address);
        let advertise = self.optional("advertise", raw.advertise, web_url);
        let task_rejections_max = self.or("max_task_retries", raw.max_task_retries, DEFAULT_TASK_RETRIES, number);
        let definitions_kept =
            self.or("definitions_kept", raw.definitions_kept, DEFAULT_DEFINITIONS_KEPT, definition_count);
        let standby = self.or("standby", raw.standby, Standby::default(), |value| word(value, STANDBYS));
        let identity = self.identity(raw.identity, store.as_ref());
        let (migration, rollback_on_drain_to) = self.migration(raw.migration.unwrap_or_default());
        let has_tls_table = raw.tls.is_some();
        let tls = self.tls(raw.tls);
        let (timing, communication_timeout) = self.timing(raw.timing.unwrap_or_default());
        let limits = self.limits(raw.limits.unwrap_or_default());
        let mut outbound = Outbound { communication_timeout, ..Outbound::default() };
        self.auctioneer(raw.auctioneer.unwrap_or_default(), &mut outbound);
        let cells_file = self.cells(raw.cells.unwrap_or_default(), &mut outbound);
        self.callbacks(raw.callbacks.unwrap_or_default(), tls.as_ref(), &mut outbound);
        let locket = self.locket(raw.locket, has_name.then_some(&node));

        if !has_tls_table && !listen.ip().is_loopback() {
            let what = format!(
                "{listen} is not a loopback address, and plain HTTP is served only on loopback; add a table [tls] with ca, \
                 cert and key, or listen on 127.0.0.1 or [::1]"
            );
            self.note("listen", what);
        }
        if listen == health && listen.port() != 0 {
            self.note("health", format!("{health} is also the address of `listen`; expected another port"));
        }
        if standby == Standby::Redirect && !is_shared {
            self.note("standby", "is for nodes that wait for each other, and on an embedded store there is only one");
        } else if standby == Standby::Redirect && advertise.is_none() {
            let what = "is missing; with standby = \"redirect\" others send clients here once this node is master";
            self.note("advertise", what);
        }
        if let Some(url) = &advertise {
            self.check_advertised(url, has_tls_table);
        }
        Some(Config {
            node,
            listen,
            tls,
            health,
            advertise_url: advertise.as_ref().map(without_slash),
            store: store?,
            standby,
            timing,
            limits,
            task_rejections_max,
            definitions_kept,
            outbound,
            cells_file,
            identity: identity?,
            migration,
            encryption: None,
            newest: NEWEST,
            rollback_on_drain_to,
            locket,
            api_version: api::version::CURRENT,
        })
    }

    fn check_advertised(&mut self, url: &Url, has_tls: bool) {
        let what = match (url.scheme(), has_tls) {
            ("http", true) => "begins with http://, but this node serves TLS; expected https://",
            ("https", false) => "begins with https://, but this node has no table [tls]; add one, or use http://",
            ("http", false) if !is_loopback(url) => "is plain HTTP to another machine; plain HTTP is only for loopback",
            _ => return,
        };
        self.note("advertise", format!("{:?} {what}", without_slash(url)));
    }

    /// By default beside the store, so that it does not vanish together with what it identifies.
    fn identity(&mut self, raw: Raw, store: Option<&Store>) -> Option<PathBuf> {
        let is_given = raw.is_some();
        let given = self.optional("identity", raw, text).map(PathBuf::from);
        let store_dir = match store? {
            Store::Embedded { dir } => dir,
            Store::Etcd(_) => {
                if !is_given {
                    let what = "is missing; expected a file on a disk of this machine that is there after a restart";
                    self.note("identity", what);
                }
                return given;
            }
        };
        if given.as_ref().is_some_and(|path| path.starts_with(store_dir)) {
            let what = "lies in the directory of the store, with which it would be lost; expected a file outside of it";
            self.note("identity", what);
        }
        if is_given {
            return given;
        }
        let beside = identity_beside(store_dir);
        if beside.is_none() {
            let what = "is missing, and the store's directory has no name to make a default from; expected a file outside \
                        of that directory";
            self.note("identity", what);
        }
        beside
    }

    fn migration(&mut self, raw: RawMigration) -> (Migration, Option<u64>) {
        self.refuse_unknown("migration.", RawMigration::KEYS, &raw.unknown);
        let usual = Migration::default();
        let migration = Migration {
            mode: self.or("migration.mode", raw.mode, usual.mode, |value| word(value, MODES)),
            start: self.or("migration.start", raw.start, usual.start, |value| word(value, STARTS)),
            finalization: self
                .or("migration.finalization", raw.finalization, usual.finalization, |value| word(value, FINALIZATIONS)),
            records_per_s_max: self.or(
                "migration.records_per_s_max",
                raw.records_per_s_max,
                usual.records_per_s_max,
                rate,
            ),
        };
        let key = "migration.rollback_on_drain_to_version";
        (migration, self.optional(key, raw.rollback_on_drain_to_version, data_version))
    }

    fn tls(&mut self, raw: Option<RawTls>) -> Option<TlsFiles> {
        let raw = raw?;
        self.refuse_unknown("tls.", RawTls::KEYS, &raw.unknown);
        if raw.ca.is_none() && raw.cert.is_none() && raw.key.is_none() {
            self.note("tls", "is empty; expected ca, cert and key");
            return None;
        }
        self.tls_files("tls", raw.ca, raw.cert, raw.key)
    }

    fn timing(&mut self, raw: RawTiming) -> (Timing, std::time::Duration) {
        self.refuse_unknown("timing.", RawTiming::KEYS, &raw.unknown);
        let usual = Timing::default();
        let converge = self.or("timing.converge_interval", raw.converge_interval, usual.converge_interval, duration);
        let kick_task = self.or("timing.kick_task", raw.kick_task, usual.kick_task, duration);
        let pending =
            self.or("timing.expire_pending_task", raw.expire_pending_task, usual.expire_pending_task, duration);
        let completed =
            self.or("timing.expire_completed_task", raw.expire_completed_task, usual.expire_completed_task, duration);
        let timing = Timing {
            converge_interval: converge,
            kick_task,
            expire_pending_task: pending,
            expire_completed_task: completed,
        };
        let usual = Outbound::default().communication_timeout;
        (timing, self.or("timing.communication_timeout", raw.communication_timeout, usual, duration))
    }

    fn limits(&mut self, raw: RawLimits) -> Limits {
        self.refuse_unknown("limits.", RawLimits::KEYS, &raw.unknown);
        let usual = Limits::default();
        Limits {
            body_bytes_max: self.or("limits.body_bytes_max", raw.body_bytes_max, usual.body_bytes_max, count),
            header_bytes_max: self.or("limits.header_bytes_max", raw.header_bytes_max, usual.header_bytes_max, count),
            connections_max: self.or("limits.connections_max", raw.connections_max, usual.connections_max, count),
            handshake_timeout: self.or(
                "limits.handshake_timeout",
                raw.handshake_timeout,
                usual.handshake_timeout,
                duration,
            ),
            idle_timeout: self.or("limits.idle_timeout", raw.idle_timeout, usual.idle_timeout, duration),
            body_timeout: self.or("limits.body_timeout", raw.body_timeout, usual.body_timeout, duration),
            stall_timeout: self.or("limits.stall_timeout", raw.stall_timeout, usual.stall_timeout, duration),
            drain_timeout: self.or("limits.drain_timeout", raw.drain_timeout, usual.drain_timeout, duration),
        }
    }

    fn auctioneer(&mut self, raw: RawAuctioneer, outbound: &mut Outbound) {
        self.refuse_unknown("auctioneer.", RawAuctioneer::KEYS, &raw.unknown);
        let urls = self.optional("auctioneer.url", raw.url, web_urls).unwrap_or_default();
        let require_tls = self.or("auctioneer.require_tls", raw.require_tls, outbound.auctioneer_require_tls, boolean);
        let has_files = raw.ca.is_some();
        let tls = self.tls_files("auctioneer", raw.ca, raw.cert, raw.key);
        let begins_with = |scheme: &str| urls.iter().any(|url| url.scheme() == scheme);
        if begins_with("https") && !has_files {
            let what = "begins with https://, which needs ca, cert and key in the table [auctioneer]";
            self.note("auctioneer.url", what);
        }
        if begins_with("http") && require_tls {
            self.note("auctioneer.require_tls", "is true, but `url` begins with http://; expected https://");
        }
        outbound.auctioneer_url =
            (!urls.is_empty()).then(|| urls.iter().map(without_slash).collect::<Vec<_>>().join(","));
        outbound.auctioneer_require_tls = require_tls;
        outbound.auctioneer_tls = tls;
    }

    fn cells(&mut self, raw: RawCells, outbound: &mut Outbound) -> Option<PathBuf> {
        self.refuse_unknown("cells.", RawCells::KEYS, &raw.unknown);
        let has_files = raw.ca.is_some();
        outbound.cell_require_tls = self.or("cells.require_tls", raw.require_tls, outbound.cell_require_tls, boolean);
        outbound.update_workers = self.or("cells.workers", raw.workers, outbound.update_workers, count);
        outbound.cell_tls = self.tls_files("cells", raw.ca, raw.cert, raw.key);
        if outbound.cell_require_tls && !has_files {
            self.note("cells.require_tls", "is true, which needs ca, cert and key in the table [cells]");
        }
        self.optional("cells.file", raw.file, text).map(PathBuf::from)
    }

    /// Callbacks go to consumers that know this server by the certificate of its API, so that is the default identity.
    fn callbacks(&mut self, raw: RawCallbacks, of_api: Option<&TlsFiles>, outbound: &mut Outbound) {
        self.refuse_unknown("callbacks.", RawCallbacks::KEYS, &raw.unknown);
        outbound.callback_body =
            self.or("callbacks.body", raw.body, outbound.callback_body, |value| word(value, BODIES));
        outbound.callback_give_up = self.or("callbacks.give_up", raw.give_up, outbound.callback_give_up, duration);
        outbound.callback_workers = self.or("callbacks.workers", raw.workers, outbound.callback_workers, count);
        outbound.callback_tls = self.tls_files("callbacks", raw.ca, raw.cert, raw.key).or_else(|| of_api.cloned());
    }

    /// Three files or none: two of them are a mistake that would otherwise show at the first handshake.
    pub(crate) fn tls_files(&mut self, table: &str, ca: Raw, cert: Raw, key: Raw) -> Option<TlsFiles> {
        if ca.is_none() && cert.is_none() && key.is_none() {
            return None;
        }
        let mut path = |name: &str, raw: Raw| {
            let at = format!("{table}.{name}");
            if raw.is_none() {
                self.note(&at, "is missing; ca, cert and key belong together");
            }
            self.optional(&at, raw, text).map(PathBuf::from)
        };
        let (ca, cert, key) = (path("ca", ca), path("cert", cert), path("key", key));
        Some(TlsFiles { ca: ca?, cert: cert?, key: key?, skip_verify: false })
    }

    pub(crate) fn optional<T>(&mut self, key: &str, raw: Raw, read: fn(&Value) -> Result<T, String>) -> Option<T> {
        let value = raw?;
        self.places.push((key.to_owned(), value.span()));
        match read(value.get_ref()) {
            Ok(value) => Some(value),
            Err(what) => {
                self.note(key, what);
                None
            }
        }
    }

    pub(crate) fn or<T>(&mut self, key: &str, raw: Raw, default: T, read: fn(&Value) -> Result<T, String>) -> T {
        self.optional(key, raw, read).unwrap_or(default)
    }

    pub(crate) fn note(&mut self, key: &str, what: impl Into<String>) {
        let span = self.places.iter().find(|(place, _)| place == key).map(|(_, span)| span.clone());
        self.problems.push(Problem { key: key.to_owned(), what: what.into(), span });
    }

    pub(crate) fn refuse_unknown(&mut self, table: &str, known: &[&str], unknown: &[Spanned<String>]) {
        for key in unknown {
            let what = format!("is not a key; expected one of {}", known.join(", "));
            self.problems.push(Problem { key: format!("{table}{}", key.get_ref()), what, span: Some(key.span()) });
        }
    }
}

/// `None` for a directory without a name.
pub(super) fn identity_beside(store_dir: &Path) -> Option<PathBuf> {
    let mut name = store_dir.file_name()?.to_owned();
    name.push(IDENTITY_SUFFIX);
    Some(store_dir.with_file_name(name))
}

/// Paths are appended to these URLs, and each begins with its own slash.
pub(crate) fn without_slash(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}
