//! What happens to the cluster, one thing after the other: it comes up, gets its instances, keeps them, loses cells.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::client::{Client, ClientConfig};
use api::models::ActualLrPsRequest;
use cell::executor::Executor;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ScaleArgs;
use super::cells::{Cell, Ground};
use super::programs::{Memory, Meter, Programs, Spent};
use super::watch::{Ear, listen};
use crate::certificates::Certificates;
use crate::fleet;
use crate::latency::{Latencies, Summary};
use crate::server::Ending;
use crate::stopwatch::Stopwatch;

/// A cluster that takes longer is broken.
const READY_MAX: Duration = Duration::from_secs(300);
const PLACE_MAX: Duration = Duration::from_secs(1_800);
const PROBE_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Streams that were interrupted may have missed starts: after so long without one, the lists decide.
const QUIET_S: f64 = 5.0;
const SAY_EVERY_S: f64 = 10.0;
const DESIRING: u64 = 8;
const LISTING: usize = 4;
const RUNNING: &str = "RUNNING";

/// The way of a change to those who listen.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Delays {
    /// To whoever listens to the one cell, over all cells.
    pub one_cell: Summary,
    /// To whoever listens to everything.
    pub all: Summary,
}

#[derive(Debug, Serialize)]
pub struct Ready {
    /// From the first cell that was started until the server knew all of them.
    pub seconds: f64,
    pub listeners: u64,
    /// Before the first cell, and with all cells and everybody who listens to them.
    pub memory_alone: Memory,
    pub memory: Memory,
}

#[derive(Debug, Serialize)]
pub struct Placed {
    /// Until the last DesiredLRP was accepted.
    pub desired_s: f64,
    /// Until the server had said of the last instance that it runs.
    pub seconds: f64,
    pub instances_per_s: f64,
    /// To all listeners together.
    pub events: u64,
    pub interruptions: u64,
    pub delays: Delays,
    pub spent: Spent,
    pub memory: Memory,
}

#[derive(Debug, Serialize)]
pub struct Steady {
    pub passes_s: Vec<f64>,
    /// Of instances, though nothing happened.
    pub changes: u64,
    pub interruptions: u64,
    pub spent: Spent,
    pub memory: Memory,
    /// From the change in a container on: also the way from the cell to the server.
    pub probes: Delays,
}

#[derive(Debug, Serialize)]
pub struct Killed {
    pub cells: u64,
    pub instances: u64,
    /// Until the server listed none of them any more.
    pub noticed_s: f64,
    /// Until the server had said of the last of their instances that it runs elsewhere.
    pub seconds: f64,
    pub interruptions: u64,
    pub delays: Delays,
    pub spent: Spent,
    pub memory: Memory,
    /// The next pass of convergence.
    pub pass_s: f64,
}

pub(super) struct Cluster<'a> {
    args: &'a ScaleArgs,
    say: &'a dyn Fn(&str),
    certificates: &'a Certificates,
    apart: Handle,
    programs: Programs,
    client: Client,
    cells: Vec<Cell>,
    one_cell: Arc<Ear>,
    all: Arc<Ear>,
    listeners: JoinSet<()>,
}

impl<'a> Cluster<'a> {
    /// Without cells.
    pub(super) async fn start(
        args: &'a ScaleArgs,
        home: &Path,
        certificates: &'a Certificates,
        apart: Handle,
        say: &'a dyn Fn(&str),
    ) -> anyhow::Result<Self> {
        say("state server and auctioneer");
        let programs = Programs::start(args, home, certificates).await?;
        let tls = Some(certificates.client());
        let client =
            Client::new(ClientConfig { tls, name: "bench".into(), ..ClientConfig::new(programs.server.url()?) })?;
        Ok(Self {
            args,
            say,
            certificates,
            apart,
            programs,
            client,
            cells: Vec::new(),
            one_cell: Arc::default(),
            all: Arc::default(),
            listeners: JoinSet::new(),
        })
    }

