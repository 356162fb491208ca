//! The other end of a call: a small server that answers as it is told, and a call to a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use api::client::pool::{Pool, Target};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(crate) struct Heard {
    pub(crate) method: hyper::Method,
    pub(crate) path: String,
    pub(crate) trace: Option<String>,
    pub(crate) body: Bytes,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: Bytes,
}

impl Reply {
    /// Ends the connection without an answer.
    pub(crate) const HANG_UP: Reply = Reply { status: 0, kind: "", body: Bytes::new() };

    pub(crate) fn json(status: u16, body: String) -> Self {
        Self { status, kind: "application/json", body: body.into() }
    }

    pub(crate) fn protobuf(message: impl api::Wire) -> Self {
        Self { status: 200, kind: api::client::PROTOBUF, body: api::encode(message) }
    }
}

pub(crate) type Handler = Arc<dyn Fn(Heard) -> BoxFuture<'static, Reply> + Send + Sync>;

/// Answers until it is dropped.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Peer {
    pub(crate) async fn start(tls: Option<Arc<rustls::ServerConfig>>, handler: Handler) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, handler) = (tls.clone(), handler.clone());
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, &handler).await,
                        Some(tls) => {
                            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                                serve(stream, &handler).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, _serving: serving }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, handler: &Handler) {
    let service = service_fn(|request: hyper::Request<Incoming>| async {
        let (head, body) = request.into_parts();
        let trace = head.headers.get(api::client::TRACE_HEADER).map(|it| it.to_str().unwrap().to_owned());
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let heard = Heard { method: head.method, path: head.uri.path().to_owned(), trace, body };
        let reply = handler(heard).await;
        if reply.status == 0 {
            return Err(std::io::Error::other("hung up"));
        }
        let response = hyper::Response::builder().status(reply.status).header("content-type", reply.kind);
        Ok(response.body(Full::new(reply.body)).unwrap())
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Makes one call; `None` when no answer comes.
pub(crate) async fn call(
    address: SocketAddr,
    tls: Option<Arc<rustls::ClientConfig>>,
    request: hyper::http::request::Builder,
    body: impl Into<Bytes>,
) -> Option<(u16, hyper::HeaderMap, String)> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let target = Target { host: address.ip().to_string(), port: address.port(), tls: tls.map(|config| (config, name)) };
    let request = request.header("host", "auctioneer").body(Full::new(body.into())).unwrap();
    let (response, _connection) = Pool::new(target).send(request).await.ok()?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some((head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap()))
}
