//! `store confirm`: a store that is empty, or another one than before, is what the operator means.

use api::client::{Client, Question};
use serde::Deserialize;
use serde_json::json;

use super::migrate::{Document, EXIT_DONE};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;
use crate::reach::Remote;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Confirm that an empty or different store is the one to serve from now on
    #[command(after_help = "Examples:\n  corkboard store confirm --cluster-id 5f2c6a61d0e94ac1\n\n\
        A node remembers the identity of its store. When it finds another one, it serves that, but stops no instance on \
        its word, until this command says that the other one is meant.\nExit codes: 0 done, 3 wrong use, 4 the server refused, 5 anything else.")]
    Confirm(Remote<Confirm>),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Confirm {
    /// The identity of the store that is there now, as the log names it and /status on the health port
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    cluster_id: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Deserialize)]
struct Guard {
    state: String,
    explanation: Option<String>,
    expected_cluster_id: Option<String>,
    found_cluster_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Said {
    message: String,
}

pub(crate) async fn confirm(client: &Client, args: Confirm, console: &mut Console) -> Result<u8, CommandError> {
    let id = args.cluster_id;
    if !args.yes {
        let status = Document::of(&client.ask(&Question::get("/corkboard/v1/status", &[])).await?)?;
        let guard: Guard = status.part("store_guard")?.read()?;
        // What needs no confirmation needs no question; the server then says what is the matter.
        if guard.state != "ok" {
            console.confirm(&warning(&guard), std::slice::from_ref(&id))?;
        }
    }
    let question = Question::post("/corkboard/v1/store/confirm", &json!({ "cluster_id": id }));
    let document = Document::of(&client.ask(&question).await?)?;
    let said: Said = document.read()?;
    console.line(&if console.is_json() { document.one_line() } else { said.message })?;
    Ok(EXIT_DONE)
}

fn warning(guard: &Guard) -> String {
    let or_unknown = |id: &Option<String>| id.clone().unwrap_or_else(|| "none".to_owned());
    format!(
        "{}\n  expected  {}\n  found     {}\nIf you go on, the store that was found is served, and what is only in the other \
         one is forgotten by everybody who asks this server.",
        guard.explanation.as_deref().unwrap_or("The store is not the one that this node knows."),
        or_unknown(&guard.expected_cluster_id),
        or_unknown(&guard.found_cluster_id),
    )
}
