//! Promises about keys that go away by themselves.

use std::time::Duration;

use super::{Site, campaign, commit, keys, puts};
use crate::claims::{Claim, Claimed, Held};
use crate::error::StoreError;
use crate::kv::Store;

/// Long enough for the slowest store, short enough to wait for.
const TTL: Duration = Duration::from_secs(2);

fn claim(key: &str, owner: &str, value: &str) -> Claim {
    Claim { key: key.into(), owner: owner.into(), value: value.to_owned().into(), ttl: TTL }
}

fn held(key: &str, owner: &str, value: &str) -> Held {
    Held { key: key.into(), owner: owner.into(), value: value.to_owned().into() }
}

async fn all(store: &dyn Store, prefix: &str) -> Vec<Held> {
    store.claims(prefix).await.expect("claims can be listed")
}

/// Whoever claims first has it until he gives it back; others see whose it is and change nothing.
pub async fn claims_have_one_owner(site: &impl Site) {
    let store = site.open();
    let make = async |wanted: Claim| store.claim(&wanted).await.expect("a claim of the right shape has an answer");
    assert_eq!(make(claim("/cell/a", "anna", "1")).await, Claimed::Mine);
    assert_eq!(make(claim("/cell/a", "bert", "2")).await, Claimed::Theirs(held("/cell/a", "anna", "1")));
    assert_eq!(make(claim("/cell/a", "anna", "3")).await, Claimed::Mine, "the owner says something else");
    assert_eq!(make(claim("/cell/a", "anna", "3")).await, Claimed::Mine, "the owner says the same again");
    assert_eq!(make(claim("/cell/b", "bert", "4")).await, Claimed::Mine);
    assert_eq!(make(claim("/node/a", "anna", "5")).await, Claimed::Mine);
    let cells = [held("/cell/a", "anna", "3"), held("/cell/b", "bert", "4")];
    assert_eq!(all(&*store, "/cell/").await, cells);
    assert_eq!(all(&*store, "").await.len(), 3);

    store.release("/cell/a", "bert").await.expect("giving back what is somebody else's does nothing");
    assert_eq!(all(&*store, "/cell/").await, cells);
    store.release("/cell/a", "anna").await.expect("the owner gives it back");
    store.release("/cell/a", "anna").await.expect("once more does nothing");
    assert_eq!(make(claim("/cell/a", "bert", "6")).await, Claimed::Mine);

    assert_eq!((store.revision(), keys(&*store, "").await.len()), (0, 0), "claims are no records");
    let master = campaign(&*store).await;
    assert_eq!(commit(&*store, &master, &[puts(&[("/cell/a", "a record")])]).await, 1);
    assert_eq!(all(&*store, "/cell/").await.len(), 2, "records are no claims");

    let too_short = Claim { ttl: Duration::from_millis(1), ..claim("/c", "anna", "") };
    for wrong in [claim("", "anna", ""), claim("/c", "", ""), claim(&"/c".repeat(1_000), "anna", ""), too_short] {
        let error = store.claim(&wrong).await.expect_err("a claim of the wrong shape is refused");
        assert!(matches!(error, StoreError::Misuse { .. } | StoreError::TooLarge { .. }), "{error}");
    }
}

/// A claim that is not renewed ends, and one that is goes on.
pub async fn claims_end_by_themselves(site: &impl Site) {
    let store = site.open();
    let lasting = claim("/lasting", "anna", "");
    for wanted in [&lasting, &claim("/passing", "anna", "")] {
        assert_eq!(store.claim(wanted).await.expect("claim"), Claimed::Mine);
    }
    // Stores look after what has ended in their own time, so this waits for the event rather than for a moment.
    for _ in 0..100 {
        tokio::time::sleep(TTL / 10).await;
        assert_eq!(store.claim(&lasting).await.expect("renew"), Claimed::Mine);
        if all(&*store, "").await.len() == 1 {
            assert_eq!(all(&*store, "").await[0].key, "/lasting");
            let wanted = claim("/passing", "bert", "");
            assert_eq!(store.claim(&wanted).await.expect("claim"), Claimed::Mine, "what has ended is free");
            return;
        }
    }
    panic!("a claim that nobody renews does not end");
}
