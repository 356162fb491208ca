//! The tables that the files of several programs have: who we are, where the state server, Locket and NATS are.
//!
//! `[tls]` is the one identity of a program, for its own port and for whatever it calls; a table that names files of its own
//! uses those. Without any, everything is plain and on loopback.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use api::client::{ClientConfig, TlsFiles};
use api::locket::Options;
use api::registry::nats::NatsConfig;
use url::Url;

use super::machine;
use super::raw::{RawBbs, RawLocket, RawNats};
use crate::config::check::{Reader, without_slash};
use crate::config::encryption::read_password;
use crate::config::files;
use crate::config::locket::host_and_port;
use crate::config::raw::{Raw, RawTls};
use crate::config::values::{text, text_list};
use crate::reach::is_loopback;

/// Addresses of one service.
const ADDRESSES_MAX: usize = 16;

/// A file that is being understood.
pub(super) struct Sheet<'a> {
    pub(super) reader: &'a mut Reader,
    pub(super) folder: &'a Path,
}

/// Files that were asked for. A table that is there and wrong counts as given, so that one mistake is told once.
#[derive(Clone, Debug, Default)]
pub(super) struct Identity {
    pub(super) is_given: bool,
    pub(super) files: Option<TlsFiles>,
}

impl Identity {
    fn or(self, other: &Self) -> Self {
        if self.is_given { self } else { other.clone() }
    }
}

