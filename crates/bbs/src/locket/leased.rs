//! A store that is used only while a lock beside it is held.
//!
//! Promise: its standing is certain only while that of the store and that of the lock both are, for everybody who asks the store:
//! those who answer reads, the writer, backups. Everything else is the store's own: whether a commit is accepted is decided
//! where the data is, and a lock elsewhere can add nothing to that.

use std::sync::Arc;

use bytes::Bytes;
use store::{
    BoxFuture, Claim, Claimed, Following, Held, Mastership, Page, Snapshot, Standing, Step, Store, StoreError,
};

#[derive(Debug)]
pub(crate) struct Leased {
    inner: Arc<dyn Store>,
    lock: Standing,
}

impl Leased {
    pub(crate) fn new(inner: Arc<dyn Store>, lock: Standing) -> Self {
        Self { inner, lock }
    }
}

impl Store for Leased {
    fn standing(&self) -> Standing {
        self.inner.standing().and(self.lock.clone())
    }

    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        self.inner.campaign(node)
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.resign(held)
    }

    fn holder(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        self.inner.holder()
    }

    fn follow(&self) -> BoxFuture<'_, Result<Option<Following>, StoreError>> {
        self.inner.follow()
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        self.inner.claim(claim)
    }

    fn release<'a>(&'a self, key: &'a str, owner: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.release(key, owner)
    }

    fn claims<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Held>, StoreError>> {
        self.inner.claims(prefix)
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
        self.inner.commit(held, steps)
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn Snapshot>, StoreError>> {
        self.inner.snapshot()
    }

    fn begin_after<'a>(&'a self, held: &'a Mastership, revision: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.begin_after(held, revision)
    }

    fn forget_superseded(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.forget_superseded()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }

    fn revision(&self) -> u64 {
        self.inner.revision()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use store::contract::Site;
    use store::memory::Memory;
    use store::promises;
    use store::standing::{Term, uptime_ns};

    use super::*;

    /// It promises all that a store does.
    #[derive(Default)]
    struct LeasedSite(Mutex<Memory>);

    impl Site for LeasedSite {
        fn open(&self) -> Box<dyn Store> {
            let mut memory = self.0.lock().unwrap();
            *memory = memory.reopen();
            Box::new(Leased::new(Arc::new(memory.clone()), Standing::of(Term::new())))
        }
    }

    promises!(LeasedSite::default());

    #[tokio::test]
    async fn it_stands_as_long_as_the_lock_does() {
        let term = Term::new();
        let leased = Leased::new(Arc::new(Memory::new()), Standing::of(term.clone()));
        assert!(!leased.standing().is_certain());
        term.renewed(uptime_ns(), Duration::from_secs(1000));
        assert!(leased.standing().is_certain());
        term.lose("somebody took it");
        assert!(!leased.standing().is_certain());
        assert_eq!(leased.standing().lost().await, "somebody took it");
    }
}
