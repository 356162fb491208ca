//! The store itself, record by record, while no server has it: what it says about its keys must be true.
//!
//! The rules, whatever happened to the servers before: where the marker names a key, every record is sealed with that key and
//! no other is needed; every key that a record names is in the ledger as needed, so that a node without it is refused, and has
//! sealed at least as often as there are records; and no two records share a nonce.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use store::Store;
use store::embedded::Embedded;
use store::root::{QUARANTINE_ROOT, VERSION_KEY};
use store::seal::ledger::read_ledger;
use store::seal::{Place, envelope};

use super::keys::ring;
use crate::upgrade::site::Site;

const PAGE_RECORDS: usize = 1_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Audit {
    pub(super) marker: Option<String>,
    /// How many records each key seals; under the empty name those that none does.
    pub(super) records: BTreeMap<String, usize>,
    /// How many of them lie below each root.
    pub(super) roots: BTreeMap<String, usize>,
    /// Records that no key opens.
    pub(super) unopened: Vec<String>,
}

impl Audit {
    /// Looks at every record, and checks the rules.
    pub(super) async fn of(site: &Site) -> Self {
        let store = site.store();
        let ledger = read_ledger(&store).await.unwrap();
        let needed: BTreeSet<&String> =
            ledger.entries.iter().filter(|(_, entry)| entry.needed).map(|(name, _)| name).collect();
        let (ring, mut audit) = (ring(), Self { marker: ledger.marker.clone(), ..Self::default() });
        let mut nonces = BTreeSet::new();
        for (key, value) in records(&store).await {
            let place = Place::of(&key).unwrap_or_else(|| panic!("{key} is a record and has no place"));
            let name = envelope::key_name(&value).unwrap_or_default();
            *audit.records.entry(name.to_owned()).or_default() += 1;
            *audit.roots.entry(key.split('/').nth(1).unwrap().to_owned()).or_default() += 1;
            if envelope::is_sealed(&value) && ring.open(place, &value).is_err() {
                audit.unopened.push(key.clone());
            }
            let nonce = envelope::parse(&value).map(|envelope| envelope.nonce);
            assert!(nonce.is_none_or(|nonce| nonces.insert(nonce)), "the nonce of {key} was used before");
        }
        for (name, records) in audit.records.iter().filter(|(name, _)| !name.is_empty()) {
            let sealed = ledger.entries.get(name).map_or(0, |entry| entry.writes);
            assert!(sealed >= *records as u64, "key {name} sealed {records} and says {sealed}: {ledger:#?}");
            assert!(needed.contains(name), "records need key {name}, and the ledger does not: {audit:#?}\n{ledger:#?}");
        }
        if let Some(marker) = &audit.marker {
            assert_eq!(audit.records.keys().collect::<Vec<_>>(), [marker], "the marker is wrong: {audit:#?}");
            assert_eq!(needed, [marker].into(), "{audit:#?}\n{ledger:#?}");
            assert_eq!(audit.unopened, Vec::<String>::new(), "the marker is wrong: {audit:#?}");
        }
        audit
    }

    /// The same, where all records must be under one key.
    pub(super) async fn settled(site: &Site, key: &str) -> Self {
        let audit = Self::of(site).await;
        assert_eq!(audit.marker.as_deref(), Some(key), "{audit:#?}");
        audit
    }

    /// The same, where nobody may know yet.
    pub(super) async fn unsettled(site: &Site) -> Self {
        let audit = Self::of(site).await;
        assert_eq!(audit.marker, None, "{audit:#?}");
        audit
    }

    /// Of a store that no key was ever used on.
    pub(super) async fn plain(site: &Site) -> Self {
        let audit = Self::unsettled(site).await;
        assert_eq!(audit.records.keys().collect::<Vec<_>>(), [""], "{audit:#?}");
        audit
    }

    pub(super) fn under(&self, key: &str) -> usize {
        self.records.get(key).copied().unwrap_or_default()
    }
}

/// What lies below the root of any data version, and what was moved aside.
pub(super) async fn records(store: &Embedded) -> Vec<(String, Bytes)> {
    let mut records = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.scan("", after.as_deref(), PAGE_RECORDS).await.unwrap();
        records.extend(page.records);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    records.retain(|(key, _)| key.starts_with(QUARANTINE_ROOT) || (key.starts_with("/v") && key != VERSION_KEY));
    records
}
