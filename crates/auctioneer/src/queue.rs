//! What waits for the next auction: one batch, to which requests add until an auction takes it whole.
//!
//! An instance or a task waits at most once; the first wish counts, and repetitions take no room. When the queue is full, a
//! request that would add to it is refused as a whole, and nothing of it is kept: the state server lists everything that
//! still wants a place at its next convergence.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::rep::{Lrp, Task};
use tokio::sync::Notify;

use crate::metrics::Metrics;
use crate::place::{Batch, Start};

#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Taken>,
    added: Notify,
    /// What an auction took and has not finished with.
    in_hand: AtomicUsize,
    starts_max: usize,
    metrics: Arc<Metrics>,
}

/// What an auction took.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) batch: Batch,
    /// Under which id each start was asked for.
    pub(crate) traces: HashMap<Key, Arc<str>>,
    /// The id of the request that came first.
    first: Option<Arc<str>>,
}

/// What tells starts apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Lrp(String, i32),
    Task(String),
}

/// The queue has no room for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) waiting: usize,
}

impl Key {
    pub(crate) fn of(start: &Start) -> Self {
        match start {
            Start::Lrp(lrp) => Self::lrp(lrp),
            Start::Task(task) => Self::task(task),
        }
    }

    pub(crate) fn lrp(lrp: &Lrp) -> Self {
        Self::Lrp(lrp.process_guid.clone(), lrp.index)
    }

    pub(crate) fn task(task: &Task) -> Self {
        Self::Task(task.task_guid.clone())
    }
}

impl Queue {
    pub(crate) fn new(starts_max: usize, metrics: Arc<Metrics>) -> Self {
        Self { waiting: Mutex::default(), added: Notify::new(), in_hand: AtomicUsize::new(0), starts_max, metrics }
    }

    /// Adds what does not wait yet, or nothing.
    pub(crate) fn add(&self, starts: impl Iterator<Item = Start>, trace: &Arc<str>) -> Result<(), Full> {
        let mut waiting = self.lock();
        let mut seen = HashSet::new();
        let fresh: Vec<(Key, Start)> = starts
            .map(|start| (Key::of(&start), start))
            .filter(|(key, _)| !waiting.traces.contains_key(key) && seen.insert(key.clone()))
            .collect();
        if waiting.traces.len() + fresh.len() > self.starts_max {
            return Err(Full { waiting: waiting.traces.len() });
        }
        if fresh.is_empty() {
            return Ok(());
        }
        waiting.first.get_or_insert_with(|| trace.clone());
        for (key, start) in fresh {
            waiting.traces.insert(key, trace.clone());
            match start {
                Start::Lrp(lrp) => waiting.batch.lrps.push(lrp),
                Start::Task(task) => waiting.batch.tasks.push(task),
            }
        }
        self.metrics.waiting.set(waiting.traces.len() as i64);
        drop(waiting);
        self.added.notify_one();
        Ok(())
    }

    /// Waits until something waits, and tells the id of the request that came first.
    pub(crate) async fn some(&self) -> Arc<str> {
        loop {
            let added = self.added.notified();
            if let Some(trace) = self.lock().first.clone() {
                return trace;
            }
            added.await;
        }
    }

    /// Everything that waits. [`Queue::finished`] is to be called when all of it was placed or reported.
    pub(crate) fn take(&self) -> Taken {
        let taken = std::mem::take(&mut *self.lock());
        self.metrics.waiting.set(0);
        self.in_hand.store(taken.traces.len(), Ordering::Relaxed);
        taken
    }

    pub(crate) fn finished(&self) {
        self.in_hand.store(0, Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().traces.len()
    }

    /// What was accepted and is neither placed nor reported, as far as anybody knows.
    pub(crate) fn unfinished(&self) -> usize {
        self.len() + self.in_hand.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lrp(guid: &str, index: i32, memory_mb: i32) -> Start {
        let mut lrp = Lrp { process_guid: guid.into(), index, ..Lrp::default() };
        lrp.needs.memory_mb = memory_mb;
        Start::Lrp(lrp)
    }

    fn task(guid: &str) -> Start {
        Start::Task(Task { task_guid: guid.into(), ..Task::default() })
    }

    fn add(queue: &Queue, starts: impl IntoIterator<Item = Start>, trace: &str) -> Result<(), Full> {
        queue.add(starts.into_iter(), &trace.into())
    }

    #[tokio::test]
    async fn the_first_wish_for_a_place_counts() {
        let queue = Queue::new(10, Metrics::new());
        add(&queue, [lrp("a", 0, 1), lrp("a", 0, 2), lrp("a.0", 1, 3), task("a")], "one").unwrap();
        add(&queue, [lrp("a", 0, 4), lrp("a", 1, 5), task("a")], "two").unwrap();
        assert_eq!(&*queue.some().await, "one");
        let taken = queue.take();
        let lrps: Vec<_> = taken.batch.lrps.iter().map(|lrp| (lrp.index, lrp.needs.memory_mb)).collect();
        assert_eq!(lrps, [(0, 1), (1, 3), (1, 5)]);
        assert_eq!(taken.batch.tasks.len(), 1);
        assert_eq!(&*taken.traces[&Key::Lrp("a".into(), 1)], "two");
        assert_eq!((queue.len(), queue.unfinished()), (0, 4));
        queue.finished();
        add(&queue, [lrp("a", 0, 1)], "three").unwrap();
        assert_eq!(queue.unfinished(), 1);
        assert_eq!(&*queue.some().await, "three");
    }

    #[test]
    fn a_request_that_does_not_fit_leaves_nothing_behind() {
        let queue = Queue::new(3, Metrics::new());
        add(&queue, [task("a"), task("b")], "").unwrap();
        assert_eq!(add(&queue, [task("c"), task("d")], ""), Err(Full { waiting: 2 }));
        assert_eq!(queue.len(), 2);
        // What waits already takes no room.
        add(&queue, [task("a"), task("b"), task("c"), task("c")], "").unwrap();
        assert_eq!(queue.len(), 3);
    }

    #[tokio::test]
    async fn an_auction_that_waits_is_woken() {
        let queue = Arc::new(Queue::new(3, Metrics::new()));
        let waiter = tokio::spawn({
            let queue = queue.clone();
            async move { queue.some().await }
        });
        tokio::task::yield_now().await;
        add(&queue, [task("a")], "id").unwrap();
        assert_eq!(&*waiter.await.unwrap(), "id");
    }
}
