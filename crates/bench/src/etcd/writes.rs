//! Claims and starts through a server on etcd, by few and by many clients, beside what the same etcd takes in directly.
//!
//! Every trial has a server and a prefix of its own, so that it begins with the same board. How many records of instances it
//! wrote and in how many transactions is read from etcd, not from the server; what else a transaction carries does not count.
//! The floor follows in the same round, with records as large as those just written and with batches as large as the server's
//! were; both talk to the leader.

use anyhow::Context;
use rig::etcd::Cluster;
use serde::Serialize;
use store::versions::Version;

use super::client::{Client, Found};
use super::floor::{self, Direct, Shape};
use super::node::Place;
use super::spent::{Meter, Spent};
use super::{Bench, LEASE_S};
use crate::course::{self, ROTATION};
use crate::fleet::Fleet;
use crate::load::{self, Load, Measure, Phase, PhaseReport, Settings};
use crate::median::median;
use crate::server::Ending;
use crate::sizes::CELLS;
use crate::table::grouped;

const CROWD: &str = "claim + start";
pub(super) const MANY: u64 = 64;
/// Clients, and what part of the fleet they get: fewer clients are slower.
const CROWDS: [(u64, u64); 3] = [(1, 10), (16, 2), (MANY, 1)];
pub(super) const BATCHES: [u64; 3] = [1, 16, 64];
pub(super) const IN_FLIGHT: [u64; 2] = [1, 4];

/// Some clients on a server of their own.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    pub clients: u64,
    pub calls: Measure,
    /// Of instances, counted in etcd, while the clients wrote.
    pub records: u64,
    pub transactions: u64,
    pub spent: Spent,
}

impl Trial {
    pub fn records_per_s(&self) -> f64 {
        self.records as f64 / self.calls.seconds.max(1e-9)
    }

    pub fn records_per_transaction(&self) -> f64 {
        self.records as f64 / self.transactions.max(1) as f64
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Round {
    pub shape: Shape,
    pub trials: Vec<Trial>,
    pub floor: Vec<Direct>,
    /// With the batch that the server made on average for the most clients, one transaction at a time.
    pub floor_of_server: Direct,
}

impl Round {
    pub fn trial(&self, clients: u64) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.clients == clients)
    }

    pub fn direct(&self, batch: u64, in_flight: u64) -> Option<&Direct> {
        self.floor.iter().find(|direct| direct.batch == batch && direct.in_flight == in_flight)
    }

    /// What part of that floor the server reaches with the most clients.
    pub fn reached(&self, floor: &Direct) -> f64 {
        self.trial(MANY).map_or(0.0, Trial::records_per_s) / floor.records_per_s.max(1e-9)
    }
}

/// All rounds on a cluster of so many members.
#[derive(Debug, Serialize)]
pub struct Writes {
    pub members: usize,
    pub lrps: u64,
    pub rounds: Vec<Round>,
}

impl Writes {
    pub fn figures(&self, figure: impl Fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(figure).collect()
    }

    pub fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.figures(figure))
    }
}

pub(super) async fn measure(bench: &Bench<'_>, members: usize) -> anyhow::Result<Writes> {
    let cluster = bench.cluster(members);
    let mut rounds = Vec::new();
    for number in 0..bench.args.rounds {
        rounds.push(round(bench, &cluster, number).await?);
    }
    Ok(Writes { members, lrps: bench.args.writes_lrps, rounds })
}

async fn round(bench: &Bench<'_>, cluster: &Cluster, number: u64) -> anyhow::Result<Round> {
    let members = cluster.endpoints().len();
    let leader = cluster.leader();
    let mut client = Client::connect(cluster, leader).await?;
    let say = |what: String| (bench.say)(&format!("{members} members, round {}: {what}", number + 1));
    let mut trials = Vec::new();
    let mut shape = None;
    for (clients, part) in CROWDS {
        let prefix = format!("/writes-{number}-{clients}");
        let trial = Attempt { bench, cluster, leader, prefix: &prefix, clients };
        let trial = trial.run(&mut client, (bench.args.writes_lrps / part).max(4)).await?;
        say(format!("{clients} clients, {} records a second", grouped(trial.records_per_s())));
        trials.push(trial);
        shape = Some(shape_of(&client.read(&records_of_instances(&prefix), 1).await?)?);
    }
    let (shape, last) = shape.zip(trials.last()).context("no trial was made")?;
    let batch = last.records_per_transaction().round().max(1.0) as u64;
    let mut floor = Vec::new();
    let duration = bench.floor_time();
    for setting in IN_FLIGHT.iter().flat_map(|in_flight| BATCHES.map(|batch| (batch, *in_flight))) {
        floor.push(floor::measure(cluster, &client, shape, setting, duration).await?);
    }
    let floor_of_server = floor::measure(cluster, &client, shape, (batch, 1), duration).await?;
    say(format!("directly in batches of {batch}, {} records a second", grouped(floor_of_server.records_per_s)));
    Ok(Round { shape, trials, floor, floor_of_server })
}

struct Attempt<'a> {
    bench: &'a Bench<'a>,
    cluster: &'a Cluster,
    leader: usize,
    prefix: &'a str,
    clients: u64,
}

impl Attempt<'_> {
    async fn run(&self, client: &mut Client, lrps: u64) -> anyhow::Result<Trial> {
        let Self { bench, cluster, leader, prefix, clients } = *self;
        let mut endpoints = cluster.endpoints();
        endpoints.rotate_left(leader);
        let place = Place { endpoints, prefix: prefix.to_owned(), ..bench.place(cluster, LEASE_S) };
        let mut server = place.spawn(&bench.home, "writer")?;
        server.until_serving(&bench.certificates).await?;
        course::follow(&mut server, &ROTATION, &|_| {}).await?;
        let (target, process) = (server.target(&bench.certificates).await?, server.process());
        let load = |settings| Load::new(target.clone(), Fleet { lrps, cells: CELLS }, settings, Some(process));
        let populated = load(Settings::default()).run(Phase::Populate).await;
        anyhow::ensure!(!populated.failed(), "Writes failed:\n{}", load::table(&[populated]));

        let records = records_of_instances(prefix);
        let before = client.count(&records).await?;
        let meter = Meter::start(cluster, Some(process))?;
        let report = load(Settings { clients, alone: 0, ..Settings::default() }).run(Phase::ClaimStart).await;
        let spent = meter.stop(cluster)?;
        let after = client.count(&records).await?;
        anyhow::ensure!(!report.failed(), "Writes failed:\n{}", load::table(&[report]));
        server.end(Ending::Stop).await?;
        std::fs::remove_dir_all(bench.home.join("writer"))?;
        let calls = measure_of(&report)?;
        let transactions = u64::try_from(after.revision - before.revision)?;
        Ok(Trial { clients, calls, records: after.puts.saturating_sub(before.puts), transactions, spent })
    }
}

fn measure_of(report: &PhaseReport) -> anyhow::Result<Measure> {
    report.measure(CROWD).cloned().context("nothing was measured of claims and starts")
}

fn records_of_instances(prefix: &str) -> String {
    format!("{prefix}/board{}actual/", Version::LATEST.root())
}

fn shape_of(found: &Found) -> anyhow::Result<Shape> {
    let each = |bytes: u64| usize::try_from(bytes / found.records.max(1));
    anyhow::ensure!(found.records > 0, "etcd holds no record of an instance where they should lie");
    Ok(Shape { key_bytes: each(found.key_bytes)?, value_bytes: each(found.value_bytes)? })
}
