//! Whoever follows hears of everything, in order and whole, whatever happens to the lines and the members.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use store::etcd::Options;
use store::{Change, Following, Op, STORED_BYTES_MAX, STORED_OPS_MAX, Step, Store, StoreError};
use tokio::time::Instant;

use super::{LONG_LEASE, Lines, all_records, one, open, options, put, soon, three, write};

/// The board as whoever follows has it.
#[derive(Default)]
struct Copy {
    records: BTreeMap<String, Bytes>,
    revision: u64,
}

impl Copy {
    fn apply(&mut self, change: Change) {
        assert!(change.revision > self.revision, "{} after {}", change.revision, self.revision);
        self.revision = change.revision;
        for op in change.ops {
            match op {
                Op::Put { key, value } => drop(self.records.insert(key, value)),
                Op::Delete { key } => drop(self.records.remove(&key)),
            }
        }
    }

    async fn catch_up(&mut self, following: &mut Following, revision: u64) {
        while self.revision < revision {
            let change = soon("a change", following.changes.recv()).await.unwrap().unwrap();
            self.apply(change);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_through_lines_that_break_and_members_that_die() {
    let cluster = three();
    let lines = Lines::to(&cluster);
    let (a, b) = (open(Options { lease: LONG_LEASE, ..options(&cluster) }).await, open(lines.options(&cluster)).await);
    let held = a.campaign("a").await.unwrap();
    let mut following = b.follow().await.unwrap().unwrap();
    let mut copy = Copy::default();
    for n in 0..120_u32 {
        // Every step has two records that belong together, and some take one back.
        let mut step = Step::default();
        step.put(format!("/l/{}", n % 7), n.to_string());
        step.put(format!("/r/{}", n % 7), n.to_string());
        if n % 5 == 0 {
            step.delete(format!("/l/{}", (n + 1) % 7));
            step.delete(format!("/r/{}", (n + 1) % 7));
        }
        a.commit(&held, &[step]).await.unwrap();
        match n % 40 {
            10 => lines.cut(),
            15 => lines.heal(),
            20 => lines.refuse(),
            25 => lines.heal(),
            _ => {}
        }
        if n == 60 {
            let leader = cluster.leader();
            cluster.kill(leader);
            cluster.restart(leader);
        }
    }
    while copy.revision < a.revision() {
        let change = soon("a change", following.changes.recv()).await.unwrap().unwrap();
        copy.apply(change);
        for n in 0..7 {
            let (left, right) = (copy.records.get(&format!("/l/{n}")), copy.records.get(&format!("/r/{n}")));
            assert_eq!(left, right, "half a step at revision {}", copy.revision);
        }
    }
    assert_eq!((copy.revision, b.revision()), (120, 120));
    assert_eq!(copy.records.into_iter().collect::<Vec<_>>(), all_records(&a).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_hangs_is_left_soon() {
    let cluster = three();
    let (a, b) = (open(Options { lease: LONG_LEASE, ..options(&cluster) }).await, open(options(&cluster)).await);
    let held = a.campaign("a").await.unwrap();
    let mut following = b.follow().await.unwrap().unwrap();
    let mut copy = Copy::default();
    write(&a, &held, "/x", "1").await.unwrap();
    copy.catch_up(&mut following, 1).await;
    // Both talk to the first member.
    cluster.pause(0);
    write(&a, &held, "/x", "2").await.unwrap();
    let begun = Instant::now();
    copy.catch_up(&mut following, 2).await;
    let took = begun.elapsed();
    eprintln!("the change came after {took:?}");
    assert!(cluster.is_running(0) && took < Duration::from_secs(6), "{took:?}, with the member still hanging");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_changes_and_many_of_them_at_once() {
    let cluster = one();
    let lines = Lines::to(&cluster);
    let (a, b) = (open(Options { lease: LONG_LEASE, ..options(&cluster) }).await, open(lines.options(&cluster)).await);
    let held = a.campaign("a").await.unwrap();
    let mut following = b.follow().await.unwrap().unwrap();
    let mut copy = Copy::default();
    let mut full = Step::default();
    let share = STORED_BYTES_MAX / STORED_OPS_MAX - 10;
    (0..STORED_OPS_MAX).for_each(|n| full.put(format!("/full/{n:03}"), vec![7; share]));
    a.commit(&held, &[full.clone()]).await.unwrap();
    let change = soon("a change", following.changes.recv()).await.unwrap().unwrap();
    assert_eq!((change.revision, change.ops.len()), (1, STORED_OPS_MAX));
    copy.apply(change);
    // More than one answer can hold is waiting when the line is there again.
    lines.refuse();
    for n in 0..60_u8 {
        full.ops.truncate(STORED_OPS_MAX - 1);
        full.put("/full/126", vec![n; share]);
        a.commit(&held, &[full.clone()]).await.unwrap();
    }
    lines.heal();
    while copy.revision < 61 {
        let change = soon("a change", following.changes.recv()).await.unwrap().unwrap();
        assert_eq!((change.revision, change.ops.len()), (copy.revision + 1, STORED_OPS_MAX));
        copy.apply(change);
    }
    assert_eq!(copy.records.into_iter().collect::<Vec<_>>(), all_records(&a).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_listen_can_still_read() {
    let cluster = one();
    let (a, b) = (open(Options { lease: LONG_LEASE, ..options(&cluster) }).await, open(options(&cluster)).await);
    let held = a.campaign("a").await.unwrap();
    let mut following = b.follow().await.unwrap().unwrap();
    for n in 1..=160 {
        write(&a, &held, "/x", &n.to_string()).await.unwrap();
    }
    for _ in 0..20 {
        a.commit(&held, &put("/large", vec![1; STORED_BYTES_MAX - 10])).await.unwrap();
    }
    for _ in 0..5 {
        let read = tokio::time::timeout(Duration::from_secs(2), b.get("/large")).await;
        assert_eq!(read.expect("a read is not held up").unwrap().unwrap().len(), STORED_BYTES_MAX - 10);
    }
    let mut copy = Copy::default();
    copy.catch_up(&mut following, 180).await;
    drop(b);
    assert!(soon("the end", following.changes.recv()).await.is_none(), "it ends with its store");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_etcd_has_forgotten_is_said() {
    let cluster = one();
    let lines = Lines::to(&cluster);
    let (a, b) = (open(Options { lease: LONG_LEASE, ..options(&cluster) }).await, open(lines.options(&cluster)).await);
    let held = a.campaign("a").await.unwrap();
    let mut following = b.follow().await.unwrap().unwrap();
    write(&a, &held, "/x", "1").await.unwrap();
    Copy::default().catch_up(&mut following, 1).await;
    lines.refuse();
    for n in 2..9 {
        write(&a, &held, "/x", &n.to_string()).await.unwrap();
    }
    a.forget_superseded().await.unwrap();
    a.commit(&held, &put("/x", "9")).await.unwrap();
    lines.heal();
    let error = soon("an end", following.changes.recv()).await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Compacted) && error.retryable(), "{error}");
    assert!(soon("the end", following.changes.recv()).await.is_none());
    let mut again = b.follow().await.unwrap().unwrap();
    assert_eq!((b.revision(), b.get("/x").await.unwrap().unwrap()), (9, Bytes::from("9")));
    write(&a, &held, "/x", "10").await.unwrap();
    let told = soon("a change", again.changes.recv()).await.unwrap().unwrap();
    assert_eq!(told, Change { revision: 10, ops: vec![Op::Put { key: "/x".into(), value: "10".into() }] });
}
