//! Outbound calls against peers that listen on real sockets, and callbacks over a real writer.

mod peer;

use std::sync::Arc;
use std::time::Duration;

use api::models;
use arc_swap::ArcSwap;
use bbs::Board;
use bbs::cells::{PRESENCE_TTL_NS, Registry};
use bbs::clock::{Clock, ManualClock};
use bbs::commands::{Command, DesireTask, Effect, MoveTask, TaskCall, TracedEffect};
use bbs::config;
use bbs::events::Hub;
use bbs::metrics::Metrics;
use bbs::outbound::{self, CallError, Cells, LrpUpdate, Parts};
use bbs::writer::{Writer, WriterParts};
use model::{
    ActualLrpKey, Cell, CellId, DesiredLrp, DomainName, InstanceGuid, InstanceKey, ProcessGuid, TaskGuid, TaskState,
};
use store::Store;
use tokio::sync::{Semaphore, mpsc, oneshot};

use self::peer::{Peer, Pki, Reply};

/// Longer than any call that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);
const EFFECTS_MAX: usize = 4096;

struct World {
    writer: Writer,
    board: Arc<ArcSwap<Board>>,
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// What the writer asks for.
    effects: Option<mpsc::Receiver<TracedEffect>>,
    config: config::Outbound,
}

impl World {
    async fn new() -> Self {
        let store = Arc::new(store::memory::Memory::new());
        let held = store.campaign("node").await.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_000));
        let board = Arc::new(ArcSwap::from_pointee(Board::default()));
        let (metrics, registry) = (Metrics::new(), Registry::new(0));
        let (sender, effects) = mpsc::channel(EFFECTS_MAX);
        let (writer, writing) = Writer::start(WriterParts {
            store,
            held,
            board: board.clone(),
            hub: Hub::new(0),
            clock: clock.clone(),
            effects: sender,
            metrics: metrics.clone(),
            task_rejections_max: 3,
            forms: store::Forms::only(store::Version::LATEST),
            vault: None,
        });
        tokio::spawn(writing);
        let config = config::Outbound { communication_timeout: PATIENCE, ..Default::default() };
        Self { writer, board, registry, clock, metrics, effects: Some(effects), config }
    }

    fn parts(&self, effects: mpsc::Receiver<TracedEffect>) -> Parts {
        Parts {
            effects,
            config: self.config.clone(),
            registry: self.registry.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            board: self.board.clone(),
            writer: self.writer.clone(),
        }
    }

    /// Carries out these effects and returns when all of them have ended.
    async fn carry_out(&self, effects: impl IntoIterator<Item = Effect>) {
        let (sender, queue) = mpsc::channel(EFFECTS_MAX);
        for effect in effects {
            sender.try_send(effect.into()).unwrap();
        }
        drop(sender);
        outbound::run(self.parts(queue)).await;
    }

    async fn submit(&self, command: Command) {
        self.writer.submit(command, Arc::from("")).await.unwrap();
    }

    async fn desire_task(&self, guid: &str, url: &str) {
        let definition = models::TaskDefinition {
            completion_callback_url: url.into(),
            annotation: "for <you>".into(),
            ..Default::default()
        };
        self.submit(Command::DesireTask(Box::new(DesireTask {
            guid: task_guid(guid),
            domain: DomainName::parse("d").unwrap(),
            definition: api::convert::task_definition(&definition),
        })))
        .await;
    }

    async fn fail_task(&self, guid: &str) {
        let call = TaskCall::Fail { reason: "it <broke>".into() };
        self.submit(Command::MoveTask(MoveTask { guid: task_guid(guid), call })).await;
    }

    fn task_state(&self, guid: &str) -> Option<TaskState> {
        self.board.load().tasks.get(&task_guid(guid)).map(|entry| entry.task.state)
    }

    /// Has a task end whose callback gets these replies; says what the peer heard and what became of the task.
    async fn call_back(&self, replies: impl IntoIterator<Item = Reply>) -> (usize, Option<TaskState>) {
        let mut peer = Peer::new(replies).await;
        self.desire_task("t", &format!("http://{}/", peer.address)).await;
        self.fail_task("t").await;
        self.carry_out([Effect::CallBack(task_guid("t"))]).await;
        (peer.lines().len(), self.task_state("t"))
    }

    fn announce(&self, url: &str) {
        self.registry.announce(cell(url), PRESENCE_TTL_NS, self.clock.now_ns());
    }
}

