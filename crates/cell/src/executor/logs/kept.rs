//! The last lines of a container, in a file that outlives it.
//!
//! Two files of at most [`KEPT_BYTES_MAX`] each: when the newer is full it takes the place of the older. A line that cannot be
//! written is lost, and nothing else. There are at most [`CONTAINERS_MAX`] containers whose lines are kept; those that wrote last.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::super::records::folder_name;
use super::super::{ContainerGuid, LogLine};

const KEPT_BYTES_MAX: u64 = 256 * 1024;

const CONTAINERS_MAX: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
}

impl Kept {
    pub(crate) fn open(folder: &Path, container: &ContainerGuid) -> Self {
        let path = folder.join(folder_name(container));
        let file = append(&path).ok();
        let bytes = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |meta| meta.len());
        Self { path, file, bytes }
    }

    pub(crate) fn write(&mut self, line: &LogLine) {
        if self.bytes >= KEPT_BYTES_MAX && fs::rename(&self.path, older(&self.path)).is_ok() {
            self.file = append(&self.path).ok();
            self.bytes = 0;
        }
        let kind = if line.is_error { "ERR" } else { "OUT" };
        let text = format!("{} [{}/{}] {kind} {}\n", line.at_ns, line.source, line.log.index, line.text);
        if let Some(file) = &mut self.file
            && file.write_all(text.as_bytes()).is_ok()
        {
            self.bytes += text.len() as u64;
        }
    }
}

/// The last lines of a container, oldest first, as `<time in ns> [<source>/<index>] OUT|ERR <text>`. Works for containers that
/// are gone, and while no cell runs.
pub fn recent(root: &Path, container: &ContainerGuid, lines_max: usize) -> io::Result<Vec<String>> {
    let path = logs_folder(root).join(folder_name(container));
    let mut text = String::new();
    for path in [older(&path), path] {
        match fs::read(&path) {
            Ok(bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(lines_max)..].iter().map(|line| (*line).to_owned()).collect())
}

pub(crate) fn logs_folder(root: &Path) -> PathBuf {
    root.join("logs")
}

/// Forgets the lines of those that were silent for longest.
pub(crate) fn prune(folder: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let files_max = 2 * CONTAINERS_MAX;
    for (_, path) in files.iter().take(files.len().saturating_sub(files_max)) {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn older(path: &Path) -> PathBuf {
    path.with_added_extension("old")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_last_lines_stay_and_the_files_do_not_grow() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(logs_folder(root.path())).unwrap();
        let container = ContainerGuid("c".into());
        for round in 0..3 {
            let mut kept = Kept::open(&logs_folder(root.path()), &container);
            for number in 0..10_000 {
                kept.write(&LogLine {
                    container: container.clone(),
                    log: Arc::default(),
                    source: "APP".into(),
                    is_error: number % 2 == 1,
                    at_ns: number,
                    text: format!("round {round}"),
                });
            }
        }
        let last = recent(root.path(), &container, 2).unwrap();
        assert_eq!(last, ["9998 [APP/0] OUT round 2", "9999 [APP/0] ERR round 2"]);
        for entry in fs::read_dir(logs_folder(root.path())).unwrap() {
            assert!(entry.unwrap().metadata().unwrap().len() < KEPT_BYTES_MAX + 100);
        }
        assert!(recent(root.path(), &ContainerGuid("other".into()), 10).unwrap().is_empty());
    }
}
