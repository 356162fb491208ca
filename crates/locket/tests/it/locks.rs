//! Keeping a lock against a real Locket over a line that is cut: when it is lost, and when it is not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::locket::{Client, Holder, Kind, LockSession, Terms, Waiting};
use rig::proxy::Proxy;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::world::{PATIENCE, World, client, resource};

/// Short, so that a test need not wait for Diego's 15 s. Locket counts in whole seconds.
const TTL: Duration = Duration::from_secs(3);

fn terms(owner: &str) -> Terms {
    Terms { ttl: TTL, interval: Duration::from_millis(100), ..Terms::new("bbs", owner) }
}

#[derive(Debug, PartialEq)]
enum Told {
    Waits(Waiting),
    Renewed,
    Lost(String),
}

struct Recorder {
    began: Instant,
    /// How much the machine slept.
    slept: Mutex<Duration>,
    told: mpsc::Sender<Told>,
}

impl Holder for Recorder {
    fn uptime_ns(&self) -> u64 {
        u64::try_from((self.began.elapsed() + *self.slept.lock().unwrap()).as_nanos()).unwrap()
    }

    fn fresh_id(&self) -> Arc<str> {
        "id".into()
    }

    fn waits(&self, waiting: &Waiting) {
        let _ = self.told.try_send(Told::Waits(waiting.clone()));
    }

    fn renewed(&self, _: u64) {
        let _ = self.told.try_send(Told::Renewed);
    }

    fn lost(&self, why: &str) {
        let _ = self.told.try_send(Told::Lost(why.to_owned()));
    }
}

struct Node {
    holder: Arc<Recorder>,
    told: mpsc::Receiver<Told>,
    stop: watch::Sender<bool>,
    client: Client,
    owner: &'static str,
}

impl Node {
    fn new(owner: &'static str, client: Client) -> Self {
        let (tell, told) = mpsc::channel(10_000);
        let holder = Recorder { began: Instant::now(), slept: Mutex::default(), told: tell };
        Self { holder: Arc::new(holder), told, stop: watch::Sender::new(false), client, owner }
    }

    fn acquire(&self) -> impl Future<Output = Option<LockSession>> + use<> {
        let stop = self.stop.subscribe();
        let acquiring = LockSession::acquire(self.client.clone(), terms(self.owner), self.holder.clone(), stop);
        async { timeout(PATIENCE, acquiring).await.unwrap().unwrap() }
    }

    async fn until(&mut self, is_it: impl Fn(&Told) -> bool) -> Told {
        let looking = async {
            loop {
                let told = self.told.recv().await.unwrap();
                if is_it(&told) {
                    return told;
                }
            }
        };
        timeout(PATIENCE, looking).await.unwrap()
    }

    async fn lost(&mut self) -> String {
        match self.until(|told| matches!(told, Told::Lost(_))).await {
            Told::Lost(why) => why,
            _ => unreachable!("only that was waited for"),
        }
    }

    fn forget(&mut self) {
        while self.told.try_recv().is_ok() {}
    }
}

