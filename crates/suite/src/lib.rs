//! The upgrade suite: the proof that an upgrade is not an event.
//!
//! A whole cluster of real processes ([`world`]) runs an app under constant load while it goes from the former release to the
//! present one in the order that operators use, back again, forward through a migration of its data and a rotation of its keys, and
//! while processes and machines are killed. The order of the configurations is that of the first test plan for Diego's upgrades:
//! state servers, then auctioneers, then cells one after the other, then the emitters of routes.
//!
//! Promise: [`run`] reports a breach for every request that failed, every moment in which fewer instances ran than were desired,
//! and every process that ended by itself, unless it happened in a step that announced such harm and within its limit. There
//! are two forms: the short one is part of the tests, the full one is `cargo xtask upgrade`.

mod account;
mod apps;
mod callbacks;
mod configs;
mod fleet;
mod plan;
mod probe;
mod stage;
mod steps;
mod switch;
mod updates;
mod watch;
mod world;

use std::path::Path;
use std::sync::Arc;

pub use fleet::{Binaries, Release};
pub use plan::Form;

/// Where the account goes while it is kept, line by line.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// One line for each step.
    pub table: String,
    /// Empty if nobody noticed anything.
    pub breaches: Vec<String>,
}

/// Runs the suite in this folder, which is made; all logs are in it afterwards. Fails where the cluster did not even start.
pub async fn run(form: Form, binaries: &Binaries, folder: &Path, say: Say) -> anyhow::Result<Report> {
    let folder = folder.join("run");
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    say(&format!("logs and configurations are in {}", folder.display()));
    let mut stage = stage::Stage::set(&folder, binaries, say).await?;
    let outcome = plan::play(&mut stage, form).await;
    Ok(stage.finish(outcome).await)
}
