//! Where log lines go: to stderr, as text for people on a terminal and as one JSON object a line otherwise; or, under a
//! configuration file of Diego's, to stdout in the shape of Diego's logs ([`lager`]), whoever reads them.
//!
//! `CORKBOARD_LOG` chooses what is logged, in the notation of `tracing` (`debug`, `info,corkboard_bbs=debug`); Diego's file
//! has a key for that, and with it the variable says nothing. Secrets stay out because the types that hold them do not print
//! them, not because of a filter here.

pub(crate) mod lager;
mod names;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;
use lager::Shape;

const VARIABLE: &str = "CORKBOARD_LOG";
/// What the library of NATS has to say, we say too.
const DEFAULT: &str = "info,async_nats=warn";

/// Called once, by the commands that run a server. The other commands report through their exit and do not log.
pub(crate) fn start(shape: Option<Shape>) -> Result<(), Failure> {
    if let Some(shape) = shape {
        tracing_subscriber::registry().with(lager::lines(shape, std::io::stdout)).init();
        return Ok(());
    }
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
