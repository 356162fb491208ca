//! Claims between two nodes: one owner at a time, seen by the other, gone with him.

use std::time::Duration;

use store::{Claim, Claimed, Held, Store};
use tokio::time::Instant;

use super::{Lines, one, open, options, soon, three};

const TTL: Duration = Duration::from_secs(2);

fn claim(key: &str, owner: &str, value: &str) -> Claim {
    Claim { key: key.into(), owner: owner.into(), value: value.to_owned().into(), ttl: TTL }
}

fn held(key: &str, owner: &str, value: &str) -> Held {
    Held { key: key.into(), owner: owner.into(), value: value.to_owned().into() }
}

/// How much was written to etcd's log.
fn entries(cluster: &rig::etcd::Cluster) -> u64 {
    let status = cluster.ctl_on(0, &["endpoint", "status", "--write-out=fields"]);
    status.lines().find_map(|line| line.strip_prefix("\"RaftIndex\" : ")).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_one_owners_while_he_renews_it() {
    let cluster = three();
    let (a, b) = (open(options(&cluster)).await, open(options(&cluster)).await);
    let mine = claim("/nodes/x", "a", "1");
    assert_eq!(a.claim(&mine).await.unwrap(), Claimed::Mine);
    let begun = Instant::now();
    let before = entries(&cluster);
    let mut refused = 0;
    while begun.elapsed() < 2 * TTL {
        assert_eq!(b.claim(&claim("/nodes/x", "b", "2")).await.unwrap(), Claimed::Theirs(held("/nodes/x", "a", "1")));
        assert_eq!(a.claim(&mine).await.unwrap(), Claimed::Mine);
        refused += 1;
        tokio::time::sleep(TTL / 10).await;
    }
    // A lease that is granted is an entry in etcd's log, and one that is given back is another.
    let written = entries(&cluster) - before;
    assert!(refused > 10 && written < refused, "{refused} refusals and renewals wrote {written} times");
    assert_eq!(a.claim(&claim("/nodes/x", "a", "3")).await.unwrap(), Claimed::Mine);
    assert_eq!(b.claims("/nodes/").await.unwrap(), [held("/nodes/x", "a", "3")]);
    b.release("/nodes/x", "b").await.unwrap();
    assert_eq!(b.claims("/nodes/").await.unwrap().len(), 1, "who does not own it does not end it");

    drop(a);
    let begun = Instant::now();
    soon("the claim ends with its owner", async {
        while b.claim(&claim("/nodes/x", "b", "4")).await.unwrap() != Claimed::Mine {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    eprintln!("the claim of an owner that is gone ended after {:?}", begun.elapsed());
    b.release("/nodes/x", "b").await.unwrap();
    assert_eq!(b.claims("").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_was_cut_off_learns_that_it_is_somebody_elses() {
    let cluster = one();
    let lines = Lines::to(&cluster);
    let (a, b) = (open(lines.options(&cluster)).await, open(options(&cluster)).await);
    let mine = claim("/nodes/x", "a", "1");
    assert_eq!(a.claim(&mine).await.unwrap(), Claimed::Mine);
    lines.refuse();
    assert!(a.claim(&mine).await.unwrap_err().retryable());
    lines.heal();
    assert_eq!(a.claim(&mine).await.unwrap(), Claimed::Mine, "the line was back in time");
    lines.cut();
    soon("the claim ends", async {
        while b.claim(&claim("/nodes/x", "b", "2")).await.unwrap() != Claimed::Mine {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    lines.heal();
    let theirs = Claimed::Theirs(held("/nodes/x", "b", "2"));
    assert_eq!(soon("an answer", a.claim(&mine)).await.unwrap(), theirs);
    a.release("/nodes/x", "a").await.unwrap();
    assert_eq!(a.claims("").await.unwrap(), [held("/nodes/x", "b", "2")]);
}
