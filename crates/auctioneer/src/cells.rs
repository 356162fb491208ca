//! Calls to cells: ask for the state, send work. Each is made once and ends within its time limit.
//!
//! Connections are kept from one auction to the next, for the cells that are still there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::client::TransportKind;
use api::client::pool::{Pool, Target};
use api::rep::{AddressError, CellState, STATE_PATH, WORK_PATH, Work};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, StatusCode};
use model::Cell;
use rustls::pki_types::ServerName;
use url::{Position, Url};

use crate::config::{Config, ConfigError};

/// The state of a cell with ten thousand containers is about a quarter of this.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The client of all cells. Clones share their connections.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tls: Option<Arc<rustls::ClientConfig>>,
    require_tls: bool,
    state_timeout: Duration,
    work_timeout: Duration,
    /// By address.
    pools: Mutex<HashMap<String, Arc<Pool>>>,
}

/// A call that did not end with what was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Choice(#[from] AddressError),
    #[error("the address is not an http or https URL that names a host; nothing was sent")]
    Address,
    #[error("the answer has status {status}")]
    Status { status: u16 },
    #[error("the answer is not the JSON that was expected")]
    Json(#[from] serde_json::Error),
    #[error("the answer broke off or is too long: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("the call failed: {kind}")]
    Transport {
        kind: TransportKind,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl Cells {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let shared = Shared {
            tls: config.cell_identity()?,
            require_tls: config.cell_require_tls,
            state_timeout: config.cell_state_timeout,
            work_timeout: config.communication_timeout,
            pools: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(crate) async fn state(&self, cell: &Cell, trace: &str) -> Result<CellState, CallError> {
        let limit = self.shared.state_timeout;
        let body = self.call(cell, (Method::GET, STATE_PATH), Bytes::new(), trace, limit).await?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Sends work, and tells what of it was not accepted.
    pub(crate) async fn perform(&self, cell: &Cell, work: &Work, trace: &str) -> Result<Work, CallError> {
        let body = Bytes::from(api::json::to_string(work));
        let body = self.call(cell, (Method::POST, WORK_PATH), body, trace, self.shared.work_timeout).await?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Closes the connections to cells that are not among these.
    pub(crate) fn keep_only(&self, cells: &[Cell]) {
        let addresses: std::collections::HashSet<_> = cells.iter().filter_map(|cell| self.address(cell).ok()).collect();
        let mut pools = self.shared.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|address, _| addresses.contains(address.as_str()));
    }

    fn address<'a>(&self, cell: &'a Cell) -> Result<&'a str, AddressError> {
        api::rep::address(cell, self.shared.require_tls, self.shared.tls.is_some())
    }

    async fn call(
        &self,
        cell: &Cell,
        what: (Method, &str),
        body: Bytes,
        trace: &str,
        limit: Duration,
    ) -> Result<Bytes, CallError> {
        let address = self.address(cell)?;
        let url = Url::parse(address).map_err(|_| CallError::Address)?;
        let request = request(&url, what, body, trace)?;
        let pool = self.pool(address, &url)?;
        let exchange = async {
            let sent = pool.send(request).await;
            let (response, connection) =
                sent.map_err(|failure| CallError::Transport { kind: failure.kind, source: failure.source })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(CallError::Body)?.to_bytes();
            pool.put(connection);
            match head.status {
                StatusCode::OK => Ok(body),
                status => Err(CallError::Status { status: status.as_u16() }),
            }
        };
        let late = || CallError::Transport { kind: TransportKind::Timeout, source: None };
        tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    fn pool(&self, address: &str, url: &Url) -> Result<Arc<Pool>, CallError> {
        let mut pools = self.shared.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(address) {
            return Ok(pool.clone());
        }
        let pool = Arc::new(Pool::new(self.target(url)?));
        pools.insert(address.to_owned(), pool.clone());
        Ok(pool)
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
                Some((tls.clone(), name))
            }
            ("https", None) => return Err(AddressError::NoCertificates.into()),
            _ => return Err(CallError::Address),
        };
        Ok(Target { host, port, tls })
    }
}

fn request(
    url: &Url,
    (method, path): (Method, &str),
    body: Bytes,
    trace: &str,
) -> Result<hyper::Request<Full<Bytes>>, CallError> {
    let (posted, length) = (method == Method::POST, body.len());
    let mut request = hyper::Request::new(Full::new(body));
    *request.method_mut() = method;
    let target = format!("{}{path}", url.path().trim_end_matches('/'));
    *request.uri_mut() = target.parse().map_err(|_| CallError::Address)?;
    let headers = request.headers_mut();
    let host = &url[Position::BeforeHost..Position::AfterPort];
    headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| CallError::Address)?);
    if posted {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    if !trace.is_empty() {
        // A trace id that cannot stand in a header is left out: a call matters more than its trail.
        if let Ok(trace) = HeaderValue::from_str(trace) {
            headers.insert(api::client::TRACE_HEADER, trace);
        }
    }
    Ok(request)
}
