//! What etcd goes through: members that die, leaders that die again and again, members that freeze, majorities that are lost.
//!
//! Writes go on or wait; what was acknowledged stays; and when a majority is back, the API serves without anybody's help.

use std::time::Duration;

use rig::etcd::Options;
use tokio::time::Instant;

use super::clients::Crowd;
use super::nodes::{LEASE, Nodes, Plan};
use super::{say, verdict};
use crate::durability::dice::Dice;
use crate::upgrade::site::PATIENCE;

const MEMBERS: usize = 3;
const LEADERS_KILLED: usize = 5;
/// What the clients must get done before the next fault.
const CALLS_BETWEEN: u64 = 120;
/// A frozen member is noticed by its silence, which takes longer than an election.
const FROZEN: Duration = Duration::from_secs(4);

struct Stage {
    nodes: Nodes,
    crowd: Crowd,
}

impl Stage {
    async fn set() -> Self {
        let etcd = Options { members: MEMBERS, ..Options::default() };
        let mut nodes = Nodes::start(Plan { etcd, ..Plan::default() }).await;
        let crowd = Crowd::start(&mut nodes, &mut Dice::from_environment()).await;
        crowd.more(CALLS_BETWEEN).await;
        Self { nodes, crowd }
    }

    /// Until the API serves again and the clients get on.
    async fn goes_on(&mut self, after: &str) {
        let since = Instant::now();
        self.nodes.master().await;
        self.crowd.more(CALLS_BETWEEN).await;
        say(&format!("{after}: {CALLS_BETWEEN} more calls after {:?}", since.elapsed()));
    }

    async fn end(self) {
        verdict::check(self.nodes, self.crowd).await;
    }

    fn ready(&self) {
        self.nodes.etcd.wait_until_ready(PATIENCE);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_die_one_by_one_and_leaders_again_and_again() {
    let mut stage = Stage::set().await;
    for member in 0..MEMBERS {
        stage.nodes.etcd.kill(member);
        stage.goes_on(&format!("member {member} is down")).await;
        stage.nodes.etcd.restart(member);
        stage.ready();
    }
    for _ in 0..LEADERS_KILLED {
        let leader = stage.nodes.etcd.leader();
        stage.nodes.etcd.kill(leader);
        stage.goes_on(&format!("leader {leader} is down")).await;
        stage.nodes.etcd.restart(leader);
        stage.ready();
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_freeze_and_thaw() {
    let mut stage = Stage::set().await;
    for _ in 0..2 {
        let leader = stage.nodes.etcd.leader();
        let follower = (leader + 1) % MEMBERS;
        for (member, what) in [(follower, "follower"), (leader, "leader")] {
            stage.nodes.etcd.pause(member);
            tokio::time::sleep(FROZEN).await;
            stage.goes_on(&format!("{what} {member} is frozen")).await;
            stage.nodes.etcd.resume(member);
            stage.ready();
            stage.goes_on(&format!("{what} {member} has thawed")).await;
        }
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_is_lost_and_comes_back_needs_no_help() {
    let mut stage = Stage::set().await;
    for (killed, away) in [(true, LEASE / 4), (true, LEASE * 3), (false, LEASE / 4), (false, LEASE * 3)] {
        let leader = stage.nodes.etcd.leader();
        let lost = [leader, (leader + 1) % MEMBERS];
        let master = stage.nodes.master().await;
        for member in lost {
            if killed { stage.nodes.etcd.kill(member) } else { stage.nodes.etcd.pause(member) }
        }
        tokio::time::sleep(away).await;
        if away > LEASE {
            check_that_nobody_is_certain(&stage.nodes).await;
        }
        for member in lost {
            if killed { stage.nodes.etcd.restart(member) } else { stage.nodes.etcd.resume(member) }
        }
        stage.ready();
        let how = if killed { "down" } else { "frozen" };
        stage.goes_on(&format!("a majority was {how} for {away:?}, n{master} was master")).await;
    }
    stage.end().await;
}

/// Without a majority nobody can be sure of anything, so that reads are refused too.
async fn check_that_nobody_is_certain(nodes: &Nodes) {
    for at in nodes.all() {
        let answer = nodes.client(at, Duration::from_secs(1)).desired_lrp_by_process_guid("r1").await;
        assert!(answer.is_err(), "n{at} answered {answer:?} without a store\n{}", nodes.logs());
    }
}
