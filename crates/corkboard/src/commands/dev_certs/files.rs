//! Files that are written all or not at all, as far as a file system can be asked beforehand.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::failure::CommandError;

const SECRET_MODE: u32 = 0o600;
const READABLE_MODE: u32 = 0o644;

pub(super) struct NewFile {
    pub(super) path: PathBuf,
    text: Zeroizing<String>,
    mode: u32,
}

impl NewFile {
    pub(super) fn readable(path: PathBuf, text: String) -> Self {
        Self { path, text: Zeroizing::new(text), mode: READABLE_MODE }
    }

    pub(super) fn secret(path: PathBuf, text: Zeroizing<String>) -> Self {
        Self { path, text, mode: SECRET_MODE }
    }
}

pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, CommandError> {
    std::fs::read_to_string(path).map(Zeroizing::new).map_err(|error| {
        CommandError::Usage(format!("cannot read {}: {error}. --ca wants a folder that dev-certs made", path.display()))
    })
}

/// Whether two names mean one folder.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Refuses before the first is written if one of them is there and may not be replaced.
pub(super) fn write(dir: &Path, files: &[NewFile], may_replace: bool) -> Result<(), CommandError> {
    let there: Vec<String> =
        files.iter().filter(|file| file.path.exists()).map(|file| file.path.display().to_string()).collect();
    if !there.is_empty() && !may_replace {
        return Err(CommandError::Usage(format!(
            "there already, and perhaps in use: {}. Nothing was written. To add certificates of an authority that is there, use \
             --ca {} and --for; to replace what is there, --force",
            there.join(", "),
            dir.display()
        )));
    }
    std::fs::create_dir_all(dir).map_err(|error| unwritten(dir, &error))?;
    for file in files {
        save(file).map_err(|error| unwritten(&file.path, &error))?;
    }
    Ok(())
}

/// Written beside its place and moved there, so that a program that reads at this moment sees the old or the new.
fn save(new: &NewFile) -> std::io::Result<()> {
    let beside = new.path.with_extension("new");
    // One that was left behind may have other permissions.
    let _ = std::fs::remove_file(&beside);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(new.mode).open(&beside)?;
    file.write_all(new.text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, &new.path)
}

fn unwritten(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::Unfinished(format!("cannot write {}: {error}", path.display()))
}
