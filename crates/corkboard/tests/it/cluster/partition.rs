//! A master that is cut off from etcd answers nobody before the next one serves.
//!
//! The lines between nodes and members are cut, not those between clients and nodes: whoever asks the old master reaches it.
//! Network namespaces were not taken here, because what runs in one cannot reach members that listen on the machine's own
//! loopback; keep-alives, which a cut line answers for the other side, play no part in this.

use std::time::Duration;

use api::client::ClientError;
use rig::etcd::Options;
use tokio::time::Instant;

use super::clients::{Act, Crowd, LONELY, Met, register};
use super::nodes::{LEASE, Nodes, Plan};
use super::{say, verdict};
use crate::durability::dice::Dice;

const ROUNDS: usize = 3;
const CALLS_BETWEEN: u64 = 100;
/// How long a reader waits for the old master, which should not let anybody wait.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_cut_off_falls_silent_before_the_next_one_speaks() {
    let mut dice = Dice::from_environment();
    let mut nodes = Nodes::start(Plan { has_lines: true, ..Plan::default() }).await;
    let crowd = Crowd::start(&mut nodes, &mut dice).await;
    for _ in 0..ROUNDS {
        crowd.more(CALLS_BETWEEN).await;
        let old = nodes.master().await;
        nodes.node(old).lines.iter().for_each(|line| line.cut());
        check_silence(&mut nodes, &crowd, old).await;
        nodes.node(old).lines.iter().for_each(|line| line.heal());
        nodes.deposed(old).await;
        nodes.restart(old);
    }
    verdict::check(nodes, crowd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_is_enough_while_it_belongs_to_the_majority() {
    let mut dice = Dice::from_environment();
    let etcd = Options { members: 3, ..Options::default() };
    let mut nodes = Nodes::start(Plan { etcd, has_lines: true, ..Plan::default() }).await;
    let crowd = Crowd::start(&mut nodes, &mut dice).await;
    let old = nodes.master().await;
    let only = nodes.etcd.leader();
    let epoch = nodes.epoch_now(old);
    for (member, line) in nodes.node(old).lines.iter().enumerate() {
        if member != only {
            line.refuse();
        }
    }
    // It may take the mastership to notice whom to ask; from then on one member serves.
    tokio::time::sleep(LEASE * 2).await;
    crowd.more(CALLS_BETWEEN).await;
    let master = nodes.master().await;
    assert_eq!((master, nodes.epoch_now(master)), (old, epoch), "{}", nodes.logs());

    // Now the member that it reaches is out of the majority, which the others do reach.
    nodes.etcd.pause(only);
    check_silence(&mut nodes, &crowd, old).await;
    nodes.etcd.resume(only);
    nodes.deposed(old).await;
    nodes.node(old).lines.iter().for_each(|line| line.heal());
    nodes.restart(old);
    crowd.more(CALLS_BETWEEN).await;
    verdict::check(nodes, crowd).await;
}

/// Asks only the old master, all the time, until another one serves: its last answer came before.
async fn check_silence(nodes: &mut Nodes, crowd: &Crowd, old: usize) {
    let (client, book) = (nodes.client(old, READ_TIMEOUT), crowd.book.clone());
    let epoch = nodes.epoch_now(old);
    let asking = tokio::spawn(async move {
        let (mut last_answer, mut refusals) = (Instant::now(), 0);
        loop {
            match book.call(LONELY, (old, &client), &register(1), Act::Read).await {
                Met::Saw(_) => {
                    last_answer = Instant::now();
                    refusals = 0;
                }
                Met::Failed(ClientError::Status { status: 503, body, .. }) if body.contains("uncertain") => {
                    refusals += 1;
                }
                other => panic!("the old master is there and says why it does not answer, not {other:?}"),
            }
            // The next one serves a moment after the lease, so this ends with it or shortly after.
            if last_answer.elapsed() > LEASE + LEASE {
                return (last_answer, refusals);
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    });
    let since = Instant::now();
    let next = nodes.master_after(epoch).await;
    let serves = Instant::now();
    crowd.more(CALLS_BETWEEN).await;
    let (last_answer, refusals) = asking.await.unwrap();
    assert!(last_answer < serves, "n{old} answered {:?} after n{next} served", last_answer - serves);
    assert!(refusals > 0);
    let silent = last_answer - since;
    say(&format!("n{old} fell silent {silent:?} after the cut, n{next} served {:?} after it", serves - since));
}
