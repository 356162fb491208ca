//! Verification: the target root holds what it should, record by record, before anybody relies on it.
//!
//! What should be there follows from the board: the sweep notes the records of every entry as two hashes each, so that a
//! million records need a few dozen megabytes and not a second copy. Then the root is read from the store and compared:
//! nothing missing, nothing else, every value as noted. That a value reads back as the entry it stands for was checked when it
//! was encoded.
//!
//! Clients go on writing meanwhile. Whatever differs and belongs to an entry that changed since the sweep began is looked at
//! again by itself, with the board before and after the look; an entry that holds still must match.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use store::{Op, Version};
use tokio::time::Instant;

use super::sweep::{encode, entries};
use super::{Migrator, Outcome, Trouble};
use crate::board::Board;
use crate::writer::errand::{Control, Seen};

const PAGE_RECORDS_MAX: usize = 512;
/// How often an entry is looked at that keeps changing.
const LOOKS_MAX: usize = 50;
/// How often the board is compared anew for records that belonged to nobody.
const ROUNDS: usize = 5;
/// How many differing keys are named.
const NAMED_MAX: usize = 5;

/// What a root should hold: the hash of a key to the hash of its value.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) hasher: RandomState,
    pub(super) records: HashMap<u64, u64>,
}

impl Expected {
    fn key(&self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }

    fn value(&self, value: &[u8]) -> u64 {
        self.hasher.hash_one(value)
    }
}

/// The hashes of a record that an operation leaves.
pub(super) fn note(hasher: &RandomState, op: &Op) -> Option<(u64, u64)> {
    match op {
        Op::Put { key, value } => Some((hasher.hash_one(key.as_str()), hasher.hash_one(&value[..]))),
        Op::Delete { .. } => None,
    }
}

impl Migrator {
    /// Compares the root of `to` with what a sweep of the board `before` wrote there.
    pub(super) async fn verify(&mut self, to: Version, before: Arc<Board>, mut expected: Expected) -> Outcome {
        let differing = self.compare(to, &mut expected).await?;
        self.settle(to, before, &expected, differing).await
    }

    /// Reads the whole root. What is as expected is taken off the list; keys that are not are returned.
    async fn compare(&mut self, to: Version, expected: &mut Expected) -> Result<Vec<String>, Trouble> {
        let limit = self.batch.entries.min(PAGE_RECORDS_MAX);
        let mut differing = Vec::new();
        let mut after: Option<String> = None;
        loop {
            self.attend().await?;
            let begun = Instant::now();
            let page = self.parts.store.scan(to.root(), after.as_deref(), limit).await.map_err(Trouble::Store)?;
            let read = page.records.len() as u64;
            for (key, value) in page.records {
                let (key_hash, value_hash) = (expected.key(&key), expected.value(&value));
                if expected.records.get(&key_hash) == Some(&value_hash) {
                    expected.records.remove(&key_hash);
                } else {
                    differing.push(key);
                }
            }
            self.parts.tracker.advance(read);
            self.pause(begun, read).await;
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(differing),
            }
        }
    }

    /// Looks again at everything that changed while the root was read. What differs and did not change is wrong.
    ///
    /// An entry may have come and gone meanwhile, so that only its record was seen: a key that differs is wrong if it is
    /// still there and belongs to nobody, each time the board is looked at anew.
    async fn settle(
        &mut self,
        to: Version,
        before: Arc<Board>,
        expected: &Expected,
        mut differing: Vec<String>,
    ) -> Outcome {
        let mut excused = HashSet::new();
        for round in 0..ROUNDS {
            self.catch_up().await?;
            let (before, after) = (before.clone(), self.parts.board.load_full());
            // Comparing all entries of two boards takes a while; it must not sit on a thread that answers requests.
            let compared = tokio::task::spawn_blocking(move || changed(&before, &after)).await;
            for seen in compared.map_err(|_| Trouble::Stopping)? {
                excused.extend(keys(to, &seen)?);
                if round == 0 {
                    self.look_again(to, seen, &mut excused).await?;
                }
            }
            let mut wrong = Vec::new();
            for key in differing {
                if !excused.contains(&key) && self.parts.store.get(&key).await.map_err(Trouble::Store)?.is_some() {
                    wrong.push(key);
                }
            }
            differing = wrong;
            if differing.is_empty() {
                break;
            }
        }
        let excused: HashSet<u64> = excused.iter().map(|key| expected.key(key)).collect();
        let missing = expected.records.keys().filter(|key| !excused.contains(*key)).count();
        if differing.is_empty() && missing == 0 {
            return Ok(());
        }
        let total = differing.len();
        differing.truncate(NAMED_MAX);
        let named = differing.join(", ");
        Err(Trouble::Content(format!(
            "the copies in {} are not what they should be: {missing} records are missing and {total} differ ({named})",
            to.root()
        )))
    }

    /// Compares one entry with the store while it holds still.
    async fn look_again(&mut self, to: Version, seen: Seen, excused: &mut HashSet<String>) -> Outcome {
        let mut caught_up = false;
        for _ in 0..LOOKS_MAX {
            self.attend().await?;
            let present = seen.on(&self.parts.board.load());
            let Some(key) = self.first_difference(to, &seen, present.as_ref(), excused).await? else { return Ok(()) };
            // The store may be ahead of the board by the commit that is being announced.
            self.catch_up().await?;
            let now = seen.on(&self.parts.board.load());
            if caught_up && same(present.as_ref(), now.as_ref()) {
                return Err(Trouble::Content(format!("the copy {key} is not what it should be")));
            }
            caught_up = true;
        }
        // It changes each time it is looked at, and is stored in both forms each time.
        Ok(())
    }

    async fn first_difference(
        &self,
        to: Version,
        seen: &Seen,
        present: Option<&Seen>,
        excused: &mut HashSet<String>,
    ) -> Result<Option<String>, Trouble> {
        let wanted: HashMap<String, bytes::Bytes> = match present {
            Some(present) => puts(to, present)?.collect(),
            None => HashMap::new(),
        };
        excused.extend(wanted.keys().cloned());
        let mut looked_at: HashSet<String> = keys(to, seen)?.collect();
        looked_at.extend(wanted.keys().cloned());
        for key in looked_at {
            let found = self.parts.store.get(&key).await.map_err(Trouble::Store)?;
            if found.as_ref() != wanted.get(&key) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Waits until the board shows everything that is stored so far.
    async fn catch_up(&self) -> Outcome {
        self.control(Control::default()).await
    }
}

fn puts(to: Version, seen: &Seen) -> Result<impl Iterator<Item = (String, bytes::Bytes)> + use<>, Trouble> {
    let ops = encode(to, seen).map_err(Trouble::Content)?;
    Ok(ops.into_iter().filter_map(|op| match op {
        Op::Put { key, value } => Some((key, value)),
        Op::Delete { .. } => None,
    }))
}

fn keys(to: Version, seen: &Seen) -> Result<impl Iterator<Item = String> + use<>, Trouble> {
    Ok(puts(to, seen)?.map(|(key, _)| key))
}

/// Entries of either board that the other does not hold as they are.
fn changed(before: &Board, after: &Board) -> Vec<Seen> {
    let gone = entries(before).filter(|seen| !same(seen.on(after).as_ref(), Some(seen)));
    let new = entries(after).filter(|seen| !same(seen.on(before).as_ref(), Some(seen)));
    gone.chain(new).collect()
}

fn same(one: Option<&Seen>, other: Option<&Seen>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is(other),
        _ => false,
    }
}
