//! `migrate`: what an upgrade costs. Fills stores with the former release, starts the present one on them in every mode, and
//! measures from outside how long it takes, what clients notice, and what going back costs.
//!
//! Both servers are release binaries in processes of their own, with mutual TLS and records on a real disk. The former one
//! is the same source with the newest data version left out. Each mode gets a copy of the same store. Beside every figure of a
//! migration stands that of a plain start of the same binary on the same records, and the floors are from the same run.
//!
//! A record here is what the status of a migration counts: one DesiredLRP, one instance, one task.

mod course;
mod report;
mod sizes;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use api::Route;
use api::client::{Client, ClientConfig, Question};
use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use store::Version;

use crate::certificates::Certificates;
use crate::document;
use crate::fleet::Fleet;
use crate::floors::{self, Floors};
use crate::load::steady::{Seen, Steady};
use crate::load::{Load, Settings};
use crate::process::{Machine, Process, busy_seconds};
use crate::server::{Ending, Launch, Server};
use crate::stopwatch::Stopwatch;

pub use self::course::{Course, First, Mark};
pub use self::sizes::Size;

/// The heading of our part of the report.
pub const SECTION: &str = "## Migrations";
const CELLS: u64 = 1_000;
/// What operators have.
const CONVERGE_INTERVAL: &str = "30s";
/// How much is written to know how fast the disk is: too little would end in a cache.
const DISK_FLOOR_BYTES_MIN: u64 = 256_000_000;
const DISK_FLOOR_BYTES_MAX: u64 = 1_000_000_000;
const ROLLBACK_MAX: Duration = Duration::from_secs(1_800);
const CPU_ASKED_EVERY: Duration = Duration::from_millis(100);
const ASK_MAX: Duration = Duration::from_secs(60);

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
    pub rollback: Rollback,
}

/// One start of the server until no migration is under way.
#[derive(Debug, Serialize)]
pub struct Run {
    pub course: Course,
    pub first: First,
    pub memory_peak_bytes: u64,
    pub written_bytes: u64,
    /// Processor that neither the server nor this program took meanwhile, in cores.
    pub taken_by_others: f64,
}

/// What a steady load saw.
#[derive(Debug, Serialize)]
pub struct Clients {
    /// On the former release.
    pub before: Seen,
    pub during: Seen,
    pub after: Seen,
}

#[derive(Debug, Serialize)]
pub struct Rollback {
    /// From the request to the end of the process.
    pub seconds: f64,
    pub taken_by_others: f64,
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
    let largest = args.sizes.iter().map(Size::bytes).max().unwrap_or(0);
    let disk_mb_per_s = floors::sequential_mb_per_s(
        &bench.home.join("floor"),
        largest.clamp(DISK_FLOOR_BYTES_MIN, DISK_FLOOR_BYTES_MAX),
    )?;
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
    /// Calls that failed make the latencies beside them worthless.
    pub fn counts(&self) -> bool {
        let Clients { before, during, after } = &self.clients;
        [before, during, after].iter().all(|seen| seen.failures == 0 && seen.writes.count > 0)
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
        let fill_s = self.fill(&filled, size).await?;
        let store_bytes = bytes_below(&filled.join("store"))?;

        copy(&filled, &work)?;
        let (offline, mut server) = self.migrate(&work, size, "offline").await?;
        server.end(Ending::Stop).await?;
        self.progress(size, "a plain start on the migrated store");
        let (plain, mut server) = self.start(&work, "offline").await?;
        self.everything_is_there(&server, size).await?;
        server.end(Ending::Stop).await?;
        fs::remove_dir_all(&work)?;

        copy(&filled, &work)?;
        let (read_only, mut server) = self.migrate(&work, size, "read-only").await?;
        server.end(Ending::Stop).await?;
        fs::remove_dir_all(&work)?;

        fs::rename(&filled, &work)?;
        let (online, clients, mut server) = self.migrate_online(&work, size).await?;
        let rollback = self.roll_back(&work, &mut server, size).await?;
        fs::remove_dir_all(&work)?;
        Ok(Sized { size, store_bytes, fill_s, offline, read_only, online, plain, clients, rollback })
    }

    /// A store as the former release leaves it.
    async fn fill(&self, dir: &Path, size: Size) -> anyhow::Result<f64> {
        self.progress(size, "the former release fills a store");
        fs::create_dir(dir)?;
        let watch = Stopwatch::start();
        let (mut server, _) = self.launch(&self.former, dir, None).start().await?;
        let report = self.load(&server, size).await?.fill(size.tasks()).await;
        anyhow::ensure!(!report.failed(), "The store could not be filled:\n{}", crate::load::table(&[report]));
        self.everything_is_there(&server, size).await?;
        server.end(Ending::Stop).await?;
        Ok(watch.seconds())
    }

    async fn migrate(&self, dir: &Path, size: Size, mode: &str) -> anyhow::Result<(Run, Server)> {
        self.progress(size, mode);
        let (run, server) = self.start(dir, mode).await?;
        anyhow::ensure!(run.course.records > 0, "The server migrated nothing: {:?}", run.course);
        self.everything_is_there(&server, size).await?;
        Ok((run, server))
    }

    /// Starts the server and follows it until no migration is under way.
    async fn start(&self, dir: &Path, mode: &str) -> anyhow::Result<(Run, Server)> {
        let quiet = Quiet::start()?;
        let mut server = self.launch(&self.binary, dir, Some(mode)).spawn()?;
        let target = server.target(&self.certificates).await?;
        let watch = server.started();
        let (course, first) = both(course::follow(&mut server), course::first_calls(&target, watch)).await?;
        Ok((quiet.run(&server, course, first)?, server))
    }

