//! From the lock to the first record: what a new master finds in its store, and what follows from it.
//!
//! Promise: whatever the version table says is done, and nothing else. A server that has to shut down has written nothing. A
//! migration that begins has marked the store before it writes its first record.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::Nanos;
use store::identity::{Found, Identity, IdentityError, Verdict, judge};
use store::record::DataVersion;
use store::root::{
    Action, Control, Entry, HistoryEvent, RootError, VersionRecord, append_history, decide, next_history_number,
    put_cluster_id, put_version, read_history, read_root,
};
use store::{Forms, Mastership, Step, Store, StoreError, Version};

use crate::config;

/// How many entries of the history are looked at for the release that wrote the data.
const HISTORY_LOOKED_AT: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The version table says so. The text is the whole story.
    #[error("{reason}")]
    ShutDown { reason: String },
    #[error(
        "the store has data version {found}, and the oldest that this release reads is {earliest} ({name}). Nothing was \
         changed. Start a release in between first, one whose notes say that it reads {found} and writes at least {earliest}, \
         let it migrate, then start this one again"
    )]
    TooOld { found: DataVersion, earliest: DataVersion, name: &'static str },
    #[error(
        "the store has data version {found}, which this release does not know, though it knows older and newer ones. Nothing \
         was changed. Start the release that wrote it{by}"
    )]
    Unknown { found: DataVersion, by: String },
    #[error(transparent)]
    Root(#[from] RootError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the migrator has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Nothing,
    /// Nothing, until an operator says so.
    Held {
        why: String,
    },
    Migrate,
}

#[derive(Debug)]
pub struct Opened {
    /// The version that is loaded and served.
    pub current: Version,
    pub record: VersionRecord,
    pub forms: Forms,
    pub work: Work,
    pub cluster_id: String,
    pub control: Control,
    pub roots: Vec<DataVersion>,
    pub history: HistoryNumbers,
    pub guard: Verdict,
}

/// The numbers of the entries that this master adds to the history. Whoever writes one takes the next.
#[derive(Clone, Debug)]
pub struct HistoryNumbers(Arc<AtomicU64>);

impl From<u64> for HistoryNumbers {
    fn from(next: u64) -> Self {
        Self(Arc::new(next.into()))
    }
}

