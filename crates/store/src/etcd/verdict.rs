//! What an error of etcd means for whoever asked.
//!
//! etcd tells its errors apart by a code and a text; the texts are part of its interface, since its own clients compare them.

use tonic::{Code, Status};

use super::links::{ANSWER_BYTES_MAX, explain};
use crate::error::StoreError;

/// What a request to etcd may take unless it is told otherwise.
const REQUEST_BYTES_DEFAULT: usize = 1_572_864;

#[derive(Debug)]
pub(super) enum Verdict {
    /// The same question gets the same answer everywhere.
    Final(StoreError),
    /// This member cannot tell; another, or the same one later, may. What was asked may have been done.
    Elsewhere,
    /// The token is not known any more.
    LogIn,
}

pub(super) fn judge(doing: &str, status: &Status) -> Verdict {
    let (code, text) = (status.code(), status.message());
    let not_allowed = || Verdict::Final(StoreError::NotAllowed { doing: doing.to_owned(), why: explain(status) });
    match code {
        Code::ResourceExhausted if text.contains("database space exceeded") => {
            Verdict::Final(StoreError::QuotaExceeded)
        }
        Code::ResourceExhausted if text.contains("larger than max") => too_large(doing),
        Code::InvalidArgument if text.contains("request is too large") => too_large(doing),
        Code::OutOfRange if text.contains("compacted") => Verdict::Final(StoreError::Compacted),
        Code::OutOfRange if text.contains("message length too large") => Verdict::Final(large_answer(text)),
        Code::Unauthenticated => Verdict::LogIn,
        Code::InvalidArgument if text.contains("revision of auth store is old") => Verdict::LogIn,
        Code::InvalidArgument if text.contains("user name is empty") => Verdict::LogIn,
        Code::InvalidArgument if text.contains("authentication failed") => not_allowed(),
        Code::FailedPrecondition if text.contains("authentication is not enabled") => not_allowed(),
        Code::PermissionDenied => not_allowed(),
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Aborted
        | Code::Unknown
        | Code::Internal
        | Code::ResourceExhausted => Verdict::Elsewhere,
        _ => Verdict::Final(StoreError::Unexpected { doing: doing.to_owned(), why: explain(status) }),
    }
}

/// What passed our own check is refused only by an etcd that was told to take less than by default.
fn too_large(doing: &str) -> Verdict {
    let why = format!(
        "the request is too large for it, because it takes less than by default. Start its members without \
         --max-request-bytes, or with at least {REQUEST_BYTES_DEFAULT}"
    );
    Verdict::Final(StoreError::Unexpected { doing: doing.to_owned(), why })
}

/// Whoever asked for several records asks for fewer then.
fn large_answer(text: &str) -> StoreError {
    let size = text.split(' ').find_map(|word| word.parse().ok()).unwrap_or(usize::MAX);
    StoreError::TooLarge { what: "bytes of an answer of etcd", size, max: ANSWER_BYTES_MAX }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn every_error_of_etcd_has_its_meaning() {
        let rows = [
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unknown, "transport error"),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            (Code::ResourceExhausted, "etcdserver: too many requests"),
            (Code::InvalidArgument, "etcdserver: request is too large"),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
            (Code::OutOfRange, "Error, decoded message length too large: found 2 bytes, the limit is: 1 bytes"),
            (Code::Unauthenticated, "etcdserver: invalid auth token"),
            (Code::InvalidArgument, "etcdserver: user name is empty"),
            (Code::InvalidArgument, "etcdserver: authentication failed, invalid user ID or password"),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old"),
            (Code::FailedPrecondition, "etcdserver: authentication is not enabled"),
            (Code::PermissionDenied, "etcdserver: permission denied"),
            (Code::InvalidArgument, "etcdserver: too many operations in txn request"),
            (Code::Unimplemented, "unknown service etcdserverpb.KV"),
        ];
        let mut table = String::new();
        for (code, text) in rows {
            let verdict = match judge("committing", &Status::new(code, text)) {
                Verdict::Final(error) => format!("final: {}", error.to_string().split('.').next().unwrap_or_default()),
                Verdict::Elsewhere => "elsewhere".to_owned(),
                Verdict::LogIn => "log in".to_owned(),
            };
            table.push_str(&format!("{code:?} {text} -> {verdict}\n"));
        }
        expect![[r#"
            Unavailable etcdserver: no leader -> elsewhere
            Unavailable etcdserver: request timed out -> elsewhere
            Unavailable etcdserver: request timed out, possibly due to previous leader failure -> elsewhere
            Unavailable etcdserver: server stopped -> elsewhere
            Unknown transport error -> elsewhere
            ResourceExhausted etcdserver: mvcc: database space exceeded -> final: etcd is full: its database has reached the space quota, so it takes no writes
            ResourceExhausted etcdserver: too many requests -> elsewhere
            InvalidArgument etcdserver: request is too large -> final: etcd answered what this server does not expect while committing: the request is too large for it, because it takes less than by default
            OutOfRange etcdserver: mvcc: required revision has been compacted -> final: etcd has compacted the history that this server was reading
            OutOfRange Error, decoded message length too large: found 2 bytes, the limit is: 1 bytes -> final: bytes of an answer of etcd: 2, and at most 67108864 are allowed
            Unauthenticated etcdserver: invalid auth token -> log in
            InvalidArgument etcdserver: user name is empty -> log in
            InvalidArgument etcdserver: authentication failed, invalid user ID or password -> final: etcd does not let this server in while committing: etcdserver: authentication failed, invalid user ID or password
            InvalidArgument etcdserver: revision of auth store is old -> log in
            FailedPrecondition etcdserver: authentication is not enabled -> final: etcd does not let this server in while committing: etcdserver: authentication is not enabled
            PermissionDenied etcdserver: permission denied -> final: etcd does not let this server in while committing: etcdserver: permission denied
            InvalidArgument etcdserver: too many operations in txn request -> final: etcd answered what this server does not expect while committing: etcdserver: too many operations in txn request
            Unimplemented unknown service etcdserverpb.KV -> final: etcd answered what this server does not expect while committing: unknown service etcdserverpb
        "#]].assert_eq(&table);
    }
}
