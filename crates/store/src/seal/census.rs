//! How many records are sealed with which key, exactly and at any moment.
//!
//! Promise: every record that was counted or written since is in it once, under the key that its bytes name. It knows
//! records by two hashes of their place instead of by name, so that a million of them cost some 50 MB; two records that
//! share 128 random bits would be one. Nothing rests on it alone: before a key is called free, every record is read.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use super::envelope;

/// Parts with a lock of their own, so that somebody who looks through all of them holds nobody up for long.
const SHARDS: usize = 64;
const NANOS_PER_S: i64 = 1_000_000_000;

/// Which key, as an index into the list of names. The first is no key at all.
const PLAIN: u32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    key: u32,
    sealed_s: u32,
}

#[derive(Debug)]
pub struct Census {
    hashers: [RandomState; 2],
    shards: Vec<Mutex<HashMap<(u64, u64), Mark>>>,
    names: RwLock<Vec<String>>,
}

/// The records of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// `None`: records that are not sealed.
    pub key: Option<String>,
    pub records: u64,
    /// When the oldest of them was sealed, to the second; `None` without records, and for records that are not sealed.
    pub oldest_ns: Option<i64>,
}

impl Default for Census {
    fn default() -> Census {
        Census {
            hashers: [RandomState::new(), RandomState::new()],
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            // A sealed record whose key has no name is counted under the empty one.
            names: RwLock::new(vec![String::new()]),
        }
    }
}

impl Census {
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }

    /// A record lies under `key` with these bytes.
    pub fn put(&self, key: &str, value: &[u8]) {
        let mark = self.mark_of(value);
        let place = self.hash(key);
        lock(self.shard(place)).insert(place, mark);
    }

    pub fn remove(&self, key: &str) {
        let place = self.hash(key);
        lock(self.shard(place)).remove(&place);
    }

    /// Whether a record is there that is sealed with another key than `active`, or with none.
    pub fn is_stale(&self, key: &str, active: &str) -> bool {
        let place = self.hash(key);
        let mark = lock(self.shard(place)).get(&place).copied();
        mark.is_some_and(|mark| mark.key == PLAIN || Some(mark.key) != self.number_of(active))
    }

    /// Every key that has, or had, a record, in the order of first sight; records without one come first.
    pub fn counts(&self) -> Vec<Count> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut seen: Vec<(u64, u32)> = vec![(0, u32::MAX); names.len()];
        for shard in &self.shards {
            for mark in lock(shard).values() {
                // A name that came up since the list was copied is counted the next time.
                if let Some((records, oldest_s)) = seen.get_mut(mark.key as usize) {
                    *records += 1;
                    *oldest_s = mark.sealed_s.min(*oldest_s);
                }
            }
        }
        let count = |(number, (name, (records, oldest_s))): (usize, (String, (u64, u32)))| Count {
            key: (number != PLAIN as usize).then_some(name),
            records,
            oldest_ns: (records > 0 && number != PLAIN as usize).then(|| i64::from(oldest_s) * NANOS_PER_S),
        };
        names.into_iter().zip(seen).enumerate().map(count).collect()
    }

    /// How many records are not sealed with `active`.
    pub fn stale(&self, active: &str) -> u64 {
        let others = self.counts().into_iter().filter(|count| count.key.as_deref() != Some(active));
        others.map(|count| count.records).sum()
    }

    pub fn total(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).len() as u64).sum()
    }

    fn mark_of(&self, value: &[u8]) -> Mark {
        if !envelope::is_sealed(value) {
            return Mark { key: PLAIN, sealed_s: 0 };
        }
        let name = envelope::key_name(value).unwrap_or("?");
        let sealed_ns = envelope::parse(value).map_or(0, |envelope| envelope.sealed_ns);
        let key = self.number_of(name).unwrap_or_else(|| self.learn(name));
        Mark { key, sealed_s: u32::try_from(sealed_ns / NANOS_PER_S).unwrap_or_default() }
    }

    fn number_of(&self, name: &str) -> Option<u32> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let at = names.iter().skip(1).position(|known| known == name)?;
        u32::try_from(at + 1).ok()
    }

    fn learn(&self, name: &str) -> u32 {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let at = names.iter().skip(1).position(|known| known == name).map_or(names.len(), |at| at + 1);
        if at == names.len() {
            names.push(name.to_owned());
        }
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    fn hash(&self, key: &str) -> (u64, u64) {
        let [one, other] = &self.hashers;
        (one.hash_one(key), other.hash_one(key))
    }

    fn shard(&self, place: (u64, u64)) -> &Mutex<HashMap<(u64, u64), Mark>> {
        // The high bits: the map inside uses its own hash of the pair.
        &self.shards[(place.0 >> 58) as usize % SHARDS]
    }
}

