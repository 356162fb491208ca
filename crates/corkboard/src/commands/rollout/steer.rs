//! `rollout pause`, `resume`, `cancel`, `undo`: one question to the server each, and what follows from it.

use api::client::Client;
use api::models::DesiredLrp;

use super::sight::{Look, number};
use super::{EXIT_DONE, EXIT_TAKEN_BACK, TermsFlags, follow, in_words};
use crate::commands::guid;
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    /// The process guid of the app
    #[arg(value_name = "APP", value_parser = guid)]
    process_guid: String,
    #[command(flatten)]
    pub(super) json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The process guid of the app
    #[arg(value_name = "APP", value_parser = guid)]
    process_guid: String,
    /// Follow it until it ends or needs you
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// The process guid of the app
    #[arg(value_name = "APP", value_parser = guid)]
    process_guid: String,
    /// Follow it until it is taken back, or needs you
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Undo {
    /// The process guid of the app
    #[arg(value_name = "APP", value_parser = guid)]
    process_guid: String,
    /// The definition to go to, by its identifier or number [default: the latest former one]
    #[arg(long, value_name = "DEFINITION")]
    to: Option<String>,
    #[command(flatten)]
    terms: TermsFlags,
    /// Follow it until it ends or needs you
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) json: JsonFlag,
}

pub(super) async fn pause(client: &Client, args: Pause, console: &mut Console) -> Result<u8, CommandError> {
    let guid = args.process_guid;
    client.pause_update(&guid).await.map_err(|error| in_words(&guid, error))?;
    said(client, &guid, console, "is paused; every instance runs on").await
}

pub(super) async fn resume(client: &Client, args: Resume, console: &mut Console) -> Result<u8, CommandError> {
    let guid = args.process_guid;
    client.resume_update(&guid).await.map_err(|error| in_words(&guid, error))?;
    if args.wait {
        return follow(client, &guid, console).await.map(|sight| sight.exit_code());
    }
    said(client, &guid, console, "goes on").await
}

pub(super) async fn cancel(client: &Client, args: Cancel, console: &mut Console) -> Result<u8, CommandError> {
    let guid = args.process_guid;
    client.cancel_update(&guid).await.map_err(|error| in_words(&guid, error))?;
    if args.wait {
        let code = follow(client, &guid, console).await?.exit_code();
        // Here it is what was asked for.
        return Ok(if code == EXIT_TAKEN_BACK { EXIT_DONE } else { code });
    }
    said(client, &guid, console, "is taken back").await
}

pub(super) async fn undo(client: &Client, args: Undo, console: &mut Console) -> Result<u8, CommandError> {
    let Undo { process_guid: guid, to, terms, wait, .. } = args;
    let terms = terms.over(None)?;
    let to = match to {
        None => None,
        Some(word) => {
            let kept = client.desired_lrp_definitions(&guid).await.map_err(|error| in_words(&guid, error))?;
            // What nobody knows here is for the server to refuse, which lists what is kept.
            Some(called(&kept, &word).map_or(word.clone(), |lrp| lrp.definition_identifier.clone()))
        }
    };
    client.rollback_desired_lrp(&guid, to, terms).await.map_err(|error| in_words(&guid, error))?;
    if wait {
        return follow(client, &guid, console).await.map(|sight| sight.exit_code());
    }
    said(client, &guid, console, "to a former definition has begun").await
}

/// The definition with this identifier, or else with this number.
pub(super) fn called<'a>(kept: &'a [DesiredLrp], word: &str) -> Option<&'a DesiredLrp> {
    let by_name = kept.iter().find(|lrp| lrp.definition_identifier == word);
    by_name.or_else(|| {
        let wanted: u32 = word.parse().ok()?;
        kept.iter().find(|lrp| number(lrp.definition_number) == wanted)
    })
}

async fn said(client: &Client, guid: &str, console: &mut Console, what: &str) -> Result<u8, CommandError> {
    let sight = Look::at(client, guid).now().await.map_err(|error| in_words(guid, error))?;
    if console.is_json() {
        console.line(&api::json::to_string(&sight))?;
    } else {
        console.line(&format!("The update of {guid} {what}."))?;
        if let Some(next) = &sight.next {
            console.line(&format!("Next: {next}"))?;
        }
    }
    Ok(EXIT_DONE)
}
