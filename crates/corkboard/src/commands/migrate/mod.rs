//! `migrate`: watching, rehearsing and steering the way from one data version to another.
//!
//! One file per command; `document.rs` is what the server says, `via.rs` who is asked, `figures.rs` how numbers look. The
//! server decides everything: a command shows what it says, asks the operator before what cannot be taken back, and turns
//! the outcome into an exit code.

mod act;
mod document;
mod figures;
mod history;
mod plan;
mod rollback;
mod status;
mod via;
pub(crate) mod watch;

pub(crate) use act::{abort, finalize, nothing_to_do, pause, resume, said, start};
pub(crate) use document::{Document, or_default};
pub(crate) use figures::{grouped, moment, percent, size, time, whole};
pub(crate) use history::history;
pub(crate) use plan::plan;
pub(crate) use rollback::rollback;
pub(crate) use status::status;
pub(crate) use via::{Ask, OPERATOR_ROOT, Place, StoreFlag, Via, refuse_standby};

use crate::console::JsonFlag;
use crate::reach::Remote;

/// The exit code of a command that did what it was asked to.
pub(crate) const EXIT_DONE: u8 = 0;

/// What the dispatcher must know of the arguments of a command before it can run.
pub(crate) trait Errand {
    fn json(&self) -> JsonFlag;

    fn place(&self) -> Place<'_> {
        Place::Server
    }
}

/// When you add one: its function in a file of its own, an arm in `cli.rs`, and a case in `tests/it/migrate.rs`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum MigrateCommand {
    /// Show how far a migration is, whether one can go back, and what to do next
    #[command(after_help = "Examples:\n  corkboard migrate status\n  corkboard migrate status --watch\n  \
        corkboard migrate status --healthURL http://127.0.0.1:8890\n  corkboard migrate status --json\n\n\
        Exit codes: 0 no migration is under way, 10 one is under way, 11 it waits for the operator (held, paused, ready), \
        12 it is blocked or failed; 3, 4 and 5 as for every command.")]
    Status(Remote<status::Status>),
    /// Rehearse a migration on the records that are there; writes nothing
    #[command(after_help = "Examples:\n  corkboard migrate plan\n  \
        corkboard migrate plan --to split_desired_lrp\n\n\
        Exit code 0 if every record comes through, 7 if one does not, or would lose something.")]
    Plan(Remote<plan::Plan>),
    /// Begin a migration that was held back by `start = "manual"`
    #[command(after_help = "Examples:\n  corkboard migrate start")]
    Start(Remote<act::Act>),
    /// Let the sweep rest; requests are answered as before
    #[command(after_help = "Examples:\n  corkboard migrate pause")]
    Pause(Remote<act::Act>),
    /// Let the sweep go on
    #[command(after_help = "Examples:\n  corkboard migrate resume")]
    Resume(Remote<act::Act>),
    /// Give a migration up and stay with the older data; asks nothing, since nothing is lost by it
    #[command(after_help = "Examples:\n  corkboard migrate abort")]
    Abort(Remote<act::Abort>),
    /// End a migration: the newer data becomes the only one, and the older is cleaned up
    #[command(after_help = "Examples:\n  corkboard migrate finalize\n  corkboard migrate finalize --yes --wait")]
    Finalize(Remote<act::Finalize>),
    /// Go back to an older data version, for the former release to take over
    #[command(after_help = "Examples:\n  corkboard migrate rollback --to split_desired_lrp\n  \
        corkboard migrate rollback --to 1442529338 --yes\n\n\
        Exit code 7 if something would be lost and --accept-loss is not given.")]
    Rollback(Remote<rollback::Rollback>),
    /// List what happened to the data: migrations begun, finalized, rolled back
    #[command(after_help = "Examples:\n  corkboard migrate history\n  corkboard migrate history --last 5 --json")]
    History(Remote<history::History>),
}
