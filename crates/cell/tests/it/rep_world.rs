//! A cell with everything around it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::client::pool::{Pool, Target};
use api::client::{Client, ClientConfig};
use bytes::Bytes;
use cell::executor::simulated::{Behaviour, SimulatedExecutor};
use cell::executor::{Container, ContainerGuid, Executor, Later, Room};
use cell::presence::{Presence, PresenceError};
use cell::rep::clock::Clock;
use cell::rep::{Config, Ending, Parts, Ready, RunError, run};
use http_body_util::{BodyExt, Full};
use model::{CellId, InstanceGuid, Nanos, TaskGuid};
use rustls::pki_types::ServerName;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::rep_board::Board;

/// Longer than anything takes that happens at all.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn patiently<T>(what: impl Future<Output = T>) -> Option<T> {
    timeout(PATIENCE, what).await.ok()
}

/// Waits for what has no event of its own, such as something that a container has become.
pub(crate) async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let waiting = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    patiently(waiting).await.unwrap_or_else(|| panic!("never happened: {what}"));
}

#[derive(Debug, Default)]
struct CountingClock(AtomicU32);

impl Clock for CountingClock {
    fn now_ns(&self) -> Nanos {
        1_700_000_000_000_000_000
    }

    fn draw(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)) << 96
    }
}

/// Writes down what is announced, and when it is taken back.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) failing: Mutex<bool>,
}

impl Presence for Notices {
    fn announce<'a>(&'a self, value: &'a str, ttl: Duration) -> Later<'a, Result<(), PresenceError>> {
        let failing = *self.failing.lock().unwrap();
        self.log.lock().unwrap().push(format!("{} s: {value}", ttl.as_secs()));
        Box::pin(async move { if failing { Err(PresenceError::Taken) } else { Ok(()) } })
    }

    fn withdraw(&self) -> Later<'_, Result<(), PresenceError>> {
        self.log.lock().unwrap().push("withdrawn".into());
        Box::pin(async { Ok(()) })
    }
}

pub(crate) struct World {
    pub(crate) board: Arc<Board>,
    pub(crate) executor: Arc<SimulatedExecutor>,
    pub(crate) presence: Arc<Notices>,
    pub(crate) ready: Ready,
    pub(crate) evacuate: Option<oneshot::Sender<()>>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) ended: JoinHandle<Result<Ending, RunError>>,
}

pub(crate) const TOTAL: Room = Room { memory_mb: 1024, disk_mb: 2048, containers: 10 };

/// Quick, so that tests are; what is polled is polled often.
pub(crate) fn config() -> Config {
    let mut config = Config::new(CellId::parse("cell-1").unwrap());
    config.zone = "z1".into();
    config.rootfs_schemes = vec!["docker".into()];
    config.times.polling = Duration::from_millis(300);
    config.times.polling_evacuating = Duration::from_millis(100);
    config.times.presence = Duration::from_millis(50);
    config.times.pause_first = Duration::from_millis(20);
    config.times.pause_max = Duration::from_millis(100);
    config.times.ending = Duration::from_secs(5);
    config
}

pub(crate) fn quick() -> Behaviour {
    let (create, start) = (Duration::from_millis(5), Duration::from_millis(5));
    Behaviour { create, start, task: Duration::from_millis(20), ..Behaviour::default() }
}

