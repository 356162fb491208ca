//! The repository as a value: every file's path and bytes, read once, so that all rules are pure functions.
//!
//! Paths are relative to the root and written with `/`. Build output (`target`), local data (`data` in the root) and hidden
//! directories that are not ours are left out; symbolic links are not followed. The list is read from the disk and not asked
//! of git, because a file that is not added yet should be tidy too, and because an unpacked archive has no git.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

/// The hidden directories that belong to the repository. Others are git's, an editor's or somebody's own.
const HIDDEN_BUT_OURS: &[&str] = &[".cargo", ".ci", ".config"];

#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> anyhow::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_directory(root, "")?;
        Ok(tree)
    }

    /// All files in path order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// The files that are text and whose name ends in `.extension`.
    pub(crate) fn texts<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files().filter_map(move |(path, bytes)| {
            let (_, found) = path.rsplit_once('.')?;
            (found == extension).then_some((path, std::str::from_utf8(bytes).ok()?))
        })
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        std::str::from_utf8(self.files.get(path)?).ok()
    }

    /// Whether a file or a directory of this path exists. The root itself is the empty path.
    pub(crate) fn has(&self, path: &str) -> bool {
        if path.is_empty() || self.files.contains_key(path) {
            return true;
        }
        let inside = format!("{path}/");
        self.files.range(inside.clone()..).next().is_some_and(|(next, _)| next.starts_with(&inside))
    }

    fn read_directory(&mut self, root: &Path, relative: &str) -> anyhow::Result<()> {
        let directory = root.join(relative);
        let entries = std::fs::read_dir(&directory).with_context(|| format!("Reading {}", directory.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("Reading {}", directory.display()))?;
            let name = entry.file_name().into_string().map_err(|name| {
                anyhow::anyhow!("{}: the name {} is not UTF-8; rename it", directory.display(), name.display())
            })?;
            let path = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
            let kind = entry.file_type().with_context(|| format!("Reading {path}"))?;
            if kind.is_dir() {
                let is_foreign = name.starts_with('.') && !HIDDEN_BUT_OURS.contains(&name.as_str());
                if !(name == "target" || path == "data" || is_foreign) {
                    self.read_directory(root, &path)?;
                }
            } else if kind.is_file() {
                match std::fs::read(root.join(&path)) {
                    Ok(bytes) => {
                        self.files.insert(path, bytes);
                    }
                    // An editor's temporary file may be gone between the listing and the read.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error).with_context(|| format!("Reading {path}")),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Tree {
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_files_but_not_build_output_nor_foreign_hidden_directories() {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "crates/model/src/lib.rs",
            "target/debug/lib.rs",
            ".git/config",
            "data/log",
            "docs/data/a.md",
            ".ci/run",
            "a.md",
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        }
        let tree = Tree::read(root.path()).unwrap();
        let paths: Vec<&str> = tree.files().map(|(path, _)| path).collect();
        assert_eq!(paths, [".ci/run", "a.md", "crates/model/src/lib.rs", "docs/data/a.md"]);
    }

    #[test]
    fn directories_exist_through_their_files() {
        let tree = Tree::of(&[("docs/how-to/a.md", ""), ("docs-old", "")]);
        for path in ["", "docs", "docs/how-to", "docs/how-to/a.md", "docs-old"] {
            assert!(tree.has(path), "{path}");
        }
        for path in ["doc", "docs/how", "docs/how-to/b.md", "docs-old/a"] {
            assert!(!tree.has(path), "{path}");
        }
    }

    #[test]
    fn texts_are_chosen_by_extension_and_must_be_text() {
        let mut tree = Tree::of(&[("a.md", "a"), ("b.rs", "b"), ("md", "c")]);
        tree.files.insert("binary.md".to_owned(), vec![0xff, 0xfe]);
        assert_eq!(tree.texts("md").collect::<Vec<_>>(), [("a.md", "a")]);
    }
}
