//! Callbacks: what the receiver of a task's end hears and when, until it has taken the report or is given up.
//!
//! Hours pass by moving the clock. Where nothing may happen, a task for another receiver goes through the same lane: when that
//! one has been told, everything that was due before has been called for as well.

use std::sync::atomic::{AtomicU16, Ordering};

use api::client::Client;
use bbs::config::CallbackBody;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::harness::{Server, until};

const SECOND_NS: i64 = model::NANOS_PER_SECOND;
/// The longest pause of somebody who does not take a report.
const PAUSE_MAX_S: i64 = 300;

impl World {
    async fn telling(body: CallbackBody) -> Self {
        let mut world = Self::new().await;
        world.config.callback_body = body;
        world
    }

    async fn full() -> Self {
        Self::telling(CallbackBody::Full).await
    }

    /// Has a task end whose callback gets these replies; says what the peer heard and what became of the task.
    async fn call_back(&self, replies: impl IntoIterator<Item = Reply>) -> (usize, Option<TaskState>) {
        let mut peer = Peer::new(replies).await;
        self.end_task("t", &format!("http://{}/", peer.address)).await;
        self.carry_out([Effect::CallBack(task_guid("t"))]).await;
        (peer.lines().len(), self.task_state("t"))
    }

    async fn end_task(&self, guid: &str, url: &str) {
        self.desire_task(guid, url).await;
        self.fail_task(guid).await;
    }

    fn advance(&self, seconds: i64) {
        self.clock.advance(seconds * SECOND_NS);
    }
}

/// Outbound calls that go on in the background, fed by the writer.
struct Lane {
    world: World,
    running: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    other: Peer,
    others: usize,
}

impl Lane {
    async fn start(mut world: World) -> Self {
        let effects = world.effects.take().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(outbound::run_until(world.parts(effects), async move { stopped.await.unwrap() }));
        Self { world, running, stop, other: Peer::new([Reply::Status(200)]).await, others: 0 }
    }

    /// Returns when everything that is due has been called for, and every call has ended.
    async fn settle(&mut self) {
        self.others += 1;
        let guid = format!("other-{}", self.others);
        self.world.end_task(&guid, &format!("http://{}/", self.other.address)).await;
        self.other.next().await;
        until("all calls ended", || async {
            let metrics = &self.world.metrics;
            metrics.callback_attempts.get() == metrics.callbacks_taken.get() + metrics.callback_failures.get()
        })
        .await;
    }

    async fn stop(self) -> World {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
        self.world
    }
}

#[tokio::test]
async fn the_end_of_a_task_is_reported_in_full_and_the_task_deleted() {
    let lane = Lane::start(World::full().await).await;
    let mut peer = Peer::new([Reply::Status(200)]).await;
    lane.world.end_task("t", &format!("http://user:pass@{}/done?id=1", peer.address)).await;
    let heard = peer.next().await;
    assert_eq!(heard.line, "POST /done?id=1");
    assert_eq!(heard.header("authorization"), Some("Basic dXNlcjpwYXNz"));
    assert_eq!(heard.header("x-vcap-request-id"), None);
    assert_eq!(
        heard.body,
        r#"{"task_guid":"t","failed":true,"failure_reason":"it \u003cbroke\u003e","result":"","annotation":"for \u003cyou\u003e","created_at":1000}"#
    );
    let world = lane.stop().await;
    assert_eq!(world.task_state("t"), None, "a callback under way is finished when the server stops");
    assert_eq!((world.metrics.callbacks_taken.get(), world.metrics.callback_failures.get()), (1, 0));
}

