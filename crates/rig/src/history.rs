//! What clients saw, and whether one register per key explains it.
//!
//! Promise: a [`History`] is whole or it is not handed out, and [`History::check`] says "fine" only if, for every key,
//! there is one order of the calls that respects real time and explains every read. A call ended well, failed for
//! certain (nothing was changed), or its outcome is unknown: then it may take effect once, at any time after its
//! beginning, or never. Every key begins without a value.
//!
//! Tests and benchmarks record here. Each write of a key needs a value of its own, also when a call whose outcome is
//! unknown is repeated; only a write that failed for certain may be repeated with the same value.
//!
//! Time is an order number that all clients of a recorder share, drawn before a call begins and after it ended. No
//! clock is read, so a pause between the call and its number only makes the call look longer: that can hide a
//! violation, and can never invent one.

mod ledger;
mod search;
mod violation;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use ledger::{Ledger, Missing};
pub use search::{OPEN_CALLS_MAX, SEARCH_STEPS_MAX};
pub use violation::{Fault, Violation};

/// Memory of one recorder: its calls with their keys and values. What does not fit is left out, and then there is no
/// history at all, because a history with holes proves nothing.
pub const RECORDER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What a client asks of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Overwrites whatever is there.
    Write(String),
    /// Leaves no value. Deleting what is not there is no error.
    Delete,
    Read,
}

/// How a call ended, as far as its client can know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The write or the deletion was acknowledged.
    Done,
    /// The read was answered.
    Saw(Option<String>),
    /// For certain, nothing was changed.
    Failed,
    /// No answer, or none that says what happened.
    Unknown,
}

/// One call as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub client: usize,
    pub key: String,
    pub call: Call,
    pub outcome: Outcome,
    pub begin: u64,
    /// When the client knew the outcome or gave up; none while the call is open.
    pub end: Option<u64>,
}

impl Recorded {
    /// The value that this call may have left behind; nothing for a read and for what failed for certain.
    fn leaves(&self) -> Option<Option<&str>> {
        match (&self.call, &self.outcome) {
            (Call::Read, _) | (_, Outcome::Failed) => None,
            (Call::Write(value), _) => Some(Some(value)),
            (Call::Delete, _) => Some(None),
        }
    }

    fn saw(&self) -> Option<Option<&str>> {
        match &self.outcome {
            Outcome::Saw(value) => Some(value.as_deref()),
            Outcome::Done | Outcome::Failed | Outcome::Unknown => None,
        }
    }

    /// Whether this is a write or a deletion that was acknowledged.
    fn is_done(&self) -> bool {
        self.outcome == Outcome::Done
    }

    /// The order number after which this call can no longer take effect. One that is unknown has none.
    fn effective_end(&self) -> Option<u64> {
        if self.outcome == Outcome::Unknown { None } else { self.end }
    }

    /// Whether this call had taken effect before the other one began.
    fn precedes(&self, other: &Recorded) -> bool {
        self.effective_end().is_some_and(|end| end < other.begin)
    }

    /// Like the effective end of a write, and earlier if a read saw it: then it had taken effect when that read ended.
    /// Deletions cannot be told apart by what reads see.
    fn settled(&self, first_seen: &HashMap<Option<&str>, u64>) -> Option<u64> {
        let seen = self.leaves().filter(Option::is_some).and_then(|value| first_seen.get(&value).copied());
        [self.effective_end(), seen].into_iter().flatten().min()
    }
}

/// For each value that was seen, the end of the first read that saw it.
fn first_seen<'a>(calls: &[&'a Recorded]) -> HashMap<Option<&'a str>, u64> {
    let mut first: HashMap<Option<&str>, u64> = HashMap::new();
    for call in calls {
        let (Some(saw), Some(end)) = (call.saw(), call.end) else { continue };
        first.entry(saw).and_modify(|first| *first = end.min(*first)).or_insert(end);
    }
    first
}

/// Writes down what the clients of one test do. Clones write into the same history.
#[derive(Clone, Debug)]
pub struct Recorder {
    log: Arc<Mutex<Log>>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Log {
    calls: Vec<Recorded>,
    next: u64,
    bytes: usize,
    left_out: usize,
}

impl Log {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Counts what a call needs, or counts the call as left out.
    fn admit(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let fits = self.bytes + bytes <= bytes_max;
        if fits {
            self.bytes += bytes;
        } else {
            self.left_out += 1;
        }
        fits
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self { log: Arc::default(), bytes_max: RECORDER_BYTES_MAX }
    }
}

impl Recorder {
    pub fn new() -> Self {
        Self::default()
    }

