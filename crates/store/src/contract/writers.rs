//! Promises about masters, revisions over restarts, and readers beside a writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::{Site, all, campaign, commit, keys, puts};
use crate::error::StoreError;
use crate::kv::{Step, Store};

/// Data survives reopening, deletions included.
pub async fn reopening(site: &impl Site) {
    let mut expected = Vec::new();
    for round in 0..5 {
        let store = site.open();
        assert_eq!(keys(&*store, "").await, expected, "round {round} starts with what the last one left");
        let held = campaign(&*store).await;
        let mut step = puts(&[(&format!("/{round}/keep"), "x"), (&format!("/{round}/drop"), "x")]);
        step.delete(format!("/{}/drop", round - 1));
        commit(&*store, &held, &[step]).await;
        expected.retain(|key: &String| *key != format!("/{}/drop", round - 1));
        expected.extend([format!("/{round}/drop"), format!("/{round}/keep")]);
    }
}

/// Revisions go on where they stopped.
pub async fn revisions_over_reopen(site: &impl Site) {
    let mut expected = 0;
    for _ in 0..4 {
        let store = site.open();
        assert_eq!(store.revision(), expected);
        let held = campaign(&*store).await;
        expected += 3;
        let group = vec![puts(&[("/a", "x")]); 3];
        assert_eq!(commit(&*store, &held, &group).await, expected);
    }
}

/// Without the mastership in force nobody writes, and epochs grow.
pub async fn fencing(site: &impl Site) {
    let store = site.open();
    let first = campaign(&*store).await;
    let first_epoch = first.epoch();
    commit(&*store, &first, &[puts(&[("/a", "1")])]).await;
    store.resign(first).await.expect("resign");
    let second = campaign(&*store).await;
    assert!(second.epoch() > first_epoch, "epochs grow");
    commit(&*store, &second, &[puts(&[("/a", "2")])]).await;
    assert_eq!(store.revision(), 2);
}

/// The mastership of a store that was opened before is refused by the present one, and changes nothing.
pub async fn fencing_over_reopen(site: &impl Site) {
    let store = site.open();
    let old = campaign(&*store).await;
    commit(&*store, &old, &[puts(&[("/a", "old")])]).await;
    drop(store);
    let store = site.open();
    let refused = async |when: &str| {
        let error = store.commit(&old, &[puts(&[("/a", "stale")])]).await.expect_err(when);
        assert!(matches!(error, StoreError::NotMaster), "{when}: {error}");
        assert!(!error.outcome_unknown() && !error.retryable());
    };
    refused("before anybody is master").await;
    let new = campaign(&*store).await;
    assert!(new.epoch() > old.epoch(), "epochs grow over a restart");
    refused("while somebody else is master").await;
    commit(&*store, &new, &[puts(&[("/b", "new")])]).await;
    assert_eq!(store.get("/a").await.expect("get"), Some(Bytes::from_static(b"old")));
    assert_eq!(store.revision(), 2);
}

/// Readers see each step whole, in every page, while commits go on.
pub async fn concurrent_readers(site: &impl Site) {
    let store: Arc<dyn Store> = Arc::from(site.open());
    let held = campaign(&*store).await;
    let same = |value: String| {
        let mut step = Step::default();
        (0..20).for_each(|n| step.put(format!("/{n:02}"), value.clone()));
        step
    };
    commit(&*store, &held, &[same("start".into())]).await;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            tokio::spawn(async move {
                let mut pages = 0;
                // At least one page is read, also when the commits are over before this task runs.
                while pages == 0 || !done.load(Ordering::SeqCst) {
                    let records = all(&*store, "/", 100).await;
                    assert_eq!(records.len(), 20);
                    assert!(records.iter().all(|(_, value)| *value == records[0].1), "a step is seen whole");
                    pages += 1;
                }
            })
        })
        .collect();
    for round in 0..200 {
        commit(&*store, &held, &[same(format!("round {round}"))]).await;
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.expect("no reader saw half a step");
    }
}
