//! `rollout status`: how far an update is, or how the last one ended.

use api::client::Client;
use bbs::clock::{Clock as _, SystemClock};

use super::sight::Look;
use super::{follow, in_words, screen};
use crate::commands::guid;
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// The process guid of the app; the name, of one that was started with run-app
    #[arg(value_name = "APP", value_parser = guid)]
    process_guid: String,
    /// Follow it until it ends or needs you: redrawn in place on a terminal, else one line per change
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    pub(super) json: JsonFlag,
}

pub(super) async fn status(client: &Client, args: Status, console: &mut Console) -> Result<u8, CommandError> {
    if args.watch {
        return follow(client, &args.process_guid, console).await.map(|sight| sight.exit_code());
    }
    let sight = Look::at(client, &args.process_guid).now().await;
    let sight = sight.map_err(|error| in_words(&args.process_guid, error))?;
    if console.is_json() {
        console.line(&api::json::to_string(&sight))?;
    } else {
        console.write(screen::screen(&sight, SystemClock.now_ns(), usize::MAX).as_bytes())?;
    }
    Ok(sight.exit_code())
}
