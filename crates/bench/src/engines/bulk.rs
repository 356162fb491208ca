//! A whole board: load it, close it, open it cold, read all of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{Kind, Record};
use crate::noise::Noise;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, bytes};

pub(super) const GROUP_RECORDS: u64 = 1_024;
const DESIRED_BYTES: usize = 4_000;
const ACTUAL_BYTES: usize = 800;

pub(super) fn run(dir: &Path, lrps: u64) -> anyhow::Result<Table> {
    let mut table = Table::new(["engine", "load", "on disk", "open cold", "scan"]);
    for kind in Kind::ALL {
        let home = dir.join(format!("bulk-{}", kind.word()));
        fs::create_dir(&home)?;
        let mut engine = kind.open(&home)?;
        let total = lrps * 2 + lrps / 4;
        let mut load_s = 0.0;
        for from in (0..total).step_by(usize::try_from(GROUP_RECORDS)?) {
            let group: Vec<Record> = (from..total.min(from + GROUP_RECORDS)).map(|at| record(lrps, at)).collect();
            let watch = Stopwatch::start();
            engine.commit(&group)?;
            load_s += watch.seconds();
        }
        let watch = Stopwatch::start();
        drop(engine);
        load_s += watch.seconds();
        let size = evict(&home)?;
        let watch = Stopwatch::start();
        let mut engine = kind.open(&home)?;
        let open_s = watch.seconds();
        let watch = Stopwatch::start();
        let mut count = 0;
        engine.scan(&mut |_, value| count += u64::from(!value.is_empty()))?;
        let scan_s = watch.seconds();
        anyhow::ensure!(count == total, "{} has {count} records after a reopen, and {total} were loaded", kind.title());
        drop(engine);
        table.row([
            kind.title().to_owned(),
            format!("{load_s:.1} s"),
            bytes(size as f64),
            format!("{open_s:.2} s"),
            format!("{scan_s:.2} s"),
        ]);
        fs::remove_dir_all(&home)?;
    }
    Ok(table)
}

fn record(lrps: u64, at: u64) -> Record {
    match at.checked_sub(lrps) {
        None => (format!("desired/{at:08}"), Noise::new(at).bytes(DESIRED_BYTES)),
        Some(instance) => (format!("actual/{instance:08}"), Noise::new(at).bytes(ACTUAL_BYTES)),
    }
}

/// Takes the files out of the page cache, and says how large they are together.
fn evict(dir: &Path) -> anyhow::Result<u64> {
    let mut size = 0;
    for path in files(dir)? {
        let file = File::open(&path)?;
        size += file.metadata()?.len();
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(size)
}

/// All files below a directory.
pub(super) fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_board_survives_in_every_engine() {
        let dir = tempfile::tempdir().unwrap();
        let table = run(dir.path(), 1_000).unwrap().to_string();
        assert_eq!(table.lines().count(), 2 + Kind::ALL.len(), "{table}");
    }
}