fn task_guid(guid: &str) -> TaskGuid {
    TaskGuid::parse(guid).unwrap()
}

fn cell(url: &str) -> Cell {
    let wire = models::CellPresence { cell_id: "cell-1".into(), rep_url: url.into(), ..Default::default() };
    api::convert::cell_from_wire(wire).unwrap()
}

fn key() -> ActualLrpKey {
    ActualLrpKey {
        process_guid: ProcessGuid::parse("pg/1").unwrap(),
        index: 3,
        domain: DomainName::parse("d").unwrap(),
    }
}

fn instance() -> InstanceKey {
    InstanceKey { instance_guid: InstanceGuid::parse("ig 1").unwrap(), cell_id: CellId::parse("cell-1").unwrap() }
}

fn desired(guid: &str) -> Arc<DesiredLrp> {
    let routes = [("internal-router".to_owned(), br#"[{"hostname":"a.internal"}]"#.to_vec())];
    let wire = models::DesiredLrp {
        process_guid: guid.into(),
        domain: "d".into(),
        root_fs: "preloaded:cflinuxfs4".into(),
        memory_mb: 64,
        routes: Some(models::ProtoRoutes { routes: routes.into() }),
        ..Default::default()
    };
    Arc::new(api::convert::desired_lrp::desire(wire, "epoch".into()).unwrap())
}

fn auction(guid: &str, index: i32) -> Effect {
    Effect::AuctionLrp { desired: desired(guid), indices: vec![index] }
}

// Cells.

#[tokio::test]
async fn cells_are_called_by_path_alone_and_only_202_is_success() {
    let mut peer = Peer::new([Reply::Status(202), Reply::Status(202), Reply::Status(200), Reply::Status(500)]).await;
    let cells = Cells::new(&config::Outbound::default()).unwrap();
    let cell = cell(&format!("http://{}", peer.address));

    cells.stop(&cell, &key(), &instance(), "trace-1").await.unwrap();
    let heard = peer.next().await;
    assert_eq!(heard.line, "POST /v1/lrps/pg%2F1/instances/ig%201/stop");
    assert_eq!((heard.body.as_str(), heard.header("x-vcap-request-id")), ("", Some("trace-1")));
    assert_eq!(heard.header("host"), Some(peer.address.as_str()));

    cells.cancel_task(&cell, &task_guid("t-1"), "").await.unwrap();
    let heard = peer.next().await;
    assert_eq!(heard.line, "POST /v1/tasks/t-1/cancel");
    assert_eq!((heard.body.as_str(), heard.header("x-vcap-request-id")), ("", None));

    for expected in [200, 500] {
        let error = cells.stop(&cell, &key(), &instance(), "").await.unwrap_err();
        assert!(matches!(error, CallError::Status { status } if status == expected), "{error}");
    }
    assert_eq!(peer.connections(), 1, "a connection is used again");
}

#[tokio::test]
async fn a_cell_is_called_over_mutual_tls() {
    let pki = Pki::new();
    let mut peer = Peer::with_tls([Reply::Status(202)], &pki).await;
    let cell = cell(&format!("https://{}", peer.address));
    let config =
        config::Outbound { cell_tls: Some(pki.files("bbs")), cell_require_tls: true, ..config::Outbound::default() };
    Cells::new(&config).unwrap().stop(&cell, &key(), &instance(), "").await.unwrap();
    assert_eq!(peer.next().await.line, "POST /v1/lrps/pg%2F1/instances/ig%201/stop");

    let elsewhere = Pki::new();
    let stranger = config::Outbound { cell_tls: Some(elsewhere.files("bbs")), ..config };
    let error = Cells::new(&stranger).unwrap().stop(&cell, &key(), &instance(), "").await.unwrap_err();
    assert!(matches!(error, CallError::Transport { .. }) && error.retryable(), "{error}");
    assert!(peer.rest().is_empty());
}

#[tokio::test]
async fn a_cell_that_does_not_answer_is_given_up_in_time() {
    let peer = Peer::new([Reply::Never]).await;
    let config = config::Outbound { communication_timeout: Duration::from_millis(50), ..Default::default() };
    let cell = cell(&format!("http://{}", peer.address));
    let error = Cells::new(&config).unwrap().stop(&cell, &key(), &instance(), "").await.unwrap_err();
    assert!(matches!(error, CallError::Transport { kind: api::client::TransportKind::Timeout, .. }), "{error}");
}

/// What a cell hears when it answers `statuses`, and what the caller is told.
async fn update(routes: bool, tags: bool, statuses: &[u16]) -> (Vec<String>, Result<(), String>) {
    let mut peer = Peer::new(statuses.iter().copied().map(Reply::Status)).await;
    let cells = Cells::new(&config::Outbound::default()).unwrap();
    let update = LrpUpdate::of(&desired("pg"), &key(), &instance(), routes, tags);
    let outcome = cells.update(&cell(&format!("http://{}", peer.address)), &update, "").await;
    let heard = peer.rest().into_iter().map(|heard| {
        let parts: serde_json::Value = serde_json::from_str(&heard.body).unwrap();
        format!("{} {} {}", heard.line, parts["internal_routes"], parts["metric_tags"])
    });
    (heard.collect(), outcome.map_err(|error| error.to_string()))
}

#[tokio::test]
async fn an_old_cell_is_told_the_old_way() {
    const V2: &str = "PUT /v2/lrps/pg%2F1/instances/ig%201";
    const V1: &str = "PUT /v1/lrps/pg%2F1/instances/ig%201";
    const NAMES: &str = r#"[{"hostname":"a.internal"}]"#;
    let refused = |status: u16| Err(format!("the answer has status {status}"));

    assert_eq!(update(true, true, &[202]).await, (vec![format!("{V2} {NAMES} {{}}")], Ok(())));
    let both = vec![format!("{V2} {NAMES} {{}}"), format!("{V1} {NAMES} null")];
    assert_eq!(update(true, true, &[404, 202]).await, (both.clone(), Ok(())));
    assert_eq!(update(true, true, &[404, 404]).await, (both.clone(), Ok(())));
    assert_eq!(update(true, true, &[404, 500]).await, (both, refused(500)));
    assert_eq!(update(false, true, &[404]).await, (vec![format!("{V2} null {{}}")], Ok(())));
    assert_eq!(update(true, false, &[500]).await, (vec![format!("{V2} {NAMES} null")], refused(500)));
}

#[tokio::test]
async fn effects_reach_the_cell_under_its_present_address() {
    let world = World::new().await;
    let mut peer = Peer::new([Reply::Status(202)]).await;
    let stop = || Effect::StopInstance { key: key(), instance: instance() };
    let update = |routes, tags| Effect::UpdateInstance {
        desired: desired("pg"),
        key: key(),
        instance: instance(),
        routes,
        tags,
    };
    let cancel = || Effect::CancelTask { guid: task_guid("t"), cell: instance().cell_id };

    world.carry_out([stop(), update(true, false), cancel()]).await;
    assert_eq!(peer.rest().len(), 0, "nobody knows where the cell is");

    world.announce(&format!("http://{}", peer.address));
    world.carry_out([stop(), update(true, false), cancel(), update(false, false)]).await;
    let mut lines = peer.lines();
    lines.sort();
    assert_eq!(
        lines,
        [
            "POST /v1/lrps/pg%2F1/instances/ig%201/stop",
            "POST /v1/tasks/t/cancel",
            "PUT /v2/lrps/pg%2F1/instances/ig%201"
        ]
    );
    assert_eq!(world.metrics.cell_call_failures.get(), 0);
}

#[tokio::test]
async fn a_failing_cell_is_counted_and_forgotten() {
    let world = World::new().await;
    let mut peer = Peer::new([Reply::Status(500)]).await;
    world.announce(&format!("http://{}", peer.address));
    world.carry_out([Effect::CancelTask { guid: task_guid("t"), cell: instance().cell_id }]).await;
    assert_eq!((peer.rest().len(), world.metrics.cell_call_failures.get()), (1, 1));
}

// Auctioneer.

#[tokio::test]
async fn wishes_gather_while_the_auctioneer_is_busy() {
    let mut world = World::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let mut peer = Peer::new([Reply::Gate(gate.clone())]).await;
    world.config.auctioneer_url = Some(format!("http://{}", peer.address));
    world.desire_task("t", "").await;
    let task = world.board.load().tasks[&task_guid("t")].task.clone();

    let (effects, queue) = mpsc::channel(EFFECTS_MAX);
    let running = tokio::spawn(outbound::run(world.parts(queue)));
    effects.send(auction("a", 0).into()).await.unwrap();
    let first = peer.next().await;
    assert_eq!(first.line, "POST /v1/lrps");
    assert_eq!(
        first.body,
        r#"[{"process_guid":"a","domain":"d","indices":[0],"PlacementTags":null,"VolumeDrivers":[],"RootFs":"preloaded:cflinuxfs4","MemoryMB":64,"DiskMB":0,"MaxPids":0}]"#
    );

    for effect in [auction("b", 1), Effect::AuctionTask(task), auction("a", 2), auction("b", 0)] {
        effects.send(effect.into()).await.unwrap();
    }
    // The first answer leaves only when all the others wait: the channel has been read to its end.
    while effects.capacity() < EFFECTS_MAX {
        tokio::task::yield_now().await;
    }
    drop(effects);
    gate.add_permits(3);
    running.await.unwrap();

    let mut heard: Vec<_> = peer.rest().into_iter().map(|heard| (heard.line, elements(&heard.body))).collect();
    heard.sort();
    assert_eq!(
        heard,
        [("POST /v1/lrps".into(), "b [0,1]; a [2]".into()), ("POST /v1/tasks".into(), "t".to_owned())],
        "one request of each kind, one element per process"
    );
    assert_eq!(world.metrics.auction_failures.get(), 0);
}

fn elements(body: &str) -> String {
    let elements: Vec<serde_json::Value> = serde_json::from_str(body).unwrap();
    let shown = elements.iter().map(|element| match element["TaskGuid"].as_str() {
        Some(guid) => guid.to_owned(),
        None => format!("{} {}", element["process_guid"].as_str().unwrap(), element["indices"]),
    });
    shown.collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn an_auctioneer_that_refuses_is_counted_once_a_batch() {
    let mut world = World::new().await;
    let mut peer = Peer::new([Reply::Status(500)]).await;
    world.config.auctioneer_url = Some(format!("http://{}", peer.address));
    world.carry_out((0..100).map(|index| auction("a", index))).await;
    let requests = peer.rest().len() as u64;
    assert_eq!(world.metrics.auction_failures.get(), requests);
    assert!(requests < 100, "they were merged");
}

#[tokio::test]
async fn without_an_auctioneer_nobody_is_asked_and_nothing_fails() {
    let world = World::new().await;
    world.carry_out([auction("a", 0)]).await;
    assert_eq!(world.metrics.auction_failures.get(), 0);
}

#[tokio::test]
async fn plain_text_is_tried_only_where_tls_is_not_required() {
    let pki = Pki::new();
    for (require_tls, failures) in [(false, 0), (true, 1)] {
        let mut world = World::new().await;
        let mut peer = Peer::new([Reply::Status(202)]).await;
        world.config.auctioneer_url = Some(format!("https://{}", peer.address));
        world.config.auctioneer_tls = Some(pki.files("bbs"));
        world.config.auctioneer_require_tls = require_tls;
        world.carry_out([auction("a", 0)]).await;
        let heard = if require_tls { vec![] } else { vec!["POST /v1/lrps".to_owned()] };
        assert_eq!((peer.lines(), world.metrics.auction_failures.get()), (heard, failures), "required: {require_tls}");
    }
}

// Callbacks.

#[tokio::test]
async fn the_end_of_a_task_is_reported_and_the_task_deleted() {
    let mut world = World::new().await;
    let mut peer = Peer::new([Reply::Status(200)]).await;
    let effects = world.effects.take().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(outbound::run_until(world.parts(effects), async move { stopped.await.unwrap() }));

    world.desire_task("t", &format!("http://user:pass@{}/done?id=1", peer.address)).await;
    world.fail_task("t").await;
    let heard = peer.next().await;
    assert_eq!(heard.line, "POST /done?id=1");
    assert_eq!(heard.header("authorization"), Some("Basic dXNlcjpwYXNz"));
    assert_eq!(heard.header("x-vcap-request-id"), None);
    assert_eq!(
        heard.body,
        r#"{"task_guid":"t","failed":true,"failure_reason":"it \u003cbroke\u003e","result":"","annotation":"for \u003cyou\u003e","created_at":1000}"#
    );
    stop.send(()).unwrap();
    running.await.unwrap();
    assert_eq!(world.task_state("t"), None, "a callback under way is finished when the server stops");
    assert_eq!(world.metrics.callback_failures.get(), 0);
}

#[tokio::test]
async fn a_receiver_that_fails_is_tried_three_times_and_the_task_kept() {
    for status in [408, 429, 500, 502, 503, 504] {
        let world = World::new().await;
        let heard = world.call_back([Reply::Status(status)]).await;
        assert_eq!(heard, (3, Some(TaskState::Resolving)), "status {status}");
        assert_eq!(world.metrics.callback_failures.get(), 1);
    }
}

#[tokio::test]
async fn any_other_answer_is_the_last_word() {
    for status in [200, 204, 302, 304, 307, 400, 401, 404, 410] {
        let world = World::new().await;
        assert_eq!(world.call_back([Reply::Status(status)]).await, (1, None), "status {status}");
    }
}

#[tokio::test]
async fn a_receiver_that_recovers_is_told() {
    let world = World::new().await;
    assert_eq!(world.call_back([Reply::Status(503), Reply::HangUp, Reply::Status(200)]).await, (3, None));
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_tried_three_times() {
    let mut world = World::new().await;
    world.config.communication_timeout = Duration::from_millis(100);
    let mut peer = Peer::new([Reply::Never]).await;
    world.desire_task("t", &format!("http://{}/", peer.address)).await;
    world.fail_task("t").await;
    let (effects, queue) = mpsc::channel(EFFECTS_MAX);
    let running = tokio::spawn(outbound::run(world.parts(queue)));
    effects.send(Effect::CallBack(task_guid("t")).into()).await.unwrap();
    for _ in 0..3 {
        peer.next().await;
    }
    drop(effects);
    running.await.unwrap();
    assert_eq!((peer.rest().len(), world.task_state("t")), (0, Some(TaskState::Resolving)));
}

#[tokio::test]
async fn a_moved_receiver_is_found() {
    let mut there = Peer::new([Reply::Status(200)]).await;
    let world = World::new().await;
    let moved = Reply::MovedTo(308, format!("http://{}/new", there.address));
    assert_eq!(world.call_back([moved]).await, (1, None));
    assert_eq!(there.lines(), ["POST /new"]);

    let in_circles = Reply::MovedTo(307, "/again".into());
    assert_eq!(World::new().await.call_back([in_circles]).await, (11, Some(TaskState::Resolving)));
}

#[tokio::test]
async fn a_receiver_that_cannot_be_reached_is_not_tried_again_at_once() {
    for url in ["http://127.0.0.1:1/", "https://localhost:1/", "not a url"] {
        let world = World::new().await;
        world.desire_task("t", url).await;
        world.fail_task("t").await;
        world.carry_out([Effect::CallBack(task_guid("t"))]).await;
        assert_eq!(world.task_state("t"), Some(TaskState::Resolving), "{url}");
        assert_eq!(world.metrics.callback_failures.get(), 1, "{url}");
    }
}

#[tokio::test]
async fn only_a_completed_task_is_reported() {
    let world = World::new().await;
    let mut peer = Peer::new([Reply::Status(200)]).await;
    world.desire_task("t", &format!("http://{}/", peer.address)).await;
    world.carry_out([Effect::CallBack(task_guid("t")), Effect::CallBack(task_guid("unknown"))]).await;
    assert_eq!((peer.rest().len(), world.task_state("t")), (0, Some(TaskState::Pending)));

    world.fail_task("t").await;
    world.carry_out([Effect::CallBack(task_guid("t")), Effect::CallBack(task_guid("t"))]).await;
    assert_eq!((peer.rest().len(), world.task_state("t")), (1, None), "two passes make one call");
}

#[tokio::test]
async fn https_receivers_get_our_certificate() {
    let pki = Pki::new();
    let mut world = World::new().await;
    world.config.callback_tls = Some(pki.files("bbs"));
    let mut peer = Peer::with_tls([Reply::Status(200)], &pki).await;
    world.desire_task("t", &format!("https://{}/", peer.address)).await;
    world.fail_task("t").await;
    world.carry_out([Effect::CallBack(task_guid("t"))]).await;
    assert_eq!((peer.lines(), world.task_state("t")), (vec!["POST /".to_owned()], None));
}

#[tokio::test]
async fn calls_that_do_not_end_do_not_hold_up_the_stop() {
    let mut world = World::new().await;
    world.config.communication_timeout = Duration::from_millis(50);
    let peer = Peer::new([Reply::Never]).await;
    world.announce(&format!("http://{}", peer.address));
    world.config.update_workers = 1;
    let stop = || Effect::StopInstance { key: key(), instance: instance() };
    let carried_out = world.carry_out((0..1000).map(|_| stop()));
    tokio::time::timeout(PATIENCE, carried_out).await.expect("a thousand calls of 50 ms each are not waited for");
}