pub(crate) fn executor() -> Arc<SimulatedExecutor> {
    SimulatedExecutor::new(TOTAL, &["cflinuxfs4"], quick(), 0)
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(config(), Arc::new(Board::start().await), executor()).await
    }

    pub(crate) async fn with(config: Config, board: Arc<Board>, executor: Arc<SimulatedExecutor>) -> Self {
        let bbs = Client::new(ClientConfig::new(format!("http://{}", board.address))).unwrap();
        let presence = Arc::new(Notices::default());
        let parts = Parts {
            bbs,
            executor: executor.clone(),
            presence: presence.clone(),
            clock: Arc::new(CountingClock(AtomicU32::new(executor.list().len() as u32))),
        };
        let (evacuate, evacuated) = oneshot::channel::<()>();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, begun) = oneshot::channel();
        let asked = |asked: oneshot::Receiver<()>| async {
            if asked.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::spawn(run(config, parts, asked(evacuated), asked(stopped), |it| ready.send(it).unwrap()));
        let ready = patiently(begun).await.unwrap().unwrap();
        Self { board, executor, presence, ready, evacuate: Some(evacuate), stop: Some(stop), ended }
    }

    pub(crate) async fn network(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        call(self.ready.network, method, path, body).await.unwrap()
    }

    pub(crate) async fn admin(&self, method: &str, path: &str) -> (u16, String) {
        call(self.ready.admin, method, path, "").await.unwrap()
    }

    /// Work for these instances of one app, by memory; returns what was refused.
    pub(crate) async fn lrps(&self, memory_mb: &[i32]) -> String {
        let lrps: Vec<String> = memory_mb.iter().enumerate().map(|(index, memory)| lrp(index, *memory)).collect();
        let (status, refused) = self.network("POST", "/work", &work(&lrps, &[])).await;
        assert_eq!(status, 200);
        refused
    }

    pub(crate) async fn task(&self, guid: &str) -> String {
        let (status, refused) = self.network("POST", "/work", &work(&[], &[task(guid)])).await;
        assert_eq!(status, 200);
        refused
    }

    /// The one container that there is.
    pub(crate) fn only(&self) -> Arc<Container> {
        let mut all = self.executor.list();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    pub(crate) async fn is_empty(&self) {
        until("no containers are left", || self.executor.list().is_empty()).await;
    }

    pub(crate) async fn ends(self) -> Ending {
        patiently(self.ended).await.expect("it ends").unwrap().unwrap()
    }

    pub(crate) async fn stops(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        assert_eq!(self.ends().await, Ending::Stopped);
    }
}

pub(crate) fn lrp(index: usize, memory_mb: i32) -> String {
    format!(
        r#"{{"instance_guid":"","process_guid":"app","index":{index},"domain":"d","PlacementTags":null,"VolumeDrivers":[],"RootFs":"preloaded:cflinuxfs4","MemoryMB":{memory_mb},"DiskMB":1,"MaxPids":100,"state":""}}"#
    )
}

pub(crate) fn task(guid: &str) -> String {
    format!(
        r#"{{"TaskGuid":"{guid}","Domain":"d","PlacementTags":null,"VolumeDrivers":null,"RootFs":"docker:///busybox","MemoryMB":32,"DiskMB":1,"MaxPids":0,"state":"Invalid","failed":false}}"#
    )
}

pub(crate) fn work(lrps: &[String], tasks: &[String]) -> String {
    format!(r#"{{"LRPs":[{}],"Tasks":[{}],"cell_id":"cell-1"}}"#, lrps.join(","), tasks.join(","))
}

pub(crate) fn instance(guid: &str) -> ContainerGuid {
    ContainerGuid::of_instance(&InstanceGuid::parse(guid).unwrap())
}

pub(crate) fn task_container(guid: &str) -> ContainerGuid {
    ContainerGuid::of_task(&TaskGuid::parse(guid).unwrap())
}

/// One call; `None` when nobody answers.
pub(crate) async fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    call_over(address, None, method, path, body).await
}

pub(crate) async fn call_over(
    address: SocketAddr,
    tls: Option<Arc<rustls::ClientConfig>>,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(u16, String)> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let target = Target { host: address.ip().to_string(), port: address.port(), tls: tls.map(|config| (config, name)) };
    let request = hyper::Request::builder().method(method).uri(path).header("host", "cell");
    let request = request.header(api::client::TRACE_HEADER, "trace-7");
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    let (response, _connection) = Pool::new(target).send(request).await.ok()?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some((head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap()))
}
