//! `scale`: a whole cluster on one machine. A thousand cells take part in the real protocol, a quarter million instances are
//! placed on them, stay there, and are placed anew when some of the cells die.
//!
//! State server and auctioneer are processes of the release binary, as operators run them; the state server has the embedded store
//! and serves Locket. The cells are all in this process: real ports, real TLS, real calls, and containers that only pass
//! through their states. Beside each cell somebody listens to the events of that cell, as its route emitter would, and one
//! listens to all of them. A time ends with what the state server said, never with what a cell believes.

mod cells;
mod files;
mod phases;
mod programs;
mod report;
mod watch;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use tokio::runtime::{Handle, Runtime};

use crate::certificates::Certificates;
use crate::document;
use crate::floors::{self, Floors};
use crate::load::Settings;
use crate::process::Machine;

pub use self::phases::{Delays, Killed, Placed, Ready, Steady};
pub use self::programs::{Memory, Spent};

/// The heading of our part of the report.
pub const SECTION: &str = "## A thousand cells";

#[derive(Clone, Debug, Args)]
pub struct ScaleArgs {
    /// Cells, all in this process
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(2..))]
    pub cells: u64,
    /// DesiredLRPs
    #[arg(long, default_value_t = 2_500, value_parser = clap::value_parser!(u64).range(1..))]
    pub lrps: u64,
    /// Instances of each of them
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..))]
    pub instances: i32,
    /// Convergence passes over which everything must stay as it is
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub passes: u32,
    /// From one convergence pass to the next, and from one comparison of a cell to the next, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub interval_s: u64,
    /// How long a cell that is not heard of counts as present; it speaks up three times as often
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..))]
    pub presence_s: u64,
    /// Of a hundred cells, how many are killed
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=50))]
    pub killed_percent: u64,
    /// Changes of single instances whose way to a listener is timed
    #[arg(long, default_value_t = 500)]
    pub probes: u32,
    /// The report of which we write our section
    #[arg(long, default_value = "docs/benchmarks.md")]
    pub out: PathBuf,
    /// The server
    #[arg(long, default_value = "target/release/corkboard")]
    pub binary: PathBuf,
    /// Where the store is made and raw numbers are left; must be on a real disk
    #[arg(long, default_value = "target/bench")]
    pub dir: PathBuf,
    /// Leave store, logs and configurations there
    #[arg(long)]
    pub keep: bool,
}

impl ScaleArgs {
    pub(crate) fn total(&self) -> u64 {
        self.lrps * u64::from(self.instances.unsigned_abs())
    }

    pub(crate) fn killed(&self) -> u64 {
        (self.cells * self.killed_percent / 100).max(1)
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_s)
    }
}

/// A second runtime, for what must not wait behind everything else.
struct Apart(Option<Runtime>);

impl Apart {
    fn start() -> anyhow::Result<Self> {
        Ok(Self(Some(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)))
    }

    fn handle(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
    }
}

impl Drop for Apart {
    /// Within another runtime none may wait for its end.
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Everything that was measured. The section is a function of this.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub cells: u64,
    pub lrps: u64,
    pub instances: u64,
    pub interval_s: u64,
    pub presence_s: u64,
    /// Open files that a process of this run may have.
    pub files_max: u64,
    pub floors: Floors,
    pub ready: Ready,
    pub placed: Option<Placed>,
    pub steady: Option<Steady>,
    pub killed: Option<Killed>,
}

/// True if the run came to its end: whatever fails ends it. The section is written only then.
pub async fn run(args: &ScaleArgs, say: &dyn Fn(&str)) -> anyhow::Result<bool> {
    anyhow::ensure!(
        args.binary.is_file(),
        "There is no server at {}. Nothing was measured. Build it first: cargo build --release --package corkboard",
        args.binary.display()
    );
    let files_max = files::raise(args.cells)?;
    fs::create_dir_all(&args.dir)?;
    let mut scratch = tempfile::Builder::new().prefix("scale-").tempdir_in(&args.dir)?;
    scratch.disable_cleanup(args.keep);
    let home = scratch.path().canonicalize()?;
    let certificates = Certificates::create(&home)?;
    say("floors of this machine");
    let floors = floors::measure(&home, &certificates, Settings::default().clients).await?;
    say(&floors.table());

    let apart = Apart::start()?;
    let mut cluster = phases::Cluster::start(args, &home, &certificates, apart.handle(), say).await?;
    let raw = args.dir.join("scale.json");
    let keep = |measured: &Measured| anyhow::Ok(fs::write(&raw, serde_json::to_string_pretty(measured)?)?);
    let mut measured = Measured {
        cells: args.cells,
        lrps: args.lrps,
        instances: args.total(),
        interval_s: args.interval_s,
        presence_s: args.presence_s,
        files_max,
        floors,
        ready: cluster.ready().await?,
        placed: None,
        steady: None,
        killed: None,
    };
    measured.placed = Some(cluster.place().await?);
    keep(&measured)?;
    measured.steady = Some(cluster.stay().await?);
    keep(&measured)?;
    measured.killed = Some(cluster.kill().await?);
    keep(&measured)?;
    cluster.end().await?;

    let section = report::section(&Machine::read(), &measured);
    say(&section);
    let text = document::with_section(&document::read(&args.out)?, SECTION, &section);
    fs::write(&args.out, text).with_context(|| format!("{} cannot be written", args.out.display()))?;
    say(&format!("report: {}, raw numbers: {}", args.out.display(), raw.display()));
    Ok(true)
}
