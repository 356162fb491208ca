//! The operator's commands, one file per subject. Each function makes its calls and prints; where the server is, how the
//! output looks and what a failure means are decided above, in `cli.rs`.
//!
//! When you add a command: its arguments and function here, a variant with an example in `cli.rs`, a line in the README, and a
//! case in `tests/it/`.

pub(crate) mod actual_lrps;
pub(crate) mod backup;
pub(crate) mod cells;
pub(crate) mod clients;
pub(crate) mod config;
pub(crate) mod desired_lrps;
pub(crate) mod dev_certs;
pub(crate) mod domains;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod locks;
pub(crate) mod logs;
pub(crate) mod migrate;
pub(crate) mod nodes;
pub(crate) mod quarantine;
pub(crate) mod rollout;
pub(crate) mod run_app;
mod spec;
pub(crate) mod store;
pub(crate) mod tasks;
pub(crate) mod top;
pub(crate) mod update_desired_lrp;

/// A guid on the command line: anything but nothing, which a shell makes of an unset variable.
fn guid(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a guid cannot be empty".to_owned()) } else { Ok(text.to_owned()) }
}
