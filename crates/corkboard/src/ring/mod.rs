//! The programs around the state server: `corkboard auctioneer`, `cell` (or `rep`), `route-emitter` and `router`.
//!
//! Each has a file in this folder that knows its configuration and how to start it; the work is in a crate of its own. What
//! they share is beside them: `sheet.rs` reads the tables that all have, `lock.rs` is the right to be the only one, in
//! Locket, `ending.rs` how they end.
//!
//! All of them log to stderr, print one line on stdout when they are open, and stop in order at SIGTERM or SIGINT.

mod auctioneer;
mod cell;
mod ending;
mod files;
mod lock;
pub(crate) mod machine;
mod raw;
mod route_emitter;
mod router;
mod sheet;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use ending::Ending;
pub(crate) use files::{Subject, recognised};
use tokio::net::TcpListener;

use crate::config::ConfigError;
use crate::failure::Failure;

pub(crate) const AUCTIONEER_HELP: &str = "Examples:\n  corkboard config example --program auctioneer > auctioneer.toml\n  \
    corkboard auctioneer --config auctioneer.toml\n\n\
    Exit codes: 0 stopped in order, 1 its lock is lost (start it again, and it waits for its turn), 3 wrong use, 5 anything else.";
pub(crate) const CELL_HELP: &str = "Examples:\n  corkboard config example --program cell > cell.toml\n  \
    corkboard rep --config cell.toml\n  corkboard cell --config cell.toml\n\n\
    SIGTERM or SIGINT evacuates the cell: everything is placed elsewhere, and then it ends. A second signal ends it and leaves\n\
    its containers running; the next start goes on with them, as after SIGKILL. A third ends it at once.\n\n\
    Exit codes: 0 evacuated or stopped, 3 wrong use, 5 anything else.";
pub(crate) const ROUTE_EMITTER_HELP: &str = "Examples:\n  \
    corkboard config example --program route-emitter > route-emitter.toml\n  \
    corkboard route-emitter --config route-emitter.toml\n\n\
    Exit codes: 0 stopped in order, 3 wrong use, 5 anything else. Routes stay as they are when it ends.";
pub(crate) const ROUTER_HELP: &str = "Examples:\n  corkboard config example --program router > router.toml\n  \
    corkboard router --config router.toml\n\n\
    Exit codes: 0 stopped in order, after requests in flight have ended; 3 wrong use; 5 anything else.";

/// What starts any of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Start {
    /// The configuration file, in TOML; `corkboard config example --program NAME` prints one
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Auctioneer,
    Cell,
    RouteEmitter,
    Router,
}

impl Program {
    /// As people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auctioneer => "auctioneer",
            Self::Cell => "cell",
            Self::RouteEmitter => "route emitter",
            Self::Router => "router",
        }
    }
}

/// A file with every key and its default.
pub(crate) fn example(program: Program) -> &'static str {
    match program {
        Program::Auctioneer => include_str!("examples/auctioneer.toml"),
        Program::Cell => include_str!("examples/cell.toml"),
        Program::RouteEmitter => include_str!("examples/route-emitter.toml"),
        Program::Router => include_str!("examples/router.toml"),
    }
}

/// Runs a program until it is told to stop.
pub(crate) async fn serve(program: Program, args: Start) -> Result<(), Failure> {
    let file = args.config.as_path();
    let ended = match program {
        Program::Auctioneer => Box::pin(auctioneer::run(auctioneer::load(file)?)).await,
        Program::Cell => Box::pin(cell::run(cell::load(file)?)).await,
        Program::RouteEmitter => Box::pin(route_emitter::run(route_emitter::load(file)?)).await,
        Program::Router => Box::pin(router::run(router::load(file)?)).await,
    };
    ended.map_err(|source| Failure::Program { program: program.name(), source: Box::new(source) })
}

/// What an operator wants to see before starting it, or everything that is wrong.
pub(crate) fn check(program: Program, file: &Path) -> Result<String, ConfigError> {
    match program {
        Program::Auctioneer => auctioneer::load(file).map(|it| it.summary()),
        Program::Cell => cell::load(file).map(|it| it.summary()),
        Program::RouteEmitter => route_emitter::load(file).map(|it| it.summary()),
        Program::Router => router::load(file).map(|it| it.summary()),
    }
}

/// The parent of one process of a cell, which outlives the cell.
pub(crate) fn shim(folder: &Path) -> ExitCode {
    ::cell::executor::shim(folder)
}

/// Tells whoever waits for it that the program is open. Whoever closed our stdout does not want to know.
fn announce(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

async fn open(port: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Ending> {
    let wrong = |source| Ending::Listen { port, address, source };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    Ok((listener, bound))
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
