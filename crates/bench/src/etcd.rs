//! `etcd`: what the server does on etcd. Writes beside what the same etcd takes in directly, reads and starts beside the
//! embedded store, and how long nobody writes when a master is stopped or killed.
//!
//! Everything is a real process: clusters of etcd of three members and of one, with TLS, and release binaries with mutual TLS
//! and sealed records. All of them share the cores of this machine with the clients; the report says who used how much. What
//! was measured so far is kept after every part, so that a run that breaks is not lost.

mod client;
mod failover;
mod floor;
mod full;
mod node;
mod probe;
mod report;
mod spent;
mod writes;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use rig::etcd::{Cluster, Options};
use serde::Serialize;

use self::failover::Plan;
use self::node::Place;
use crate::certificates::Certificates;
use crate::document;
use crate::fleet::Fleet;
use crate::floors::{self, Floors};
use crate::load::Settings;
use crate::process::Machine;
use crate::server::Encryption;
use crate::sizes::CELLS;

pub use self::failover::{Failover, Memory, Round};
pub use self::floor::{Direct, Shape};
pub use self::full::{Engine, Full, Start};
pub use self::spent::Spent;
pub use self::writes::{Trial, Writes};

/// The heading of our part of the report.
pub const SECTION: &str = "## On etcd";
/// What operators have.
const CONVERGE_INTERVAL: &str = "30s";
const ENCRYPTION: Encryption<'_> = Encryption { active: "A", keys: &["A"], mode: "online" };
const PREFIX: &str = "/full";
const NODES: [&str; 3] = ["a", "b", "c"];
/// What a node has when nobody says otherwise, and a short one.
const LEASE_S: u64 = 10;
const LEASE_SHORT_S: u64 = 3;
/// What etcd has when nobody says otherwise.
const HEARTBEAT_MS: u64 = 100;
const ELECTION_TIMEOUT_MS: u64 = 1_000;
/// The largest that etcd recommends: the full fleet and what was overwritten must fit.
const QUOTA_BYTES: u64 = 8 * 1024 * 1024 * 1024;

#[derive(Debug, Args)]
pub struct EtcdArgs {
    /// DesiredLRPs of the full fleet, for reads, starts and failovers; there are a quarter more instances
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(4..))]
    pub lrps: u64,
    /// DesiredLRPs whose instances the most clients claim and start; fewer clients get fewer
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(4..))]
    pub writes_lrps: u64,
    /// How often writes, starts and reads are measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
    /// How long etcd is written to directly with each size of batches, in milliseconds
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub floor_ms: u64,
    /// How often each small read is made
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub reads: u64,
    /// How often a master is stopped
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub planned: u64,
    /// How often a master is killed that has a lease of 10 s
    #[arg(long, default_value_t = 3)]
    pub unplanned: u64,
    /// How often a master is killed that has a lease of 3 s
    #[arg(long, default_value_t = 5)]
    pub unplanned_short: u64,
    /// The report of which we write our section
    #[arg(long, default_value = "docs/benchmarks.md")]
    pub out: PathBuf,
    /// The server
    #[arg(long, default_value = "target/release/corkboard")]
    pub binary: PathBuf,
    /// Where stores are made and raw numbers are left; must be on a real disk
    #[arg(long, default_value = "target/bench")]
    pub dir: PathBuf,
}

/// Everything that was measured. The section is a function of this.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub floors: Floors,
    /// For each number of members.
    pub writes: Vec<Writes>,
    /// `None` until it was measured.
    pub full: Option<Full>,
    pub failovers: Vec<Failover>,
    pub memory: Option<Memory>,
}

