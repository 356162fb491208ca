//! The repository's habits as commands: `cargo xtask test | tidy | bless | bench | upgrade`.
//!
//! What a reviewer would otherwise have to remember is a check here, and the check that runs on every submitted change is
//! the command a contributor runs: `cargo xtask test`. This program only reads the repository, except for `bless`, which
//! writes a lock file and the folders of releases, and the `install` stage, which installs what the other stages call.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "The terminal is this program's only output.")]

mod bench;
mod bless;
mod install;
mod stages;
mod tidy;
mod tree;
mod upgrade;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    about = "Tasks of the Corkboard repository.",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run every check, in the order in which it is cheapest to fail
    Test(stages::TestArgs),
    /// Check the style that neither rustfmt nor clippy knows: headers, names, lengths, dependency arrows, documents
    Tidy,
    /// Record new frozen files, freeze the messages of a release, or check that nothing published was changed
    Bless {
        /// Write nothing; fail if something published was changed
        #[arg(long, conflicts_with = "release")]
        check: bool,
        /// Keep today's messages and routes as those of this release, such as 0.2, for ever
        #[arg(long, value_name = "NUMBER")]
        release: Option<String>,
    },
    /// Run a benchmark in release mode; without a name, list them
    Bench(bench::BenchArgs),
    /// Upgrade a whole cluster under load, back and forward again, and kill what can be killed: five minutes
    Upgrade(upgrade::UpgradeArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let root = repository_root()?;
    match cli.task {
        Task::Test(args) => stages::run(&root, &args),
        Task::Tidy => tidy::run(&root),
        Task::Bless { check: true, .. } => bless::check(&root),
        Task::Bless { release: Some(number), .. } => bless::freeze(&root, &number),
        Task::Bless { .. } => bless::write(&root),
        Task::Bench(args) => bench::run(&root, &args),
        Task::Upgrade(args) => upgrade::run(&root, &args),
    }
}

/// The workspace root: the parent of this package. Cargo says at run time where the package is, so a built binary that
/// was moved with its checkout still finds the right tree.
fn repository_root() -> anyhow::Result<PathBuf> {
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let root = Path::new(&package).parent().context("The xtask package has no parent directory.")?;
    anyhow::ensure!(root.join("Cargo.toml").is_file(), "{} is not the workspace root: no Cargo.toml.", root.display());
    Ok(root.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_filter_and_a_single_stage_combine() {
        let cli = Cli::try_parse_from(["xtask", "test", "--only", "tests", "claim"]).unwrap();
        assert!(matches!(cli.task, Task::Test(args) if args.filter.as_deref() == Some("claim") && args.only.is_some()));
    }

    #[test]
    fn arguments_after_two_dashes_go_to_the_benchmark() {
        let cli = Cli::try_parse_from(["xtask", "bench", "board", "--", "--seconds", "5"]).unwrap();
        assert!(matches!(cli.task, Task::Bench(args) if args.rest == ["--seconds", "5"]));
    }
}
