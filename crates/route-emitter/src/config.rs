//! What an operator can choose.

use std::time::Duration;

use crate::process::Rules;

#[derive(Clone, Debug)]
pub struct Config {
    /// Speak for one cell only. Without it, one emitter speaks for the cluster and needs a lock if there may be others.
    pub cell_id: Option<String>,
    /// How often everything is listed, whether or not events say that all is known.
    pub sync_interval: Duration,
    /// How often everything is registered, until a router names its own wish.
    pub register_interval: Duration,
    /// After a router starts, everything is sent at a random moment within this part of the interval, so that emitters do not
    /// all speak at once.
    pub jitter_factor: f64,
    pub unregister_interval: Duration,
    pub unregister_repeats: u32,
    pub rules: Rules,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cell_id: None,
            sync_interval: Duration::from_secs(60),
            register_interval: Duration::from_secs(20),
            jitter_factor: 0.2,
            unregister_interval: Duration::from_secs(30),
            unregister_repeats: 20,
            rules: Rules::default(),
        }
    }
}
