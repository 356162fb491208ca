//! A refusal of the domain as an error of the protocol.

use api::models::Error;
use api::models::error::Type;
use model::{IdError, Refusal};

pub(super) fn of_refusal(refusal: &Refusal) -> Error {
    let kind = match refusal {
        Refusal::NotFound => Type::ResourceNotFound,
        Refusal::Exists => Type::ResourceExists,
        Refusal::InvalidRequest | Refusal::Id(_) | Refusal::OtherDomain => Type::InvalidRequest,
        Refusal::CannotBeClaimed => Type::ActualLrpCannotBeClaimed,
        Refusal::CannotBeStarted => Type::ActualLrpCannotBeStarted,
        Refusal::CannotBeCrashed => Type::ActualLrpCannotBeCrashed,
        Refusal::CannotBeFailed => Type::ActualLrpCannotBeFailed,
        Refusal::CannotBeRemoved => Type::ActualLrpCannotBeRemoved,
        Refusal::CannotBeUnclaimed => Type::ActualLrpCannotBeUnclaimed,
        Refusal::TaskTransition { .. } => Type::InvalidStateTransition,
        Refusal::RunningOnDifferentCell { .. } => Type::RunningOnDifferentCell,
        Refusal::DefinitionInUse { .. }
        | Refusal::DefinitionKept { .. }
        | Refusal::Unchanged { .. }
        | Refusal::NoRollout { .. }
        | Refusal::RollingBack { .. }
        | Refusal::UpdateInProgress { .. } => Type::ResourceConflict,
        Refusal::NoSuchDefinition { .. } => Type::ResourceNotFound,
    };
    Error::new(kind, refusal.to_string())
}

pub(super) fn of_id(error: &IdError) -> Error {
    Error::new(Type::InvalidRequest, error.to_string())
}
