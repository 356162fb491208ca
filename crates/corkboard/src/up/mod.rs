//! `corkboard up`: a whole cluster in one process, on this machine and for this machine alone.
//!
//! State server, auctioneer, cells, route emitter and router are the same as in a cluster and speak the same protocol over
//! loopback; only what would be Locket and NATS there are values here. `--board-only` leaves the state server alone.
//!
//! Promise: what is desired runs, after every start. A stop in order ends the apps and forgets none of them; after a stop that
//! is not, apps that still run are found again. If a part ends by itself, the others are stopped, the exit says which, and apps run on.
//! `parts.rs` watches over them, `ring.rs` starts and stops them in order, `cells.rs` is what runs apps.

mod cells;
mod flags;
mod parts;
mod presence;
mod ring;

use std::io::{self, Write as _};
use std::path::Path;

pub(crate) use flags::{DEFAULT_ROUTER, Up};

use crate::failure::Failure;
use crate::{server, welcome};

/// Starts everything and tells on stdout where it is and what to try. `program` is how this binary was called.
pub(crate) async fn up(args: Up, program: &str, bbs_url: Option<&str>) -> Result<(), Failure> {
    if args.run_as.is_some() && !rustix::process::geteuid().is_root() {
        let text = "--run-as: only root can start apps as another user; without it they run as you";
        return Err(Failure::Usage(text.to_owned()));
    }
    let shell = welcome::Shell { program, bbs_url };
    if args.board_only {
        let (dir, folder) = (args.board(), args.folder_to_create());
        let config = args.config().map_err(|problems| Failure::Usage(problems.to_string()))?;
        create(folder)?;
        return server::run(config, None, |ready| say(&welcome::board_only(shell, ready, &dir))).await;
    }
    ring::run(args, shell).await
}

fn create(folder: Option<&Path>) -> Result<(), Failure> {
    let created = folder.map_or(Ok(()), std::fs::create_dir_all);
    created.map_err(|source| Failure::Process { doing: "creating the directory `data` here", source })
}

/// Whoever closed our stdout does not want to know; everything runs all the same.
fn say(text: &str) {
    let _ = write!(io::stdout(), "{text}");
}
