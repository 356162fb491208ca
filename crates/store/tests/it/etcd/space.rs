//! Space: in etcd's database, which stays small, and in memory, whatever the sizes of records.

use rig::etcd::Cluster;
use store::etcd::Options;
use store::{PAGE_BYTES_MAX, Store, StoreError};

use super::{LONG_LEASE, all_records, one, open, options, put, soon, write};

/// What the database of the member takes, as etcd counts it.
fn database_bytes(cluster: &Cluster) -> u64 {
    let status = cluster.ctl(&["endpoint", "status", "--write-out=fields"]);
    status.lines().find_map(|line| line.strip_prefix("\"DBSize\" : ")).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_etcd_is_said_and_the_same_master_goes_on_when_there_is_room() {
    let cluster = Cluster::start(rig::etcd::Options { quota_bytes: Some(16 * 1024 * 1024), ..Default::default() });
    let a = open(Options { compacts: false, lease: LONG_LEASE, ..options(&cluster) }).await;
    let held = a.campaign("a").await.unwrap();
    let mut written = 0_u8;
    let error = loop {
        match a.commit(&held, &put("/x", vec![written + 1; 1_000_000])).await {
            Ok(revision) => assert_eq!(revision, u64::from(written) + 1),
            Err(error) => break error,
        }
        written += 1;
    };
    assert!(matches!(error, StoreError::QuotaExceeded) && error.retryable() && !error.outcome_unknown(), "{error}");
    assert_eq!(
        a.get("/x").await.unwrap().unwrap(),
        vec![written; 1_000_000],
        "reads go on, and nothing of it is there"
    );
    assert!(matches!(write(&a, &held, "/y", "1").await, Err(StoreError::QuotaExceeded)));
    assert!(a.standing().is_certain(), "and it is still master");

    let status = cluster.ctl(&["endpoint", "status", "--write-out=fields"]);
    let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap().to_owned();
    cluster.ctl(&["compact", "--physical", &revision]);
    cluster.ctl(&["defrag"]);
    cluster.ctl(&["alarm", "disarm"]);
    assert_eq!(write(&a, &held, "/y", "1").await.unwrap(), u64::from(written) + 1);
    assert!(a.standing().is_certain());
}

/// Overwrites one record until `bytes` were written, and returns what the database takes then.
async fn overwrite(compacts: bool, bytes: usize) -> u64 {
    const VALUE_BYTES: usize = 1_000_000;
    let cluster = one();
    let (a, b) = (
        open(Options { compacts, lease: LONG_LEASE, ..options(&cluster) }).await,
        open(Options { compacts: false, ..options(&cluster) }).await,
    );
    let held = a.campaign("a").await.unwrap();
    let mut following = b.follow().await.unwrap().unwrap();
    let commits = u64::try_from(bytes / VALUE_BYTES).unwrap();
    let listening = tokio::spawn(async move {
        for revision in 1..=commits {
            assert_eq!(following.changes.recv().await.unwrap().unwrap().revision, revision);
        }
    });
    for n in 0..commits {
        a.commit(&held, &put("/x", vec![u8::try_from(n % 256).unwrap(); VALUE_BYTES])).await.unwrap();
    }
    soon("whoever follows has heard of all", listening).await.unwrap();
    database_bytes(&cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_overwritten_is_forgotten() {
    let (with, without) = (overwrite(true, 300_000_000).await, overwrite(false, 300_000_000).await);
    eprintln!("the database takes {with} bytes, and {without} if nobody lets it forget");
    assert!(with < 220_000_000 && with * 4 < without * 3, "{with} of {without}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_stay_small_whatever_lies_in_them() {
    let cluster = one();
    let a = open(Options { lease: LONG_LEASE, ..options(&cluster) }).await;
    let held = a.campaign("a").await.unwrap();
    // Small ones first, so that many are asked for when the large ones come; then small ones again.
    let sizes = [(3_000, 100), (60, 1_400_000), (1_000, 100)];
    let mut expected = Vec::new();
    for (part, (count, bytes)) in sizes.into_iter().enumerate() {
        let mut steps = Vec::new();
        for n in 0..count {
            let key = format!("/{part}/{n:05}");
            steps.extend(put(&key, vec![1; bytes]));
            expected.push((key, bytes));
        }
        a.commit(&held, &steps).await.unwrap();
    }
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = soon("a page", a.scan("", after.as_deref(), 100_000)).await.unwrap();
        let bytes: usize = page.records.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(bytes <= PAGE_BYTES_MAX || page.records.len() == 1, "{bytes}");
        found.extend(page.records.into_iter().map(|(key, value)| (key, value.len())));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);
    eprintln!("{pages} pages");
    assert!(pages < 60, "{pages}");
    assert_eq!(all_records(&a).await.len(), expected.len());
}
