//! Why a move was refused. The kinds are part of the contract: cells delete or keep containers depending on which one they see.

use crate::task::TaskState;
use crate::{CellId, IdError, ProcessGuid};

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
    #[error("the domain of a desired LRP cannot be changed; nothing was changed. Leave it out of the new definition")]
    OtherDomain,
    #[error(
        "the definition {identifier:?} is the one in use already; nothing was changed. A new definition needs an \
         identifier of its own"
    )]
    DefinitionInUse { identifier: String },
    #[error(
        "the update to {present} is not finished, because instances still have {previous}; nothing was changed. Send this \
         again when all of them have been replaced; `corkboard retire-actual-lrp {process_guid} INDEX` replaces one",
        present = called(.present), previous = called(.previous)
    )]
    UpdateInProgress { process_guid: ProcessGuid, present: String, previous: String },
}

/// The definition that an LRP was desired with has no identifier.
fn called(identifier: &str) -> String {
    if identifier.is_empty() { "the first definition".to_owned() } else { format!("the definition {identifier:?}") }
}
