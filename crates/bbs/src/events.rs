//! Event streams: one bounded ring of what was announced, and any number of readers of it.
//!
//! The writer appends in commit order, so the events of one record always arrive in the order in which they became true.
//! A subscriber is nothing but a position in the ring: a slow one costs no memory and slows nobody down. When the ring has
//! moved past it, it is cut off and told so; it then reads the state anew, as it would after any disconnect. Whoever listens to
//! one cell has its positions in `lanes.rs`, and is not even woken for anything else.
//!
//! An event is known by the revision that made it true. `1042` says: everything of revision 1042 has been sent on this
//! stream; `1042-2` says: two more events of that revision follow. A client that comes back with the last id it saw misses
//! nothing while the ring still holds what followed, and gets an explicit gap event when it does not.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use api::convert::{Stream, payload};
use bytes::Bytes;
use model::CellId;
use model::event::Event;
use tokio::sync::watch;

use crate::commands::Staged;

mod frame;
mod lanes;

use lanes::Lanes;

pub use frame::{closing_comment, gap_frame};

/// How many events the ring holds, and roughly how many bytes. Beyond either, the oldest go.
pub const RING_EVENTS_MAX: usize = 65_536;
pub const RING_BYTES_MAX: usize = 128 * 1024 * 1024;
/// How many events a subscriber takes in one go.
const BATCH_EVENTS_MAX: usize = 256;

/// Which of the three kinds of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Group,
    Instance,
    Task,
}

/// Where a client left off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    pub revision: u64,
    /// How many events of the same revision and stream follow.
    pub remaining: u32,
}

impl EventId {
    pub fn parse(text: &str) -> Option<Self> {
        let (revision, remaining) = match text.trim().split_once('-') {
            None => (text.trim(), "0"),
            Some((revision, remaining)) => (revision, remaining),
        };
        Some(Self { revision: revision.parse().ok()?, remaining: remaining.parse().ok()? })
    }

    fn is_before(self, other: Self) -> bool {
        (self.revision, std::cmp::Reverse(self.remaining)) < (other.revision, std::cmp::Reverse(other.remaining))
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.remaining {
            0 => write!(f, "{}", self.revision),
            more => write!(f, "{}-{more}", self.revision),
        }
    }
}

#[derive(Debug)]
struct Announcement {
    revision: u64,
    /// Events of the same revision that follow on the group stream, on the instance stream, on the task stream.
    remaining: [u32; 3],
    event: Event,
    trace: Arc<str>,
    /// Encoded at most once per stream and shape, by the first subscriber that needs it.
    frames: [OnceLock<Bytes>; 6],
}

/// How much the ring holds before the oldest events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    pub events_max: usize,
    pub bytes_max: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self { events_max: RING_EVENTS_MAX, bytes_max: RING_BYTES_MAX }
    }
}

#[derive(Debug)]
struct Ring {
    limits: RingLimits,
    events: VecDeque<Arc<Announcement>>,
    /// The number of the event at the front.
    first: u64,
    bytes: usize,
    /// The last event of each stream kind that is no longer in the ring. What left on one kind of stream is no gap on another.
    gone: [EventId; 3],
    lanes: Lanes,
}

/// Why a subscription cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The subscriber read too slowly and its next event has left the ring.
    FellBehind,
    Shutdown,
}

/// What a client that wanted to resume is told when it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub asked: EventId,
    /// The oldest revision whose events are all still there.
    pub oldest: u64,
    pub newest: u64,
}

#[derive(Debug)]
pub struct Hub {
    ring: Mutex<Ring>,
    /// The number behind the last event, or `None` once the hub is closed.
    end: watch::Sender<Option<u64>>,
    newest: std::sync::atomic::AtomicU64,
}

impl Hub {
    /// `revision` is the one the server starts from: what came before is not in the ring.
    pub fn new(revision: u64) -> Arc<Self> {
        Self::with_limits(revision, RingLimits::default())
    }

