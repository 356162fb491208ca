//! Somebody wants a task to run once.

use model::{DomainName, Refusal, Task, TaskDefinition, TaskGuid};

use super::{Done, Draft, Effect};

#[derive(Clone, Debug)]
pub struct DesireTask {
    pub guid: TaskGuid,
    pub domain: DomainName,
    pub definition: TaskDefinition,
}

impl DesireTask {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        if draft.board.tasks.contains_key(&self.guid) {
            return Err(Refusal::Exists);
        }
        let task = Task::desire(self.guid, self.domain, self.definition, draft.now_ns());
        let task = draft.put_task(None, task);
        draft.follow_up(Effect::AuctionTask(task));
        Ok(Done::Ok)
    }
}
