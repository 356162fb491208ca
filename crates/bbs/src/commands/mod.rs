//! Commands: the only way to change the board. One file each.
//!
//! `apply` is pure: a command looks at the board in its [`Draft`], and leaves there what should change, be announced and be
//! done outside. It never waits and never fails halfway; a refusal is an answer like any other. The writer commits what the
//! draft holds and only then lets anybody see it.
//!
//! When you add a command: one file with a struct and its `apply`, one line in [`Command`], one arm in [`Command::apply`].

mod claim;
mod converge_lrp;
mod converge_task;
mod crash;
mod desire_lrp;
mod desire_task;
mod draft;
mod evacuate;
mod fail;
mod remove;
mod remove_lrp;
mod retire;
mod roll;
mod start;
mod task_moves;
mod update_lrp;
mod upsert_domain;

pub use claim::Claim;
pub use converge_lrp::ConvergeLrps;
pub use converge_task::ConvergeTasks;
pub use crash::Crash;
pub use desire_lrp::DesireLrp;
pub use desire_task::DesireTask;
pub use draft::{CHANGE_BYTES_MAX, Draft, Effect, Setting, Staged, TracedEffect};
pub use evacuate::{Evacuate, Evacuated, RemoveEvacuating};
pub use fail::Fail;
pub use remove::Remove;
pub use remove_lrp::RemoveLrp;
pub use retire::RetireUnheld;
pub use roll::{Ask, Roll, Steer};
pub use start::Start;
pub use task_moves::{MoveTask, TaskCall};
pub use update_lrp::UpdateLrp;
pub use upsert_domain::UpsertDomain;

use model::{DefinitionNumber, Refusal};

/// What a command that was not refused reports back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    Ok,
    /// Whether the calling cell should start the task.
    TaskStarted {
        should_start: bool,
    },
    /// An instance runs the definition in use, although its row asked for another: its cell knows no definitions.
    StartedOther {
        wanted: DefinitionNumber,
    },
    /// Whether the draining cell keeps its container; a refusal may come with it.
    Evacuated {
        keep: bool,
        refusal: Option<Refusal>,
    },
}

#[derive(Clone, Debug)]
pub enum Command {
    UpsertDomain(UpsertDomain),
    DesireLrp(Box<DesireLrp>),
    UpdateLrp(Box<UpdateLrp>),
    RemoveLrp(RemoveLrp),
    Claim(Claim),
    Start(Box<Start>),
    Crash(Crash),
    Fail(Fail),
    Remove(Remove),
    RetireUnheld(RetireUnheld),
    Roll(Box<Roll>),
    Steer(Box<Steer>),
    Evacuate(Box<Evacuate>),
    RemoveEvacuating(RemoveEvacuating),
    DesireTask(Box<DesireTask>),
    MoveTask(MoveTask),
    ConvergeLrps(ConvergeLrps),
    ConvergeTasks(ConvergeTasks),
    /// A defect, for tests of the writer: applies the command and then panics.
    #[cfg(test)]
    PanicAfter(Box<Command>),
}

impl Command {
    pub fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        match self {
            Self::UpsertDomain(command) => command.apply(draft),
            Self::DesireLrp(command) => command.apply(draft),
            Self::UpdateLrp(command) => command.apply(draft),
            Self::RemoveLrp(command) => command.apply(draft),
            Self::Claim(command) => command.apply(draft),
            Self::Start(command) => command.apply(draft),
            Self::Crash(command) => command.apply(draft),
            Self::Fail(command) => command.apply(draft),
            Self::Remove(command) => command.apply(draft),
            Self::RetireUnheld(command) => command.apply(draft),
            Self::Roll(command) => command.apply(draft),
            Self::Steer(command) => command.apply(draft),
            Self::Evacuate(command) => command.apply(draft),
            Self::RemoveEvacuating(command) => command.apply(draft),
            Self::DesireTask(command) => command.apply(draft),
            Self::MoveTask(command) => command.apply(draft),
            Self::ConvergeLrps(command) => command.apply(draft),
            Self::ConvergeTasks(command) => command.apply(draft),
            #[cfg(test)]
            Self::PanicAfter(command) => {
                let _ = command.apply(draft);
                panic!("a defect, on purpose");
            }
        }
    }

    /// For logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::UpsertDomain(_) => "upsert-domain",
            Self::DesireLrp(_) => "desire-lrp",
            Self::UpdateLrp(_) => "update-lrp",
            Self::RemoveLrp(_) => "remove-lrp",
            Self::Claim(_) => "claim",
            Self::Start(_) => "start",
            Self::Crash(_) => "crash",
            Self::Fail(_) => "fail",
            Self::Remove(_) => "remove",
            Self::RetireUnheld(_) => "retire",
            Self::Roll(_) => "roll",
            Self::Steer(_) => "steer-rollout",
            Self::Evacuate(_) => "evacuate",
            Self::RemoveEvacuating(_) => "remove-evacuating",
            Self::DesireTask(_) => "desire-task",
            Self::MoveTask(_) => "move-task",
            Self::ConvergeLrps(_) => "converge-lrps",
            Self::ConvergeTasks(_) => "converge-tasks",
            #[cfg(test)]
            Self::PanicAfter(_) => "panic-after",
        }
    }
}
