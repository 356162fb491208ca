//! `migrate plan`: the rehearsal of a migration, as the server made it.

use std::fmt::Write as _;

use serde::Deserialize;

use super::document::Version;
use super::figures::{grouped, size, time};
use super::via::StoreFlag;
use super::{Ask, EXIT_DONE, Errand, Place, Via, act};
use crate::console::{Console, JsonFlag};
use crate::data_version::resolve_version;
use crate::failure::{CommandError, EXIT_LOSS};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// The data version to go to, by number or by name [default: the newest that the server knows]
    #[arg(long, value_name = "V", value_parser = resolve_version)]
    to: Option<u64>,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Plan {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.store.or(Place::Server)
    }
}

pub(crate) async fn plan(via: &Via, args: Plan, console: &mut Console) -> Result<u8, CommandError> {
    let document = match via.ask(&Ask::Plan { to: args.to }).await {
        Err(error) => return act::nothing_to_do(error, console),
        Ok(document) => document,
    };
    let rehearsal: Rehearsal = document.read()?;
    if console.is_json() {
        console.line(&document.one_line())?;
    } else {
        console.write(rehearsal.shown().as_bytes())?;
    }
    Ok(if rehearsal.is_clean() { EXIT_DONE } else { EXIT_LOSS })
}

#[derive(Debug, Deserialize)]
struct Rehearsal {
    from: Version,
    to: Version,
    records: u64,
    entities: u64,
    failures: Vec<Failed>,
    failures_total: u64,
    losses: Vec<Lost>,
    losses_total: u64,
    bytes_before: u64,
    bytes_after: u64,
    forecast_s: f64,
    took_s: f64,
    message: String,
}

#[derive(Debug, Deserialize)]
struct Failed {
    id: String,
    why: String,
}

#[derive(Debug, Deserialize)]
struct Lost {
    id: String,
    what: String,
}

impl Rehearsal {
    fn is_clean(&self) -> bool {
        self.failures_total == 0 && self.losses_total == 0
    }

    fn shown(&self) -> String {
        let mut text = format!("Rehearsal {} -> {}; nothing was written.\n\n", self.from.shown(), self.to.shown());
        let failures = match self.failures_total {
            0 => "none".to_owned(),
            count => format!("{}: these records cannot be brought over", grouped(count)),
        };
        let losses = match self.losses_total {
            0 => "none".to_owned(),
            count => format!("{}: this does not survive", grouped(count)),
        };
        let facts = [
            ("records", format!("{} ({} entities)", grouped(self.records), grouped(self.entities))),
            ("size", format!("{} before, {} after", size(self.bytes_before), size(self.bytes_after))),
            ("forecast", format!("{} (the rehearsal took {})", time(self.forecast_s), time(self.took_s))),
            ("failures", failures),
            ("losses", losses),
        ];
        for (name, value) in facts {
            let _ = writeln!(text, "  {name:<9} {value}");
        }
        let failures = self.failures.iter().map(|failed| (&failed.id, &failed.why));
        list(&mut text, "Failures", failures, self.failures_total);
        let losses = self.losses.iter().map(|lost| (&lost.id, &lost.what));
        list(&mut text, "Losses", losses, self.losses_total);
        let _ = write!(text, "\n{}\n", self.message);
        text
    }
}

fn list<'a>(
    text: &mut String,
    title: &str,
    items: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
    total: u64,
) {
    if total == 0 {
        return;
    }
    let unnamed = total.saturating_sub(items.len() as u64);
    let _ = write!(text, "\n{title}:\n");
    for (id, what) in items {
        let _ = writeln!(text, "  {id}: {what}");
    }
    if unnamed > 0 {
        let _ = writeln!(text, "  and {} more", grouped(unnamed));
    }
}
