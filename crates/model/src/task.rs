//! Tasks: a container that runs at most once, and whose completion is reported at least once.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{CellId, DomainName, Nanos, Refusal, Resources, TaskGuid, Unknown, truncate_reason};

/// Why a cancelled task failed.
pub const CANCELLED: &str = "task was cancelled";
/// How often the callers may reject a task before it fails, unless configured.
pub const REJECTIONS_MAX: i32 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub guid: TaskGuid,
    pub domain: DomainName,
    pub definition: Arc<TaskDefinition>,
    pub state: TaskState,
    /// The cell that runs the task; `None` unless it is running.
    pub cell_id: Option<CellId>,
    pub created_ns: Nanos,
    pub updated_ns: Nanos,
    pub first_completed_ns: Nanos,
    pub result: String,
    pub failed: bool,
    pub failure_reason: String,
    pub rejection_count: i32,
    pub rejection_reason: String,
    pub unknown: Unknown,
}

/// What never changes about a task. Only what placement and the completion callback need is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDefinition {
    pub resources: Resources,
    pub placement_tags: Vec<String>,
    pub volume_drivers: Vec<String>,
    pub completion_callback_url: String,
    pub annotation: String,
    /// The whole definition, encoded by the API crate.
    pub encoded: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    Pending,
    Running,
    Completed,
    Resolving,
}

impl TaskState {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Completed, Self::Resolving];
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Resolving => "Resolving",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskMove {
    Start,
    Complete,
    Fail,
    Cancel,
    Reject,
    Resolve,
    Delete,
}

/// Whether the calling cell is the one that runs the task. Only start and complete look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    TheCell,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskVerdict {
    Becomes(TaskState),
    Nothing,
    Deleted,
    /// Refused, naming the state that was aimed at.
    Illegal(TaskState),
    OtherCell,
    Invalid,
}

/// The table of moves. A test prints all of it into a golden file.
pub fn judge(state: TaskState, asked: TaskMove, caller: Caller) -> TaskVerdict {
    use TaskMove::{Cancel, Complete, Delete, Fail, Reject, Resolve, Start};
    use TaskState::{Completed, Pending, Resolving, Running};
    use TaskVerdict::{Becomes, Deleted, Illegal, Invalid, Nothing, OtherCell};

    match (state, asked) {
        (Pending, Start) => Becomes(Running),
        (Running, Start) if caller == Caller::TheCell => Nothing,
        (_, Start) => Illegal(Running),

        (Running, Complete) if caller == Caller::TheCell => Becomes(Completed),
        (Running, Complete) => OtherCell,
        (_, Complete) => Illegal(Completed),

        (Pending | Running, Fail | Cancel) => Becomes(Completed),
        (_, Fail | Cancel) => Illegal(Completed),

        (Pending | Running, Reject) => Becomes(Pending),
        (_, Reject) => Invalid,

        (Completed, Resolve) => Becomes(Resolving),
        (_, Resolve) => Illegal(Resolving),

        (Resolving, Delete) => Deleted,
        (_, Delete) => Illegal(Resolving),
    }
}

/// How a task ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    pub failed: bool,
    pub failure_reason: String,
    pub result: String,
}

impl Task {
    pub fn desire(guid: TaskGuid, domain: DomainName, definition: TaskDefinition, now_ns: Nanos) -> Self {
        Self {
            guid,
            domain,
            definition: Arc::new(definition),
            state: TaskState::Pending,
            cell_id: None,
            created_ns: now_ns,
            updated_ns: now_ns,
            first_completed_ns: 0,
            result: String::new(),
            failed: false,
            failure_reason: String::new(),
            rejection_count: 0,
            rejection_reason: String::new(),
            unknown: Unknown::default(),
        }
    }

    fn allow(&self, asked: TaskMove, caller: Option<&CellId>) -> Result<TaskVerdict, Refusal> {
        let standing =
            if caller.is_some() && caller == self.cell_id.as_ref() { Caller::TheCell } else { Caller::Other };
        match (judge(self.state, asked, standing), caller) {
            (TaskVerdict::Illegal(to), _) => Err(Refusal::TaskTransition { from: self.state, to }),
            (TaskVerdict::Invalid, _) => Err(Refusal::InvalidRequest),
            (TaskVerdict::OtherCell, Some(caller)) => match &self.cell_id {
                Some(actual) => Err(Refusal::RunningOnDifferentCell { actual: actual.clone(), caller: caller.clone() }),
                None => Err(Refusal::InvalidRequest),
            },
            (verdict, _) => Ok(verdict),
        }
    }

    /// `None` when the same cell started it already: success, and the cell must not start it again.
    pub fn start(&self, by: &CellId, now_ns: Nanos) -> Result<Option<Self>, Refusal> {
        Ok(match self.allow(TaskMove::Start, Some(by))? {
            TaskVerdict::Becomes(state) => {
                Some(Self { state, cell_id: Some(by.clone()), updated_ns: now_ns, ..self.clone() })
            }
            _ => None,
        })
    }

    pub fn complete(&self, by: &CellId, ending: &Ending, now_ns: Nanos) -> Result<Self, Refusal> {
        self.allow(TaskMove::Complete, Some(by))?;
        Ok(self.ended(ending, now_ns))
    }

    pub fn fail(&self, reason: &str, now_ns: Nanos) -> Result<Self, Refusal> {
        self.allow(TaskMove::Fail, None)?;
        Ok(self.ended(&Ending::failure(reason), now_ns))
    }

    pub fn cancel(&self, now_ns: Nanos) -> Result<Self, Refusal> {
        self.allow(TaskMove::Cancel, None)?;
        Ok(self.ended(&Ending::failure(CANCELLED), now_ns))
    }

