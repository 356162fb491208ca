//! A store that asks before every commit. Whoever answers may send something to the writer first, which then forms the next
//! group, whatever else happens; so the order of commands and batches is the same in every run.
//!
//! If told so, it also asks before a look over all roots, which is how a key rotation reads its pages: two engines that work
//! side by side then take turns, one step each, instead of racing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use store::memory::Memory;
use store::root::QUARANTINE_ROOT;
use store::{BoxFuture, Mastership, Page, Step, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

/// The commit waits until this is answered.
pub(super) type Question = oneshot::Sender<()>;

/// Looks over all roots begin with one of these.
const OVER_ALL: [&str; 2] = ["/v", QUARANTINE_ROOT];

/// What is asked about, beside nothing.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Asks {
    Commits = 1,
    LooksOverAll = 2,
}

#[derive(Clone)]
pub(super) struct Gated {
    inner: Memory,
    questions: mpsc::Sender<Question>,
    asks: Arc<AtomicU8>,
}

impl Gated {
    pub(super) fn new(inner: Memory) -> (Self, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(1);
        (Self { inner, questions, asks: Arc::default() }, asked)
    }

    /// From now on. What is asked about includes what comes before it in the list.
    pub(super) fn ask_about(&self, asks: Asks) {
        self.asks.store(asks as u8, Ordering::SeqCst);
    }

    async fn ask(&self, about: Asks) {
        if self.asks.load(Ordering::SeqCst) < about as u8 {
            return;
        }
        let (answer, answered) = oneshot::channel();
        // Nobody answers once the test looks elsewhere; then there is nothing to wait for.
        if self.questions.send(answer).await.is_ok() {
            let _ = answered.await;
        }
    }
}

impl fmt::Debug for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gated")
    }
}

impl Store for Gated {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        self.inner.campaign(node)
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.resign(held)
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        self.inner.get(key)
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(async move {
            if OVER_ALL.contains(&prefix) {
                self.ask(Asks::LooksOverAll).await;
            }
            self.inner.scan(prefix, after, limit).await
        })
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            self.ask(Asks::Commits).await;
            self.inner.commit(held, steps).await
        })
    }

    fn revision(&self) -> u64 {
        self.inner.revision()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
