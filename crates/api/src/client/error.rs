//! What can go wrong with a call, told apart by what the caller can know about it.
//!
//! [`ClientError::Bbs`] is an answer: the server understood and refused, and nothing was changed beyond what its
//! documentation says. All others have [`Attempts`], which say whether the call may have been carried out all the same.

use std::error::Error as StdError;
use std::fmt;

use rustls::AlertDescription as Alert;

use super::attempts::{Attempts, CarriedOut, Lost, StatusAnswer, Trouble};
use crate::DecodeError;
use crate::event::EventError;
use crate::models::Error;
use crate::models::error::Type;
use crate::routes::Route;
use crate::sse::SseError;
use crate::version::Version;

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered with an error.
    #[error("the server refused {route}: {error}")]
    Bbs {
        route: Route,
        error: Error,
        /// With more than one, and a call that is not harmless, the error may be the trace of an earlier attempt.
        attempts: Box<Attempts>,
    },
    /// The answer is no protobuf and its status says failure.
    #[error("the server answered {route} with status {status}{}{}", phase_note(phase.as_deref()), attempts.told())]
    Status {
        route: Route,
        status: u16,
        /// What the server is doing instead of serving, from `X-Corkboard-Phase`.
        phase: Option<String>,
        /// From `Retry-After`.
        retry_after_s: Option<u64>,
        /// The beginning of the body, as text.
        body: String,
        attempts: Box<Attempts>,
    },
    /// The server does not serve clients of this version. Its own words name both versions and what to upgrade.
    #[error("{message}")]
    Version { route: Route, server: Version, message: String, attempts: Box<Attempts> },
    /// A router between us and the server failed, and said so in `X-Cf-Routererror`.
    #[error("a router on the way answered {route}: {text}{}", attempts.told())]
    Router { route: Route, text: String, attempts: Box<Attempts> },
    /// No complete answer came.
    #[error("{route} failed: {kind}{}", attempts.told())]
    Transport {
        route: Route,
        kind: TransportKind,
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
        attempts: Box<Attempts>,
    },
    /// The answer claims to be protobuf and is not the expected message.
    #[error("the answer to {route} cannot be read{}", attempts.told())]
    Decode {
        route: Route,
        #[source]
        source: DecodeError,
        attempts: Box<Attempts>,
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
            TransportKind::Timeout => "no answer within the time limit",
            TransportKind::Tls => "TLS could not be agreed on with the server",
            TransportKind::Closed => "the connection ended before the answer",
            TransportKind::TooLarge => "the answer is larger than this client accepts",
            TransportKind::Other => "the connection failed",
        })
    }
}

fn phase_note(phase: Option<&str>) -> String {
    phase.map(|phase| format!(" (phase: {phase})")).unwrap_or_default()
}

impl ClientError {
    /// Whether repeating the call later may help. What the client itself repeats is less, and is up to its
    /// [`Retry`](super::Retry): a repeated call may meet its own first execution, for instance as `ResourceExists`.
    pub fn retryable(&self) -> bool {
        match self {
            ClientError::Bbs { .. }
            | ClientError::Version { .. }
            | ClientError::Event { .. }
            | ClientError::Stream { .. } => false,
            ClientError::Transport { kind: TransportKind::TooLarge, .. } => false,
            ClientError::Status { .. }
            | ClientError::Router { .. }
            | ClientError::Transport { .. }
            | ClientError::Decode { .. } => true,
        }
    }

    /// How often and where it was tried. `None` for what happens on an open stream.
    pub fn attempts(&self) -> Option<&Attempts> {
        match self {
            ClientError::Bbs { attempts, .. }
            | ClientError::Status { attempts, .. }
            | ClientError::Version { attempts, .. }
            | ClientError::Router { attempts, .. }
            | ClientError::Transport { attempts, .. }
            | ClientError::Decode { attempts, .. } => Some(attempts),
            ClientError::Event { .. } | ClientError::Stream { .. } => None,
        }
    }

