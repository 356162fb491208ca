//! A client for all fifty routes.
//!
//! One method per route, named like those of Diego's Go client, by subject: `actual_lrps.rs`, `evacuation.rs`,
//! `desired_lrps.rs`, `tasks.rs`, `cells.rs` (with ping and domains), `events.rs`. A method with a revision in its
//! name is the older form of the one without.
//!
//! A call is made once. Repeating it, and falling back to an older revision on 404, is the caller's choice: only the
//! caller knows whether a second execution does harm.
//!
//! The type of the answer decides how it is read, as in Diego's client: protobuf is read whatever the status is;
//! anything else is a failure above status 299 and counts as an empty answer below.
//!
//! What only operators ask (migrations, quarantine) is not Diego's, has no routes and speaks JSON; it is in `operator.rs`, and answers too
//! large to be held in `download.rs`.

mod actual_lrps;
mod cells;
mod desired_lrps;
mod download;
mod error;
mod evacuation;
mod events;
mod operator;
pub mod pool;
mod tasks;
pub mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use download::Download;
pub use error::{ClientError, TransportKind};
pub use evacuation::Evacuation;
pub use events::{EventStream, Subscription};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
pub use operator::{OperatorError, Question, Refusal};
use rustls::pki_types::ServerName;
pub use tls::{TlsError, TlsFiles};

use self::error::Failure;
use self::pool::{Pool, Target};
use crate::routes::{Method, Route};
use crate::wire::{Response, Wire};
use crate::{decode, encode};

/// The media type of requests and answers.
pub const PROTOBUF: &str = "application/x-protobuf";
/// Carries the id under which a request is logged on its whole way.
pub const TRACE_HEADER: HeaderName = HeaderName::from_static("x-vcap-request-id");
/// Tells the server who we are, for its census of clients.
pub const CLIENT_HEADER: HeaderName = HeaderName::from_static("x-corkboard-client");
/// What a server that answers 503 is doing.
pub const PHASE_HEADER: HeaderName = HeaderName::from_static("x-corkboard-phase");
const ROUTER_ERROR_HEADER: HeaderName = HeaderName::from_static("x-cf-routererror");
const CLIENT_NAME: HeaderValue = HeaderValue::from_static(concat!("corkboard/", env!("CARGO_PKG_VERSION")));

/// Size of an answer. A list of a quarter million desired LRPs is about half of it.
pub const RESPONSE_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// How much of the body of a failure is kept for the error.
const FAILURE_BODY_BYTES_MAX: usize = 4096;

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `https://host:port`, or `http://` for a server without TLS.
    pub url: String,
    /// Required for `https`, refused for `http`.
    pub tls: Option<TlsFiles>,
    /// For each call, from connecting to the last byte of the answer; not for event streams. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Sent with each call.
    pub trace_id: Option<String>,
}

/// Why a client cannot be made. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{url:?} is not a URL")]
    Url {
        url: String,
        #[source]
        source: url::ParseError,
    },
    #[error("the URL {url:?} must begin with https:// or http:// and name a host")]
    Scheme { url: String },
    #[error("the URL {url:?} needs a CA file, a certificate and a key; use http:// for a server without TLS")]
    TlsMissing { url: String },
    #[error("the URL {url:?} is without TLS, but TLS files are given; use https:// or leave the files out")]
    TlsUnused { url: String },
    #[error("the host of {url:?} cannot be the name in a certificate")]
    ServerName { url: String },
    #[error("the trace id {id:?} holds characters that cannot stand in a header")]
    TraceId { id: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A client of one server. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    trace_id: Option<HeaderValue>,
}

struct Shared {
    pool: Pool,
    /// The `Host` header.
    authority: HeaderValue,
    /// What stands before the paths of the routes; mostly nothing.
    path_prefix: String,
    timeout: Option<Duration>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.shared.authority).finish_non_exhaustive()
    }
}

