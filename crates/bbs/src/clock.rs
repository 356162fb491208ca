//! The one place where time and randomness enter the server.
//!
//! Everything below takes them as arguments, so that a test or a simulation can replay a run exactly.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use model::Nanos;

pub trait Clock: Send + Sync + Debug {
    fn now_ns(&self) -> Nanos;
    /// A name nobody has used before, for the epoch of a modification tag.
    fn fresh_id(&self) -> Arc<str>;
}

/// The machine's clock and random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> Nanos {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Nanos::try_from(since_epoch.as_nanos()).unwrap_or(Nanos::MAX)
    }

    fn fresh_id(&self) -> Arc<str> {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that draws random ids")]
        let id = uuid::Uuid::new_v4();
        let mut buffer = [0; uuid::fmt::Hyphenated::LENGTH];
        Arc::from(&*id.hyphenated().encode_lower(&mut buffer))
    }
}

/// A clock that moves when told to, and ids that count.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: std::sync::atomic::AtomicI64,
    ids: std::sync::atomic::AtomicU64,
}

impl ManualClock {
    pub fn at(now_ns: Nanos) -> Self {
        Self { now_ns: now_ns.into(), ids: 0.into() }
    }

    pub fn advance(&self, by_ns: Nanos) {
        self.now_ns.fetch_add(by_ns, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> Nanos {
        self.now_ns.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn fresh_id(&self) -> Arc<str> {
        format!("id-{}", self.ids.fetch_add(1, std::sync::atomic::Ordering::SeqCst)).into()
    }
}
