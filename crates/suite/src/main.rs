//! The upgrade suite as a program, for `cargo xtask upgrade`: tells what happens, and ends with the table.

#![expect(clippy::print_stdout, reason = "the terminal is this program's only output")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use corkboard_suite::{Binaries, Form};

#[derive(Debug, Parser)]
#[command(name = "corkboard-suite", about = "Upgrades a whole cluster under load, and tells what anybody noticed.")]
struct Arguments {
    /// The binary of the release that is replaced
    #[arg(long, value_name = "FILE")]
    former: PathBuf,
    /// The binary of the release that replaces it
    #[arg(long, value_name = "FILE")]
    present: PathBuf,
    /// Where logs and configurations go; emptied first
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// How much of it
    #[arg(long, value_enum, default_value_t = Extent::Full)]
    form: Extent,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Extent {
    Short,
    Full,
    Updates,
}

fn main() -> anyhow::Result<ExitCode> {
    let Arguments { former, present, folder, form } = Arguments::parse();
    if folder.join("run").exists() {
        std::fs::remove_dir_all(folder.join("run"))?;
    }
    let form = match form {
        Extent::Short => Form::Short,
        Extent::Full => Form::Full,
        Extent::Updates => Form::Updates,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let say = Arc::new(|line: &str| println!("{line}"));
    let report = runtime.block_on(corkboard_suite::run(form, &Binaries { former, present }, &folder, say))?;
    println!("\n{}\n", report.table);
    std::fs::write(folder.join("table.txt"), format!("{}\n", report.table))?;
    if report.breaches.is_empty() {
        println!("nobody noticed anything, but for the requests that were lost with a machine (column failed)");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} breaches:", report.breaches.len());
    report.breaches.iter().for_each(|breach| println!("  {breach}"));
    println!("\nthe logs of all processes are in {}", folder.join("run/logs").display());
    Ok(ExitCode::FAILURE)
}
