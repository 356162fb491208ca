//! Masters that go away: told to stop, and killed. How long nobody takes a write, and what clients see of it.
//!
//! Three nodes hold the full fleet in memory, and a few clients write at a light pace to whoever is master. A round begins when
//! both standbys say that they are warm. It ends when every client has written to another node; then the node that is gone is
//! started again. At the very end the lists are counted, so that no round was fast because something was lost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rig::etcd::Cluster;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::probe::{Probe, Success, seen};
use super::{Bench, NODES};
use crate::connection::Target;
use crate::load::{self, Load, Phase, Settings};
use crate::server::{Ending, Server, is_serving};
use crate::stopwatch::Stopwatch;

pub(super) const CLIENTS: usize = 4;
/// How long clients write before the master goes, and after they have found the next one.
const STEADY: Duration = Duration::from_secs(1);
/// Longer than any lease that is measured.
const FOUND_MAX: Duration = Duration::from_secs(60);
const WARM_MAX: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One master that went away.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Round {
    /// From the signal to the first write that another node took, by whichever client.
    pub first_write_s: f64,
    /// The longest time between two writes of one client, of all clients.
    pub longest_gap_s: f64,
}

/// Rounds of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Failover {
    pub planned: bool,
    pub lease_s: u64,
    pub rounds: Vec<Round>,
}

/// What the nodes hold, in bytes, when all are warm.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    pub master_bytes: u64,
    pub standbys_bytes: Vec<u64>,
}

/// What the nodes of one lease went through.
pub(super) struct Plan {
    pub(super) lease_s: u64,
    pub(super) planned: u64,
    pub(super) unplanned: u64,
}

pub(super) async fn measure(
    bench: &Bench<'_>,
    cluster: &Cluster,
    plan: &Plan,
) -> anyhow::Result<(Vec<Failover>, Memory)> {
    let mut trio = Trio::start(bench, cluster, plan.lease_s).await?;
    let memory = trio.memory().await?;
    let mut failovers = Vec::new();
    for (how, count) in [(Ending::Stop, plan.planned), (Ending::Kill, plan.unplanned)] {
        let mut rounds = Vec::new();
        for number in 1..=count {
            let round = trio.round(how).await?;
            let kind = if how == Ending::Stop { "stopped" } else { "killed" };
            (bench.say)(&format!(
                "lease {} s, {kind}, round {number} of {count}: {:.3} s to the next write, longest gap {:.3} s",
                plan.lease_s, round.first_write_s, round.longest_gap_s
            ));
            rounds.push(round);
        }
        if count > 0 {
            failovers.push(Failover { planned: how == Ending::Stop, lease_s: plan.lease_s, rounds });
        }
    }
    trio.count_and_stop().await?;
    Ok((failovers, memory))
}

struct Trio<'a> {
    bench: &'a Bench<'a>,
    cluster: &'a Cluster,
    lease_s: u64,
    nodes: Vec<Server>,
}

impl<'a> Trio<'a> {
    async fn start(bench: &'a Bench<'a>, cluster: &'a Cluster, lease_s: u64) -> anyhow::Result<Self> {
        (bench.say)(&format!("three nodes, lease {lease_s} s"));
        let place = bench.place(cluster, lease_s);
        let nodes = NODES.iter().map(|name| place.spawn(&bench.home, name)).collect::<anyhow::Result<_>>()?;
        Ok(Self { bench, cluster, lease_s, nodes })
    }

    async fn round(&mut self, how: Ending) -> anyhow::Result<Round> {
        let master = self.settled().await?;
        let targets = self.targets().await?;
        let (watch, stop) = (Stopwatch::start(), watch::Sender::new(false));
        let mut probes = JoinSet::new();
        let mut told = Vec::new();
        for _ in 0..CLIENTS {
            let (telling, hearing) = watch::channel(None);
            told.push(hearing);
            probes.spawn(Probe::new(Arc::clone(&targets), master).run(watch, telling, stop.subscribe()));
        }
        sleep(STEADY).await;
        let signal_s = watch.seconds();
        let (ended, found) = tokio::join!(self.nodes[master].end(how), all_found(told, master));
        found?;
        sleep(STEADY).await;
        stop.send_replace(true);
        ended?;
        let saw = probes.join_all().await;
        let saw: Option<Vec<_>> = saw.iter().map(|successes| seen(successes, master, signal_s)).collect();
        let saw = saw.context("a client found no other node")?;
        let place = self.bench.place(self.cluster, self.lease_s);
        self.nodes[master] = place.spawn(&self.bench.home, NODES[master])?;
        Ok(Round {
            first_write_s: saw.iter().map(|(first_s, _)| *first_s).fold(f64::MAX, f64::min),
            longest_gap_s: saw.iter().map(|(_, gap_s)| *gap_s).fold(0.0, f64::max),
        })
    }

    /// Waits until one node serves and the others are warm, and says which one serves.
    async fn settled(&mut self) -> anyhow::Result<usize> {
        let watch = Stopwatch::start();
        loop {
            let (mut masters, mut warm) = (Vec::new(), 0);
            for at in 0..self.nodes.len() {
                self.nodes[at].must_run()?;
                if is_serving(&self.nodes[at].target(&self.bench.certificates).await?).await {
                    masters.push(at);
                } else if self.nodes[at].status().await.is_ok_and(|status| status["standby"]["warm"] == true) {
                    warm += 1;
                }
            }
            if let ([master], 2) = (masters.as_slice(), warm) {
                return Ok(*master);
            }
            anyhow::ensure!(
                watch.elapsed() < WARM_MAX,
                "After {WARM_MAX:?} {} nodes serve and {warm} standbys are warm.",
                masters.len()
            );
            sleep(LOOK_EVERY).await;
        }
    }

    async fn memory(&mut self) -> anyhow::Result<Memory> {
        let master = self.settled().await?;
        let held = self.nodes.iter().map(|node| node.process().memory_bytes());
        let mut held = held.collect::<anyhow::Result<Vec<u64>>>()?;
        Ok(Memory { master_bytes: held.remove(master), standbys_bytes: held })
    }

    async fn targets(&self) -> anyhow::Result<Arc<[Target]>> {
        let mut targets = Vec::new();
        for node in &self.nodes {
            targets.push(node.target(&self.bench.certificates).await?);
        }
        Ok(targets.into())
    }

    async fn count_and_stop(&mut self) -> anyhow::Result<()> {
        let master = self.settled().await?;
        let settings = Settings { bulk_rounds: 1, small_rounds: 1, ..Settings::default() };
        let target = self.nodes[master].target(&self.bench.certificates).await?;
        let report = Load::new(target, self.bench.fleet(), settings, None).run(Phase::Reads).await;
        anyhow::ensure!(!report.failed(), "Something is missing:\n{}", load::table(&[report]));
        // The standbys first, so that none of them takes over meanwhile.
        self.nodes.swap(master, NODES.len() - 1);
        for node in &mut self.nodes {
            node.end(Ending::Stop).await?;
        }
        Ok(())
    }
}

/// Returns when every client has written to another node than the former master.
async fn all_found(told: Vec<watch::Receiver<Option<Success>>>, former: usize) -> anyhow::Result<()> {
    for mut hearing in told {
        let elsewhere = hearing.wait_for(|success| success.is_some_and(|success| success.node != former));
        let found = timeout(FOUND_MAX, elsewhere).await;
        found.with_context(|| format!("No other node took a write in {FOUND_MAX:?}."))??;
    }
    Ok(())
}
