//! Outbound calls against peers that listen on real sockets, and callbacks over a real writer.

mod callbacks;
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
use tokio::sync::{Semaphore, mpsc};

use self::peer::{Peer, Pki, Reply};

/// Longer than any call that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);
const EFFECTS_MAX: usize = 4096;

struct World {
    writer: Writer,
    board: Arc<ArcSwap<Board>>,
    registry: Arc<Registry>,
    clock: Arc<ManualClock>,
    metrics: Arc<Metrics>,
    /// What the writer asks for.
    effects: Option<mpsc::Receiver<TracedEffect>>,
    config: config::Outbound,
}

impl World {
    async fn new() -> Self {
        let store = Arc::new(store::memory::Memory::new());
        let held = store.campaign("node").await.unwrap();
        let clock = Arc::new(ManualClock::at(1_000));
        let board = Arc::new(ArcSwap::from_pointee(Board::default()));
        let (metrics, registry) = (Metrics::new(), Registry::new(0));
        let (sender, effects) = mpsc::channel(EFFECTS_MAX);
        let (writer, writing) = Writer::start(WriterParts {
            definitions_kept: 5,
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
async fn what_an_old_cell_lacks_is_known_the_next_time() {
    let mut peer = Peer::new([Reply::Status(404), Reply::Status(202)]).await;
    let cells = Cells::new(&config::Outbound::default()).unwrap();
    let cell = cell(&format!("http://{}", peer.address));
    for (tags, versions) in [(true, vec!["PUT /v2", "PUT /v1"]), (false, vec!["PUT /v1"])] {
        let update = LrpUpdate::of(&desired("pg"), &key(), &instance(), true, tags);
        cells.clone().update(&cell, &update, "").await.unwrap();
        let heard: Vec<_> = peer.lines().into_iter().map(|line| line[..7].to_owned()).collect();
        assert_eq!(heard, versions);
    }
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
async fn an_auctioneer_that_does_not_answer_is_passed_over() {
    let mut world = World::new().await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut peer = Peer::new([Reply::Status(202)]).await;
    world.config.auctioneer_url = Some(format!("http://{nobody}, http://{}", peer.address));
    world.carry_out([auction("a", 0)]).await;
    assert_eq!((peer.lines(), world.metrics.auction_failures.get()), (vec!["POST /v1/lrps".to_owned()], 0));
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
