//! Opening a store without migrating it: its data version is already that of this server, or there is none yet.
//!
//! Promise: a server that only serves never works on records of a version it does not understand. It refuses before it
//! reads the first of them and names the versions it found and the one it knows. A refusal writes nothing; in an empty
//! store, version and identity are written in one step.

use super::{CLUSTER_ID_KEY, RootError, VERSION_KEY, VersionRecord, put_cluster_id, put_version, read_root};
use crate::kv::{Mastership, Step, Store};
use crate::record::DataVersion;
use crate::versions::Version;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub cluster_id: String,
    pub version: DataVersion,
    /// Whether this call made the root, in a store that was empty.
    pub created: bool,
}

/// Reads the root, or makes it in an empty store, with `new_id` as the identity of the new cluster.
pub async fn open_root(store: &dyn Store, held: &Mastership, new_id: &str) -> Result<Root, RootError> {
    let mine = Version::LATEST.number();
    let found = read_root(store).await?;
    let Some(VersionRecord { current, target, .. }) = found.version else {
        let mut step = Step::default();
        put_version(&mut step, &VersionRecord::new(mine, mine));
        put_cluster_id(&mut step, new_id);
        store.commit(held, &[step]).await?;
        return Ok(Root { cluster_id: new_id.to_owned(), version: mine, created: true });
    };
    if current != mine || target != mine {
        return Err(RootError::OtherVersion { current, target, mine });
    }
    let incomplete = || RootError::Incomplete { missing: CLUSTER_ID_KEY, example: VERSION_KEY.to_owned() };
    let cluster_id = found.cluster_id.ok_or_else(incomplete)?;
    Ok(Root { cluster_id, version: current, created: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::root::tests::with;

    #[tokio::test]
    async fn an_empty_store_gets_its_root_in_one_step() {
        let store = Memory::new();
        let held = store.campaign("test").await.unwrap();
        let made = open_root(&store, &held, "id-1").await.unwrap();
        assert_eq!((made.cluster_id.as_str(), made.created), ("id-1", true));
        assert_eq!(store.revision(), 1);
        let found = open_root(&store, &held, "id-2").await.unwrap();
        assert_eq!((found.cluster_id.as_str(), found.created), ("id-1", false));
        assert_eq!(store.revision(), 1, "an existing root is not written again");
    }

    #[tokio::test]
    async fn other_versions_are_refused_by_name() {
        let mine = Version::LATEST.number();
        let json = format!(r#"{{"CurrentVersion":5,"TargetVersion":{mine}}}"#);
        let (store, held) = with(&[(VERSION_KEY, &json)]).await;
        let error = open_root(&store, &held, "id").await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("data version 5 (with target version {mine})")), "{text}");
        assert!(text.contains(&format!("works with {mine}")), "{text}");
        assert!(!error.retryable());
        assert_eq!(store.revision(), 1, "a refusal writes nothing");
    }

    #[tokio::test]
    async fn a_store_without_an_identity_is_refused() {
        let json = format!(r#"{{"CurrentVersion":{0},"TargetVersion":{0}}}"#, Version::LATEST.number());
        let (store, held) = with(&[(VERSION_KEY, &json)]).await;
        let error = open_root(&store, &held, "id").await.unwrap_err();
        assert!(error.to_string().contains("but no /cluster-id"), "{error}");
        assert_eq!(store.revision(), 1, "a refusal writes nothing");
    }
}
