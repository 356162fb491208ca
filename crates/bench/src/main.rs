//! The command line of the benchmarks: `load`, `board`, `migrate`, `encrypt`, `etcd`, `scale`, `engines`. Exit code 1 when
//! something failed or a phase did.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "The tables are for the terminal, progress goes beside them."
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use api::client::tls::{TlsFiles, client_config};
use clap::{Args, Parser, Subcommand};
use corkboard_bench::board::{self, BoardArgs};
use corkboard_bench::connection::Target;
use corkboard_bench::encrypt::{self, EncryptArgs};
use corkboard_bench::engines::{self, EnginesArgs, Kind};
use corkboard_bench::etcd::{self, EtcdArgs};
use corkboard_bench::fleet::Fleet;
use corkboard_bench::load::{self, Load, Phase, Settings};
use corkboard_bench::migrate::{self, MigrateArgs};
use corkboard_bench::process::Process;
use corkboard_bench::scale::{self, ScaleArgs};
use url::Url;

#[derive(Parser)]
#[command(name = "corkboard-bench", about = "Measures Corkboard, or any other BBS", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put load on a running BBS, ours or another
    Load(LoadArgs),
    /// Start our server, measure everything and write the report
    Board(BoardArgs),
    /// Upgrade filled stores in every mode, and go back; measure what it costs and what clients notice
    Migrate(MigrateArgs),
    /// Compare writes with and without a key, bring filled stores under another key; measure what it costs
    Encrypt(EncryptArgs),
    /// Run nodes on etcd: writes beside those of etcd alone, reads and starts beside the embedded store, failovers
    Etcd(EtcdArgs),
    /// Run a whole cluster: cells by the thousand get their instances, keep them, and die
    Scale(ScaleArgs),
    /// Compare storage engines
    Engines(EnginesArgs),
    /// The part of `engines` that is killed
    #[command(hide = true)]
    EngineChild { kind: Kind, dir: PathBuf, records: u64 },
}

#[derive(Args)]
struct LoadArgs {
    /// The server, for example https://127.0.0.1:8889
    #[arg(long)]
    target: Url,
    /// The authority that signed the server's certificate
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Our certificate
    #[arg(long)]
    cert: Option<PathBuf>,
    #[arg(long)]
    key: Option<PathBuf>,
    /// Do not check who the server is
    #[arg(long)]
    skip_verify: bool,
    /// How many DesiredLRPs; there are a quarter more instances
    #[arg(long, default_value_t = 5_000)]
    lrps: u64,
    #[arg(long, default_value_t = 1_000)]
    cells: u64,
    /// Connections that write at the same time
    #[arg(long, default_value_t = 64)]
    clients: u64,
    #[arg(long, default_value_t = 50)]
    subscribers: u64,
    /// Length of the phases mixed, events and poll, in seconds
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// How often each large list is read
    #[arg(long, default_value_t = 3)]
    bulk_rounds: u64,
    /// How often each small read is made
    #[arg(long, default_value_t = 2_000)]
    small_rounds: u64,
    /// Instances that one client claims and starts alone
    #[arg(long, default_value_t = 500)]
    alone: u64,
    /// The server's process on this machine, to measure its processor time
    #[arg(long)]
    server_pid: Option<u32>,
    /// Write all numbers as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// What to do, in this order
    #[arg(required = true)]
    phases: Vec<Phase>,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything that was measured counts.
fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Load(args) => runtime()?.block_on(put_load(args)),
        Command::Board(args) => runtime()?.block_on(board::run(&args, &|line| eprintln!("{line}"))),
        Command::Migrate(args) => runtime()?.block_on(migrate::run(&args, &|line| eprintln!("{line}"))),
        Command::Encrypt(args) => runtime()?.block_on(encrypt::run(&args, &|line| eprintln!("{line}"))),
        Command::Etcd(args) => runtime()?.block_on(etcd::run(&args, &|line| eprintln!("{line}"))),
        Command::Scale(args) => threads()?.block_on(scale::run(&args, &|line| eprintln!("{line}"))),
        Command::Engines(args) => {
            let report = engines::run(&args, &|line| eprintln!("{line}"))?;
            println!("{report}");
            if let Some(out) = &args.out {
                std::fs::write(out, report).with_context(|| format!("{} cannot be written", out.display()))?;
            }
            Ok(true)
        }
        Command::EngineChild { kind, dir, records } => engines::child(kind, &dir, records).map(|()| true),
    }
}

/// One thread: the client must not take more of the machine than it needs, and a second one costs more than it brings.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// A thread per core, where what is measured is made of programs that have them too.
fn threads() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

async fn put_load(args: LoadArgs) -> anyhow::Result<bool> {
    let files = match (args.ca, args.cert, args.key) {
        (Some(ca), Some(cert), Some(key)) => Some(TlsFiles { ca, cert, key, skip_verify: args.skip_verify }),
        (None, None, None) => None,
        _ => anyhow::bail!("--ca, --cert and --key belong together. Nothing was done."),
    };
    let tls = files.as_ref().map(client_config).transpose()?;
    let target = Target::resolve(&args.target, tls).await?;
    let settings = Settings {
        clients: args.clients.max(1),
        alone: args.alone,
        subscribers: args.subscribers,
        duration: Duration::from_secs(args.seconds),
        bulk_rounds: args.bulk_rounds,
        small_rounds: args.small_rounds,
    };
    let fleet = Fleet { lrps: args.lrps.max(1), cells: args.cells.max(1) };
    let load = Load::new(target, fleet, settings, args.server_pid.map(Process));
    let mut reports = Vec::new();
    for phase in args.phases {
        eprintln!("{} …", phase.name());
        reports.push(load.run(phase).await);
    }
    print!("{}", load::table(&reports));
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&reports)?;
        std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(!reports.iter().any(load::PhaseReport::failed))
}
