//! Accepts clients, speaks TLS where it is configured, and closes the door in order when the router stops.
//!
//! A place is held by everything that belongs to a connection, upgraded or not; when all places are free again, nobody waits
//! for an answer any more.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::proxy::{Client, Proxy};
use crate::stall::StallLimit;

/// How long to wait after `accept` failed, usually because files ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// hyper asks for at least this much.
const BUFFER_BYTES_MIN: usize = 8192;
/// More cannot be counted.
const PLACES_MAX: usize = u32::MAX as usize >> 1;

/// Serves until told to stop, then lets requests in flight finish within the limit.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    proxy: Arc<Proxy>,
    stop: watch::Receiver<bool>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let count = proxy.config.limits.connections_max.clamp(1, PLACES_MAX);
    let places = Arc::new(Semaphore::new(count));
    let mut stopping = stop.clone();
    loop {
        let accepted = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
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
                let client = Client { from: from.ip(), tls: acceptor.is_some(), place: Arc::new(place) };
                tokio::spawn(connection(stream, acceptor.clone(), proxy.clone(), client, stop.clone()));
            }
            // Closing at once lets the client try elsewhere; a silent queue would only look like a hang.
            Err(_) => drop(proxy.metrics.refused_connections.inc()),
        }
    }
    drop(listener);
    let all = u32::try_from(count).unwrap_or(u32::MAX);
    if timeout(proxy.config.limits.drain_timeout, places.acquire_many(all)).await.is_err() {
        let open = count - places.available_permits();
        tracing::warn!(open, "some connections did not finish in time and are cut off");
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    proxy: Arc<Proxy>,
    client: Client,
    stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    match acceptor {
        None => http(stream, &proxy, client, stop).await,
        Some(acceptor) => match timeout(proxy.config.limits.handshake_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => http(stream, &proxy, client, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

async fn http<S>(stream: S, proxy: &Arc<Proxy>, client: Client, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &proxy.config.limits;
    let from: IpAddr = client.from;
    let io = TokioIo::new(StallLimit::new(stream, limits.client_stall_timeout));
    let service = service_fn(|request| {
        let client = client.clone();
        async move { Ok::<_, Infallible>(proxy.serve(request, &client).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.client_idle_timeout)
        .max_buf_size(limits.header_bytes_max.max(BUFFER_BYTES_MIN))
        .serve_connection(io, service)
        .with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        ended = &mut connection => return log_end(from, ended),
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    log_end(from, connection.await);
}

fn log_end(client: IpAddr, ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, %client, "a connection ended badly");
    }
}
