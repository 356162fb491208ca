//! `restore`: a store out of a backup.

use std::path::PathBuf;

use bbs::config::Config;
use serde_json::json;
use store::backup::{Contents, Restored};

use super::progress::Bar;
use super::verify::{looked_into, open};
use crate::commands::migrate::{EXIT_DONE, grouped, size};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The backup
    file: PathBuf,
    /// The configuration of the server that will use the store. The store has to be empty, and no server may be using it
    #[arg(long, value_name = "CONFIG")]
    pub(crate) config: PathBuf,
    /// Start over, although the restore of another backup into this store was not finished
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(crate) async fn restore(config: &Config, args: Restore, console: &mut Console) -> Result<u8, CommandError> {
    let mut file = open(&args.file)?;
    let contents = looked_into(&mut file, console)?
        .map_err(|error| CommandError::Unfinished(format!("{} cannot be restored: {error}", args.file.display())))?;
    let mut bar = Bar::new("restoring");
    let mut drawn = Ok(());
    let restored = bbs::backup::restore(config, file, &contents, args.force, |records| {
        if drawn.is_ok() {
            drawn = bar.show(console, records, contents.summary.records);
        }
    });
    let restored = Box::pin(restored).await;
    bar.end(console)?;
    let restored = restored?;
    console.line(&match console.is_json() {
        true => document(&contents, restored),
        false => sentence(config, &args, &contents),
    })?;
    Ok(EXIT_DONE)
}

fn sentence(config: &Config, args: &Restore, contents: &Contents) -> String {
    let has = |name: &String| config.encryption.as_ref().is_some_and(|encryption| encryption.keyring.has(name));
    let missing: Vec<&str> = contents.sealed.keys().filter(|name| !has(name)).map(String::as_str).collect();
    let next = match &missing[..] {
        [] => format!("Start a server: corkboard bbs --config {}", args.config.display()),
        names => format!(
            "Before you start a server, add key {} to [encryption.keys] in {}: records cannot be opened without",
            names.join(" and key "),
            args.config.display()
        ),
    };
    format!(
        "{} records ({}) of revision {} are restored. {next}",
        grouped(contents.summary.records),
        size(contents.summary.bytes),
        contents.header.revision,
    )
}

fn document(contents: &Contents, restored: Restored) -> String {
    let (summary, Restored { revision, started_over }) = (&contents.summary, restored);
    json!({
        "records": summary.records, "bytes": summary.bytes, "sha256": summary.sha256,
        "backup_revision": contents.header.revision, "revision": revision, "started_over": started_over,
    })
    .to_string()
}
