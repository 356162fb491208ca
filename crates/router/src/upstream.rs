//! Connections to backends: new ones, and those that wait for the next request.
//!
//! A connection that has waited may be closed by the backend at the very moment it is used. A request that can be repeated is
//! then repeated; one that cannot takes only a connection that was in use a moment ago, or a new one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::body::Upload;
use crate::endpoint::Identity;

/// Backends keep an idle connection for seconds at least.
const SURELY_OPEN: Duration = Duration::from_millis(500);

pub(crate) type Sender = http1::SendRequest<Upload>;

/// Why there is no connection. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("the connection failed")]
    Tcp(#[source] std::io::Error),
    #[error("the instance proves another identity, or TLS failed")]
    Tls(#[source] std::io::Error),
    #[error("the name of the instance cannot stand in a certificate")]
    Name,
    #[error("the connection took too long")]
    Timeout,
    #[error("the instance does not speak HTTP")]
    Http(#[source] hyper::Error),
}

impl ConnectError {
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            ConnectError::Tcp(_) => "connect",
            ConnectError::Tls(_) | ConnectError::Name => "tls",
            ConnectError::Timeout => "connect timeout",
            ConnectError::Http(_) => "handshake",
        }
    }
}

/// Opens a connection. TLS is spoken where both sides can, and then the instance must prove who it is.
pub(crate) async fn connect(
    to: &Identity,
    tls: Option<&Arc<ClientConfig>>,
    limit: Duration,
) -> Result<Sender, ConnectError> {
    timeout(limit, open(to, tls)).await.unwrap_or(Err(ConnectError::Timeout))
}

async fn open(to: &Identity, tls: Option<&Arc<ClientConfig>>) -> Result<Sender, ConnectError> {
    let tls = tls.filter(|_| to.tls_port != 0);
    let port = if tls.is_some() { to.tls_port } else { to.port };
    let stream = TcpStream::connect((to.host.as_str(), port)).await.map_err(ConnectError::Tcp)?;
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let Some(tls) = tls else { return speak(stream).await };
    let name = if to.certificate_name.is_empty() { &to.host } else { &to.certificate_name };
    let name = ServerName::try_from(name.clone()).map_err(|_| ConnectError::Name)?;
    let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(ConnectError::Tls)?;
    speak(stream).await
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> Result<Sender, ConnectError> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(ConnectError::Http)?;
    // It ends when the sender and the body of the last answer are gone.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a backend ended badly");
        }
    });
    Ok(sender)
}

type Sent = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

/// Sends a request, and gives the connection back if it is still there.
///
/// A request that is handed over at the very moment the connection ends can stay in its queue, where nobody looks any more,
/// for as long as we hold the other end. So the end of the connection is watched, and then our end is let go of: the request
/// comes back with an error, or the answer that was already there.
pub(crate) async fn send(mut sender: Sender, request: Request<Upload>) -> (Sent, Option<Sender>) {
    let sent = sender.try_send_request(request);
    tokio::pin!(sent);
    let answered = tokio::select! {
        biased;
        answered = &mut sent => Some(answered),
        () = ended(&mut sender) => None,
    };
    match answered {
        Some(answered) => (answered, Some(sender)),
        None => {
            drop(sender);
            (sent.await, None)
        }
    }
}

async fn ended(sender: &mut Sender) {
    if sender.ready().await.is_ok() {
        // It would take another request, so it has answered this one.
        std::future::pending::<()>().await;
    }
}

/// Connections that wait.
#[derive(Default)]
pub(crate) struct Idle(Mutex<Vec<(Sender, Instant)>>);

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Idle({})", self.lock().len())
    }
}

impl Idle {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Sender, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With too many, the one that waited longest is closed.
    pub(crate) fn put(&self, sender: Sender, max: usize) {
        let mut idle = self.lock();
        if idle.len() >= max && !idle.is_empty() {
            idle.remove(0);
        }
        if max > 0 {
            idle.push((sender, Instant::now()));
        }
    }

    /// The one that was used last, if it is still good. Those behind it have waited longer.
    pub(crate) async fn take(&self, repeatable: bool, limit: Duration) -> Option<Sender> {
        loop {
            let mut sender = {
                let mut idle = self.lock();
                let waited = idle.last()?.1.elapsed();
                if waited >= limit {
                    idle.clear();
                    return None;
                }
                if !repeatable && waited >= SURELY_OPEN {
                    return None;
                }
                idle.pop()?.0
            };
            // It is ready as soon as its task has seen the end of the last answer.
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }
}
