//! Accepts connections, speaks TLS where it is configured, and ends them in order when the cell ends.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::config::Limits;

/// How long to wait after `accept` failed, usually because files ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Most answers are there at once; some are written while they are read.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What is behind a door.
pub(super) trait Room: Send + Sync + 'static {
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Serves until told to stop, then lets requests in flight finish. Dropping it cuts all connections off.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    room: Arc<impl Room>,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            // Closing at once lets the client try again; a silent queue would only look like a hang.
            Ok(_) if connections.len() >= limits.connections_max => {
                tracing::warn!(open = connections.len(), "a connection was closed, because too many are open");
            }
            Ok((stream, _)) => {
                connections.spawn(connection(stream, acceptor.clone(), room.clone(), limits, stop.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted; trying on");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    room: Arc<impl Room>,
    limits: Limits,
    stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    match acceptor {
        None => http(stream, room, limits, stop).await,
        Some(acceptor) => match timeout(limits.handshake_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => http(stream, room, limits, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

async fn http<S>(stream: S, room: Arc<impl Room>, limits: Limits, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        let room = room.clone();
        async move { Ok::<_, Infallible>(room.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_timeout)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        result = &mut connection => Some(result),
        _ = stop.wait_for(|stop| *stop) => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended badly");
    }
}
