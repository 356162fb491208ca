//! One master at a time, also in the eyes of the one that was cut off; and the next one waits no longer than it must.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rig::etcd::Cluster;
use store::etcd::{Etcd, Options};
use store::{Mastership, Store, StoreError};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{LONG_LEASE, Lines, one, open, options, put, soon, three, write};

const ROUNDS: u64 = 3;

/// A campaign that has seen that somebody else is master.
async fn waiting(store: &Arc<Etcd>, node: &'static str) -> JoinHandle<(Mastership, Instant)> {
    let store = store.clone();
    let campaign = tokio::spawn(async move { (store.campaign(node).await.unwrap(), Instant::now()) });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!campaign.is_finished());
    campaign
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_master_as_soon_as_the_other_gives_up() {
    let cluster = three();
    let patient = Options { lease: LONG_LEASE, ..options(&cluster) };
    let (a, b) = (open(patient.clone()).await, open(patient).await);
    let held = a.campaign("a").await.unwrap();
    assert_eq!(write(&a, &held, "/x", "1").await.unwrap(), 1);
    assert_eq!(b.holder().await.unwrap().as_deref(), Some("a"));
    // What was overwritten before is forgotten, the making of the election key with it.
    write(&a, &held, "/x", "2").await.unwrap();
    a.forget_superseded().await.unwrap();
    let next = waiting(&b, "b").await;
    let begun = Instant::now();
    let standing = a.standing();
    a.resign(held).await.unwrap();
    let (held, since) = soon("the next master", next).await.unwrap();
    eprintln!("resigned: {:?}", since - begun);
    assert!(!standing.is_certain() && !a.standing().is_certain(), "who gave it up is not master");
    soon("the end of the standing", a.standing().lost()).await;
    assert!(b.standing().is_certain());
    assert_eq!((b.revision(), write(&b, &held, "/x", "3").await.unwrap()), (2, 3));

    let next = waiting(&a, "a").await;
    let begun = Instant::now();
    drop(held);
    drop(b);
    let (held, since) = soon("the next master", next).await.unwrap();
    eprintln!("dropped: {:?}", since - begun);
    assert_eq!(write(&a, &held, "/x", "4").await.unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_is_given_up_leaves_nothing_behind() {
    let cluster = one();
    let lines = Lines::to(&cluster);
    let a = open(Options { lease: LONG_LEASE, ..lines.options(&cluster) }).await;
    lines.0[0].delay(Duration::from_millis(100));
    // At every moment of it, the last being when it is over.
    for after_ms in (100..=1_000).step_by(100) {
        let campaign = tokio::time::timeout(Duration::from_millis(after_ms), a.campaign("a")).await;
        drop(campaign);
    }
    let b = open(options(&cluster)).await;
    soon("the next master, without waiting for a long lease", b.campaign("b")).await.unwrap();
}

/// Commits until one fails, and says how many succeeded and how the last one ended.
async fn committing(store: Arc<Etcd>, held: Mastership, round: u64) -> (u64, StoreError) {
    for done in 0.. {
        if let Err(error) = write(&store, &held, &format!("/{round}/{done:06}"), "x").await {
            return (done, error);
        }
    }
    unreachable!("there is always another number")
}

/// Doubts come before there is another master, and never go away again.
async fn check_deposed(
    cluster: &Cluster,
    a: &Arc<Etcd>,
    b: &Arc<Etcd>,
    round: u64,
    cut: impl FnOnce(),
    heal: impl FnOnce(),
) {
    let order = Arc::new(AtomicU64::new(0));
    let held = soon("a is master", a.campaign("a")).await.unwrap();
    let standing = a.standing();
    assert!(standing.is_certain());
    let commits = tokio::spawn(committing(a.clone(), held, round));
    let next = waiting(b, "b").await;
    assert!(standing.is_certain() && !commits.is_finished());
    // A pause that differs, so that it comes at any moment of a commit and of a renewal.
    tokio::time::sleep(Duration::from_millis(137 * (round + 1))).await;
    cut();
    let doubt = tokio::spawn({
        let (standing, order) = (standing.clone(), order.clone());
        async move {
            while standing.is_certain() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            order.fetch_add(1, Ordering::SeqCst)
        }
    });
    let (held, _) = soon("b is master", next).await.unwrap();
    let taken = order.fetch_add(1, Ordering::SeqCst);
    assert!(soon("doubt", doubt).await.unwrap() < taken, "two masters at once in round {round}");
    assert!(!commits.is_finished(), "a commit that nobody confirmed has not ended");
    let before = b.revision();
    write(b, &held, &format!("/{round}/b"), "x").await.unwrap();
    heal();
    let lost = standing.lost();
    tokio::pin!(lost);
    while tokio::time::timeout(Duration::from_millis(1), &mut lost).await.is_err() {
        assert!(!standing.is_certain(), "there is another master");
    }
    let (confirmed, error) = soon("the commits end", commits).await.unwrap();
    assert!(matches!(error, StoreError::NotMaster) || error.outcome_unknown(), "{error}");
    let found = cluster.ctl(&["get", "--prefix", "--keys-only", &format!("/corkboard/board/{round}/0")]);
    let found = u64::try_from(found.lines().filter(|line| !line.is_empty()).count()).unwrap();
    assert!(found == confirmed || (error.outcome_unknown() && found == confirmed + 1), "{found} of {confirmed}");
    assert_eq!(write(b, &held, &format!("/{round}/b"), "y").await.unwrap(), before + 2);
    b.resign(held).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_cut_off_knows_it_before_there_is_another() {
    let cluster = three();
    let lines = Lines::to(&cluster);
    let (a, b) = (open(lines.options(&cluster)).await, open(options(&cluster)).await);
    for round in 0..ROUNDS {
        check_deposed(&cluster, &a, &b, round, || lines.cut(), || lines.heal()).await;
    }
}

/// A leader that wakes up does not know yet that it was replaced, and renews leases that have ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_believes_no_leader_that_slept() {
    let cluster = three();
    let b = open(options(&cluster)).await;
    for round in 0..ROUNDS {
        let leader = cluster.leader();
        let a = open(Options { endpoints: vec![cluster.endpoint(leader)], ..options(&cluster) }).await;
        check_deposed(&cluster, &a, &b, round, || cluster.pause(leader), || cluster.resume(leader)).await;
        cluster.wait_until_ready(Duration::from_secs(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_away_by_hand_is_noticed_at_once() {
    let cluster = one();
    let lines = Lines::to(&cluster);
    let a = open(Options { lease: LONG_LEASE, ..lines.options(&cluster) }).await;

    let held = a.campaign("a").await.unwrap();
    let standing = a.standing();
    cluster.ctl(&["del", "/corkboard/master"]);
    eprintln!("{}", soon("the key is missed", standing.lost()).await);
    assert!(matches!(write(&a, &held, "/x", "1").await, Err(StoreError::NotMaster)));

    let _held = a.campaign("a").await.unwrap();
    let standing = a.standing();
    let leases = cluster.ctl(&["lease", "list"]);
    for lease in leases.lines().skip(1) {
        cluster.ctl(&["lease", "revoke", lease]);
    }
    eprintln!("{}", soon("the lease is missed", standing.lost()).await);

    // Long in office, everything before forgotten, and the line broken once.
    let held = a.campaign("a").await.unwrap();
    for n in 0..300 {
        write(&a, &held, "/x", &n.to_string()).await.unwrap();
    }
    a.forget_superseded().await.unwrap();
    lines.refuse();
    lines.heal();
    write(&a, &held, "/x", "again").await.unwrap();
    let standing = a.standing();
    assert!(standing.is_certain());
    cluster.ctl(&["del", "/corkboard/master"]);
    eprintln!("{}", soon("the key is missed", standing.lost()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_who_writes_is_noticed() {
    let cluster = one();
    let a = open(options(&cluster)).await;
    let held = a.campaign("a").await.unwrap();
    let mut following = a.follow().await.unwrap().unwrap();
    write(&a, &held, "/x", "1").await.unwrap();
    soon("the change", following.changes.recv()).await.unwrap().unwrap();
    cluster.ctl(&["put", "/corkboard/board", "7"]);
    soon("the change", following.changes.recv()).await.unwrap().unwrap();
    let error = write(&a, &held, "/x", "2").await.unwrap_err();
    assert!(error.to_string().contains("somebody else writes to the store"), "{error}");
    soon("the standing is lost", a.standing().lost()).await;
    assert_eq!(a.get("/x").await.unwrap().unwrap(), "1");
    let error = a.commit(&held, &put("/x", "3")).await.unwrap_err();
    assert!(matches!(error, StoreError::NotMaster), "{error}");
}
