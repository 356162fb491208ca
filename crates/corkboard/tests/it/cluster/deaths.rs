//! Masters that are killed at any moment, and masters that sleep through the end of their lease.

use std::sync::Arc;
use std::time::Duration;

use api::client::Client;
use rig::etcd::Options;
use tokio::task::JoinHandle;

use super::clients::{Act, Book, Crowd, LONELY, Met, quiet_registers, register};
use super::nodes::{LEASE, Nodes, Plan};
use super::{say, verdict};
use crate::durability::dice::Dice;
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE};

const KILLS: usize = 26;
const PAUSES: usize = 13;
/// A master is killed after at most so many answered calls.
const CALLS_PER_LIFE_MAX: u64 = 150;
/// And up to so long after the last of them, to hit every part of a commit.
const DELAY_MAX_US: u64 = 20_000;
/// How much longer than its lease a master sleeps.
const OVERSLEPT: Duration = Duration::from_secs(1);
/// Readers and writers that wait at the door of a master that sleeps.
const AT_THE_DOOR: u64 = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_killed_at_any_moment_takes_nothing_with_it() {
    let mut dice = Dice::from_environment();
    let mut nodes = Nodes::start(Plan::default()).await;
    let crowd = Crowd::start(&mut nodes, &mut dice).await;
    for _ in 0..KILLS {
        crowd.more(1 + dice.below(CALLS_PER_LIFE_MAX)).await;
        tokio::time::sleep(Duration::from_micros(dice.below(DELAY_MAX_US))).await;
        let master = nodes.master().await;
        nodes.kill(master);
        nodes.restart(master);
        nodes.master().await;
    }
    verdict::check(nodes, crowd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_sleeps_through_its_lease_answers_nobody_when_it_wakes() {
    check_sleepers(Options::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_one_with_tls_on_three_members() {
    check_sleepers(Options { members: 3, tls: true, ..Options::default() }).await;
}

async fn check_sleepers(etcd: Options) {
    let mut dice = Dice::from_environment();
    let mut nodes = Nodes::start(Plan { etcd, ..Plan::default() }).await;
    let crowd = Crowd::start(&mut nodes, &mut dice).await;
    for round in 0..PAUSES {
        crowd.more(1 + dice.below(CALLS_PER_LIFE_MAX)).await;
        let master = nodes.master().await;
        let door = Door { at: master, client: nodes.client(master, PATIENCE), book: crowd.book.clone() };
        // One write of each is under way when it falls asleep, and may have been carried out.
        let under_way: Vec<_> = quiet_registers().map(|key| door.write_on(key)).collect();
        tokio::time::sleep(Duration::from_micros(dice.below(DELAY_MAX_US))).await;
        nodes.pause(master);
        tokio::time::sleep(LEASE + OVERSLEPT).await;
        let next = nodes.master().await;
        let next_door = Door { at: next, client: nodes.client(next, PATIENCE), book: crowd.book.clone() };
        for key in quiet_registers() {
            let _ = next_door.knock(key, false).await.unwrap();
        }
        crowd.more(20).await;
        // What waits in its sockets is what it finds first when it wakes.
        let mut late = door.many_knock();
        tokio::time::sleep(LOOK_AGAIN).await;
        nodes.resume(master);
        late.extend(door.many_knock());
        for call in late {
            let met = call.await.unwrap();
            let answered = matches!(met, Met::Done | Met::Saw(_));
            assert!(!answered, "round {round}: n{master} overslept and answered {met:?}\n{}", nodes.logs());
        }
        for call in under_way {
            if let Met::Failed(error) = call.await.unwrap() {
                say(&format!("round {round}: under way when it fell asleep, and nothing was changed: {error:?}"));
            }
        }
        nodes.deposed(master).await;
        nodes.restart(master);
    }
    verdict::check(nodes, crowd).await;
}

/// The door of one node, at which many knock at once.
struct Door {
    at: usize,
    client: Client,
    book: Arc<Book>,
}

impl Door {
    /// One call that waits for its answer.
    fn knock(&self, key: String, writes: bool) -> JoinHandle<Met> {
        let (at, client, book) = (self.at, self.client.clone(), self.book.clone());
        let act = if writes { Act::Update(book.fresh()) } else { Act::Read };
        tokio::spawn(async move { book.call(LONELY, (at, &client), &key, act).await })
    }

    /// One write after the other, up to the first that is not carried out, or may not be.
    fn write_on(&self, key: String) -> JoinHandle<Met> {
        let (at, client, book) = (self.at, self.client.clone(), self.book.clone());
        tokio::spawn(async move {
            loop {
                let met = book.call(LONELY, (at, &client), &key, Act::Update(book.fresh())).await;
                if !matches!(met, Met::Done) {
                    return met;
                }
            }
        })
    }

    /// Readers and some writers, of what everybody else reads and writes.
    fn many_knock(&self) -> Vec<JoinHandle<Met>> {
        (0..AT_THE_DOOR).map(|number| self.knock(register(1 + number % 3), number % 4 == 3)).collect()
    }
}
