//! The binary: the state server, and every command that an operator needs to talk to one.
//!
//! Promise: the operator's commands have the names, flags, environment variables, output and exit codes of Diego's
//! `cfdot`, so `alias cfdot=corkboard` is enough to keep scripts working. What we add (tables on a terminal, plain HTTP on
//! loopback, a default address) shows only where `cfdot` would have failed or where no script looks. The commands about
//! migrations, keys, quarantine and the store are ours alone.
//!
//! Everything that depends on the process is read here, in [`cli`] and in [`logging`]: arguments, environment, terminal.
//! Below, it comes in as values. Exit codes are in [`failure`].

mod cli;
mod commands;
mod config;
mod console;
mod data_version;
mod demo_app;
mod duration;
mod failure;
mod locket;
mod logging;
mod output;
mod reach;
mod ring;
mod server;
mod up;
mod welcome;

use std::io::Write;
use std::process::ExitCode;

/// Most of a server's memory is small shared nodes of the board, which this allocator packs well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(exit_code) => return exit_code,
    };
    match cli::run(cli) {
        Ok(exit_code) => exit_code,
        Err(failure) => {
            // If the text cannot be written there is nobody to tell; the exit code still says it.
            let _ = write!(std::io::stderr(), "{}", failure.report());
            failure.exit_code()
        }
    }
}
