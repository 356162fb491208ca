//! What everybody may know about the keys at any moment: the document of `corkboard keys status`, and the numbers.
//!
//! Promise: a key is called safe to remove exactly when the store says that all records are under another one. Everything
//! else that is shown (counts, progress) is for people; that sentence is the proof.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use store::seal::ledger::{SEALS_MAX, SEALS_WARN};
use store::seal::{Count, Keyring, Ledger, Vault};
use tokio::time::Instant;

use super::verify::{Broken, Tally};
use crate::config::RotationMode;
use crate::phase::Progress;

/// How long a count of all records is good enough for somebody who only looks.
const COUNTS_FOR: Duration = Duration::from_secs(1);
const PERCENT: f64 = 100.0;
/// Records that a sentence about a key names; the status lists more of them.
const VERDICT_IDS_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing is sealed.
    Off,
    /// All records are under the active key.
    Settled,
    /// Records are being brought under the active key.
    Rotating,
    /// Not all records are under the active key, and nobody works on it.
    Unfinished,
    /// All are; every one is being opened before the store says so.
    Verifying,
    /// Every record is being opened, because an operator asked.
    Checking,
    /// Records cannot be opened, so the old keys stay needed.
    Blocked,
}

/// One key, as the store and this node know it.
#[derive(Clone, Debug, Serialize)]
pub struct KeyLine {
    pub name: String,
    pub active: bool,
    /// Whether this node has it.
    pub configured: bool,
    /// Whether there may be a record that only this key opens.
    pub needed: bool,
    pub records: u64,
    /// How often it sealed, ever.
    pub writes: u64,
    /// How often it may seal.
    pub writes_max: u64,
    pub oldest_record_ns: Option<i64>,
    pub since_ns: Option<i64>,
    pub safe_to_remove: bool,
    /// The same for people.
    pub verdict: String,
    /// Records that stand in the way, by id.
    pub blocked_by: Vec<String>,
}

/// The last time that every record was opened at the word of an operator.
#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    pub at_ns: i64,
    #[serde(flatten)]
    pub tally: Tally,
}

#[derive(Clone, Debug, Serialize)]
pub struct KeysStatus {
    pub state: State,
    pub explanation: String,
    pub next: Option<String>,
    pub active: Option<String>,
    /// What `/encryption-key` says: the key that ALL records are under.
    pub marker: Option<String>,
    pub mode: Option<RotationMode>,
    pub done: u64,
    pub total: u64,
    pub rate_per_s: Option<f64>,
    pub eta_s: Option<u64>,
    pub elapsed_s: Option<u64>,
    /// All records, in every root and in quarantine.
    pub records: u64,
    pub plain_records: u64,
    pub keys: Vec<KeyLine>,
    pub blocked: Vec<Broken>,
    pub warnings: Vec<String>,
    pub verification: Option<Verification>,
}

impl KeysStatus {
    /// Of a store without encryption.
    pub fn off() -> Self {
        Self {
            state: State::Off,
            explanation:
                "no encryption is configured: records are stored as they are, and whoever reads the disk reads \
                          them"
                    .to_owned(),
            next: Some("corkboard keys generate".to_owned()),
            active: None,
            marker: None,
            mode: None,
            done: 0,
            total: 0,
            rate_per_s: None,
            eta_s: None,
            elapsed_s: None,
            records: 0,
            plain_records: 0,
            keys: Vec::new(),
            blocked: Vec::new(),
            warnings: vec!["records are not encrypted at rest".to_owned()],
            verification: None,
        }
    }
}

#[derive(Debug)]
struct Facts {
    state: State,
    /// What to return to when an operator's look is over.
    resting: State,
    begun: Instant,
    blocked: Vec<Broken>,
    verification: Option<Verification>,
    took: Option<Duration>,
    counts: Option<(Instant, Vec<Count>)>,
}

#[derive(Debug)]
pub struct KeyTracker {
    mode: RotationMode,
    done: AtomicU64,
    total: AtomicU64,
    facts: Mutex<Facts>,
}