impl Client {
    /// Reads the TLS files and prepares everything; connects only when the first call is made.
    pub fn new(config: ClientConfig) -> Result<Self, ConfigError> {
        let trace_id = config.trace_id.as_deref().map(header_value).transpose()?;
        let url = config.url;
        let parsed = url::Url::parse(&url).map_err(|source| ConfigError::Url { url: url.clone(), source })?;
        let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else {
            return Err(ConfigError::Scheme { url });
        };
        // A URL writes an IPv6 address in brackets, everything else does not.
        let host = host.trim_matches(['[', ']']).to_owned();
        let tls = match (parsed.scheme(), &config.tls) {
            ("https", Some(files)) => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|_| ConfigError::ServerName { url: url.clone() })?;
                Some((tls::client_config(files)?, name))
            }
            ("https", None) => return Err(ConfigError::TlsMissing { url }),
            ("http", Some(_)) => return Err(ConfigError::TlsUnused { url }),
            ("http", None) => None,
            _ => return Err(ConfigError::Scheme { url }),
        };
        let authority = HeaderValue::from_str(&parsed[url::Position::BeforeHost..url::Position::AfterPort])
            .map_err(|_| ConfigError::Scheme { url: url.clone() })?;
        let path_prefix = parsed.path().trim_end_matches('/').to_owned();
        let pool = Pool::new(Target { host, port, tls });
        let shared = Shared { pool, authority, path_prefix, timeout: config.timeout };
        Ok(Self { shared: Arc::new(shared), trace_id })
    }

    /// The same client, over the same connections, under another trace id.
    pub fn with_trace_id(&self, id: &str) -> Result<Self, ConfigError> {
        Ok(Self { shared: Arc::clone(&self.shared), trace_id: Some(header_value(id)?) })
    }

    /// Makes a call and takes the error out of the answer.
    async fn call<A: Response>(&self, route: Route, request: impl Wire) -> Result<A, ClientError> {
        self.call_with(route, encode(request)).await
    }

    /// For the routes whose body is not read.
    async fn call_without_body<A: Response>(&self, route: Route) -> Result<A, ClientError> {
        self.call_with(route, Bytes::new()).await
    }

    async fn call_with<A: Response>(&self, route: Route, body: Bytes) -> Result<A, ClientError> {
        let mut answer: A = self.exchange(route, body).await?;
        match answer.take_error() {
            Some(error) => Err(ClientError::Bbs { route, error }),
            None => Ok(answer),
        }
    }

    /// Sends one message and reads one, within the time limit.
    async fn exchange<A: Wire>(&self, route: Route, body: Bytes) -> Result<A, ClientError> {
        let work = self.exchange_untimed(route, body);
        match self.shared.timeout {
            None => work.await,
            Some(limit) => {
                tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(Failure::timeout().on(route)))
            }
        }
    }

    async fn exchange_untimed<A: Wire>(&self, route: Route, body: Bytes) -> Result<A, ClientError> {
        let mut request = self.request(route, body);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
        if let Some(id) = &self.trace_id {
            headers.insert(TRACE_HEADER, id.clone());
        }
        let (response, connection) = self.shared.pool.send(request).await.map_err(|failure| failure.on(route))?;
        let (head, body) = response.into_parts();
        if let Some(text) = header_text(&head.headers, &ROUTER_ERROR_HEADER) {
            return Err(ClientError::Router { route, text });
        }
        if is_protobuf(&head.headers) {
            let bytes = read_body(body, RESPONSE_BYTES_MAX).await.map_err(|failure| failure.on(route))?;
            self.shared.pool.put(connection);
            return decode(&bytes).map_err(|source| ClientError::Decode { route, source });
        }
        let status = head.status.as_u16();
        let (text, ended) = failure_text(body).await;
        if ended == Ended::Whole {
            self.shared.pool.put(connection);
        }
        if status <= 299 {
            return Ok(A::default());
        }
        Err(status_error(route, status, &head.headers, text))
    }

    fn request(&self, route: Route, body: Bytes) -> pool::Request {
        let length = body.len();
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = route.method().into();
        let path = format!("{}{}", self.shared.path_prefix, route.path());
        *request.uri_mut() = path.parse().expect("a parsed URL's path followed by a route's path is a valid target");
        let headers = request.headers_mut();
        headers.insert(HOST, self.shared.authority.clone());
        headers.insert(CLIENT_HEADER, CLIENT_NAME);
        if route.method() == Method::Post {
            // hyper sends no length for an empty body, and some servers answer a POST without one with 411.
            headers.insert(CONTENT_LENGTH, length.into());
        }
        request
    }
}

