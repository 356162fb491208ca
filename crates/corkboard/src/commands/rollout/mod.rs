//! `rollout`: watching and steering the way of an app from one definition to another.
//!
//! One file per command; `sight.rs` is what is known at one moment, `screen.rs` how it looks, `follow.rs` how it goes on, and
//! `refused.rs` what the server says no to. The server decides everything: a command shows, asks, and turns the outcome into
//! an exit code.

mod diff;
mod follow;
mod history;
mod refused;
mod screen;
mod sight;
mod status;
mod steer;
mod terms;

pub(crate) use follow::follow;
pub(crate) use refused::in_words;
pub(crate) use sight::{Look, Phase};
pub(crate) use terms::TermsFlags;

use crate::cli::ask;
use crate::failure::Failure;
use crate::reach::{ReachFlags, Remote};

pub(crate) const EXIT_DONE: u8 = 0;
const EXIT_UNDER_WAY: u8 = 10;
const EXIT_WAITS: u8 = 11;
const EXIT_HALTED: u8 = 12;
const EXIT_TAKEN_BACK: u8 = 13;

pub(crate) const HELP: &str = "Examples:\n  corkboard rollout status hello --watch\n  corkboard rollout diff hello\n  \
    corkboard rollout cancel hello --wait\n  corkboard rollout undo hello\n\n\
    An update begins with run-app or update-desired-lrp.\n\n\
    Exit codes for scripts:\n  0   done, or nothing to do and all is well\n  3   wrong use; nothing was changed\n  \
    4   the server refused, and says why\n  5   anything else (for instance, no connection)\n  \
    10  status: an update is under way\n  11  status, --watch, --wait: it waits for somebody (paused, or after its canaries)\n  \
    12  status, --watch, --wait: it failed and is not taken back\n  \
    13  status, --watch, --wait: it was taken back, because it failed or was cancelled";

/// When you add one: its function in a file of its own, an arm in [`run`], and a case in `tests/it/rollout.rs`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RolloutCommand {
    /// Show how far an update is, instance by instance, or how the last one ended
    #[command(after_help = "Examples:\n  corkboard rollout status hello\n  corkboard rollout status hello --watch\n  \
        corkboard rollout status hello --json\n\n\
        Exit codes: 0 no update is under way, 10 one is, 11 it waits for somebody (paused, or after its canaries), 12 it failed \
        and is not taken back, 13 the last one was taken back; 3, 4 and 5 as for every command.")]
    Status(Remote<status::Status>),
    /// List the definitions that are kept, and how many instances have each
    #[command(after_help = "Examples:\n  corkboard rollout history hello\n  corkboard rollout history hello --json")]
    History(Remote<history::History>),
    /// Show what is different between two definitions, field by field
    #[command(after_help = "Examples:\n  corkboard rollout diff hello\n  corkboard rollout diff hello v1 v2\n  \
        corkboard rollout diff hello 1 --show-values\n\n\
        A definition is named by its identifier or by its number. Without names: from the previous one, or else the latest former \
        one, to the one in use.")]
    Diff(Remote<diff::Diff>),
    /// Let an update rest; every instance runs on
    #[command(after_help = "Examples:\n  corkboard rollout pause hello")]
    Pause(Remote<steer::Pause>),
    /// Let an update go on: after a pause, after its canaries, or after it failed
    #[command(after_help = "Examples:\n  corkboard rollout resume hello\n  corkboard rollout resume hello --wait")]
    Resume(Remote<steer::Resume>),
    /// Take an update back that is under way; old instances that have not gone yet stay
    #[command(after_help = "Examples:\n  corkboard rollout cancel hello\n  corkboard rollout cancel hello --wait\n\n\
        With --wait the exit code is 0 when it is taken back.")]
    Cancel(Remote<steer::Cancel>),
    /// Go to a former definition that is still kept; an update like any other
    #[command(
        after_help = "Examples:\n  corkboard rollout undo hello\n  corkboard rollout undo hello --to v1 --wait\n  \
        corkboard rollout undo hello --to 1 --in-flight 5\n\n\
        A definition is named by its identifier or by its number. Without a name: the latest former one."
    )]
    Undo(Remote<steer::Undo>),
}

pub(crate) fn run(command: RolloutCommand, outer: ReachFlags) -> Result<u8, Failure> {
    match command {
        RolloutCommand::Status(it) => ask(it, outer, |args| args.json, status::status),
        RolloutCommand::History(it) => ask(it, outer, |args| args.json, history::history),
        RolloutCommand::Diff(it) => ask(it, outer, |args| args.json, diff::diff),
        RolloutCommand::Pause(it) => ask(it, outer, |args| args.json, steer::pause),
        RolloutCommand::Resume(it) => ask(it, outer, |args| args.json, steer::resume),
        RolloutCommand::Cancel(it) => ask(it, outer, |args| args.json, steer::cancel),
        RolloutCommand::Undo(it) => ask(it, outer, |args| args.json, steer::undo),
    }
}
