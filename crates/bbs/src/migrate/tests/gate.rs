//! A store that asks before every commit. Whoever answers may send something to the writer first, which then forms the next
//! group, whatever else happens; so the order of commands and batches is the same in every run.

use std::fmt;

use bytes::Bytes;
use store::memory::Memory;
use store::{BoxFuture, Mastership, Page, Step, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

/// The commit waits until this is answered.
pub(super) type Question = oneshot::Sender<()>;

#[derive(Clone)]
pub(super) struct Gated {
    inner: Memory,
    questions: mpsc::Sender<Question>,
}

impl Gated {
    pub(super) fn new(inner: Memory) -> (Self, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(1);
        (Self { inner, questions }, asked)
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
        self.inner.scan(prefix, after, limit)
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            // Nobody answers once the test looks elsewhere; then there is nothing to wait for.
            if self.questions.send(answer).await.is_ok() {
                let _ = answered.await;
            }
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
