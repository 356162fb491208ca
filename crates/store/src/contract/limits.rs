//! Promises about what is too large, and about what is just not.

use super::{Site, all, campaign, commit, keys, puts};
use crate::error::StoreError;
use crate::kv::{KEY_BYTES_MAX, STORED_BYTES_MAX, STORED_OPS_MAX, Step};

/// A step beyond a limit is refused, and nothing of its group is written.
pub async fn limits_refuse_and_change_nothing(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    commit(&*store, &held, &[puts(&[("/a", "1")])]).await;
    let mut many = Step::default();
    (0..=STORED_OPS_MAX).for_each(|n| many.put(format!("/many/{n}"), "x"));
    let mut large = Step::default();
    large.put("/large", vec![0; STORED_BYTES_MAX]);
    let mut long_key = Step::default();
    long_key.put(long(KEY_BYTES_MAX + 1), "x");
    let mut long_delete = Step::default();
    long_delete.delete(long(KEY_BYTES_MAX + 1));
    let mut no_key = Step::default();
    no_key.put("", "x");
    for (what, step) in [
        ("too many operations", many),
        ("too many bytes", large),
        ("a key that is too long", long_key),
        ("a deletion of a key that is too long", long_delete),
        ("an empty key", no_key),
    ] {
        let error = store.commit(&held, &[puts(&[("/b", "2")]), step]).await.expect_err(what);
        assert!(matches!(error, StoreError::TooLarge { .. } | StoreError::Misuse { .. }), "{what}: {error}");
        assert!(!error.outcome_unknown() && !error.retryable(), "{what}: the refusal is final and clean");
    }
    let error = store.commit(&held, &[]).await.expect_err("a commit without steps");
    assert!(matches!(error, StoreError::Misuse { .. }), "{error}");
    assert_eq!(store.revision(), 1, "a refusal takes no revision");
    assert_eq!(keys(&*store, "").await, ["/a"]);
    assert_eq!(commit(&*store, &held, &[puts(&[("/c", "3")])]).await, 2, "the store goes on after a refusal");
}

/// What is just within the limits is stored and found again after reopening.
pub async fn large_values(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    let long_key = long(KEY_BYTES_MAX);
    let mut large = Step::default();
    large.put("/large", vec![7; STORED_BYTES_MAX - "/large".len()]);
    let mut wide = Step::default();
    (0..STORED_OPS_MAX - 1).for_each(|n| wide.put(format!("/wide/{n:03}"), vec![1; 9_000]));
    wide.put(long_key.clone(), "x");
    commit(&*store, &held, &[large, wide]).await;
    drop((store, held));
    let store = site.open();
    let value = store.get("/large").await.expect("get").expect("the large value is there");
    assert_eq!(value.len(), STORED_BYTES_MAX - "/large".len());
    assert!(value.iter().all(|byte| *byte == 7));
    assert_eq!(all(&*store, "/wide/", 50).await.len(), STORED_OPS_MAX - 1);
    assert!(store.get(&long_key).await.expect("get").is_some());
}

fn long(bytes: usize) -> String {
    format!("/{}", "k".repeat(bytes - 1))
}
