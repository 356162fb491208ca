//! Why a move was refused. The kinds are part of the contract: cells delete or keep containers depending on which one they see.

use crate::task::TaskState;
use crate::{CellId, IdError};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the requested resource could not be found")]
    NotFound,
    #[error("the requested resource already exists")]
    Exists,
    #[error("the request received is invalid")]
    InvalidRequest,
    #[error(transparent)]
    Id(#[from] IdError),
    #[error("cannot claim actual LRP")]
    CannotBeClaimed,
    #[error("cannot start actual LRP")]
    CannotBeStarted,
    #[error("cannot crash actual LRP")]
    CannotBeCrashed,
    #[error("cannot fail actual LRP")]
    CannotBeFailed,
    #[error("cannot remove actual LRP")]
    CannotBeRemoved,
    #[error("cannot unclaim actual LRP")]
    CannotBeUnclaimed,
    #[error("Cannot transition from {from} to {to}")]
    TaskTransition { from: TaskState, to: TaskState },
    #[error("Running on cell {actual} not {caller}")]
    RunningOnDifferentCell { actual: CellId, caller: CellId },
}
