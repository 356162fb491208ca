//! The errors that travel in field 1 of an answer, with Diego's numbers, names and texts.
//!
//! Clients compare the type, people and some of the ecosystem's tests compare the text, so both are fixed. One
//! constructor per error that a server sends; types that only clients make up stand in `client/error.rs`.
//! HTTP status is not our business here: an application error is a 200.

use std::fmt;

use crate::models::Error;
use crate::models::error::Type;

impl Error {
    pub fn new(kind: Type, message: impl Into<String>) -> Self {
        Self { r#type: kind.into(), message: message.into() }
    }

    /// The type, or `UnknownError` for a number that we do not know. The number itself stays in the field.
    pub fn kind(&self) -> Type {
        self.r#type()
    }

    /// The name as Diego prints it; a number that we do not know is printed as such.
    pub fn type_name(&self) -> String {
        match Type::try_from(self.r#type) {
            Ok(kind) => kind.as_str_name().to_owned(),
            Err(_) => self.r#type.to_string(),
        }
    }

    /// Whether the same request may succeed later without anybody changing anything.
    ///
    /// Diego's client never repeats a call that was answered, so this guides people and our own reconcilers only.
    /// A conflict, a wrong state or a missing record will be the same a moment later; a deadlock will not.
    pub fn retryable(&self) -> bool {
        match self.kind() {
            Type::Deadlock | Type::Timeout | Type::RouterError | Type::GuidGeneration | Type::LockCollision => true,
            Type::UnknownError
            | Type::InvalidRecord
            | Type::InvalidRequest
            | Type::InvalidResponse
            | Type::InvalidProtobufMessage
            | Type::InvalidJson
            | Type::FailedToOpenEnvelope
            | Type::InvalidStateTransition
            | Type::ResourceConflict
            | Type::ResourceExists
            | Type::ResourceNotFound
            | Type::ActualLrpCannotBeClaimed
            | Type::ActualLrpCannotBeStarted
            | Type::ActualLrpCannotBeCrashed
            | Type::ActualLrpCannotBeFailed
            | Type::ActualLrpCannotBeRemoved
            | Type::ActualLrpCannotBeUnclaimed
            | Type::RunningOnDifferentCell
            | Type::Deserialize
            | Type::Unrecoverable => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.type_name(), self.message)
    }
}

impl std::error::Error for Error {}

/// The body could not be read to its end.
pub fn unread_request_body() -> Error {
    Error::new(Type::UnknownError, "the request failed for an unknown reason")
}

/// Anything that has no type of its own. The text reaches clients: name no secret in it.
pub fn unknown(text: impl Into<String>) -> Error {
    Error::new(Type::UnknownError, text)
}

/// A record cannot be written or read.
pub fn invalid_record(text: impl Into<String>) -> Error {
    Error::new(Type::InvalidRecord, text)
}

/// The body is not the message of this route; also for a route value that is not JSON, a value that is too long, and
/// the rejection of a task that is neither pending nor running.
pub fn invalid_request_body() -> Error {
    Error::new(Type::InvalidRequest, "the request received is invalid")
}

/// Validation found something. The text is the findings, joined by `", "`.
pub fn invalid_request(findings: impl Into<String>) -> Error {
    Error::new(Type::InvalidRequest, findings)
}

/// A task cannot go from one state to another. The states are named as in `Task.State`.
pub fn invalid_state_transition(from: &str, to: &str) -> Error {
    Error::new(Type::InvalidStateTransition, format!("Cannot transition from {from} to {to}"))
}

/// A task is completed by a cell that does not run it.
pub fn running_on_different_cell(actual: &str, caller: &str) -> Error {
    Error::new(Type::RunningOnDifferentCell, format!("Running on cell {actual} not {caller}"))
}

/// The server cannot go on and shuts down after this answer.
pub fn unrecoverable(text: &str) -> Error {
    Error::new(Type::Unrecoverable, format!("Unrecoverable Error: {text}"))
}

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $kind:ident, $text:literal;)*) => {
        $($(#[$doc])* pub fn $name() -> Error {
            Error::new(Type::$kind, $text)
        })*
    };
}

