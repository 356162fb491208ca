//! `backup` and `restore`: all records of a store into one file, and a store out of it.
//!
//! What arrives is checked while it is written, whoever it comes from, so a file that gets its name is a whole one. `target.rs`
//! is that file, `verify.rs` looks into one, `restore.rs` makes a store of one.

mod progress;
mod restore;
mod target;
mod verify;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use api::client::{Client, Download, Question};
use bytes::Bytes;
use serde_json::json;
use store::backup::{BackupError, Header, Parser, Part, Summary, Taking};

pub(crate) use restore::{Restore, restore};
pub(crate) use verify::verify;

use self::progress::Bar;
use self::target::Target;
use super::migrate::{EXIT_DONE, Errand, OPERATOR_ROOT, Place, Via, grouped, size};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

pub(crate) const BACKUP_HELP: &str = "Examples:\n  corkboard backup board.bak\n  \
    corkboard backup board.bak --config board.toml\n  corkboard backup --verify board.bak\n  \
    corkboard backup - | ssh vault 'cat > board.bak'\n\n\
    The records stay encrypted if they are; keep the keys too, they are not in it.\n\
    Exit codes: 0 done, 3 wrong use, 4 the server refused, 5 anything else, 7 with --verify: the backup is not whole.";

pub(crate) const RESTORE_HELP: &str = "Examples:\n  corkboard restore board.bak --config board.toml\n\n\
    The whole file is checked before anything is written. A restore that was interrupted is completed by giving the same \
    command again; no server uses the store before that.\n\
    Exit codes: 0 done, 3 wrong use, 4 refused, 5 anything else.";

#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The file to write, or - for stdout; with --verify, the backup to check
    file: PathBuf,
    /// Check a backup and say what is in it; needs no server and changes nothing
    #[arg(long, conflicts_with_all = ["force", "config"])]
    pub(crate) verify: bool,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
    /// Read the store that this configuration file names. A server may go on beside it on etcd, but not on a directory
    #[arg(long, value_name = "CONFIG", conflicts_with = "bbs_url")]
    config: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Backup {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.config.as_deref().map_or(Place::Server, Place::Store)
    }
}

/// Where the bytes come from.
enum Source {
    Server(Box<Download>),
    Store(Box<Taking>),
}

impl Source {
    async fn begin(via: &Via) -> Result<Self, CommandError> {
        Ok(match via {
            Via::Server(client) | Via::Health(client) => Self::Server(Box::new(ask(client).await?)),
            Via::Store(config) => Self::Store(Box::new(bbs::backup::take(config).await?)),
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, CommandError> {
        match self {
            Self::Server(download) => Ok(download.next().await?),
            Self::Store(taking) => Ok(bbs::backup::next(taking).await?),
        }
    }
}

async fn ask(client: &Client) -> Result<Download, CommandError> {
    Ok(client.download(&Question::get(&format!("{OPERATOR_ROOT}/backup"), &[])).await?)
}

pub(crate) async fn backup(via: &Via, args: Backup, console: &mut Console) -> Result<u8, CommandError> {
    let to_stdout = args.file == Path::new("-");
    if to_stdout && console.is_json() {
        return Err(CommandError::Usage("--json goes with a file, since stdout gets the backup".to_owned()));
    }
    if to_stdout && console.width().is_some() {
        let what = "a backup is binary and may be secret, so it is not written to a terminal; name a file";
        return Err(CommandError::Usage(what.to_owned()));
    }
    if !to_stdout {
        target::check(&args.file, args.force)?;
    }
    // The source comes first, so that a refusal leaves no file.
    let mut source = Source::begin(via).await?;
    if to_stdout {
        let (header, summary) = pass_on(&mut source, |bytes| console.write(bytes), |_, _| Ok(())).await?;
        let _ = writeln!(std::io::stderr(), "{}", sentence(&header, &summary, "written to stdout"));
        return Ok(EXIT_DONE);
    }
    let mut target = Target::create(&args.file)?;
    let mut bar = Bar::new("backing up");
    let write = |bytes: &Bytes| target.write(bytes);
    let passed = pass_on(&mut source, write, |header, records| bar.show(console, records, header.records)).await;
    bar.end(console)?;
    let (header, summary) = match passed {
        Ok(passed) => passed,
        Err(CommandError::Output(error)) => return Err(target.failed(&error)),
        Err(error) => return Err(error),
    };
    target.keep(args.force)?;
    let place = format!("in {}", args.file.display());
    console.line(&match console.is_json() {
        true => document(&args.file, &header, &summary),
        false => sentence(&header, &summary, &place),
    })?;
    Ok(EXIT_DONE)
}

/// Copies all bytes and checks them on the way.
async fn pass_on(
    source: &mut Source,
    mut write: impl FnMut(&Bytes) -> std::io::Result<()>,
    mut progress: impl FnMut(&Header, u64) -> Result<(), CommandError>,
) -> Result<(Header, Summary), CommandError> {
    let (mut parser, mut header, mut records) = (Parser::default(), None, 0);
    while let Some(bytes) = source.next().await? {
        write(&bytes)?;
        parser.feed(&bytes);
        while let Some(part) = parser.part().map_err(|error| broken(&error))? {
            match part {
                Part::Header(found) => header = Some(found),
                Part::Records(found) => records += found.len() as u64,
                Part::End(_) => {}
            }
        }
        if let Some(header) = &header {
            progress(header, records)?;
        }
    }
    let summary = parser.finish().map_err(|error| broken(&error))?;
    header.map(|header| (header, summary)).ok_or_else(|| broken(&BackupError::NotABackup))
}

fn broken(error: &BackupError) -> CommandError {
    CommandError::Unfinished(match error {
        BackupError::CutOff { .. } => "the backup broke off before its end: the server stopped, or could not read its store, and \
                                       then its log says why. No backup was kept and nothing was changed. Give the command again"
            .to_owned(),
        error => format!("what arrived is no whole backup, and none was kept: {error}"),
    })
}

fn sentence(header: &Header, summary: &Summary, place: &str) -> String {
    let keys = match &header.keys[..] {
        [] => String::new(),
        names => format!(" It needs key {}, and no key is in it: keep both.", names.join(" and key ")),
    };
    format!(
        "{} records of revision {} ({}) are {place}, checked. SHA-256 {}.{keys}",
        grouped(summary.records),
        header.revision,
        size(summary.bytes),
        summary.sha256,
    )
}

fn document(file: &Path, header: &Header, summary: &Summary) -> String {
    let Summary { records, bytes, sha256 } = summary;
    let file = file.to_string_lossy();
    json!({ "file": file, "records": records, "bytes": bytes, "revision": header.revision, "sha256": sha256 })
        .to_string()
}
