//! `migrate`: what an upgrade costs. Fills stores with the former release, starts the present one on them in every mode, and
//! measures from outside how long it takes, what clients notice, and what going back costs.
//!
//! Both servers are release binaries in processes of their own, with mutual TLS and records on a real disk. The former one
//! is the same source with the newest data version left out. Each mode gets a copy of the same store. Beside every figure of a
//! migration stands that of a plain start of the same binary on the same records, and the floors are from the same run.
//!
//! A record here is what the status of a migration counts: one DesiredLRP, one instance, one task.

mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use api::client::Question;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use store::Version;

use crate::certificates::Certificates;
use crate::clients::Clients;
use crate::course::MIGRATION;
use crate::document;
use crate::floors::{self, Floors};
use crate::load::Settings;
use crate::process::Machine;
use crate::quiet::{Quiet, Spent};
use crate::runs::{self, Online, Run};
use crate::server::{Ending, Launch, Server};
use crate::sizes::{CELLS, Size};
use crate::stores;

/// The heading of our part of the report.
pub const SECTION: &str = "## Migrations";
/// What operators have.
const CONVERGE_INTERVAL: &str = "30s";
const ROLLBACK_MAX: Duration = Duration::from_secs(1_800);

#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// How many records, for example 10k,100k,1M
    #[arg(long, value_delimiter = ',', default_value = "10k,100k,500k,1M")]
    pub sizes: Vec<Size>,
    /// How long clients are watched before and after an online migration, in seconds
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// The report of which we write our section
    #[arg(long, default_value = "docs/benchmarks.md")]
    pub out: PathBuf,
    /// The server
    #[arg(long, default_value = "target/release/corkboard")]
    pub binary: PathBuf,
    /// The server of the release before
    #[arg(long, default_value = "target/former/release/corkboard")]
    pub former: PathBuf,
    /// Where stores are made and raw numbers are left; must be on a real disk
    #[arg(long, default_value = "target/bench")]
    pub dir: PathBuf,
}

/// Everything that was measured. The section is a function of this.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub floors: Floors,
    /// One long write, synced at its end.
    pub disk_mb_per_s: f64,
    pub sizes: Vec<Sized>,
}

#[derive(Debug, Serialize)]
pub struct Sized {
    pub size: Size,
    /// Of the directory of the filled store.
    pub store_bytes: u64,
    pub fill_s: f64,
    pub offline: Run,
    pub read_only: Run,
    pub online: Run,
    /// A start on records that are up to date.
    pub plain: Run,
    pub clients: Clients,
    /// From the request to the end of the process.
    pub rollback: Spent,
}

/// Whether nothing failed. The section is written in any case.
pub async fn run(args: &MigrateArgs, say: &dyn Fn(&str)) -> anyhow::Result<bool> {
    for (binary, features) in
        [(&args.binary, ""), (&args.former, " --features former-data-version --target-dir target/former")]
    {
        anyhow::ensure!(
            binary.is_file(),
            "There is no server at {}. Nothing was measured. Build it first: cargo build --release --package corkboard{features}",
            binary.display()
        );
    }
    anyhow::ensure!(!args.sizes.is_empty(), "No size is given. Nothing was measured.");
    fs::create_dir_all(&args.dir)?;
    let scratch = tempfile::Builder::new().prefix("migrate-").tempdir_in(&args.dir)?;
    let home = scratch.path().canonicalize()?;
    let certificates = Certificates::create(&home)?;
    let (binary, former) = (args.binary.canonicalize()?, args.former.canonicalize()?);
    let bench = Bench { binary, former, home, certificates, watched: Duration::from_secs(args.seconds), say };

    say("floors of this machine");
    let disk_mb_per_s = floors::disk_mb_per_s(&bench.home, &args.sizes)?;
    let floors = floors::measure(&bench.home, &bench.certificates, Settings::default().clients).await?;
    let mut sizes = Vec::new();
    for size in &args.sizes {
        sizes.push(bench.size(*size).await?);
    }
    let measured = Measured { floors, disk_mb_per_s, sizes };

    let raw = args.dir.join("migrate.json");
    fs::write(&raw, serde_json::to_string_pretty(&measured)?)?;
    let section = report::section(&Machine::read(), &measured);
    say(&section);
    let text = document::with_section(&document::read(&args.out)?, SECTION, &section);
    fs::write(&args.out, text).with_context(|| format!("{} cannot be written", args.out.display()))?;
    say(&format!("report: {}, raw numbers: {}", args.out.display(), raw.display()));
    Ok(measured.sizes.iter().all(Sized::counts))
}

