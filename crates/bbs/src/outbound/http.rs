//! One request out, one status back: the HTTP/1.1 client behind every outbound call.
//!
//! Promise: a call ends within its time limit, follows nothing, repeats nothing and logs nothing. Who calls decides what a
//! status means and whether to try again. Of an answer only the status, a redirect's target and the pause that is asked for
//! are kept, because no caller looks further; a short body is read to its end so that the connection can be used again.
//!
//! Errors never hold the URL: that of a callback may carry a password.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::client::TransportKind;
use api::client::pool::{Failure, Pool, Target};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Method, StatusCode, Uri};
use rustls::pki_types::ServerName;
use tokio::time::Instant;
use url::{Position, Url};

use super::CallError;

/// How much of an answer's body is read to keep its connection. A longer one costs a new connection, nothing else.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long that may take. The status is known by then and is not held up for longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Hosts to which connections are kept. One beyond that is called over a connection of its own, closed afterwards.
const HOSTS_MAX: usize = 4096;
/// Connections to a host that was not called for this long are closed.
const HOST_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Connections under one identity. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Http {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tls: Option<Arc<rustls::ClientConfig>>,
    timeout: Duration,
    hosts: Mutex<Hosts>,
}

#[derive(Debug)]
struct Hosts {
    pools: HashMap<Key, (Instant, Arc<Pool>)>,
    swept: Instant,
}

type Key = (bool, String, u16);

#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    /// JSON, or nothing.
    pub(super) body: Bytes,
    /// Empty: no trace header.
    pub(super) trace: &'a str,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) location: Option<String>,
    /// Only where it is given in seconds. One given as a date would depend on how two clocks agree, and is left out.
    pub(super) retry_after: Option<Duration>,
}

impl Http {
    /// `tls` is the identity for https addresses; without one they are refused.
    pub(super) fn new(tls: Option<Arc<rustls::ClientConfig>>, timeout: Duration) -> Self {
        let hosts = Hosts { pools: HashMap::new(), swept: Instant::now() };
        Self { shared: Arc::new(Shared { tls, timeout, hosts: Mutex::new(hosts) }) }
    }

    pub(super) fn has_certificates(&self) -> bool {
        self.shared.tls.is_some()
    }

    pub(super) async fn send(&self, request: Request<'_>) -> Result<Answer, CallError> {
        let pool = self.pool(self.target(request.url)?, Instant::now());
        let request = build(&request)?;
        let (response, connection) = tokio::time::timeout(self.shared.timeout, pool.send(request))
            .await
            .unwrap_or_else(|_| Err(Failure { kind: TransportKind::Timeout, source: None }))
            .map_err(|failure| CallError::Transport { kind: failure.kind, source: failure.source })?;
        let (head, body) = response.into_parts();
        if let Ok(true) = tokio::time::timeout(ANSWER_TIMEOUT, read_whole(body)).await {
            pool.put(connection);
        }
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after = text(RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
        Ok(Answer { status: head.status, location: text(LOCATION).map(str::to_owned), retry_after })
    }

    fn target(&self, url: &Url) -> Result<Target, CallError> {
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(CallError::Address);
        };
        // A URL writes an IPv6 address in brackets, everything else does not.
        let host = host.trim_matches(['[', ']']).to_owned();
        let tls = match (url.scheme(), &self.shared.tls) {
            ("http", _) => None,
            ("https", Some(tls)) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| CallError::Address)?;
                Some((Arc::clone(tls), name))
            }
            ("https", None) => return Err(CallError::NoCertificates),
            _ => return Err(CallError::Address),
        };
        Ok(Target { host, port, tls })
    }

    fn pool(&self, target: Target, now: Instant) -> Arc<Pool> {
        let key: Key = (target.tls.is_some(), target.host.clone(), target.port);
        let mut hosts = self.shared.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(hosts.swept) > HOST_IDLE_TIMEOUT {
            hosts.pools.retain(|_, (used, _)| now.saturating_duration_since(*used) <= HOST_IDLE_TIMEOUT);
            hosts.swept = now;
        }
        if let Some((used, pool)) = hosts.pools.get_mut(&key) {
            *used = now;
            return Arc::clone(pool);
        }
        let pool = Arc::new(Pool::new(target));
        if hosts.pools.len() < HOSTS_MAX {
            hosts.pools.insert(key, (now, Arc::clone(&pool)));
        }
        pool
    }
}

