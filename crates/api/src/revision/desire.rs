//! The requests of the older revisions of `desire`, read as the newest.
//!
//! What comes out has not been validated. Diego validated a task of `desire.r1` before it converted it, and everything else
//! after; nobody can tell, because the rules for tasks do not look at mounts.

use super::{desired_lrp, task, volume_mounts};
use crate::models::{DesireLrpRequest, DesireTaskRequest};
use crate::{DecodeError, Wire, decode};

/// `/v1/desired_lrp/desire`.
pub fn desire_lrp_r0(body: &[u8]) -> Result<DesireLrpRequest, DecodeError> {
    let mut request = desire_lrp_r1(body)?;
    if let Some(lrp) = &mut request.desired_lrp {
        desired_lrp::up_from_r0(lrp);
    }
    Ok(request)
}

/// `/v1/desired_lrp/desire.r1`.
pub fn desire_lrp_r1(body: &[u8]) -> Result<DesireLrpRequest, DecodeError> {
    let mut request: DesireLrpRequest = decode(body)?;
    if let Some(lrp) = &mut request.desired_lrp {
        let retired = volume_mounts::of_lrp(body).map_err(unreadable::<DesireLrpRequest>)?;
        volume_mounts::rebuild(&mut lrp.volume_mounts, retired);
    }
    Ok(request)
}

/// `/v1/tasks/desire`.
pub fn desire_task_r0(body: &[u8]) -> Result<DesireTaskRequest, DecodeError> {
    let mut request = desire_task_r1(body)?;
    if let Some(definition) = &mut request.task_definition {
        task::up_from_r0(definition);
    }
    Ok(request)
}

/// `/v1/tasks/desire.r1`.
pub fn desire_task_r1(body: &[u8]) -> Result<DesireTaskRequest, DecodeError> {
    let mut request: DesireTaskRequest = decode(body)?;
    if let Some(definition) = &mut request.task_definition {
        let retired = volume_mounts::of_task(body).map_err(unreadable::<DesireTaskRequest>)?;
        volume_mounts::rebuild(&mut definition.volume_mounts, retired);
    }
    Ok(request)
}

fn unreadable<M: Wire>(source: prost::DecodeError) -> DecodeError {
    DecodeError { message: M::NAME, source }
}