impl Sized {
    pub fn counts(&self) -> bool {
        self.clients.count()
    }
}

struct Bench<'a> {
    binary: PathBuf,
    former: PathBuf,
    home: PathBuf,
    certificates: Certificates,
    watched: Duration,
    say: &'a dyn Fn(&str),
}

impl Bench<'_> {
    async fn size(&self, size: Size) -> anyhow::Result<Sized> {
        let (filled, work) = (self.home.join("filled"), self.home.join("work"));
        self.progress(size, "the former release fills a store");
        let fill_s = stores::fill(&self.launch(&self.former, &filled, None), size).await?;
        let store_bytes = stores::bytes_below(&filled.join("store"))?;

        stores::copy(&filled, &work)?;
        let (offline, mut server) = self.migrate(&work, size, "offline").await?;
        server.end(Ending::Stop).await?;
        self.progress(size, "a plain start on the migrated store");
        let (plain, mut server) =
            runs::start(&self.launch(&self.binary, &work, Some("offline")), &MIGRATION, self.say).await?;
        self.everything_is_there(&server, size).await?;
        server.end(Ending::Stop).await?;
        fs::remove_dir_all(&work)?;

        stores::copy(&filled, &work)?;
        let (read_only, mut server) = self.migrate(&work, size, "read-only").await?;
        server.end(Ending::Stop).await?;
        fs::remove_dir_all(&work)?;

        fs::rename(&filled, &work)?;
        let online = Online {
            before: self.launch(&self.former, &work, None),
            then: self.launch(&self.binary, &work, Some("online")),
            subject: &MIGRATION,
            size,
            watched: self.watched,
        };
        let (online, clients, mut server) = online.run(self.say).await?;
        let rollback = self.roll_back(&work, &mut server, size).await?;
        fs::remove_dir_all(&work)?;
        Ok(Sized { size, store_bytes, fill_s, offline, read_only, online, plain, clients, rollback })
    }

    async fn migrate(&self, dir: &Path, size: Size, mode: &str) -> anyhow::Result<(Run, Server)> {
        self.progress(size, mode);
        let (run, server) = runs::start(&self.launch(&self.binary, dir, Some(mode)), &MIGRATION, self.say).await?;
        anyhow::ensure!(run.course.records > 0, "The server migrated nothing: {:?}", run.course);
        self.everything_is_there(&server, size).await?;
        Ok((run, server))
    }

    /// Back to the former release, which must find everything.
    async fn roll_back(&self, dir: &Path, server: &mut Server, size: Size) -> anyhow::Result<Spent> {
        self.progress(size, "rolling back");
        let former = Version::ALL.iter().rev().nth(1).context("There is one data version only, so no way back.")?;
        let body = json!({ "to": former.number().0, "accept_loss": false });
        let question = Question::post("/corkboard/v1/migration/rollback", &body);
        let quiet = Quiet::start()?;
        server.ask(&self.certificates, &question).await?;
        let rollback = quiet.until_ended(server, ROLLBACK_MAX).await?;
        let (mut server, _) = self.launch(&self.former, dir, None).start().await?;
        self.everything_is_there(&server, size).await?;
        server.end(Ending::Stop).await?;
        Ok(rollback)
    }

    async fn everything_is_there(&self, server: &Server, size: Size) -> anyhow::Result<()> {
        stores::everything_is_there(server, &self.certificates, size).await
    }

    fn launch<'a>(&'a self, binary: &'a Path, dir: &'a Path, migration_mode: Option<&'a str>) -> Launch<'a> {
        Launch {
            binary,
            dir,
            certificates: &self.certificates,
            cells: CELLS,
            converge_interval: CONVERGE_INTERVAL,
            migration_mode,
            encryption: None,
        }
    }

    fn progress(&self, size: Size, what: &str) {
        (self.say)(&format!("{size} records: {what}"));
    }
}
