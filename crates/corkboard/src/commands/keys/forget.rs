//! `keys forget`: gives up a key that is lost, so that servers start again and serve what it does not seal.

use bbs::errand;

use crate::commands::migrate::{Document, EXIT_DONE, Errand, Place, StoreFlag, Via, said};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Forget {
    /// The name of the lost key
    name: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Forget {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.store.or(Place::Server)
    }
}

pub(crate) async fn forget(via: &Via, args: Forget, console: &mut Console) -> Result<u8, CommandError> {
    let Via::Store(config) = via else {
        let what = "--config FILE is needed: a key is given up while no server runs. One that runs has it still, and \
                    `corkboard keys rotate --keep-missing` brings it to another one";
        return Err(CommandError::Usage(what.to_owned()));
    };
    let Forget { name, yes, .. } = args;
    if !yes {
        let warning = format!(
            "This gives up key {name}. Records that only it opens CANNOT BE READ any more; they stay in quarantine, and every \
             other record is served. Look for the key once more before."
        );
        console.confirm(&warning, std::slice::from_ref(&name))?;
    }
    let document = Document::from(&errand::forget_key(config, &name).await?)?;
    said(console, &document, &document.read::<Told>()?.message, Some("corkboard quarantine list"))?;
    Ok(EXIT_DONE)
}

#[derive(serde::Deserialize)]
struct Told {
    message: String,
}