    /// To be called before the request leaves. Until the token says otherwise, the outcome is unknown.
    pub fn begin(&self, client: usize, key: &str, call: Call) -> Token {
        let value_bytes = if let Call::Write(value) = &call { value.len() } else { 0 };
        let is_read = call == Call::Read;
        let mut log = self.lock();
        let fits = log.admit(size_of::<Recorded>() + key.len() + value_bytes, self.bytes_max);
        let index = fits.then(|| {
            let begin = log.number();
            let key = key.to_owned();
            log.calls.push(Recorded { client, key, call, outcome: Outcome::Unknown, begin, end: None });
            log.calls.len() - 1
        });
        drop(log);
        Token { recorder: self.clone(), index, is_read }
    }

    /// What was recorded up to now. The outcome of a call that is still open is unknown.
    pub fn history(&self) -> Result<History, Overfull> {
        let log = self.lock();
        if log.left_out > 0 {
            return Err(Overfull { kept: log.calls.len(), left_out: log.left_out, bytes_max: self.bytes_max });
        }
        Ok(History { calls: log.calls.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that has begun. Say how it ended after the reply is there; a token that is dropped means: unknown.
#[derive(Debug)]
#[must_use = "a token that is dropped records an unknown outcome"]
pub struct Token {
    recorder: Recorder,
    index: Option<usize>,
    is_read: bool,
}

impl Token {
    /// The write or the deletion was acknowledged.
    ///
    /// # Panics
    /// If the call is a read: the test has mixed up its tokens.
    pub fn ok_write(mut self) {
        assert!(!self.is_read, "a read was reported as a write: call ok_read with the value that was seen");
        self.end(Outcome::Done);
    }

    /// The read was answered with this value, or with the news that there is none.
    ///
    /// # Panics
    /// If the call is no read: the test has mixed up its tokens.
    pub fn ok_read(mut self, value: Option<String>) {
        assert!(self.is_read, "a write was reported as a read: call ok_write");
        self.end(Outcome::Saw(value));
    }

    /// For certain, the call changed nothing.
    pub fn failed(mut self) {
        self.end(Outcome::Failed);
    }

    /// The call may take effect at any time, or never.
    pub fn unknown(self) {
        drop(self);
    }

    fn end(&mut self, outcome: Outcome) {
        let Some(index) = self.index.take() else { return };
        let mut log = self.recorder.lock();
        let end = log.number();
        let value_bytes = if let Outcome::Saw(Some(value)) = &outcome { value.len() } else { 0 };
        let fits = log.admit(value_bytes, self.recorder.bytes_max);
        let recorded = &mut log.calls[index];
        recorded.end = Some(end);
        if fits {
            recorded.outcome = outcome;
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.end(Outcome::Unknown);
    }
}

/// More was recorded than fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overfull {
    pub kept: usize,
    pub left_out: usize,
    pub bytes_max: usize,
}

impl fmt::Display for Overfull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kept, left_out, bytes_max } = self;
        write!(
            f,
            "the recorder is full: {left_out} calls were left out after {kept}, so nothing can be said about this run. \
             Make fewer calls or shorter values, or use a recorder for each group of keys ({bytes_max} bytes each)."
        )
    }
}

impl std::error::Error for Overfull {}

/// All calls of a test, in the order in which they began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    calls: Vec<Recorded>,
}

/// What was looked at by a check that found nothing wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub keys: usize,
    pub calls: usize,
    pub unknown: usize,
    /// Steps of the longest search among the keys; [`SEARCH_STEPS_MAX`] is the limit.
    pub longest_search: usize,
}

impl History {
    pub fn calls(&self) -> &[Recorded] {
        &self.calls
    }

    /// Looks, key by key, for an order that explains everything. Registers of different keys do not meet, so the
    /// whole is linearizable exactly if each key is.
    pub fn check(&self) -> Result<Checked, Violation> {
        self.check_within(SEARCH_STEPS_MAX)
    }

    fn check_within(&self, steps_max: usize) -> Result<Checked, Violation> {
        let unknown = self.calls.iter().filter(|call| call.outcome == Outcome::Unknown).count();
        let mut checked = Checked { keys: 0, calls: self.calls.len(), unknown, longest_search: 0 };
        for (key, calls) in self.by_key() {
            let steps = violation::check_key(key, &calls, steps_max)?;
            checked.keys += 1;
            checked.longest_search = checked.longest_search.max(steps);
        }
        Ok(checked)
    }

    fn by_key(&self) -> BTreeMap<&str, Vec<&Recorded>> {
        let mut keys: BTreeMap<&str, Vec<&Recorded>> = BTreeMap::new();
        for call in &self.calls {
            keys.entry(&call.key).or_default().push(call);
        }
        keys
    }
}

#[cfg(test)]
mod tests;