/// True if the run came to its end: whatever fails ends it. The section is written only then.
pub async fn run(args: &EtcdArgs, say: &dyn Fn(&str)) -> anyhow::Result<bool> {
    anyhow::ensure!(
        args.binary.is_file(),
        "There is no server at {}. Nothing was measured. Build it first: cargo build --release --package corkboard",
        args.binary.display()
    );
    fs::create_dir_all(&args.dir)?;
    is_one_disk(args)?;
    let scratch = tempfile::Builder::new().prefix("etcd-").tempdir_in(&args.dir)?;
    let home = scratch.path().canonicalize()?;
    let certificates = Certificates::create(&home)?;
    let bench = Bench { args, binary: args.binary.canonicalize()?, home, certificates, say };
    let raw = args.dir.join("etcd.json");
    let keep = |measured: &Measured| anyhow::Ok(fs::write(&raw, serde_json::to_string_pretty(measured)?)?);

    say("floors of this machine");
    let floors = floors::measure(&bench.home, &bench.certificates, Settings::default().clients).await?;
    say(&floors.table());
    let mut measured = Measured { floors, writes: Vec::new(), full: None, failovers: Vec::new(), memory: None };
    for members in [3, 1] {
        measured.writes.push(writes::measure(&bench, members).await?);
        keep(&measured)?;
    }
    let cluster = bench.cluster(3);
    measured.full = Some(full::measure(&bench, &cluster).await?);
    keep(&measured)?;
    for plan in plans(args) {
        let (failovers, memory) = failover::measure(&bench, &cluster, &plan).await?;
        measured.failovers.extend(failovers);
        measured.memory.get_or_insert(memory);
        keep(&measured)?;
    }

    let section = report::section(&Machine::read(), &measured);
    say(&section);
    let text = document::with_section(&document::read(&args.out)?, SECTION, &section);
    fs::write(&args.out, text).with_context(|| format!("{} cannot be written", args.out.display()))?;
    say(&format!("report: {}, raw numbers: {}", args.out.display(), raw.display()));
    Ok(true)
}

fn plans(args: &EtcdArgs) -> [Plan; 2] {
    [
        Plan { lease_s: LEASE_S, planned: args.planned, unplanned: args.unplanned },
        Plan { lease_s: LEASE_SHORT_S, planned: 0, unplanned: args.unplanned_short },
    ]
}

/// Clusters of etcd lie in the temporary folder. In memory they would be fast and mean nothing.
fn is_one_disk(args: &EtcdArgs) -> anyhow::Result<()> {
    let device = |path: &std::path::Path| anyhow::Ok(fs::metadata(path)?.dev());
    anyhow::ensure!(
        device(&std::env::temp_dir())? == device(&args.dir)?,
        "The temporary folder, in which etcd keeps its data, is on another disk than {0}. Nothing was measured. \
         Run it with TMPDIR=\"$PWD/{0}\" before the command.",
        args.dir.display()
    );
    Ok(())
}

struct Bench<'a> {
    args: &'a EtcdArgs,
    binary: PathBuf,
    home: PathBuf,
    certificates: Certificates,
    say: &'a dyn Fn(&str),
}

impl Bench<'_> {
    /// As an operator would run it, but for the quota.
    fn cluster(&self, members: usize) -> Cluster {
        (self.say)(&format!("etcd with {members} members"));
        Cluster::start(Options {
            members,
            tls: true,
            quota_bytes: Some(QUOTA_BYTES),
            heartbeat_ms: HEARTBEAT_MS,
            election_timeout_ms: ELECTION_TIMEOUT_MS,
            ..Options::default()
        })
    }

    fn place<'a>(&'a self, cluster: &'a Cluster, lease_s: u64) -> Place<'a> {
        Place {
            binary: &self.binary,
            certificates: &self.certificates,
            cluster,
            endpoints: cluster.endpoints(),
            prefix: PREFIX.to_owned(),
            lease_s,
        }
    }

    fn fleet(&self) -> Fleet {
        Fleet { lrps: self.args.lrps, cells: CELLS }
    }

    fn floor_time(&self) -> Duration {
        Duration::from_millis(self.args.floor_ms)
    }
}
