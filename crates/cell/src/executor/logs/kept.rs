//! The last lines of a container, in files that outlive it.
//!
//! Two files of at most [`KEPT_BYTES_MAX`] each: when the newer is full it takes the place of the older. A third says whose they
//! are, so that the lines of an app are found when nobody remembers its containers. A line that cannot be written is lost, and
//! nothing else. Lines of at most [`CONTAINERS_MAX`] containers are kept: those that are there, and of the others those that
//! wrote last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use model::Nanos;

use super::super::clock::wall_ns;
use super::super::process::files::{read, write};
use super::super::records::{OwnerRecord, folder_name};
use super::super::{ContainerGuid, KeptLines, LogConfig, LogLine, LogsWanted, Owner};

const KEPT_BYTES_MAX: u64 = 256 * 1024;
const CONTAINERS_MAX: usize = 1_000;
/// Files of containers that are too many are looked for each time that so many were opened.
const PRUNE_EVERY: usize = 64;
/// Of all lines that one question may bring into memory.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

const OLDER: &str = "old";
const OWNER: &str = "of";

/// The files of all containers of a cell.
#[derive(Debug)]
pub(crate) struct Archive {
    folder: PathBuf,
    opened: AtomicUsize,
}

impl Archive {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, opened: AtomicUsize::new(0) }
    }

    pub(crate) fn open(&self, owner: &Owner, present: impl FnOnce() -> BTreeSet<ContainerGuid>) -> Kept {
        if (self.opened.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(PRUNE_EVERY) {
            self.prune(&present());
        }
        Kept::open(&self.folder, owner)
    }

    /// Forgets the lines of those that are gone and were silent for longest.
    pub(crate) fn prune(&self, present: &BTreeSet<ContainerGuid>) {
        if let Err(error) = prune(&self.folder, present, CONTAINERS_MAX) {
            tracing::warn!(%error, "old logs cannot be removed");
        }
    }

    pub(crate) fn read(&self, wanted: &LogsWanted) -> io::Result<KeptLines> {
        let mut kept = KeptLines { now_ns: wall_ns(), ..KeptLines::default() };
        let mut bytes = 0;
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != OWNER) {
                continue;
            }
            let record: Option<OwnerRecord> = read(&path).unwrap_or_default();
            let Some(owner) = record.and_then(|record| record.parse().ok()).filter(|owner| wanted.of.is(owner)) else {
                continue;
            };
            let mut lines = lines_of(&path.with_extension(""), &Arc::new(owner))?;
            lines.retain(|line| line.at_ns > wanted.after_ns);
            lines.drain(..lines.len().saturating_sub(wanted.lines_max));
            bytes += lines.iter().map(|line| line.text.len()).sum::<usize>();
            kept.lines.append(&mut lines);
            if bytes > 2 * ANSWER_BYTES_MAX {
                bytes = shorten(&mut kept);
            }
        }
        shorten(&mut kept);
        Ok(kept)
    }
}

/// Sorts, and leaves out the oldest lines until the rest fits.
fn shorten(kept: &mut KeptLines) -> usize {
    kept.lines.sort_by(|a, b| (a.at_ns, &a.container).cmp(&(b.at_ns, &b.container)));
    let mut bytes = 0;
    let fits = |line: &&LogLine| {
        bytes += line.text.len();
        bytes <= ANSWER_BYTES_MAX
    };
    let room = kept.lines.iter().rev().take_while(fits).count();
    kept.left_out += (kept.lines.len() - room) as u64;
    kept.lines.drain(..kept.lines.len() - room);
    kept.lines.iter().map(|line| line.text.len()).sum()
}

#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
}