    pub(super) async fn ready(&mut self) -> anyhow::Result<Ready> {
        (self.say)(&format!("{} cells, and a listener for each", self.args.cells));
        let memory_alone = self.programs.memory()?;
        let watch = Stopwatch::start();
        let ground = Ground {
            args: self.args,
            bbs: self.programs.server.url()?.to_string(),
            locket: self.programs.locket_address.clone(),
            certificates: self.certificates,
            apart: self.apart.clone(),
        };
        for number in 0..self.args.cells {
            let cell = Cell::start(number, &ground).await?;
            listen(&mut self.listeners, &self.client, cell.id.clone(), &self.one_cell).await?;
            self.cells.push(cell);
        }
        listen(&mut self.listeners, &self.client, String::new(), &self.all).await?;
        self.until_listed(self.args.cells, READY_MAX).await?;
        let memory = self.programs.memory()?;
        Ok(Ready { seconds: watch.seconds(), listeners: self.listeners.len() as u64, memory_alone, memory })
    }

    pub(super) async fn place(&mut self) -> anyhow::Result<Placed> {
        (self.say)(&format!("{} instances are placed", self.args.total()));
        self.client.upsert_domain(fleet::DOMAIN, 0).await?;
        self.one_cell.forget();
        self.all.forget();
        let (meter, watch) = (self.programs.meter()?, Stopwatch::start());
        let mut desiring = JoinSet::new();
        for worker in 0..DESIRING {
            let (client, lrps, instances) = (self.client.clone(), self.args.lrps, self.args.instances);
            desiring.spawn(async move {
                for lrp in (worker..lrps).step_by(DESIRING as usize) {
                    client.desire_lrp(fleet::desired(lrp, instances)).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(worker) = desiring.join_next().await {
            worker??;
        }
        let desired_s = watch.seconds();
        (self.say)(&format!("all are wanted after {desired_s:.1} s"));
        let seconds = self.until_all_run(&watch, &meter, self.args.total()).await?;
        let (heard, all) = (self.one_cell.heard(), self.all.heard());
        Ok(Placed {
            desired_s,
            seconds,
            instances_per_s: self.args.total() as f64 / seconds,
            events: heard.events + all.events,
            interruptions: heard.interruptions + all.interruptions,
            delays: Delays { one_cell: heard.delays, all: all.delays },
            spent: self.programs.spent(&meter)?,
            memory: self.programs.memory()?,
        })
    }

    pub(super) async fn stay(&mut self) -> anyhow::Result<Steady> {
        (self.say)(&format!("{} passes of convergence", self.args.passes));
        // Not the one that found everything placed a moment ago.
        self.programs.server.longest_pass(1).await?;
        self.one_cell.forget();
        self.all.forget();
        let meter = self.programs.meter()?;
        let mut passes_s = Vec::new();
        for _ in 0..self.args.passes {
            passes_s.push(self.programs.server.longest_pass(1).await?);
        }
        let spent = self.programs.spent(&meter)?;
        let (heard, all) = (self.one_cell.heard(), self.all.heard());
        let memory = self.programs.memory()?;
        self.all_run().await?;
        (self.say)(&format!("passes {passes_s:.3?} s, spent {spent:.2?}, {} changes", all.changes));
        let probes = self.probe().await?;
        let interruptions = heard.interruptions + all.interruptions;
        Ok(Steady { passes_s, changes: all.changes, interruptions, spent, memory, probes })
    }

    /// Changes single instances and times how soon those who listen know.
    async fn probe(&self) -> anyhow::Result<Delays> {
        (self.say)(&format!("{} changes of single instances", self.args.probes));
        let (mut one_cell, mut all) = (Latencies::default(), Latencies::default());
        for number in 0..self.args.probes {
            let cell = &self.cells[number as usize % self.cells.len()];
            let Some(container) = cell.executor.list().into_iter().min_by_key(|container| container.guid.clone())
            else {
                continue;
            };
            let to = !container.is_routable;
            let (first, second) =
                (self.one_cell.expect(container.guid.as_str(), to), self.all.expect(container.guid.as_str(), to));
            let watch = Stopwatch::start();
            cell.executor.set_routable(&container.guid, to);
            let first = async { first.await.map(|()| watch.elapsed()) };
            let second = async { second.await.map(|()| watch.elapsed()) };
            let heard = timeout(PROBE_MAX, async { tokio::try_join!(first, second) }).await;
            let (first, second) = heard.with_context(|| format!("nobody heard of a change on {}", cell.id))??;
            one_cell.record(first);
            all.record(second);
        }
        Ok(Delays { one_cell: one_cell.summary(), all: all.summary() })
    }

    pub(super) async fn kill(&mut self) -> anyhow::Result<Killed> {
        let every = self.args.cells / self.args.killed();
        let numbered = std::mem::take(&mut self.cells).into_iter().enumerate();
        let (dying, staying): (Vec<_>, Vec<_>) = numbered.partition(|(number, _)| {
            (*number as u64).is_multiple_of(every) && *number as u64 / every < self.args.killed()
        });
        self.cells = staying.into_iter().map(|(_, cell)| cell).collect();
        let instances = dying.iter().map(|(_, cell)| cell.containers_running()).sum();
        (self.say)(&format!("{} cells with {instances} instances are killed", dying.len()));
        self.one_cell.forget();
        self.all.forget();
        let (meter, watch) = (self.programs.meter()?, Stopwatch::start());
        let cells = dying.len() as u64;
        dying.into_iter().for_each(|(_, cell)| cell.kill());
        self.until_listed(self.args.cells - cells, PLACE_MAX).await?;
        let noticed_s = watch.seconds();
        (self.say)(&format!("their loss was noticed after {noticed_s:.1} s"));
        let seconds = self.until_all_run(&watch, &meter, instances).await?;
        let (heard, all) = (self.one_cell.heard(), self.all.heard());
        let (spent, memory) = (self.programs.spent(&meter)?, self.programs.memory()?);
        self.programs.server.longest_pass(1).await?;
        let pass_s = self.programs.server.longest_pass(1).await?;
        self.all_run().await?;
        Ok(Killed {
            cells,
            instances,
            noticed_s,
            seconds,
            interruptions: heard.interruptions + all.interruptions,
            delays: Delays { one_cell: heard.delays, all: all.delays },
            spent,
            memory,
            pass_s,
        })
    }

    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        self.listeners.shutdown().await;
        self.cells.clear();
        self.programs.server.end(Ending::Stop).await.map(drop)
    }

    async fn until_listed(&self, cells: u64, longest: Duration) -> anyhow::Result<()> {
        let watch = Stopwatch::start();
        loop {
            let listed = self.client.cells().await?.len() as u64;
            if listed == cells {
                return Ok(());
            }
            anyhow::ensure!(
                watch.elapsed() < longest,
                "The server lists {listed} cells and not {cells} after {longest:?}."
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the server has said of so many instances that they run now, and lists all of them as running; says how long
    /// that took, to the last one that began to run.
    async fn until_all_run(&mut self, watch: &Stopwatch, meter: &Meter, started: u64) -> anyhow::Result<f64> {
        let mut said_s = watch.seconds();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let (heard, now_s) = (self.one_cell.heard(), watch.seconds());
            let quiet_s = heard.quiet_s.unwrap_or(0.0);
            if heard.started >= started || quiet_s > QUIET_S {
                let running = self.running().await?;
                if running == self.args.total() {
                    return Ok(now_s - quiet_s);
                }
                anyhow::ensure!(watch.elapsed() < PLACE_MAX, "Only {running} instances run after {PLACE_MAX:?}.");
            }
            if now_s > said_s + SAY_EVERY_S {
                said_s = now_s;
                let spent = self.programs.spent(meter)?;
                let containers: u64 = self.cells.iter().map(Cell::containers_running).sum();
                (self.say)(&format!(
                    "{now_s:.0} s: {} started, {containers} containers run, {spent:.2?}",
                    heard.started
                ));
            }
            self.programs.server.must_run()?;
        }
    }

    async fn all_run(&self) -> anyhow::Result<()> {
        let running = self.running().await?;
        anyhow::ensure!(running == self.args.total(), "{running} instances run of {}.", self.args.total());
        Ok(())
    }

    /// The instances that run on cells that are there, each counted once, as the server lists them cell by cell.
    async fn running(&self) -> anyhow::Result<u64> {
        let mut found = HashSet::new();
        for cells in self.cells.chunks(LISTING) {
            let lists = cells.iter().map(|cell| {
                let request = ActualLrPsRequest { cell_id: cell.id.clone(), ..Default::default() };
                let client = self.client.clone();
                async move { client.actual_lrps(request).await }
            });
            let mut listing: JoinSet<_> = lists.collect();
            while let Some(list) = listing.join_next().await {
                let running = list??.into_iter().filter(|lrp| lrp.state == RUNNING);
                found.extend(running.filter_map(|lrp| lrp.actual_lrp_key).map(|key| (key.process_guid, key.index)));
            }
        }
        Ok(found.len() as u64)
    }
}
