//! What an operator may ask of an engine, and what it answers.

use serde::Serialize;
use store::Lost;
use store::record::DataVersion;
use tokio::sync::{mpsc, oneshot};

/// How many losses and failures are named in an answer; the rest are counted.
pub const NAMED_MAX: usize = 100;
/// Requests of operators that wait. People do not type faster than this.
pub const ASKS_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Start,
    Pause,
    Resume,
    Abort,
    /// Names the target version, so that nobody ends what they did not mean.
    Finalize {
        version: DataVersion,
    },
    Rollback {
        to: DataVersion,
        accept_loss: bool,
    },
    /// `None`: all of them.
    Retry {
        id: Option<String>,
    },
    Discard {
        id: String,
    },
    ConfirmStore {
        cluster_id: String,
    },
}

/// Why something is not done. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub code: &'static str,
    pub message: String,
    pub next: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    #[serde(skip_serializing_if = "is_zero")]
    pub losses_total: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    pub id: String,
    pub what: String,
}

impl From<Lost> for Loss {
    fn from(lost: Lost) -> Self {
        Self { id: lost.id, what: lost.what }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Refused {
    pub fn new(code: &'static str, message: impl Into<String>, next: Option<&str>) -> Self {
        let next = next.map(ToOwned::to_owned);
        Self { code, message: message.into(), next, losses: Vec::new(), losses_total: 0 }
    }

    pub fn not_master() -> Self {
        let message = "this node is not serving (yet, or any more); nothing was changed";
        Self::new("not-master", message, Some("corkboard migrate status"))
    }
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Did {
    pub message: String,
    /// Ids that left the quarantine.
    pub recovered: Vec<String>,
    pub still: Vec<Still>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Still {
    pub id: String,
    pub why: String,
}

impl Did {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}

pub type Answer = Result<Did, Refused>;

#[derive(Debug)]
pub struct Asked<A = Ask> {
    pub ask: A,
    pub reply: oneshot::Sender<Answer>,
}

/// The way to an engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Desk<A = Ask>(mpsc::Sender<Asked<A>>);

impl<A> Desk<A> {
    pub fn new() -> (Self, mpsc::Receiver<Asked<A>>) {
        let (asks, waiting) = mpsc::channel(ASKS_MAX);
        (Self(asks), waiting)
    }

    pub async fn ask(&self, ask: A) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.0.send(Asked { ask, reply }).await.map_err(|_| Refused::not_master())?;
        answer.await.unwrap_or_else(|_| Err(Refused::not_master()))
    }
}
