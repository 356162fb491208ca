//! The addresses of the servers: which one a call goes to first, and where a redirect may lead.
//!
//! All addresses are of one group of nodes, of which one answers: the master. The one that answered last is asked first; the
//! others follow in the order in which they were given.
//!
//! A node that waits may send us to the master by a URL that we were not given. It is followed only where that is safe: the same
//! scheme, no user name, and the path of the call behind it, so that a request never arrives as another one. With TLS the
//! certificate of the new address is verified as that of every other, and must bear the host of the URL. Without TLS nothing
//! proves who is there, so only this machine itself and the addresses that we were given are accepted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::HeaderValue;
use rustls::pki_types::ServerName;
use url::{Host, Position, Url};

use super::pool::{Pool, Target};
use super::tls::client_config;
use super::{ConfigError, TlsFiles};

/// One server, and the connections to it.
pub(super) struct Address {
    /// As messages show it, without what a URL may hide in front of the host.
    pub(super) shown: String,
    pub(super) pool: Pool,
    /// The `Host` header.
    pub(super) authority: HeaderValue,
    /// What stands before the paths of the routes; mostly nothing.
    pub(super) path_prefix: String,
    url: Url,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Address {
    /// `None` when there is no such server: no host, or a host that no certificate can bear. The scheme fits `tls`.
    fn of(url: Url, tls: Option<&Arc<rustls::ClientConfig>>) -> Option<Self> {
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        // A URL writes an IPv6 address in brackets, everything else does not.
        let host = host.trim_matches(['[', ']']).to_owned();
        let tls = match tls {
            Some(config) => Some((Arc::clone(config), ServerName::try_from(host.clone()).ok()?)),
            None => None,
        };
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let path_prefix = url.path().trim_end_matches('/').to_owned();
        let shown = format!("{}://{authority}{path_prefix}", url.scheme());
        let authority = HeaderValue::from_str(authority).ok()?;
        let pool = Pool::new(Target { host, port, tls });
        Some(Self { shown, pool, authority, path_prefix, url })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

/// Where calls go.
pub(super) struct Addresses {
    given: Vec<Arc<Address>>,
    /// The one that answered last: one of `given`, or one that a redirect led to.
    preferred: Mutex<Arc<Address>>,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Addresses {
    /// The shape of the URLs is checked before the files are read.
    pub(super) fn new(urls: &[String], tls: Option<&TlsFiles>) -> Result<Self, ConfigError> {
        for url in urls {
            check(url, tls.is_some())?;
        }
        Self::with_tls(urls, tls.map(client_config).transpose()?)
    }

    fn with_tls(urls: &[String], tls: Option<Arc<rustls::ClientConfig>>) -> Result<Self, ConfigError> {
        let address = |url: &String| {
            let address = Address::of(check(url, tls.is_some())?, tls.as_ref());
            address.map(Arc::new).ok_or_else(|| ConfigError::ServerName { url: url.clone() })
        };
        let given = urls.iter().map(address).collect::<Result<Vec<_>, _>>()?;
        let preferred = Mutex::new(Arc::clone(given.first().ok_or(ConfigError::NoUrl)?));
        Ok(Self { given, preferred, tls })
    }

    pub(super) fn given(&self) -> &[Arc<Address>] {
        &self.given
    }

    /// All addresses, each once: the preferred one, then those given after it, then those before it.
    pub(super) fn round(&self) -> VecDeque<Arc<Address>> {
        let first = self.preferred();
        let after = self.given.iter().position(|address| address.is_same(&first)).map_or(0, |at| at + 1);
        let others = self.given[after..].iter().chain(&self.given[..after]).filter(|address| !address.is_same(&first));
        std::iter::once(&first).chain(others).cloned().collect()
    }

    pub(super) fn answered(&self, by: &Arc<Address>) {
        *self.preferred.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(by);
    }

    /// Where a redirect leads, if it is safe to go there. `path` is that of the call, without what stands before it.
    pub(super) fn redirected(&self, from: &Address, location: &str, path: &str) -> Option<Arc<Address>> {
        let mut url = from.url.join(location).ok()?;
        let is_anonymous = url.username().is_empty() && url.password().is_none();
        if url.scheme() != from.url.scheme() || !is_anonymous {
            return None;
        }
        // The path may carry a query, as those of operators do.
        let prefix = url[Position::BeforePath..Position::AfterQuery].strip_suffix(path)?.to_owned();
        url.set_query(None);
        url.set_fragment(None);
        url.set_path(&prefix);
        let there = Address::of(url, self.tls.as_ref())?;
        let known = self.given.iter().cloned().chain([self.preferred()]).find(|address| address.is_same(&there));
        if known.is_some() {
            return known;
        }
        (self.tls.is_some() || is_this_machine(&there.url)).then(|| Arc::new(there))
    }

    fn preferred(&self) -> Arc<Address> {
        Arc::clone(&self.preferred.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn check(text: &str, has_tls: bool) -> Result<Url, ConfigError> {
    let url = text.to_owned();
    let parsed = Url::parse(text).map_err(|source| ConfigError::Url { url: url.clone(), source })?;
    match (parsed.scheme(), has_tls) {
        _ if !parsed.has_host() => Err(ConfigError::Scheme { url }),
        ("https", true) | ("http", false) => Ok(parsed),
        ("https", false) => Err(ConfigError::TlsMissing { url }),
        ("http", true) => Err(ConfigError::TlsUnused { url }),
        _ => Err(ConfigError::Scheme { url }),
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(urls: &[&str]) -> Addresses {
        let urls: Vec<String> = urls.iter().map(ToString::to_string).collect();
        Addresses::new(&urls, None).unwrap()
    }

    fn shown(round: &VecDeque<Arc<Address>>) -> String {
        round.iter().map(|address| address.shown.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_one_that_answered_is_asked_first() {
        let addresses = plain(&["http://a", "http://b", "http://c"]);
        assert_eq!(shown(&addresses.round()), "http://a http://b http://c");
        addresses.answered(&addresses.given[1].clone());
        assert_eq!(shown(&addresses.round()), "http://b http://c http://a");
        let elsewhere = addresses.redirected(&addresses.given[0], "http://localhost:9/v1/ping", "/v1/ping").unwrap();
        addresses.answered(&elsewhere);
        assert_eq!(shown(&addresses.round()), "http://localhost:9 http://a http://b http://c");
        addresses.answered(&addresses.given[2].clone());
        assert_eq!(shown(&addresses.round()), "http://c http://a http://b", "an address learnt is not kept for ever");
    }

    /// (from, location, where it leads)
    fn check_redirects(addresses: &Addresses, cases: &[(&str, Option<&str>)]) {
        for (location, expected) in cases {
            let there = addresses.redirected(&addresses.given[0], location, "/v1/ping");
            assert_eq!(there.as_ref().map(|there| there.shown.as_str()), *expected, "{location}");
        }
    }

    #[test]
    fn without_tls_a_redirect_leads_to_this_machine_or_to_what_was_given() {
        check_redirects(
            &plain(&["http://a:1", "http://b:2/board"]),
            &[
                ("http://b:2/board/v1/ping", Some("http://b:2/board")),
                ("http://b:2/v1/ping", None),
                ("http://127.0.0.1:7/v1/ping", Some("http://127.0.0.1:7")),
                ("http://[::1]:7/x/v1/ping", Some("http://[::1]:7/x")),
                ("http://elsewhere/v1/ping", None),
                ("https://b:2/v1/ping", None),
                ("/v1/ping", Some("http://a:1")),
                ("http://b:2/board/v1/tasks/delete", None),
                ("http://user@b:2/board/v1/ping", None),
                ("http://b:2/board/v1/ping?x=1", None),
                ("http://[", None),
            ],
        );
    }

    #[test]
    fn with_tls_a_redirect_leads_anywhere_with_tls() {
        let roots = rustls::RootCertStore::empty();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let addresses = Addresses::with_tls(&["https://a:1".to_owned()], Some(Arc::new(tls))).unwrap();
        check_redirects(
            &addresses,
            &[
                ("https://elsewhere:2/v1/ping", Some("https://elsewhere:2")),
                ("//elsewhere:2/v1/ping", Some("https://elsewhere:2")),
                ("http://127.0.0.1:7/v1/ping", None),
                ("http://a:1/v1/ping", None),
            ],
        );
    }
}
