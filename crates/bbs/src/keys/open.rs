//! From the lock to the first record: whether this node has the keys that the store needs, and what follows from that.
//!
//! Promise: a node that lacks a key is refused before anything is read or written. Where records have to be brought under
//! another key, the store says so before the first of them is sealed with it.

use std::sync::Arc;

use model::Nanos;
use store::root::{Entry, HistoryEvent, RootError, append_history, find_roots};
use store::seal::ledger::{Finding, KeyRefusal, judge, read_ledger};
use store::seal::{Keyring, Vault};
use store::{Mastership, Step, Store, StoreError, Version};

use crate::board::{Board, Kept};
use crate::clock::{Clock, ClockStamps};
use crate::config::Encryption;
use crate::load::Reading;
use crate::migrate::ask::Refused;
use crate::migrate::open::HistoryNumbers;
use crate::phase::Phase;

const PAGE_RECORDS: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is the whole story.
    #[error(transparent)]
    Refused(#[from] KeyRefusal),
    #[error(transparent)]
    Root(#[from] RootError),
}

/// A store as the rest of the server sees it.
#[derive(Clone, Debug)]
pub struct Unlocked {
    pub store: Arc<dyn Store>,
    /// The same, if its records are sealed.
    pub vault: Option<Arc<Vault>>,
}

/// Whether a node with these keys may use the store at all. Worth asking before the lock is taken, and once more with it.
pub async fn check(store: &dyn Store, encryption: Option<&Encryption>) -> Result<(), KeyError> {
    judge(&read_ledger(store).await?, encryption.map(|encryption| &*encryption.keyring))?;
    Ok(())
}

/// Checks the keys against what the store says it needs. Writes nothing.
pub async fn unlock(
    store: Arc<dyn Store>,
    encryption: Option<&Encryption>,
    clock: &Arc<dyn Clock>,
) -> Result<Unlocked, KeyError> {
    let ledger = read_ledger(&*store).await?;
    let keyring = encryption.map(|encryption| encryption.keyring.clone());
    let finding = judge(&ledger, keyring.as_deref())?;
    let Some(keyring) = keyring else {
        tracing::warn!(
            "no encryption is configured: records are stored as they are. Make a key with `corkboard keys generate` and see \
             docs/how-to/rotate-a-key.md"
        );
        return Ok(Unlocked { store, vault: None });
    };
    tracing::info!(active = %keyring.active(), marker = ledger.marker, ?finding, "the keys fit the store");
    let vault = Arc::new(Vault::new(store, keyring, ledger, Arc::new(ClockStamps(clock.clone()))));
    Ok(Unlocked { store: vault.clone(), vault: Some(vault) })
}

impl Unlocked {
    /// Whether the marker names the active key. Records may still prove it wrong.
    pub fn is_settled(&self) -> bool {
        self.vault.as_ref().is_none_or(|vault| {
            matches!(judge(&vault.ledger(), Some(&vault.keyring())), Ok(Finding::Settled | Finding::Plain))
        })
    }

    /// Reads the records of the version that is served, and counts all records by key.
    pub async fn load(&self, version: Version, phase: &Arc<Phase>) -> Result<Board, StoreError> {
        self.begin_counting();
        let loaded = self.read(&mut Reading::start(&self.store, version, phase), version).await;
        self.end_counting();
        loaded
    }

    /// The same, unless `stop` comes first. When it returns, nothing is read or counted any more.
    pub async fn load_until(
        &self,
        version: Version,
        phase: &Arc<Phase>,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Board>, StoreError> {
        self.begin_counting();
        let mut reading = Reading::start(&self.store, version, phase);
        let loaded = tokio::select! {
            loaded = self.read(&mut reading, version) => loaded.map(Some),
            () = stop => Ok(None),
        };
        reading.abandon().await;
        self.end_counting();
        loaded
    }

    async fn read(&self, reading: &mut Reading, version: Version) -> Result<Board, StoreError> {
        let mut board = reading.finish().await?;
        if let Some(vault) = &self.vault {
            count_other_roots(vault, version).await?;
            explain(&mut board, vault);
        }
        Ok(board)
    }

    fn begin_counting(&self) {
        if let Some(vault) = &self.vault {
            vault.count_what_is_read();
        }
    }

    fn end_counting(&self) {
        if let Some(vault) = &self.vault {
            vault.counted();
        }
    }

    /// Counts all records by key without looking into them.
    pub async fn count(&self) -> Result<(), StoreError> {
        let Some(vault) = &self.vault else { return Ok(()) };
        vault.count_what_is_read();
        for root in find_roots(&**vault.inner()).await? {
            count_below(vault, &format!("/v{root}/")).await?;
        }
        count_below(vault, store::root::QUARANTINE_ROOT).await?;
        vault.counted();
        Ok(())
    }
}

/// What was left by a migration, or is being made by one, is sealed as well.
async fn count_other_roots(vault: &Vault, served: Version) -> Result<(), StoreError> {
    for root in find_roots(&**vault.inner()).await? {
        if root != served.number() {
            count_below(vault, &format!("/v{root}/")).await?;
        }
    }
    Ok(())
}

async fn count_below(vault: &Vault, prefix: &str) -> Result<(), StoreError> {
    let mut after: Option<String> = None;
    loop {
        let page = vault.inner().scan(prefix, after.as_deref(), PAGE_RECORDS).await?;
        page.records.iter().for_each(|(key, value)| vault.census().put(key, value));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Why a sealed record could not be read is known here better than by whoever found it unreadable.
fn explain(board: &mut Board, vault: &Vault) {
    let sealed: Vec<(String, Arc<Kept>)> = board
        .quarantine
        .iter()
        .filter_map(|(id, kept)| {
            let why = vault.explain(id, &kept.bytes)?.to_string();
            Some((id.clone(), Arc::new(Kept { why, ..Kept::clone(kept) })))
        })
        .collect();
    board.quarantine.extend(sealed);
}

/// Marks the store before the first record is sealed with another key than the marker says. Returns whether records have to be
/// brought under the active key.
pub async fn begin(
    vault: &Vault,
    held: &Mastership,
    clock: &dyn Clock,
    node: &str,
    history: &HistoryNumbers,
) -> Result<bool, StoreError> {
    let keyring = vault.keyring();
    let (ledger, stale) = (vault.ledger(), vault.stale());
    let active = keyring.active().as_str();
    let settled = ledger.marker.as_deref() == Some(active);
    if settled && stale == 0 {
        return Ok(false);
    }
    if settled {
        tracing::error!(
            records = stale,
            "the store says that all records are under key {active}, and these are not: somebody wrote to the store without \
             this server. They are brought under it now"
        );
    }
    let now_ns = clock.now_ns();
    let mut step = Step::default();
    vault.begin(&mut step, &keyring, now_ns);
    // A rotation that goes on after a restart is the same rotation.
    if ledger.marker.is_some() || !ledger.entries.get(active).is_some_and(|entry| entry.needed) {
        let from = ledger.marker.map_or_else(String::new, |from| format!("from key {from} "));
        let entry = entry(now_ns, node, HistoryEvent::KeyRotationBegun, &format!("{from}to key {active}"));
        append_history(&mut step, history.take(), &entry);
    }
    vault.commit(held, &[step]).await?;
    tracing::info!(key = active, records = stale, "bringing every record under the active key");
    Ok(true)
}

/// Refuses keys with which a record that can be opened now could not be opened any more.
pub(super) fn refuse_missing(vault: &Vault, keyring: &Keyring) -> Result<(), Refused> {
    let lost = |name: &String| vault.keyring().has(name) && !keyring.has(name);
    let needed = vault.counts().into_iter().filter(|count| count.records > 0);
    match needed.filter_map(|count| count.key.filter(lost).map(|key| (key, count.records))).next() {
        Some((key, records)) => {
            let message = format!(
                "{records} records are sealed with key {key}, and the configuration no longer has it. The keys in use stay as \
                 they are. Put the key back, and give the command again"
            );
            Err(Refused::new("key-missing", message, Some("corkboard keys status")))
        }
        None => Ok(()),
    }
}

pub(crate) fn entry(now_ns: Nanos, node: &str, what: HistoryEvent, detail: &str) -> Entry {
    Entry {
        at_ns: now_ns,
        node: node.to_owned(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        what,
        from: None,
        to: None,
        detail: detail.to_owned(),
    }
}
