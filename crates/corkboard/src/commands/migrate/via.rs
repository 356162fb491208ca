//! Who answers a command about migrations: a server, the health port of any node, or the store itself while no server runs.

use std::path::{Path, PathBuf};

use api::client::{Client, Question};
use bbs::config::Config;
use serde_json::json;

use super::document::Document;
use crate::failure::CommandError;

const ROOT: &str = "/corkboard/v1";

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Status,
    Plan { to: Option<u64> },
    Start,
    Pause,
    Resume,
    Abort,
    Finalize { version: u64 },
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
            Via::Health(client) => Document::of(&client.ask(&Question::get("/status", &[])).await?)?.part("migration"),
            Via::Store(config) => ask_store(config, ask),
        }
    }
}

fn question(ask: &Ask) -> Question {
    let get = |path: &str, query: &[(&str, &str)]| Question::get(&format!("{ROOT}{path}"), query);
    let post = |path: &str, body| Question::post(&format!("{ROOT}/migration/{path}"), &body);
    match ask {
        Ask::Status => get("/migration", &[]),
        Ask::Plan { to: None } => get("/migration/plan", &[]),
        Ask::Plan { to: Some(to) } => get("/migration/plan", &[("to", &to.to_string())]),
        Ask::Start => post("start", json!({})),
        Ask::Pause => post("pause", json!({})),
        Ask::Resume => post("resume", json!({})),
        Ask::Abort => post("abort", json!({})),
        Ask::Finalize { version } => post("finalize", json!({ "version": version })),
        Ask::Rollback { to, accept_loss } => post("rollback", json!({ "to": to, "accept_loss": accept_loss })),
        Ask::History { last } => get("/history", &[("last", &last.to_string())]),
    }
}

/// The same documents that a server would give.
fn ask_store(config: &Config, ask: &Ask) -> Result<Document, CommandError> {
    let store = config.store_dir.display();
    Err(CommandError::Unfinished(format!(
        "{ask:?} needs a server in this release: start one on {store} and ask it, without --config. Nothing was changed"
    )))
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
