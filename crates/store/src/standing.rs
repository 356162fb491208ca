//! Whether a mastership still holds, for whoever does not write: those who answer reads, and those who have to stop.
//!
//! Promise: while [`Standing::is_certain`] says yes, nobody else can have become master. It says so by the time that this
//! machine has been up, suspended or not: setting the wall clock changes nothing, and a process that was stopped for longer
//! than its lease finds it over when it wakes. When it says no, the mastership may still be there, and come back; it is gone
//! for good once [`Standing::lost`] returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// The time that this machine has been up, in nanoseconds. It counts while the machine sleeps and cannot be set.
pub fn uptime_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanoseconds.unwrap_or(0))
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Clone, Debug)]
pub struct Standing {
    /// All of them have to hold. There is none where a mastership has no time limit.
    terms: Vec<Arc<Term>>,
}

/// One mastership with a time limit, as whoever renews it sees it.
#[derive(Debug)]
pub struct Term {
    certain_until_ns: AtomicU64,
    lost: watch::Sender<Option<String>>,
}

impl Standing {
    pub(crate) fn unlimited() -> Standing {
        Standing { terms: Vec::new() }
    }

    /// Of somebody who is not master.
    pub(crate) fn over() -> Standing {
        let term = Term::new();
        term.lose("this server is not master");
        Standing::of(term)
    }

    pub fn of(term: Arc<Term>) -> Standing {
        Standing { terms: vec![term] }
    }

    /// Of somebody who is master only as long as both hold.
    pub fn and(mut self, other: Standing) -> Standing {
        self.terms.extend(other.terms);
        self
    }

    /// Whether nobody else can be master at this moment.
    pub fn is_certain(&self) -> bool {
        self.terms.is_empty() || {
            let now_ns = uptime_ns();
            self.terms.iter().all(|term| term.is_certain_at(now_ns))
        }
    }

    /// Waits until the mastership is gone for good and says why.
    pub async fn lost(&self) -> String {
        if self.terms.is_empty() {
            return std::future::pending().await;
        }
        futures_util::future::select_all(self.terms.iter().map(|term| Box::pin(term.lost()))).await.0
    }
}

impl Term {
    /// Certain for nothing yet; see [`Term::renewed`].
    pub fn new() -> Arc<Term> {
        Arc::new(Term { certain_until_ns: AtomicU64::new(0), lost: watch::Sender::new(None) })
    }

    /// A renewal that was asked for at `asked_ns` was granted for `granted`. Counting from when it was asked for is what makes
    /// it certain: whoever granted it counts from a later moment. The margin is for clocks that do not run equally fast.
    pub fn renewed(&self, asked_ns: u64, granted: Duration) {
        let certain = granted.saturating_sub(margin(granted));
        self.certain_until_ns.fetch_max(asked_ns.saturating_add(nanoseconds(certain)), Ordering::AcqRel);
    }

    /// The first reason stands.
    pub fn lose(&self, why: impl Into<String>) {
        self.lost.send_if_modified(|lost| {
            let first = lost.is_none();
            lost.get_or_insert_with(|| why.into());
            first
        });
    }

    pub fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }

    async fn lost(&self) -> String {
        let mut lost = self.lost.subscribe();
        loop {
            if let Some(why) = &*lost.borrow_and_update() {
                return why.clone();
            }
            if lost.changed().await.is_err() {
                return "whoever renewed it has ended".to_owned();
            }
        }
    }

    fn is_certain_at(&self, now_ns: u64) -> bool {
        now_ns < self.certain_until_ns.load(Ordering::Acquire) && !self.is_lost()
    }
}

/// What is left off the end of a term: a tenth of it, which is far more than clocks drift apart in it.
fn margin(granted: Duration) -> Duration {
    granted / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_counts_from_when_it_was_asked_for() {
        const SECOND: u64 = 1_000_000_000;
        let term = Term::new();
        assert!(!term.is_certain_at(0), "nothing was granted yet");
        term.renewed(100 * SECOND, Duration::from_secs(10));
        let rows = [(100, true), (108, true), (109, false), (200, false)];
        for (at, expected) in rows {
            assert_eq!(term.is_certain_at(at * SECOND), expected, "{at}");
        }
        term.renewed(90 * SECOND, Duration::from_secs(10));
        assert!(term.is_certain_at(108 * SECOND), "an older answer that comes late takes nothing back");
        term.renewed(105 * SECOND, Duration::from_secs(10));
        assert!(term.is_certain_at(113 * SECOND));
        term.lose("somebody took it");
        term.lose("another reason");
        assert!(!term.is_certain_at(105 * SECOND), "what is lost is never certain again");
        term.renewed(300 * SECOND, Duration::from_secs(10));
        assert!(!term.is_certain_at(300 * SECOND));
    }

    #[tokio::test]
    async fn whoever_waits_hears_the_first_reason() {
        let term = Term::new();
        let standing = Standing::of(term.clone());
        let waiting = tokio::spawn({
            let standing = standing.clone();
            async move { standing.lost().await }
        });
        term.lose("first");
        term.lose("second");
        assert_eq!((waiting.await.unwrap(), standing.lost().await), ("first".to_owned(), "first".to_owned()));
        assert!(Standing::unlimited().is_certain());
        assert!(!Standing::over().is_certain());
        Standing::over().lost().await;
    }

    #[tokio::test]
    async fn of_two_terms_both_have_to_hold() {
        let (one, other) = (Term::new(), Term::new());
        let both = Standing::of(one.clone()).and(Standing::unlimited()).and(Standing::of(other.clone()));
        one.renewed(uptime_ns(), Duration::from_secs(100));
        assert!(!both.is_certain());
        other.renewed(uptime_ns(), Duration::from_secs(100));
        assert!(both.is_certain());
        other.lose("the other");
        assert!(!both.is_certain() && Standing::of(one).is_certain());
        assert_eq!(both.lost().await, "the other");
    }

    #[test]
    fn the_machine_is_up_for_longer_and_longer() {
        let before = uptime_ns();
        assert!(before > 0 && uptime_ns() >= before);
    }
}
