//! Carries out what the task pass decided.

use model::converge::tasks::Decision;
use model::{Refusal, TaskState};

use super::task_moves::call_back_if_completed;
use super::{Done, Draft, Effect};

#[derive(Clone, Debug)]
pub struct ConvergeTasks {
    pub decisions: Vec<Decision>,
}

impl ConvergeTasks {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        for decision in self.decisions {
            carry_out(draft, decision);
        }
        Ok(Done::Ok)
    }
}

fn carry_out(draft: &mut Draft, decision: Decision) {
    let now_ns = draft.now_ns();
    match decision {
        Decision::Fail { guid, reason, if_running_on } => {
            let Some(task) = draft.task(&guid).filter(|task| task.cell_id == if_running_on) else { return };
            if let Ok(failed) = task.fail(reason, now_ns) {
                let failed = draft.put_task(Some(task), failed);
                call_back_if_completed(draft, &failed);
            }
        }
        Decision::Auction { guid } => {
            if let Some(task) = draft.task(&guid).filter(|task| task.state == TaskState::Pending) {
                draft.follow_up(Effect::AuctionTask(task));
            }
        }
        Decision::Demote { guid, seen_updated_ns } => {
            let stuck = |task: &model::Task| task.state == TaskState::Resolving && task.updated_ns == seen_updated_ns;
            if let Some(task) = draft.task(&guid).filter(|task| stuck(task)) {
                let demoted = task.demoted();
                draft.put_task(Some(task), demoted);
            }
        }
        Decision::Prune { guid } => {
            if let Some(task) = draft.task(&guid).filter(|task| task.state == TaskState::Completed) {
                draft.remove_task(&task);
            }
        }
        Decision::CallBack { guid } => {
            let reported = |task: &model::Task| has_ended(task) && !task.definition.completion_callback_url.is_empty();
            if draft.task(&guid).is_some_and(|task| reported(&task)) {
                draft.follow_up(Effect::CallBack(guid));
            }
        }
        Decision::GiveUp { guid, seen_first_completed_ns } => {
            let same = |task: &model::Task| has_ended(task) && task.first_completed_ns == seen_first_completed_ns;
            if let Some(task) = draft.task(&guid).filter(|task| same(task)) {
                draft.remove_task(&task);
            }
        }
    }
}

fn has_ended(task: &model::Task) -> bool {
    matches!(task.state, TaskState::Completed | TaskState::Resolving)
}
