//! From the members of Diego's file to a [`Config`], or everything that is wrong with them.
//!
//! What the Go BBS refuses to start with is refused here too, so that a file which was changed still serves for the way
//! back. What may be left out has the default of our own file. Nothing is read from disk here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::client::TlsFiles;
use bbs::config::{CallbackBody, Config, Limits, Locket, Migration, Outbound, Rotation, Standby, Store, Timing};
use store::seal::{KeyName, Secret};
use toml::Value;
use url::Url;

use super::Account;
use super::known::{Fate, KEYS, Kind, REQUIRED, STORE};
use super::members::{Member, members, type_of};
use crate::config::Problem;
use crate::config::check::{DEFAULT_DEFINITIONS_KEPT, DEFAULT_TASK_RETRIES, identity_beside, without_slash};
use crate::config::encryption::{KeyFrom, KeySpec};
use crate::config::locket::{KEEPALIVE_TIMEOUT, host_and_port};
use crate::config::values;
use crate::data_version::NEWEST;
use crate::duration::{self, DurationError};
use crate::logging::lager::{Level, Shape, TimeFormat};

const DRIVERS: &[&str] = &["mysql", "postgres"];
const LEVELS: &[(&str, Level)] =
    &[("debug", Level::Debug), ("info", Level::Info), ("error", Level::Error), ("fatal", Level::Fatal)];
const TIME_FORMATS: &[(&str, TimeFormat)] = &[("unix-epoch", TimeFormat::UnixEpoch), ("rfc3339", TimeFormat::Rfc3339)];
const DEFAULT_SESSION: &str = "bbs";

/// What the file says, as far as it has the right types.
pub(super) struct Reading<'a> {
    file: &'a str,
    found: BTreeMap<&'static str, Range<usize>>,
    /// Keys that are there, and of which everything was said.
    spoiled: BTreeSet<&'static str>,
    unknown: Vec<String>,
    problems: Vec<Problem>,
}

