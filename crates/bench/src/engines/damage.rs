//! The question that speed does not answer: when a byte on the disk goes bad, does the engine say so?
//!
//! A child process commits records one by one and says when all are acknowledged; then it is killed, as a machine dies. In a
//! copy of what it left, one byte in or just before the record in the middle is flipped, and the engine opens the copy. That
//! is repeated for a number of places: a byte of a length or a checksum is not found as easily as a byte of a value. The places
//! are found by the content of the value, so that no knowledge of the formats is needed. A record that is gone or altered,
//! without an error at opening or reading, is lost silently.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::bulk::files;
use super::{Kind, Record};
use crate::floors::RECORD_BYTES;
use crate::noise::Noise;
use crate::table::{Table, grouped};

const ACKNOWLEDGED: &str = "acknowledged";
/// Enough bytes to find one value among all.
const PATTERN_BYTES: usize = 16;
/// What stands before a value: its key, lengths, checksums.
const BEFORE_BYTES: isize = 60;
/// Of an engine's complaint, so that the table stays a table.
const COMPLAINT_CHARS_MAX: usize = 160;

pub(super) fn run(dir: &Path, records: u64) -> anyhow::Result<Table> {
    let mut table = Table::new([
        "engine",
        "flips",
        "refused at opening",
        "error at reading",
        "harmless",
        "silent loss",
        "most records lost silently",
        "what it said",
    ]);
    for kind in Kind::ALL {
        let home = dir.join(format!("damage-{}", kind.word()));
        fs::create_dir(&home)?;
        write_and_kill(kind, &home, records)?;
        let places = places(&home, records / 2)?;
        anyhow::ensure!(!places.is_empty(), "The value of a record is in no file of {}.", kind.title());
        let mut tally = Outcomes::default();
        for offset in offsets() {
            let copy = dir.join(format!("damaged-{}", kind.word()));
            copy_tree(&home, &copy)?;
            flip(&copy, &places, offset)?;
            tally.add(reopen(kind, &copy, records));
            fs::remove_dir_all(&copy)?;
        }
        let said = tally.said.unwrap_or_else(|| "nothing".into());
        table.row([
            kind.title().to_owned(),
            tally.flips.to_string(),
            tally.refused.to_string(),
            tally.told.to_string(),
            tally.harmless.to_string(),
            tally.silent.to_string(),
            grouped(tally.silent_worst as f64),
            said.replace(&dir.display().to_string(), "…"),
        ]);
    }
    Ok(table)
}

/// Where to flip, counted from the first byte of the value: densely in what stands before it, and here and there in it.
fn offsets() -> impl Iterator<Item = isize> {
    let before = (-BEFORE_BYTES..0).step_by(3);
    let within = (0..RECORD_BYTES.cast_signed()).step_by(250);
    before.chain(within)
}

/// How often what happened.
#[derive(Debug, Default)]
struct Outcomes {
    flips: u32,
    refused: u32,
    told: u32,
    harmless: u32,
    silent: u32,
    silent_worst: u64,
    /// The first complaint.
    said: Option<String>,
}

impl Outcomes {
    fn add(&mut self, found: Found) {
        self.flips += 1;
        let wrong = found.lost + found.altered;
        match (&found.at_opening, &found.at_reading) {
            (Some(_), _) => self.refused += 1,
            (None, Some(_)) => self.told += 1,
            (None, None) if wrong == 0 => self.harmless += 1,
            (None, None) => {
                self.silent += 1;
                self.silent_worst = self.silent_worst.max(wrong);
            }
        }
        if self.said.is_none() {
            self.said = found.at_opening.or(found.at_reading);
        }
    }
}

fn copy_tree(from: &Path, to: &Path) -> anyhow::Result<()> {
    for file in files(from)? {
        let target = to.join(file.strip_prefix(from)?);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(&file, &target)?;
    }
    Ok(())
}

/// The child's part: commits one by one, says so, and waits to be killed.
pub fn child(kind: Kind, dir: &Path, records: u64) -> anyhow::Result<()> {
    let mut engine = kind.open(dir)?;
    for number in 0..records {
        engine.commit(&[record(number)])?;
    }
    let mut out = std::io::stdout();
    writeln!(out, "{ACKNOWLEDGED}")?;
    out.flush()?;
    // Nobody writes to us: this ends when the parent is gone, so no child is left behind.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn record(number: u64) -> Record {
    (format!("actual/{number:08}"), Noise::new(number).bytes(RECORD_BYTES))
}

fn write_and_kill(kind: Kind, home: &Path, records: u64) -> anyhow::Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["engine-child", kind.word()])
        .arg(home)
        .arg(records.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("the child that writes could not be started")?;
    let said = acknowledged(&mut child);
    child.kill()?;
    child.wait()?;
    said.with_context(|| format!("{} did not take its records", kind.title()))
}

