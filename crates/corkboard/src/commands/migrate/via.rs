//! Who answers a command about migrations or keys: a server, the health port of any node, or the store itself while no server runs.

use std::path::{Path, PathBuf};

use api::client::{Client, OperatorError, Question, Refusal};
use bbs::config::Config;
use bbs::errand::{self, ErrandError};
use bbs::keys::open::KeyError;
use bbs::migrate::ask::Refused;
use serde_json::json;
use store::record::DataVersion;

use super::document::Document;
use crate::failure::{CommandError, KEY_MISSING};

pub(crate) const OPERATOR_ROOT: &str = "/corkboard/v1";
/// The status with which a server refuses the same.
const CONFLICT: u16 = 409;

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Status,
    Plan { to: Option<u64> },
    Start,
    Pause,
    Resume,
    Abort,
    Finalize { version: u64, require_clients: bool },
    Rollback { to: u64, accept_loss: bool },
    History { last: u32 },
}

pub(crate) enum Via {
    Server(Client),
    /// Knows the status and nothing else.
    Health(Client),
    Store(Box<Config>),
}

/// Where the arguments of a command lead.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Server,
    /// The health port if one is named here or in the environment, else the server.
    AnyNode(Option<&'a str>),
    Store(&'a Path),
}

/// For the commands that also work without a server.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreFlag {
    /// Work without a server, on the store that this configuration file names; no server may be using it
    #[arg(long, value_name = "FILE", conflicts_with = "bbs_url")]
    config: Option<PathBuf>,
}

impl StoreFlag {
    pub(crate) fn or<'a>(&'a self, otherwise: Place<'a>) -> Place<'a> {
        self.config.as_deref().map_or(otherwise, Place::Store)
    }
}

impl Via {
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<Document, CommandError> {
        match self {
            Via::Server(client) => Document::of(&client.ask(&question(ask)).await?),
            Via::Health(client) => {
                let status = Document::of(&client.ask(&Question::get("/status", &[])).await?)?;
                refuse_standby(&status)?;
                status.part("migration")
            }
            Via::Store(config) => Box::pin(ask_store(config, ask)).await,
        }
    }
}

/// A node that waits knows only whom it waits for.
pub(crate) fn refuse_standby(status: &Document) -> Result<(), CommandError> {
    #[derive(serde::Deserialize)]
    struct Standby {
        master: Option<String>,
    }
    let Ok(standby) = status.part("standby").and_then(|part| part.read::<Standby>()) else { return Ok(()) };
    let master = standby.master.map_or_else(|| "nobody yet".to_owned(), |master| format!("{master:?}"));
    Err(CommandError::Unfinished(format!(
        "this node waits, and the master, {master}, knows the answer: ask that one. `corkboard nodes` with the same flags says \
         where it is"
    )))
}

fn question(ask: &Ask) -> Question {
    let get = |path: &str, query: &[(&str, &str)]| Question::get(&format!("{OPERATOR_ROOT}{path}"), query);
    let post = |path: &str, body| Question::post(&format!("{OPERATOR_ROOT}/migration/{path}"), &body);
    match ask {
        Ask::Status => get("/migration", &[]),
        Ask::Plan { to: None } => get("/migration/plan", &[]),
        Ask::Plan { to: Some(to) } => get("/migration/plan", &[("to", &to.to_string())]),
        Ask::Start => post("start", json!({})),
        Ask::Pause => post("pause", json!({})),
        Ask::Resume => post("resume", json!({})),
        Ask::Abort => post("abort", json!({})),
        // An older server knows the version only.
        Ask::Finalize { version, require_clients: false } => post("finalize", json!({ "version": version })),
        Ask::Finalize { version, require_clients } => {
            post("finalize", json!({ "version": version, "require_clients": require_clients }))
        }
        Ask::Rollback { to, accept_loss } => post("rollback", json!({ "to": to, "accept_loss": accept_loss })),
        Ask::History { last } => get("/history", &[("last", &last.to_string())]),
    }
}

/// The same documents that a server would give.
async fn ask_store(config: &Config, ask: &Ask) -> Result<Document, CommandError> {
    match ask {
        Ask::Status => Document::from(&errand::status(config).await?),
        Ask::Plan { to } => Document::from(&errand::plan(config, to.map(DataVersion)).await?),
        Ask::History { last } => {
            let last = usize::try_from(*last).unwrap_or(usize::MAX);
            Document::from(&json!({ "entries": errand::history(config, last).await? }))
        }
        Ask::Rollback { to, accept_loss } => {
            let did = errand::rollback(config, DataVersion(*to), *accept_loss).await?;
            done(config, &did.message).await
        }
        Ask::Abort => {
            let did = errand::abort(config).await?;
            done(config, &did.message).await
        }
        Ask::Start | Ask::Pause | Ask::Resume | Ask::Finalize { .. } => Err(CommandError::Unfinished(format!(
            "only a running server can do this: start one on {} and ask it, without --config. Nothing was changed",
            config.store
        ))),
    }
}

async fn done(config: &Config, message: &str) -> Result<Document, CommandError> {
    Document::from(&json!({ "message": message, "migration": errand::status(config).await? }))
}

impl From<ErrandError> for CommandError {
    fn from(error: ErrandError) -> Self {
        match error {
            ErrandError::Refused(refused) => {
                let document = serde_json::to_string(&refused).unwrap_or_default();
                let Refused { code, message, next, .. } = refused;
                let refusal = Box::new(Refusal { code: code.to_owned(), message, next, document });
                CommandError::Operator(OperatorError::Refused { status: CONFLICT, refusal })
            }
            // As a running server refuses keys with which it could not go on.
            ErrandError::Keys(KeyError::Refused(refusal)) => {
                let (code, message) = (KEY_MISSING.to_owned(), refusal.to_string());
                let document = json!({ "code": code, "message": message, "next": null }).to_string();
                let refusal = Box::new(Refusal { code, message, next: None, document });
                CommandError::Operator(OperatorError::Refused { status: CONFLICT, refusal })
            }
            error => CommandError::Unfinished(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_those_of_the_operators_api() {
        let plan = |to| question(&Ask::Plan { to });
        assert_eq!(plan(None), Question::get("/corkboard/v1/migration/plan", &[]));
        assert_eq!(plan(Some(7)), Question::get("/corkboard/v1/migration/plan?to=7", &[]));
        let rollback = question(&Ask::Rollback { to: 1, accept_loss: true });
        assert_eq!(
            rollback,
            Question::post("/corkboard/v1/migration/rollback", &json!({"to": 1, "accept_loss": true}))
        );
    }
}
