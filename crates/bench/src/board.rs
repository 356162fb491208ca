//! `board`: starts the server, measures it from outside at three sizes, and writes the report. One command, no hands.
//!
//! The server is the release binary as an operator would start it: its own process, mutual TLS, records on a real disk. It
//! is measured at a small size (latency of claims), a middle one (events) and the full one; each size gets a fresh store. The
//! floors of the machine are measured in the same run. Nothing is kept but the report and, beside the build, the raw numbers.

mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use crate::certificates::Certificates;
use crate::document;
use crate::fleet::Fleet;
use crate::floors::{self, Floors};
use crate::load::{self, Load, Phase, PhaseReport, Settings};
use crate::process::Machine;
use crate::server::{Ending, Launch, Server};
use crate::{encrypt, etcd, migrate};

/// As many as polled the other server.
const CELLS: u64 = 1_000;
/// Short enough to see several passes in a run, long enough not to be the load.
const CONVERGE_INTERVAL: &str = "5s";
/// What operators have. Polling is measured with it, because passes every few seconds would be most of what is measured.
const USUAL_INTERVAL: &str = "30s";
/// Passes that are read for their duration, on an idle server.
const PASSES: u32 = 3;

#[derive(Debug, Args)]
pub struct BoardArgs {
    /// DesiredLRPs of the full size; there are a quarter more instances
    #[arg(long, default_value_t = 200_000)]
    pub lrps: u64,
    /// DesiredLRPs when events are measured
    #[arg(long, default_value_t = 50_000)]
    pub middle: u64,
    /// DesiredLRPs of the small size
    #[arg(long, default_value_t = 5_000)]
    pub small: u64,
    /// Length of the phases mixed, events and poll, in seconds
    #[arg(long, default_value_t = 15)]
    pub seconds: u64,
    /// Where the report goes
    #[arg(long, default_value = "docs/benchmarks.md")]
    pub out: PathBuf,
    /// The server
    #[arg(long, default_value = "target/release/corkboard")]
    pub binary: PathBuf,
    /// Where stores are made and raw numbers are left; must be on a real disk
    #[arg(long, default_value = "target/bench")]
    pub dir: PathBuf,
}

/// Everything that was measured. The report is a function of this.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub floors: Floors,
    pub small: Vec<PhaseReport>,
    pub middle: Vec<PhaseReport>,
    pub full: Vec<PhaseReport>,
    pub rest: Rest,
}

/// What is not a phase of load: measured on the full size.
#[derive(Debug, Serialize)]
pub struct Rest {
    pub lrps: u64,
    pub instances: u64,
    /// The longest of some passes on an idle server.
    pub convergence_s: f64,
    pub memory_peak_bytes: u64,
    pub memory_peak_after_restart_bytes: u64,
    /// From the start of the process to the first answered ping.
    pub start_after_stop_s: f64,
    pub start_after_kill_s: f64,
    pub stop_s: f64,
}

/// Whether every phase counts. The report is written in any case, and says which phases failed.
pub async fn run(args: &BoardArgs, say: &dyn Fn(&str)) -> anyhow::Result<bool> {
    anyhow::ensure!(
        args.binary.is_file(),
        "There is no server at {}. Nothing was measured. Build it first: cargo build --release --package corkboard",
        args.binary.display()
    );
    std::fs::create_dir_all(&args.dir)?;
    let scratch = tempfile::Builder::new().prefix("board-").tempdir_in(&args.dir)?;
    let home = scratch.path().canonicalize()?;
    let certificates = Certificates::create(&home)?;
    let settings = Settings { duration: Duration::from_secs(args.seconds), ..Settings::default() };
    let bench = Bench { binary: args.binary.canonicalize()?, home, certificates, settings, say };

    say("floors of this machine");
    let floors = floors::measure(&bench.home, &bench.certificates, settings.clients).await?;
    say(&floors.table());
    let small = bench.size("small", args.small, &[Phase::Populate, Phase::ClaimStart, Phase::Reads]).await?;
    let middle = bench.size("middle", args.middle, &[Phase::Populate, Phase::ClaimStart, Phase::Events]).await?;
    let (full, rest) = bench.full(args.lrps).await?;
    let measured = Measured { floors, small, middle, full, rest };

    let raw = args.dir.join("board.json");
    std::fs::write(&raw, serde_json::to_string_pretty(&measured)?)?;
    let mut text = report::markdown(&Machine::read(), &measured);
    let former = document::read(&args.out)?;
    for heading in [migrate::SECTION, encrypt::SECTION, etcd::SECTION] {
        if let Some(section) = document::section(&former, heading) {
            text = document::with_section(&text, heading, section);
        }
    }
    std::fs::write(&args.out, text).with_context(|| format!("{} cannot be written", args.out.display()))?;
    say(&format!("report: {}, raw numbers: {}", args.out.display(), raw.display()));
    Ok(!measured.phases().any(PhaseReport::failed))
}

