//! A real server in this process: the embedded store in a temporary directory, real sockets, `bbs::run`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::client::{Client, ClientConfig, TlsFiles};
use api::models;
use bbs::clock::{Clock, SystemClock};
use bbs::config::{Config, Limits, Migration, Outbound, Timing};
use bbs::{Ready, RunError};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything that a test waits for, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub(crate) ready: Ready,
    config: Config,
    clock: Arc<dyn Clock>,
    dir: TempDir,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), RunError>>,
}

/// Everything that lists show, to compare before and after.
#[derive(Debug, PartialEq)]
pub(crate) struct Shown {
    desired: Vec<models::DesiredLrp>,
    actual: Vec<models::ActualLrp>,
    tasks: Vec<models::Task>,
    domains: Vec<String>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A server whose configuration differs from the usual one.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::with_clock(Arc::new(SystemClock), change).await
    }

    pub(crate) async fn with_clock(clock: Arc<dyn Clock>, change: impl FnOnce(&mut Config)) -> Self {
        let dir = TempDir::new().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut config = Config {
            definitions_kept: 5,
            node: "node".into(),
            listen: any,
            tls: None,
            health: any,
            advertise_url: None,
            store: bbs::config::Store::Embedded { dir: dir.path().join("store") },
            standby: bbs::config::Standby::Closed,
            timing: Timing::default(),
            limits: Limits::default(),
            task_rejections_max: model::task::REJECTIONS_MAX,
            outbound: Outbound::default(),
            cells_file: None,
            identity: dir.path().join("store.identity"),
            migration: Migration::default(),
            encryption: None,
            newest: store::Version::LATEST,
            rollback_on_drain_to: None,
            locket: None,
            api_version: api::version::CURRENT,
        };
        change(&mut config);
        Self::run(config, clock, dir).await
    }

    async fn run(config: Config, clock: Arc<dyn Clock>, dir: TempDir) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = oneshot::channel();
        let until = async move {
            let _ = stopped.await;
        };
        let ready = |ready| {
            let _ = tell.send(ready);
        };
        let server = bbs::server::run_with_clock(config.clone(), clock.clone(), until, ready);
        let running = tokio::spawn(server);
        let ready = told.await;
        let Ok(ready) = ready else { panic!("the server did not start: {:?}", running.await) };
        Self { ready, config, clock, dir, stop, running }
    }

    pub(crate) fn client(&self) -> Client {
        assert!(!self.ready.tls, "a server with TLS is reached with a certificate");
        client(&format!("http://{}", self.ready.api), None)
    }

    async fn health(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        crate::raw::exchange(self.ready.health, request.as_bytes()).await.unwrap().text().to_owned()
    }

    /// The revision of the store, from the status.
    pub(crate) async fn revision(&self) -> u64 {
        let status: serde_json::Value = serde_json::from_str(&self.health("/status").await).unwrap();
        status["board"]["revision"].as_u64().unwrap()
    }

    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = self.health("/metrics").await;
        let line = text.lines().find(|line| line.starts_with(&format!("corkboard_{name} "))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    /// Asks the server to stop, without waiting.
    pub(crate) fn begin_to_stop(self) -> Stopping {
        let Self { config, clock, dir, stop, running, .. } = self;
        let _ = stop.send(());
        Stopping { config, clock, dir, running }
    }

    pub(crate) async fn stop(self) -> Stopped {
        self.begin_to_stop().wait().await
    }

    /// Waits for the server to end by itself.
    pub(crate) async fn ended(self) -> Stopped {
        let Self { config, clock, dir, stop, running, .. } = self;
        let stopped = Stopping { config, clock, dir, running }.wait().await;
        drop(stop);
        stopped
    }

    pub(crate) async fn restart(self) -> Self {
        self.stop().await.start().await
    }
}

pub(crate) struct Stopping {
    config: Config,
    clock: Arc<dyn Clock>,
    dir: TempDir,
    running: JoinHandle<Result<(), RunError>>,
}

impl Stopping {
    pub(crate) async fn wait(self) -> Stopped {
        let ended = tokio::time::timeout(PATIENCE, self.running).await.expect("the server stops in time");
        ended.unwrap().unwrap();
        Stopped { config: self.config, clock: self.clock, dir: self.dir }
    }
}

pub(crate) struct Stopped {
    config: Config,
    clock: Arc<dyn Clock>,
    dir: TempDir,
}

impl Stopped {
    pub(crate) fn store_dir(&self) -> &std::path::Path {
        match &self.config.store {
            bbs::config::Store::Embedded { dir } => dir,
            bbs::config::Store::Etcd(_) => unreachable!("these tests work on a directory"),
        }
    }

    /// The same store under another configuration.
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    pub(crate) async fn start(self) -> Server {
        Server::run(self.config, self.clock, self.dir).await
    }
}

pub(crate) fn client(url: &str, tls: Option<TlsFiles>) -> Client {
    Client::new(ClientConfig { tls, ..ClientConfig::once(url, Some(PATIENCE)) }).unwrap()
}

/// All records, in a fixed order.
pub(crate) async fn shown(client: &Client) -> Shown {
    let mut desired = client.desired_lrps(Default::default()).await.unwrap();
    let mut actual = client.actual_lrps(Default::default()).await.unwrap();
    let mut tasks = client.tasks(Default::default()).await.unwrap();
    let mut domains = client.domains().await.unwrap();
    desired.sort_by(|a, b| a.process_guid.cmp(&b.process_guid));
    actual.sort_by_key(|row| format!("{:?}{}", row.actual_lrp_key, row.presence));
    tasks.sort_by(|a, b| a.task_guid.cmp(&b.task_guid));
    domains.sort();
    Shown { desired, actual, tasks, domains }
}

/// The refusal as text, or `ok`.
pub(crate) fn verdict<T>(result: Result<T, api::client::ClientError>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(error) => match error.bbs() {
            Some(error) => error.to_string(),
            None => format!("{error:?}"),
        },
    }
}

/// Looks until it is so. For what happens in the background and has no event to wait for.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "still not so: {what}");
}
