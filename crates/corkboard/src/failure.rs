//! Why a command failed, what it prints, and the exit code: 3 the caller's mistake, 4 an answer of the server, 5 the rest.
//!
//! These codes are `cfdot`'s, and so are the three lines for an answer of the server. A failure of any other kind says what
//! happened, then each cause on its own line, then what to do.
//!
//! A server that has lost its lock in Locket ends with 1, as Diego's do, and nothing else does.
//!
//! Four more codes are ours: 6 when a server does not start because its data is not for this release, so that whoever starts
//! servers does not try again, 7 when something would be lost, 8 when a key is missing that the store needs, and 9
//! when a server is no longer master.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use api::client::{ClientError, OperatorError, Refusal, TransportKind};

use crate::config::ConfigError;
use crate::reach::{Address, Origin, ReachError};
use crate::ring;

/// What Diego's components end with when their lock is lost, so that whoever watches them starts them again.
const EXIT_LOCK_LOST: u8 = 1;
/// Also the code for a mistake that clap finds.
pub(crate) const EXIT_USAGE: u8 = 3;
const EXIT_BBS: u8 = 4;
const EXIT_OTHER: u8 = 5;
/// The version of the data forbids this release to touch it. Nothing was written; starting again changes nothing.
pub(crate) const EXIT_SHUT_DOWN: u8 = 6;
/// Something would be lost, or could not be read.
pub(crate) const EXIT_LOSS: u8 = 7;
/// This node lacks a key that the store needs, or has another one under its name. Nothing was written.
pub(crate) const EXIT_KEYS: u8 = 8;
/// Another node became master, or may have. Nothing acknowledged is lost; started again, this one waits for its turn.
pub(crate) const EXIT_DEPOSED: u8 = 9;

/// Refusals that the commands tell apart.
pub(crate) const NOTHING_TO_DO: &str = "nothing-to-do";
pub(crate) const KEY_MISSING: &str = "key-missing";
const LOSS_REFUSED: &str = "loss-refused";

