//! What a container means for the state server, and what its answer means for the container: two tables, no I/O.
//!
//! [`plan`] looks at a container as it is now and names the one call that is due. [`react`] looks at that call and at what
//! became of it, and names the one thing to do to the container. Both look at nothing else, so asking again is always right:
//! a call that was made before changes nothing, and what went missing is made up for at the next look.
//!
//! Two rules stand above the rows, and a test holds every row against them. Silence of the state server never ends a container
//! that runs. And what has ended stays until the state server has heard of it, because its reason exists nowhere else.
//!
//! Where we differ from Diego: it deletes what completed, and while evacuating what did not run yet, whether the call succeeded
//! or not; it leaves a reservation whose instance does not exist any more to a time limit of the executor; and it fails a task
//! whose start was granted in an answer that never came.

use api::models::error::Type;

use crate::executor::{Container, Owner, State};

/// The call that is due. The names are those of the state server's routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Claim { run: bool },
    Start,
    Remove,
    Crash,
    EvacuateClaimed,
    EvacuateRunning,
    EvacuateStopped,
    EvacuateCrashed,
    StartTask { run: bool },
    RejectTask,
    CompleteTask,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// Of an evacuation: done, and the container is needed on.
    Keep,
    /// Of a task: it is running here already.
    RunningAlready,
    /// The state server has understood and says no.
    Refused(Type),
    /// Of an evacuation: no, and the container is needed on.
    RefusedKeep,
    /// There is no answer, or none that can be understood.
    Silence,
}

/// What is done to the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// The definition is fetched, and the container runs it.
    Run,
    Stop,
    Delete,
    /// A task that ended in an unexpected state is ended once more, as failed, and then deleted.
    FailAndDelete,
    /// The same again, after a pause.
    Again,
}

pub fn plan(container: &Container, evacuating: bool) -> Call {
    let ending = container.ending.as_ref();
    let is_stopped = ending.is_some_and(|ending| ending.stopped);
    let is_retryable = ending.is_some_and(|ending| ending.failed && ending.retryable);
    match (&container.owner, container.state, evacuating) {
        (Owner::Lrp { .. }, State::Reserved, false) => Call::Claim { run: true },
        (Owner::Lrp { .. }, State::Initializing | State::Created, false) => Call::Claim { run: false },
        (Owner::Lrp { .. }, State::Running, false) => Call::Start,
        (Owner::Lrp { .. }, State::Completed, false) if is_stopped => Call::Remove,
        (Owner::Lrp { .. }, State::Completed, false) => Call::Crash,
        (Owner::Lrp { .. }, State::Reserved | State::Initializing | State::Created, true) => Call::EvacuateClaimed,
        (Owner::Lrp { .. }, State::Running, true) => Call::EvacuateRunning,
        (Owner::Lrp { .. }, State::Completed, true) if is_stopped => Call::EvacuateStopped,
        (Owner::Lrp { .. }, State::Completed, true) => Call::EvacuateCrashed,
        (Owner::Task { .. }, State::Reserved, _) => Call::StartTask { run: true },
        (Owner::Task { .. }, State::Initializing | State::Created | State::Running, _) => {
            Call::StartTask { run: false }
        }
        (Owner::Task { .. }, State::Completed, _) if is_retryable => Call::RejectTask,
        (Owner::Task { .. }, State::Completed, _) => Call::CompleteTask,
    }
}

pub fn react(call: Call, answer: Answer) -> Then {
    use Answer::{Done, Keep, Refused, RefusedKeep, RunningAlready, Silence};
    match (call, answer) {
        (_, Silence) => Then::Again,
        (Call::Claim { run: true }, Done) => Then::Run,
        (Call::Claim { .. }, Refused(Type::ActualLrpCannotBeClaimed)) => Then::Delete,
        // Nobody wants the instance any more, and nothing of it exists yet.
        (Call::Claim { run: true }, Refused(Type::ResourceNotFound)) => Then::Delete,
        (Call::Claim { .. }, _) => Then::Nothing,
        (Call::Start, Refused(Type::ActualLrpCannotBeStarted)) => Then::Stop,
        (Call::Start, _) => Then::Nothing,
        (Call::Remove | Call::Crash, _) => Then::Delete,
        (Call::EvacuateRunning, Keep | RefusedKeep) => Then::Nothing,
        (
            Call::EvacuateClaimed | Call::EvacuateRunning | Call::EvacuateStopped | Call::EvacuateCrashed,
            Done | Keep | RunningAlready | Refused(_) | RefusedKeep,
        ) => Then::Delete,
        // What is reserved has never run. If the state server has it running here already, then its answer to our first call
        // was lost, or we ended before we could follow it.
        (Call::StartTask { run: true }, Done | RunningAlready) => Then::Run,
        (Call::StartTask { .. }, Refused(Type::InvalidStateTransition | Type::ResourceNotFound)) => Then::Delete,
        (Call::StartTask { .. }, _) => Then::Nothing,
        (Call::CompleteTask, Refused(Type::InvalidStateTransition)) => Then::FailAndDelete,
        (Call::RejectTask | Call::CompleteTask, _) => Then::Delete,
    }
}

/// What is done about a record of this cell that has no container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residue {
    /// Removed, with the key of its instance, so that a successor is not meant.
    Instance,
    EvacuatingInstance,
    /// Completed as failed.
    Task,
}

#[cfg(test)]
mod tests;