impl KeyTracker {
    pub fn new(mode: RotationMode) -> Self {
        let facts = Facts {
            state: State::Settled,
            resting: State::Settled,
            begun: Instant::now(),
            blocked: Vec::new(),
            verification: None,
            took: None,
            counts: None,
        };
        Self { mode, done: AtomicU64::new(0), total: AtomicU64::new(0), facts: Mutex::new(facts) }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a store that nobody works on: what its marker and its records say.
    pub fn look(&self, vault: &Vault) {
        let settled = vault.ledger().marker.as_deref() == Some(vault.keyring().active().as_str()) && vault.stale() == 0;
        let state = if settled { State::Settled } else { State::Unfinished };
        let mut facts = self.facts();
        (facts.state, facts.resting) = (state, state);
    }

    /// Begins to count anew.
    pub(super) fn begin(&self, state: State, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        let mut facts = self.facts();
        if state == State::Rotating {
            facts.blocked.clear();
        }
        facts.state = state;
        facts.begun = Instant::now();
        facts.counts = None;
    }

    pub(super) fn begin_verification(&self, total: u64) {
        self.facts().verification = None;
        self.begin(State::Checking, total);
    }

    pub(super) fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn settle(&self, took: Duration) {
        let mut facts = self.facts();
        (facts.state, facts.resting) = (State::Settled, State::Settled);
        facts.blocked.clear();
        facts.counts = None;
        if took > Duration::ZERO {
            facts.took = Some(took);
        }
    }

    pub(super) fn block(&self, blocked: Vec<Broken>) {
        let mut facts = self.facts();
        (facts.state, facts.resting) = (State::Blocked, State::Blocked);
        facts.blocked = blocked;
        facts.counts = None;
    }

    pub(super) fn verified(&self, tally: Tally, at_ns: i64) {
        let mut facts = self.facts();
        facts.verification = Some(Verification { at_ns, tally });
        facts.state = facts.resting;
    }

    pub fn blocked(&self) -> Vec<Broken> {
        self.facts().blocked.clone()
    }

    pub fn state(&self) -> State {
        self.facts().state
    }

    /// How long the last rotation took.
    pub fn took(&self) -> Option<Duration> {
        self.facts().took
    }

    pub fn progress(&self) -> (State, Progress) {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let (state, begun) = {
            let facts = self.facts();
            (facts.state, facts.begun)
        };
        (state, Progress { done, total, eta_s: eta_s(done, total, begun).unwrap_or(0) })
    }

    fn counts(&self, vault: &Vault) -> Vec<Count> {
        if let Some((_, counts)) = self.facts().counts.as_ref().filter(|(at, _)| at.elapsed() < COUNTS_FOR) {
            return counts.clone();
        }
        let counts = vault.counts();
        self.facts().counts = Some((Instant::now(), counts.clone()));
        counts
    }

    pub fn status(&self, vault: &Vault) -> KeysStatus {
        let counts = self.counts(vault);
        let (keyring, ledger) = (vault.keyring(), vault.ledger());
        let active = keyring.active().to_string();
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let facts = self.facts();
        let state = facts.state;
        let mut names: Vec<String> = keyring.names().map(ToString::to_string).collect();
        names.extend(ledger.entries.keys().cloned());
        names.extend(counts.iter().filter(|count| count.records > 0).filter_map(|count| count.key.clone()));
        names.sort();
        names.dedup();
        let known = Known { keyring: &keyring, ledger: &ledger, counts: &counts, blocked: &facts.blocked, state };
        let keys: Vec<KeyLine> = names.into_iter().map(|name| known.line(name)).collect();
        let plain_records = counts.iter().find(|count| count.key.is_none()).map_or(0, |count| count.records);
        let warnings = warnings(&keys, plain_records, state);
        let counts_up = matches!(state, State::Rotating | State::Verifying | State::Checking);
        KeysStatus {
            state,
            explanation: explain(state, &active),
            next: next(state),
            active: Some(active),
            marker: ledger.marker,
            mode: Some(self.mode),
            done,
            total,
            rate_per_s: if counts_up { rate_per_s(done, facts.begun) } else { None },
            eta_s: if counts_up { eta_s(done, total, facts.begun) } else { None },
            elapsed_s: counts_up.then(|| facts.begun.elapsed().as_secs()),
            records: counts.iter().map(|count| count.records).sum(),
            plain_records,
            keys,
            blocked: facts.blocked.clone(),
            warnings,
            verification: facts.verification.clone(),
        }
    }
}

/// All that is known about keys at one moment.
struct Known<'a> {
    keyring: &'a Keyring,
    ledger: &'a Ledger,
    counts: &'a [Count],
    blocked: &'a [Broken],
    state: State,
}

