//! What a store knows about its keys: which one seals everything, which ones are still needed, and how often each sealed.
//!
//! Promise: a key is in the ledger as needed before the first record is sealed with it, and stops being needed only in the
//! step that says that all records are sealed with another. So a node that lacks a key is refused before it has touched
//! anything, by name, without a look at the records. [`judge`] is that decision, and depends on nothing else.
//!
//! The marker `/encryption-key` is the seed's: present, it names the key that ALL records are sealed with; absent, they are
//! mixed or plain. The ledger is ours, below `/keys/`, one JSON record per name, never encrypted. It holds no key.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::keyring::{CHECK_BYTES, KeyName, Keyring};
use crate::kv::{Step, Store};
use crate::root::{RootError, Unknown, explain_json, refuse_half_restored};

/// The name of the key under which ALL records are.
pub const MARKER_KEY: &str = "/encryption-key";
pub const LEDGER_ROOT: &str = "/keys/";
const PAGE_RECORDS: usize = 1_000;

/// How often one key may seal with random nonces before two of them are too likely to be equal (NIST SP 800-38D).
pub const SEALS_MAX: u64 = 1 << 32;
/// From here on every status says that another key should take over: a quarter of what is safe.
pub const SEALS_WARN: u64 = SEALS_MAX / 4;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// In hex: by this the store notices other bytes under the same name.
    pub check: String,
    /// When the key first became active here.
    pub since_ns: i64,
    /// How often it sealed.
    pub writes: u64,
    /// Whether there may be a record that only this key opens.
    pub needed: bool,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl LedgerEntry {
    pub(super) fn to_json(&self) -> Bytes {
        let json = serde_json::to_vec(self).expect("numbers, text and members with names can be written as JSON");
        json.into()
    }
}

/// By the name of the key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    pub marker: Option<String>,
    pub entries: BTreeMap<String, LedgerEntry>,
}

pub async fn read_ledger(store: &dyn Store) -> Result<Ledger, RootError> {
    // Half a ledger would say that a key is missing, or that none is needed.
    refuse_half_restored(store).await?;
    let mut ledger = Ledger { marker: read_marker(store).await?, entries: BTreeMap::new() };
    let mut after: Option<String> = None;
    loop {
        let page = store.scan(LEDGER_ROOT, after.as_deref(), PAGE_RECORDS).await?;
        for (key, value) in page.records {
            let name = key[LEDGER_ROOT.len()..].to_owned();
            let entry = serde_json::from_slice(&value).map_err(|error| {
                let why = format!("the entry of key {name}: {}", explain_json(&error));
                RootError::Unreadable { key: LEDGER_ROOT, why }
            })?;
            ledger.entries.insert(name, entry);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(ledger),
        }
    }
}

async fn read_marker(store: &dyn Store) -> Result<Option<String>, RootError> {
    let Some(name) = store.get(MARKER_KEY).await? else { return Ok(None) };
    let name = std::str::from_utf8(&name).ok().and_then(|name| KeyName::parse(name).ok());
    let why = "it is not the name of a key".to_owned();
    name.map(|name| Some(name.to_string())).ok_or(RootError::Unreadable { key: MARKER_KEY, why })
}

/// Adds to a step that no record needs the key any more, though some may: they stay, and cannot be opened. `false` for a key
/// that the store does not know.
pub fn forget(step: &mut Step, ledger: &Ledger, name: &str) -> bool {
    if ledger.marker.as_deref() == Some(name) {
        step.delete(MARKER_KEY);
    }
    let entry = ledger.entries.get(name);
    if let Some(entry) = entry {
        put_entry(step, name, &LedgerEntry { needed: false, ..entry.clone() });
    }
    !step.is_empty()
}

pub(super) fn put_entry(step: &mut Step, name: &str, entry: &LedgerEntry) {
    step.put(format!("{LEDGER_ROOT}{name}"), entry.to_json());
}

pub(super) fn hex(check: [u8; CHECK_BYTES]) -> String {
    check.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What follows for a node with these keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// No record is sealed, and none will be.
    Plain,
    /// All records are under the active key.
    Settled,
    /// They are not, or nobody knows: bring them there.
    Rotate,
}

