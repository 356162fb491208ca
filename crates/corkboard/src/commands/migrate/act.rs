//! `migrate start`, `pause`, `resume`, `abort`, `finalize`: one question to the server each, and what it says to it.
//!
//! Only `finalize` asks back, because only it ends a way: before it, the former release takes over by being started.

use api::client::{OperatorError, Refusal};

use bbs::census::ClientList;

use super::document::{Done, Migration, State};
use super::via::StoreFlag;
use super::{Ask, Document, EXIT_DONE, Errand, Place, Via, status, watch};
use crate::commands::clients;
use crate::console::{Console, JsonFlag};
use crate::failure::{CommandError, NOTHING_TO_DO};

/// Why `abort` asks no question.
const ABORTED: &str = "Nothing is lost by this, so nothing was asked: the older data is complete and stays in use.";

/// For `start`, `pause` and `resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct Act {
    #[command(flatten)]
    json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Abort {
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Finalize {
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Come back only when the older data is cleaned up
    #[arg(long)]
    wait: bool,
    /// Refuse if clients were seen that would be left behind, instead of naming them
    #[arg(long)]
    require_clients: bool,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Act {
    fn json(&self) -> JsonFlag {
        self.json
    }
}

impl Errand for Abort {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.store.or(Place::Server)
    }
}

impl Errand for Finalize {
    fn json(&self) -> JsonFlag {
        self.json
    }
}

pub(crate) async fn start(via: &Via, _: Act, console: &mut Console) -> Result<u8, CommandError> {
    act(via, &Ask::Start, None, console).await
}

pub(crate) async fn pause(via: &Via, _: Act, console: &mut Console) -> Result<u8, CommandError> {
    act(via, &Ask::Pause, None, console).await
}

pub(crate) async fn resume(via: &Via, _: Act, console: &mut Console) -> Result<u8, CommandError> {
    act(via, &Ask::Resume, None, console).await
}

pub(crate) async fn abort(via: &Via, _: Abort, console: &mut Console) -> Result<u8, CommandError> {
    act(via, &Ask::Abort, Some(ABORTED), console).await
}

pub(crate) async fn finalize(via: &Via, args: Finalize, console: &mut Console) -> Result<u8, CommandError> {
    let before = via.ask(&Ask::Status).await?;
    let now: Migration = before.read()?;
    // Whoever asks again after a lost connection wants to know how it goes on, not to be refused.
    let is_ending = matches!(now.state, State::Finalizing | State::Cleaning);
    if !is_ending {
        let Some(target) = now.target.as_ref().filter(|_| now.state != State::None) else {
            return said(console, &before, "There is nothing to finalize.", now.next.as_deref());
        };
        if !args.yes && now.state != State::Ready {
            return Err(not_ready(&now).into());
        }
        if !args.require_clients {
            warn_of_clients(via, console).await?;
        }
        if !args.yes {
            console.confirm(&warning(&target.shown()), &target.spellings())?;
        }
        let ask = Ask::Finalize { version: target.number, require_clients: args.require_clients };
        act(via, &ask, None, console).await?;
    } else if !args.wait {
        return said(console, &before, "The migration is being finalized already.", now.next.as_deref());
    }
    if args.wait { wait(via, console).await } else { Ok(EXIT_DONE) }
}

/// Whoever finalizes should know who still needs the former release. A server that knows no census says nothing.
async fn warn_of_clients(via: &Via, console: &mut Console) -> Result<(), CommandError> {
    let Ok(list) = clients::ask(via).await.and_then(|document| document.read::<ClientList>()) else { return Ok(()) };
    for line in clients::left_behind(&list) {
        console.note(&format!("warning: {line}"))?;
    }
    Ok(())
}

/// In the words of the server, before the operator has typed a number for nothing.
fn not_ready(now: &Migration) -> OperatorError {
    let word = status::word(now.state);
    let refusal = Refusal {
        code: "not-ready".to_owned(),
        message: format!(
            "The migration is {word}, not ready to be finalized. Nothing was changed. {}",
            now.explanation
        ),
        next: Some(now.next.clone().unwrap_or_else(|| "corkboard migrate status --watch".to_owned())),
        document: String::new(),
    };
    OperatorError::Refused { status: 409, refusal: Box::new(refusal) }
}

fn warning(target: &str) -> String {
    format!(
        "This ends the migration to {target}. The former release can no longer take over by just being started; going back \
         then needs `corkboard migrate rollback`, and the older data is removed."
    )
}

/// Ready is seen for a moment after the server agreed to go on.
async fn wait(via: &Via, console: &mut Console) -> Result<u8, CommandError> {
    let tell = if console.is_json() { watch::Tell::Changes } else { watch::Tell::Nothing };
    let is_over = |now: &Migration| !matches!(now.state, State::Ready | State::Finalizing | State::Cleaning);
    let (last, _) = watch::watch(async || via.ask(&Ask::Status).await, console, tell, is_over).await?;
    if last.state != State::None {
        let next = last.next.as_ref().map(|next| format!("\nNext: {next}")).unwrap_or_default();
        let word = status::word(last.state);
        return Err(CommandError::Unfinished(format!("the migration is {word}. {}{next}", last.explanation)));
    }
    if !console.is_json() {
        console.line("The migration is finished, and the older data is gone.")?;
    }
    Ok(EXIT_DONE)
}

/// Asks for something to be done, and passes on what the server says to it; `closing` is ours to add if it was done.
pub(super) async fn act(
    via: &Via,
    ask: &Ask,
    closing: Option<&str>,
    console: &mut Console,
) -> Result<u8, CommandError> {
    let document = match via.ask(ask).await {
        Err(error) => return nothing_to_do(error, console),
        Ok(document) => document,
    };
    let done: Done = document.read()?;
    let next = done.migration.and_then(|migration| migration.next);
    let message = closing.map_or_else(|| done.message.clone(), |closing| format!("{}\n{closing}", done.message));
    said(console, &document, &message, next.as_deref())
}

pub(crate) fn said(
    console: &mut Console,
    document: &Document,
    message: &str,
    next: Option<&str>,
) -> Result<u8, CommandError> {
    if console.is_json() {
        console.line(&document.one_line())?;
    } else {
        console.line(message)?;
        if let Some(next) = next {
            console.line(&format!("Next: {next}"))?;
        }
    }
    Ok(EXIT_DONE)
}

/// That there is nothing to do is good news: who repeats a command in a script wants it done, not done again.
pub(crate) fn nothing_to_do(error: CommandError, console: &mut Console) -> Result<u8, CommandError> {
    match error {
        CommandError::Operator(OperatorError::Refused { refusal, .. }) if refusal.code == NOTHING_TO_DO => {
            let document = Document::of(&refusal.document.into())?;
            said(console, &document, &refusal.message, refusal.next.as_deref())
        }
        error => Err(error),
    }
}
