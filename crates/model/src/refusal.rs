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
        "the update to {present} is not finished, because instances still have {previous}; nothing was changed. See how far it \
         is with `corkboard rollout status {process_guid}`, or take it back with `corkboard rollout cancel {process_guid}`",
        present = called(.present), previous = called(.previous)
    )]
    UpdateInProgress { process_guid: ProcessGuid, present: String, previous: String },
    #[error("no update of {process_guid} is under way; nothing was changed")]
    NoRollout { process_guid: ProcessGuid },
    #[error(
        "the last update of {process_guid} is being taken back already; nothing was changed. Wait until that is done: `corkboard \
         rollout status {process_guid}`"
    )]
    RollingBack { process_guid: ProcessGuid },
    #[error(
        "the new definition is the same as the present one ({present}), so that nothing would change; nothing was changed",
        present = called(.identifier)
    )]
    Unchanged { identifier: String },
    #[error(
        "{process_guid} had a definition {identifier:?} before, which is still kept; nothing was changed. Go back to it with \
         `corkboard rollout undo {process_guid} --to {identifier}`, or give the new one an identifier of its own"
    )]
    DefinitionKept { process_guid: ProcessGuid, identifier: String },
    #[error("{process_guid} has no former definition{wanted} to go back to; nothing was changed. {kept}",
        wanted = wanted_definition(.wanted.as_deref()), kept = kept_definitions(.kept))]
    NoSuchDefinition { process_guid: ProcessGuid, wanted: Option<String>, kept: Vec<String> },
}

/// The definition that an LRP was desired with has no identifier.
fn called(identifier: &str) -> String {
    if identifier.is_empty() { "the first definition".to_owned() } else { format!("the definition {identifier:?}") }
}

fn wanted_definition(identifier: Option<&str>) -> String {
    identifier.map_or_else(String::new, |identifier| format!(" {identifier:?}"))
}

fn kept_definitions(kept: &[String]) -> String {
    if kept.is_empty() {
        return "None is kept".to_owned();
    }
    let named: Vec<String> = kept.iter().map(|identifier| called(identifier)).collect();
    format!("Kept are: {}", named.join(", "))
}
