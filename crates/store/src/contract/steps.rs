//! Promises about what a step does to records.

use bytes::Bytes;

use super::{Site, all, campaign, commit, keys, puts};
use crate::kv::Step;

/// A put replaces the whole value, and a read gives the newest.
pub async fn overwrites(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    commit(&*store, &held, &[puts(&[("/a", "first, and long")])]).await;
    commit(&*store, &held, &[puts(&[("/a", "2")])]).await;
    assert_eq!(store.get("/a").await.expect("get"), Some(Bytes::from_static(b"2")));
    commit(&*store, &held, &[puts(&[("/a", "")])]).await;
    assert_eq!(store.get("/a").await.expect("get"), Some(Bytes::new()), "an empty value is a value");
    assert_eq!(keys(&*store, "").await, ["/a"]);
}

/// A deleted record is gone, deleting an absent one is no error, and a key can come back.
pub async fn deletes(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    commit(&*store, &held, &[puts(&[("/a", "1"), ("/b", "2")])]).await;
    let mut step = Step::default();
    step.delete("/a");
    step.delete("/absent");
    assert_eq!(commit(&*store, &held, &[step]).await, 2, "a deletion takes one revision, like any step");
    assert_eq!(store.get("/a").await.expect("get"), None);
    assert_eq!(keys(&*store, "").await, ["/b"]);
    commit(&*store, &held, &[puts(&[("/a", "again")])]).await;
    assert_eq!(store.get("/a").await.expect("get"), Some(Bytes::from_static(b"again")));
}

/// Inside a step the later operation on a key wins.
pub async fn step_order(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    let mut step = puts(&[("/a", "1"), ("/a", "2"), ("/b", "1"), ("/c", "1")]);
    step.delete("/b");
    step.delete("/c");
    step.put("/c", "2");
    commit(&*store, &held, &[step]).await;
    let records = all(&*store, "", 10).await;
    assert_eq!(records, [("/a".to_owned(), Bytes::from_static(b"2")), ("/c".to_owned(), Bytes::from_static(b"2"))]);
}

/// The steps of a group apply in order, each takes one revision, and the last one's is returned.
pub async fn steps_of_a_group(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    assert_eq!(store.revision(), 0, "an empty store has revision 0");
    let mut delete = Step::default();
    delete.delete("/a");
    let group = [puts(&[("/a", "1"), ("/b", "1")]), delete, puts(&[("/b", "2")]), Step::default()];
    assert_eq!(commit(&*store, &held, &group).await, 4);
    assert_eq!(store.revision(), 4);
    assert_eq!(all(&*store, "", 10).await, [("/b".to_owned(), Bytes::from_static(b"2"))]);
    assert_eq!(commit(&*store, &held, &[puts(&[("/c", "3")])]).await, 5);
}

/// Values are bytes, whatever they look like.
pub async fn binary_values(site: &impl Site) {
    let every: Vec<u8> = (0..=255).collect();
    let store = site.open();
    let held = campaign(&*store).await;
    let mut step = Step::default();
    step.put("/every", every.clone());
    step.put("/zeros", vec![0; 4_096]);
    step.put("/käse/\u{1F9C0}", "keys are text");
    commit(&*store, &held, &[step]).await;
    assert_eq!(store.get("/every").await.expect("get"), Some(Bytes::from(every.clone())));
    drop((store, held));
    let store = site.open();
    assert_eq!(store.get("/every").await.expect("get"), Some(Bytes::from(every)));
    assert_eq!(store.get("/zeros").await.expect("get"), Some(Bytes::from(vec![0; 4_096])));
    assert_eq!(keys(&*store, "/k").await, ["/käse/\u{1F9C0}"]);
}
