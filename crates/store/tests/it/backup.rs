//! Backups: the file, stores that become one, and stores that come of one.

mod bytes;
mod interrupted;
mod load;

use std::io::Cursor;
use std::sync::Arc;

use store::backup::{Contents, Restored, Taking, Target, check, restore};
use store::embedded::{Embedded, Options};
use store::etcd::Etcd;
use store::memory::Memory;
use store::record::DataVersion;
use store::root::read_root;
use store::seal::{KeyName, Keyring, Ledger, Secret, Stamp, Stamps, Vault};
use store::{RootError, Step, Store};

use crate::files::{Records, records, small};

const VERSION: (&str, &str) = ("/version", r#"{"CurrentVersion":1,"TargetVersion":5}"#);

async fn file_of(store: &Arc<dyn Store>) -> Vec<u8> {
    let mut taking = Taking::begin(store.clone(), "0.0.0", 7).await.unwrap();
    let mut file = Vec::new();
    while let Some(bytes) = taking.next().await.unwrap() {
        file.extend_from_slice(&bytes);
    }
    let summary = taking.summary().unwrap();
    assert_eq!((summary.records, summary.bytes), (taking.records(), file.len() as u64));
    file
}

fn contents_of(file: &[u8]) -> Contents {
    check(&mut Cursor::new(file), |_, _| {}).unwrap()
}

async fn try_restore(store: &dyn Store, file: &[u8], force: bool) -> Result<Restored, store::backup::RestoreError> {
    let held = store.campaign("restore").await.unwrap();
    let contents = contents_of(file);
    let target = Target { store, held: &held, contents: &contents, force, now_ns: 9 };
    restore(target, &mut Cursor::new(file), |_| {}).await
}

#[derive(Debug)]
struct Still;

impl Stamps for Still {
    fn stamp(&self) -> Stamp {
        Stamp { sealed_ns: 5, nonce: [3; 12] }
    }
}

/// The store with its records sealed under key A.
fn sealed(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    let name = KeyName::parse("A").unwrap();
    let keyring = Keyring::new(vec![(name.clone(), Secret::new(b"the bytes of the key".to_vec()))], &name).unwrap();
    Arc::new(Vault::new(inner, Arc::new(keyring), Ledger::default(), Arc::new(Still)))
}

/// A store in the middle of everything: a migration under way, records in quarantine, some of them no records at all.
async fn fill(store: &dyn Store) {
    let held = store.campaign("test").await.unwrap();
    let mut root = Step::default();
    root.put(VERSION.0, VERSION.1);
    root.put("/cluster-id", "cluster-7");
    root.put("/migration", r#"{"paused":true}"#);
    root.put("/history/0000000000000001", "{}");
    root.put("/keys/A", r#"{"check":"00","since_ns":1,"writes":2,"needed":true}"#);
    root.put("/keys/B", r#"{"check":"00","since_ns":1,"writes":2,"needed":false}"#);
    root.put("/quarantine/00000000000000000007/v1/task/t", b"\x00\xff not readable".to_vec());
    let mut steps = vec![root];
    for n in 0..40u32 {
        let mut step = Step::default();
        for record in 0..30 {
            let value: Vec<u8> = (0..n * 7 + record).map(|at| (at * 31 + n) as u8).collect();
            step.put(format!("/v1/task/{n}-{record}"), value.clone());
            step.put(format!("/v5/task/{n}-{record}"), value);
        }
        steps.push(step);
    }
    let mut large = Step::default();
    large.put("/v1/desired/large", vec![42; 1_400_000]);
    large.put("/v1/desired/empty", "");
    steps.push(large);
    store.commit(&held, &steps).await.unwrap();
    store.resign(held).await.unwrap();
}

fn embedded(dir: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(Embedded::open(dir.path(), Options { segment_bytes: 100_000, ..small() }).unwrap())
}

async fn same(store: &dyn Store, expected: &Records, backup: &Contents) {
    assert!(records(store).await == *expected, "every record is there byte for byte, and nothing else");
    assert!(store.revision() > backup.header.revision, "and no revision is announced twice");
    let root = read_root(store).await.unwrap();
    assert_eq!((root.cluster_id.as_deref(), root.roots), (Some("cluster-7"), vec![DataVersion(1), DataVersion(5)]));
}

async fn from_store_to_store(seal: fn(Arc<dyn Store>) -> Arc<dyn Store>) {
    let [first, last] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let source = embedded(&first);
    fill(&*seal(source.clone())).await;
    let expected = records(&*source).await;
    let file = file_of(&seal(source.clone())).await;
    let contents = contents_of(&file);
    assert_eq!(contents.summary.records, expected.len() as u64);
    assert_eq!((contents.versions[&DataVersion(1)], contents.versions[&DataVersion(5)]), (1_202, 1_200));
    assert_eq!((contents.quarantined, &contents.header.keys[..]), (1, &["A".to_owned()][..]));

    let cluster = rig::etcd::Cluster::start(rig::etcd::Options::default());
    let etcd: Arc<dyn Store> = Arc::new(Etcd::open(crate::etcd::options(&cluster)).await.unwrap());
    try_restore(&*etcd, &file, false).await.unwrap();
    same(&*etcd, &expected, &contents).await;

    let file = file_of(&etcd).await;
    let again = contents_of(&file);
    assert_eq!((again.sealed.clone(), again.plain), (contents.sealed, contents.plain));
    let target = embedded(&last);
    try_restore(&*target, &file, false).await.unwrap();
    same(&*target, &expected, &again).await;
    drop(target);
    same(&*embedded(&last), &expected, &again).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_records_from_a_directory_to_etcd_and_back() {
    from_store_to_store(|store| store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealed_records_from_a_directory_to_etcd_and_back() {
    from_store_to_store(sealed).await;
}

#[tokio::test]
async fn nothing_secret_is_in_the_file() {
    let inner: Arc<dyn Store> = Arc::new(Memory::new());
    let vault = sealed(inner);
    fill(&*vault).await;
    let held = vault.campaign("test").await.unwrap();
    let mut step = Step::default();
    step.put("/v1/task/secret", "PASSWORD=hunter2");
    vault.commit(&held, &[step]).await.unwrap();
    let file = file_of(&vault).await;
    let has = |needle: &[u8]| file.windows(needle.len()).any(|bytes| bytes == needle);
    assert!(!has(b"hunter2") && !has(b"the bytes of the key") && has(b"0007A:"));
}

#[tokio::test]
async fn a_store_without_a_whole_state_has_no_backup() {
    let told = async |records: &[(&str, &str)]| {
        let store = Memory::new();
        records.iter().for_each(|(key, value)| store.slip_in(*key, value.as_bytes().to_vec()));
        Taking::begin(Arc::new(store), "0.0.0", 7).await.map(drop).unwrap_err().to_string()
    };
    assert!(told(&[]).await.starts_with("the store is empty"));
    assert!(told(&[("/v1/task/t", "x")]).await.contains("but no /version"));
    let half = told(&[("/restoring", r#"{"sha256":"abc","started_ns":1}"#), VERSION]).await;
    assert!(half.contains("corkboard restore FILE --config CONFIG"), "{half}");
}

#[tokio::test]
async fn only_an_empty_store_is_restored_into() {
    let source: Arc<dyn Store> = Arc::new(Memory::new());
    fill(&*source).await;
    let file = file_of(&source).await;

    let taken = Memory::new();
    fill(&taken).await;
    let before = (records(&taken).await, taken.revision());
    let error = try_restore(&taken, &file, true).await.unwrap_err().to_string();
    assert!(
        error.contains("the records of cluster cluster-7, for example /cluster-id. Nothing was changed"),
        "{error}"
    );
    assert!((records(&taken).await, taken.revision()) == before, "also not by force");

    let emptied = Memory::new();
    let held = emptied.campaign("test").await.unwrap();
    emptied.commit(&held, &[Step::default()]).await.unwrap();
    drop(held);
    let error = try_restore(&emptied, &file, false).await.unwrap_err().to_string();
    assert!(error.contains("it is at revision 1"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_etcd_forgot_is_told_in_words() {
    let cluster = rig::etcd::Cluster::start(rig::etcd::Options::default());
    let open = async || Etcd::open(crate::etcd::options(&cluster)).await.unwrap();
    let (store, other): (Arc<dyn Store>, _) = (Arc::new(open().await), open().await);
    fill(&*store).await;
    let mut taking = Taking::begin(store.clone(), "0.0.0", 7).await.unwrap();
    taking.next().await.unwrap();
    let held = store.campaign("test").await.unwrap();
    for n in 0..3 {
        store.commit(&held, &[crate::files::put("/v1/task/1-1", &n.to_string())]).await.unwrap();
    }
    store.forget_superseded().await.unwrap();
    assert!(taking.next().await.unwrap().is_some(), "whoever takes a backup is not told to forget by itself");
    // Somebody else knows nothing of it.
    let mut taking = Taking::begin(store.clone(), "0.0.0", 7).await.unwrap();
    taking.next().await.unwrap();
    store.commit(&held, &[crate::files::put("/v1/task/1-1", "again")]).await.unwrap();
    other.forget_superseded().await.unwrap();
    let error = taking.next().await.unwrap_err().to_string();
    assert!(error.contains("`corkboard backup FILE` without --config"), "{error}");
}

fn is_half_restored(error: &RootError) -> bool {
    matches!(error, RootError::HalfRestored { .. }) && !error.retryable()
}
