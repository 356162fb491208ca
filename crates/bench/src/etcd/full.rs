//! The full fleet, on etcd and on the embedded store: how long a start takes, and whether reads notice the difference.
//!
//! Both stores hold the same fleet, sealed, and both servers are started and read in turns, in changing order. Every start is
//! followed by reading all lists and counting them. Beside the starts on etcd stands how long reading all records takes when
//! nothing is done with them.

use std::fs;

use anyhow::Context;
use rig::etcd::Cluster;
use serde::Serialize;

use super::client::Client;
use super::{Bench, ENCRYPTION, LEASE_S, NODES, PREFIX};
use crate::course::{self, ROTATION};
use crate::latency::Summary;
use crate::load::reads::{ONE_CELL, ONE_LRP};
use crate::load::{self, Load, Phase, PhaseReport, Settings};
use crate::median::median;
use crate::server::{Ending, Launch, Server};
use crate::stopwatch::Stopwatch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    Etcd,
    Embedded,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Etcd => "etcd",
            Engine::Embedded => "embedded",
        }
    }
}

/// One start, and the reads after it.
#[derive(Clone, Debug, Serialize)]
pub struct Start {
    pub engine: Engine,
    /// From the start of the process to the first answered ping.
    pub start_s: f64,
    pub one_cell: Summary,
    pub one_lrp: Summary,
    pub memory_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct Full {
    pub lrps: u64,
    pub instances: u64,
    pub fill_etcd_s: f64,
    pub fill_embedded_s: f64,
    /// Keys and values, as they lie in etcd.
    pub records: u64,
    pub record_bytes: u64,
    /// Reading them all, page by page, and nothing else.
    pub read_s: f64,
    pub starts: Vec<Start>,
}

impl Full {
    pub fn figures(&self, engine: Engine, figure: impl Fn(&Start) -> f64) -> Vec<f64> {
        self.starts.iter().filter(|start| start.engine == engine).map(figure).collect()
    }

    pub fn median(&self, engine: Engine, figure: impl Fn(&Start) -> f64) -> f64 {
        median(self.figures(engine, figure))
    }

    /// What etcd makes of a figure, as a multiple of what the embedded store makes of it.
    pub fn ratio(&self, figure: impl Fn(&Start) -> f64 + Copy) -> f64 {
        self.median(Engine::Etcd, figure) / self.median(Engine::Embedded, figure).max(1e-9)
    }
}

/// The cluster is left with the full fleet in it and without a server.
pub(super) async fn measure(bench: &Bench<'_>, cluster: &Cluster) -> anyhow::Result<Full> {
    let both = Both { bench, cluster };
    let fill_etcd_s = both.fill(Engine::Etcd).await?;
    let fill_embedded_s = both.fill(Engine::Embedded).await?;
    (bench.say)("reading all records of etcd and nothing else");
    let mut client = Client::connect(cluster, 0).await?;
    let watch = Stopwatch::start();
    let found = client.read(&format!("{PREFIX}/board/"), u64::MAX).await?;
    let read_s = watch.seconds();
    let mut starts = Vec::new();
    for number in 0..bench.args.rounds {
        let mut engines = [Engine::Etcd, Engine::Embedded];
        engines.rotate_left((number % 2) as usize);
        for engine in engines {
            (bench.say)(&format!("start and reads, round {}: {}", number + 1, engine.name()));
            starts.push(both.start_and_read(engine).await?);
        }
    }
    fs::remove_dir_all(both.embedded_dir())?;
    Ok(Full {
        lrps: bench.fleet().lrps,
        instances: bench.fleet().instances(),
        fill_etcd_s,
        fill_embedded_s,
        records: found.records,
        record_bytes: found.key_bytes + found.value_bytes,
        read_s,
        starts,
    })
}

struct Both<'a> {
    bench: &'a Bench<'a>,
    cluster: &'a Cluster,
}

impl Both<'_> {
    /// Fills a new store, stops the server, and says how long it took.
    async fn fill(&self, engine: Engine) -> anyhow::Result<f64> {
        let Bench { say, .. } = self.bench;
        say(&format!("filling {}: {} instances", engine.name(), self.bench.fleet().instances()));
        if engine == Engine::Embedded {
            fs::create_dir(self.embedded_dir())?;
        }
        let mut server = self.spawn(engine)?;
        server.until_serving(&self.bench.certificates).await?;
        course::follow(&mut server, &ROTATION, &|_| {}).await?;
        let watch = Stopwatch::start();
        let report = self.load(&server).await?.fill(0).await;
        let took_s = watch.seconds();
        anyhow::ensure!(!report.failed(), "The store could not be filled:\n{}", load::table(&[report]));
        server.end(Ending::Stop).await?;
        Ok(took_s)
    }

    async fn start_and_read(&self, engine: Engine) -> anyhow::Result<Start> {
        let mut server = self.spawn(engine)?;
        let start_s = server.until_serving(&self.bench.certificates).await?;
        course::follow(&mut server, &ROTATION, &|_| {}).await?;
        let report = self.load(&server).await?.run(Phase::Reads).await;
        anyhow::ensure!(!report.failed(), "Reads failed:\n{}", load::table(&[report]));
        let memory_bytes = server.process().memory_bytes()?;
        server.end(Ending::Stop).await?;
        let latency = |what| latency_of(&report, what);
        Ok(Start { engine, start_s, one_cell: latency(ONE_CELL)?, one_lrp: latency(ONE_LRP)?, memory_bytes })
    }

    fn spawn(&self, engine: Engine) -> anyhow::Result<Server> {
        match engine {
            Engine::Etcd => self.bench.place(self.cluster, LEASE_S).spawn(&self.bench.home, NODES[0]),
            Engine::Embedded => Launch {
                binary: &self.bench.binary,
                dir: &self.embedded_dir(),
                certificates: &self.bench.certificates,
                cells: crate::sizes::CELLS,
                converge_interval: super::CONVERGE_INTERVAL,
                migration_mode: None,
                encryption: Some(ENCRYPTION),
            }
            .spawn(),
        }
    }

    fn embedded_dir(&self) -> std::path::PathBuf {
        self.bench.home.join("embedded")
    }

    async fn load(&self, server: &Server) -> anyhow::Result<Load> {
        let settings = Settings { bulk_rounds: 1, small_rounds: self.bench.args.reads, ..Settings::default() };
        let target = server.target(&self.bench.certificates).await?;
        Ok(Load::new(target, self.bench.fleet(), settings, Some(server.process())))
    }
}

fn latency_of(report: &PhaseReport, what: &str) -> anyhow::Result<Summary> {
    Ok(report.measure(what).with_context(|| format!("nothing was measured of {what}"))?.latency)
}