fixed! {
    /// There is more than one record where there can be one only.
    resource_conflict: ResourceConflict, "the requested resource is in a conflicting state";
    /// The guid is taken.
    resource_exists: ResourceExists, "the requested resource already exists";
    resource_not_found: ResourceNotFound, "the requested resource could not be found";
    actual_lrp_cannot_be_claimed: ActualLrpCannotBeClaimed, "cannot claim actual LRP";
    actual_lrp_cannot_be_started: ActualLrpCannotBeStarted, "cannot start actual LRP";
    actual_lrp_cannot_be_crashed: ActualLrpCannotBeCrashed, "cannot crash actual LRP";
    actual_lrp_cannot_be_failed: ActualLrpCannotBeFailed, "cannot fail actual LRP";
    actual_lrp_cannot_be_removed: ActualLrpCannotBeRemoved, "cannot remove actual LRP";
    actual_lrp_cannot_be_unclaimed: ActualLrpCannotBeUnclaimed, "cannot unclaim actual LRP";
    guid_generation: GuidGeneration, "cannot generate random guid";
    /// A stored record is damaged.
    deserialize: Deserialize, "could not deserialize record";
    deadlock: Deadlock, "the request failed due to deadlock";
    lock_collision: LockCollision, "lock already exists";
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::encode;
    use crate::models::ActualLrpLifecycleResponse;
    use crate::wire::Response;

    #[test]
    fn texts_and_numbers_are_diegos() {
        let all = [
            unread_request_body(),
            unknown("context canceled"),
            invalid_record("truncated"),
            invalid_request_body(),
            invalid_request("Invalid field: domain"),
            invalid_state_transition("Pending", "Resolving"),
            resource_conflict(),
            resource_exists(),
            resource_not_found(),
            actual_lrp_cannot_be_claimed(),
            actual_lrp_cannot_be_started(),
            actual_lrp_cannot_be_crashed(),
            actual_lrp_cannot_be_failed(),
            actual_lrp_cannot_be_removed(),
            actual_lrp_cannot_be_unclaimed(),
            running_on_different_cell("cell-a", "cell-b"),
            guid_generation(),
            deserialize(),
            deadlock(),
            unrecoverable("the table is gone"),
            lock_collision(),
            Error { r#type: 99, message: "from the future".into() },
        ];
        let table: String = all
            .iter()
            .map(|error| {
                let again = if error.retryable() { " (retryable)" } else { "" };
                format!("{} {error}{again}\n", error.r#type)
            })
            .collect();
        expect![[r#"
            0 UnknownError: the request failed for an unknown reason
            0 UnknownError: context canceled
            3 InvalidRecord: truncated
            4 InvalidRequest: the request received is invalid
            4 InvalidRequest: Invalid field: domain
            9 InvalidStateTransition: Cannot transition from Pending to Resolving
            11 ResourceConflict: the requested resource is in a conflicting state
            12 ResourceExists: the requested resource already exists
            13 ResourceNotFound: the requested resource could not be found
            15 ActualLRPCannotBeClaimed: cannot claim actual LRP
            16 ActualLRPCannotBeStarted: cannot start actual LRP
            17 ActualLRPCannotBeCrashed: cannot crash actual LRP
            18 ActualLRPCannotBeFailed: cannot fail actual LRP
            19 ActualLRPCannotBeRemoved: cannot remove actual LRP
            21 ActualLRPCannotBeUnclaimed: cannot unclaim actual LRP
            24 RunningOnDifferentCell: Running on cell cell-a not cell-b
            26 GUIDGeneration: cannot generate random guid (retryable)
            27 Deserialize: could not deserialize record
            28 Deadlock: the request failed due to deadlock (retryable)
            29 Unrecoverable: Unrecoverable Error: the table is gone
            30 LockCollision: lock already exists (retryable)
            99 99: from the future
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn a_failed_answer_has_the_bytes_seen_on_the_wire() {
        let bytes = encode(ActualLrpLifecycleResponse::failed(resource_not_found()));
        let mut expected = vec![0x0a, 0x2d, 0x08, 0x0d, 0x12, 0x29];
        expected.extend_from_slice(b"the requested resource could not be found");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_successful_answer_sends_no_error_not_even_an_empty_one() {
        assert_eq!(encode(ActualLrpLifecycleResponse::default()).len(), 0);
        let mut present_but_empty: ActualLrpLifecycleResponse = crate::decode([0x0a, 0x00]).unwrap();
        assert_eq!(present_but_empty.take_error(), Some(Error::default()), "clients read it as a failure");
    }
}
