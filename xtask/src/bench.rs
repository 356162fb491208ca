//! `cargo xtask bench`: benchmarks are run in release mode or not at all.
//!
//! The names are listed here and not left to the benchmark program, so that a misspelt one fails before minutes of
//! optimised compilation and not after. A benchmark that starts servers finds them built.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::Context;
use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Which benchmark
    name: Option<Bench>,
    /// Arguments of the benchmark itself
    #[arg(last = true)]
    pub(crate) rest: Vec<String>,
}

/// When you add one: a subcommand of the same name in `crates/bench`, and a line here that says what it measures.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Bench {
    /// The whole server: requests per second and latencies while a fleet claims, starts, crashes and lists
    Board,
    /// An upgrade from the former release: how long it takes in every mode, what clients notice, what going back costs
    Migrate,
    /// Encryption at rest: what it costs a write, and what bringing all records under another key costs in every way
    Encrypt,
    /// Nodes on etcd: writes beside what etcd itself can do, reads and starts beside the embedded store, time without a master
    Etcd,
    /// A whole cluster on one machine: a thousand cells, a quarter million instances placed, kept, and placed anew when cells die
    Scale,
    /// The embedded store against other engines: group commit with real fdatasync, bulk load, open, scan
    Engines,
}

pub(crate) fn run(root: &Path, args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let Some(name) = args.name else {
        for (name, what) in listing() {
            println!("{name:<10} {what}");
        }
        return Ok(ExitCode::SUCCESS);
    };
    for arguments in servers(name) {
        if !cargo(root, arguments)?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    let mut arguments = vec!["run", "--release", "--package", "corkboard-bench", "--"];
    let name = spelling(name);
    arguments.push(&name);
    arguments.extend(args.rest.iter().map(String::as_str));
    Ok(if cargo(root, &arguments)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How to build the servers that a benchmark starts.
fn servers(bench: Bench) -> &'static [&'static [&'static str]] {
    const PRESENT: &[&str] = &["build", "--release", "--package", "corkboard"];
    // Its own place for the binary, and the same one for everything else: only the last crate is compiled again.
    const FORMER: &[&str] = &[
        "build",
        "--release",
        "--package",
        "corkboard",
        "--features",
        "former-data-version",
        "--target-dir",
        "target/former",
        "--config",
        "build.build-dir=\"target\"",
    ];
    match bench {
        Bench::Board | Bench::Encrypt | Bench::Etcd | Bench::Scale => &[PRESENT],
        Bench::Migrate => &[PRESENT, FORMER],
        Bench::Engines => &[],
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> anyhow::Result<ExitStatus> {
    Command::new("cargo").args(arguments).current_dir(root).status().context("cargo could not be started.")
}

fn listing() -> Vec<(String, String)> {
    let describe = |bench: &Bench| {
        let value = bench.to_possible_value()?;
        Some((value.get_name().to_owned(), value.get_help().map(ToString::to_string).unwrap_or_default()))
    };
    Bench::value_variants().iter().filter_map(describe).collect()
}

fn spelling(bench: Bench) -> String {
    bench.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_says_what_it_measures() {
        let listing = listing();
        assert_eq!(
            listing.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["board", "migrate", "encrypt", "etcd", "scale", "engines"]
        );
        assert!(listing.iter().all(|(_, what)| !what.is_empty()));
    }
}
