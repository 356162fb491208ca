//! Who answers a command about keys: a server, the health port of any node, or the store itself while no server runs.

use std::sync::Arc;

use api::client::Question;
use bbs::config::Config;
use bbs::errand::{self, ErrandError};
use bbs::keys::{KeyTracker, KeysStatus};
use serde_json::Value;

use super::document::State;
use crate::commands::migrate::watch::{self, Progress};
use crate::commands::migrate::{Document, OPERATOR_ROOT, Via};
use crate::console::Console;
use crate::failure::CommandError;

/// Only a master has read its store.
const NOT_KNOWN_HERE: &str = "this node does not know about keys, because it is starting, on standby or of an older release; \
                              ask the master, or this one again when it serves";

pub(super) async fn status(via: &Via) -> Result<Document, CommandError> {
    match via {
        Via::Server(client) => Document::of(&client.ask(&Question::get(&path(""), &[])).await?),
        Via::Health(client) => {
            let status = Document::of(&client.ask(&Question::get("/status", &[])).await?)?;
            status.part("encryption").map_err(|_| CommandError::Unfinished(NOT_KNOWN_HERE.to_owned()))
        }
        Via::Store(config) => Document::from(&errand::keys_status(config).await?),
    }
}

/// Something to begin.
pub(super) fn question(what: &str, how: &Value) -> Question {
    Question::post(&path(&format!("/{what}")), how)
}

fn path(rest: &str) -> String {
    format!("{OPERATOR_ROOT}/keys{rest}")
}

/// Does something on the store without a server, and shows on a terminal how far it is.
pub(super) async fn work_alone(
    config: &Config,
    console: &mut Console,
    work: impl AsyncFnOnce(&Config, Arc<KeyTracker>) -> Result<KeysStatus, ErrandError>,
) -> Result<Document, CommandError> {
    let mode = config.encryption.as_ref().map(|encryption| encryption.rotation.mode).unwrap_or_default();
    let tracker = Arc::new(KeyTracker::new(mode));
    let mut ticks = tokio::time::interval(watch::INTERVAL);
    let mut word_before = None;
    let mut working = Box::pin(work(config, tracker.clone()));
    let done = loop {
        tokio::select! {
            done = &mut working => break done,
            _ = ticks.tick() => {
                let (state, now) = tracker.progress();
                let state = State::from(state);
                if watch::draws(console) && state.is_moving() {
                    let (word, eta_s) = (state.word(), Some(now.eta_s as f64).filter(|_| now.done > 0));
                    let now = Progress { word, done: Some(now.done), total: Some(now.total), eta_s, ..Progress::default() };
                    watch::draw(console, &now, word_before)?;
                    word_before = Some(word);
                }
            }
        }
    };
    if word_before.is_some() {
        console.line("\n")?;
    }
    Document::from(&done?)
}
