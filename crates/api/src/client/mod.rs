//! A client for the API: one interface, the newest revision of everything.
//!
//! A [`Client`] has a method for each call, by subject: desired LRPs, actual LRPs, evacuation, tasks, domains and cells. They
//! are named like those of Diego's Go client. It knows one or more addresses of the same group of nodes, finds the one that
//! answers, and keeps its connections. Clones share them; a program needs one client.
//!
//! ```no_run
//! use corkboard_api::client::{Client, ClientConfig, TlsFiles};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ClientConfig {
//!     urls: vec!["https://node-1:8889".into(), "https://node-2:8889".into()],
//!     tls: Some(TlsFiles {
//!         ca: "ca.crt".into(),
//!         cert: "client.crt".into(),
//!         key: "client.key".into(),
//!         skip_verify: false,
//!     }),
//!     name: "my-tool".into(),
//!     ..ClientConfig::new("")
//! };
//! let client = Client::new(config)?;
//! for lrp in client.desired_lrps(Default::default()).await? {
//!     println!("{} x {}", lrp.process_guid, lrp.instances);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is tried again
//!
//! [`Retry`] says how often, [`ClientConfig`] for how long. Whatever certainly changed nothing is tried again: a connection that
//! was refused, a name without address, a handshake that did not end, `503` with `Retry-After` or `X-Corkboard-Phase`; `307` is
//! followed where that is safe. A request that was sent and not answered is sent again only if a second execution changes nothing
//! more: reads, `upsert_domain`, and what cells repeat as a heartbeat (claim, start, evacuate_running). For the others the caller
//! gets the error and looks, or says [`Repeat::Always`]. An answer of the server, also a refusal, is never questioned.
//!
//! | what happened | reads and harmless writes | other writes |
//! |---|---|---|
//! | connection refused, no address, connecting took too long | again | again |
//! | certificates do not fit | at the other addresses | at the other addresses |
//! | `503` with `Retry-After` or `X-Corkboard-Phase` | again | again |
//! | `307` | there | there |
//! | sent, then a time limit or a connection that ends | again | error |
//! | `500`, `502`, `504`, plain `503`, an error of a router | again | error |
//! | other statuses, an answer that cannot be read, versions that do not fit | error | error |
//!
//! # Errors
//!
//! [`ClientError::Bbs`] is the server's refusal, with Diego's types. Every other error says how many [`Attempts`] were made,
//! where, how long they took, and whether the call [may have been carried out](ClientError::may_have_been_carried_out).
//!
//! # Events
//!
//! [`Client::follow_instance_events`] and [`Client::follow_task_events`] give a [`Feed`] that reconnects by itself and continues
//! where it was; where it cannot, it says so with a [`FeedItem::Gap`], and the reader lists everything anew. Below it is the
//! single stream, [`EventStream`].
//!
//! # Versions
//!
//! The client names itself and its version. A server that does not serve it says so, which is [`ClientError::Version`].
//! [`Client::server_version`] is what the servers say of themselves. The methods call the newest revision of each route, and two
//! of them an older one when the server does not know that: `start_actual_lrp` and `evacuate_running_actual_lrp`, as Diego's
//! client does.
//!
//! # For operators
//!
//! What only operators ask (migrations, keys, quarantine) is not Diego's, has no routes and speaks JSON: [`Client::ask`] and
//! [`Client::download`]. What containers wrote is asked of the cells themselves: [`logs`].

mod actual_lrps;
mod address;
mod attempts;
mod call;
mod cells;
mod config;
mod desired_lrps;
mod download;
mod error;
mod evacuation;
mod events;
mod feed;
pub mod logs;
mod operator;
pub mod pool;
mod retry;
mod rollouts;
mod tasks;
pub mod tls;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use attempts::{Attempts, CarriedOut};
pub use call::{CLIENT_HEADER, PHASE_HEADER, PROTOBUF, RESPONSE_BYTES_MAX, SERVER_HEADER, TRACE_HEADER};
pub use config::{ClientConfig, ConfigError, DEFAULT_ATTEMPT_TIMEOUT, DEFAULT_NAME, DEFAULT_TIMEOUT};
pub use download::Download;
pub use error::{ClientError, TransportKind};
pub use evacuation::Evacuation;
pub use events::{EventStream, Subscription};
pub use feed::{Feed, FeedItem};
use hyper::header::{HeaderMap, HeaderValue};
pub use operator::{OperatorError, Question, Refusal};
pub use retry::{Repeat, Retry};
pub use tls::{TlsError, TlsFiles};

use self::address::Addresses;
use crate::version::{CURRENT, ClientId, Version};

