//! Masters that are told to stop: the next one goes on, and it is measured how soon.

use std::time::Duration;

use tokio::time::Instant;

use super::clients::{Act, Crowd, LONELY, Met, register};
use super::nodes::{Nodes, Plan};
use super::{say, verdict};
use crate::durability::dice::Dice;
use crate::upgrade::site::PATIENCE;

const ROUNDS: usize = 10;
const CALLS_BETWEEN: u64 = 150;
const KNOCK_AGAIN: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_told_to_stop_hands_over() {
    let mut dice = Dice::from_environment();
    let mut nodes = Nodes::start(Plan::default()).await;
    let crowd = Crowd::start(&mut nodes, &mut dice).await;
    for round in 0..ROUNDS {
        crowd.more(CALLS_BETWEEN).await;
        let master = nodes.master().await;
        let clients = nodes.clients(PATIENCE);
        let told = Instant::now();
        nodes.tell_to_stop(master);
        let mut others = nodes.all().filter(|at| *at != master).cycle();
        loop {
            let at = others.next().unwrap();
            let act = Act::Update(crowd.book.fresh());
            if let Met::Done = crowd.book.call(LONELY, (at, &clients[at]), &register(1), act).await {
                say(&format!("round {round}: n{at} writes {:?} after n{master} was told to stop", told.elapsed()));
                break;
            }
            tokio::time::sleep(KNOCK_AGAIN).await;
        }
        assert_eq!(nodes.ended(master).await, 0, "{}", nodes.logs());
        nodes.restart(master);
    }
    verdict::check(nodes, crowd).await;
}
