//! The question that speed does not answer: when a byte on the disk goes bad, does the engine say so?
//!
//! A child process commits records one by one and says when all are acknowledged; then it is killed, as a machine dies. One
//! byte inside the value in the middle is flipped, found by its content, so that no knowledge of the formats is needed. After
//! that the engine is opened again. A record that is gone or altered, without an error at opening or reading, is lost silently.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
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
/// Of an engine's complaint, so that the table stays a table.
const COMPLAINT_CHARS_MAX: usize = 160;

pub(super) fn run(dir: &Path, records: u64) -> anyhow::Result<Table> {
    let mut table =
        Table::new(["engine", "at opening", "at reading", "records lost", "records altered", "lost silently"]);
    for kind in Kind::ALL {
        let home = dir.join(format!("damage-{}", kind.word()));
        fs::create_dir(&home)?;
        write_and_kill(kind, &home, records)?;
        let places = flip(&home, records / 2)?;
        let found = reopen(kind, &home, records);
        let silent = if found.complained() { 0 } else { found.lost + found.altered };
        let opening = match places {
            0 => "the byte was not found in any file".to_owned(),
            _ => found.at_opening.unwrap_or_else(|| "nothing".into()),
        };
        table.row([
            kind.title().to_owned(),
            opening.replace(&dir.display().to_string(), "…"),
            found.at_reading.unwrap_or_else(|| "nothing".into()),
            grouped(found.lost as f64),
            grouped(found.altered as f64),
            grouped(silent as f64),
        ]);
    }
    Ok(table)
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

/// Flips one byte within the value of record `number`, wherever it is stored, and says in how many places that was.
fn flip(home: &Path, number: u64) -> anyhow::Result<usize> {
    let (_, value) = record(number);
    let from = RECORD_BYTES / 2;
    let pattern = &value[from..from + PATTERN_BYTES];
    let mut places = 0;
    for path in files(home)? {
        let mut content = fs::read(&path)?;
        let found: Vec<usize> =
            content.windows(PATTERN_BYTES).enumerate().filter(|(_, part)| *part == pattern).map(|(at, _)| at).collect();
        for at in &found {
            content[*at] ^= 0x01;
        }
        if !found.is_empty() {
            // In place and not by a new file: the engine may have set the length beyond what it wrote.
            fs::File::options().write(true).open(&path)?.write_all(&content)?;
            places += found.len();
        }
    }
    Ok(places)
}

#[derive(Debug, Default)]
struct Found {
    at_opening: Option<String>,
    at_reading: Option<String>,
    lost: u64,
    altered: u64,
}

impl Found {
    fn complained(&self) -> bool {
        self.at_opening.is_some() || self.at_reading.is_some()
    }
}

fn reopen(kind: Kind, home: &Path, records: u64) -> Found {
    let mut found = Found::default();
    let mut engine = match kind.open(home) {
        Ok(engine) => engine,
        Err(error) => {
            found.at_opening = Some(complaint(&error));
            return found;
        }
    };
    let mut seen = vec![false; usize::try_from(records).unwrap_or(0)];
    let read = engine.scan(&mut |key, value| {
        let number = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix("actual/")?.parse::<u64>().ok());
        let known = number.filter(|number| *number < records);
        match known {
            Some(number) => {
                seen[usize::try_from(number).unwrap_or(0)] = true;
                found.altered += u64::from(record(number).1 != value);
            }
            None => found.altered += 1,
        }
    });
    found.at_reading = read.err().map(|error| complaint(&error));
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
        assert!(flip(dir.path(), records / 2).unwrap() > 0, "{} stores the value where we look", kind.title());
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
        assert!(!found.complained(), "{found:?}");
        assert_eq!((found.lost, found.altered), (0, 1));
    }

    #[test]
    fn what_is_whole_is_found_whole() {
        for kind in Kind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let mut engine = kind.open(dir.path()).unwrap();
            (0..40).for_each(|number| engine.commit(&[record(number)]).unwrap());
            drop(engine);
            let found = reopen(kind, dir.path(), 40);
            assert!(!found.complained() && found.lost == 0 && found.altered == 0, "{}: {found:?}", kind.title());
        }
    }
}
