//! Files in a folder named `frozen/` never change: they are bytes that a release wrote and a later one must read.
//!
//! The lock keeps a checksum per file. FNV-1a is enough, since the check is against a careless hand and not a hostile one:
//! whoever wants to change a file on purpose can change the lock too, and that shows in the diff.

use std::collections::BTreeMap;

use crate::tidy::Finding;
use crate::tree::Tree;

pub(crate) const LOCK: &str = "xtask/frozen.lock";

/// The one finding that recording repairs.
pub(crate) const ABSENT: &str = "there is no record of the frozen files";

const HEADER: &str = "\
# Checksums of the files in folders named `frozen/`, written by `cargo xtask bless`. Adding a file is free; a file that is
# listed never changes. Delete a line by hand only in the change that ends the support of the release that wrote the file.
";

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let files = frozen_files(tree);
    let recorded = match tree.text(LOCK) {
        Some(text) => read(text),
        None if files.is_empty() => return Vec::new(),
        None => {
            let instead = "run `cargo xtask bless` and commit the file; if it was deleted, restore it";
            return vec![Finding::new(LOCK, 1, ABSENT, instead)];
        }
    };
    let mut found = Vec::new();
    for entry in recorded {
        let (line, path, checksum) = match entry {
            Ok(entry) => entry,
            Err(finding) => {
                found.push(finding);
                continue;
            }
        };
        match files.get(path) {
            Some(now) if *now == checksum => {}
            Some(_) => {
                let instead =
                    "restore it; these bytes are what an older release wrote, so a new shape is a new file beside it";
                found.push(Finding::new(path, 1, "a frozen file was changed", instead));
            }
            None => {
                let instead = "restore it; if that release is no longer supported, delete this line in the same change";
                found.push(Finding::new(LOCK, line, format!("the frozen file `{path}` is gone"), instead));
            }
        }
    }
    found
}

/// How many frozen files are not recorded yet.
pub(crate) fn additions(tree: &Tree) -> usize {
    let recorded = tree.text(LOCK).map(read).unwrap_or_default();
    let is_recorded = |path: &str| recorded.iter().flatten().any(|(_, known, _)| *known == path);
    frozen_files(tree).keys().filter(|path| !is_recorded(path)).count()
}

pub(crate) fn print(tree: &Tree) -> String {
    let lines = frozen_files(tree).into_iter().map(|(path, checksum)| format!("{checksum:016x} {path}\n"));
    std::iter::once(HEADER.to_owned()).chain(lines).collect()
}

/// The line, the path and the checksum of one recorded file.
type Entry<'a> = (usize, &'a str, u64);

fn read(text: &str) -> Vec<Result<Entry<'_>, Finding>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    lines.map(|(number, line)| read_line(number + 1, line)).collect()
}

fn read_line(number: usize, line: &str) -> Result<Entry<'_>, Finding> {
    let unreadable = || {
        let instead = "restore the line; this file is written by `cargo xtask bless`";
        Finding::new(LOCK, number, format!("not a line of the record: `{line}`"), instead)
    };
    let (checksum, path) = line.split_once(' ').ok_or_else(unreadable)?;
    let checksum = u64::from_str_radix(checksum, 16).map_err(|_| unreadable())?;
    Ok((number, path, checksum))
}

fn frozen_files(tree: &Tree) -> BTreeMap<&str, u64> {
    let is_frozen =
        |path: &str| path.rsplit_once('/').is_some_and(|(folder, _)| folder.split('/').any(|part| part == "frozen"));
    tree.files().filter(|(path, _)| is_frozen(path)).map(|(path, bytes)| (path, fnv1a(bytes))).collect()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/store/src/versions/protobuf/frozen/task.bin";

    fn with_lock<'a>(files: &[(&'a str, &'a str)], lock: &'a str) -> Tree {
        Tree::of(&[files, &[(LOCK, lock)]].concat())
    }

    #[test]
    fn the_checksum_is_fnv_1a_of_64_bits() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn what_was_recorded_is_checked_and_what_is_new_is_counted() {
        let lock = print(&Tree::of(&[(FILE, "bytes")]));
        assert_eq!(findings(&with_lock(&[(FILE, "bytes")], &lock)), []);
        assert_eq!(additions(&with_lock(&[(FILE, "bytes")], &lock)), 0);

        let more = with_lock(&[(FILE, "bytes"), ("crates/a/frozen/deep/b", "x"), ("crates/a/frozen", "a file")], &lock);
        assert_eq!(findings(&more), []);
        assert_eq!(additions(&more), 1);
    }

    #[test]
    fn changed_and_missing_files_are_found() {
        let lock = print(&Tree::of(&[(FILE, "bytes")]));
        let changed = findings(&with_lock(&[(FILE, "Bytes")], &lock));
        assert_eq!((changed[0].path.as_str(), changed[0].what.as_str()), (FILE, "a frozen file was changed"));
        let missing = findings(&with_lock(&[], &lock));
        assert_eq!((missing[0].path.as_str(), missing[0].line), (LOCK, 3));
    }

    #[test]
    fn a_missing_or_damaged_lock_is_a_finding() {
        assert_eq!(findings(&Tree::of(&[])), []);
        assert_eq!(findings(&Tree::of(&[(FILE, "bytes")])).len(), 1);
        for lock in ["nonsense\n", "zz crates/a/frozen/b\n"] {
            assert_eq!(findings(&with_lock(&[], lock))[0].line, 1, "{lock}");
        }
    }
}