/// Why a node may not use the store. Nothing was changed, and the lock is given back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyRefusal {
    #[error(
        "all records of the store are sealed with key {marker}, and this node has {known}. Nothing was changed and the lock is \
         given back. Add key {marker} to [encryption.keys] of this node (it need not be active), or start a node that has it"
    )]
    MarkerUnknown { marker: String, known: String },
    #[error(
        "records of the store are still sealed with key {}, and this node has {known}. Nothing was changed and the lock is given \
         back. Add what is missing to [encryption.keys] of this node, beside the active key, until `corkboard keys status` \
         calls it safe to remove",
        missing.join(" and key ")
    )]
    NeededMissing { missing: Vec<String>, known: String },
    #[error(
        "key {name} of this node is not key {name} of the store: the bytes differ. Nothing was changed and the lock is given \
         back. Give this node the bytes that the other nodes have, or give the new bytes a name of their own"
    )]
    OtherBytes { name: String },
}

/// The seed's rule, and two of ours: a key that is still needed must be there, and its bytes must be those that sealed.
pub fn judge(ledger: &Ledger, keyring: Option<&Keyring>) -> Result<Finding, KeyRefusal> {
    let has = |name: &str| keyring.is_some_and(|keyring| keyring.has(name));
    let known = || match keyring {
        None => "no key at all".to_owned(),
        Some(keyring) => {
            let names: Vec<&str> = keyring.names().map(KeyName::as_str).collect();
            format!("only {}", names.join(", "))
        }
    };
    if let Some(marker) = ledger.marker.as_ref().filter(|marker| !has(marker)) {
        return Err(KeyRefusal::MarkerUnknown { marker: marker.clone(), known: known() });
    }
    let needed = || ledger.entries.iter().filter(|(_, entry)| entry.needed);
    let missing: Vec<String> = needed().filter(|(name, _)| !has(name)).map(|(name, _)| name.clone()).collect();
    if !missing.is_empty() {
        return Err(KeyRefusal::NeededMissing { missing, known: known() });
    }
    let Some(keyring) = keyring else { return Ok(Finding::Plain) };
    let differs = |(name, entry): &(&String, &LedgerEntry)| keyring.check(name).map(hex).as_ref() != Some(&entry.check);
    if let Some((name, _)) = needed().find(differs) {
        return Err(KeyRefusal::OtherBytes { name: name.clone() });
    }
    let settled = ledger.marker.as_deref() == Some(keyring.active().as_str());
    Ok(if settled { Finding::Settled } else { Finding::Rotate })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::memory::Memory;
    use crate::seal::Secret;

    fn ring(keys: &[&str]) -> Keyring {
        let name = |text: &str| KeyName::parse(text).unwrap();
        let keys_of = |key: &&str| (name(&key[..1]), Secret::new(key.as_bytes().to_vec()));
        Keyring::new(keys.iter().map(keys_of).collect(), &name(&keys[0][..1])).unwrap()
    }

    fn entry(key: &str, needed: bool) -> (String, LedgerEntry) {
        let check = ring(&[key]).check(&key[..1]).map(hex).unwrap();
        (key[..1].to_owned(), LedgerEntry { check, since_ns: 0, writes: 0, needed, unknown: Unknown::new() })
    }

    /// The table of the seed: marker against active key against known keys; then the two rules beside it.
    #[test]
    fn the_whole_table() {
        let mut table = String::new();
        let mut row = |marker: Option<&str>, entries: &[(&str, bool)], keys: &[&str]| {
            let ledger = Ledger {
                marker: marker.map(ToOwned::to_owned),
                entries: entries.iter().map(|(key, needed)| entry(key, *needed)).collect(),
            };
            let keyring = (!keys.is_empty()).then(|| ring(keys));
            let found = match judge(&ledger, keyring.as_ref()) {
                Ok(finding) => format!("{finding:?}"),
                Err(refusal) => refusal.to_string(),
            };
            let entries: Vec<_> =
                entries.iter().map(|(key, needed)| format!("{key}{}", if *needed { "!" } else { "" })).collect();
            table += &format!("{marker:?} {entries:?} {keys:?}: {found}\n");
        };
        row(None, &[], &[]);
        row(None, &[], &["A"]);
        row(Some("A"), &[("A", true)], &["A"]);
        row(Some("A"), &[("A", true)], &["B", "A"]);
        row(Some("A"), &[("A", true)], &["B"]);
        row(Some("A"), &[("A", true)], &[]);
        row(Some("A"), &[], &["A"]);
        row(None, &[("A", true), ("B", true)], &["B", "A"]);
        row(None, &[("A", true), ("B", true)], &["B"]);
        row(None, &[("A", true), ("B", true)], &["C"]);
        row(None, &[("A", true)], &[]);
        row(Some("B"), &[("A", false), ("B", true)], &["B"]);
        row(Some("A"), &[("A", true)], &["A2"]);
        row(Some("B"), &[("A", false), ("B", true)], &["B", "A2"]);
        row(None, &[("A", false)], &[]);
        expect![[r#"
            None [] []: Plain
            None [] ["A"]: Rotate
            Some("A") ["A!"] ["A"]: Settled
            Some("A") ["A!"] ["B", "A"]: Rotate
            Some("A") ["A!"] ["B"]: all records of the store are sealed with key A, and this node has only B. Nothing was changed and the lock is given back. Add key A to [encryption.keys] of this node (it need not be active), or start a node that has it
            Some("A") ["A!"] []: all records of the store are sealed with key A, and this node has no key at all. Nothing was changed and the lock is given back. Add key A to [encryption.keys] of this node (it need not be active), or start a node that has it
            Some("A") [] ["A"]: Settled
            None ["A!", "B!"] ["B", "A"]: Rotate
            None ["A!", "B!"] ["B"]: records of the store are still sealed with key A, and this node has only B. Nothing was changed and the lock is given back. Add what is missing to [encryption.keys] of this node, beside the active key, until `corkboard keys status` calls it safe to remove
            None ["A!", "B!"] ["C"]: records of the store are still sealed with key A and key B, and this node has only C. Nothing was changed and the lock is given back. Add what is missing to [encryption.keys] of this node, beside the active key, until `corkboard keys status` calls it safe to remove
            None ["A!"] []: records of the store are still sealed with key A, and this node has no key at all. Nothing was changed and the lock is given back. Add what is missing to [encryption.keys] of this node, beside the active key, until `corkboard keys status` calls it safe to remove
            Some("B") ["A", "B!"] ["B"]: Settled
            Some("A") ["A!"] ["A2"]: key A of this node is not key A of the store: the bytes differ. Nothing was changed and the lock is given back. Give this node the bytes that the other nodes have, or give the new bytes a name of their own
            Some("B") ["A", "B!"] ["B", "A2"]: Settled
            None ["A"] []: Plain
        "#]].assert_eq(&table);
    }

    #[tokio::test]
    async fn a_key_that_is_forgotten_is_asked_for_no_more() {
        let store = Memory::new();
        let held = store.campaign("n").await.unwrap();
        let mut step = Step::default();
        for (name, entry) in [entry("A", true), entry("B", true)] {
            put_entry(&mut step, &name, &entry);
        }
        step.put(MARKER_KEY, "A");
        store.commit(&held, &[step]).await.unwrap();
        let ledger = read_ledger(&store).await.unwrap();
        let node = ring(&["B"]);
        assert!(matches!(judge(&ledger, Some(&node)), Err(KeyRefusal::MarkerUnknown { .. })));
        assert!(!forget(&mut Step::default(), &ledger, "C"), "nobody knows it");
        let mut step = Step::default();
        assert!(forget(&mut step, &ledger, "A"));
        store.commit(&held, &[step]).await.unwrap();
        let ledger = read_ledger(&store).await.unwrap();
        assert_eq!(judge(&ledger, Some(&node)), Ok(Finding::Rotate));
        assert!(matches!(judge(&ledger, None), Err(KeyRefusal::NeededMissing { .. })), "B is still needed");
    }

    #[tokio::test]
    async fn what_is_written_is_read_and_damage_is_an_error() {
        let store = Memory::new();
        let held = store.campaign("n").await.unwrap();
        let mut step = Step::default();
        let (name, mut first) = entry("A", true);
        first.unknown.insert("later".into(), 1.into());
        put_entry(&mut step, &name, &first);
        step.put(MARKER_KEY, "A");
        store.commit(&held, &[step]).await.unwrap();
        let ledger = read_ledger(&store).await.unwrap();
        assert_eq!((ledger.marker.as_deref(), ledger.entries.get("A")), (Some("A"), Some(&first)));
        let damage = async |key: &str, value: &str| {
            let mut step = Step::default();
            step.put(key, value.to_owned());
            store.commit(&held, &[step]).await.unwrap();
            read_ledger(&store).await.unwrap_err().to_string()
        };
        expect!["/keys/ is unreadable: the entry of key B: it is JSON, but a member is missing or is not what it has to be. Nothing was changed. Restore the store from a backup"].assert_eq(&damage("/keys/B", "{\"check\":7").await);
        expect!["/encryption-key is unreadable: it is not the name of a key. Nothing was changed. Restore the store from a backup"].assert_eq(&damage(MARKER_KEY, "a b").await);
    }
}
