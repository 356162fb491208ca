//! Tests of reading and writing the root, on stores made by hand and on arbitrary bytes.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::kv::{BoxFuture, Mastership, Op, Page};
use crate::memory::Memory;

pub(super) async fn with(records: &[(&str, &str)]) -> (Memory, Mastership) {
    let store = Memory::new();
    let held = store.campaign("test").await.unwrap();
    let mut step = Step::default();
    records.iter().for_each(|(key, value)| step.put(*key, value.as_bytes().to_vec()));
    store.commit(&held, &[step]).await.unwrap();
    (store, held)
}

pub(super) fn json_of(step: &Step, key: &str) -> String {
    let value = step.ops.iter().find_map(|op| match op {
        Op::Put { key: put, value } if put == key => Some(value.to_vec()),
        Op::Put { .. } | Op::Delete { .. } => None,
    });
    String::from_utf8(value.unwrap()).unwrap()
}

#[tokio::test]
async fn an_empty_store_says_so() {
    let empty = read_root(&Memory::new()).await.unwrap();
    assert_eq!(empty, RootState { empty: true, ..RootState::default() });
}

#[tokio::test]
async fn what_is_there_is_told_and_nothing_is_written() {
    let (store, _) = with(&[
        (VERSION_KEY, r#"{"CurrentVersion":5,"TargetVersion":12}"#),
        (CLUSTER_ID_KEY, "id-1"),
        (CONTROL_KEY, r#"{"paused":true}"#),
        ("/v12/task/a", "x"),
        ("/v5/task/a", "x"),
        ("/v5/task/b", "x"),
    ])
    .await;
    let found = read_root(&store).await.unwrap();
    assert_eq!(found.version, Some(VersionRecord::new(DataVersion(5), DataVersion(12))));
    assert_eq!(found.cluster_id.as_deref(), Some("id-1"));
    assert!(found.control.paused && !found.empty);
    assert_eq!(found.roots, [DataVersion(5), DataVersion(12)]);
    assert_eq!(store.writes(), 1);
}

#[tokio::test]
async fn a_store_that_diego_made_has_no_identity_and_may_have_no_target() {
    let (store, _) = with(&[(VERSION_KEY, r#"{"CurrentVersion":5}"#), ("/v5/domain/a", "")]).await;
    let found = read_root(&store).await.unwrap();
    assert_eq!(found.version, Some(VersionRecord::new(DataVersion(5), DataVersion(5))));
    assert_eq!((found.cluster_id, found.control), (None, Control::default()));
}

#[tokio::test]
async fn a_store_that_cannot_be_judged_is_refused() {
    let check = async |records: &[(&str, &str)], expected: &str| {
        let (store, _) = with(records).await;
        let error = read_root(&store).await.unwrap_err();
        assert!(!error.retryable());
        let text = error.to_string();
        assert!(text.starts_with(expected) && text.contains(". Nothing was changed. "), "{text}");
    };
    check(&[("/v5/task/a", "x")], "the store holds records (for example /v5/task/a) but no /version").await;
    check(&[(CLUSTER_ID_KEY, "id")], "the store holds records (for example /cluster-id) but no /version").await;
    let wrong = "/version is unreadable: it is JSON, but a member is missing";
    check(&[(VERSION_KEY, "{}")], wrong).await;
    check(&[(VERSION_KEY, r#"{"TargetVersion":5}"#)], wrong).await;
    check(&[(VERSION_KEY, r#"{"CurrentVersion":0,"TargetVersion":5}"#)], wrong).await;
    check(&[(VERSION_KEY, r#"{"CurrentVersion":-1,"TargetVersion":5}"#)], wrong).await;
    check(&[(VERSION_KEY, r#"{"CurrentVersion":5,"TargetVersion":"5"}"#)], wrong).await;
    check(&[(VERSION_KEY, r#"{"CurrentVersion":5,"CurrentVersion":6}"#)], wrong).await;
    check(&[(VERSION_KEY, "5")], wrong).await;
    check(&[(VERSION_KEY, "version 5")], "/version is unreadable: it is not JSON (line 1, column 1)").await;
    check(&[(VERSION_KEY, "")], "/version is unreadable: it is cut off").await;
    let version = (VERSION_KEY, r#"{"CurrentVersion":5,"TargetVersion":5}"#);
    check(&[version, (CLUSTER_ID_KEY, "")], "/cluster-id is unreadable: it is empty").await;
    check(&[version, (CONTROL_KEY, "{")], "/migration is unreadable: it is cut off").await;
}

#[tokio::test]
async fn the_version_record_is_frozen_and_keeps_what_it_does_not_know() {
    let mut step = Step::default();
    put_version(&mut step, &VersionRecord::new(DataVersion(1), DataVersion(1)));
    assert_eq!(json_of(&step, VERSION_KEY), r#"{"CurrentVersion":1,"TargetVersion":1}"#);

    let (store, _) = with(&[(VERSION_KEY, r#"{"Later":{"a":[1]},"CurrentVersion":1,"TargetVersion":1}"#)]).await;
    let mut record = read_root(&store).await.unwrap().version.unwrap();
    record.target = DataVersion(5);
    let mut step = Step::default();
    put_version(&mut step, &record);
    assert_eq!(json_of(&step, VERSION_KEY), r#"{"CurrentVersion":1,"TargetVersion":5,"Later":{"a":[1]}}"#);
}

#[tokio::test]
async fn what_is_put_is_read_back() {
    let (store, held) = with(&[]).await;
    let version = VersionRecord::new(DataVersion(4), DataVersion(5));
    let control = Control { held: Some(Held::new(DataVersion(5), "why", 1)), accept_loss: true, ..Control::default() };
    let mut step = Step::default();
    put_version(&mut step, &version);
    put_cluster_id(&mut step, "id-1");
    put_control(&mut step, &control);
    store.commit(&held, &[step]).await.unwrap();
    let expected =
        RootState { version: Some(version), cluster_id: Some("id-1".into()), control, empty: false, roots: Vec::new() };
    assert_eq!(read_root(&store).await.unwrap(), expected);
}

/// A store whose scans are counted.
#[derive(Debug)]
struct Counting {
    inner: Memory,
    scans: AtomicUsize,
}

impl Store for Counting {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        self.inner.campaign(node)
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.resign(held)
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        self.inner.get(key)
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        assert_eq!(limit, 1);
        self.scans.fetch_add(1, Relaxed);
        self.inner.scan(prefix, after, limit)
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.inner.commit(held, steps)
    }

    fn revision(&self) -> u64 {
        self.inner.revision()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[tokio::test]
async fn finding_roots_does_not_read_every_record() {
    let inner = Memory::new();
    let held = inner.campaign("test").await.unwrap();
    for root in ["/v5/", "/v50/", "/v6/", "/vault/"] {
        let mut step = Step::default();
        (0..100).for_each(|n| step.put(format!("{root}{n:03}"), "x"));
        inner.commit(&held, &[step]).await.unwrap();
    }
    let store = Counting { inner, scans: AtomicUsize::new(0) };
    assert_eq!(find_roots(&store).await.unwrap(), [DataVersion(5), DataVersion(6), DataVersion(50)]);
    assert_eq!(store.scans.load(Relaxed), 5, "one for each folder, and one that finds no more");
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::sample::select(vec![
        r#"{"CurrentVersion":5,"TargetVersion":5}"#,
        r#"{"held":{"version":5,"why":"x","since_ns":7},"paused":true,"verified":{"from":4,"to":5,"at_ns":9}}"#,
        r#"{"at_ns":1,"node":"n","release":"r","what":"begun","from":1,"to":null,"detail":""}"#,
    ]);
    let broken = (text, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, at, byte)| {
        let mut bytes = text.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    });
    prop_oneof![broken, prop::collection::vec(any::<u8>(), 0..64)]
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        whole in any::<bool>(),
        version in nearly_json(),
        id in nearly_json(),
        control in nearly_json(),
        entry in nearly_json(),
    ) {
        block_on(async {
            let (store, held) = with(&[]).await;
            let mut step = Step::default();
            // Behind a broken version nothing else would be looked at.
            step.put(VERSION_KEY, if whole { Bytes::from(r#"{"CurrentVersion":5}"#) } else { version.into() });
            step.put(CLUSTER_ID_KEY, id);
            step.put(CONTROL_KEY, control);
            step.put("/history/00000000000000000007", entry);
            step.put("/history/18446744073709551615", "");
            store.commit(&held, &[step]).await.unwrap();
            drop(read_root(&store).await);
            assert_eq!(read_history(&store, 10).await.unwrap().len(), 2);
            assert_eq!(next_history_number(&store).await.unwrap(), u64::MAX);
        });
    }

    #[test]
    fn jumping_finds_the_roots_that_reading_everything_finds(
        keys in prop::collection::btree_set("/v[0-2/a]{0,5}", 0..40),
    ) {
        let root_of = |key: &String| parse_version(key[RECORDS_ROOT.len()..].split_once('/')?.0);
        let expected: BTreeSet<_> = keys.iter().filter_map(root_of).collect();
        let records: Vec<_> = keys.iter().map(|key| (key.as_str(), "")).collect();
        let found = block_on(async { find_roots(&with(&records).await.0).await.unwrap() });
        prop_assert_eq!(found, Vec::from_iter(expected));
    }
}
