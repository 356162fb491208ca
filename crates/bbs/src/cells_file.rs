//! Cells from a file: one JSON presence a line, the same shape that cells publish.
//!
//! For fixed installations, tests and benchmarks without a lock service. The file is read again every few seconds; a cell that
//! disappears from it says goodbye. A file that cannot be read or has a bad line changes nothing, so that a half-written file
//! does not take cells away.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::{Cell, CellId};
use tokio::sync::watch;

use crate::cells::{PRESENCE_TTL_NS, Registry};
use crate::clock::Clock;

const READ_EVERY: Duration = Duration::from_secs(2);
/// A larger file is not a list of cells.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum CellsFileError {
    #[error("the cells file {path} cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the cells file {path} has {bytes} bytes; at most {FILE_BYTES_MAX} are accepted")]
    TooLarge { path: PathBuf, bytes: u64 },
    #[error("line {line} of the cells file {path} is not a cell presence: {why}")]
    Line { path: PathBuf, line: usize, why: String },
}

pub fn read(path: &Path) -> Result<Vec<Cell>, CellsFileError> {
    let failed = |source| CellsFileError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(CellsFileError::TooLarge { path: path.to_owned(), bytes });
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let bad = |why: String| CellsFileError::Line { path: path.to_owned(), line: at + 1, why };
            let wire: api::models::CellPresence = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            api::convert::cell_from_wire(wire).map_err(|error| bad(error.to_string()))
        })
        .collect()
}

/// Announces what the file lists, until told to stop.
pub async fn follow(path: PathBuf, registry: Arc<Registry>, clock: Arc<dyn Clock>, mut stop: watch::Receiver<bool>) {
    let mut listed: BTreeSet<CellId> = BTreeSet::new();
    let mut complained = false;
    loop {
        let file = path.clone();
        match tokio::task::spawn_blocking(move || read(&file)).await {
            Ok(Ok(cells)) => {
                complained = false;
                let now_ns = clock.uptime_ns();
                let present: BTreeSet<CellId> = cells.iter().map(|cell| cell.id.clone()).collect();
                for gone in listed.difference(&present) {
                    registry.withdraw(gone, now_ns);
                }
                registry.announce_all(cells, PRESENCE_TTL_NS, now_ns);
                listed = present;
            }
            Ok(Err(error)) if !complained => {
                complained = true;
                tracing::warn!(%error, "the cells known so far are kept until their time is up");
            }
            _ => {}
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(READ_EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<String>, String> {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("cells");
        std::fs::write(&path, text).unwrap();
        match read(&path) {
            Ok(cells) => Ok(cells.iter().map(|cell| cell.id.to_string()).collect()),
            Err(error) => Err(error.to_string().replace(&path.display().to_string(), "FILE")),
        }
    }

    #[test]
    fn one_presence_a_line() {
        assert_eq!(read_text(""), Ok(vec![]));
        let two = "{\"cell_id\":\"a\",\"zone\":\"z1\",\"unknown\":1}\n\n  {\"cell_id\":\"b\"}\n";
        assert_eq!(read_text(two), Ok(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn a_bad_line_is_named_and_spoils_the_file() {
        for (text, line) in [("{\"cell_id\":\"a\"}\n{\"cell_id\":", 2), ("\n\nnonsense", 3), ("{\"cell_id\":\"\"}", 1)]
        {
            let complaint = read_text(text).unwrap_err();
            let expected = format!("line {line} of the cells file FILE is not a cell presence: ");
            assert!(complaint.starts_with(&expected), "{complaint}");
        }
        let missing = read(Path::new("/nowhere/cells")).unwrap_err().to_string();
        assert!(missing.starts_with("the cells file /nowhere/cells cannot be read: "), "{missing}");
    }
}
