//! Promises about snapshots, and about stores that do not begin at revision 1.

use std::sync::Arc;

use bytes::Bytes;

use super::{Site, all, campaign, commit, puts};
use crate::error::StoreError;
use crate::kv::{Snapshot, Step};

async fn everything(snapshot: &dyn Snapshot, prefix: &str, limit: usize) -> Vec<(String, Bytes)> {
    let (mut records, mut after) = (Vec::new(), None);
    loop {
        let page = snapshot.scan(prefix, after.as_deref(), limit).await.expect("a snapshot is read");
        assert!(page.records.len() <= limit.max(1), "a page holds at most `limit` records");
        records.extend(page.records);
        match page.next {
            Some(next) => after = Some(next),
            None => return records,
        }
    }
}

/// A snapshot shows what was there when it was taken, whatever is committed, forgotten or closed since.
pub async fn snapshots_stand_still(site: &impl Site) {
    let store = site.open();
    let empty = store.snapshot().await.expect("a snapshot of nothing");
    assert_eq!((empty.revision(), empty.records()), (0, 0));
    let held = campaign(&*store).await;
    let first: Vec<(String, String)> =
        (0..90).map(|n| (format!("/k/{n:02}"), format!("{n} {}", "x".repeat(50)))).collect();
    let mut step = Step::default();
    first.iter().for_each(|(key, value)| step.put(key.clone(), value.clone()));
    let revision = commit(&*store, &held, &[step, puts(&[("/other", "1")])]).await;
    let taken = store.snapshot().await.expect("a snapshot");
    assert_eq!((taken.revision(), taken.records()), (revision, 91), "everything that was confirmed is in it");
    let (page, rest) = (taken.scan("/k/", None, 10).await.expect("a page"), 80);
    for round in 0..20 {
        let mut step = puts(&[("/new", "x"), ("/k/00", "changed"), ("/k/455", "between")]);
        step.delete(format!("/k/{:02}", round + 5));
        commit(&*store, &held, &[step]).await;
    }
    store.forget_superseded().await.expect("forgetting what was overwritten");
    let again = everything(&*taken, "/k/", 7).await;
    let expected: Vec<(String, Bytes)> = first.into_iter().map(|(key, value)| (key, value.into())).collect();
    assert_eq!(again, expected, "changed, deleted and added records are as they were");
    assert_eq!(page.records, expected[..10], "also the page that was read before");
    assert_eq!(everything(&*taken, "", 1_000).await.len(), 91);
    let after = page.next.expect("more follow");
    assert_eq!(taken.scan("/k/", Some(&after), 1_000).await.expect("a page").records.len(), rest);
    assert_eq!(taken.revision(), revision);
    let now = store.snapshot().await.expect("another snapshot");
    assert_eq!(everything(&*now, "", 13).await, all(&*store, "", 1_000).await, "a new one shows what is there now");
    assert_eq!(now.revision(), store.revision());
    assert!(everything(&*empty, "", 10).await.is_empty(), "the first one shows nothing still");
    let shared: Arc<dyn Snapshot> = taken.clone();
    drop((store, held, taken));
    assert_eq!(everything(&*shared, "/k/", 1_000).await, expected, "it outlives the store it was taken of");
}

/// A store that never had a step can begin behind another one's revisions; one that had cannot.
pub async fn first_revisions(site: &impl Site) {
    let start = 7_000_000_000_000;
    let store = site.open();
    let held = campaign(&*store).await;
    store.begin_after(&held, start).await.expect("a store without a step begins where it is told");
    assert_eq!(store.revision(), start);
    assert!(all(&*store, "", 10).await.is_empty());
    assert!(matches!(store.begin_after(&held, start + 1).await, Err(StoreError::Misuse { .. })), "only once");
    drop((store, held));
    let store = site.open();
    assert_eq!(store.revision(), start, "also after opening it again");
    let held = campaign(&*store).await;
    assert_eq!(commit(&*store, &held, &[puts(&[("/a", "1")]), puts(&[("/b", "2")])]).await, start + 2);
    store.forget_superseded().await.expect("forgetting what was overwritten");
    assert_eq!(store.snapshot().await.expect("a snapshot").revision(), start + 2);
    assert!(matches!(store.begin_after(&held, start + 9).await, Err(StoreError::Misuse { .. })));
    drop((store, held));
    let store = site.open();
    assert_eq!((store.revision(), all(&*store, "", 10).await.len()), (start + 2, 2));
}