impl Kept {
    pub(crate) fn open(folder: &Path, owner: &Owner) -> Self {
        let path = folder.join(folder_name(&owner.container()));
        let file = append(&path).ok();
        let bytes = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |meta| meta.len());
        if file.is_some()
            && let Err(error) = write(&path.with_added_extension(OWNER), &OwnerRecord::of(owner))
        {
            tracing::warn!(container = %owner.container(), %error, "its lines will not be found once it is gone");
        }
        Self { path, file, bytes }
    }

    /// The time of the last line that is there; 0 if there is none.
    pub(crate) fn last_ns(&self) -> Nanos {
        let last = |path: &Path| {
            let bytes = fs::read(path).ok()?;
            String::from_utf8_lossy(&bytes).lines().rev().find_map(|line| parse(line).map(|parsed| parsed.0))
        };
        // A time that is far from all that can be is somebody else's work, and must not hold up the clock.
        let latest = last(&self.path).or_else(|| last(&older(&self.path))).unwrap_or(0);
        if latest <= wall_ns().saturating_add(AHEAD_NS_MAX) { latest } else { 0 }
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

/// How far a clock may have been set back while no cell ran: a day.
const AHEAD_NS_MAX: Nanos = 86_400_000_000_000;

/// The last lines of a container, oldest first, as `<time in ns> [<source>/<index>] OUT|ERR <text>`. Works for containers that
/// are gone, and while no cell runs.
pub fn recent(root: &Path, container: &ContainerGuid, lines_max: usize) -> io::Result<Vec<String>> {
    let text = text_of(&logs_folder(root).join(folder_name(container)))?;
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(lines_max)..].iter().map(|line| (*line).to_owned()).collect())
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // The newer first: if it becomes the older meanwhile, lines come twice, which is better than not at all.
    for path in [path.to_owned(), older(path)] {
        match fs::read(&path) {
            Ok(bytes) => text.insert_str(0, &String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

fn lines_of(path: &Path, owner: &Arc<Owner>) -> io::Result<Vec<LogLine>> {
    let (container, text) = (owner.container(), text_of(path)?);
    let line = |line: &str| {
        let (at_ns, source, index, is_error, text) = parse(line)?;
        let log = Arc::new(LogConfig { index, ..LogConfig::default() });
        let (source, text) = (source.into(), text.to_owned());
        Some(LogLine { container: container.clone(), owner: owner.clone(), log, source, is_error, at_ns, text })
    };
    // The last one may be on its way to the disk; then it comes to listeners too.
    let mut lines: Vec<LogLine> =
        text.split_inclusive('\n').filter_map(|piece| line(piece.strip_suffix('\n')?)).collect();
    lines.sort_by_key(|line| line.at_ns);
    lines.dedup_by_key(|line| line.at_ns);
    Ok(lines)
}

type Parsed<'a> = (Nanos, &'a str, i32, bool, &'a str);

fn parse(line: &str) -> Option<Parsed<'_>> {
    let (at_ns, rest) = line.split_once(" [")?;
    let (name, rest) = rest.split_once("] ")?;
    let (source, index) = name.rsplit_once('/')?;
    let (kind, text) = rest.split_once(' ')?;
    Some((at_ns.parse().ok()?, source, index.parse().ok()?, kind == "ERR", text))
}

pub(crate) fn logs_folder(root: &Path) -> PathBuf {
    root.join("logs")
}

fn prune(folder: &Path, present: &BTreeSet<ContainerGuid>, containers_max: usize) -> io::Result<()> {
    let present: BTreeSet<String> = present.iter().map(folder_name).collect();
    let mut gone: BTreeMap<String, (SystemTime, Vec<PathBuf>)> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let extensions = [OLDER, OWNER].map(|extension| format!(".{extension}"));
        let of = extensions.iter().find_map(|extension| name.strip_suffix(extension.as_str())).unwrap_or(&name);
        if present.contains(of) {
            continue;
        }
        let modified = entry.metadata()?.modified()?;
        let (latest, files) = gone.entry(of.to_owned()).or_insert_with(|| (modified, Vec::new()));
        *latest = modified.max(*latest);
        files.push(entry.path());
    }
    let too_many = (gone.len() + present.len()).saturating_sub(containers_max);
    let mut gone: Vec<_> = gone.into_values().collect();
    gone.sort();
    for file in gone.into_iter().take(too_many).flat_map(|(_, files)| files) {
        fs::remove_file(file)?;
    }
    Ok(())
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn older(path: &Path) -> PathBuf {
    path.with_added_extension(OLDER)
}

#[cfg(test)]
mod tests {
    use model::{ActualLrpKey, DomainName, InstanceGuid, ProcessGuid};

    use super::super::super::LogsOf;
    use super::*;

    fn owner(process: &str, index: i32, instance: &str) -> Owner {
        let key = ActualLrpKey {
            process_guid: ProcessGuid::parse(process).unwrap(),
            index,
            domain: DomainName::parse("d").unwrap(),
        };
        Owner::Lrp { key, instance: InstanceGuid::parse(instance).unwrap() }
    }

    fn line(owner: &Owner, at_ns: Nanos, text: &str) -> LogLine {
        LogLine {
            container: owner.container(),
            owner: Arc::new(owner.clone()),
            log: Arc::default(),
            source: "APP".into(),
            is_error: at_ns % 2 == 1,
            at_ns,
            text: text.to_owned(),
        }
    }

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(logs_folder(root.path())).unwrap();
        root
    }

    #[test]
    fn the_last_lines_stay_and_the_files_do_not_grow() {
        let (root, owner) = (root(), owner("app", 0, "c"));
        for round in 0..3 {
            let mut kept = Kept::open(&logs_folder(root.path()), &owner);
            for number in 0..10_000 {
                kept.write(&line(&owner, number, &format!("round {round}")));
            }
            assert_eq!(kept.last_ns(), 9_999);
        }
        let last = recent(root.path(), &owner.container(), 2).unwrap();
        assert_eq!(last, ["9998 [APP/0] OUT round 2", "9999 [APP/0] ERR round 2"]);
        for entry in fs::read_dir(logs_folder(root.path())).unwrap() {
            assert!(entry.unwrap().metadata().unwrap().len() < KEPT_BYTES_MAX + 100);
        }
        assert!(recent(root.path(), &ContainerGuid("other".into()), 10).unwrap().is_empty());
    }

    #[test]
    fn the_lines_of_an_app_are_found_by_its_guid_and_merged_by_time() {
        let root = root();
        let archive = Archive::new(logs_folder(root.path()));
        let owners = [owner("app", 0, "first"), owner("app", 1, "second"), owner("other", 0, "third")];
        for (number, owner) in owners.iter().enumerate() {
            let mut kept = archive.open(owner, BTreeSet::new);
            for at_ns in 0..4 {
                kept.write(&line(owner, 10 * at_ns + number as i64, &format!("{number}: [x] ERR {at_ns}")));
            }
        }
        let check = |index: Option<i32>, after_ns: Nanos, lines_max: usize, expected: &[&str]| {
            let of = LogsOf::Process { guid: "app".into(), index };
            let kept = archive.read(&LogsWanted { of, after_ns, lines_max }).unwrap();
            let texts: Vec<&str> = kept.lines.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(texts, expected);
            assert_eq!(kept.left_out, 0);
        };
        check(None, 10, 10, &["1: [x] ERR 1", "0: [x] ERR 2", "1: [x] ERR 2", "0: [x] ERR 3", "1: [x] ERR 3"]);
        check(Some(1), -1, 1, &["1: [x] ERR 3"]);
        check(Some(7), -1, 1, &[]);
    }

    #[test]
    fn those_that_are_there_are_never_forgotten() {
        let root = root();
        let folder = logs_folder(root.path());
        let names: Vec<Owner> = (0..5).map(|number| owner("app", 0, &format!("c{number}"))).collect();
        for (second, owner) in names.iter().enumerate() {
            let mut kept = Kept::open(&folder, owner);
            kept.write(&line(owner, 1, "x"));
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second as u64);
            kept.file.unwrap().set_modified(at).unwrap();
            let of = OpenOptions::new().write(true).open(kept.path.with_added_extension(OWNER)).unwrap();
            of.set_modified(at).unwrap();
        }
        prune(&folder, &[names[0].container()].into(), 3).unwrap();
        let mut left: Vec<String> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["c0", "c0.of", "c3", "c3.of", "c4", "c4.of"]);
    }
}
