//! A commit is carried out once, however often its answer is lost.

use std::sync::Arc;
use std::time::Duration;

use rig::etcd::Cluster;
use rig::proxy::Proxy;
use store::etcd::{Etcd, Options};
use store::{Mastership, Store, StoreError};

use super::{LEASE, LONG_LEASE, Lines, open, options, put, soon, three};

const COMMITS: u64 = 300;

/// Each commit appends its number to a list, as somebody who loads, changes and writes does: the list shows what was left
/// out and what was done twice. The mastership comes back, because dropping it would give it up.
async fn append_all(store: Arc<Etcd>, held: Mastership, from: u64) -> Result<Mastership, (u64, StoreError)> {
    let mut list = numbers(1..from);
    for number in from..from + COMMITS {
        list.push_str(&format!("{number} "));
        match store.commit(&held, &put("/list", list.clone())).await {
            Ok(revision) => assert_eq!(revision, number, "revisions have no hole and never repeat"),
            Err(error) => return Err((number, error)),
        }
    }
    Ok(held)
}

fn numbers(range: std::ops::Range<u64>) -> String {
    range.map(|number| format!("{number} ")).collect()
}

/// The record and the number of times it was changed, as etcd counted them.
fn history(cluster: &Cluster) -> (String, u64) {
    let found = cluster.ctl(&["get", "/corkboard/board/list", "--write-out=fields"]);
    let field =
        |name: &str| found.lines().find_map(|line| line.strip_prefix(&format!("\"{name}\" : "))).unwrap().to_owned();
    (field("Value").trim_matches('"').to_owned(), field("Version").parse().unwrap())
}

fn check_all(cluster: &Cluster, commits: u64) {
    assert_eq!(history(cluster), (numbers(1..commits + 1), commits));
    assert_eq!(cluster.ctl(&["get", "/corkboard/board", "--print-value-only"]).trim(), commits.to_string());
}

/// Breaks the lines until the commits are done.
async fn with_broken_lines(
    lines: &Lines,
    seed: u64,
    commits: tokio::task::JoinHandle<Result<Mastership, (u64, StoreError)>>,
) -> u64 {
    let (mut state, mut broken) = (seed, 0);
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    while !commits.is_finished() {
        let line = &lines.0[usize::try_from(random(3)).unwrap()];
        let harm = [Proxy::cut, Proxy::refuse][usize::try_from(random(2)).unwrap()];
        tokio::time::sleep(Duration::from_millis(random(40))).await;
        harm(line);
        tokio::time::sleep(Duration::from_millis(random(60))).await;
        line.heal();
        broken += 1;
    }
    soon("the commits end", commits).await.unwrap().unwrap();
    broken
}

#[tokio::test(flavor = "multi_thread")]
async fn through_lines_that_break() {
    let cluster = three();
    let lines = Lines::to(&cluster);
    let store = open(Options { lease: LONG_LEASE, ..lines.options(&cluster) }).await;
    let held = store.campaign("a").await.unwrap();
    let broken = with_broken_lines(&lines, 7, tokio::spawn(append_all(store.clone(), held, 1))).await;
    eprintln!("lines broken {broken} times");
    check_all(&cluster, COMMITS);
}

/// What is done to the cluster, and undone, while commits run.
async fn check_harm(lease: Duration, harm: impl AsyncFnOnce(&Cluster, &Etcd)) {
    let cluster = three();
    let store = open(Options { lease, ..options(&cluster) }).await;
    let held = store.campaign("a").await.unwrap();
    let commits = tokio::spawn(append_all(store.clone(), held, 1));
    soon("some commits", async {
        while store.revision() < 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    harm(&cluster, &store).await;
    let _held = soon("the commits end", commits).await.unwrap().unwrap();
    cluster.wait_until_ready(Duration::from_secs(20));
    check_all(&cluster, COMMITS);
    soon("the mastership outlasts it", async {
        while !store.standing().is_certain() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn through_the_death_of_the_leader() {
    check_harm(LONG_LEASE, async |cluster, _| {
        let leader = cluster.leader();
        cluster.kill(leader);
        cluster.leader();
        cluster.restart(leader);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn through_members_that_hang() {
    check_harm(LONG_LEASE, async |cluster, _| {
        // The first is the one that is asked; the second may be the leader, or not.
        for member in 0..2 {
            cluster.pause(member);
            tokio::time::sleep(Duration::from_millis(700)).await;
            cluster.resume(member);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn through_the_loss_of_the_majority() {
    // Without a majority nothing ends in etcd, leases neither. The master cannot know that, and doubts; but it comes back.
    check_harm(LEASE, async |cluster, store| {
        cluster.kill(0);
        cluster.kill(1);
        soon("doubt", async {
            while store.standing().is_certain() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        cluster.restart(0);
        cluster.restart(1);
    })
    .await;
}
