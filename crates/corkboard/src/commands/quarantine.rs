//! `quarantine`: records that cannot be read, and what an operator can do about each of them.
//!
//! Nothing here shows the content of a record unless it is asked for by name, because it may be secret; and only `discard`
//! destroys one, by id and after a question.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use api::client::{Client, OperatorError, Question};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::migrate::{Document, EXIT_DONE, moment, size};
use crate::console::{Console, JsonFlag};
use crate::failure::{CommandError, EXIT_LOSS};
use crate::output::Tabular;
use crate::reach::Remote;

const PATH: &str = "/corkboard/v1/quarantine";
/// How much of a record `show --bytes` dumps.
const DUMP_BYTES_MAX: usize = 64;
const DUMP_BYTES_PER_LINE: usize = 16;
/// Records hold environment variables and passwords.
const EXPORT_MODE: u32 = 0o600;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List the records that cannot be read, with the reasons
    #[command(after_help = "Examples:\n  corkboard quarantine list\n  corkboard quarantine list --json | jq -r .id")]
    List(Remote<List>),
    /// Show what is known about one record, but not its content
    #[command(after_help = "Examples:\n  corkboard quarantine show /v1442529338/task/once\n  \
        corkboard quarantine show /v1442529338/task/once --bytes")]
    Show(Remote<Show>),
    /// Try to read records again, for instance after a key was added or the server was upgraded
    #[command(after_help = "Examples:\n  corkboard quarantine retry /v1442529338/task/once\n  \
        corkboard quarantine retry --all\n\nExit code 7 if a record still cannot be read.")]
    Retry(Remote<Retry>),
    /// Write the bytes of a record into a file, as they are
    #[command(after_help = "Examples:\n  corkboard quarantine export /v1442529338/task/once -o once.bin\n  \
        corkboard quarantine export /v1442529338/task/once > once.bin")]
    Export(Remote<Export>),
    /// Destroy a record; nothing else ever does
    #[command(after_help = "Examples:\n  corkboard quarantine discard /v1442529338/task/once")]
    Discard(Remote<Discard>),
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The record, as `corkboard quarantine list` names it
    #[arg(value_parser = id)]
    id: String,
    /// Also dump the first bytes of the content, which may be secret
    #[arg(long)]
    bytes: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    /// The record, as `corkboard quarantine list` names it
    #[arg(value_parser = id, required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// All of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The record, as `corkboard quarantine list` names it
    #[arg(value_parser = id)]
    id: String,
    /// A file that does not exist yet [default: stdout, unless it is a terminal]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Discard {
    /// The record, as `corkboard quarantine list` names it
    #[arg(value_parser = id)]
    id: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Deserialize, Serialize)]
struct Record {
    id: String,
    why: String,
    bytes: u64,
    place: String,
    since_ns: Option<i64>,
}

pub(crate) async fn list(client: &Client, _: List, console: &mut Console) -> Result<u8, CommandError> {
    let records = records(client).await?;
    if console.is_json() {
        for record in records {
            console.line(&record.one_line())?;
        }
    } else {
        let records: Vec<Record> = records.iter().map(Document::read).collect::<Result<_, _>>()?;
        console.rows(&records)?;
    }
    Ok(EXIT_DONE)
}

pub(crate) async fn show(client: &Client, args: Show, console: &mut Console) -> Result<u8, CommandError> {
    let record = find(client, &args.id).await?;
    let content = content(client, &args.id).await?;
    let header = header(&content);
    let dump = args.bytes.then(|| &content[..content.len().min(DUMP_BYTES_MAX)]);
    if console.is_json() {
        let hex = dump.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        console.line(&api::json::to_string(&Shown { record, header, first_bytes_hex: hex }))?;
        return Ok(EXIT_DONE);
    }
    let since = record.since_ns.map_or_else(|| "not known".to_owned(), |ns| format!("{} UTC", moment(ns)));
    let mut text = format!(
        "{}\n\n  why     {}\n  place   {}\n  size    {}\n  since   {since}\n  header  {header}\n",
        record.id,
        record.why,
        record.place,
        size(record.bytes),
    );
    if let Some(bytes) = dump {
        let _ = write!(text, "\n{}", hex_dump(bytes));
    }
    let _ = write!(
        text,
        "\nIt is kept byte for byte. Next: corkboard quarantine retry {0}\n      or: corkboard quarantine export {0} -o FILE\n",
        record.id
    );
    console.write(text.as_bytes())?;
    Ok(EXIT_DONE)
}

