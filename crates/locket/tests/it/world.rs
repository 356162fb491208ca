//! A Locket in this process that can be stopped and started again, and clients of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::client::TlsFiles;
use api::locket::{Client, Kind, Options, Resource};
use corkboard_locket::server::CONNECTIONS_MAX;
use corkboard_locket::{Config, Desk, serve_at_most};
use rig::pki::Pki;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything that a test waits for, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) pki: Pki,
    pub(crate) address: SocketAddr,
    desk: Desk,
    running: Option<Running>,
}

/// A server, until it is stopped or dropped.
type Running = (oneshot::Sender<()>, JoinHandle<()>);

impl World {
    pub(crate) async fn new() -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        let mut world = Self { pki: Pki::new(), address: any, desk: Desk::default(), running: None };
        world.start().await;
        world
    }

    pub(crate) fn files(&self, name: &str) -> TlsFiles {
        let path = |suffix: &str| self.pki.path(&format!("{name}.{suffix}"));
        TlsFiles { ca: self.pki.path("ca.crt"), cert: path("crt"), key: path("key"), skip_verify: false }
    }

    /// On the same address, with the same book, as one that keeps its book in a database.
    pub(crate) async fn start(&mut self) {
        let (address, running) = self.server(self.address, CONNECTIONS_MAX).await;
        self.address = address;
        self.running = Some(running);
    }

    /// Another one with the same book, as two that share a database.
    pub(crate) async fn sibling(&self, connections_max: usize) -> (SocketAddr, Running) {
        self.server("127.0.0.1:0".parse().unwrap(), connections_max).await
    }

    async fn server(&self, listen: SocketAddr, connections_max: usize) -> (SocketAddr, Running) {
        let config = Config { listen, tls: self.files("server") };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let desk = Arc::new(self.desk.clone());
        let running = tokio::spawn(async move {
            let until = async {
                let _ = stopped.await;
            };
            serve_at_most(connections_max, config, desk, until, |address| tell.send(address).unwrap()).await.unwrap();
        });
        (told.await.unwrap(), (stop, running))
    }

    pub(crate) async fn stop(&mut self) {
        let (stop, running) = self.running.take().unwrap();
        stop.send(()).unwrap();
        tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.address.to_string(), self.files("client"))
    }
}

pub(crate) fn client(address: &str, tls: TlsFiles) -> Client {
    Client::new(&Options { address: address.to_owned(), tls, keepalive: None }).unwrap()
}

pub(crate) fn resource(key: &str, owner: &str, kind: Kind) -> Resource {
    Resource { key: key.into(), owner: owner.into(), value: format!("value of {key}"), kind }
}
