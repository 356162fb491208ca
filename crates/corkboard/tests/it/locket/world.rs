//! A Locket and the nodes around it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use api::client::TlsFiles;
use api::locket::{Client, Options};
use locket::{Config, Desk, serve};
use rig::pki::Pki;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::node::{Node, Orders};

/// Longer than anything that a test waits for, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct World {
    dir: TempDir,
    pki: Pki,
    pub(crate) address: SocketAddr,
    desk: Desk,
    runtime: Runtime,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let desk = Desk::default();
        let dir = TempDir::new().unwrap();
        let mut world = Self { dir, pki: Pki::new(), address: any, desk, runtime, running: None };
        world.start_locket();
        world
    }

    fn files(&self, name: &str) -> TlsFiles {
        let path = |suffix: &str| self.pki.path(&format!("{name}.{suffix}"));
        TlsFiles { ca: self.pki.path("ca.crt"), cert: path("crt"), key: path("key"), skip_verify: false }
    }

    /// At the same address, and with the same book, as one that keeps it in a database.
    pub(crate) fn start_locket(&mut self) {
        let config = Config { listen: self.address, tls: self.files("server") };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let desk = self.desk.clone();
        let running = self.runtime.spawn(async move {
            let until = async {
                let _ = stopped.await;
            };
            serve(config, std::sync::Arc::new(desk), until, |address| tell.send(address).unwrap()).await.unwrap();
        });
        self.address = told.blocking_recv().unwrap();
        self.running = Some((stop, running));
    }

    pub(crate) fn stop_locket(&mut self) {
        let (stop, running) = self.running.take().unwrap();
        stop.send(()).unwrap();
        self.runtime.block_on(running).unwrap();
    }

    /// A node that reaches Locket at this address.
    pub(crate) fn node_over(&self, name: &str, locket: SocketAddr) -> Node {
        let (store, certificates) = (self.dir.path().join("store"), self.pki.dir.path());
        Node::start(&Orders { name, store: &store, locket, certificates })
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        self.node_over(name, self.address)
    }

    /// Calls Locket as somebody else would.
    pub(crate) fn ask<T>(&self, ask: impl AsyncFnOnce(Client) -> T) -> T {
        let options = Options { address: self.address.to_string(), tls: self.files("client"), keepalive: None };
        self.runtime.block_on(async { ask(Client::new(&options).unwrap()).await })
    }

    pub(crate) fn owner(&self) -> Option<String> {
        self.ask(async |client| client.fetch("bbs", PATIENCE).await.ok().map(|held| held.owner))
    }
}

/// Looks until it is so, and says how long that took.
#[expect(clippy::disallowed_methods, reason = "how long something takes is what is tested, and no runtime is around")]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "still not so: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
    began.elapsed()
}
