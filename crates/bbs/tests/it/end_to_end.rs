//! The whole server with its background work: a cells file, a fake auctioneer, fast convergence, a clock that is moved on.

use std::sync::Arc;
use std::time::Duration;

use api::client::Client;
use bbs::clock::{Clock, ManualClock, SystemClock};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::harness::{PATIENCE, Server, until};
use crate::{narrate, samples};

/// More than a test sends.
const HEARD_MAX: usize = 65_536;
const SECOND_NS: i64 = model::NANOS_PER_SECOND;

/// Listens as auctioneer and as the receiver of callbacks; tells what it was sent.
struct Listener {
    url: String,
    heard: mpsc::Receiver<(String, serde_json::Value)>,
}

impl Listener {
    async fn new() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let (sender, heard) = mpsc::channel(HEARD_MAX);
        tokio::spawn(async move {
            loop {
                let (stream, _) = socket.accept().await.unwrap();
                let sender = sender.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                        let sender = sender.clone();
                        async move {
                            let path = request.uri().path().to_owned();
                            let body = request.into_body().collect().await.unwrap().to_bytes();
                            let _ = sender.send((path, serde_json::from_slice(&body).unwrap_or_default())).await;
                            let mut response = Response::new(Full::new(Bytes::new()));
                            *response.status_mut() = hyper::StatusCode::ACCEPTED;
                            Ok::<_, std::convert::Infallible>(response)
                        }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { url, heard }
    }

    /// Waits for a message that mentions this.
    async fn hear(&mut self, what: &str) -> String {
        let hearing = async {
            loop {
                let (path, body) = self.heard.recv().await.unwrap();
                let text = format!("{path} {body}");
                if text.contains(what) {
                    return text;
                }
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.unwrap_or_else(|_| panic!("{what} was never heard"))
    }
}

struct World {
    server: Server,
    client: Client,
    clock: Arc<ManualClock>,
    listener: Listener,
    dir: TempDir,
}

impl World {
    async fn new(cells: &[&str]) -> Self {
        let listener = Listener::new().await;
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(ManualClock::at(SystemClock.now_ns()));
        let path = dir.path().join("cells");
        write_cells(&dir, cells);
        let server = Server::with_clock(clock.clone(), |config| {
            config.cells_file = Some(path);
            config.outbound.auctioneer_url = Some(listener.url.clone());
            config.outbound.callback_body = bbs::config::CallbackBody::Full;
            config.timing.converge_interval = Duration::from_millis(20);
        })
        .await;
        let client = server.client();
        Self { server, client, clock, listener, dir }
    }

    async fn rows(&self) -> String {
        let rows = self.client.actual_lrps(Default::default()).await.unwrap();
        rows.iter().map(narrate::row).collect::<Vec<_>>().join(", ")
    }

    async fn until_rows(&self, expected: &str) {
        until(expected, || async { self.rows().await == expected }).await;
    }

    async fn until_cells(&self, count: usize) {
        until("the cells are heard", || async { self.client.cells().await.unwrap().len() == count }).await;
    }
}

/// Written beside and renamed, so that nobody reads half of it.
fn write_cells(dir: &TempDir, cells: &[&str]) {
    let lines: Vec<_> = cells.iter().map(|cell| serde_json::json!({ "cell_id": cell }).to_string()).collect();
    std::fs::write(dir.path().join("new"), lines.join("\n")).unwrap();
    std::fs::rename(dir.path().join("new"), dir.path().join("cells")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_goes_and_comes_back() {
    let mut world = World::new(&["cell-a", "cell-b"]).await;
    world.until_cells(2).await;
    let client = world.client.clone();
    client.desire_lrp(samples::lrp("p", 1)).await.unwrap();
    world.listener.hear("\"p\"").await;
    client.start_actual_lrp(samples::start("p", 0, "a")).await.unwrap();
    // The grace after a start is over, and both cells are heard again under the new time.
    world.clock.advance(40 * SECOND_NS);
    world.until_cells(2).await;
    assert_eq!(world.rows().await, "p/0 RUNNING a@cell-a");

    write_cells(&world.dir, &["cell-b"]);
    world.until_rows("p/0 UNCLAIMED, p/0 RUNNING a@cell-a suspect").await;
    world.listener.hear("\"p\"").await;
    client.claim_actual_lrp("p", 0, samples::instance("b")).await.unwrap();

    write_cells(&world.dir, &["cell-a", "cell-b"]);
    world.until_rows("p/0 RUNNING a@cell-a").await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_time_brings() {
    let mut world = World::new(&["cell-a"]).await;
    world.until_cells(1).await;
    let client = world.client.clone();
    client.desire_lrp(samples::lrp("stale", 1)).await.unwrap();
    client.desire_lrp(samples::lrp("crashes", 1)).await.unwrap();
    client.desire_lrp(samples::lrp("holey", 2)).await.unwrap();
    client.remove_actual_lrp("holey", 0, None).await.unwrap();
    until("the hole is filled", || async { world.rows().await.contains("holey/0 UNCLAIMED") }).await;
    for at in 0..3 {
        let by = format!("i{at}@cell-a");
        client.start_actual_lrp(samples::start("crashes", 0, &by)).await.unwrap();
        client.crash_actual_lrp(samples::key("crashes", 0), samples::instance(&by), "why").await.unwrap();
    }
    assert!(world.rows().await.contains("crashes/0 CRASHED"));
    let callback = format!("{}/done", world.listener.url);
    let definition = api::models::TaskDefinition { completion_callback_url: callback, ..samples::task() };
    client.desire_task("called-back", "d", definition).await.unwrap();
    client.desire_task("forgotten", "d", samples::task()).await.unwrap();
    client.cancel_task("forgotten").await.unwrap();
    client.desire_task("never-placed", "d", samples::task()).await.unwrap();
    client.cancel_task("called-back").await.unwrap();
    let told = world.listener.hear("/done").await;
    assert!(told.contains("called-back"), "{told}");
    until("it is gone once its caller knows", || async { client.task_by_guid("called-back").await.is_err() }).await;
    while world.listener.heard.try_recv().is_ok() {}

    world.clock.advance(31 * SECOND_NS);
    until("it waited long enough", || async { world.rows().await.contains("crashes/0 UNCLAIMED") }).await;
    world.listener.hear("\"stale\"").await;

    world.clock.advance(121 * SECOND_NS);
    until("it is pruned", || async { client.task_by_guid("forgotten").await.is_err() }).await;

    world.clock.advance(1800 * SECOND_NS);
    until("it was never placed", || async {
        let task = client.task_by_guid("never-placed").await.unwrap();
        task.failed && task.failure_reason == "not started within time limit"
    })
    .await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retiring_a_running_instance_asks_its_cell() {
    let mut world = World::new(&["cell-a"]).await;
    let cells = [("cell-a", world.listener.url.as_str()), ("cell-b", "http://127.0.0.1:1")]
        .map(|(cell, url)| serde_json::json!({ "cell_id": cell, "rep_address": url }).to_string());
    std::fs::write(world.dir.path().join("new"), cells.join("\n")).unwrap();
    std::fs::rename(world.dir.path().join("new"), world.dir.path().join("cells")).unwrap();
    world.until_cells(2).await;
    let client = world.client.clone();
    client.desire_lrp(samples::lrp("p", 2)).await.unwrap();
    client.start_actual_lrp(samples::start("p", 0, "a")).await.unwrap();
    client.start_actual_lrp(samples::start("p", 1, "b")).await.unwrap();

    client.retire_actual_lrp(samples::key("p", 0)).await.unwrap();
    // A pass may tell the cell about tags first.
    let told = world.listener.hear("/stop").await;
    assert!(told.contains("/p/"), "{told}");
    assert!(world.rows().await.contains("p/0 RUNNING a@cell-a"), "the row goes when the cell says that it is gone");

    let refused = crate::harness::verdict(client.retire_actual_lrp(samples::key("p", 1)).await);
    assert!(refused.starts_with("UnknownError: "), "a cell that cannot be reached: {refused}");
    assert!(world.rows().await.contains("p/1 RUNNING b@cell-b"));
    world.server.stop().await;
}