/// What a command that talks to a server can end with. The dispatcher adds the address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotFound(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// What was asked for did not come about, and this says why and what to do.
    #[error("{0}")]
    Unfinished(String),
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
    /// The operator's API said no, in words.
    #[error("{}{}", refusal.message, losses(refusal))]
    Refused { status: u16, refusal: Box<Refusal> },
    #[error("cannot talk to the server at {}", address.url)]
    Operator {
        address: Address,
        #[source]
        source: OperatorError,
    },
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Unfinished(String),
    /// `cfdot` has one code for all that is wrong with Locket, also when it does not answer.
    #[error("{0}")]
    Locket(String),
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    #[error("the server cannot go on")]
    Server(#[source] bbs::RunError),
    #[error("the {program} cannot go on")]
    Program {
        program: &'static str,
        #[source]
        source: Box<ring::Ending>,
    },
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
            CommandError::Operator(OperatorError::Refused { status, refusal }) => {
                Some(Self::Refused { status, refusal })
            }
            CommandError::Operator(source) => Some(Self::Operator { address, source }),
            CommandError::Unfinished(text) => Some(Self::Unfinished(text)),
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
            Self::Bbs(_) | Self::Locket(_) => EXIT_BBS,
            Self::Refused { refusal, .. } if refusal.code == LOSS_REFUSED => EXIT_LOSS,
            Self::Refused { refusal, .. } if refusal.code == KEY_MISSING => EXIT_KEYS,
            Self::Refused { status: 400..=499, .. } => EXIT_BBS,
            Self::Server(error) => server_code(error),
            Self::Program { source, .. } if source.is_lost_lock() => EXIT_LOCK_LOST,
            Self::Refused { .. }
            | Self::Call { .. }
            | Self::Operator { .. }
            | Self::NotFound(_)
            | Self::Unfinished(_)
            | Self::Output(_)
            | Self::Program { .. }
            | Self::Process { .. } => EXIT_OTHER,
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
        let (address, kind) = match self {
            Self::Refused { refusal, .. } => return refusal.next.as_ref().map(|next| format!("Next: {next}")),
            Self::Call { address, source: ClientError::Transport { kind, .. } }
            | Self::Operator { address, source: OperatorError::Transport { kind, .. } } => (address, kind),
            _ => return None,
        };
        let where_from = match address.origin {
            Origin::Default => "This is the default address, since neither --bbsURL nor BBS_URL is given.",
            Origin::Bbs => "The address is from --bbsURL or BBS_URL.",
            Origin::Health => "The address is from --healthURL or CORKBOARD_HEALTH_URL.",
            Origin::File => "",
        };
        Some(match kind {
            TransportKind::Refused if address.origin == Origin::Health => {
                format!("Is the node running? Its health port answers in every phase. {where_from}")
            }
            TransportKind::Refused if matches!(self, Self::Operator { .. }) => format!(
                "Is the server running, and is it the master? `corkboard nodes --healthURL URL` asks any node who is, in any \
                 phase. {where_from}"
            ),
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

/// No arm for the rest: whoever adds a way for a server to end decides here what its supervisor is told.
fn server_code(error: &bbs::RunError) -> u8 {
    use bbs::RunError as End;
    use bbs::keys::open::KeyError;
    use bbs::migrate::open::OpenError;
    match error {
        End::Listen { .. }
        | End::PlainOffLoopback { .. }
        | End::Tls(_)
        | End::Outbound(_)
        | End::CellsFile(_)
        | End::Store(_)
        | End::Open(OpenError::Root(_) | OpenError::Identity(_) | OpenError::Store(_))
        | End::Keys(KeyError::Root(_))
        | End::Rotation(_)
        | End::Locket(_)
        | End::StoreFailed(_)
        | End::Defect => EXIT_OTHER,
        End::Open(OpenError::ShutDown { .. } | OpenError::TooOld { .. } | OpenError::Unknown { .. }) => EXIT_SHUT_DOWN,
        End::Keys(KeyError::Refused(_)) => EXIT_KEYS,
        End::DrainRefused { .. } => EXIT_LOSS,
        End::Deposed { .. } => EXIT_DEPOSED,
        End::LockLost { .. } => EXIT_LOCK_LOST,
    }
}

/// What a refusal says would be lost, one a line.
fn losses(refusal: &Refusal) -> String {
    #[derive(serde::Deserialize)]
    struct Losses {
        losses: Vec<Loss>,
        losses_total: u64,
    }
    #[derive(serde::Deserialize)]
    struct Loss {
        id: String,
        what: String,
    }
    if refusal.code != LOSS_REFUSED {
        return String::new();
    }
    let Ok(Losses { losses, losses_total }) = serde_json::from_str(&refusal.document) else { return String::new() };
    let mut text = losses.iter().fold(String::new(), |text, loss| text + "\n  " + &loss.id + ": " + &loss.what);
    let unnamed = losses_total.saturating_sub(losses.len() as u64);
    if unnamed > 0 {
        let _ = write!(text, "\n  and {unnamed} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use api::Route;
    use expect_test::expect;

    use super::*;

    fn call(kind: TransportKind) -> Failure {
        let source = ClientError::Transport { route: Route::Tasks, kind, source: None, attempts: Box::default() };
        let address = Address { url: "http://127.0.0.1:8889".into(), origin: Origin::Default };
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
        let address = Address { url: String::new(), origin: Origin::Bbs };
        let gone = |kind: io::ErrorKind| Failure::of_command(io::Error::from(kind).into(), address.clone());
        assert!(gone(io::ErrorKind::BrokenPipe).is_none());
        assert_eq!(gone(io::ErrorKind::StorageFull).unwrap().code(), EXIT_OTHER);
    }

    fn refused(status: u16, document: &str) -> Failure {
        let refusal: Refusal = serde_json::from_str(document).unwrap();
        let refusal = Box::new(Refusal { document: document.to_owned(), ..refusal });
        let address = Address { url: String::new(), origin: Origin::Bbs };
        Failure::of_command(OperatorError::Refused { status, refusal }.into(), address).unwrap()
    }

    #[test]
    fn a_refusal_says_what_to_do_next() {
        let failure =
            refused(409, r#"{"code":"not-ready","message":"It still sweeps.","next":"corkboard migrate status"}"#);
        expect![[r#"
            corkboard: It still sweeps.
            Next: corkboard migrate status
        "#]]
        .assert_eq(&failure.report());
        assert_eq!(failure.code(), EXIT_BBS);
        assert_eq!(refused(503, r#"{"code":"not-master","message":"m","next":null}"#).code(), EXIT_OTHER);
    }

    #[test]
    fn a_lost_lock_has_a_code_of_its_own() {
        let lost = Failure::Server(bbs::RunError::LockLost { why: "somebody took it".into() });
        let deposed = Failure::Server(bbs::RunError::Deposed { why: "somebody took it".into() });
        assert_eq!((lost.code(), deposed.code()), (EXIT_LOCK_LOST, EXIT_DEPOSED));
        expect![[r#"
            corkboard: the server cannot go on
              because: this server has lost its lock in Locket, so it stopped at once: somebody took it. Nothing acknowledged is lost, and another node takes over. Start it again, and it waits for the lock
        "#]]
        .assert_eq(&lost.report());
    }

    #[test]
    fn a_refused_loss_names_what_would_be_lost() {
        let failure = refused(
            409,
            r#"{"code":"loss-refused","message":"Going back loses 3 things.","next":null,
                "losses":[{"id":"a","what":"one"},{"id":"b","what":"two"}],"losses_total":3}"#,
        );
        expect![[r#"
            corkboard: Going back loses 3 things.
              a: one
              b: two
              and 1 more
        "#]]
        .assert_eq(&failure.report());
        assert_eq!(failure.code(), EXIT_LOSS);
    }
}
