//! A store in memory that tells others what is committed, as one does that several nodes share.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use store::memory::Memory;
use store::{BoxFuture, Change, Following, Mastership, Page, Step, Store, StoreError};
use tokio::sync::{mpsc, watch};

/// More than any of these tests commits.
const CHANGES_MAX: usize = 10_000;

type OnRead = Box<dyn FnMut() + Send>;

pub(super) struct Recorder {
    pub(super) memory: Memory,
    /// No page has more records.
    page_records: usize,
    told: Mutex<Vec<Change>>,
    listeners: Mutex<Vec<mpsc::Sender<Result<Change, StoreError>>>>,
    on_read: Mutex<Option<OnRead>>,
    /// While it is set, whoever reads pages waits.
    pub(super) shut: watch::Sender<bool>,
    /// How often somebody asked to follow.
    pub(super) follows: watch::Sender<u64>,
    /// So many attempts to follow fail from now on.
    pub(super) failing: watch::Sender<u64>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.fmt(out)
    }
}

impl Recorder {
    pub(super) fn over(memory: Memory, page_records: usize) -> Self {
        Self {
            memory,
            page_records,
            told: Mutex::default(),
            listeners: Mutex::default(),
            on_read: Mutex::default(),
            shut: watch::Sender::new(false),
            follows: watch::Sender::new(0),
            failing: watch::Sender::new(0),
        }
    }

    /// Everything that was committed, step by step.
    pub(super) fn told(&self) -> Vec<Change> {
        self.told.lock().unwrap().clone()
    }

    /// Something that happens before every page.
    pub(super) fn on_read(&self, act: impl FnMut() + Send + 'static) {
        *self.on_read.lock().unwrap() = Some(Box::new(act));
    }

    /// All who follow hear this, and nothing after it.
    pub(super) fn break_off(&self, error: fn() -> StoreError) {
        for listener in self.listeners.lock().unwrap().drain(..) {
            listener.try_send(Err(error())).unwrap();
        }
    }

    fn tell(&self, revision: u64, steps: &[Step]) {
        let mut listeners = self.listeners.lock().unwrap();
        for (at, step) in (1..).zip(steps) {
            let change = Change { revision: revision - steps.len() as u64 + at, ops: step.ops.clone() };
            listeners.retain(|listener| listener.try_send(Ok(change.clone())).is_ok());
            self.told.lock().unwrap().push(change);
        }
    }
}

impl Store for Recorder {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        self.memory.campaign(node)
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        self.memory.resign(held)
    }

    fn follow(&self) -> BoxFuture<'_, Result<Option<Following>, StoreError>> {
        self.follows.send_modify(|follows| *follows += 1);
        let fails = self.failing.send_if_modified(|left| left.checked_sub(1).map(|less| *left = less).is_some());
        if fails {
            return Box::pin(async { Err(StoreError::Failed { why: "injected fault".into() }) });
        }
        let (listener, changes) = mpsc::channel(CHANGES_MAX);
        self.listeners.lock().unwrap().push(listener);
        Box::pin(async { Ok(Some(Following { changes })) })
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        self.memory.get(key)
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(async move {
            let _ = self.shut.subscribe().wait_for(|shut| !shut).await;
            if let Some(act) = &mut *self.on_read.lock().unwrap_or_else(PoisonError::into_inner) {
                act();
            }
            self.memory.scan(prefix, after, limit.min(self.page_records)).await
        })
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        let committed = self.memory.commit(held, steps).now_or_never().unwrap();
        if let Ok(revision) = committed {
            self.tell(revision, steps);
        }
        Box::pin(async { committed })
    }

    fn revision(&self) -> u64 {
        self.memory.revision()
    }

    fn describe(&self) -> String {
        self.memory.describe()
    }
}
