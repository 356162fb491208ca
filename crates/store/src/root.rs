//! The root of a store: which data version it has, which cluster it belongs to, and what was asked of it.
//!
//! Promise: [`read_root`] tells what is there and writes nothing, and it refuses a store that it cannot judge instead
//! of guessing. Writing is left to whoever holds the mastership: the `put` functions only add operations to a step, so
//! that a change of the root commits together with what belongs to it, or not at all.
//!
//! What is kept here is JSON or plain text in every data version and is never encrypted, so that every server can read
//! it. Members of JSON records that this release does not know are written back as they were read. [`mod@decide`] is the
//! table of what follows from the versions, [`control`] the operator's will, [`history`] what happened, and `restoring` the mark
//! on a store that is not whole yet.

pub mod control;
pub mod decide;
pub mod history;
mod restoring;

use serde::de::{DeserializeOwned, Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::error::Category;
use thiserror::Error;

pub use control::{Control, Held, Verified, put_control};
pub use decide::{Action, Decision, decide};
pub use history::{
    Entry, HISTORY_DETAIL_BYTES_MAX, HISTORY_ENTRIES_MAX, HistoryEvent, append_history, next_history_number,
    read_history,
};

pub use restoring::{Restoring, put_restoring};
pub(crate) use restoring::{read_restoring, refuse_half_restored};

use crate::error::StoreError;
use crate::kv::{Step, Store};
use crate::record::DataVersion;

pub const VERSION_KEY: &str = "/version";
pub const CLUSTER_ID_KEY: &str = "/cluster-id";
pub const CONTROL_KEY: &str = "/migration";
pub const HISTORY_ROOT: &str = "/history/";
/// There while a backup is being restored, and as long as that has not come to its end.
pub const RESTORING_KEY: &str = "/restoring";
/// Records that had to make way, byte for byte as they were.
pub const QUARANTINE_ROOT: &str = "/quarantine/";
/// Digits of the time at which a record was moved aside.
const QUARANTINE_TIME_DIGITS: usize = 20;
/// Followed by the number of a data version and a slash.
const RECORDS_ROOT: &str = "/v";

/// Members of a JSON record that this release does not know.
pub type Unknown = serde_json::Map<String, serde_json::Value>;

/// The value of [`VERSION_KEY`]. To change it, change one that was read, so that its unknown members stay.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionRecord {
    pub current: DataVersion,
    pub target: DataVersion,
    pub unknown: Unknown,
}

impl VersionRecord {
    pub fn parse(json: &[u8]) -> Result<VersionRecord, RootError> {
        let StoredVersion { current, target, unknown } = parse_json(VERSION_KEY, json)?;
        Ok(VersionRecord { current, target: target.unwrap_or(current), unknown })
    }

    pub fn new(current: DataVersion, target: DataVersion) -> VersionRecord {
        VersionRecord { current, target, unknown: Unknown::new() }
    }
}

/// A record without a target is one of Diego's later releases, which ended a migration before they wrote the version.
#[derive(Serialize, Deserialize)]
struct StoredVersion {
    #[serde(rename = "CurrentVersion")]
    current: DataVersion,
    #[serde(rename = "TargetVersion")]
    target: Option<DataVersion>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// What a store says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RootState {
    /// Absent only in an empty store.
    pub version: Option<VersionRecord>,
    /// Absent in an empty store, and in one that Diego made.
    pub cluster_id: Option<String>,
    pub control: Control,
    /// Whether the store holds no key at all.
    pub empty: bool,
    /// The data versions of which there is at least one record, the oldest first.
    pub roots: Vec<DataVersion>,
}

#[derive(Debug, Error)]
pub enum RootError {
    #[error(
        "the store holds records (for example {example}) but no {missing}. Nothing was changed. This is not a whole \
         store: check that the right one is configured, and restore it from a backup otherwise"
    )]
    Incomplete { missing: &'static str, example: String },
    #[error("{key} is unreadable: {why}. Nothing was changed. Restore the store from a backup")]
    Unreadable { key: &'static str, why: String },
    #[error(
        "a backup (SHA-256 {sha256}) is being restored into this store, or was until the restore was interrupted: records are \
         missing. Nothing was changed. Give the same command again, with the same file: `corkboard restore FILE --config CONFIG`"
    )]
    HalfRestored { sha256: String },
    #[error("could not read or write the root of the store")]
    Store {
        #[from]
        source: StoreError,
    },
}

impl RootError {
    pub fn retryable(&self) -> bool {
        match self {
            RootError::Store { source } => source.retryable(),
            RootError::Incomplete { .. } | RootError::Unreadable { .. } | RootError::HalfRestored { .. } => false,
        }
    }
}

