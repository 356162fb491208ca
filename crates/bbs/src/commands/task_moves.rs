//! The moves of a task, all through the table in `model::task`.

use std::sync::Arc;

use model::task::Ending;
use model::{CellId, Refusal, Task, TaskGuid, TaskState};

use super::{Done, Draft, Effect};

#[derive(Clone, Debug)]
pub struct MoveTask {
    pub guid: TaskGuid,
    pub call: TaskCall,
}

#[derive(Clone, Debug)]
pub enum TaskCall {
    Start { cell: CellId },
    Complete { cell: CellId, ending: Ending },
    Fail { reason: String },
    Cancel,
    Reject { reason: String },
    Resolve,
    Delete,
}

impl MoveTask {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let before = draft.task(&self.guid).ok_or(Refusal::NotFound)?;
        let now_ns = draft.now_ns();
        let cancels = matches!(self.call, TaskCall::Cancel);
        let after = match self.call {
            TaskCall::Start { cell } => {
                let started = before.start(&cell, now_ns)?;
                let should_start = started.is_some();
                if let Some(after) = started {
                    draft.put_task(Some(before), after);
                }
                return Ok(Done::TaskStarted { should_start });
            }
            TaskCall::Delete => {
                before.may_be_deleted()?;
                draft.remove_task(&before);
                return Ok(Done::Ok);
            }
            TaskCall::Complete { cell, ending } => before.complete(&cell, &ending, now_ns)?,
            TaskCall::Fail { reason } => before.fail(&reason, now_ns)?,
            TaskCall::Cancel => before.cancel(now_ns)?,
            TaskCall::Reject { reason } => before.reject(&reason, draft.setting.task_rejections_max, now_ns)?,
            TaskCall::Resolve => before.resolve(now_ns)?,
        };
        let cancelled_on = before.cell_id.clone().filter(|_| cancels);
        let after = draft.put_task(Some(before), after);
        call_back_if_completed(draft, &after);
        if let Some(cell) = cancelled_on {
            draft.follow_up(Effect::CancelTask { guid: self.guid, cell });
        }
        Ok(Done::Ok)
    }
}

/// Whoever asked to be told about the end of a task is told.
pub(super) fn call_back_if_completed(draft: &mut Draft, task: &Arc<Task>) {
    if task.state == TaskState::Completed && !task.definition.completion_callback_url.is_empty() {
        draft.follow_up(Effect::CallBack(task.guid.clone()));
    }
}