fn lock(shard: &Mutex<HashMap<(u64, u64), Mark>>) -> MutexGuard<'_, HashMap<(u64, u64), Mark>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn sealed(key: &str, at_s: i64) -> Vec<u8> {
        let time = (at_s * NANOS_PER_S).to_be_bytes();
        [b"0007", key.as_bytes(), b":", &time, &[0; 12], &[0; 16]].concat()
    }

    #[test]
    fn records_are_counted_by_the_key_they_name() {
        let census = Census::default();
        census.put("/v1/a", b"{}");
        census.put("/v1/b", &sealed("A", 30));
        census.put("/v1/c", &sealed("A", 20));
        census.put("/v1/d", &sealed("B", 40));
        census.put("/v1/e", b"0007 no name");
        let count = |key: Option<&str>, records, oldest_s: Option<i64>| Count {
            key: key.map(ToOwned::to_owned),
            records,
            oldest_ns: oldest_s.map(|s| s * NANOS_PER_S),
        };
        let expected = [
            count(None, 1, None),
            count(Some("A"), 2, Some(20)),
            count(Some("B"), 1, Some(40)),
            count(Some("?"), 1, Some(0)),
        ];
        assert_eq!(census.counts(), expected);
        assert_eq!((census.stale("B"), census.stale("A"), census.stale("C"), census.total()), (4, 3, 5, 5));
        assert!(census.is_stale("/v1/a", "B") && census.is_stale("/v1/b", "B") && census.is_stale("/v1/b", "C"));
        assert!(!census.is_stale("/v1/d", "B") && !census.is_stale("/v1/gone", "B"));
        census.clear();
        assert_eq!((census.total(), census.stale("B")), (0, 0));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_map(changes in prop::collection::vec((0..20u8, prop::option::of((0..3usize, 0..100i64))), 0..200)) {
            let census = Census::default();
            let mut plain: BTreeMap<u8, Option<(usize, i64)>> = BTreeMap::new();
            for (record, change) in changes {
                let key = format!("/v1/{record}");
                match change {
                    Some((0, _)) => {
                        census.put(&key, b"{}");
                        plain.insert(record, None);
                    }
                    Some((name, at_s)) => {
                        census.put(&key, &sealed(["", "A", "B"][name], at_s));
                        plain.insert(record, Some((name, at_s)));
                    }
                    None => {
                        census.remove(&key);
                        plain.remove(&record);
                    }
                }
            }
            for (number, name) in [(1, "A"), (2, "B")] {
                let of_key = || plain.values().flatten().filter(|(key, _)| *key == number);
                let found = census.counts().into_iter().find(|count| count.key.as_deref() == Some(name));
                prop_assert_eq!(found.as_ref().map_or(0, |count| count.records), of_key().count() as u64);
                let oldest = of_key().map(|(_, at_s)| at_s * NANOS_PER_S).min();
                prop_assert_eq!(found.and_then(|count| count.oldest_ns), oldest);
            }
            prop_assert_eq!(census.total(), plain.len() as u64);
        }
    }
}
