//! `migrate history`: what happened to the data, newest last.

use serde::Deserialize;

use super::figures::moment;
use super::via::StoreFlag;
use super::{Ask, EXIT_DONE, Errand, Place, Via};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;
use crate::output::Tabular;

const LAST_DEFAULT: u32 = 50;

#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// How many entries, counted from the newest
    #[arg(long, value_name = "N", default_value_t = LAST_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
    last: u32,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for History {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.store.or(Place::Server)
    }
}

pub(crate) async fn history(via: &Via, args: History, console: &mut Console) -> Result<u8, CommandError> {
    let entries = via.ask(&Ask::History { last: args.last }).await?.items("entries")?;
    if console.is_json() {
        for entry in entries {
            console.line(&entry.one_line())?;
        }
    } else {
        let entries: Vec<Entry> = entries.iter().map(super::Document::read).collect::<Result<_, _>>()?;
        console.rows(&entries)?;
    }
    Ok(EXIT_DONE)
}

#[derive(Debug, Deserialize)]
struct Entry {
    number: u64,
    at_ns: i64,
    node: String,
    release: String,
    what: String,
    from: Option<u64>,
    to: Option<u64>,
    detail: Option<String>,
}

impl Tabular for Entry {
    const PLURAL: &'static str = "entries: nothing has happened to the data yet";
    const COLUMNS: &'static [&'static str] = &["#", "WHEN (UTC)", "NODE", "RELEASE", "WHAT", "FROM", "TO", "DETAIL"];

    fn row(&self) -> Vec<String> {
        let version = |version: Option<u64>| version.map(|number| number.to_string()).unwrap_or_default();
        vec![
            self.number.to_string(),
            moment(self.at_ns),
            self.node.clone(),
            self.release.clone(),
            self.what.clone(),
            version(self.from),
            version(self.to),
            self.detail.clone().unwrap_or_default(),
        ]
    }
}
