//! Connections to one server, kept open between calls.
//!
//! HTTP/1.1 carries one call at a time, so a call takes an idle connection or opens a new one, and gives it back when
//! the answer has been read to its end; a call that is abandoned halfway closes its connection. There is no limit on
//! connections in use (each belongs to a caller that waits), only on idle ones: what does not fit is closed.
//!
//! A server may close an idle connection at the very moment we use it. When hyper can tell that not a byte of the
//! request was written, the call goes to another connection; this cannot carry out a call twice.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

pub use super::error::Failure;
use super::error::TransportKind;

/// Diego's client gives up connecting after this time, whatever the time limit of the call.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that nobody used for this long is not trusted any more.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const IDLE_MAX: usize = 32;
/// Event streams may be silent for hours, so a peer that vanished without a word must be noticed below HTTP.
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

pub type Request = hyper::Request<Full<Bytes>>;

/// Where to connect.
#[derive(Clone)]
pub struct Target {
    pub host: String,
    pub port: u16,
    /// The identity to show, and the name that the server's certificate must bear.
    pub tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

pub struct Pool {
    target: Target,
    /// The most recently used at the back.
    idle: Mutex<VecDeque<(Instant, Sender)>>,
}

type Sender = SendRequest<Full<Bytes>>;

/// A connection whose answer is being read. It is `None` inside if it ended as soon as it had answered.
#[derive(Debug)]
pub struct Connection(Option<Sender>);

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.host, self.port, if self.tls.is_some() { " with TLS" } else { "" })
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.target).finish()
    }
}

impl Pool {
    pub fn new(target: Target) -> Self {
        Self { target, idle: Mutex::default() }
    }

    /// Sends a request and waits for the head of its answer. The connection must be given back with [`Pool::put`] once
    /// the body has been read, or dropped.
    pub async fn send(&self, request: Request) -> Result<(hyper::Response<Incoming>, Connection), Failure> {
        self.send_marked(request, &AtomicBool::new(false)).await
    }

    /// The same. While `sent` is set the server may have the request, also if the future is dropped.
    pub(super) async fn send_marked(
        &self,
        mut request: Request,
        sent: &AtomicBool,
    ) -> Result<(hyper::Response<Incoming>, Connection), Failure> {
        while let Some(mut connection) = self.take() {
            if connection.ready().await.is_err() {
                continue;
            }
            sent.store(true, Ordering::Relaxed);
            match exchange(connection, request).await {
                Ok(answered) => return Ok(answered),
                Err(mut refused) => match refused.take_message() {
                    Some(unsent) => {
                        sent.store(false, Ordering::Relaxed);
                        request = unsent;
                    }
                    None => return Err(Failure::from_error(refused.into_error())),
                },
            }
        }
        let connection = self.open().await?;
        sent.store(true, Ordering::Relaxed);
        exchange(connection, request).await.map_err(|refused| Failure::from_error(refused.into_error()))
    }

    /// Gives a connection back after its answer was read to the end.
    pub fn put(&self, connection: Connection) {
        let Some(connection) = connection.0.filter(|connection| !connection.is_closed()) else { return };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == IDLE_MAX {
            idle.pop_front();
        }
        idle.push_back((Instant::now(), connection));
    }

    fn take(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while idle.front().is_some_and(|(since, _)| since.elapsed() > IDLE_TIMEOUT) {
            idle.pop_front();
        }
        // The most recent one is the least likely to have been closed by the server.
        std::iter::from_fn(|| idle.pop_back()).map(|(_, connection)| connection).find(|it| !it.is_closed())
    }

    async fn open(&self) -> Result<Sender, Failure> {
        tokio::time::timeout(DIAL_TIMEOUT, self.dial()).await.unwrap_or_else(|_| Err(Failure::timeout()))
    }

    async fn dial(&self) -> Result<Sender, Failure> {
        let stream = self.connect().await?;
        // Small requests must not wait for more to come. Failing to say so costs time, not correctness.
        let _ = stream.set_nodelay(true);
        let keepalive =
            socket2::TcpKeepalive::new().with_time(TCP_KEEPALIVE_INTERVAL).with_interval(TCP_KEEPALIVE_INTERVAL);
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        match &self.target.tls {
            None => start(stream).await,
            Some((config, name)) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name.clone(), stream).await.map_err(Failure::from_error)?;
                start(stream).await
            }
        }
    }

    /// Walks through all addresses of the name: a standby refuses, the master accepts.
    async fn connect(&self) -> Result<TcpStream, Failure> {
        let addresses: Vec<_> = tokio::net::lookup_host((self.target.host.as_str(), self.target.port))
            .await
            .map_err(|source| Failure { kind: TransportKind::Resolve, source: Some(Box::new(source)) })?
            .collect();
        if addresses.is_empty() {
            return Err(Failure { kind: TransportKind::Resolve, source: None });
        }
        TcpStream::connect(addresses.as_slice()).await.map_err(Failure::from_error)
    }
}

/// Sends a request and waits for the head of its answer.
///
/// A request that is handed over at the very moment its connection ends can stay in the queue of that connection, where nobody
/// looks any more, for as long as we hold the other end. So the end is watched, and then our end is let go of: the request comes
/// back with an error, or with the answer that was there already.
async fn exchange(
    mut connection: Sender,
    request: Request,
) -> Result<(hyper::Response<Incoming>, Connection), TrySendError<Request>> {
    let answer = connection.try_send_request(request);
    tokio::pin!(answer);
    let answered = tokio::select! {
        biased;
        answered = &mut answer => Some(answered),
        () = ended(&mut connection) => None,
    };
    match answered {
        Some(answered) => Ok((answered?, Connection(Some(connection)))),
        None => {
            drop(connection);
            Ok((answer.await?, Connection(None)))
        }
    }
}

async fn ended(connection: &mut Sender) {
    if connection.ready().await.is_ok() {
        // It would take another request, so the answer to this one is there.
        std::future::pending::<()>().await;
    }
}

async fn start<S>(stream: S) -> Result<Sender, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(Failure::from_error)?;
    // The task ends when the sender is dropped or the peer closes. Its errors also reach whoever waits on the sender.
    tokio::spawn(connection);
    Ok(sender)
}
