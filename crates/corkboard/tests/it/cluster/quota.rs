//! An etcd that is full: reads go on, writes say what helps, and once somebody has made room they go on too.

use std::process::Command;

use api::client::{Client, ClientError};
use rig::etcd::Options;
use tokio::time::Instant;

use super::clients::{Act, Crowd, LONELY, Met, register};
use super::nodes::{LEASE, Nodes, Plan};
use super::verdict;
use crate::durability::dice::Dice;
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE};

const QUOTA_BYTES: u64 = 4 * 1024 * 1024;
/// As much as fits on a command line.
const VALUE_BYTES: usize = 100_000;
const VALUES_MAX: usize = 100;
/// What crosses the limit may have been carried out all the same, which shows only now and then.
const ROUNDS: usize = 3;
const CALLS_BETWEEN: u64 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_takes_no_writes_and_says_what_helps() {
    let mut dice = Dice::from_environment();
    let etcd = Options { quota_bytes: Some(QUOTA_BYTES), ..Options::default() };
    let mut nodes = Nodes::start(Plan { etcd, ..Plan::default() }).await;
    let crowd = Crowd::start(&mut nodes, &mut dice).await;
    for round in 0..ROUNDS {
        crowd.more(CALLS_BETWEEN).await;
        check_round(&mut nodes, &crowd, round == 0).await;
    }
    verdict::check(nodes, crowd).await;
}

async fn check_round(nodes: &mut Nodes, crowd: &Crowd, is_long: bool) {
    let master = nodes.master().await;
    let epoch = nodes.epoch_now(master);
    let client = nodes.client(master, PATIENCE);
    fill(nodes);
    let refusal = first_refusal(crowd, master, &client).await;
    for word in ["nothing acknowledged is lost", "etcdctl compact", "etcdctl defrag", "etcdctl alarm disarm"] {
        assert!(refusal.to_lowercase().contains(word), "{refusal}");
    }
    let since = Instant::now();
    let full_for = if is_long { LEASE * 3 } else { LEASE / 4 };
    while since.elapsed() < full_for {
        let read = crowd.book.call(LONELY, (master, &client), &register(1), Act::Read).await;
        assert!(matches!(read, Met::Saw(Some(_))), "reads go on: {read:?}\n{}", nodes.logs());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    make_room(nodes);
    let since = Instant::now();
    while !matches!(write(crowd, master, &client).await, Met::Done) {
        assert!(since.elapsed() < PATIENCE, "writes do not go on\n{}", nodes.logs());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let now = nodes.master().await;
    assert_eq!((now, nodes.epoch_now(now)), (master, epoch), "the master stayed master\n{}", nodes.logs());
}

async fn write(crowd: &Crowd, at: usize, client: &Client) -> Met {
    crowd.book.call(LONELY, (at, client), &register(1), Act::Update(crowd.book.fresh())).await
}

async fn first_refusal(crowd: &Crowd, at: usize, client: &Client) -> String {
    let since = Instant::now();
    loop {
        match write(crowd, at, client).await {
            Met::Done => tokio::time::sleep(LOOK_AGAIN).await,
            Met::Failed(ClientError::Status { status: 503, body, .. }) => return body,
            other => panic!("a full store is told with 503, not with {other:?}"),
        }
        assert!(since.elapsed() < PATIENCE, "etcd takes more and more");
    }
}

/// Somebody else's keys, until etcd takes no more.
fn fill(nodes: &Nodes) {
    let value = "x".repeat(VALUE_BYTES);
    for number in 0..VALUES_MAX {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", nodes.etcd.endpoint(0)));
        let put = command.args(["put", &format!("foreign/{number}"), &value]).output().unwrap();
        if !put.status.success() {
            let said = String::from_utf8_lossy(&put.stderr).into_owned();
            assert!(said.contains("database space exceeded"), "{said}");
            return;
        }
    }
    panic!("{VALUES_MAX} values of {VALUE_BYTES} bytes fit below {QUOTA_BYTES}");
}

/// What the message says, after the keys that are in the way are gone.
fn make_room(nodes: &Nodes) {
    nodes.etcd.ctl(&["del", "--prefix", "foreign/"]);
    let status: serde_json::Value =
        serde_json::from_str(&nodes.etcd.ctl(&["endpoint", "status", "--write-out=json"])).unwrap();
    let revision = status[0]["Status"]["header"]["revision"].as_u64().unwrap();
    nodes.etcd.ctl(&["compact", &revision.to_string()]);
    nodes.etcd.ctl(&["defrag"]);
    nodes.etcd.ctl(&["alarm", "disarm"]);
}