fn build(request: &Request<'_>) -> Result<hyper::Request<Full<Bytes>>, CallError> {
    let url = request.url;
    let mut built = hyper::Request::new(Full::new(request.body.clone()));
    *built.method_mut() = request.method.clone();
    *built.uri_mut() =
        Uri::try_from(&url[Position::BeforePath..Position::AfterQuery]).map_err(|_| CallError::Address)?;
    let headers = built.headers_mut();
    let host = &url[Position::BeforeHost..Position::AfterPort];
    headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| CallError::Address)?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // hyper leaves the length of an empty body out, and some servers take a POST without one for a broken request.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(request.body.len()));
    put_credentials(url, headers)?;
    if !request.trace.is_empty() {
        // A trace id that cannot stand in a header is left out: a call matters more than its trail.
        if let Ok(trace) = HeaderValue::from_str(request.trace) {
            headers.insert(api::client::TRACE_HEADER, trace);
        }
    }
    Ok(built)
}

/// Name and password of a URL travel as basic authorization, as Go's client does it.
fn put_credentials(url: &Url, headers: &mut HeaderMap) -> Result<(), CallError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(());
    }
    let mut plain: Vec<u8> = percent_encoding::percent_decode_str(url.username()).collect();
    plain.push(b':');
    plain.extend(percent_encoding::percent_decode_str(url.password().unwrap_or_default()));
    let text = format!("Basic {}", BASE64_STANDARD.encode(plain));
    let mut value = HeaderValue::from_str(&text).map_err(|_| CallError::Address)?;
    value.set_sensitive(true);
    headers.insert(AUTHORIZATION, value);
    Ok(())
}

/// Whether the body ended by itself within the limit, so that the connection is free again.
async fn read_whole(mut body: Incoming) -> bool {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > ANSWER_BYTES_MAX {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(url: &str, trace: &str) -> hyper::Request<Full<Bytes>> {
        let url = Url::parse(url).unwrap();
        build(&Request { method: Method::POST, url: &url, body: Bytes::new(), trace }).unwrap()
    }

    #[test]
    fn a_url_becomes_target_host_and_credentials() {
        let request = built("http://us%40er:p%3Ass@[::1]:80/a%2Fb?q=1#here", "");
        assert_eq!(request.uri(), "/a%2Fb?q=1");
        assert_eq!(request.headers()[HOST], "[::1]");
        assert_eq!(request.headers()[CONTENT_LENGTH], "0");
        let credentials = &request.headers()[AUTHORIZATION];
        assert_eq!(credentials, &format!("Basic {}", BASE64_STANDARD.encode("us@er:p:ss")));
        assert!(credentials.is_sensitive());
        assert!(!built("http://host", "").headers().contains_key(AUTHORIZATION));
    }

    #[test]
    fn a_trace_id_is_passed_on_unless_it_would_break_the_request() {
        let header = api::client::TRACE_HEADER;
        assert_eq!(built("http://host", "abc").headers()[&header], "abc");
        assert!(!built("http://host", "").headers().contains_key(&header));
        assert!(!built("http://host", "a\r\nHost: b").headers().contains_key(&header));
    }

    #[test]
    fn an_address_is_refused_before_anything_is_sent() {
        let http = Http::new(None, Duration::from_secs(1));
        let complaint = |url: &str| http.target(&Url::parse(url).unwrap()).map_err(|error| error.to_string());
        assert_eq!(complaint("http://host").unwrap().port, 80);
        assert_eq!(complaint("https://host").unwrap_err(), CallError::NoCertificates.to_string());
        assert_eq!(complaint("ftp://host").unwrap_err(), CallError::Address.to_string());
        assert_eq!(complaint("data:text").unwrap_err(), CallError::Address.to_string());
    }

    #[test]
    fn hosts_share_a_pool_only_with_themselves_and_are_bounded() {
        let http = Http::new(None, Duration::from_secs(1));
        let now = Instant::now();
        let pool = |port: u16| http.pool(Target { host: "a".into(), port, tls: None }, now);
        assert!(Arc::ptr_eq(&pool(1), &pool(1)));
        assert!(!Arc::ptr_eq(&pool(1), &pool(2)));
        for port in 0..=u16::try_from(HOSTS_MAX).unwrap() {
            pool(port);
        }
        assert_eq!(http.shared.hosts.lock().unwrap().pools.len(), HOSTS_MAX);
    }

    #[test]
    fn silent_hosts_are_forgotten() {
        let http = Http::new(None, Duration::from_secs(1));
        let start = Instant::now();
        let call = |port: u16, after: Duration| {
            http.pool(Target { host: "a".into(), port, tls: None }, start + after);
        };
        call(1, Duration::ZERO);
        call(2, HOST_IDLE_TIMEOUT / 2);
        call(3, HOST_IDLE_TIMEOUT + Duration::from_secs(1));
        let mut ports: Vec<_> = http.shared.hosts.lock().unwrap().pools.keys().map(|(_, _, port)| *port).collect();
        ports.sort_unstable();
        assert_eq!(ports, [2, 3]);
    }
}