/// A configuration whose files were not looked at yet.
pub(super) struct Understood {
    pub(super) config: Config,
    pub(super) keys: KeySpec,
    pub(super) account: Account,
    pub(super) places: BTreeMap<&'static str, Range<usize>>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(file: &'a str, whole: &[Member]) -> Self {
        let (found, spoiled, unknown, problems) = Default::default();
        let mut reading = Self { file, found, spoiled, unknown, problems };
        for Member { key, at } in whole {
            match KEYS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(key)) {
                Some((name, kind, _)) => {
                    let before = reading.problems.len();
                    reading.check(name, *kind, at.clone());
                    if reading.problems.len() == before {
                        reading.found.insert(name, at.clone());
                    } else {
                        reading.spoiled.insert(name);
                    }
                }
                None => reading.unknown.push(key.clone()),
            }
        }
        reading
    }

    /// Whether Go's decoder would take the value, down into groups.
    fn check(&mut self, key: &str, kind: Kind, at: Range<usize>) {
        let raw = &self.file[at.clone()];
        let first = raw.as_bytes().first().copied().unwrap_or_default();
        let (fits, expected) = match kind {
            Kind::Text | Kind::Password => (first == b'"', "text in quotes"),
            Kind::Flag => (matches!(first, b't' | b'f'), "true or false"),
            Kind::Whole => (raw.parse::<i64>().is_ok(), "a whole number"),
            Kind::Duration => (first == b'"', "a duration in quotes, such as \"10s\""),
            Kind::TextList => (serde_json::from_str::<Vec<String>>(raw).is_ok(), "a list of texts in quotes"),
            Kind::TimeFormat => (matches!(first, b'"' | b'0' | b'1'), "\"unix-epoch\" or \"rfc3339\""),
            Kind::Keys => (first == b'{', "an object of passphrases by label"),
            Kind::Group(_) => (first == b'{', "an object"),
        };
        if !fits {
            let what = format!("is {}; expected {expected}", type_of(raw));
            self.problems.push(Problem { key: key.to_owned(), what, span: Some(at) });
            return;
        }
        match kind {
            Kind::Group(known) => self.check_group(key, known, at),
            // Go takes a negative one; whether it makes sense is asked only of those that are used.
            Kind::Duration => match serde_json::from_str::<String>(raw).map(|text| (duration::parse(&text), text)) {
                Ok((Ok(_) | Err(DurationError::Negative), _)) => {}
                Ok((Err(error), text)) => {
                    self.problems.push(Problem {
                        key: key.to_owned(),
                        what: format!("{text:?} {error}"),
                        span: Some(at),
                    });
                }
                Err(_) => self.spoil(key, at),
            },
            Kind::Text if serde_json::from_str::<String>(raw).is_err() => self.spoil(key, at),
            _ => {}
        }
    }

    fn spoil(&mut self, key: &str, at: Range<usize>) {
        let what = "is text with half a character in it (\\ud800 to \\udfff come in pairs); expected text".to_owned();
        self.problems.push(Problem { key: key.to_owned(), what, span: Some(at) });
    }

    fn check_group(&mut self, group: &str, known: &'static [(&'static str, Kind)], at: Range<usize>) {
        // That it is JSON was seen when the whole file was read.
        for Member { key, at } in members(self.file, at).unwrap_or_default() {
            match known.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)) {
                Some((name, kind)) => self.check(&format!("{group}.{name}"), *kind, at),
                None => self.unknown.push(format!("{group}.{key}")),
            }
        }
    }

    pub(super) fn understood(mut self, store_flag: Option<&Path>, path: &Path) -> Result<Understood, Vec<Problem>> {
        for (key, expected) in REQUIRED {
            if self.is_absent(key) {
                self.note(key, format!("is missing; expected {expected}"));
            }
        }
        self.shape();
        self.read("report_interval", values::duration);
        let database = self.read("database_driver", driver);
        let keys = self.keys();
        let config = self.config(store_flag, path);
        match (config, keys) {
            (Some(config), Some(keys)) if self.problems.is_empty() => {
                let account = self.account(database.unwrap_or_default());
                Ok(Understood { config, keys, account, places: self.found })
            }
            _ => Err(self.problems),
        }
    }

    /// How the log shall look. What cannot be understood is noted.
    pub(super) fn shape(&mut self) -> Shape {
        let source = self.text("session_name").unwrap_or_else(|| DEFAULT_SESSION.to_owned());
        let level = self.or("log_level", Level::Info, |value| values::word(value, LEVELS));
        let time = match self.found.get("time_format").map(|at| &self.file[at.clone()]) {
            Some("1" | "\"1\"") => TimeFormat::Rfc3339,
            Some("0" | "\"0\"") | None => TimeFormat::UnixEpoch,
            Some(_) => self.or("time_format", TimeFormat::UnixEpoch, |value| values::word(value, TIME_FORMATS)),
        };
        let text_bytes_max = self.or("max_data_string_length", 0, values::number);
        Shape { source, level, time, text_bytes_max: usize::try_from(text_bytes_max).unwrap_or_default() }
    }

    fn config(&mut self, store_flag: Option<&Path>, path: &Path) -> Option<Config> {
        let uuid = self.text("uuid");
        let listen = self.read("listen_address", go_address);
        let health = self.read("health_address", go_address);
        if listen == health && listen.is_some_and(|listen| listen.port() != 0) {
            self.note("health_address", "is also the address of `listen_address`; expected another port");
        }
        let tls = self.files(["ca_file", "cert_file", "key_file"], true);
        let advertise = self.read("advertise_url", values::web_url);
        if advertise.as_ref().is_some_and(|url| url.scheme() != "https") {
            self.note("advertise_url", "begins with http://, but the BBS serves TLS; expected https://");
        }
        let outbound = self.outbound(tls.clone());
        let locket = self.locket(uuid.as_deref().unwrap_or_default());
        let timing = self.timing();
        let task_rejections_max = self.or("max_task_retries", DEFAULT_TASK_RETRIES, values::number);
        let dir = self.store_dir(store_flag, path);
        let identity = dir.as_deref().and_then(identity_beside);
        if dir.is_some() && identity.is_none() {
            self.note(
                STORE,
                "is a directory without a name, so that nothing can lie beside it; expected one with a name",
            );
        }
        Some(Config {
            node: uuid?,
            listen: listen?,
            tls: Some(tls?),
            health: health?,
            advertise_url: advertise.as_ref().map(without_slash),
            store: Store::Embedded { dir: dir? },
            standby: Standby::Closed,
            timing,
            limits: Limits::default(),
            task_rejections_max,
            definitions_kept: DEFAULT_DEFINITIONS_KEPT,
            outbound,
            cells_file: None,
            identity: identity?,
            migration: Migration::default(),
            encryption: None,
            newest: NEWEST,
            rollback_on_drain_to: None,
            locket: Some(locket?),
            api_version: api::version::CURRENT,
        })
    }

    fn timing(&mut self) -> Timing {
        let usual = Timing::default();
        let expire_completed_task = usual.expire_completed_task;
        Timing {
            converge_interval: self.or("converge_repeat_interval", usual.converge_interval, values::duration),
            kick_task: self.or("kick_task_duration", usual.kick_task, values::duration),
            expire_pending_task: self.or("expire_pending_task_duration", usual.expire_pending_task, values::duration),
            expire_completed_task: self.or("expire_completed_task_duration", expire_completed_task, values::duration),
        }
    }

    /// Callbacks are made as the Go BBS makes them: with its body, and with the certificate of the API.
    fn outbound(&mut self, callback_tls: Option<TlsFiles>) -> Outbound {
        let usual = Outbound::default();
        let of_auctioneer = ["auctioneer_ca_cert", "auctioneer_client_cert", "auctioneer_client_key"];
        let has_auctioneer_files = of_auctioneer.iter().any(|key| !self.is_absent(key));
        let auctioneer_tls = self.files(of_auctioneer, false);
        let auctioneer_url = self.read("auctioneer_address", values::web_url);
        let auctioneer_require_tls = self.or("auctioneer_require_tls", false, values::boolean);
        match auctioneer_url.as_ref().map(Url::scheme) {
            Some("https") if !has_auctioneer_files => {
                let what = "begins with https://, which needs auctioneer_ca_cert, auctioneer_client_cert and \
                            auctioneer_client_key";
                self.note("auctioneer_address", what);
            }
            Some("http") if auctioneer_require_tls => {
                let what = "is true, but `auctioneer_address` begins with http://; expected https://";
                self.note("auctioneer_require_tls", what);
            }
            _ => {}
        }
        let of_rep = ["rep_ca_cert", "rep_client_cert", "rep_client_key"];
        let has_rep_files = of_rep.iter().any(|key| !self.is_absent(key));
        let cell_tls = self.files(of_rep, false);
        // Newer releases have no such key: where there are certificates, TLS is required.
        let cell_require_tls = self.or("rep_require_tls", has_rep_files, values::boolean);
        if cell_require_tls && !has_rep_files {
            self.note("rep_require_tls", "is true, which needs rep_ca_cert, rep_client_cert and rep_client_key");
        }
        Outbound {
            auctioneer_url: auctioneer_url.as_ref().map(without_slash),
            auctioneer_tls,
            auctioneer_require_tls,
            cell_tls,
            cell_require_tls,
            callback_tls,
            communication_timeout: self.or("communication_timeout", usual.communication_timeout, values::duration),
            update_workers: self.or("update_workers", usual.update_workers, values::count),
            callback_workers: self.or("task_callback_workers", usual.callback_workers, values::count),
            callback_body: CallbackBody::Full,
            callback_give_up: usual.callback_give_up,
        }
    }

    fn locket(&mut self, owner: &str) -> Option<Locket> {
        let address = self.read("locket_address", host_and_port);
        let tls = self.files(["locket_ca_cert_file", "locket_client_cert_file", "locket_client_key_file"], true);
        let seconds = |number: i32| Duration::from_secs(u64::try_from(number).unwrap_or_default());
        let time = seconds(self.or("locket_client_keepalive_time", 0, values::number));
        let silence = seconds(self.or("locket_client_keepalive_timeout", 0, values::number));
        let silence = if silence.is_zero() { KEEPALIVE_TIMEOUT } else { silence };
        let keepalive = (!time.is_zero()).then_some((time, silence));
        Some(Locket { address: address?, tls: tls?, owner: owner.to_owned(), keepalive })
    }

    fn store_dir(&mut self, flag: Option<&Path>, path: &Path) -> Option<PathBuf> {
        let of_file = self.text(STORE).map(PathBuf::from);
        if flag.is_none() && self.is_absent(STORE) {
            let what = format!(
                "is missing, and so is --store. The SQL database is not used; records are kept in a directory of this \
                 machine. Say which: `corkboard bbs --config {} --store DIR`, or \"{STORE}\": \"DIR\" in this file",
                path.display()
            );
            self.note(STORE, what);
        }
        flag.map(Path::to_owned).or(of_file)
    }

    fn keys(&mut self) -> Option<KeySpec> {
        let at = self.found.get("encryption_keys")?.clone();
        let mut keys: BTreeMap<String, (KeyName, KeyFrom)> = BTreeMap::new();
        let before = self.problems.len();
        for Member { key: label, at } in members(self.file, at).unwrap_or_default() {
            match key(&label, &self.file[at.clone()]) {
                Ok(key) => _ = keys.insert(label, key),
                Err(what) => {
                    self.problems.push(Problem { key: format!("encryption_keys.{label}"), what, span: Some(at) });
                }
            }
        }
        let active = self.text("active_key_label");
        if self.problems.len() > before {
            return None;
        }
        if keys.is_empty() {
            self.note("encryption_keys", "is empty; expected at least one key");
            return None;
        }
        let Some((active, _)) = keys.get(&active?) else {
            let known: Vec<&str> = keys.keys().map(String::as_str).collect();
            self.note(
                "active_key_label",
                format!("is not among encryption_keys; expected one of {}", known.join(", ")),
            );
            return None;
        };
        Some(KeySpec { active: active.clone(), keys: keys.into_values().collect(), rotation: Rotation::default() })
    }

    /// Three files or none.
    fn files(&mut self, [ca, cert, key]: [&'static str; 3], are_required: bool) -> Option<TlsFiles> {
        let all = [ca, cert, key];
        if !are_required && all.iter().all(|key| self.is_absent(key)) {
            return None;
        }
        for key in all {
            if self.is_absent(key) {
                self.note(key, format!("is missing; {ca}, {cert} and {key} belong together", key = all[2]));
            }
        }
        let mut path = |key| self.text(key).map(PathBuf::from);
        let (ca, cert, key) = (path(ca), path(cert), path(key));
        Some(TlsFiles { ca: ca?, cert: cert?, key: key?, skip_verify: false })
    }

    fn is_absent(&self, key: &str) -> bool {
        self.is_empty(key) && !self.spoiled.contains(key)
    }

    /// Nothing that could be read: not there, or nothing in it, which is the same to Go.
    fn is_empty(&self, key: &str) -> bool {
        self.found.get(key).is_none_or(|at| &self.file[at.clone()] == "\"\"")
    }

    fn text(&mut self, key: &'static str) -> Option<String> {
        self.read(key, values::text)
    }

    fn or<T>(&mut self, key: &'static str, default: T, read: fn(&Value) -> Result<T, String>) -> T {
        self.read(key, read).unwrap_or(default)
    }

    fn read<T>(&mut self, key: &'static str, read: fn(&Value) -> Result<T, String>) -> Option<T> {
        if self.is_empty(key) {
            return None;
        }
        let raw = &self.file[self.found.get(key)?.clone()];
        // The types are right, so that nothing else is left.
        let value = match raw {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            _ => match raw.parse() {
                Ok(number) => Value::Integer(number),
                Err(_) => Value::String(serde_json::from_str(raw).ok()?),
            },
        };
        match read(&value) {
            Ok(value) => Some(value),
            Err(what) => {
                self.note(key, what);
                None
            }
        }
    }

    fn note(&mut self, key: &'static str, what: impl Into<String>) {
        self.problems.push(Problem { key: key.to_owned(), what: what.into(), span: self.found.get(key).cloned() });
    }

    fn account(&self, database: &'static str) -> Account {
        let (mut used, mut ignored) = (Vec::new(), Vec::new());
        for (key, _, fate) in KEYS.iter().filter(|(key, ..)| !self.is_empty(key)) {
            match fate {
                Fate::Used => used.push(*key),
                Fate::Ignored(why) => ignored.push((*key, *why)),
            }
        }
        Account { used, ignored, unknown: self.unknown.clone(), database, remarks: Vec::new() }
    }
}

/// Not repeated when it is wrong: what was mixed up with it holds a password.
fn driver(value: &Value) -> Result<&'static str, String> {
    let text = values::text(value)?;
    let known = DRIVERS.iter().find(|driver| **driver == text);
    known.copied().ok_or_else(|| "is not a database that Diego knows; expected \"mysql\" or \"postgres\"".to_owned())
}

/// As Go writes addresses: without a host it is every address of this machine.
fn go_address(value: &Value) -> Result<SocketAddr, String> {
    let text = values::text(value)?;
    let text = match text.split_once(':') {
        Some(("", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => text,
    };
    values::address(&Value::String(text))
}

/// The name of a key is its label, and its bytes are those of the passphrase.
fn key(label: &str, raw: &str) -> Result<(KeyName, KeyFrom), String> {
    let name = KeyName::parse(label).map_err(|error| error.to_string())?;
    if type_of(raw) != "text" {
        return Err(format!("is {}; expected a passphrase in quotes", type_of(raw)));
    }
    let phrase: String = serde_json::from_str(raw)
        .map_err(|_| "is text with half a character in it (\\ud800 to \\udfff come in pairs)".to_owned())?;
    Ok((name, KeyFrom::Here(Secret::new(phrase.into_bytes()))))
}