    pub fn with_limits(revision: u64, limits: RingLimits) -> Arc<Self> {
        let gone = [EventId { revision, remaining: 0 }; 3];
        let ring = Ring { limits, events: VecDeque::new(), first: 0, bytes: 0, gone, lanes: Lanes::default() };
        Arc::new(Self { ring: Mutex::new(ring), end: watch::Sender::new(Some(0)), newest: revision.into() })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A panic while the ring is held can only come from running out of memory; the ring itself is never half changed.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the events of a commit whose first step got the revision `first_revision`.
    pub fn publish(&self, staged: Vec<Staged>, first_revision: u64, last_revision: u64) {
        self.newest.store(last_revision, std::sync::atomic::Ordering::Release);
        if staged.is_empty() {
            return;
        }
        let announced = number(staged, first_revision);
        let end = {
            let mut ring = self.ring();
            for announcement in announced {
                ring.push(Arc::new(announcement));
            }
            let end = ring.end();
            ring.lanes.wake(end);
            end
        };
        self.end.send_if_modified(|known| match known {
            Some(known) => {
                *known = end;
                true
            }
            None => false,
        });
    }

    /// Ends all streams.
    pub fn close(&self) {
        self.end.send_replace(None);
        // After that nobody gets a lane any more.
        self.ring().lanes.close();
    }

    pub fn subscribers(&self) -> usize {
        self.end.receiver_count() + self.ring().lanes.listeners()
    }

    /// A subscription to what is announced from now on, or from where the client left off.
    pub fn subscribe(
        self: &Arc<Self>,
        kind: Kind,
        shape: Stream,
        cell: Option<CellId>,
        resume: Option<EventId>,
    ) -> Option<(Subscription, Option<Gap>)> {
        // Tasks are everybody's.
        let cell = cell.filter(|_| kind != Kind::Task);
        let mut ring = self.ring();
        self.end.borrow().as_ref()?;
        let after_last = ring.end();
        let newest = self.newest.load(std::sync::atomic::Ordering::Acquire);
        let (next, gap) = match resume {
            None => (after_last, None),
            Some(asked) if asked.is_before(ring.gone[kind as usize]) || asked.revision > newest => {
                let oldest = ring.gone[kind as usize].revision;
                (after_last, Some(Gap { asked, oldest, newest }))
            }
            Some(asked) => {
                // Ids grow along the ring; many clients may resume at once, and they hold the writer up while they search.
                let seen = ring.events.partition_point(|event| !asked.is_before(event.id(kind)));
                (ring.first + seen as u64, None)
            }
        };
        let end = match &cell {
            Some(cell) => ring.listen(cell, next),
            None => self.end.subscribe(),
        };
        drop(ring);
        Some((Subscription { hub: self.clone(), end, next, kind, shape, cell }, gap))
    }
}

impl Ring {
    /// The position behind the last event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn get(&self, at: u64) -> Option<&Arc<Announcement>> {
        self.events.get(usize::try_from(at.checked_sub(self.first)?).ok()?)
    }

    fn listen(&mut self, cell: &CellId, next: u64) -> watch::Receiver<Option<u64>> {
        let (end, mut lanes) = (self.end(), std::mem::take(&mut self.lanes));
        let woken = lanes.listen(cell, (next, end), |part| part.filter(|at| self.is_about(*at, cell)).collect());
        self.lanes = lanes;
        woken
    }

    fn is_about(&self, at: u64, cell: &CellId) -> bool {
        let is_for = |event: &Arc<Announcement>, kind| event.is_for(kind, Some(cell));
        self.get(at).is_some_and(|event| is_for(event, Kind::Group) || is_for(event, Kind::Instance))
    }

    fn push(&mut self, announcement: Arc<Announcement>) {
        self.lanes.add(self.end(), &announcement.event, self.first);
        self.bytes += announcement.weight();
        self.events.push_back(announcement);
        while self.events.len() > self.limits.events_max || self.bytes > self.limits.bytes_max {
            let Some(oldest) = self.events.pop_front() else { return };
            self.first += 1;
            self.bytes -= oldest.weight();
            for kind in [Kind::Group, Kind::Instance, Kind::Task] {
                if oldest.is_for(kind, None) {
                    self.gone[kind as usize] = oldest.id(kind);
                }
            }
        }
    }
}

impl Announcement {
    fn id(&self, kind: Kind) -> EventId {
        EventId { revision: self.revision, remaining: self.remaining[kind as usize] }
    }

