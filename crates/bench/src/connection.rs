//! One keep-alive connection of HTTP/1.1, with as little of our own work per request as possible.
//!
//! Client and server of a benchmark usually share a machine, so whatever the client burns is missing in the result.
//! Therefore: no pool, no retries, no decoding, and no task beside the caller's; the connection is driven by whoever waits
//! for the answer. Every answer is judged by [`Walker`]; what is not a success is a [`CallError`].

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::Route;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection as Wire, SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::answer::{Verdict, Walker};
use crate::stopwatch::Stopwatch;

/// A server that takes longer to accept us is not measured but broken.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no connection to {address}")]
    Connect {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("no HTTP connection, or it broke before the answer was complete")]
    Http(#[from] hyper::Error),
    #[error("status {status} with content type {content_type}")]
    Status { status: StatusCode, content_type: String },
    #[error(transparent)]
    Verdict(#[from] Verdict),
}

impl CallError {
    /// Whether the connection can be used for the next call. After an answer it can, whatever the answer was.
    pub fn connection_survives(&self) -> bool {
        matches!(self, CallError::Verdict(Verdict::Refused { .. }))
    }
}

/// Where to, and how to get there.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    host: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Target").field("address", &self.address).field("tls", &self.tls.is_some()).finish()
    }
}

impl Target {
    /// The name is looked up once: a benchmark wants all connections to go to one server.
    pub async fn resolve(url: &Url, tls: Option<Arc<ClientConfig>>) -> anyhow::Result<Target> {
        let name = url.host_str().ok_or_else(|| anyhow::anyhow!("{url} names no host"))?;
        let port = url.port_or_known_default().unwrap_or(443);
        let mut addresses = tokio::net::lookup_host((name.trim_matches(['[', ']']), port)).await?;
        let address = addresses.next().ok_or_else(|| anyhow::anyhow!("{name} has no address"))?;
        let tls = match url.scheme() {
            "http" => None,
            "https" => {
                let config = tls.ok_or_else(|| anyhow::anyhow!("{url} needs --ca, --cert and --key"))?;
                Some((TlsConnector::from(config), ServerName::try_from(name.trim_matches(['[', ']']).to_owned())?))
            }
            other => anyhow::bail!("{other} is no scheme of a BBS; use https, or http on this machine"),
        };
        Ok(Target { address, host: HeaderValue::from_str(&format!("{name}:{port}"))?, tls })
    }

    pub async fn connect(&self) -> Result<Connection, CallError> {
        let failed = |source| CallError::Connect { address: self.address, source };
        let connecting = async {
            let tcp = TcpStream::connect(self.address).await?;
            tcp.set_nodelay(true)?;
            let stream: Box<dyn Stream> = match &self.tls {
                None => Box::new(tcp),
                Some((connector, name)) => Box::new(connector.connect(name.clone(), tcp).await?),
            };
            Ok(stream)
        };
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let stream = stream.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())).map_err(failed)?;
        let (sender, wire) = handshake(TokioIo::new(stream)).await?;
        Ok(Connection { sender, wire: Driver(Some(Box::pin(wire))), host: self.host.clone() })
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Duplex = Wire<TokioIo<Box<dyn Stream>>, Full<Bytes>>;

/// What was measured of a successful call.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub first_byte: Duration,
    pub total: Duration,
    pub bytes: u64,
    pub records: u64,
}

pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    wire: Driver,
    host: HeaderValue,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    pub async fn call(&mut self, route: Route, body: Bytes) -> Result<Answer, CallError> {
        let watch = Stopwatch::start();
        let mut response = self.send(route, body).await?;
        let protobuf = response.headers().get(CONTENT_TYPE) == Some(&PROTOBUF);
        if response.status() != StatusCode::OK || !protobuf {
            return Err(unexpected(&response));
        }
        let mut walker = Walker::default();
        let mut first_byte = None;
        while let Some(frame) = self.wire.drive(response.frame()).await {
            first_byte.get_or_insert_with(|| watch.elapsed());
            if let Some(chunk) = frame?.data_ref() {
                walker.feed(chunk)?;
            }
        }
        walker.verdict()?;
        let total = watch.elapsed();
        Ok(Answer { first_byte: first_byte.unwrap_or(total), total, bytes: walker.bytes, records: walker.records })
    }

    /// Opens an event stream. It returns when the server has said yes.
    pub async fn subscribe(mut self, route: Route, body: Bytes) -> Result<Subscription, CallError> {
        let response = self.send(route, body).await?;
        if response.status() != StatusCode::OK {
            return Err(unexpected(&response));
        }
        Ok(Subscription { connection: self, body: response.into_body() })
    }

    async fn send(&mut self, route: Route, body: Bytes) -> Result<Response<Incoming>, CallError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = route.method().into();
        *request.uri_mut() = hyper::Uri::from_static(route.path());
        request.headers_mut().insert(HOST, self.host.clone());
        request.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
        Ok(self.wire.drive(self.sender.send_request(request)).await?)
    }
}

/// An event stream, read in pieces of whatever size arrives.
#[derive(Debug)]
pub struct Subscription {
    connection: Connection,
    body: Incoming,
}

impl Subscription {
    /// `None` when the server has ended the stream.
    pub async fn next(&mut self) -> Option<Result<Bytes, CallError>> {
        loop {
            match self.connection.wire.drive(self.body.frame()).await? {
                Ok(frame) => {
                    if let Ok(chunk) = frame.into_data() {
                        return Some(Ok(chunk));
                    }
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// The half of a connection that reads and writes. It only moves while somebody waits for an answer.
struct Driver(Option<Pin<Box<Duplex>>>);

impl Driver {
    async fn drive<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        if let Some(wire) = &mut self.0 {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = wire => {}
            }
            // The connection is over. What it read last may still hold the answer; if not, `work` fails by itself.
            self.0 = None;
        }
        work.await
    }
}

fn unexpected(response: &Response<Incoming>) -> CallError {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("none");
    CallError::Status { status: response.status(), content_type: content_type.to_owned() }
}