pub(crate) async fn retry(client: &Client, args: Retry, console: &mut Console) -> Result<u8, CommandError> {
    #[derive(Deserialize)]
    struct Retried {
        message: String,
        recovered: Vec<String>,
        still: Vec<Still>,
    }
    #[derive(Deserialize)]
    struct Still {
        id: String,
        why: String,
    }
    let which = args.id.map_or_else(|| json!({ "all": true }), |id| json!({ "id": id }));
    let document = Document::of(&client.ask(&Question::post(&format!("{PATH}/retry"), &which)).await?)?;
    let retried: Retried = document.read()?;
    if console.is_json() {
        console.line(&document.one_line())?;
    } else {
        console.line(&retried.message)?;
        for id in &retried.recovered {
            console.line(&format!("  recovered  {id}"))?;
        }
        for still in &retried.still {
            console.line(&format!("  still      {}: {}", still.id, still.why))?;
        }
    }
    Ok(if retried.still.is_empty() { EXIT_DONE } else { EXIT_LOSS })
}

pub(crate) async fn export(client: &Client, args: Export, console: &mut Console) -> Result<u8, CommandError> {
    let Some(path) = args.output else {
        if console.is_json() {
            return Err(CommandError::Usage("--json goes with --output FILE, since stdout gets the record".to_owned()));
        }
        if console.width().is_some() {
            let what = "the record is binary and may be secret, so it is not written to a terminal; add --output FILE";
            return Err(CommandError::Usage(what.to_owned()));
        }
        console.write(&content(client, &args.id).await?)?;
        return Ok(EXIT_DONE);
    };
    let content = content(client, &args.id).await?;
    save(&path, &content).map_err(|error| {
        CommandError::Unfinished(format!("cannot write {}: {error}. The record is still quarantined", path.display()))
    })?;
    let written = format!("{} bytes of {} are in {}", content.len(), args.id, path.display());
    let as_json = || json!({ "id": args.id, "bytes": content.len(), "file": path.to_string_lossy() }).to_string();
    console.line(&if console.is_json() { as_json() } else { written })?;
    Ok(EXIT_DONE)
}

pub(crate) async fn discard(client: &Client, args: Discard, console: &mut Console) -> Result<u8, CommandError> {
    #[derive(Deserialize)]
    struct Said {
        message: String,
    }
    if !args.yes {
        let record = find(client, &args.id).await?;
        let warning = format!(
            "This destroys the only copy of {} ({}): {}.\nKeep one first: corkboard quarantine export {} -o FILE",
            record.id,
            size(record.bytes),
            record.why,
            record.id,
        );
        console.confirm(&warning, std::slice::from_ref(&args.id))?;
    }
    let question = Question::post(&format!("{PATH}/discard"), &json!({ "id": args.id }));
    let document = Document::of(&client.ask(&question).await?)?;
    let said: Said = document.read()?;
    console.line(&if console.is_json() { document.one_line() } else { said.message })?;
    Ok(EXIT_DONE)
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    record: Record,
    header: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_bytes_hex: Option<String>,
}

async fn records(client: &Client) -> Result<Vec<Document>, CommandError> {
    Document::of(&client.ask(&Question::get(PATH, &[])).await?)?.items("records")
}

/// One of the list. What is not on it is asked for by id, so that the server says in its own words what is the matter.
async fn find(client: &Client, id: &str) -> Result<Record, CommandError> {
    for record in records(client).await? {
        let record: Record = record.read()?;
        if record.id == id {
            return Ok(record);
        }
    }
    content(client, id).await?;
    Err(CommandError::NotFound(format!("{id} is not quarantined any more")))
}

async fn content(client: &Client, id: &str) -> Result<Bytes, OperatorError> {
    client.ask(&Question::get(&format!("{PATH}/record"), &[("id", id)])).await
}

/// What a record says about itself before its content begins.
fn header(content: &Bytes) -> String {
    match store::record::decode(content) {
        Ok((header, _)) => format!("encoding {:?}, data version {}", header.encoding, header.version),
        Err(error) => error.to_string(),
    }
}

/// A new file, readable by its owner only. One that exists is somebody's, perhaps an earlier copy.
fn save(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(EXPORT_MODE).open(path)?;
    file.write_all(bytes)?;
    // The next command may be the one that destroys the original.
    file.sync_all()
}

fn hex_dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, line) in bytes.chunks(DUMP_BYTES_PER_LINE).enumerate() {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown =
            line.iter().map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' });
        let (hex, shown, columns) = (hex.join(" "), shown.collect::<String>(), DUMP_BYTES_PER_LINE * 3);
        let line = format!("  {:04x}  {hex:<columns$} {shown}", at * DUMP_BYTES_PER_LINE);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn id(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("an id cannot be empty".to_owned()) } else { Ok(text.to_owned()) }
}

impl Tabular for Record {
    const PLURAL: &'static str = "records in quarantine";
    const COLUMNS: &'static [&'static str] = &["ID", "PLACE", "BYTES", "SINCE (UTC)", "WHY"];

    fn row(&self) -> Vec<String> {
        let since = self.since_ns.map(moment).unwrap_or_default();
        vec![self.id.clone(), self.place.clone(), self.bytes.to_string(), since, self.why.clone()]
    }
}