impl Measured {
    pub fn phases(&self) -> impl Iterator<Item = &PhaseReport> {
        self.small.iter().chain(&self.middle).chain(&self.full)
    }
}

struct Bench<'a> {
    binary: PathBuf,
    home: PathBuf,
    certificates: Certificates,
    settings: Settings,
    say: &'a dyn Fn(&str),
}

impl Bench<'_> {
    /// One size on a server of its own.
    async fn size(&self, name: &str, lrps: u64, phases: &[Phase]) -> anyhow::Result<Vec<PhaseReport>> {
        let dir = self.new_home(name)?;
        let (mut server, _) = self.start(&dir).await?;
        let load = self.load(&server, lrps).await?;
        let reports = self.phases(&load, phases).await;
        server.end(Ending::Stop).await?;
        std::fs::remove_dir_all(&dir)?;
        Ok(reports)
    }

    /// The full size, with what only makes sense there: convergence, memory, restarts.
    async fn full(&self, lrps: u64) -> anyhow::Result<(Vec<PhaseReport>, Rest)> {
        let dir = self.new_home("full")?;
        let (mut server, _) = self.start(&dir).await?;
        let load = self.load(&server, lrps).await?;
        let mut reports = self.phases(&load, &[Phase::Populate, Phase::ClaimStart, Phase::Reads]).await;
        (self.say)("convergence: reading some passes of an idle server");
        let convergence_s = server.longest_pass(PASSES).await?;
        reports.extend(self.phases(&load, &[Phase::Mixed]).await);
        let memory_peak_bytes = server.process().memory_peak_bytes()?;

        (self.say)("restarts: after a stop and after a kill");
        let stop_s = server.end(Ending::Stop).await?;
        let (mut server, start_after_stop_s) = self.start(&dir).await?;
        reports.push(self.everything_is_there("restart after a stop", &server, lrps).await?);
        let memory_peak_after_restart_bytes = server.process().memory_peak_bytes()?;
        server.end(Ending::Kill).await?;
        let (mut server, start_after_kill_s) = self.start_with(&dir, USUAL_INTERVAL).await?;
        reports.push(self.everything_is_there("restart after a kill", &server, lrps).await?);
        let restarted = self.load(&server, lrps).await?;
        reports.extend(self.phases(&restarted, &[Phase::Poll]).await);
        server.end(Ending::Stop).await?;
        let rest = Rest {
            lrps,
            instances: load.fleet.instances(),
            convergence_s,
            memory_peak_bytes,
            memory_peak_after_restart_bytes,
            start_after_stop_s,
            start_after_kill_s,
            stop_s,
        };
        Ok((reports, rest))
    }

    /// A start that is fast because something is missing is no start: all lists are read and counted.
    async fn everything_is_there(&self, phase: &str, server: &Server, lrps: u64) -> anyhow::Result<PhaseReport> {
        let mut load = self.load(server, lrps).await?;
        load.settings = Settings { bulk_rounds: 1, small_rounds: 50, ..load.settings };
        Ok(PhaseReport { phase: phase.to_owned(), ..load.run(Phase::Reads).await })
    }

    async fn phases(&self, load: &Load, phases: &[Phase]) -> Vec<PhaseReport> {
        let mut reports = Vec::new();
        for phase in phases {
            (self.say)(&format!("{} LRPs: {}", load.fleet.lrps, phase.name()));
            reports.push(load.run(*phase).await);
            (self.say)(&load::table(&reports[reports.len() - 1..]));
        }
        reports
    }

    async fn start(&self, dir: &Path) -> anyhow::Result<(Server, f64)> {
        self.start_with(dir, CONVERGE_INTERVAL).await
    }

    async fn start_with(&self, dir: &Path, converge_interval: &str) -> anyhow::Result<(Server, f64)> {
        let launch = Launch {
            binary: &self.binary,
            dir,
            certificates: &self.certificates,
            cells: CELLS,
            converge_interval,
            migration_mode: None,
            encryption: None,
        };
        launch.start().await
    }

    async fn load(&self, server: &Server, lrps: u64) -> anyhow::Result<Load> {
        let target = server.target(&self.certificates).await?;
        Ok(Load::new(target, Fleet { lrps: lrps.max(1), cells: CELLS }, self.settings, Some(server.process())))
    }

    fn new_home(&self, name: &str) -> anyhow::Result<PathBuf> {
        let dir = self.home.join(name);
        std::fs::create_dir(&dir)?;
        Ok(dir)
    }
}
