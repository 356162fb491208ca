//! Asks a cell what its containers wrote, and reads the answer line by line. One call, one connection, no second attempt:
//! who follows several cells knows better when to come back, and from where on.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use model::Cell;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use url::{Position, Url};

use super::error::Failure;
use super::pool::{Connection, Pool, Target};
use super::{TlsError, TlsFiles, TransportKind, tls};
use crate::cell::logs::{BEAT_INTERVAL_S, LOGS_PATH, LogMessage, LogQuery};
use crate::rep::AddressError;

/// A cell that says nothing for longer is gone.
const SILENCE_MAX: Duration = Duration::from_secs(3 * BEAT_INTERVAL_S);
/// The longest line of a container is 60 KiB, which escapes can make six times as long.
const MESSAGE_BYTES_MAX: usize = 512 * 1024;
/// Of what a cell says when it refuses.
const REFUSAL_BYTES_MAX: usize = 4 * 1024;

/// Why a cell does not tell what its containers wrote.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    #[error(transparent)]
    Choice(#[from] AddressError),
    #[error("our certificate cannot be used")]
    Certificates(#[source] Arc<TlsError>),
    #[error("its address {address:?} is not an http or https URL that names a host")]
    Address { address: String },
    #[error(
        "it does not know the path {LOGS_PATH}: it is a cell of Diego, whose logs are found where Diego sends them, or of an \
         older release"
    )]
    Unknown,
    #[error("it refused with status {status}{}{text}", if text.is_empty() { "" } else { ": " })]
    Refused { status: u16, text: String },
    #[error("{}", told(*kind))]
    Transport {
        kind: TransportKind,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    #[error("its answer cannot be understood: {why}")]
    Answer { why: String },
}

/// The kinds speak of servers, and of standbys, which cells do not have.
fn told(kind: TransportKind) -> String {
    match kind {
        TransportKind::Refused => "nobody listens at its address".to_owned(),
        TransportKind::Timeout => "it does not answer in time".to_owned(),
        kind => format!("the call failed: {kind}"),
    }
}

impl LogsError {
    /// Asking again later may help.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Transport { .. } | Self::Refused { status: 429 | 500..=599, .. })
    }
}

/// An answer that is on its way. Dropping it closes the connection.
#[derive(Debug)]
pub struct LogStream {
    body: Incoming,
    unread: BytesMut,
    _connection: Connection,
}

/// Who asks cells.
#[derive(Clone, Debug)]
pub struct CellLogs {
    /// What is wrong with certificates matters only to cells that want them.
    tls: Result<Option<Arc<rustls::ClientConfig>>, Arc<TlsError>>,
}

impl CellLogs {
    pub fn new(files: Option<&TlsFiles>) -> Self {
        Self { tls: files.map(tls::client_config).transpose().map_err(Arc::new) }
    }

    /// Asks a cell at the address in its presence; a plain one plainly, as the auctioneer does.
    pub async fn open(&self, cell: &Cell, query: &LogQuery) -> Result<LogStream, LogsError> {
        match (&self.tls, crate::rep::address(cell, false, true)?) {
            (Err(error), address) if address.starts_with("https") => Err(LogsError::Certificates(error.clone())),
            (Err(_), _) => open(cell, None, query).await,
            (Ok(tls), _) => open(cell, tls.as_ref(), query).await,
        }
    }
}

async fn open(cell: &Cell, tls: Option<&Arc<rustls::ClientConfig>>, query: &LogQuery) -> Result<LogStream, LogsError> {
    let address = crate::rep::address(cell, false, tls.is_some())?;
    let wrong = || LogsError::Address { address: address.to_owned() };
    let url = Url::parse(address).map_err(|_| wrong())?;
    let mut request = hyper::Request::new(Full::new(Bytes::new()));
    let target = format!("{}{LOGS_PATH}?{}", url.path().trim_end_matches('/'), query.to_text());
    *request.uri_mut() = target.parse().map_err(|_| wrong())?;
    let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).map_err(|_| wrong())?;
    request.headers_mut().insert(HOST, host);
    let pool = Pool::new(target_of(&url, tls).ok_or_else(wrong)?);
    let answered = timeout(SILENCE_MAX, pool.send(request)).await.map_err(|_| silent())?;
    let (response, connection) = answered.map_err(broken)?;
    let (head, body) = response.into_parts();
    match head.status {
        StatusCode::OK => Ok(LogStream { body, unread: BytesMut::new(), _connection: connection }),
        StatusCode::NOT_FOUND => Err(LogsError::Unknown),
        status => {
            let text = timeout(SILENCE_MAX, Limited::new(body, REFUSAL_BYTES_MAX).collect()).await;
            let text = text.ok().and_then(Result::ok).map(|text| text.to_bytes()).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            Err(LogsError::Refused { status: status.as_u16(), text })
        }
    }
}

fn target_of(url: &Url, tls: Option<&Arc<rustls::ClientConfig>>) -> Option<Target> {
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    // A URL writes an IPv6 address in brackets, everything else does not.
    let host = host.trim_matches(['[', ']']).to_owned();
    let tls = match (url.scheme(), tls) {
        ("http", _) => None,
        ("https", Some(tls)) => Some((tls.clone(), ServerName::try_from(host.clone()).ok()?)),
        _ => return None,
    };
    Some(Target { host, port, tls })
}

fn broken(failure: Failure) -> LogsError {
    LogsError::Transport { kind: failure.kind, source: failure.source }
}

fn silent() -> LogsError {
    LogsError::Transport { kind: TransportKind::Timeout, source: None }
}

impl LogStream {
    /// The next message; `None` at the end. It may be given up while it waits: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<LogMessage>, LogsError> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.split_to(end);
                self.unread.advance(1);
                let message = serde_json::from_slice(&line);
                return message.map(Some).map_err(|error| LogsError::Answer { why: error.to_string() });
            }
            if self.unread.len() > MESSAGE_BYTES_MAX {
                return Err(LogsError::Answer { why: format!("a message is longer than {MESSAGE_BYTES_MAX} bytes") });
            }
            match timeout(SILENCE_MAX, self.body.frame()).await.map_err(|_| silent())? {
                None if self.unread.is_empty() => return Ok(None),
                None => return Err(LogsError::Answer { why: "it ends within a message".to_owned() }),
                Some(Err(error)) => return Err(broken(Failure::from_error(error))),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.unread.extend_from_slice(&bytes);
                    }
                }
            }
        }
    }
}