impl HistoryNumbers {
    pub fn take(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// What the opening needs to know about this node.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    pub name: &'a str,
    pub newest: Version,
    pub migration: config::Migration,
    pub now_ns: Nanos,
    /// For a store that has no identity yet.
    pub fresh_id: &'a str,
    /// Where the node keeps its copy of the store's identity; `None` for errands, which guard nothing.
    pub identity: Option<&'a Path>,
}

impl Node<'_> {
    pub fn entry(&self, what: HistoryEvent, from: Option<DataVersion>, to: Option<DataVersion>, detail: &str) -> Entry {
        Entry {
            at_ns: self.now_ns,
            node: self.name.to_owned(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            what,
            from,
            to,
            detail: detail.to_owned(),
        }
    }
}

pub async fn open(store: &dyn Store, held: &Mastership, node: Node<'_>) -> Result<Opened, OpenError> {
    let root = read_root(store).await?;
    let kept = node.identity.map(Identity::read).transpose()?.flatten();
    let guard = judge(kept.as_ref(), Found { cluster_id: root.cluster_id.as_deref(), is_empty: root.empty });
    let newest = node.newest.number();
    let versions = root.version.as_ref();
    let decision = decide(versions.map(|version| version.current), versions.map(|version| version.target), newest);
    tracing::info!(row = decision.row, "{}", decision.reason);
    if decision.actions.contains(&Action::ShutDown) {
        let by = last_release(store).await?;
        return Err(OpenError::ShutDown { reason: format!("{}{by}", decision.reason) });
    }
    let history = HistoryNumbers::from(next_history_number(store).await?);
    let mut step = Step::default();
    let cluster_id = root.cluster_id.clone().unwrap_or_else(|| node.fresh_id.to_owned());
    if root.cluster_id.is_none() {
        put_cluster_id(&mut step, &cluster_id);
    }
    let mut record = root.version.unwrap_or_else(|| VersionRecord::new(newest, newest));
    let note = |step: &mut Step, what, from, to, detail: &str| {
        append_history(step, history.take(), &node.entry(what, from, to, detail));
    };
    let current = match readable(record.current) {
        Err(OpenError::Unknown { found, .. }) => {
            let by = last_release(store).await?;
            return Err(OpenError::Unknown { found, by });
        }
        known => known?,
    };
    let mut work = Work::Nothing;
    if root.empty {
        put_version(&mut step, &record);
        note(&mut step, HistoryEvent::Created, None, Some(newest), "an empty store was made one of this version");
    } else if decision.actions.iter().any(|act| matches!(act, Action::BeginMigration | Action::ContinueMigration)) {
        work = whether_to_migrate(&root.control, node, record.target > record.current);
        if work == Work::Migrate {
            let what = if record.target == newest { HistoryEvent::Restarted } else { HistoryEvent::Begun };
            note(&mut step, what, Some(record.current), Some(newest), "");
            record.target = newest;
            put_version(&mut step, &record);
        }
    }
    if !step.is_empty() {
        store.commit(held, &[step]).await?;
    }
    let forms = match work {
        Work::Migrate => Forms::both(current, node.newest),
        Work::Nothing | Work::Held { .. } => Forms::only(current),
    };
    Ok(Opened { current, record, forms, work, cluster_id, control: root.control, roots: root.roots, history, guard })
}

/// Whether a server of this release may work on the store at all. Worth asking before the lock is taken. Writes nothing.
pub async fn check(store: &dyn Store, newest: Version) -> Result<(), OpenError> {
    let Some(record) = read_root(store).await?.version else { return Ok(()) };
    let decision = decide(Some(record.current), Some(record.target), newest.number());
    if decision.actions.contains(&Action::ShutDown) {
        let by = last_release(store).await?;
        return Err(OpenError::ShutDown { reason: format!("{}{by}", decision.reason) });
    }
    match readable(record.current) {
        Err(OpenError::Unknown { found, .. }) => Err(OpenError::Unknown { found, by: last_release(store).await? }),
        known => known.map(drop),
    }
}

/// Which release last changed the data version, if the history tells.
async fn last_release(store: &dyn Store) -> Result<String, OpenError> {
    let told = read_history(store, HISTORY_LOOKED_AT).await?;
    let changes = [HistoryEvent::Created, HistoryEvent::Begun, HistoryEvent::Finalized, HistoryEvent::RolledBack];
    let last = told.into_iter().rev().find(|(_, entry)| changes.contains(&entry.what));
    Ok(last.map_or_else(String::new, |(_, entry)| {
        format!(" (the history says that release {} last changed it, on node {})", entry.release, entry.node)
    }))
}

/// An operator's hold counts for the release it was meant for. A configured manual start counts until a start was asked for,
/// which shows as a target.
fn whether_to_migrate(control: &Control, node: Node<'_>, has_begun: bool) -> Work {
    match &control.held {
        Some(held) if held.version == node.newest.number() => Work::Held { why: held.why.clone() },
        _ if node.migration.start == config::Start::Manual && !has_begun => {
            Work::Held { why: "the configuration says that an operator starts it".to_owned() }
        }
        _ => Work::Migrate,
    }
}

pub fn readable(found: DataVersion) -> Result<Version, OpenError> {
    let earliest = Version::EARLIEST;
    match Version::of(found) {
        Some(version) => Ok(version),
        None if found < earliest.number() => {
            Err(OpenError::TooOld { found, earliest: earliest.number(), name: earliest.name() })
        }
        None => Err(OpenError::Unknown { found, by: String::new() }),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn only_versions_that_this_release_reads_are_opened() {
        for version in Version::ALL {
            assert_eq!(readable(version.number()).unwrap(), *version);
        }
        expect!["the store has data version 0, and the oldest that this release reads is 1 (initial_json). Nothing was changed. Start a release in between first, one whose notes say that it reads 0 and writes at least 1, let it migrate, then start this one again"]
            .assert_eq(&readable(DataVersion(0)).unwrap_err().to_string());
        expect!["the store has data version 7, which this release does not know, though it knows older and newer ones. Nothing was changed. Start the release that wrote it"]
            .assert_eq(&readable(DataVersion(7)).unwrap_err().to_string());
    }

    #[test]
    fn a_hold_is_for_the_release_it_was_meant_for() {
        let newest = Version::LATEST;
        let held = |version: Version| Control {
            held: Some(store::root::Held::new(version.number(), "an operator said so", 0)),
            ..Control::default()
        };
        let node = |start| Node {
            name: "node",
            newest,
            migration: config::Migration { start, ..config::Migration::default() },
            now_ns: 0,
            fresh_id: "id",
            identity: None,
        };
        let (auto, manual) = (node(config::Start::Auto), node(config::Start::Manual));
        let is_held = |work| matches!(work, Work::Held { .. });
        assert!(!is_held(whether_to_migrate(&Control::default(), auto, false)));
        assert!(is_held(whether_to_migrate(&Control::default(), manual, false)));
        assert!(!is_held(whether_to_migrate(&Control::default(), manual, true)), "a start was asked for");
        assert!(is_held(whether_to_migrate(&held(newest), auto, false)));
        assert!(!is_held(whether_to_migrate(&held(Version::EARLIEST), auto, false)));
    }
}
