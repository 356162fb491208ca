//! Nobody wants a process any more.

use model::{ProcessGuid, Refusal};

use super::update_lrp::stop_instances;
use super::{Done, Draft};

#[derive(Clone, Debug)]
pub struct RemoveLrp {
    pub process_guid: ProcessGuid,
}

impl RemoveLrp {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let lrp = draft.desired(&self.process_guid).ok_or(Refusal::NotFound)?;
        draft.remove_desired(&lrp);
        stop_instances(draft, &self.process_guid, 0);
        Ok(Done::Ok)
    }
}
