//! An auctioneer under test, its state server and its cells.

use std::net::SocketAddr;
use std::time::Duration;

use api::client::{Client, ClientConfig};
use auctioneer::{AlwaysMine, Config, Lock, RunError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cell::Cell;
use crate::peer::call;
use crate::state_server::StateServer;

/// Longer than anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn patiently<T>(awaited: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, awaited).await.expect("what the test waits for happens in time")
}

pub(crate) struct World {
    pub(crate) bbs: StateServer,
    pub(crate) api: SocketAddr,
    pub(crate) health: SocketAddr,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) ended: JoinHandle<Result<(), RunError>>,
}

/// Any free port, and the times of a small cluster.
pub(crate) fn config() -> Config {
    let any = "127.0.0.1:0".parse().unwrap();
    Config { listen: any, health: Some(any), communication_timeout: PATIENCE, ..Config::default() }
}

pub(crate) fn client(url: &str) -> Client {
    Client::new(ClientConfig::once(url, Some(PATIENCE))).unwrap()
}

impl World {
    pub(crate) async fn with(cells: &[&Cell]) -> Self {
        Self::start(config(), cells, AlwaysMine).await
    }

    pub(crate) async fn start(config: Config, cells: &[&Cell], lock: impl Lock + 'static) -> Self {
        let bbs = StateServer::start().await;
        *bbs.played.cells.lock().unwrap() = cells.iter().map(|cell| cell.presence.clone()).collect();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, begun) = oneshot::channel();
        let ended = tokio::spawn(auctioneer::run(
            config,
            client(&bbs.url),
            lock,
            async {
                let _ = stopped.await;
            },
            |it| {
                let _ = ready.send(it);
            },
        ));
        let ready = patiently(begun).await.expect("the auctioneer becomes active");
        Self { bbs, api: ready.api, health: ready.health.unwrap(), stop: Some(stop), ended }
    }

    /// Posts a body, and tells status and answer.
    pub(crate) async fn post(&self, path: &str, trace: &str, body: impl Into<bytes::Bytes>) -> String {
        let mut request = hyper::Request::post(path).header("content-type", "application/json");
        if !trace.is_empty() {
            request = request.header(api::client::TRACE_HEADER, trace);
        }
        let (status, _, body) = patiently(call(self.api, None, request, body)).await.expect("an answer");
        format!("{status} {body}")
    }

    /// `guid/index:memory` or, without a slash, a task `guid:memory`; each in an element of its own, under its own id.
    pub(crate) async fn ask(&self, starts: &str) {
        for start in starts.split(' ') {
            let (name, memory) = start.split_once(':').unwrap_or((start, "10"));
            let needs = format!(r#""RootFs":"preloaded:s","MemoryMB":{memory},"DiskMB":1"#);
            let (path, body) = match name.split_once('/') {
                Some((guid, index)) => {
                    ("/v1/lrps", format!(r#"[{{"process_guid":"{guid}","domain":"d","indices":[{index}],{needs}}}]"#))
                }
                None => ("/v1/tasks", format!(r#"[{{"TaskGuid":"{name}","Domain":"d",{needs}}}]"#)),
            };
            assert_eq!(self.post(path, &format!("id-of-{}", name.replace('/', "-")), body).await, "202 {}");
        }
    }

    /// The value of a metric.
    pub(crate) async fn metric(&self, name: &str) -> String {
        let (_, _, text) =
            patiently(call(self.health, None, hyper::Request::get("/metrics"), "")).await.expect("an answer");
        let name = format!("corkboard_auctioneer_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("{name} is missing in\n{text}")).to_owned()
    }

    /// Stops in order.
    pub(crate) async fn stop(&mut self) -> Result<(), RunError> {
        drop(self.stop.take());
        patiently(&mut self.ended).await.expect("no panic")
    }
}
