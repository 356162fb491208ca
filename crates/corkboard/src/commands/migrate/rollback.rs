//! `migrate rollback`: back to an older data version, with everything that was written since.

use super::via::StoreFlag;
use super::{Ask, Errand, Place, Via, act};
use crate::console::{Console, JsonFlag};
use crate::data_version::resolve_version;
use crate::failure::CommandError;

/// Said before, and again when the server has agreed.
const AFTERWARDS: &str =
    "Then start the former release. This one would serve the older data as it is, until `corkboard migrate start`.";

#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// The data version of the former release, by number or by name
    #[arg(long, value_name = "V")]
    to: String,
    /// Go on even if the older version cannot hold everything; `corkboard migrate plan --to V` says what it is
    #[arg(long)]
    accept_loss: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Rollback {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.store.or(Place::Server)
    }
}

pub(crate) async fn rollback(via: &Via, args: Rollback, console: &mut Console) -> Result<u8, CommandError> {
    let to = resolve_version(&args.to).map_err(|what| CommandError::Usage(format!("--to: {what}")))?;
    if !args.yes {
        let mut answers = vec![to.to_string()];
        answers.extend(Some(args.to).filter(|text| *text != answers[0]));
        console.confirm(&warning(via, &answers.join(", "), args.accept_loss), &answers)?;
    }
    act::act(via, &Ask::Rollback { to, accept_loss: args.accept_loss }, Some(AFTERWARDS), console).await
}

fn warning(via: &Via, to: &str, accept_loss: bool) -> String {
    let end = match via {
        Via::Store(_) => "",
        Via::Server(_) | Via::Health(_) => "The server stops by itself at the end. ",
    };
    let loss = match accept_loss {
        true => "What the older version cannot hold IS LOST.",
        false => "If the older version cannot hold everything, nothing is done, and you are told what it is.",
    };
    format!("This takes all records back to data version {to}. {end}{AFTERWARDS} {loss}")
}