    /// Roughly how many bytes keeping this event costs.
    fn weight(&self) -> usize {
        use model::event::{DesiredEvent, TaskEvent};
        const ROW: usize = 2048;
        match &self.event {
            Event::Group(_) | Event::Instance(_) => ROW,
            Event::Desired(DesiredEvent::Created(lrp) | DesiredEvent::Removed(lrp)) => ROW + 2 * lrp.run_info.len(),
            Event::Desired(DesiredEvent::Changed { after, .. }) => 2 * ROW + 4 * after.run_info.len(),
            Event::Task(TaskEvent::Created(task) | TaskEvent::Removed(task)) => ROW + 2 * task.definition.encoded.len(),
            Event::Task(TaskEvent::Changed { after, .. }) => ROW + 4 * after.definition.encoded.len(),
        }
    }

    fn is_for(&self, kind: Kind, cell: Option<&CellId>) -> bool {
        match (&self.event, kind) {
            (Event::Desired(_), Kind::Group | Kind::Instance) | (Event::Task(_), Kind::Task) => true,
            (Event::Group(event), Kind::Group) => cell.is_none_or(|cell| event.concerns(cell)),
            (Event::Instance(event), Kind::Instance) => cell.is_none_or(|cell| event.concerns(cell)),
            _ => false,
        }
    }

    fn frame(&self, kind: Kind, shape: Stream) -> Bytes {
        let at = kind as usize * 2 + usize::from(shape == Stream::Oldest);
        self.frames[at]
            .get_or_init(|| frame::event_frame(self.id(kind), &payload(&self.event, shape, &self.trace)))
            .clone()
    }
}

/// Gives each event its revision and counts, per stream, what follows it within the revision.
fn number(staged: Vec<Staged>, first_revision: u64) -> Vec<Announcement> {
    let mut announced: Vec<Announcement> = staged
        .into_iter()
        .map(|staged| Announcement {
            revision: first_revision + staged.step as u64,
            remaining: [0; 3],
            event: staged.event,
            trace: staged.trace,
            frames: Default::default(),
        })
        .collect();
    let mut revision = None;
    let mut following = [0; 3];
    for announcement in announced.iter_mut().rev() {
        if revision != Some(announcement.revision) {
            revision = Some(announcement.revision);
            following = [0; 3];
        }
        announcement.remaining = following;
        match &announcement.event {
            Event::Desired(_) => {
                following[Kind::Group as usize] += 1;
                following[Kind::Instance as usize] += 1;
            }
            Event::Group(_) => following[Kind::Group as usize] += 1,
            Event::Instance(_) => following[Kind::Instance as usize] += 1,
            Event::Task(_) => following[Kind::Task as usize] += 1,
        }
    }
    announced
}

/// A position in the ring.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    end: watch::Receiver<Option<u64>>,
    next: u64,
    kind: Kind,
    shape: Stream,
    cell: Option<CellId>,
}

impl Subscription {
    /// Waits for events and returns them framed, several at once if several have gathered.
    pub async fn next(&mut self) -> Result<Vec<Bytes>, Ended> {
        loop {
            let closed = self.end.borrow_and_update().is_none();
            let batch = self.take()?;
            if !batch.is_empty() {
                let frames = batch.iter().map(|event| event.frame(self.kind, self.shape)).collect();
                return Ok(frames);
            }
            // What was announced before the end is still delivered.
            if closed || self.end.changed().await.is_err() {
                return Err(Ended::Shutdown);
            }
        }
    }

    fn take(&mut self) -> Result<Vec<Arc<Announcement>>, Ended> {
        let mut ring = self.hub.ring();
        let mut batch = Vec::new();
        if let Some(cell) = &self.cell {
            let Ring { lanes, first, events, .. } = &mut *ring;
            for at in lanes.after(cell, self.next, *first)? {
                let event = usize::try_from(at - *first).ok().and_then(|at| events.get(at));
                batch.extend(event.filter(|event| event.is_for(self.kind, Some(cell))).cloned());
                self.next = at + 1;
                if batch.len() == BATCH_EVENTS_MAX {
                    break;
                }
            }
            return Ok(batch);
        }
        if self.next < ring.first {
            return Err(Ended::FellBehind);
        }
        while batch.len() < BATCH_EVENTS_MAX
            && let Some(event) = ring.get(self.next)
        {
            if event.is_for(self.kind, None) {
                batch.push(event.clone());
            }
            self.next += 1;
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests;
