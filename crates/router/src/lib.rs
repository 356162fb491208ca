//! A small HTTP router: hears from emitters where the instances of routes are, and hands requests to them.
//!
//! It takes gorouter's place in a small installation and understands the same messages, over NATS or in process. HTTP/1.1 and
//! upgrades (WebSocket) pass through; bodies stream in both directions and are never held. What it does not do: HTTP/2, route
//! services, sticky sessions, certificates by host.
//!
//! Promises, each with a test: while an instance is replaced by another no request fails; a bus that is away takes no route
//! away; a stop lets requests in flight finish. Start reading in [`table`], then `proxy.rs`.

mod body;
pub mod config;
pub mod endpoint;
mod failure;
mod feed;
mod headers;
mod health;
mod listener;
pub mod metrics;
mod proxy;
pub mod silence;
mod stall;
pub mod table;
mod tunnel;
mod upstream;

use std::sync::{Arc, RwLock};

use api::registry::bus::Bus;
pub use config::{Balance, Config, Limits};
use metrics::Metrics;
use rustls::ServerConfig;
use table::Table;
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::proxy::Proxy;

/// What the router works with.
#[derive(Debug)]
pub struct Parts {
    /// For clients.
    pub listener: TcpListener,
    /// For clients that speak TLS, on a port of its own.
    pub tls: Option<(TcpListener, Arc<ServerConfig>)>,
    /// For load balancers and operators; without TLS, so on loopback or a network of its own.
    pub health: Option<TcpListener>,
    pub bus: Arc<dyn Bus>,
    pub metrics: Arc<Metrics>,
}

/// Runs until told to stop, and then until requests in flight have ended or their time is up. Health says so first.
pub async fn run(config: Config, parts: Parts, stop: watch::Receiver<bool>) {
    let Parts { listener, tls, health, bus, metrics } = parts;
    let table = Arc::new(RwLock::new(Table::new(&config)));
    let (drain, draining) = watch::channel(false);
    let (close, closing) = watch::channel(false);
    let wait = config.limits.drain_wait;
    let proxy = Arc::new(Proxy { config: config.clone(), table: Arc::clone(&table), metrics: Arc::clone(&metrics) });
    let health = async {
        match health {
            Some(listener) => health::serve(listener, Arc::clone(&proxy), draining).await,
            None => std::future::pending().await,
        }
    };
    let doors = async {
        let plain = listener::serve(listener, None, Arc::clone(&proxy), closing.clone());
        match tls {
            Some((listener, tls)) => {
                let secured = listener::serve(listener, Some(tls), Arc::clone(&proxy), closing.clone());
                tokio::join!(plain, secured);
            }
            None => plain.await,
        }
    };
    tokio::select! {
        () = doors => {}
        () = feed::listen(&config, bus.as_ref(), &table, &metrics) => {}
        () = health => {}
        () = wind_down(stop, &drain, &close, wait) => {}
    }
}

/// First says that no more is wanted, then closes the door. Never ends: the listener does, when it is empty.
async fn wind_down(
    mut stop: watch::Receiver<bool>,
    drain: &watch::Sender<bool>,
    close: &watch::Sender<bool>,
    wait: std::time::Duration,
) {
    let _ = stop.wait_for(|stop| *stop).await;
    tracing::info!("the router takes no more clients soon; requests in flight may finish");
    drain.send_replace(true);
    tokio::time::sleep(wait).await;
    close.send_replace(true);
    std::future::pending::<()>().await;
}