impl Known<'_> {
    fn line(&self, name: String) -> KeyLine {
        let active = self.keyring.active().as_str();
        let is_settled = self.ledger.marker.as_deref() == Some(active);
        let count = self.counts.iter().find(|count| count.key.as_deref() == Some(&name));
        let entry = self.ledger.entries.get(&name);
        let records = count.map_or(0, |count| count.records);
        let is_needed = entry.is_some_and(|entry| entry.needed);
        let in_the_way = self.blocked.iter().filter(|broken| broken.key.as_deref() == Some(&name));
        let mut line = KeyLine {
            active: name == active,
            configured: self.keyring.has(&name),
            needed: true,
            records,
            writes: entry.map_or(0, |entry| entry.writes),
            writes_max: SEALS_MAX,
            oldest_record_ns: count.and_then(|count| count.oldest_ns),
            since_ns: entry.map(|entry| entry.since_ns),
            safe_to_remove: name != active && is_settled && records == 0 && !is_needed,
            verdict: String::new(),
            blocked_by: in_the_way.map(|broken| broken.id.clone()).collect(),
            name,
        };
        line.needed = !line.safe_to_remove;
        line.verdict = line.verdict(self.state);
        line
    }
}

impl KeyLine {
    fn verdict(&self, state: State) -> String {
        let name = &self.name;
        let records = if self.records == 1 { "1 record".to_owned() } else { format!("{} records", self.records) };
        if self.active {
            return format!("{name}: {records}, active");
        }
        if self.safe_to_remove {
            return format!("{name}: {records}, safe to remove");
        }
        if !self.blocked_by.is_empty() {
            let mut ids = self.blocked_by.iter().take(VERDICT_IDS_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = self.blocked_by.len().saturating_sub(VERDICT_IDS_MAX);
            if more > 0 {
                ids = format!("{ids} and {more} more");
            }
            return format!("{name}: {records}, still needed by {ids}");
        }
        match (self.records, state) {
            (0, State::Blocked) => format!("{name}: {records}, but not proven: other records cannot be opened"),
            (0, State::Unfinished) => {
                format!("{name}: {records}, but not proven: keep it until a server has verified that")
            }
            (0, _) => format!("{name}: {records}, being verified: keep it until that has ended"),
            (1, _) => format!("{name}: {records} still needs it"),
            _ => format!("{name}: {records} still need it"),
        }
    }
}

fn explain(state: State, active: &str) -> String {
    match state {
        State::Off => KeysStatus::off().explanation,
        State::Settled => format!("all records are under key {active}"),
        State::Rotating => format!(
            "records are being brought under key {active} while the server goes on; every key that a record needs must stay \
             configured"
        ),
        State::Unfinished => format!(
            "not all records are known to be under key {active}, and no server runs on this store; the next one brings them \
             there"
        ),
        State::Verifying => format!("all records are under key {active}; every one is being opened to prove it"),
        State::Checking => "every record is being opened, because an operator asked for it".to_owned(),
        State::Blocked => format!(
            "records cannot be opened, so it is not proven that everything is under key {active}, and the keys they name stay \
             needed; the others are served as usual"
        ),
    }
}

fn next(state: State) -> Option<String> {
    let command = match state {
        State::Off => "corkboard keys generate",
        State::Settled => return None,
        State::Unfinished => "corkboard keys rotate --config FILE",
        State::Rotating | State::Verifying | State::Checking => "corkboard keys status --watch",
        State::Blocked => "corkboard quarantine list",
    };
    Some(command.to_owned())
}

fn warnings(keys: &[KeyLine], plain_records: u64, state: State) -> Vec<String> {
    let mut warnings = Vec::new();
    for KeyLine { name, writes, .. } in keys.iter().filter(|key| key.writes >= SEALS_WARN) {
        let share = *writes as f64 / SEALS_MAX as f64 * PERCENT;
        warnings.push(format!(
            "key {name} has sealed {writes} records, {share:.0} % of what is safe with random nonces: make another key active \
             soon (docs/how-to/rotate-a-key.md)"
        ));
    }
    if plain_records > 0 && state != State::Rotating {
        warnings.push(format!("{plain_records} records are not encrypted"));
    }
    warnings
}

fn rate_per_s(done: u64, begun: Instant) -> Option<f64> {
    let elapsed_s = begun.elapsed().as_secs_f64();
    (done > 0 && elapsed_s > 0.0).then(|| done as f64 / elapsed_s)
}

fn eta_s(done: u64, total: u64, begun: Instant) -> Option<u64> {
    rate_per_s(done, begun).map(|rate| (total.saturating_sub(done) as f64 / rate).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(writes: u64) -> KeyLine {
        KeyLine {
            name: "A".to_owned(),
            active: true,
            configured: true,
            needed: true,
            records: 1,
            writes,
            writes_max: SEALS_MAX,
            oldest_record_ns: None,
            since_ns: None,
            safe_to_remove: false,
            verdict: String::new(),
            blocked_by: Vec::new(),
        }
    }

    #[test]
    fn a_key_that_has_sealed_much_is_warned_of_long_before_it_is_unsafe() {
        assert!(warnings(&[line(SEALS_WARN - 1)], 0, State::Settled).is_empty());
        let said = warnings(&[line(SEALS_WARN)], 0, State::Settled);
        expect_test::expect!["key A has sealed 1073741824 records, 25 % of what is safe with random nonces: make another key active soon (docs/how-to/rotate-a-key.md)"]
            .assert_eq(&said.join("\n"));
    }

    #[test]
    fn plain_records_are_warned_of_unless_they_are_on_their_way() {
        assert_eq!(warnings(&[], 7, State::Blocked), ["7 records are not encrypted"]);
        assert!(warnings(&[], 7, State::Rotating).is_empty());
        assert!(!KeysStatus::off().warnings.is_empty(), "nothing is encrypted at all");
    }

    #[test]
    fn only_what_is_proven_is_called_safe() {
        let said = |records, blocked: &[&str], state| {
            let blocked_by = blocked.iter().map(|id| (*id).to_owned()).collect();
            KeyLine { active: false, records, blocked_by, ..line(0) }.verdict(state)
        };
        assert_eq!(said(0, &[], State::Verifying), "A: 0 records, being verified: keep it until that has ended");
        assert_eq!(said(3, &[], State::Rotating), "A: 3 records still need it");
        assert_eq!(said(1, &["/v1/x"], State::Blocked), "A: 1 record, still needed by /v1/x");
        let many = ["/v1/a", "/v1/b", "/v1/c", "/v1/d"];
        assert_eq!(said(4, &many, State::Blocked), "A: 4 records, still needed by /v1/a, /v1/b, /v1/c and 1 more");
        assert_eq!(said(1, &[], State::Rotating), "A: 1 record still needs it");
        assert_eq!(said(0, &[], State::Blocked), "A: 0 records, but not proven: other records cannot be opened");
        let free = KeyLine { active: false, safe_to_remove: true, records: 0, ..line(0) };
        assert_eq!(free.verdict(State::Settled), "A: 0 records, safe to remove");
    }
}
