//! What a call to Locket can end with, by what its caller does about it.

use std::error::Error;

use tonic::{Code, Status};

use crate::client::tls::TlsError;

#[derive(Debug, thiserror::Error)]
pub enum LocketError {
    /// Locket does not say who; see [`super::Client::fetch`].
    #[error("{doing}: it belongs to somebody else")]
    Collision { doing: String },
    #[error("{doing}: there is no such thing ({message})")]
    NotFound { doing: String, message: String },
    #[error("{doing}: Locket does not accept the request ({message}); asking again changes nothing")]
    Invalid { doing: String, message: String },
    /// It may have been carried out all the same.
    #[error("{doing}: Locket at {address} does not answer: {why}")]
    Unreachable { doing: String, address: String, why: String },
    /// Locket has trouble of its own, usually with its database.
    #[error("{doing}: Locket failed with {code:?} ({message})")]
    Failed { doing: String, code: Code, message: String },
    #[error("{address:?} is not the address of a Locket; expected HOST:PORT, such as locket.service.cf.internal:8891")]
    Address { address: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl LocketError {
    /// Whether the same call may succeed later, without anybody changing it. What belongs to somebody else may become free.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Collision { .. } | Self::Unreachable { .. } | Self::Failed { .. } => true,
            Self::NotFound { .. } | Self::Invalid { .. } | Self::Address { .. } | Self::Tls(_) => false,
        }
    }

    pub(super) fn of(doing: String, address: &str, status: &Status) -> Self {
        let message = status.message().to_owned();
        // An answer has no cause; what happened on the way has one.
        if status.source().is_some() {
            return Self::Unreachable { doing, address: address.to_owned(), why: explain(status) };
        }
        match status.code() {
            Code::AlreadyExists => Self::Collision { doing },
            Code::NotFound => Self::NotFound { doing, message },
            Code::InvalidArgument | Code::Unimplemented => Self::Invalid { doing, message },
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                Self::Unreachable { doing, address: address.to_owned(), why: explain(status) }
            }
            code => Self::Failed { doing, code, message },
        }
    }
}

/// Each layer repeats what the one below said, or says only that it failed.
fn explain(status: &Status) -> String {
    const EMPTY_WORDS: [&str; 3] = ["transport error", "connection error", "client error (Connect)"];
    let mut parts: Vec<String> = Vec::new();
    let mut add = |text: String| {
        for part in text.split(": ").filter(|part| !part.is_empty() && !EMPTY_WORDS.contains(part)) {
            if !parts.iter().any(|known| known == part) {
                parts.push(part.to_owned());
            }
        }
    };
    add(status.message().to_owned());
    let mut cause = status.source();
    while let Some(error) = cause {
        add(error.to_string());
        cause = error.source();
    }
    if parts.is_empty() { format!("{:?}", status.code()) } else { parts.join(": ") }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn every_code_has_its_kind() {
        let mut text = String::new();
        for code in (0..=16).map(Code::from).filter(|code| *code != Code::Ok) {
            let error = LocketError::of("asking".into(), "a:1", &Status::new(code, "words"));
            let kind = format!("{error:?}");
            let kind = kind.split(' ').next().unwrap_or_default();
            text += &format!("{code:?} {kind} retryable={}\n", error.retryable());
        }
        expect![[r#"
            Cancelled Unreachable retryable=true
            Unknown Failed retryable=true
            InvalidArgument Invalid retryable=false
            DeadlineExceeded Unreachable retryable=true
            NotFound NotFound retryable=false
            AlreadyExists Collision retryable=true
            PermissionDenied Failed retryable=true
            ResourceExhausted Failed retryable=true
            FailedPrecondition Failed retryable=true
            Aborted Failed retryable=true
            OutOfRange Failed retryable=true
            Unimplemented Invalid retryable=false
            Internal Failed retryable=true
            Unavailable Unreachable retryable=true
            DataLoss Failed retryable=true
            Unauthenticated Failed retryable=true
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn what_happened_on_the_way_is_told_once() {
        let refused = std::io::Error::other("connection error: nobody listens");
        let status = Status::from_error(Box::new(refused));
        let error = LocketError::of("asking for the lock bbs".into(), "a:1", &status);
        expect!["asking for the lock bbs: Locket at a:1 does not answer: nobody listens"].assert_eq(&error.to_string());
    }
}