    /// Back to pending, or failed when the rejections before this one used up what is allowed.
    ///
    /// The cell is forgotten: a task that waits for a placement is on no cell, and cancelling it must not call the old one.
    pub fn reject(&self, reason: &str, rejections_max: i32, now_ns: Nanos) -> Result<Self, Refusal> {
        let used_up = self.rejection_count >= rejections_max;
        self.allow(if used_up { TaskMove::Fail } else { TaskMove::Reject }, None)?;
        let rejected = Self {
            state: TaskState::Pending,
            cell_id: None,
            rejection_count: self.rejection_count.saturating_add(1),
            rejection_reason: truncate_reason(reason),
            updated_ns: now_ns,
            ..self.clone()
        };
        if used_up {
            return Ok(rejected.ended(&Ending::failure(reason), now_ns));
        }
        Ok(rejected)
    }

    pub fn resolve(&self, now_ns: Nanos) -> Result<Self, Refusal> {
        self.allow(TaskMove::Resolve, None)?;
        Ok(Self { state: TaskState::Resolving, updated_ns: now_ns, ..self.clone() })
    }

    pub fn may_be_deleted(&self) -> Result<(), Refusal> {
        self.allow(TaskMove::Delete, None).map(|_| ())
    }

    /// Convergence hands a task whose callback did not get through back to the callers. Its age is kept.
    #[must_use]
    pub fn demoted(&self) -> Self {
        Self { state: TaskState::Completed, ..self.clone() }
    }

    #[must_use]
    fn ended(&self, ending: &Ending, now_ns: Nanos) -> Self {
        Self {
            state: TaskState::Completed,
            cell_id: None,
            updated_ns: now_ns,
            first_completed_ns: now_ns,
            failed: ending.failed,
            failure_reason: truncate_reason(&ending.failure_reason),
            result: ending.result.clone(),
            ..self.clone()
        }
    }
}

impl Ending {
    pub fn failure(reason: &str) -> Self {
        Self { failed: true, failure_reason: reason.to_owned(), result: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect_file;

    use super::*;

    fn task() -> Task {
        let definition = TaskDefinition {
            resources: Resources::default(),
            placement_tags: vec![],
            volume_drivers: vec![],
            completion_callback_url: String::new(),
            annotation: String::new(),
            encoded: Bytes::new(),
        };
        Task::desire(TaskGuid::parse("t").unwrap(), DomainName::parse("d").unwrap(), definition, 1)
    }

    fn cell(id: &str) -> CellId {
        CellId::parse(id).unwrap()
    }

    #[test]
    fn the_whole_table() {
        let moves = [
            TaskMove::Start,
            TaskMove::Complete,
            TaskMove::Fail,
            TaskMove::Cancel,
            TaskMove::Reject,
            TaskMove::Resolve,
            TaskMove::Delete,
        ];
        let mut table = String::new();
        for state in TaskState::ALL {
            for asked in moves {
                for caller in [Caller::TheCell, Caller::Other] {
                    let verdict = judge(state, asked, caller);
                    let (asked, caller) = (format!("{asked:?}"), format!("{caller:?}"));
                    writeln!(table, "{state:<10} {asked:<9} {caller:<8} {verdict:?}").unwrap();
                }
            }
        }
        expect_file!["task.golden"].assert_eq(&table);
    }

    #[test]
    fn the_fourth_rejection_fails_the_task() {
        let mut task = task();
        for count in 1..=3 {
            task = task.reject("no room", 3, 2).unwrap();
            assert_eq!((task.state, task.rejection_count), (TaskState::Pending, count));
        }
        task = task.reject("no room", 3, 9).unwrap();
        assert_eq!((task.state, task.failed, task.failure_reason.as_str()), (TaskState::Completed, true, "no room"));
        assert_eq!(task.first_completed_ns, 9);
        assert_eq!(self::task().reject("no room", 0, 2).unwrap().state, TaskState::Completed);
    }

    /// The last rejection is a failure, so it is refused as a failure is.
    #[test]
    fn a_task_that_ended_is_not_rejected() {
        let ended = task().cancel(2).unwrap();
        assert_eq!(ended.reject("no room", 3, 3), Err(Refusal::InvalidRequest));
        let (from, to) = (TaskState::Completed, TaskState::Completed);
        assert_eq!(ended.reject("no room", 0, 3), Err(Refusal::TaskTransition { from, to }));
    }

    #[test]
    fn reasons_are_cut_and_ages_kept() {
        let running = task().start(&cell("a"), 2).unwrap().unwrap();
        let failed = running.fail(&"x".repeat(2000), 3).unwrap();
        assert_eq!((failed.failure_reason.len(), failed.cell_id.as_ref()), (crate::REASON_BYTES_MAX, None));
        assert_eq!((failed.updated_ns, failed.first_completed_ns), (3, 3));
        let resolving = failed.resolve(4).unwrap();
        assert_eq!((resolving.updated_ns, resolving.first_completed_ns), (4, 3));
        let demoted = resolving.demoted();
        assert_eq!((demoted.state, demoted.updated_ns), (TaskState::Completed, 4));
        assert_eq!(resolving.may_be_deleted(), Ok(()));
    }

    #[test]
    fn a_rejected_task_forgets_its_cell() {
        let running = task().start(&cell("a"), 2).unwrap().unwrap();
        assert_eq!(running.start(&cell("a"), 3).unwrap(), None);
        assert_eq!(
            running.complete(&cell("b"), &Ending::default(), 3),
            Err(Refusal::RunningOnDifferentCell { actual: cell("a"), caller: cell("b") })
        );
        assert_eq!(running.reject("lost", 3, 3).unwrap().cell_id, None);
    }
}