    async fn migrate_online(&self, dir: &Path, size: Size) -> anyhow::Result<(Run, Clients, Server)> {
        self.progress(size, "clients of the former release");
        let (mut server, _) = self.launch(&self.former, dir, None).start().await?;
        let steady = Steady::start(&self.load(&server, size).await?, 0);
        tokio::time::sleep(self.watched).await;
        let ([before, _], cursor) = steady.finish().await;
        server.end(Ending::Stop).await?;

        self.progress(size, "online, with clients");
        let quiet = Quiet::start()?;
        let mut server = self.launch(&self.binary, dir, Some("online")).spawn()?;
        let load = self.load(&server, size).await?;
        let watch = server.started();
        let begin = async {
            let first = course::first_calls(&load.target, watch).await;
            (first, Steady::start(&load, cursor))
        };
        let (course, (first, steady)) = both(course::follow(&mut server), begin).await?;
        let run = quiet.run(&server, course, first)?;
        steady.next_window();
        tokio::time::sleep(self.watched).await;
        let ([during, after], _) = steady.finish().await;
        self.everything_is_there(&server, size).await?;
        Ok((run, Clients { before, during, after }, server))
    }

    /// Back to the former release, which must find everything.
    async fn roll_back(&self, dir: &Path, server: &mut Server, size: Size) -> anyhow::Result<Rollback> {
        self.progress(size, "rolling back");
        let former = Version::ALL.iter().rev().nth(1).context("There is one data version only, so no way back.")?;
        let client = Client::new(ClientConfig {
            url: server.url()?.to_string(),
            tls: Some(self.certificates.client()),
            timeout: Some(ASK_MAX),
            trace_id: None,
        })?;
        let quiet = Quiet::start()?;
        let body = json!({ "to": former.number().0, "accept_loss": false });
        client.ask(&Question::post("/corkboard/v1/migration/rollback", &body)).await?;
        let process = server.process();
        let before_s = process.cpu_seconds()?;
        let mut server_cpu_s = before_s;
        let ended = server.ended(ROLLBACK_MAX);
        tokio::pin!(ended);
        // The kernel forgets what a process used when it has ended, so it is asked until then.
        loop {
            match tokio::time::timeout(CPU_ASKED_EVERY, &mut ended).await {
                Ok(ended) => break ended?,
                Err(_) => server_cpu_s = process.cpu_seconds().unwrap_or(server_cpu_s),
            }
        }
        let (seconds, taken_by_others) = (quiet.watch.seconds(), quiet.taken_by_others(server_cpu_s - before_s)?);
        let (mut server, _) = self.launch(&self.former, dir, None).start().await?;
        self.everything_is_there(&server, size).await?;
        server.end(Ending::Stop).await?;
        Ok(Rollback { seconds, taken_by_others })
    }

    /// A server that is fast because something is missing is not fast: all lists are read and counted.
    async fn everything_is_there(&self, server: &Server, size: Size) -> anyhow::Result<()> {
        let mut connection = server.target(&self.certificates).await?.connect().await?;
        let lists = [
            (Route::DesiredLrps, size.lrps()),
            (Route::ActualLrps, size.fleet().instances()),
            (Route::Tasks, size.tasks()),
        ];
        for (route, wanted) in lists {
            let found = connection.call(route, Bytes::new()).await?.records;
            anyhow::ensure!(found == wanted, "{} lists {found} records, and {wanted} should be there", route.path());
        }
        Ok(())
    }

    fn launch<'a>(&'a self, binary: &'a Path, dir: &'a Path, migration_mode: Option<&'a str>) -> Launch<'a> {
        let certificates = &self.certificates;
        Launch { binary, dir, certificates, cells: CELLS, converge_interval: CONVERGE_INTERVAL, migration_mode }
    }

    async fn load(&self, server: &Server, size: Size) -> anyhow::Result<Load> {
        let target = server.target(&self.certificates).await?;
        Ok(Load::new(target, size.fleet(), Settings::default(), Some(server.process())))
    }

    fn progress(&self, size: Size, what: &str) {
        (self.say)(&format!("{size} records: {what}"));
    }
}

impl Size {
    fn fleet(&self) -> Fleet {
        Fleet { lrps: self.lrps(), cells: CELLS }
    }
}

/// Both to their end, unless the first fails: the other might then wait for ever.
async fn both<A, B>(
    first: impl Future<Output = anyhow::Result<A>>,
    second: impl Future<Output = B>,
) -> anyhow::Result<(A, B)> {
    tokio::try_join!(first, async { anyhow::Ok(second.await) })
}

/// How quiet the machine is beside what is measured.
struct Quiet {
    watch: Stopwatch,
    busy_s: f64,
    ours_s: f64,
}

impl Quiet {
    fn start() -> anyhow::Result<Self> {
        Ok(Self { watch: Stopwatch::start(), busy_s: busy_seconds()?, ours_s: ourselves().cpu_seconds()? })
    }

    fn taken_by_others(&self, server_s: f64) -> anyhow::Result<f64> {
        let ours_s = ourselves().cpu_seconds()? - self.ours_s;
        Ok(((busy_seconds()? - self.busy_s - ours_s - server_s) / self.watch.seconds()).max(0.0))
    }

    fn run(&self, server: &Server, course: Course, first: First) -> anyhow::Result<Run> {
        let process = server.process();
        Ok(Run {
            course,
            first,
            memory_peak_bytes: process.memory_peak_bytes()?,
            written_bytes: process.written_bytes()?,
            taken_by_others: self.taken_by_others(process.cpu_seconds()?)?,
        })
    }
}

fn ourselves() -> Process {
    Process(std::process::id())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
            // What the kernel still has to write must not be written while we measure.
            fs::File::open(&to)?.sync_all()?;
        }
    }
    Ok(())
}

fn bytes_below(dir: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { bytes_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
