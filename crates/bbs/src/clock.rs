//! The one place where time and randomness enter the server.
//!
//! Everything below takes them as arguments, so that a test or a simulation can replay a run exactly.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use model::Nanos;
use store::seal::envelope::NONCE_BYTES;
use store::seal::{Stamp, Stamps};

pub trait Clock: Send + Sync + Debug {
    fn now_ns(&self) -> Nanos;
    /// A name nobody has used before, for the epoch of a modification tag.
    fn fresh_id(&self) -> Arc<str>;

    /// Random bytes that seal one record. Only a test that replays a run has others.
    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        // Without randomness nothing may be sealed, and a server that cannot seal must not go on.
        aws_lc_rs::rand::fill(&mut nonce).expect("the random source of the machine answers");
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
}

impl ManualClock {
    pub fn at(now_ns: Nanos) -> Self {
        Self { now_ns: now_ns.into(), ..Self::default() }
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

    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        let number = self.nonces.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        nonce
    }
}
