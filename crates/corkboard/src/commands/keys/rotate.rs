//! `keys rotate`: the keys that are configured now are taken up, and every record is brought under the active one.
//!
//! A server does it while it serves, and goes on when this command has ended. Without a server it is done right here.

use bbs::errand;
use serde_json::json;

use super::document::{Begun, Keys};
use super::{ask, status};
use crate::commands::migrate::{Document, EXIT_DONE, Errand, Place, StoreFlag, Via, nothing_to_do, said};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Rotate {
    /// Come back only when all records are under the active key, or it needs you; without a server that is always so
    #[arg(long)]
    watch: bool,
    /// Keys that records need and the configuration no longer has stay in the memory of the server until it ends: for a key
    /// whose bytes are lost
    #[arg(long, conflicts_with = "config")]
    keep_missing: bool,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Rotate {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.store.or(Place::Server)
    }
}

pub(crate) async fn rotate(via: &Via, args: Rotate, console: &mut Console) -> Result<u8, CommandError> {
    let client = match via {
        Via::Server(client) | Via::Health(client) => client,
        Via::Store(config) => {
            return match ask::work_alone(config, console, errand::rotate_keys).await {
                Ok(document) => ended(&document, console),
                Err(error) => nothing_to_do(error, console),
            };
        }
    };
    let document =
        Document::of(&client.ask(&ask::question("rotate", &json!({ "keep_missing": args.keep_missing }))).await?)?;
    let Begun { message, keys } = document.read()?;
    // Who watches is told by the watch what comes next.
    said(console, &document, &message, keys.next.as_deref().filter(|_| !args.watch))?;
    if args.watch { status::follow(via, console).await } else { Ok(EXIT_DONE) }
}

fn ended(document: &Document, console: &mut Console) -> Result<u8, CommandError> {
    let keys: Keys = document.read()?;
    if console.is_json() {
        console.line(&document.one_line())?;
    } else {
        status::show(&keys, console)?;
    }
    Ok(status::exit_code(keys.state))
}
