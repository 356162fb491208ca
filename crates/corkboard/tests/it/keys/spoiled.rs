//! A record that no key opens: found, named, in the way, and decided about by an operator.

use store::{Step, Store, Version};

use super::site::Site;
use crate::program::TASK;

/// Flips one bit of a sealed task and gives its id.
async fn spoil(site: &Site) -> String {
    let store = site.store();
    let held = store.campaign("test").await.unwrap();
    let page = store.scan(&format!("{}task", Version::LATEST.root()), None, 1).await.unwrap();
    let (id, value) = page.records.into_iter().next().unwrap();
    let mut value = value.to_vec();
    assert!(value.starts_with(b"0007A:"), "it is sealed");
    *value.last_mut().unwrap() ^= 1;
    let mut step = Step::default();
    step.put(id.as_str(), value);
    store.commit(&held, &[step]).await.unwrap();
    store.resign(held).await.unwrap();
    id
}

#[tokio::test]
async fn a_damaged_record_keeps_its_key_until_somebody_decides() {
    let site = Site::new();
    site.use_keys(&["A"]);
    let server = site.start();
    server.done(&["create-task", TASK]);
    server.done(&["set-domain", "demo"]);
    server.settled();
    server.stop();
    let id = spoil(&site).await;

    let verified = site.alone(&["keys", "verify"]);
    assert_eq!(verified.code, 7, "{verified:?}");
    assert!(
        verified.stdout.contains(&format!("\nCannot be opened:\n  {id}: the record is sealed with key A")),
        "{verified:?}"
    );
    site.use_keys(&["B", "A"]);
    let rotated = site.alone(&["keys", "rotate"]);
    assert_eq!(rotated.code, 12, "{rotated:?}");
    assert!(rotated.stdout.starts_with("Encryption at rest: BLOCKED\n"), "{rotated:?}");

    let server = site.start();
    let status = server.call(&["keys", "status", "--watch"]);
    assert_eq!(status.code, 12, "{status:?}");
    let status = server.call(&["keys", "status"]).stdout;
    let blocked = status.split_once("\n  blocked by: ").unwrap().1;
    let id = blocked.lines().next().unwrap();
    let command = format!("corkboard quarantine discard '{id}'");
    assert!(status.contains(&command), "{status}");
    assert!(!status.contains("safe to remove"), "{status}");
    let verified = server.call(&["keys", "verify"]);
    assert!(verified.code == 7 && verified.stdout.contains("1 of "), "{verified:?}");
    server.done(&["quarantine", "show", id]);
    server.done(&["quarantine", "discard", id, "--yes"]);
    server.done(&["keys", "rotate", "--watch"]);
    let status = server.done(&["keys", "status"]);
    assert!(status.contains("\n  A: 0 records, safe to remove\n"), "{status}");
    server.stop();
}
