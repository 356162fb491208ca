//! The table `[store]`: a directory of this machine, or an etcd cluster.
//!
//! Records in etcd leave this machine, so there they are sealed and the lines are TLS; only on loopback may a line be plain.

use std::path::PathBuf;
use std::time::Duration;

use bbs::config::Store;
use store::etcd::{LEASE_MAX, LEASE_MIN, Options, PREFIX_BYTES_MAX, TlsFiles, User};
use toml::Value;
use url::Url;
use zeroize::Zeroizing;

use super::check::Reader;
use super::raw::{Raw, RawStore};
use super::values::{boolean, duration, text, text_list, word};
use crate::reach::is_loopback;

const DEFAULT_PREFIX: &str = "/corkboard";
const DEFAULT_LEASE: Duration = Duration::from_secs(10);
const ENDPOINTS_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Embedded,
    Etcd,
}

const ENGINES: &[(&str, Engine)] = &[("embedded", Engine::Embedded), ("etcd", Engine::Etcd)];

/// What the table says, and the file with the password, which is read later.
pub(super) type Chosen = (Option<Store>, Option<PathBuf>);

impl Reader {
    pub(super) fn store(&mut self, raw: RawStore) -> Chosen {
        self.refuse_unknown("store.", RawStore::KEYS, &raw.unknown);
        let engine = self.or("store.engine", raw.engine.clone(), Engine::Embedded, |value| word(value, ENGINES));
        match engine {
            Engine::Embedded => (self.embedded(raw), None),
            Engine::Etcd => self.etcd(raw),
        }
    }

    fn embedded(&mut self, raw: RawStore) -> Option<Store> {
        let only_etcd = [
            ("endpoints", &raw.endpoints),
            ("prefix", &raw.prefix),
            ("lease", &raw.lease),
            ("user", &raw.user),
            ("password_file", &raw.password_file),
            ("compact", &raw.compact),
            ("ca", &raw.ca),
            ("cert", &raw.cert),
            ("key", &raw.key),
        ];
        for (key, value) in only_etcd {
            self.refuse_with(key, value, "is for engine = \"etcd\"; leave it out, or change the engine");
        }
        let is_missing = raw.dir.is_none();
        let dir = self.optional("store.dir", raw.dir, text);
        if is_missing {
            self.note("store.dir", "is missing; expected the directory that holds the records, on a local disk");
        }
        dir.map(|dir| Store::Embedded { dir: dir.into() })
    }

    fn etcd(&mut self, raw: RawStore) -> Chosen {
        self.refuse_with("dir", &raw.dir, "is for engine = \"embedded\"; leave it out, or change the engine");
        let endpoints = self.endpoints(raw.endpoints);
        let prefix = self.or("store.prefix", raw.prefix, DEFAULT_PREFIX.to_owned(), prefix);
        let lease = self.or("store.lease", raw.lease, DEFAULT_LEASE, lease);
        let compacts = self.or("store.compact", raw.compact, true, boolean);
        let (has_user, has_password) = (raw.user.is_some(), raw.password_file.is_some());
        let name = self.optional("store.user", raw.user, text);
        let password_file = self.optional("store.password_file", raw.password_file, text).map(PathBuf::from);
        if has_user != has_password {
            let missing = if has_user { "store.password_file" } else { "store.user" };
            self.note(missing, "is missing; user and password_file belong together");
        }
        let tls = self.etcd_tls(&endpoints, raw.ca, raw.cert, raw.key);
        let options = Options {
            endpoints: endpoints.iter().map(|url| url.as_str().trim_end_matches('/').to_owned()).collect(),
            prefix,
            lease,
            tls,
            user: name.map(|name| User { name, password: Zeroizing::new(String::new()) }),
            compacts,
        };
        (Some(Store::Etcd(options)), password_file)
    }

    fn endpoints(&mut self, raw: Raw) -> Vec<Url> {
        const KEY: &str = "store.endpoints";
        if raw.is_none() {
            self.note(KEY, "is missing; expected the members of the cluster, such as [\"https://10.0.0.1:2379\"]");
            return Vec::new();
        }
        let listed = self.optional(KEY, raw, text_list).unwrap_or_default();
        if listed.len() > ENDPOINTS_MAX {
            self.note(KEY, format!("lists {}; expected at most {ENDPOINTS_MAX}", listed.len()));
        }
        let mut urls: Vec<Url> = Vec::new();
        for text in listed {
            match endpoint(&text) {
                Ok(url) if urls.contains(&url) => self.note(KEY, format!("names {text} twice")),
                Ok(url) => urls.push(url),
                Err(what) => self.note(KEY, what),
            }
        }
        urls
    }

    /// A certificate of our own is needed only where etcd asks for one.
    fn etcd_tls(&mut self, endpoints: &[Url], ca: Raw, cert: Raw, key: Raw) -> Option<TlsFiles> {
        let (has_ca, has_cert, has_key) = (ca.is_some(), cert.is_some(), key.is_some());
        let mut path = |name: &str, raw| self.optional(&format!("store.{name}"), raw, text).map(PathBuf::from);
        let (ca, cert, key) = (path("ca", ca), path("cert", cert), path("key", key));
        if has_cert != has_key {
            let missing = if has_cert { "store.key" } else { "store.cert" };
            self.note(missing, "is missing; cert and key belong together");
        }
        let is_tls = endpoints.iter().any(|url| url.scheme() == "https");
        if is_tls && !has_ca {
            self.note("store.ca", "is missing; https endpoints need the authority that signed their certificates");
        }
        // Without an endpoint that can be understood, nobody knows what they are for.
        let given = [("store.ca", has_ca), ("store.cert", has_cert), ("store.key", has_key)];
        if let Some((first, _)) = given.iter().find(|(_, is_given)| *is_given && !is_tls && !endpoints.is_empty()) {
            self.note(first, "is for https endpoints, and there are none; leave ca, cert and key out, or use https://");
        }
        Some(TlsFiles { ca: ca?, identity: cert.zip(key) })
    }

    fn refuse_with(&mut self, key: &str, value: &Raw, what: &str) {
        if let Some(value) = value {
            let key = format!("store.{key}");
            self.places.push((key.clone(), value.span()));
            self.note(&key, what);
        }
    }
}

fn endpoint(text: &str) -> Result<Url, String> {
    const EXPECTED: &str = "expected URLs such as \"https://10.0.0.1:2379\"";
    let url: Url = text.parse().map_err(|error| format!("holds what is not a URL ({error}); {EXPECTED}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user name or a password; they have keys of their own, user and password_file".to_owned());
    }
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !is_bare {
        return Err(format!("holds {text:?}, which is not the address of a member; {EXPECTED}"));
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(format!("holds {text:?}, which is plain text to another machine; expected https://"));
    }
    Ok(url)
}

fn prefix(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain || !text.starts_with('/') || text.ends_with('/') || text.len() > PREFIX_BYTES_MAX {
        let expected = format!("a slash and a name, such as {DEFAULT_PREFIX:?}, of at most {PREFIX_BYTES_MAX} letters");
        return Err(format!("{text:?} cannot be a prefix; expected {expected}"));
    }
    Ok(text)
}

fn lease(value: &Value) -> Result<Duration, String> {
    let lease = duration(value)?;
    if lease.subsec_nanos() != 0 || lease < LEASE_MIN || lease > LEASE_MAX {
        return Err(format!(
            "{lease:?} is not a lease that etcd keeps; expected whole seconds, from {LEASE_MIN:?} to {LEASE_MAX:?}"
        ));
    }
    Ok(lease)
}