fn acknowledged(child: &mut Child) -> anyhow::Result<()> {
    let out = child.stdout.take().context("the child has no output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    anyhow::ensure!(line.trim() == ACKNOWLEDGED, "the child said {line:?}");
    Ok(())
}

/// Where the value of a record begins: the file, relative to the engine's directory, and the byte.
type Place = (PathBuf, usize);

/// Every place where the value of record `number` is stored.
fn places(home: &Path, number: u64) -> anyhow::Result<Vec<Place>> {
    let (_, value) = record(number);
    let from = RECORD_BYTES / 2;
    let (first, rest) = (value[from], &value[from + 1..from + PATTERN_BYTES]);
    let mut found = Vec::new();
    for path in files(home)? {
        let content = fs::read(&path)?;
        let starts = content.iter().enumerate().filter(|(_, byte)| **byte == first).map(|(at, _)| at);
        let matching = starts.filter(|at| content[at + 1..].starts_with(rest));
        let name = path.strip_prefix(home)?.to_owned();
        found.extend(matching.filter_map(|at| Some((name.clone(), at.checked_sub(from)?))));
    }
    Ok(found)
}

/// Flips one byte at an offset from the value, in all its places.
fn flip(home: &Path, places: &[Place], offset: isize) -> anyhow::Result<()> {
    for (name, start) in places {
        let file = fs::File::options().read(true).write(true).open(home.join(name))?;
        let at =
            start.checked_add_signed(offset).context("the record stands at the very beginning of the file")? as u64;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 0x01], at)?;
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Found {
    at_opening: Option<String>,
    at_reading: Option<String>,
    lost: u64,
    altered: u64,
}

fn reopen(kind: Kind, home: &Path, records: u64) -> Found {
    let mut found = Found::default();
    // An engine that panics has noticed, if not politely.
    let opened = catch_unwind(|| kind.open(home)).unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")));
    let mut engine = match opened {
        Ok(engine) => engine,
        Err(error) => {
            found.at_opening = Some(complaint(&error));
            return found;
        }
    };
    let mut seen = vec![false; usize::try_from(records).unwrap_or(0)];
    let mut altered = 0;
    let scan = AssertUnwindSafe(|| {
        engine.scan(&mut |key, value| {
            let number = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix("actual/")?.parse::<u64>().ok());
            match number.filter(|number| *number < records) {
                Some(number) => {
                    seen[usize::try_from(number).unwrap_or(0)] = true;
                    altered += u64::from(record(number).1 != value);
                }
                None => altered += 1,
            }
        })
    });
    let read = catch_unwind(scan).unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")));
    found.at_reading = read.err().map(|error| complaint(&error));
    found.altered = altered;
    if found.at_reading.is_none() {
        found.lost = seen.iter().filter(|seen| !**seen).count() as u64;
    }
    found
}

fn complaint(error: &anyhow::Error) -> String {
    let text = format!("{error:#}").replace('\n', " ");
    let cut: String = text.chars().take(COMPLAINT_CHARS_MAX).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a kill: the engine is closed, then one byte is flipped.
    fn damaged(kind: Kind, records: u64) -> Found {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = kind.open(dir.path()).unwrap();
        (0..records).for_each(|number| engine.commit(&[record(number)]).unwrap());
        drop(engine);
        let places = places(dir.path(), records / 2).unwrap();
        assert_eq!(places.len(), 1, "{} stores the value once", kind.title());
        flip(dir.path(), &places, 700).unwrap();
        reopen(kind, dir.path(), records)
    }

    #[test]
    fn our_log_refuses_to_open_and_names_the_place() {
        let found = damaged(Kind::Log, 40);
        let said = found.at_opening.expect("a refusal");
        assert!(said.contains("log-"), "{said}");
    }

    #[test]
    fn a_bare_append_hands_out_the_altered_value() {
        let found = damaged(Kind::Append, 40);
        assert_eq!((found.at_opening, found.at_reading, found.lost, found.altered), (None, None, 0, 1));
    }

    #[test]
    fn outcomes_are_told_apart() {
        let mut outcomes = Outcomes::default();
        outcomes.add(Found { at_opening: Some("no".into()), ..Found::default() });
        outcomes.add(Found { at_reading: Some("bad".into()), altered: 3, ..Found::default() });
        outcomes.add(Found::default());
        outcomes.add(Found { lost: 7, altered: 1, ..Found::default() });
        outcomes.add(Found { altered: 1, ..Found::default() });
        let Outcomes { flips, refused, told, harmless, silent, silent_worst, said } = outcomes;
        assert_eq!((flips, refused, told, harmless, silent, silent_worst), (5, 1, 1, 1, 2, 8));
        assert_eq!(said.as_deref(), Some("no"));
    }

    #[test]
    fn what_is_whole_is_found_whole() {
        for kind in Kind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let mut engine = kind.open(dir.path()).unwrap();
            (0..40).for_each(|number| engine.commit(&[record(number)]).unwrap());
            drop(engine);
            let found = reopen(kind, dir.path(), 40);
            let said = (found.at_opening, found.at_reading, found.lost, found.altered);
            assert_eq!(said, (None, None, 0, 0), "{}", kind.title());
        }
    }
}
