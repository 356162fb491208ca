//! Accepts connections, speaks TLS where it is configured, and ends them in order when the server stops.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Front;
use super::stall::StallLimit;

/// How long to wait after `accept` failed, usually because files ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until told to stop, then lets requests in flight finish within the drain limit.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    front: Arc<Front>,
    stop: watch::Receiver<bool>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let places = Arc::new(Semaphore::new(front.limits.connections_max));
    let mut connections = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        let accepted = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted; trying on");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match places.clone().try_acquire_owned() {
            Ok(place) => {
                let (front, acceptor, stop) = (front.clone(), acceptor.clone(), stop.clone());
                connections.spawn(connection(stream, from.ip(), acceptor, front, stop, place));
            }
            // Closing at once lets the client try elsewhere; a silent queue would only look like a hang.
            Err(_) => {
                front.metrics.refused_connections.inc();
            }
        }
    }
    drop(listener);
    let drained = timeout(front.limits.drain_timeout, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(open = connections.len(), "some connections did not finish in time and are cut off");
    }
}

async fn connection(
    stream: TcpStream,
    from: IpAddr,
    acceptor: Option<TlsAcceptor>,
    front: Arc<Front>,
    stop: watch::Receiver<bool>,
    place: OwnedSemaphorePermit,
) {
    front.metrics.connections.inc();
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    match acceptor {
        None => http(stream, from, &front, stop).await,
        Some(acceptor) => match timeout(front.limits.handshake_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => http(stream, from, &front, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
    front.metrics.connections.dec();
    drop(place);
}

async fn http<S>(stream: S, from: IpAddr, front: &Arc<Front>, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(StallLimit::new(stream, front.limits.stall_timeout));
    let service = service_fn(|request| front.serve(request, from));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(front.limits.idle_timeout)
        .max_buf_size(front.limits.header_bytes_max.max(512 * 1024))
        .serve_connection(io, service);
    tokio::pin!(connection);
    tokio::select! {
        result = &mut connection => return log_end(result),
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    log_end(connection.await);
}

fn log_end(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended badly");
    }
}
