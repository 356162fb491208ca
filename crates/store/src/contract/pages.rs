//! Promises about scans and their pages.

use super::{Site, all, campaign, commit, keys, puts};
use crate::kv::{PAGE_BYTES_MAX, Step};

/// A scan gives records in the order of their keys' bytes, however they were written, in pages of any size.
pub async fn scan_order(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    let mut expected: Vec<String> = (0..500).map(|n| format!("/k/{}", (n * 7919) % 500)).collect();
    for chunk in expected.chunks(50) {
        let mut step = Step::default();
        chunk.iter().for_each(|key| step.put(key.clone(), key.clone()));
        commit(&*store, &held, &[step]).await;
    }
    expected.sort();
    for limit in [1, 7, 499, 500, 501] {
        let records = all(&*store, "/k/", limit).await;
        assert!(records.iter().map(|(key, _)| key).eq(&expected), "pages of {limit} give all records in order");
        assert!(records.iter().all(|(key, value)| key.as_bytes() == value), "every key comes with its own value");
    }
}

/// `next` says exactly whether something follows, and `after` need not be a key that exists.
pub async fn page_edges(site: &impl Site) {
    let store = site.open();
    let empty = store.scan("", None, 10).await.expect("scan");
    assert!(empty.records.is_empty() && empty.next.is_none(), "an empty store has one empty page");
    let held = campaign(&*store).await;
    commit(&*store, &held, &[puts(&[("/a", "1"), ("/b", "2"), ("/c", "3")])]).await;
    let page = async |after: Option<&str>, limit| {
        let page = store.scan("/", after, limit).await.expect("scan");
        let keys: Vec<String> = page.records.into_iter().map(|(key, _)| key).collect();
        (keys.concat(), page.next)
    };
    assert_eq!(page(None, 2).await, ("/a/b".into(), Some("/b".into())));
    assert_eq!(page(Some("/b"), 2).await, ("/c".into(), None));
    assert_eq!(page(None, 3).await, ("/a/b/c".into(), None), "a page that ends with the last record has no next");
    assert_eq!(page(Some("/aa"), 1).await, ("/b".into(), Some("/b".into())), "`after` need not exist");
    assert_eq!(page(Some("/c"), 5).await, (String::new(), None));
    assert_eq!(page(Some("!"), 5).await, ("/a/b/c".into(), None), "`after` before the prefix starts at the prefix");
    assert_eq!(page(Some("0"), 5).await, (String::new(), None), "`after` behind the prefix finds nothing");
    assert_eq!(page(None, 0).await, ("/a".into(), Some("/a".into())), "a limit of 0 counts as 1");
}

/// A prefix is a prefix of the text, not of path elements, and the empty one is everything.
pub async fn prefixes(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    let step =
        puts(&[("/a", "1"), ("/a/x", "2"), ("/a0", "3"), ("/ab", "4"), ("/ab/x", "5"), ("/b", "6"), ("/z", "7")]);
    commit(&*store, &held, &[step]).await;
    assert_eq!(keys(&*store, "/a").await, ["/a", "/a/x", "/a0", "/ab", "/ab/x"]);
    assert_eq!(keys(&*store, "/a/").await, ["/a/x"]);
    assert_eq!(keys(&*store, "/ab").await, ["/ab", "/ab/x"]);
    assert_eq!(keys(&*store, "/c").await, [""; 0]);
    assert_eq!(keys(&*store, "").await.len(), 7);
}

/// A page stays below its limit in bytes, but a single record always fits.
pub async fn pages_are_bounded_in_bytes(site: &impl Site) {
    let store = site.open();
    let held = campaign(&*store).await;
    let record_bytes = 1_000_000;
    for n in 0..6 {
        let mut step = Step::default();
        step.put(format!("/{n}"), vec![n; record_bytes]);
        commit(&*store, &held, &[step]).await;
    }
    let page = store.scan("", None, usize::MAX).await.expect("scan");
    assert_eq!(page.records.len(), PAGE_BYTES_MAX / record_bytes, "a page is filled, and no more");
    assert_eq!(page.next.as_deref(), Some("/3"));
    assert_eq!(all(&*store, "", 100).await.len(), 6);
}