#[tokio::test]
async fn one_waits_for_the_other_and_knows_for_whom() {
    let world = World::new().await;
    let (mut a, mut b) = (Node::new("a", world.client()), Node::new("b", world.client()));
    let held = a.acquire().await.unwrap();
    let waiting = tokio::spawn(b.acquire());
    let expected = Told::Waits(Waiting { owner: Some("a".into()), trouble: None });
    b.until(|told| *told == expected).await;
    a.until(|told| *told == Told::Renewed).await;
    held.release().await;
    let held = waiting.await.unwrap().unwrap();
    assert_eq!(world.client().fetch("bbs", PATIENCE).await.unwrap().owner, "b");
    held.release().await;
    assert!(world.client().fetch("bbs", PATIENCE).await.is_err());
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_nothing_behind() {
    let world = World::new().await;
    let a = Node::new("a", world.client());
    let mut b = Node::new("b", world.client());
    let held = a.acquire().await.unwrap();
    let waiting = tokio::spawn(b.acquire());
    b.until(|told| matches!(told, Told::Waits(_))).await;
    b.stop.send_replace(true);
    assert!(waiting.await.unwrap().is_none());
    held.release().await;
    // Told to stop before its first attempt has ended: what was granted is given back.
    assert!(b.acquire().await.is_none());
    assert!(world.client().fetch("bbs", PATIENCE).await.is_err());
}

#[tokio::test]
async fn a_holder_that_was_dropped_lets_the_time_run_out() {
    let world = World::new().await;
    let (a, b) = (Node::new("a", world.client()), Node::new("b", world.client()));
    drop(a.acquire().await.unwrap());
    assert_eq!(world.client().fetch("bbs", PATIENCE).await.unwrap().owner, "a");
    assert!(b.acquire().await.is_some());
}

#[tokio::test]
async fn a_restart_of_locket_within_the_time_is_not_noticed() {
    let mut world = World::new().await;
    let mut a = Node::new("a", world.client());
    let held = a.acquire().await.unwrap();
    for _ in 0..3 {
        world.stop().await;
        tokio::time::sleep(TTL / 4).await;
        world.start().await;
        a.forget();
        a.until(|told| *told == Told::Renewed).await;
    }
    a.forget();
    held.release().await;
    assert!(!matches!(a.told.try_recv(), Ok(Told::Lost(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_reaches_nobody_knows_before_anybody_else_can_have_it() {
    let world = World::new().await;
    let line = Proxy::to(world.address);
    let mut a = Node::new("a", client(&line.address().to_string(), world.files("client")));
    let mut b = Node::new("b", world.client());
    let _held = a.acquire().await.unwrap();
    let waiting = tokio::spawn(b.acquire());
    b.until(|told| matches!(told, Told::Waits(_))).await;
    line.cut();
    let why = a.lost().await;
    assert!(why.starts_with("no call to Locket succeeded before its time was over."), "{why}");
    assert!(!waiting.is_finished(), "the lock was still nobody else's");
    assert!(waiting.await.unwrap().is_some());
    line.heal();
    assert_eq!(world.client().fetch("bbs", PATIENCE).await.unwrap().owner, "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_comes_back_in_time_costs_nothing() {
    let world = World::new().await;
    let line = Proxy::to(world.address);
    let mut a = Node::new("a", client(&line.address().to_string(), world.files("client")));
    let held = a.acquire().await.unwrap();
    for fault in [Proxy::cut, Proxy::refuse] {
        fault(&line);
        tokio::time::sleep(TTL / 3).await;
        line.heal();
        a.forget();
        a.until(|told| *told == Told::Renewed).await;
    }
    held.release().await;
    assert!(world.client().fetch("bbs", PATIENCE).await.is_err(), "given back, so never lost");
}

#[tokio::test]
async fn a_lock_that_somebody_took_is_lost_at_once() {
    let world = World::new().await;
    let mut a = Node::new("a", world.client());
    let held = a.acquire().await.unwrap();
    // What an operator may do.
    let operator = world.client();
    let theirs = resource("bbs", "operator", Kind::Lock);
    loop {
        operator.release(&resource("bbs", "a", Kind::Lock), PATIENCE).await.unwrap();
        if operator.lock(&theirs, TTL * 10, "id", PATIENCE).await.is_ok() {
            break;
        }
    }
    assert_eq!(a.lost().await, "Locket says that it belongs to somebody else");
    held.release().await;
    assert_eq!(operator.fetch("bbs", PATIENCE).await.unwrap().owner, "operator", "what is lost is not given back");
}

#[tokio::test]
async fn a_machine_that_slept_too_long_has_lost_it_though_nobody_took_it() {
    let world = World::new().await;
    let mut a = Node::new("a", world.client());
    let held = a.acquire().await.unwrap();
    *a.holder.slept.lock().unwrap() += TTL;
    let why = a.lost().await;
    assert!(why.contains("before its time was over") || why.contains("after its time was over"), "{why}");
    held.release().await;
}
