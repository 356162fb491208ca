//! How others learn that a cell is there: it says so every few seconds, and counts as gone when it has not for some time.
//!
//! A cell that cannot say so runs on and keeps trying: whoever watches it must not depend on its being noticed, and what runs
//! on it runs. It says so for as long as anything runs here, during an evacuation too, and takes it back last of all.

mod locket;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::models;
pub use locket::LocketPresence;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::executor::{Later, Room};
use crate::rep::Config;

/// Between a failed announcement and the next.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Schemes under which a cell offers the root file systems that it has in stock.
pub const STOCK_SCHEMES: [&str; 2] = ["preloaded", "preloaded+layer"];

/// Where a cell says that it is there.
pub trait Presence: Send + Sync + Debug {
    /// Says so for so long. `value` is the JSON that others read.
    fn announce<'a>(&'a self, value: &'a str, ttl: Duration) -> Later<'a, Result<(), PresenceError>>;
    /// Takes it back, if it is ours.
    fn withdraw(&self) -> Later<'_, Result<(), PresenceError>>;
}

#[derive(Debug, thiserror::Error)]
pub enum PresenceError {
    /// Another process with the same cell id, or this one before it was started again; then it passes.
    #[error("another process is present as this cell; if it is gone, its presence ends by itself in a few seconds")]
    Taken,
    #[error("the presence of this cell could not be announced: {0}")]
    Failed(String),
}

/// What others read about this cell.
pub(crate) fn value(config: &Config, rep_url: &str, rep_address: &str, total: Room, stacks: &[String]) -> String {
    let stock = STOCK_SCHEMES.map(|name| models::Provider { name: name.to_owned(), properties: stacks.to_vec() });
    let others = config.rootfs_schemes.iter().map(|name| models::Provider { name: name.clone(), ..Default::default() });
    let presence = models::CellPresence {
        cell_id: config.cell_id.as_str().to_owned(),
        rep_address: rep_address.to_owned(),
        zone: config.zone.clone(),
        capacity: Some(models::CellCapacity {
            memory_mb: total.memory_mb,
            disk_mb: total.disk_mb,
            containers: total.containers,
        }),
        rootfs_providers: stock.into_iter().chain(others).collect(),
        placement_tags: config.placement_tags.clone(),
        optional_placement_tags: config.optional_placement_tags.clone(),
        rep_url: rep_url.to_owned(),
        ..Default::default()
    };
    api::json::to_string(&presence)
}

/// How often, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    pub(crate) every: Duration,
    pub(crate) ttl: Duration,
}

/// Announces until told to stop. The caller withdraws, after this has returned.
pub(crate) async fn keep(
    presence: Arc<dyn Presence>,
    value: String,
    rhythm: Rhythm,
    failed: impl Fn() + Send,
    mut stop: watch::Receiver<bool>,
) {
    let mut was_there: Option<bool> = None;
    loop {
        // Not cut off by a stop: an announcement that overtakes its withdrawal would stay.
        let outcome = presence.announce(&value, rhythm.ttl).await;
        match (&outcome, was_there) {
            (Ok(()), Some(true)) | (Err(_), Some(false)) => {}
            (Ok(()), _) => tracing::info!("this cell is announced"),
            (Err(error), _) => tracing::warn!(%error, "nobody knows of this cell; it runs on and tries again"),
        }
        if outcome.is_err() {
            failed();
        }
        was_there = Some(outcome.is_ok());
        // Whoever does not count as there soon loses everything that runs here, so there is no time to lose.
        let pause = if outcome.is_ok() { rhythm.every } else { rhythm.every.min(PAUSE_AFTER_FAILURE) };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use model::CellId;

    use super::*;

    #[test]
    fn the_value_is_diegos_json() {
        let mut config = Config::new(CellId::parse("cell-1").unwrap());
        config.zone = "z1".into();
        config.rootfs_schemes = vec!["docker".into()];
        let total = Room { memory_mb: 1024, disk_mb: 2048, containers: 10 };
        let value = value(&config, "https://127.0.0.1:11801", "http://127.0.0.1:11800", total, &["cflinuxfs4".into()]);
        expect![[r#"{"cell_id":"cell-1","rep_address":"http://127.0.0.1:11800","zone":"z1","capacity":{"memory_mb":1024,"disk_mb":2048,"containers":10},"rootfs_provider_list":[{"name":"preloaded","properties":["cflinuxfs4"]},{"name":"preloaded+layer","properties":["cflinuxfs4"]},{"name":"docker"}],"rep_url":"https://127.0.0.1:11801","annotations":{}}"#]]
            .assert_eq(&value);
    }
}
