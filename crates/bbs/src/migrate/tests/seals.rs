//! What must hold about keys in every store, at every moment, whatever crashed before. It is read from the bytes, below
//! everything that knows of keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::memory::Memory;
use store::seal::envelope::key_name;
use store::seal::ledger::read_ledger;
use store::seal::{KeyName, Keyring, Ledger, Place, Secret, Vault};
use store::{Step, Store};

use super::world::{ScriptClock, dump};
use crate::clock::ClockStamps;

/// Every key that a test knows.
pub(crate) const ALL: &str = "ABCD";

/// One key per letter; the first is active.
pub(crate) fn ring(keys: &str) -> Arc<Keyring> {
    let secret = |key: char| Secret::new(format!("the bytes of {key}").into_bytes());
    ring_of(&keys.chars().map(|key| (key.to_string(), secret(key))).collect::<Vec<_>>())
}

/// The first is active.
pub(crate) fn ring_of(keys: &[(String, Secret)]) -> Arc<Keyring> {
    let keys: Vec<_> = keys.iter().map(|(name, secret)| (KeyName::parse(name).unwrap(), secret.clone())).collect();
    let active = keys[0].0.clone();
    Arc::new(Keyring::new(keys, &active).unwrap())
}

/// A store with the keys of a test, as a node has it before it has looked at anything.
pub(crate) async fn vault(store: &Memory, keys: &str) -> Arc<Vault> {
    let ledger = read_ledger(store).await.unwrap();
    let stamps = Arc::new(ClockStamps(ScriptClock::at(0)));
    Arc::new(Vault::new(Arc::new(store.clone()), ring(keys), ledger, stamps))
}

/// The store as somebody reads it who has every key.
pub(crate) async fn unsealed(store: &Memory) -> Arc<dyn Store> {
    vault(store, ALL).await
}

/// Commits the steps to an empty store, so that all of it is under the first key.
pub(crate) async fn fill(store: &Memory, keys: &str, steps: &[Step]) {
    let stamps = Arc::new(ClockStamps(ScriptClock::at(0)));
    let vault = Vault::new(Arc::new(store.clone()), ring(keys), Ledger::default(), stamps);
    let held = store.campaign("test").await.unwrap();
    let mut step = Step::default();
    vault.begin(&mut step, &vault.keyring(), 0);
    vault.commit(&held, &[step]).await.unwrap();
    vault.commit(&held, steps).await.unwrap();
    let mut step = Step::default();
    vault.finish(&mut step);
    vault.commit(&held, &[step]).await.unwrap();
}

/// How many records there are under each key, and how many under none.
pub(crate) async fn census(store: &Memory) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for (key, value) in dump(store).await {
        if Place::of(&key).is_some() {
            *counted.entry(key_name(&value).unwrap_or("none").to_owned()).or_default() += 1;
        }
    }
    counted
}

/// If the marker is there, every record is under its key. Every key that a record names is needed by the ledger, which
/// counts no fewer seals than there are. And every sealed record opens where it lies.
pub(crate) async fn check(store: &Memory, when: &str) -> Ledger {
    let ledger = read_ledger(store).await.unwrap();
    let keys = ring(ALL);
    for (key, value) in dump(store).await {
        let Some(place) = Place::of(&key) else { continue };
        let name = key_name(&value);
        if let Some(marker) = &ledger.marker {
            assert_eq!(name, Some(&**marker), "{when}: {key} is not under the key that the marker names");
        }
        if let Some(name) = name {
            let opened = keys.open(place, &value);
            assert!(opened.is_ok(), "{when}: {key}: {opened:?}");
            let entry = ledger.entries.get(name);
            assert!(entry.is_some_and(|entry| entry.needed), "{when}: {key} needs key {name}, and the ledger does not");
        }
    }
    for (name, records) in census(store).await {
        let writes = ledger.entries.get(&name).map_or(u64::MAX, |entry| entry.writes);
        assert!(writes >= records, "{when}: {records} records are under key {name}, which has sealed {writes} times");
    }
    ledger
}
