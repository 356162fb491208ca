//! What can go wrong with a call, told apart by what the caller can know about it.
//!
//! [`ClientError::Bbs`] is an answer: the server understood and refused, and nothing was changed beyond what its
//! documentation says. All others leave open whether the call was carried out, except a refused connection.

use std::error::Error as StdError;
use std::fmt;

use crate::DecodeError;
use crate::event::EventError;
use crate::models::Error;
use crate::models::error::Type;
use crate::routes::Route;
use crate::sse::SseError;

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered with an error.
    #[error("the server refused {route}: {error}")]
    Bbs { route: Route, error: Error },
    /// The answer is no protobuf and its status says failure.
    #[error("the server answered {route} with status {status}{}", phase_note(phase.as_deref()))]
    Status {
        route: Route,
        status: u16,
        /// What the server is doing instead of serving, from `X-Corkboard-Phase`.
        phase: Option<String>,
        /// From `Retry-After`.
        retry_after_s: Option<u64>,
        /// The beginning of the body, as text.
        body: String,
    },
    /// A router between us and the server failed, and said so in `X-Cf-Routererror`.
    #[error("a router on the way answered {route}: {text}")]
    Router { route: Route, text: String },
    /// No complete answer came.
    #[error("{route} failed: {kind}")]
    Transport {
        route: Route,
        kind: TransportKind,
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The answer claims to be protobuf and is not the expected message.
    #[error("the answer to {route} cannot be read")]
    Decode {
        route: Route,
        #[source]
        source: DecodeError,
    },
    /// One event could not be understood; the stream goes on, ask for the next.
    #[error("an event on {route} cannot be read")]
    Event {
        route: Route,
        #[source]
        source: EventError,
    },
    /// The stream is not what a server may send; it is over.
    #[error("the event stream {route} is broken")]
    Stream {
        route: Route,
        #[source]
        source: SseError,
    },
}

/// Where on the way it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// Nobody listens: the server is down or a standby. The call was not carried out.
    Refused,
    /// The name has no address. The call was not carried out.
    Resolve,
    /// The time limit of the call, or of connecting, passed.
    Timeout,
    /// The handshake failed, or the server does not accept our certificate.
    Tls,
    /// The connection ended before the answer did.
    Closed,
    /// The answer is larger than a client accepts.
    TooLarge,
    Other,
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransportKind::Refused => "the connection was refused; the server is down or on standby",
            TransportKind::Resolve => "the name of the server has no address",
            TransportKind::Timeout => "no answer within the time limit; the call may have been carried out",
            TransportKind::Tls => "TLS could not be agreed on with the server",
            TransportKind::Closed => "the connection ended before the answer; the call may have been carried out",
            TransportKind::TooLarge => "the answer is larger than this client accepts",
            TransportKind::Other => "the connection failed",
        })
    }
}

fn phase_note(phase: Option<&str>) -> String {
    phase.map(|phase| format!(" (phase: {phase})")).unwrap_or_default()
}

impl ClientError {
    /// Whether repeating the call may help. Diego's client repeats exactly these: everything that is not an answer.
    /// A repeated call may meet its own first execution, for instance as `ResourceExists`.
    pub fn retryable(&self) -> bool {
        match self {
            ClientError::Bbs { .. } | ClientError::Event { .. } | ClientError::Stream { .. } => false,
            ClientError::Transport { kind: TransportKind::TooLarge, .. } => false,
            ClientError::Status { .. }
            | ClientError::Router { .. }
            | ClientError::Transport { .. }
            | ClientError::Decode { .. } => true,
        }
    }

    /// The error of the server, if it answered with one.
    pub fn bbs(&self) -> Option<&Error> {
        match self {
            ClientError::Bbs { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether the server answered with an error of this type.
    pub fn is(&self, kind: Type) -> bool {
        self.bbs().is_some_and(|error| error.kind() == kind)
    }

    /// As Diego's client and cfdot show it: type number, type name, message. Failures that happen before there is any
    /// answer, such as a refused connection, have no type.
    pub fn as_bbs(&self) -> Option<Error> {
        match self {
            ClientError::Bbs { error, .. } => Some(error.clone()),
            ClientError::Status { status, .. } => {
                Some(Error::new(Type::InvalidResponse, format!("Invalid Response with status code: {status}")))
            }
            ClientError::Router { text, .. } => Some(Error::new(Type::RouterError, text.clone())),
            ClientError::Transport { kind: TransportKind::Timeout, .. } => {
                Some(Error::new(Type::Timeout, self.to_string()))
            }
            ClientError::Decode { source, .. } => Some(Error::new(Type::InvalidProtobufMessage, source.to_string())),
            ClientError::Transport { .. } | ClientError::Event { .. } | ClientError::Stream { .. } => None,
        }
    }
}

/// A failure below the level of routes. It becomes [`ClientError::Transport`] where the route is known.
#[derive(Debug)]
pub struct Failure {
    pub kind: TransportKind,
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Failure {
    pub(crate) fn timeout() -> Self {
        Self { kind: TransportKind::Timeout, source: None }
    }

    /// Looks through the chain of causes for the one that says most.
    pub(crate) fn from_error(error: impl StdError + Send + Sync + 'static) -> Self {
        let kind = kind_of(&error);
        Self { kind, source: Some(Box::new(error)) }
    }

    pub(crate) fn on(self, route: Route) -> ClientError {
        ClientError::Transport { route, kind: self.kind, source: self.source }
    }
}

fn kind_of(error: &(dyn StdError + 'static)) -> TransportKind {
    use std::io::ErrorKind;
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<rustls::Error>() {
            return TransportKind::Tls;
        }
        if error.is::<http_body_util::LengthLimitError>() {
            return TransportKind::TooLarge;
        }
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return TransportKind::Closed;
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            // An io::Error shows the cause of its inner error, not the inner error itself, so it is opened by hand.
            if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                return TransportKind::Tls;
            }
            match io.kind() {
                ErrorKind::ConnectionRefused => return TransportKind::Refused,
                ErrorKind::TimedOut => return TransportKind::Timeout,
                ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe => return TransportKind::Closed,
                _ => {}
            }
        }
        cause = error.source();
    }
    TransportKind::Other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors;

    #[test]
    fn cfdot_sees_diegos_types() {
        let route = Route::Ping;
        let status = ClientError::Status { route, status: 404, phase: None, retry_after_s: None, body: String::new() };
        let transport = |kind| ClientError::Transport { route, kind, source: None };
        let shown = |error: ClientError| error.as_bbs().map(|error| (error.r#type, error.message));
        assert_eq!(shown(status), Some((5, "Invalid Response with status code: 404".into())));
        assert_eq!(
            shown(ClientError::Router { route, text: "endpoint_failure".into() }),
            Some((14, "endpoint_failure".into()))
        );
        assert_eq!(shown(transport(TransportKind::Timeout)).map(|(number, _)| number), Some(31));
        assert_eq!(shown(transport(TransportKind::Refused)), None);
        let broken = crate::decode::<Error>([0x0a]).unwrap_err();
        assert_eq!(shown(ClientError::Decode { route, source: broken }).map(|(number, _)| number), Some(6));
    }

    #[test]
    fn an_answer_is_never_repeated_and_everything_else_is() {
        let route = Route::DesireTask;
        assert!(!ClientError::Bbs { route, error: errors::deadlock() }.retryable());
        assert!(ClientError::Transport { route, kind: TransportKind::Closed, source: None }.retryable());
    }
}