impl Sheet<'_> {
    /// Taken from the folder of the file. Joining with an absolute path gives that path.
    pub(super) fn path(&mut self, key: &str, raw: Raw) -> Option<PathBuf> {
        self.reader.optional(key, raw, text).map(|path| self.folder.join(path))
    }

    pub(super) fn node(&mut self, raw: Raw, default: &str) -> String {
        let default = machine::name().unwrap_or_else(|| default.to_owned());
        self.reader.or("node", raw, default, text)
    }

    pub(super) fn tls(&mut self, raw: Option<RawTls>) -> Identity {
        let Some(raw) = raw else { return Identity::default() };
        self.reader.refuse_unknown("tls.", RawTls::KEYS, &raw.unknown);
        if raw.ca.is_none() && raw.cert.is_none() && raw.key.is_none() {
            self.reader.note("tls", "is empty; expected ca, cert and key");
        }
        let identity = self.identity("tls", raw.ca, raw.cert, raw.key);
        Identity { is_given: true, files: identity.files }
    }

    /// Three files or none. That they can be used is looked at here: a program that finds out at its first handshake is
    /// already in the way.
    pub(super) fn identity(&mut self, table: &str, ca: Raw, cert: Raw, key: Raw) -> Identity {
        let is_given = ca.is_some() || cert.is_some() || key.is_some();
        let files = self.reader.tls_files(table, ca, cert, key).map(|files| TlsFiles {
            ca: self.folder.join(files.ca),
            cert: self.folder.join(files.cert),
            key: self.folder.join(files.key),
            ..files
        });
        let problem = |files: &TlsFiles| files::client_problem(files).or_else(|| files::server_problem(files));
        if let Some((key, what)) = files.as_ref().and_then(problem) {
            self.reader.note(&format!("{table}.{key}"), what);
        }
        Identity { is_given, files }
    }

    /// A port without TLS is on loopback.
    pub(super) fn refuse_plain_off_loopback(&mut self, key: &str, address: SocketAddr, tls: &Identity) {
        if !tls.is_given && !address.ip().is_loopback() {
            let what = format!(
                "{address} is not a loopback address, and plain HTTP is served only on loopback; add a table [tls] with ca, \
                 cert and key, or listen on 127.0.0.1 or [::1]"
            );
            self.reader.note(key, what);
        }
    }

    pub(super) fn refuse_same_port(&mut self, key: &str, address: SocketAddr, other: (&str, SocketAddr)) {
        if address == other.1 && address.port() != 0 {
            self.reader.note(key, format!("{address} is also the address of `{}`; expected another port", other.0));
        }
    }

    /// For a key that goes with another choice.
    pub(super) fn refuse_with(&mut self, table: &str, key: &str, value: Raw, what: &str) {
        let key = format!("{table}.{key}");
        if value.is_some() {
            // Its place is noted by reading it, whatever it says.
            self.reader.optional(&key, value, |_| Ok(()));
            self.reader.note(&key, what);
        }
    }

    /// `name` is how the state server lists us among its clients.
    pub(super) fn bbs(&mut self, raw: Option<RawBbs>, tls: &Identity, name: &str) -> Option<ClientConfig> {
        const KEY: &str = "bbs.urls";
        let raw = raw.unwrap_or_default();
        self.reader.refuse_unknown("bbs.", RawBbs::KEYS, &raw.unknown);
        if raw.urls.is_none() {
            let what = "is missing; expected the state servers, such as [\"https://10.0.0.1:8889\"]";
            self.reader.note(KEY, what);
        }
        let tls = self.identity("bbs", raw.ca, raw.cert, raw.key).or(tls);
        let urls = self.addresses(KEY, raw.urls, state_server);
        let schemes: Vec<&str> = urls.iter().map(Url::scheme).collect();
        match (schemes.contains(&"http"), schemes.contains(&"https")) {
            (true, true) => {
                self.reader.note(KEY, "holds http:// and https://; expected all nodes of one kind");
            }
            (_, true) if !tls.is_given => {
                self.reader.note(KEY, "begins with https://, which needs a table [tls] with ca, cert and key");
            }
            _ => {}
        }
        let tls = tls.files.filter(|_| schemes.contains(&"https"));
        let urls: Vec<String> = urls.iter().map(without_slash).collect();
        let first = urls.first()?.clone();
        Some(ClientConfig { urls, tls, name: name.to_owned(), ..ClientConfig::new(first) })
    }

    /// `None` without the table, and when it cannot be understood, which is noted.
    pub(super) fn locket(&mut self, raw: Option<RawLocket>, tls: &Identity) -> Option<Options> {
        let raw = raw?;
        self.reader.refuse_unknown("locket.", RawLocket::KEYS, &raw.unknown);
        if raw.address.is_none() {
            let what = "is missing; expected a host and a port, such as \"locket.example.org:8891\"";
            self.reader.note("locket.address", what);
        }
        let address = self.reader.optional("locket.address", raw.address, host_and_port);
        let tls = self.identity("locket", raw.ca, raw.cert, raw.key).or(tls);
        if !tls.is_given {
            let what =
                "is missing, and cert and key too, and there is no table [tls]; Locket wants to see a certificate";
            self.reader.note("locket.ca", what);
        }
        Some(Options { address: address?, tls: tls.files?, keepalive: None })
    }

    /// `tls://` is TLS, `nats://` is plain; with files in the table itself both are TLS.
    pub(super) fn nats(&mut self, raw: Option<RawNats>, tls: &Identity, name: &str) -> Option<NatsConfig> {
        const KEY: &str = "nats.urls";
        let raw = raw.unwrap_or_default();
        self.reader.refuse_unknown("nats.", RawNats::KEYS, &raw.unknown);
        if raw.urls.is_none() {
            let what = "is missing; expected the servers of the message bus, such as [\"tls://10.0.0.1:4224\"]";
            self.reader.note(KEY, what);
        }
        let own = self.identity("nats", raw.ca, raw.cert, raw.key);
        let mut urls = self.addresses(KEY, raw.urls, nats_server);
        let is_tls = own.is_given || urls.iter().any(|url| url.scheme() == "tls");
        let tls = own.or(tls);
        for url in &urls {
            match url.scheme() {
                "nats" if !is_tls && !is_on_loopback(url) => {
                    let what = format!("{:?} is plain text to another machine; expected tls://", url.as_str());
                    self.reader.note(KEY, what);
                }
                "tls" if !tls.is_given => {
                    self.reader.note(KEY, "begins with tls://, which needs ca, cert and key in the table [nats]");
                    break;
                }
                _ => {}
            }
        }
        self.log_in(raw.user, raw.password_file, &mut urls);
        let servers = urls.iter().map(|url| url.as_str().to_owned()).collect();
        Some(NatsConfig { servers, tls: tls.files.filter(|_| is_tls), name: name.to_owned() })
    }

    fn log_in(&mut self, user: Raw, password_file: Raw, urls: &mut [Url]) {
        let (has_user, has_password) = (user.is_some(), password_file.is_some());
        if has_user != has_password {
            let missing = if has_user { "nats.password_file" } else { "nats.user" };
            self.reader.note(missing, "is missing; user and password_file belong together");
        }
        let user = self.reader.optional("nats.user", user, text);
        let file = self.path("nats.password_file", password_file);
        let (Some(user), Some(file)) = (user, file) else { return };
        match read_password(&file) {
            Ok(password) => {
                for url in urls {
                    // They fail only for URLs without a host, which were refused.
                    let _ = url.set_username(&user);
                    let _ = url.set_password(Some(&password));
                }
            }
            Err(what) => self.reader.note("nats.password_file", what),
        }
    }

    fn addresses(&mut self, key: &str, raw: Raw, read: fn(&str) -> Result<Url, String>) -> Vec<Url> {
        let listed = self.reader.optional(key, raw, text_list).unwrap_or_default();
        if listed.len() > ADDRESSES_MAX {
            self.reader.note(key, format!("lists {}; expected at most {ADDRESSES_MAX}", listed.len()));
        }
        let mut urls: Vec<Url> = Vec::new();
        for text in listed {
            match read(&text) {
                Ok(url) if urls.contains(&url) => self.reader.note(key, format!("names {text} twice")),
                Ok(url) => urls.push(url),
                Err(what) => self.reader.note(key, what),
            }
        }
        urls
    }
}

fn bare(text: &str, schemes: [&str; 2], expected: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("holds what is not a URL ({error}); {expected}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("holds a user name or a password, which would show up in logs; {expected}"));
    }
    let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    if !schemes.contains(&url.scheme()) || !url.has_host() || !is_bare {
        return Err(format!("holds {text:?}, which is not the address of a server; {expected}"));
    }
    Ok(url)
}

fn state_server(text: &str) -> Result<Url, String> {
    let url = bare(text, ["http", "https"], "expected URLs such as \"https://10.0.0.1:8889\"")?;
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(format!("holds {text:?}, which is plain HTTP to another machine; expected https://"));
    }
    Ok(url)
}

fn nats_server(text: &str) -> Result<Url, String> {
    bare(
        text,
        ["nats", "tls"],
        "expected URLs such as \"nats://127.0.0.1:4222\"; user and password_file have keys of their own",
    )
}

/// The scheme is not one of the web, so that hosts are not parsed as addresses.
fn is_on_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