/// A client of one group of nodes. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    retry: Retry,
    trace_id: Option<HeaderValue>,
}

struct Shared {
    addresses: Addresses,
    /// The `X-Corkboard-Client` header.
    client_id: HeaderValue,
    server: Mutex<Option<Version>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("servers", &self.shared.addresses.given()).finish_non_exhaustive()
    }
}

impl Client {
    /// Reads the TLS files and prepares everything; connects only when the first call is made.
    pub fn new(config: ClientConfig) -> Result<Self, ConfigError> {
        let ClientConfig { urls, tls, name, timeout, attempt_timeout, retry, trace_id } = config;
        let trace_id = trace_id.as_deref().map(header_value).transpose()?;
        let client_id = ClientId { name, version: CURRENT }.to_string();
        let client_id = match (client_id.parse::<ClientId>(), HeaderValue::from_str(&client_id)) {
            (Ok(_), Ok(value)) => value,
            _ => return Err(ConfigError::Name { name: client_id }),
        };
        let addresses = Addresses::new(&urls, tls.as_ref())?;
        let shared = Arc::new(Shared { addresses, client_id, server: Mutex::default() });
        Ok(Self { shared, timeout, attempt_timeout, retry, trace_id })
    }

    /// The same client, over the same connections, under another trace id.
    pub fn with_trace_id(&self, id: &str) -> Result<Self, ConfigError> {
        Ok(Self { trace_id: Some(header_value(id)?), ..self.clone() })
    }

    /// The same client, over the same connections, with more or less patience.
    pub fn with_retry(&self, retry: Retry) -> Self {
        Self { retry, ..self.clone() }
    }

    /// The same client, over the same connections, with another limit for calls.
    pub fn with_timeout(&self, timeout: Option<Duration>) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// What the server that answered last says of its version. `None` before the first answer, and for servers that say nothing,
    /// such as Diego's.
    pub fn server_version(&self) -> Option<Version> {
        *self.shared.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what an answer says of its server.
    fn note_server(&self, headers: &HeaderMap) -> Option<Version> {
        let version = headers.get(SERVER_HEADER).and_then(|text| text.to_str().ok()).and_then(|text| text.parse().ok());
        *self.shared.server.lock().unwrap_or_else(PoisonError::into_inner) = version;
        version
    }
}

fn header_value(id: &str) -> Result<HeaderValue, ConfigError> {
    HeaderValue::from_str(id).map_err(|_| ConfigError::TraceId { id: id.to_owned() })
}

/// The example in the README is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn complaint(urls: &[&str], tls: Option<TlsFiles>) -> String {
        let urls = urls.iter().map(ToString::to_string).collect();
        let config = ClientConfig { urls, tls, ..ClientConfig::new("") };
        Client::new(config).map_or_else(|error| error.to_string(), |client| format!("{client:?}"))
    }

    #[test]
    fn urls_are_checked_before_anything_is_sent() {
        expect!["Client { servers: [http://localhost:8889], .. }"]
            .assert_eq(&complaint(&["http://user:secret@localhost:8889"], None));
        expect!["Client { servers: [http://[::1]:8889, http://b/board], .. }"]
            .assert_eq(&complaint(&["http://[::1]:8889/", "http://b/board/"], None));
        expect!["no URL of a server is given"].assert_eq(&complaint(&[], None));
        expect![[r#""localhost" is not a URL"#]].assert_eq(&complaint(&["http://a", "localhost"], None));
        expect![[r#"the URL "ftp://host" must begin with https:// or http:// and name a host"#]]
            .assert_eq(&complaint(&["ftp://host"], None));
        expect![[
            r#"the URL "https://host" needs a CA file, a certificate and a key; use http:// for a server without TLS"#
        ]]
        .assert_eq(&complaint(&["https://host"], None));
        let files = TlsFiles { ca: "ca".into(), cert: "cert".into(), key: "key".into(), skip_verify: false };
        expect![[
            r#"the URL "http://host" is without TLS, but TLS files are given; use https:// or leave the files out"#
        ]]
        .assert_eq(&complaint(&["http://host"], Some(files)));
    }

    #[test]
    fn what_would_break_a_request_is_refused() {
        let trace_id = Some("a\r\nHost: b".into());
        let config = ClientConfig { trace_id, ..ClientConfig::new("http://localhost") };
        assert!(matches!(Client::new(config), Err(ConfigError::TraceId { .. })));
        for name in ["", "a/b", "a\r\nHost: b", "my tool"] {
            let config = ClientConfig { name: name.into(), ..ClientConfig::new("http://localhost") };
            assert!(matches!(Client::new(config), Err(ConfigError::Name { .. })), "{name:?}");
        }
    }
}
