//! The keeper in memory: the book, and the clock that it is kept by.
//!
//! A desk that was opened anew knows of nobody, and whoever asks first for a lock gets it, even if somebody still holds it; with
//! its next call that holder learns that it has lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::book::{Asked, Book, Refusal, Resource};
use crate::keeper::{Keeper, Later};

/// Nobody sees what has expired anyway; this is for memory and for the log.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Clones share the book, so it can outlive a server.
#[derive(Clone, Debug)]
pub struct Desk {
    book: Arc<Mutex<Book>>,
    opened: Instant,
}

impl Default for Desk {
    fn default() -> Self {
        Self { book: Arc::default(), opened: Instant::now() }
    }
}

impl Desk {
    /// The book without what has expired, and what time it is in it. It is held for one call and never across a wait.
    fn book(&self) -> (MutexGuard<'_, Book>, u64) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        for gone in book.expire(now_ns) {
            tracing::info!(key = gone.key, owner = gone.owner, kind = gone.kind.name(), "expired");
        }
        (book, now_ns)
    }
}

impl Keeper for Desk {
    fn lock(&self, asked: Option<Asked>, ttl_s: i64) -> Later<'_, Result<(), Refusal>> {
        let (mut book, now_ns) = self.book();
        let outcome = book.lock(asked, ttl_s, now_ns);
        Box::pin(std::future::ready(outcome))
    }

    fn release(&self, asked: Option<Asked>) -> Later<'_, Result<(), Refusal>> {
        let (mut book, now_ns) = self.book();
        let outcome = book.release(asked.as_ref(), now_ns);
        Box::pin(std::future::ready(outcome))
    }

    fn fetch(&self, key: String) -> Later<'_, Result<Resource, Refusal>> {
        let (mut book, now_ns) = self.book();
        let found = book.fetch(&key, now_ns);
        Box::pin(std::future::ready(found))
    }

    fn fetch_all(&self, type_code: i32) -> Later<'_, Result<Vec<Resource>, Refusal>> {
        let (mut book, now_ns) = self.book();
        let all = book.fetch_all(type_code, now_ns);
        Box::pin(std::future::ready(all))
    }

    fn look_after(&self) -> Later<'_, ()> {
        Box::pin(async {
            loop {
                drop(self.book());
                tokio::time::sleep(SWEEP_EVERY).await;
            }
        })
    }
}
