//! The one place where time and randomness enter the server.
//!
//! Everything below takes them as arguments, so that a test or a simulation can replay a run exactly.

use std::cell::RefCell;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Nanos;
use store::seal::envelope::NONCE_BYTES;
use store::seal::{Stamp, Stamps};

pub trait Clock: Send + Sync + Debug {
    fn now_ns(&self) -> Nanos;
    /// Time that passes and cannot be set, for what is counted from one moment to another: who was heard of, and since when.
    /// From when it counts says nothing.
    fn uptime_ns(&self) -> Nanos {
        self.now_ns()
    }

    /// Returns once [`Self::uptime_ns`] is at least this.
    fn reaches(&self, uptime_ns: Nanos) -> Reached<'_> {
        Box::pin(async move {
            loop {
                let left_ns = uptime_ns.saturating_sub(self.uptime_ns());
                match u64::try_from(left_ns) {
                    Ok(left_ns) if left_ns > 0 => tokio::time::sleep(Duration::from_nanos(left_ns)).await,
                    _ => return,
                }
            }
        })
    }

    /// A name nobody has used before, for the epoch of a modification tag.
    fn fresh_id(&self) -> Arc<str>;

    /// Random bytes that seal one record. Only a test that replays a run has others.
    fn nonce(&self) -> [u8; NONCE_BYTES] {
        NONCES.with_borrow_mut(Nonces::take)
    }
}

/// A wait that ends when a clock has come so far.
pub type Reached<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Random bytes in stock: asking for a few at a time would cost a write more than sealing it does.
struct Nonces {
    stock: [u8; NONCE_BYTES * NONCES_AT_ONCE],
    left: usize,
}

const NONCES_AT_ONCE: usize = 256;

thread_local! {
    static NONCES: RefCell<Nonces> = const { RefCell::new(Nonces { stock: [0; NONCE_BYTES * NONCES_AT_ONCE], left: 0 }) };
}

impl Nonces {
    /// Each is handed out once.
    fn take(&mut self) -> [u8; NONCE_BYTES] {
        if self.left == 0 {
            // Without randomness nothing may be sealed, and a server that cannot seal must not go on.
            aws_lc_rs::rand::fill(&mut self.stock).expect("the random source of the machine answers");
            self.left = NONCES_AT_ONCE;
        }
        self.left -= 1;
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&self.stock[self.left * NONCE_BYTES..][..NONCE_BYTES]);
        nonce
    }
}

/// What makes every seal different: the time and fresh random bytes.
#[derive(Debug)]
pub struct ClockStamps(pub Arc<dyn Clock>);

impl Stamps for ClockStamps {
    fn stamp(&self) -> Stamp {
        Stamp { sealed_ns: self.0.now_ns(), nonce: self.0.nonce() }
    }
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

    fn uptime_ns(&self) -> Nanos {
        Nanos::try_from(store::standing::uptime_ns()).unwrap_or(Nanos::MAX)
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
    nonces: std::sync::atomic::AtomicU64,
    moved: tokio::sync::Notify,
}

impl ManualClock {
    pub fn at(now_ns: Nanos) -> Self {
        Self { now_ns: now_ns.into(), ..Self::default() }
    }

    pub fn advance(&self, by_ns: Nanos) {
        self.now_ns.fetch_add(by_ns, std::sync::atomic::Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> Nanos {
        self.now_ns.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn reaches(&self, uptime_ns: Nanos) -> Reached<'_> {
        Box::pin(async move {
            loop {
                let moved = self.moved.notified();
                if self.uptime_ns() >= uptime_ns {
                    return;
                }
                moved.await;
            }
        })
    }

    fn fresh_id(&self) -> Arc<str> {
        format!("id-{}", self.ids.fetch_add(1, std::sync::atomic::Ordering::SeqCst)).into()
    }

    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        let number = self.nonces.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        nonce
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_nonce_is_handed_out_twice() {
        let drawn = || (0..3 * NONCES_AT_ONCE).map(|_| SystemClock.nonce()).collect::<Vec<_>>();
        let other = std::thread::spawn(drawn).join().unwrap();
        let all: HashSet<_> = drawn().into_iter().chain(other).collect();
        assert_eq!(all.len(), 6 * NONCES_AT_ONCE);
    }

    #[tokio::test]
    async fn a_wait_ends_when_its_clock_has_come_so_far() {
        let clock = Arc::new(ManualClock::at(5));
        clock.reaches(5).await;
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move { clock.reaches(8).await }
        });
        tokio::task::yield_now().await;
        clock.advance(2);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clock.advance(1);
        waiting.await.unwrap();

        let begun = SystemClock.uptime_ns();
        SystemClock.reaches(begun + 2_000_000).await;
        assert!(SystemClock.uptime_ns() >= begun + 2_000_000);
    }
}
