//! `encrypt`: what encryption at rest costs. Compares writes with and without a key, brings filled stores under another key in
//! every way, and measures from outside how long it takes and what clients notice.
//!
//! The server is the release binary in a process of its own, with mutual TLS and records on a real disk. Each way of a
//! rotation gets a copy of the same store. The floors are from the same run. What was measured so far is kept after every
//! part, so that a run that breaks is not lost.
//!
//! A size is counted as everywhere in these benchmarks: one DesiredLRP, one instance, one task. A sealed record is one value
//! of the store, of which a DesiredLRP has more than one.

mod micro;
mod report;
mod rotation;
mod writes;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use crate::certificates::Certificates;
use crate::document;
use crate::floors::{self, Cipher, Floors};
use crate::load::Settings;
use crate::process::Machine;
use crate::server::{Encryption, Launch};
use crate::sizes::{CELLS, Size};

pub use self::rotation::{Done, Errand, FirstTime, Rotated, Rotation};
pub use self::writes::{Trial, Writes};

/// The heading of our part of the report.
pub const SECTION: &str = "## Encryption";
/// What operators have.
const CONVERGE_INTERVAL: &str = "30s";
const KEY_A: &str = "A";
const KEY_B: &str = "B";
/// What a claim writes, and the average record of a filled store.
const SEALED_BYTES: [usize; 2] = [750, 1_700];

#[derive(Debug, Args)]
pub struct EncryptArgs {
    /// How many records are brought under another key, for example 10k,100k,500k; the largest is also sealed for the first time
    #[arg(long, value_delimiter = ',', default_value = "50k,500k")]
    pub sizes: Vec<Size>,
    /// How often claims and starts are measured without a key and with one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub pairs: u64,
    /// DesiredLRPs of each of those; there are a quarter more instances
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(2..))]
    pub lrps: u64,
    /// How long clients are watched before and after an online rotation, in seconds
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
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
    /// One long write, synced at its end.
    pub disk_mb_per_s: f64,
    /// What the cipher alone takes for a record, and what the server takes to seal and open it.
    pub cipher: Vec<Cipher>,
    pub sealing: Vec<Cipher>,
    pub writes: Writes,
    pub sizes: Vec<Rotated>,
    /// `None` until the end of the run.
    pub first_time: Option<FirstTime>,
}

/// Whether nothing failed. The section is written in any case.
pub async fn run(args: &EncryptArgs, say: &dyn Fn(&str)) -> anyhow::Result<bool> {
    anyhow::ensure!(
        args.binary.is_file(),
        "There is no server at {}. Nothing was measured. Build it first: cargo build --release --package corkboard",
        args.binary.display()
    );
    let largest = args.sizes.iter().copied().max_by_key(|size| size.0);
    let largest = largest.context("No size is given. Nothing was measured.")?;
    fs::create_dir_all(&args.dir)?;
    let scratch = tempfile::Builder::new().prefix("encrypt-").tempdir_in(&args.dir)?;
    let home = scratch.path().canonicalize()?;
    let certificates = Certificates::create(&home)?;
    let watched = Duration::from_secs(args.seconds);
    let bench = Bench { binary: args.binary.canonicalize()?, home, certificates, watched, say };
    let raw = args.dir.join("encrypt.json");
    let keep = |measured: &Measured| anyhow::Ok(fs::write(&raw, serde_json::to_string_pretty(measured)?)?);

    say("floors of this machine");
    let disk_mb_per_s = floors::disk_mb_per_s(&bench.home, &args.sizes)?;
    let floors = floors::measure(&bench.home, &bench.certificates, Settings::default().clients).await?;
    say(&floors.table());
    say("sealing and opening single records");
    let cipher = SEALED_BYTES.map(floors::cipher).into_iter().collect::<anyhow::Result<_>>()?;
    let sealing = SEALED_BYTES.map(micro::seal_and_open).into_iter().collect::<anyhow::Result<_>>()?;
    let writes = writes::measure(&bench, args.lrps, args.pairs).await?;
    let mut measured = Measured { floors, disk_mb_per_s, cipher, sealing, writes, sizes: Vec::new(), first_time: None };
    keep(&measured)?;
    for size in &args.sizes {
        measured.sizes.push(rotation::measure(&bench, *size).await?);
        keep(&measured)?;
    }
    measured.first_time = Some(rotation::first_time(&bench, largest).await?);
    keep(&measured)?;

    let section = report::section(&Machine::read(), &measured);
    say(&section);
    let text = document::with_section(&document::read(&args.out)?, SECTION, &section);
    fs::write(&args.out, text).with_context(|| format!("{} cannot be written", args.out.display()))?;
    say(&format!("report: {}, raw numbers: {}", args.out.display(), raw.display()));
    Ok(measured.sizes.iter().all(|rotated| rotated.clients.count()))
}

struct Bench<'a> {
    binary: PathBuf,
    home: PathBuf,
    certificates: Certificates,
    watched: Duration,
    say: &'a dyn Fn(&str),
}

impl Bench<'_> {
    fn launch<'a>(&'a self, dir: &'a Path, encryption: Option<Encryption<'a>>) -> Launch<'a> {
        Launch {
            binary: &self.binary,
            dir,
            certificates: &self.certificates,
            cells: CELLS,
            converge_interval: CONVERGE_INTERVAL,
            migration_mode: None,
            encryption,
        }
    }

    fn progress(&self, size: Size, what: &str) {
        (self.say)(&format!("{size} records: {what}"));
    }
}

/// The first key is the active one.
fn keys<'a>(keys: &'a [&'a str], mode: &'a str) -> Encryption<'a> {
    Encryption { active: keys[0], keys, mode }
}
