//! `keys generate`: a new key on stdout, or in a new file that nobody but its owner may read.
//!
//! Promise: the bytes come from the random source of the machine, are shown nowhere but where they were asked for, and never
//! take the place of a file that is there: that may be the only copy of another key.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use zeroize::Zeroizing;

use crate::commands::migrate::EXIT_DONE;
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

const KEY_BYTES: usize = 32;
const KEY_MODE: u32 = 0o600;
/// For a file whose own name cannot be that of a key.
const USUAL_NAME: &str = "A";

#[derive(Debug, clap::Args)]
pub(crate) struct Generate {
    /// Write it into this file, which must not exist yet, for its owner alone [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(crate) fn generate(args: Generate, console: &mut Console) -> Result<u8, CommandError> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    aws_lc_rs::rand::fill(&mut *bytes).map_err(|_| {
        CommandError::Unfinished("the random source of this machine does not answer; no key was made".to_owned())
    })?;
    let key = Zeroizing::new(BASE64_STANDARD.encode(*bytes));
    let Some(path) = args.out else {
        let shown = if console.is_json() { json!({ "key": *key }).to_string() } else { key.to_string() };
        console.line(&Zeroizing::new(shown))?;
        return Ok(EXIT_DONE);
    };
    save(&path, key.as_bytes()).map_err(|error| {
        CommandError::Unfinished(format!("cannot make a new file {}: {error}. No key was made", path.display()))
    })?;
    let as_json = || json!({ "file": path.to_string_lossy() }).to_string();
    console.line(&if console.is_json() { as_json() } else { advice(&path) })?;
    Ok(EXIT_DONE)
}

fn save(path: &Path, key: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(KEY_MODE).open(path)?;
    file.write_all(key)?;
    file.write_all(b"\n")?;
    // The next thing that happens may be that records are sealed with it.
    file.sync_all()
}

fn advice(path: &Path) -> String {
    let is_name = |stem: &&str| !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let name = path.file_stem().and_then(|stem| stem.to_str()).filter(is_name).unwrap_or(USUAL_NAME);
    // Relative paths in a configuration file are taken from its own folder, which is not known here.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let file = toml::Value::String(absolute.to_string_lossy().into_owned());
    format!(
        "A new key is in {}, and nobody but its owner may read it. Add two lines to the configuration:

  in [encryption]        active = \"{name}\"
  in [encryption.keys]   {name} = {{ file = {file} }}

Then restart the server, or give `corkboard keys rotate` if it has keys already. Keep the other keys until \
         `corkboard keys status` calls them safe to remove, and a copy of this one in a safe place: without it nothing that it \
         seals can be read again.",
        path.display()
    )
}
