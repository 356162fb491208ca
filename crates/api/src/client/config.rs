//! How a client is set up, and what can be wrong with that.

use std::time::Duration;

use super::{Retry, TlsError, TlsFiles};

/// The name under which a client appears in the server's census unless it has a better one.
pub const DEFAULT_NAME: &str = "corkboard";
/// How long a program waits for a call, over all attempts, unless told otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it waits for one attempt. A list of a quarter million desired LRPs takes a fraction of it.
pub const DEFAULT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);

/// How to reach the servers, and how stubbornly. [`ClientConfig::new`] has defaults for programs.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// One or more of `https://host:port`, or `http://` for servers without TLS; all of one group of nodes.
    pub urls: Vec<String>,
    /// Required for `https`, refused for `http`.
    pub tls: Option<TlsFiles>,
    /// Who calls, for the server's census of clients: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// For each call, over all attempts and the pauses between them; not for event streams. `None`: no limit.
    pub timeout: Option<Duration>,
    /// For each attempt, from connecting to the last byte of the answer; for event streams, until the server accepts.
    /// `None`: only the limit of the call. Connecting has a limit of its own, 5 s.
    pub attempt_timeout: Option<Duration>,
    pub retry: Retry,
    /// Sent with each call, and logged by the server.
    pub trace_id: Option<String>,
}

impl ClientConfig {
    /// For a program that talks to this server without TLS. Everything can be changed before the client is made.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            tls: None,
            name: DEFAULT_NAME.to_owned(),
            timeout: Some(DEFAULT_TIMEOUT),
            attempt_timeout: Some(DEFAULT_ATTEMPT_TIMEOUT),
            retry: Retry::default(),
            trace_id: None,
        }
    }

    /// For a person at a terminal: one try, and no limits of time but these.
    pub fn once(url: impl Into<String>, timeout: Option<Duration>) -> Self {
        Self { timeout, attempt_timeout: None, retry: Retry::once(), ..Self::new(url) }
    }
}

/// Why a client cannot be made. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("no URL of a server is given")]
    NoUrl,
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
    #[error("the name {name:?} of the client must be of letters, digits, `-`, `_` and `.`, and not too long")]
    Name { name: String },
    #[error("the trace id {id:?} holds characters that cannot stand in a header")]
    TraceId { id: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
}
