//! Where log lines go: to stderr, as text for people on a terminal and as one JSON object a line otherwise.
//!
//! `CORKBOARD_LOG` chooses what is logged, in the notation of `tracing` (`debug`, `info,corkboard_bbs=debug`). Secrets stay
//! out because the types that hold them do not print them, not because of a filter here.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

const VARIABLE: &str = "CORKBOARD_LOG";
const DEFAULT: &str = "info";

/// Called once, by the commands that run a server. The other commands report through their exit and do not log.
pub(crate) fn start() -> Result<(), Failure> {
    let chosen = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let filter = EnvFilter::try_new(chosen.as_deref().unwrap_or(DEFAULT)).map_err(|error| {
        Failure::Usage(format!(
            "{VARIABLE} cannot be understood: {error}; expected for instance info or corkboard_bbs=debug"
        ))
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        lines.with_target(false).init();
    } else {
        lines.json().flatten_event(true).init();
    }
    Ok(())
}
