//! Why a command failed, what it prints, and the exit code: 3 the caller's mistake, 4 an answer of the server, 5 the rest.
//!
//! The codes are `cfdot`'s, and so are the three lines for an answer of the server. A failure of any other kind says what
//! happened, then each cause on its own line, then what to do.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use api::client::{ClientError, TransportKind};

use crate::config::ConfigError;
use crate::reach::{Address, ReachError};

/// Also the code for a mistake that clap finds.
pub(crate) const EXIT_USAGE: u8 = 3;
const EXIT_BBS: u8 = 4;
const EXIT_OTHER: u8 = 5;

/// What a command that talks to a server can end with. The dispatcher adds the address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotFound(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// The server answered with an error, or Diego's client would have made one of what happened.
    #[error("BBS error\nType {}: {}\nMessage: {}", .0.r#type, .0.type_name(), .0.message)]
    Bbs(api::models::Error),
    #[error("cannot talk to the server at {}", address.url)]
    Call {
        address: Address,
        #[source]
        source: ClientError,
    },
    #[error("{0}")]
    NotFound(String),
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    #[error("the server cannot go on")]
    Server(#[source] bbs::RunError),
    #[error("cannot start: {doing}")]
    Process {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
}

impl Failure {
    /// `None` when the reader of our output is gone, which is how `corkboard tasks | head -1` ends well.
    pub(crate) fn of_command(error: CommandError, address: Address) -> Option<Self> {
        match error {
            CommandError::Usage(text) => Some(Self::Usage(text)),
            CommandError::NotFound(text) => Some(Self::NotFound(text)),
            CommandError::Client(source) => Some(match source.as_bbs() {
                Some(error) => Self::Bbs(error),
                None => Self::Call { address, source },
            }),
            CommandError::Output(source) => Self::of_output(source),
        }
    }

    pub(crate) fn of_output(source: io::Error) -> Option<Self> {
        (source.kind() != io::ErrorKind::BrokenPipe).then_some(Self::Output(source))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config(_) | Self::Reach(_) => EXIT_USAGE,
            Self::Bbs(_) => EXIT_BBS,
            Self::Call { .. } | Self::NotFound(_) | Self::Output(_) | Self::Server(_) | Self::Process { .. } => {
                EXIT_OTHER
            }
        }
    }

    /// Everything for stderr, with its final newline.
    pub(crate) fn report(&self) -> String {
        let mut text = match self {
            // These two are read by scripts and by editors: no decoration.
            Self::Bbs(_) | Self::Config(_) => format!("{self}\n"),
            _ => format!("corkboard: {self}\n"),
        };
        let mut cause = self.source();
        while let Some(error) = cause {
            let said = error.to_string();
            // Some errors repeat their cause in their own text; once is enough.
            if !text.contains(&said) {
                let _ = writeln!(text, "  because: {said}");
            }
            cause = error.source();
        }
        if let Some(advice) = self.advice() {
            let _ = writeln!(text, "{advice}");
        }
        text
    }

    fn advice(&self) -> Option<String> {
        let Self::Call { address, source: ClientError::Transport { kind, .. } } = self else { return None };
        let where_from = match address.is_default {
            true => "This is the default address, since neither --bbsURL nor BBS_URL is given.",
            false => "The address is from --bbsURL or BBS_URL.",
        };
        Some(match kind {
            TransportKind::Refused => {
                format!("Is the server running? `corkboard up` starts one on this machine. {where_from}")
            }
            TransportKind::Tls => {
                "Check --caCertFile, --clientCertFile and --clientKeyFile: both sides must trust each other's authority, and \
                 the host of the URL must be a name in the server's certificate."
                    .to_owned()
            }
            _ => where_from.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use api::Route;
    use expect_test::expect;

    use super::*;

    fn call(kind: TransportKind) -> Failure {
        let source = ClientError::Transport { route: Route::Tasks, kind, source: None };
        let address = Address { url: "http://127.0.0.1:8889".into(), is_default: true };
        Failure::of_command(source.into(), address).unwrap()
    }

    #[test]
    fn an_answer_of_the_server_is_three_lines() {
        let failure = Failure::Bbs(api::errors::resource_not_found());
        expect![[r#"
            BBS error
            Type 13: ResourceNotFound
            Message: the requested resource could not be found
        "#]]
        .assert_eq(&failure.report());
        assert_eq!(failure.code(), EXIT_BBS);
    }

    #[test]
    fn a_refused_connection_says_what_to_do() {
        let failure = call(TransportKind::Refused);
        expect![[r#"
            corkboard: cannot talk to the server at http://127.0.0.1:8889
              because: POST /v1/tasks/list.r3 failed: the connection was refused; the server is down or on standby
            Is the server running? `corkboard up` starts one on this machine. This is the default address, since neither --bbsURL nor BBS_URL is given.
        "#]]
        .assert_eq(&failure.report());
        assert_eq!(failure.code(), EXIT_OTHER);
    }

    #[test]
    fn a_time_limit_that_passed_is_an_answer_to_cfdot() {
        assert_eq!(call(TransportKind::Timeout).code(), EXIT_BBS);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let address = Address { url: String::new(), is_default: false };
        let gone = |kind: io::ErrorKind| Failure::of_command(io::Error::from(kind).into(), address.clone());
        assert!(gone(io::ErrorKind::BrokenPipe).is_none());
        assert_eq!(gone(io::ErrorKind::StorageFull).unwrap().code(), EXIT_OTHER);
    }
}
