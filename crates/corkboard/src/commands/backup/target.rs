//! The file that a backup is written to.
//!
//! Promise: under its own name it is there whole, durable and readable by its owner only, or not at all: it is written under
//! another name beside it, synced and renamed. What was not finished goes when the command does.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::failure::CommandError;

/// Records hold environment variables and passwords.
const MODE: u32 = 0o600;

pub(super) struct Target {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    kept: bool,
}

/// Whether the file may be written at all. Worth asking before anybody reads a store.
pub(super) fn check(path: &Path, force: bool) -> Result<(), CommandError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Err(CommandError::Usage(format!(
            "{} is a directory; name a file in it. Nothing was changed",
            path.display()
        ))),
        Ok(_) if !force => Err(CommandError::Usage(format!(
            "{} exists already and may be a backup that is needed. Nothing was changed. Choose another name, or add --force to \
             replace it",
            path.display()
        ))),
        Ok(_) | Err(_) => Ok(()),
    }
}

impl Target {
    pub(super) fn create(path: &Path) -> Result<Self, CommandError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let temporary = path.with_file_name(name);
        let opened = File::options().write(true).create_new(true).mode(MODE).open(&temporary);
        match opened {
            Ok(file) => Ok(Self { path: path.to_owned(), temporary, file, kept: false }),
            Err(error) => Err(cannot_write(&temporary, &error)),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives the file its name.
    pub(super) fn keep(mut self, force: bool) -> Result<(), CommandError> {
        check(&self.path, force)?;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let synced = self.file.sync_all();
        let renamed = synced.and_then(|()| fs::rename(&self.temporary, &self.path));
        let kept = renamed.and_then(|()| File::open(parent)?.sync_all());
        kept.map_err(|error| self.failed(&error))?;
        self.kept = true;
        Ok(())
    }

    pub(super) fn failed(&self, error: &io::Error) -> CommandError {
        cannot_write(&self.path, error)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.kept {
            drop(fs::remove_file(&self.temporary));
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> CommandError {
    CommandError::Unfinished(format!(
        "cannot write {}: {error}. No backup was kept, and nothing else was changed. Look at the space on that disk and at the \
         owner of the directory, then give the command again",
        path.display()
    ))
}