    /// Whether the call may have changed something all the same. If so, look before you call again.
    pub fn may_have_been_carried_out(&self) -> bool {
        self.attempts().is_some_and(|attempts| attempts.carried_out == CarriedOut::Perhaps)
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
            ClientError::Version { message, .. } => Some(Error::new(Type::InvalidRequest, message.clone())),
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

    /// The two sides do not agree on who they are. The server reads no request of a client that it refuses; it says so when
    /// the client, for its part, has finished and begun to send.
    pub(super) fn is_refusal_of_tls(&self, sent: bool) -> bool {
        let source = self.source.as_deref().map(|source| source as &(dyn StdError + 'static));
        match source.and_then(tls_cause) {
            Some(rustls::Error::AlertReceived(alert)) if sent => matches!(
                alert,
                Alert::BadCertificate
                    | Alert::UnsupportedCertificate
                    | Alert::CertificateRevoked
                    | Alert::CertificateExpired
                    | Alert::CertificateUnknown
                    | Alert::CertificateRequired
                    | Alert::UnknownCA
                    | Alert::AccessDenied
                    | Alert::DecryptError
            ),
            Some(_) => !sent,
            None => false,
        }
    }

    /// What happens to a stream that was open.
    pub(crate) fn on(self, route: Route) -> ClientError {
        Lost { trouble: Trouble::Transport { failure: self, sent: true }, attempts: Attempts::default() }.on(route)
    }
}

impl Lost {
    pub(super) fn on(self, route: Route) -> ClientError {
        let attempts = Box::new(self.attempts);
        match self.trouble {
            Trouble::Transport { failure: Failure { kind, source }, .. } => {
                ClientError::Transport { route, kind, source, attempts }
            }
            Trouble::Status(StatusAnswer { status, phase, retry_after_s, body, .. }) => {
                let body = String::from_utf8_lossy(&body).into_owned();
                ClientError::Status { route, status, phase, retry_after_s, body, attempts }
            }
            Trouble::Router(text) => ClientError::Router { route, text, attempts },
            Trouble::Decode(source) => ClientError::Decode { route, source, attempts },
            Trouble::Version { server, message } => ClientError::Version { route, server, message, attempts },
        }
    }
}

fn tls_cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // An io::Error shows the cause of its inner error, not the inner error itself, so it is opened by hand.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(found) = error.downcast_ref().or_else(|| inner.and_then(|inner| inner.downcast_ref())) {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

fn kind_of(error: &(dyn StdError + 'static)) -> TransportKind {
    use std::io::ErrorKind;
    if tls_cause(error).is_some() {
        return TransportKind::Tls;
    }
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return TransportKind::TooLarge;
        }
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return TransportKind::Closed;
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
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
    use expect_test::expect;

    use super::*;
    use crate::errors;

    fn transport(kind: TransportKind, attempts: Attempts) -> ClientError {
        ClientError::Transport { route: Route::DesireTask, kind, source: None, attempts: Box::new(attempts) }
    }

    #[test]
    fn cfdot_sees_diegos_types() {
        let route = Route::Ping;
        let attempts = Box::<Attempts>::default;
        let (phase, retry_after_s, body) = (None, None, String::new());
        let status = ClientError::Status { route, status: 404, phase, retry_after_s, body, attempts: attempts() };
        let shown = |error: ClientError| error.as_bbs().map(|error| (error.r#type, error.message));
        assert_eq!(shown(status), Some((5, "Invalid Response with status code: 404".into())));
        assert_eq!(
            shown(ClientError::Router { route, text: "endpoint_failure".into(), attempts: attempts() }),
            Some((14, "endpoint_failure".into()))
        );
        let timeout = transport(TransportKind::Timeout, Attempts::default());
        assert_eq!(shown(timeout).map(|(number, _)| number), Some(31));
        assert_eq!(shown(transport(TransportKind::Refused, Attempts::default())), None);
        let source = crate::decode::<Error>([0x0a]).unwrap_err();
        let broken = ClientError::Decode { route, source, attempts: attempts() };
        assert_eq!(shown(broken).map(|(number, _)| number), Some(6));
        let server = Version { major: 9, minor: 0, patch: 0 };
        let version = ClientError::Version { route, server, message: "old".into(), attempts: attempts() };
        assert_eq!(shown(version), Some((4, "old".into())));
    }

    #[test]
    fn an_answer_is_never_repeated_and_everything_else_is() {
        let attempts = Box::default();
        assert!(!ClientError::Bbs { route: Route::DesireTask, error: errors::deadlock(), attempts }.retryable());
        assert!(transport(TransportKind::Closed, Attempts::default()).retryable());
    }

    #[test]
    fn an_error_says_what_was_tried_and_what_is_safe() {
        let attempts = |made, carried_out| Attempts {
            made,
            addresses: vec!["http://a:1".into(), "http://b:2".into()],
            took: std::time::Duration::from_millis(2345),
            carried_out,
        };
        expect!["POST /v1/tasks/desire.r2 failed: the connection was refused; the server is down or on standby"]
            .assert_eq(&transport(TransportKind::Refused, attempts(1, CarriedOut::No)).to_string());
        expect!["POST /v1/tasks/desire.r2 failed: no answer within the time limit; the call may have been carried out (3 attempts in 2.3 s at http://a:1, http://b:2)"]
            .assert_eq(&transport(TransportKind::Timeout, attempts(3, CarriedOut::Perhaps)).to_string());
    }
}