/// Reads the root. Only a master gets an answer that stays true.
pub async fn read_root(store: &dyn Store) -> Result<RootState, RootError> {
    // The version is in the first step of every store, so looking for it after the first key cannot miss it.
    let Some((example, _)) = store.scan("", None, 1).await?.records.pop() else {
        return Ok(RootState { empty: true, ..RootState::default() });
    };
    refuse_half_restored(store).await?;
    let json = store.get(VERSION_KEY).await?;
    let json = json.ok_or(RootError::Incomplete { missing: VERSION_KEY, example })?;
    Ok(RootState {
        version: Some(VersionRecord::parse(&json)?),
        cluster_id: read_cluster_id(store).await?,
        control: control::read_control(store).await?,
        empty: false,
        roots: find_roots(store).await?,
    })
}

pub fn put_version(step: &mut Step, record: &VersionRecord) {
    let VersionRecord { current, target, unknown } = record.clone();
    step.put(VERSION_KEY, to_json(&StoredVersion { current, target: Some(target), unknown }));
}

pub fn put_cluster_id(step: &mut Step, id: &str) {
    step.put(CLUSTER_ID_KEY, id.as_bytes().to_vec());
}

async fn read_cluster_id(store: &dyn Store) -> Result<Option<String>, RootError> {
    let Some(id) = store.get(CLUSTER_ID_KEY).await? else { return Ok(None) };
    let unreadable = |why: &str| RootError::Unreadable { key: CLUSTER_ID_KEY, why: why.to_owned() };
    let id = std::str::from_utf8(&id).map_err(|_| unreadable("it is not text"))?;
    if id.is_empty() {
        return Err(unreadable("it is empty"));
    }
    Ok(Some(id.to_owned()))
}

/// The data versions of which there is at least one record, the oldest first. Reads one record of each folder and jumps
/// behind the rest of it.
pub async fn find_roots(store: &dyn Store) -> Result<Vec<DataVersion>, StoreError> {
    let mut roots = Vec::new();
    let mut after: Option<String> = None;
    while let Some((key, _)) = store.scan(RECORDS_ROOT, after.as_deref(), 1).await?.records.pop() {
        after = Some(match key[RECORDS_ROOT.len()..].split_once('/') {
            Some((name, _)) => {
                roots.extend(parse_version(name));
                format!("{RECORDS_ROOT}{name}{AFTER_SLASH}")
            }
            None => key,
        });
    }
    roots.sort_unstable();
    Ok(roots)
}

/// Where a record is moved aside to. The time keeps two records apart that lay under the same key one after the other.
pub fn displaced_key(now_ns: i64, key: &str) -> String {
    format!("{QUARANTINE_ROOT}{now_ns:0QUARANTINE_TIME_DIGITS$}{key}")
}

/// The key that a record lay under before it was moved aside.
pub fn original_key(id: &str) -> Option<&str> {
    id.strip_prefix(QUARANTINE_ROOT)?.get(QUARANTINE_TIME_DIGITS..)
}

/// In the order of keys it follows the slash, so a folder's name with it is behind all that the folder holds.
const AFTER_SLASH: char = '0';

pub(crate) fn parse_version(name: &str) -> Option<DataVersion> {
    // Only one spelling of a number is one: no sign, no leading zero. Every record that is sealed or opened is asked, so
    // nothing is allocated for it.
    let is_number = name.bytes().all(|digit| digit.is_ascii_digit()) && !name.starts_with('0');
    name.parse().ok().filter(|_| is_number).map(DataVersion)
}

impl Serialize for DataVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DataVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DataVersion, D::Error> {
        match u64::deserialize(deserializer)? {
            0 => Err(D::Error::invalid_value(Unexpected::Unsigned(0), &"a data version, which is at least 1")),
            number => Ok(DataVersion(number)),
        }
    }
}

fn parse_json<T: DeserializeOwned>(key: &'static str, json: &[u8]) -> Result<T, RootError> {
    serde_json::from_slice(json).map_err(|error| RootError::Unreadable { key, why: explain_json(&error) })
}

/// Says what is wrong with JSON without its own words, which show values.
pub(crate) fn explain_json(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Eof => "it is cut off".to_owned(),
        Category::Data => "it is JSON, but a member is missing or is not what it has to be".to_owned(),
        Category::Syntax | Category::Io => {
            format!("it is not JSON (line {}, column {})", error.line(), error.column())
        }
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers, text and members with names can be written as JSON")
}

#[cfg(test)]
mod tests;
