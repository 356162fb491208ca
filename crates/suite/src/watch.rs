//! How many instances of an app run, seen in two ways at once: every event of the state server, and its list again and again.
//!
//! An instance counts that is running, in the place of its index, whether it is an ordinary one, one that is being evacuated, or
//! one of a cell that is missed. Events count when the last one of a commit has come, because in between nothing was ever true.
//! The floor is what the suite demands at the moment; every sight below it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use api::client::{Client, FeedItem};
use api::event::{Event, EventPayload};
use api::models::{ActualLrPsRequest, ActualLrp};
use tokio::task::JoinSet;
use tokio::time::Instant;

const LIST_EVERY: Duration = Duration::from_millis(100);
/// After something went wrong with the stream.
const PAUSE: Duration = Duration::from_millis(100);
/// How long events may still come that are older than a list.
const OVERLAP: Duration = Duration::from_millis(500);
const RUNNING: &str = "RUNNING";

/// A sight of too few instances.
#[derive(Clone, Debug)]
pub(crate) struct Dip {
    pub(crate) at: Instant,
    pub(crate) what: String,
}

#[derive(Debug)]
struct Seen {
    guid: String,
    floor: AtomicUsize,
    counts: Mutex<Vec<(Instant, usize)>>,
    dips: Mutex<Vec<Dip>>,
}

#[derive(Debug)]
pub(crate) struct Watch {
    seen: Arc<Seen>,
    _going: JoinSet<()>,
}

impl Watch {
    /// `client` may be asked often and gives up soon.
    pub(crate) fn start(guid: &str, client: &Client) -> Self {
        let seen = Arc::new(Seen {
            guid: guid.to_owned(),
            floor: AtomicUsize::new(0),
            counts: Mutex::default(),
            dips: Mutex::default(),
        });
        let mut going = JoinSet::new();
        let (lister, by_list) = (client.clone(), seen.clone());
        going.spawn(async move {
            loop {
                if let Ok(rows) = list(&lister, &by_list.guid).await {
                    by_list.note(&rows, "in a list");
                }
                tokio::time::sleep(LIST_EVERY).await;
            }
        });
        // The feed has its own patience.
        let feed = client.with_retry(api::client::Retry::forever()).with_timeout(None);
        going.spawn(follow(feed, seen.clone()));
        Self { seen, _going: going }
    }

    /// What is demanded from here on.
    pub(crate) fn demand(&self, floor: usize) {
        self.seen.floor.store(floor, Ordering::SeqCst);
    }

    pub(crate) fn dips(&self) -> Vec<Dip> {
        lock(&self.seen.dips).clone()
    }

    /// The fewest that were seen in this time.
    pub(crate) fn fewest(&self, from: Instant, to: Instant) -> Option<usize> {
        let counts = lock(&self.seen.counts);
        let before = counts.iter().rev().find(|(at, _)| *at <= from);
        let within = counts.iter().filter(|(at, _)| *at > from && *at < to);
        before.into_iter().chain(within).map(|(_, count)| *count).min()
    }
}

/// The states of instances by index and presence: of each presence an index has one at most.
type Rows = BTreeMap<(i32, i32), String>;

impl Seen {
    fn note(&self, rows: &Rows, how: &str) {
        let running: BTreeSet<i32> =
            rows.iter().filter(|(_, state)| *state == RUNNING).map(|((index, _), _)| *index).collect();
        let (count, floor) = (running.len(), self.floor.load(Ordering::SeqCst));
        let now = Instant::now();
        let mut counts = lock(&self.counts);
        if counts.last().is_none_or(|(_, last)| *last != count) {
            counts.push((now, count));
        }
        if count < floor {
            let what = format!("{count} of {floor} instances run, {how}: {rows:?}");
            lock(&self.dips).push(Dip { at: now, what });
        }
    }
}

async fn list(client: &Client, guid: &str) -> anyhow::Result<Rows> {
    let request = ActualLrPsRequest { process_guid: guid.to_owned(), ..Default::default() };
    let rows = client.actual_lrps(request).await.context("the instances cannot be listed")?;
    Ok(rows.iter().map(row).collect())
}

fn row(lrp: &ActualLrp) -> ((i32, i32), String) {
    let index = lrp.actual_lrp_key.as_ref().map_or(0, |key| key.index);
    ((index, lrp.presence), lrp.state.clone())
}

/// Never ends: subscribes first and then lists, again after each gap.
async fn follow(client: Client, seen: Arc<Seen>) {
    loop {
        let Ok(mut feed) = client.follow_instance_events("").await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(mut rows) = list(&client, &seen.guid).await else { continue };
        let listed = Instant::now();
        loop {
            match feed.next().await {
                Ok(FeedItem::Event(event)) => {
                    apply(&mut rows, &event, &seen.guid);
                    // At first come events that the list knows already, and until they are over they tell of the past.
                    if !event.id.contains('-') && listed.elapsed() > OVERLAP {
                        seen.note(&rows, &format!("after event {}", event.id));
                    }
                }
                Ok(FeedItem::Gap(_)) => break,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

fn apply(rows: &mut Rows, event: &Event, guid: &str) {
    let is_ours = |lrp: &ActualLrp| lrp.actual_lrp_key.as_ref().is_some_and(|key| key.process_guid == guid);
    match &event.payload {
        EventPayload::ActualLrpInstanceCreated(created) => {
            rows.extend(created.actual_lrp.iter().filter(|lrp| is_ours(lrp)).map(row));
        }
        EventPayload::ActualLrpInstanceRemoved(removed) => {
            for lrp in removed.actual_lrp.iter().filter(|lrp| is_ours(lrp)) {
                rows.remove(&row(lrp).0);
            }
        }
        EventPayload::ActualLrpInstanceChanged(changed) => {
            let Some(key) = changed.actual_lrp_key.as_ref().filter(|key| key.process_guid == guid) else { return };
            if let Some(before) = &changed.before {
                rows.remove(&(key.index, before.presence));
            }
            if let Some(after) = &changed.after {
                rows.insert((key.index, after.presence), after.state.clone());
            }
        }
        _ => {}
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
