//! A client of the event streams that believes only what it is told: what it holds must be the truth, or it was warned.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::client::{Client, EventStream, Subscription};
use api::event::EventPayload;
use api::models::{DesiredLrp, DesiredLrpUpdate, Task};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::census::Census;
use super::world::{lrp, task_definition};

/// Records of the followers' own, whose events show that all events before them have arrived.
pub(super) const MARKER: &str = "marker";
/// An event that takes longer than this is lost.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lrps,
    Tasks,
}

/// What the events so far add up to.
#[derive(Debug, Default)]
struct Held {
    lrps: BTreeMap<String, DesiredLrp>,
    tasks: BTreeMap<String, Task>,
    last_id: String,
    revision: u64,
    gaps: usize,
}

#[derive(Debug)]
pub(super) struct Follower {
    kind: Kind,
    held: Arc<Mutex<Held>>,
    /// How many events of markers have arrived.
    markers: watch::Sender<usize>,
}

impl Follower {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, held: Arc::default(), markers: watch::Sender::new(0) }
    }

    /// Continues after the last event that arrived, if there was one. What is returned ends with the server.
    pub(super) async fn subscribe(&self, client: &Client) -> JoinHandle<()> {
        let last_id = self.held.lock().unwrap().last_id.clone();
        let what = Subscription { cell_id: String::new(), last_event_id: Some(last_id).filter(|id| !id.is_empty()) };
        let stream = match self.kind {
            Kind::Lrps => client.subscribe_to_instance_events(what).await.unwrap(),
            Kind::Tasks => client.subscribe_to_task_events(what).await.unwrap(),
        };
        tokio::spawn(read(stream, self.held.clone(), self.markers.clone()))
    }

    pub(super) fn gaps(&self) -> usize {
        self.held.lock().unwrap().gaps
    }

    /// Makes a change of its own and waits for its last event. Nobody else writes meanwhile.
    pub(super) async fn catch_up(&self, client: &Client) {
        let mut markers = self.markers.subscribe();
        let seen = *markers.borrow_and_update();
        match self.kind {
            Kind::Lrps => {
                client.desire_lrp(lrp(MARKER, 0, "")).await.unwrap();
                client.update_desired_lrp(MARKER, DesiredLrpUpdate::default()).await.unwrap();
                client.remove_desired_lrp(MARKER).await.unwrap();
            }
            Kind::Tasks => {
                client.desire_task(MARKER, "apps", task_definition()).await.unwrap();
                client.cancel_task(MARKER).await.unwrap();
                client.resolving_task(MARKER).await.unwrap();
                client.delete_task(MARKER).await.unwrap();
            }
        }
        let arrived = tokio::time::timeout(EVENT_TIMEOUT, markers.wait_for(|count| *count > seen)).await;
        arrived.expect("the event of an acknowledged change arrives").unwrap();
    }

    /// After a gap it must read the state anew, as it was told to.
    pub(super) fn read_anew(&self, census: &Census) {
        let mut held = self.held.lock().unwrap();
        (held.lrps, held.tasks) = shown(census);
    }

    /// What it was told adds up to what the server shows.
    pub(super) fn check(&self, census: &Census, when: &str) {
        let held = self.held.lock().unwrap();
        let (lrps, tasks) = shown(census);
        match self.kind {
            Kind::Lrps => assert_same(&held.lrps, &lrps, when),
            Kind::Tasks => assert_same(&held.tasks, &tasks, when),
        }
    }
}

fn assert_same<T: PartialEq + Debug>(held: &BTreeMap<String, T>, shown: &BTreeMap<String, T>, when: &str) {
    for guid in held.keys().chain(shown.keys()) {
        assert_eq!(held.get(guid), shown.get(guid), "{when}: events of {guid} were lost and nobody said so");
    }
}

fn shown(census: &Census) -> (BTreeMap<String, DesiredLrp>, BTreeMap<String, Task>) {
    let lrps = census.lrps.iter().map(|lrp| (lrp.process_guid.clone(), lrp.clone()));
    let tasks = census.tasks.iter().map(|task| (task.task_guid.clone(), task.clone()));
    (lrps.collect(), tasks.collect())
}

async fn read(mut stream: EventStream, held: Arc<Mutex<Held>>, markers: watch::Sender<usize>) {
    // The server is killed, so the stream ends with an error.
    while let Ok(Some(event)) = stream.next().await {
        let mut held = held.lock().unwrap();
        let revision = event.id.split('-').next().unwrap().parse().unwrap();
        assert!(revision >= held.revision, "{} after revision {}", event.id, held.revision);
        held.revision = revision;
        held.last_id = event.id;
        if held.take(event.payload) == Some(MARKER.to_owned()) {
            markers.send_modify(|count| *count += 1);
        }
    }
}

impl Held {
    /// Returns what was removed.
    fn take(&mut self, payload: EventPayload) -> Option<String> {
        match payload {
            EventPayload::Gap(_) => self.gaps += 1,
            EventPayload::DesiredLrpCreated(event) => self.put_lrp(event.desired_lrp),
            EventPayload::DesiredLrpChanged(event) => self.put_lrp(event.after),
            EventPayload::DesiredLrpRemoved(event) => {
                return self.lrps.remove(&event.desired_lrp?.process_guid).map(|lrp| lrp.process_guid);
            }
            EventPayload::TaskCreated(event) => self.put_task(event.task),
            EventPayload::TaskChanged(event) => self.put_task(event.after),
            EventPayload::TaskRemoved(event) => {
                return self.tasks.remove(&event.task?.task_guid).map(|task| task.task_guid);
            }
            _ => {}
        }
        None
    }

    fn put_lrp(&mut self, lrp: Option<DesiredLrp>) {
        let lrp = lrp.expect("the event carries the record");
        self.lrps.insert(lrp.process_guid.clone(), lrp);
    }

    fn put_task(&mut self, task: Option<Task>) {
        let task = task.expect("the event carries the record");
        self.tasks.insert(task.task_guid.clone(), task);
    }
}