fn header_value(id: &str) -> Result<HeaderValue, ConfigError> {
    HeaderValue::from_str(id).map_err(|_| ConfigError::TraceId { id: id.to_owned() })
}

fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Parameters and case do not matter.
fn is_protobuf(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    value.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(PROTOBUF))
}

async fn read_body(body: Incoming, bytes_max: usize) -> Result<Bytes, Failure> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(source) => Err(match source.downcast::<hyper::Error>() {
            Ok(source) => Failure::from_error(*source),
            Err(source) => Failure { kind: TransportKind::TooLarge, source: Some(source) },
        }),
    }
}

#[derive(PartialEq, Eq)]
enum Ended {
    Whole,
    Cut,
}

/// The beginning of a body, for an error text. A body that cannot be read must not hide the status before it.
async fn failure_text(mut body: Incoming) -> (String, Ended) {
    let mut bytes = Vec::new();
    let ended = loop {
        match body.frame().await {
            None => break Ended::Whole,
            Some(Err(_)) => break Ended::Cut,
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref)),
        }
        if bytes.len() > FAILURE_BODY_BYTES_MAX {
            bytes.truncate(FAILURE_BODY_BYTES_MAX);
            break Ended::Cut;
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), ended)
}

fn status_error(route: Route, status: u16, headers: &HeaderMap, body: String) -> ClientError {
    ClientError::Status {
        route,
        status,
        phase: header_text(headers, &PHASE_HEADER),
        retry_after_s: header_text(headers, &RETRY_AFTER).and_then(|text| text.parse().ok()),
        body,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn complaint(url: &str, tls: Option<TlsFiles>) -> String {
        let config = ClientConfig { url: url.into(), tls, timeout: None, trace_id: None };
        Client::new(config).map_or_else(|error| error.to_string(), |client| format!("{client:?}"))
    }

    #[test]
    fn urls_are_checked_before_anything_is_sent() {
        expect![[r#"Client { server: "localhost:8889", .. }"#]].assert_eq(&complaint("http://localhost:8889", None));
        expect![[r#"Client { server: "[::1]:8889", .. }"#]].assert_eq(&complaint("http://[::1]:8889/", None));
        expect![[r#""localhost" is not a URL"#]].assert_eq(&complaint("localhost", None));
        expect![[r#"the URL "ftp://host" must begin with https:// or http:// and name a host"#]]
            .assert_eq(&complaint("ftp://host", None));
        expect![[
            r#"the URL "https://host" needs a CA file, a certificate and a key; use http:// for a server without TLS"#
        ]]
        .assert_eq(&complaint("https://host", None));
        let files = TlsFiles { ca: "ca".into(), cert: "cert".into(), key: "key".into(), skip_verify: false };
        expect![[
            r#"the URL "http://host" is without TLS, but TLS files are given; use https:// or leave the files out"#
        ]]
        .assert_eq(&complaint("http://host", Some(files)));
    }

    #[test]
    fn a_trace_id_that_would_break_the_request_is_refused() {
        let config = ClientConfig {
            url: "http://localhost".into(),
            tls: None,
            timeout: None,
            trace_id: Some("a\r\nHost: b".into()),
        };
        assert!(matches!(Client::new(config), Err(ConfigError::TraceId { .. })));
    }

    #[test]
    fn the_media_type_is_compared_without_case_and_parameters() {
        let is =
            |value: &'static str| is_protobuf(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]));
        assert!(is("application/x-protobuf") && is("Application/X-Protobuf; charset=utf-8"));
        assert!(!is("application/json") && !is("") && !is_protobuf(&HeaderMap::new()));
    }
}
