//! The root of a store: which data version it has, and which cluster it belongs to.
//!
//! Promise: a server never works on records of a version it does not understand. It refuses before it reads the first
//! of them and names the versions it found and the one it knows. Called once by a new master, before it loads records.
//!
//! Both keys are written in one step into an empty store. A store that has records but no root was not made by us, or
//! has lost something; guessing would be worse than stopping.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::StoreError;
use crate::kv::{Mastership, Step, Store};
use crate::record::DataVersion;
use crate::versions::Version;

pub const VERSION_KEY: &str = "/version";
pub const CLUSTER_ID_KEY: &str = "/cluster-id";
/// Records that were in the way and could not be read are kept below this key.
pub const QUARANTINE_PREFIX: &str = "/quarantine/";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub cluster_id: String,
    pub version: DataVersion,
    /// Whether this call made the root, in a store that was empty.
    pub created: bool,
}

#[derive(Debug, Error)]
pub enum RootError {
    #[error(
        "the store has data version {current} (with target version {target}), and this server works with {mine}. \
         Nothing was changed. Start a server that knows both versions"
    )]
    OtherVersion { current: DataVersion, target: DataVersion, mine: DataVersion },
    #[error(
        "the store holds records (for example {example}) but no {missing}. Nothing was changed. This is not a whole \
         store: check that the right one is configured, and restore it from a backup otherwise"
    )]
    Incomplete { missing: &'static str, example: String },
    #[error("{key} is unreadable: {why}. Nothing was changed. Restore the store from a backup")]
    Unreadable { key: &'static str, why: String },
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
            RootError::OtherVersion { .. } | RootError::Incomplete { .. } | RootError::Unreadable { .. } => false,
        }
    }
}

/// The value of [`VERSION_KEY`]. It is plain JSON in every data version, so that every server can read it.
#[derive(Debug, Serialize, Deserialize)]
struct VersionValue {
    #[serde(rename = "CurrentVersion")]
    current: u64,
    #[serde(rename = "TargetVersion")]
    target: u64,
}

/// Reads the root, or makes it in an empty store, with `new_id` as the identity of the new cluster.
pub async fn open_root(store: &dyn Store, held: &Mastership, new_id: &str) -> Result<Root, RootError> {
    let Some(version) = store.get(VERSION_KEY).await? else {
        if let Some((example, _)) = store.scan("", None, 1).await?.records.pop() {
            return Err(RootError::Incomplete { missing: VERSION_KEY, example });
        }
        return create_root(store, held, new_id).await;
    };
    let version: VersionValue = serde_json::from_slice(&version)
        .map_err(|error| RootError::Unreadable { key: VERSION_KEY, why: error.to_string() })?;
    let (current, target) = (DataVersion(version.current), DataVersion(version.target));
    if current != Version::LATEST.number() || target != Version::LATEST.number() {
        return Err(RootError::OtherVersion { current, target, mine: Version::LATEST.number() });
    }
    let id = store.get(CLUSTER_ID_KEY).await?;
    let id = id.ok_or_else(|| RootError::Incomplete { missing: CLUSTER_ID_KEY, example: VERSION_KEY.to_owned() })?;
    let unreadable = |why: &str| RootError::Unreadable { key: CLUSTER_ID_KEY, why: why.to_owned() };
    let cluster_id = std::str::from_utf8(&id).map_err(|_| unreadable("it is not text"))?;
    if cluster_id.is_empty() {
        return Err(unreadable("it is empty"));
    }
    Ok(Root { cluster_id: cluster_id.to_owned(), version: current, created: false })
}

async fn create_root(store: &dyn Store, held: &Mastership, new_id: &str) -> Result<Root, RootError> {
    let value = VersionValue { current: Version::LATEST.number().0, target: Version::LATEST.number().0 };
    let json = serde_json::to_vec(&value).expect("two numbers can be written as JSON");
    let mut step = Step::default();
    step.put(VERSION_KEY, json);
    step.put(CLUSTER_ID_KEY, Bytes::copy_from_slice(new_id.as_bytes()));
    store.commit(held, &[step]).await?;
    Ok(Root { cluster_id: new_id.to_owned(), version: Version::LATEST.number(), created: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    async fn with(records: &[(&str, &str)]) -> (Memory, Mastership) {
        let store = Memory::new();
        let held = store.campaign("test").await.unwrap();
        let mut step = Step::default();
        records.iter().for_each(|(key, value)| step.put(*key, value.as_bytes().to_vec()));
        store.commit(&held, &[step]).await.unwrap();
        (store, held)
    }

    #[tokio::test]
    async fn an_empty_store_gets_its_root_in_one_step() {
        let store = Memory::new();
        let held = store.campaign("test").await.unwrap();
        let made = open_root(&store, &held, "id-1").await.unwrap();
        assert_eq!((made.cluster_id.as_str(), made.created), ("id-1", true));
        assert_eq!(store.revision(), 1);
        let json = store.get(VERSION_KEY).await.unwrap().unwrap();
        assert_eq!(json, r#"{"CurrentVersion":1442529338,"TargetVersion":1442529338}"#);
        let found = open_root(&store, &held, "id-2").await.unwrap();
        assert_eq!((found.cluster_id.as_str(), found.created), ("id-1", false));
        assert_eq!(store.revision(), 1, "an existing root is not written again");
    }

    #[tokio::test]
    async fn other_versions_are_refused_by_name() {
        let (store, held) = with(&[(VERSION_KEY, r#"{"CurrentVersion":5,"TargetVersion":1442529338}"#)]).await;
        let error = open_root(&store, &held, "id").await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("data version 5 (with target version 1442529338)"), "{text}");
        assert!(text.contains("works with 1442529338"), "{text}");
        assert!(!error.retryable());
        assert_eq!(store.revision(), 1, "a refusal writes nothing");
    }

    #[tokio::test]
    async fn a_store_that_lost_its_root_is_refused() {
        let check = async |records: &[(&str, &str)]| {
            let (store, held) = with(records).await;
            let error = open_root(&store, &held, "id").await.unwrap_err();
            assert_eq!(store.revision(), 1, "a refusal writes nothing");
            error.to_string()
        };
        assert!(check(&[("/v5/task/a", "x")]).await.contains("(for example /v5/task/a) but no /version"));
        let version = r#"{"CurrentVersion":1442529338,"TargetVersion":1442529338}"#;
        assert!(check(&[(VERSION_KEY, version)]).await.contains("but no /cluster-id"));
        assert!(check(&[(VERSION_KEY, version), (CLUSTER_ID_KEY, "")]).await.contains("it is empty"));
        assert!(check(&[(VERSION_KEY, "{}")]).await.contains("/version is unreadable"));
    }
}
