//! Listens for clients of Locket: TLS with certificates on both sides, HTTP/2 and nothing else, gRPC on top.
//!
//! Promise: a client that is slow, silent or a stranger costs the others nothing but its place among [`CONNECTIONS_MAX`]; whoever
//! comes when all are taken is turned away, and may come again. When the server stops, calls under way are answered first.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::client::tls::{TlsError, TlsFiles, server_config};
use api::locket::proto::locket_server::LocketServer;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tonic::codegen::Service;

use crate::keeper::Keeper;
use crate::service::Counter;

/// Every client keeps one connection; there are as many clients as cells and then some.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Diego's clients make one call at a time.
const CALLS_PER_CONNECTION_MAX: u32 = 64;
/// Far more than a resource takes.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// How often a silent connection is probed, and how long it may stay silent then.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
const PROBE_LIMIT: Duration = Duration::from_secs(20);
/// How long calls may take to finish when the server stops.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// How long to wait after `accept` failed, usually because files ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const HTTP2: &[u8] = b"h2";

#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub tls: TlsFiles,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}: {source}. Is another server using it? Choose another address")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Serves until `stop` resolves. `ready` is told the address.
pub async fn serve(
    config: Config,
    keeper: Arc<dyn Keeper>,
    stop: impl Future<Output = ()> + Send,
    ready: impl FnOnce(SocketAddr) + Send,
) -> Result<(), ServeError> {
    serve_at_most(CONNECTIONS_MAX, config, keeper, stop, ready).await
}

/// The same for fewer connections.
pub async fn serve_at_most(
    connections_max: usize,
    config: Config,
    keeper: Arc<dyn Keeper>,
    stop: impl Future<Output = ()> + Send,
    ready: impl FnOnce(SocketAddr) + Send,
) -> Result<(), ServeError> {
    let mut tls = ServerConfig::clone(&*server_config(&config.tls.ca, &config.tls.cert, &config.tls.key)?);
    tls.alpn_protocols = vec![HTTP2.to_vec()];
    let failed = |source| ServeError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
    ready(listener.local_addr().map_err(failed)?);
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tokio::select! {
        () = stop => {}
        () = accept(listener, acceptor, &keeper, &mut connections, connections_max, stopped) => {}
        () = keeper.look_after() => {}
    }
    stopping.send_replace(true);
    let drained = timeout(DRAIN_LIMIT, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(open = connections.len(), "some connections did not finish in time and are cut off");
    }
    Ok(())
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    keeper: &Arc<dyn Keeper>,
    connections: &mut JoinSet<()>,
    connections_max: usize,
    stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted; trying on");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let (acceptor, keeper, stop) = (acceptor.clone(), keeper.clone(), stop.clone());
        connections.spawn(async move {
            connection(stream, acceptor, keeper, stop).await;
            drop(place);
        });
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    keeper: Arc<dyn Keeper>,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let stream = tokio::select! {
        _ = stop.wait_for(|stop| *stop) => return,
        accepted = timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)) => match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => return tracing::debug!("a TLS handshake took too long"),
        },
    };
    if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
        return tracing::debug!("a client does not speak HTTP/2");
    }
    let locket = LocketServer::new(Counter(keeper)).max_decoding_message_size(REQUEST_BYTES_MAX);
    let service = service_fn(move |request: Request<Incoming>| locket.clone().call(request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PROBE_INTERVAL)
        .keep_alive_timeout(PROBE_LIMIT)
        .max_concurrent_streams(CALLS_PER_CONNECTION_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = &mut connection => return log_end(ended),
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    log_end(connection.await);
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}