#[tokio::test]
async fn the_end_of_a_task_is_reported_by_its_guid_and_the_task_kept() {
    let world = World::telling(CallbackBody::Guid).await;
    let mut peer = Peer::new([Reply::Status(200)]).await;
    world.end_task("t", &format!("http://{}/", peer.address)).await;
    world.carry_out([Effect::CallBack(task_guid("t"))]).await;
    assert_eq!(peer.next().await.body, r#"{"task_guid":"t"}"#);
    assert_eq!(world.task_state("t"), Some(TaskState::Resolving));
}

#[tokio::test]
async fn what_counts_as_not_taken() {
    for reply in [408, 429, 500, 502, 503, 504].map(Reply::Status).into_iter().chain([Reply::HangUp]) {
        let world = World::full().await;
        let heard = world.call_back([reply.clone()]).await;
        assert_eq!(heard, (1, Some(TaskState::Resolving)), "{reply:?}");
        assert_eq!((world.metrics.callback_attempts.get(), world.metrics.callback_failures.get()), (1, 1));
    }
}

#[tokio::test]
async fn any_other_answer_is_the_last_word() {
    for status in [200, 204, 302, 304, 307, 400, 401, 404, 410] {
        let world = World::full().await;
        assert_eq!(world.call_back([Reply::Status(status)]).await, (1, None), "status {status}");
    }
}

#[tokio::test]
async fn a_moved_receiver_is_found() {
    let mut there = Peer::new([Reply::Status(200)]).await;
    let world = World::full().await;
    let moved = Reply::MovedTo(308, format!("http://{}/new", there.address));
    assert_eq!(world.call_back([moved]).await, (1, None));
    assert_eq!(there.lines(), ["POST /new"]);

    let in_circles = Reply::MovedTo(307, "/again".into());
    assert_eq!(World::full().await.call_back([in_circles]).await, (11, Some(TaskState::Resolving)));
}

#[tokio::test]
async fn a_receiver_that_cannot_be_reached_does_not_lose_its_task() {
    for url in ["http://127.0.0.1:1/", "https://localhost:1/", "not a url"] {
        let world = World::full().await;
        world.end_task("t", url).await;
        world.carry_out([Effect::CallBack(task_guid("t"))]).await;
        assert_eq!(world.task_state("t"), Some(TaskState::Resolving), "{url}");
        assert_eq!(world.metrics.callback_failures.get(), 1, "{url}");
    }
}

#[tokio::test]
async fn only_a_task_that_ended_is_reported() {
    let world = World::full().await;
    let mut peer = Peer::new([Reply::Status(200)]).await;
    world.desire_task("t", &format!("http://{}/", peer.address)).await;
    world.carry_out([Effect::CallBack(task_guid("t")), Effect::CallBack(task_guid("unknown"))]).await;
    assert_eq!((peer.rest().len(), world.task_state("t")), (0, Some(TaskState::Pending)));

    world.fail_task("t").await;
    world.carry_out([Effect::CallBack(task_guid("t")), Effect::CallBack(task_guid("t"))]).await;
    assert_eq!((peer.rest().len(), world.task_state("t")), (1, None), "two wishes make one call");
}

#[tokio::test]
async fn https_receivers_get_our_certificate() {
    let pki = Pki::new();
    let mut world = World::full().await;
    world.config.callback_tls = Some(pki.files("bbs"));
    let mut peer = Peer::with_tls([Reply::Status(200)], &pki).await;
    world.end_task("t", &format!("https://{}/", peer.address)).await;
    world.carry_out([Effect::CallBack(task_guid("t"))]).await;
    assert_eq!((peer.lines(), world.task_state("t")), (vec!["POST /".to_owned()], None));
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_given_up_in_time_and_called_again_later() {
    let mut world = World::full().await;
    world.config.communication_timeout = Duration::from_millis(100);
    let mut peer = Peer::new([Reply::Never, Reply::Status(200)]).await;
    let mut lane = Lane::start(world).await;
    lane.world.end_task("t", &format!("http://{}/", peer.address)).await;
    peer.next().await;
    lane.settle().await;
    lane.world.advance(1);
    peer.next().await;
    assert_eq!(lane.stop().await.task_state("t"), None);
}

#[tokio::test]
async fn a_receiver_that_is_down_for_an_hour_is_called_ever_more_rarely_and_told_in_the_end() {
    let answer = Arc::new(AtomicU16::new(503));
    let mut peer = Peer::new([Reply::AsSet(answer.clone())]).await;
    let mut lane = Lane::start(World::full().await).await;
    lane.world.end_task("t", &format!("http://{}/", peer.address)).await;
    peer.next().await;
    lane.settle().await;
    let (mut down_s, mut calls) = (0, 1);
    while down_s < 3600 {
        let pause_s = (1 << (calls - 1)).min(PAUSE_MAX_S);
        lane.world.clock.advance(pause_s * SECOND_NS * 74 / 100);
        lane.settle().await;
        assert_eq!(peer.rest().len(), 0, "no call after three quarters of {pause_s} s");
        lane.world.clock.advance(pause_s * SECOND_NS * 26 / 100);
        peer.next().await;
        lane.settle().await;
        (down_s, calls) = (down_s + pause_s, calls + 1);
    }
    assert_eq!(calls, 21, "in an hour");
    answer.store(200, Ordering::SeqCst);
    assert_eq!(lane.world.task_state("t"), Some(TaskState::Resolving));
    lane.world.advance(PAUSE_MAX_S);
    peer.next().await;
    assert_eq!(lane.stop().await.task_state("t"), None);
}

#[tokio::test]
async fn a_receiver_can_ask_for_a_pause() {
    let mut peer = Peer::new([Reply::Later(120), Reply::Status(200)]).await;
    let mut lane = Lane::start(World::full().await).await;
    lane.world.end_task("t", &format!("http://{}/", peer.address)).await;
    peer.next().await;
    lane.settle().await;
    lane.world.advance(119);
    lane.settle().await;
    assert_eq!(peer.rest().len(), 0);
    lane.world.advance(1);
    peer.next().await;
    assert_eq!(lane.stop().await.task_state("t"), None);
}

#[tokio::test]
async fn ten_thousand_tasks_for_a_silent_receiver_do_not_delay_one_for_another() {
    let mut world = World::full().await;
    world.config.callback_workers = 8;
    let (mut silent, mut live) = (Peer::new([Reply::Never]).await, Peer::new([Reply::Status(200)]).await);
    let (effects, queue) = mpsc::channel(EFFECTS_MAX);
    let running = tokio::spawn(outbound::run(world.parts(queue)));
    for task in 0..10_000 {
        let guid = format!("silent-{task}");
        world.end_task(&guid, &format!("http://{}/", silent.address)).await;
        effects.send(Effect::CallBack(task_guid(&guid)).into()).await.unwrap();
    }
    world.end_task("live", &format!("http://{}/", live.address)).await;
    effects.send(Effect::CallBack(task_guid("live")).into()).await.unwrap();
    // The silent one is not given up before this test would be.
    tokio::time::timeout(PATIENCE / 2, live.next()).await.expect("the other receiver is told at once");
    assert_eq!(silent.rest().len(), 2, "a quarter of the workers");
    until("the rest waits", || async { world.metrics.callbacks_waiting.get() == 9_998 }).await;
    running.abort();
}

// With convergence, over a server that may be restarted.

struct Reported {
    server: Server,
    client: Client,
    clock: Arc<ManualClock>,
    peer: Peer,
    answer: Arc<AtomicU16>,
}

impl Reported {
    /// A server, and a task that has ended and was reported once, which was answered with this status.
    async fn start(body: CallbackBody, status: u16) -> Self {
        let answer = Arc::new(AtomicU16::new(status));
        let this = Self::called(body, vec![Reply::AsSet(answer.clone())], answer).await;
        this.settle(1).await;
        this
    }

    /// A server, and a task that has ended and for which the receiver has been called, whatever it replied.
    async fn called(body: CallbackBody, replies: Vec<Reply>, answer: Arc<AtomicU16>) -> Self {
        let clock = Arc::new(ManualClock::at(bbs::clock::SystemClock.now_ns()));
        let mut peer = Peer::new(replies).await;
        let server = Server::with_clock(clock.clone(), |config| {
            config.outbound.callback_body = body;
            config.outbound.communication_timeout = Duration::from_secs(2);
            config.timing.converge_interval = Duration::from_millis(20);
        })
        .await;
        let client = server.client();
        let definition = models::TaskDefinition {
            completion_callback_url: format!("http://{}/", peer.address),
            ..crate::samples::task()
        };
        client.desire_task("t", "d", definition).await.unwrap();
        client.cancel_task("t").await.unwrap();
        peer.next().await;
        Self { server, client, clock, peer, answer }
    }

    async fn state(&self) -> Option<models::task::State> {
        self.client.task_by_guid("t").await.ok().map(|task| task.state())
    }

    async fn metric(&self, name: &str) -> f64 {
        self.server.metric(name).await
    }

    /// Two more passes have ended, and so have this many calls since the server was started.
    async fn settle(&self, calls: u64) {
        let runs = self.metric("convergence_task_runs_total").await;
        until("two passes and all calls ended", || async {
            let ended = self.metric("callbacks_taken_total").await + self.metric("callback_failures_total").await;
            self.metric("convergence_task_runs_total").await >= runs + 2.0 && ended >= calls as f64
        })
        .await;
    }

    /// Moves the clock by steps longer than any pause; each makes for one call, however many passes ask for one.
    async fn steps(&mut self, steps: u64, step_s: i64) {
        let before = self.metric("callback_attempts_total").await as u64;
        for step in 1..=steps {
            self.clock.advance(step_s * SECOND_NS);
            self.peer.next().await;
            self.settle(before + step).await;
            assert_eq!(self.peer.rest().len(), 0, "passes do not cause calls");
        }
    }

    async fn restart(mut self) -> Self {
        self.server = self.server.restart().await;
        self.client = self.server.client();
        self
    }
}

#[tokio::test]
async fn two_hours_and_a_fail_over_later_the_receiver_is_told() {
    let mut world = Reported::start(CallbackBody::Full, 503).await;
    world.steps(12, PAUSE_MAX_S).await;
    let mut world = world.restart().await;
    world.peer.next().await;
    world.settle(1).await;
    world.steps(12, PAUSE_MAX_S).await;
    assert_eq!(world.state().await, Some(models::task::State::Resolving));
    world.answer.store(200, Ordering::SeqCst);
    world.clock.advance(PAUSE_MAX_S * SECOND_NS);
    world.peer.next().await;
    until("the task is deleted", || async { world.state().await.is_none() }).await;
    assert_eq!(world.metric("callbacks_given_up_total").await, 0.0);
}

/// The other tests move a clock; this one has the machine's.
#[tokio::test]
async fn a_pause_ends_by_itself() {
    let mut peer = Peer::new([Reply::Status(503), Reply::Status(200)]).await;
    let server = Server::with(|config| config.outbound.callback_body = CallbackBody::Full).await;
    let client = server.client();
    let url = format!("http://{}/", peer.address);
    let definition = models::TaskDefinition { completion_callback_url: url, ..crate::samples::task() };
    client.desire_task("t", "d", definition).await.unwrap();
    client.cancel_task("t").await.unwrap();
    peer.next().await;
    peer.next().await;
    until("the task is deleted", || async { client.task_by_guid("t").await.is_err() }).await;
}

#[tokio::test]
async fn a_call_that_a_stop_cuts_off_is_made_again_by_the_next_master() {
    let answer = Arc::new(AtomicU16::new(200));
    let replies = vec![Reply::Never, Reply::AsSet(answer.clone())];
    let world = Reported::called(CallbackBody::Full, replies, answer).await;
    let mut world = world.restart().await;
    assert_eq!(world.state().await, Some(models::task::State::Resolving));
    world.clock.advance(31 * SECOND_NS);
    world.peer.next().await;
    until("the task is deleted", || async { world.state().await.is_none() }).await;
}

#[tokio::test]
async fn a_consumer_fetches_and_deletes_in_its_own_time() {
    let world = Reported::start(CallbackBody::Guid, 200).await;
    world.clock.advance(44 * SECOND_NS);
    world.settle(1).await;
    assert_eq!(world.state().await, Some(models::task::State::Resolving), "the time to kick a task is over by then");
    world.client.delete_task("t").await.unwrap();
    let mut world = world;
    world.clock.advance(3600 * SECOND_NS);
    world.settle(1).await;
    assert_eq!(
        (world.peer.rest().len(), world.metric("callbacks_waiting").await),
        (0, 0.0),
        "nobody is told of it again"
    );
}

#[tokio::test]
async fn a_consumer_that_never_deletes_is_reminded_and_given_up_after_a_day() {
    let mut world = Reported::start(CallbackBody::Guid, 204).await;
    world.steps(23, 3600).await;
    assert_eq!(world.state().await, Some(models::task::State::Resolving));
    world.clock.advance(3600 * SECOND_NS + 1);
    until("the task is given up", || async { world.state().await.is_none() }).await;
    assert_eq!(world.metric("callbacks_given_up_total").await, 1.0);
    assert!(world.metric("callbacks_taken_total").await >= 24.0);
}
