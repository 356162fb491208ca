//! The copy of the store's identity that a node keeps outside the store.
//!
//! Promise: a node that has worked with data never takes an empty or another store for its own. To such a server an
//! empty store looks like a new one, and serving it would stop every app. So the node remembers which cluster it
//! belongs to and whether it has seen data, [`judge`] compares that with what it finds, and going on in spite of a
//! difference takes an operator's word. A copy that cannot be read is an error, never a first boot.
//!
//! The file is small JSON, readable by its owner only, and there whole or not at all: it is written under another name,
//! synced and renamed. Called by a server before it makes anything of an empty store. Reading and writing block.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::record::DataVersion;
use crate::root::explain_json;

/// The file of a node is a tenth of this; what is longer is not such a file.
const FILE_BYTES_MAX: u64 = 4_096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub cluster_id: String,
    /// Whether this node ever worked with a store that held records of apps or tasks.
    pub has_seen_data: bool,
    /// The data version the store had when the node last looked.
    pub data_version: DataVersion,
}

#[derive(Debug, Error)]
pub enum IdentityError {
    #[error(
        "{} is damaged: {why}. Nothing was changed. This file keeps the node from taking a wiped or swapped store for \
         a new one, so do not just remove it. Restore it from a backup; or make sure that the right store is \
         configured and mounted, move the file aside and start again: the node then takes that store as it is",
        path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "{} should keep the identity of the store, but there is no directory {}. Nothing was changed. Is a disk not \
         mounted? On a new node create the directory, then start again",
        path.display(), dir.display()
    )]
    NoDirectory { path: PathBuf, dir: PathBuf },
    #[error(
        "{} could not be read. Nothing was changed. Give the file to the user this server runs as and look at its \
         disk, then start again",
        path.display()
    )]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} could not be written. The store was not changed, and the file is there as before or as it should be, never \
         half. Look at the space on its disk and at the owner of its directory, then start again",
        path.display()
    )]
    Write { path: PathBuf, source: io::Error },
}

impl Identity {
    /// `None` is the answer for a node that never kept one: the directory is there and the file is not.
    pub fn read(path: &Path) -> Result<Option<Identity>, IdentityError> {
        let failed = |source| IdentityError::Read { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return absent(path),
            Err(error) => return Err(failed(error)),
        };
        let mut json = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut json).map_err(failed)?;
        parse(&json).map(Some).map_err(|why| IdentityError::Damaged { path: path.to_owned(), why })
    }

    /// Replaces what was there.
    pub fn write(&self, path: &Path) -> Result<(), IdentityError> {
        let mut json = serde_json::to_vec(self).expect("text, a flag and a number can be written as JSON");
        json.push(b'\n');
        replace(path, &json).map_err(|source| IdentityError::Write { path: path.to_owned(), source })
    }
}

fn absent(path: &Path) -> Result<Option<Identity>, IdentityError> {
    let dir = directory_of(path);
    if dir.is_dir() {
        return Ok(None);
    }
    Err(IdentityError::NoDirectory { path: path.to_owned(), dir: dir.to_owned() })
}

fn parse(json: &[u8]) -> Result<Identity, String> {
    if json.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {FILE_BYTES_MAX} bytes"));
    }
    let identity: Identity = serde_json::from_slice(json).map_err(|error| explain_json(&error))?;
    if identity.cluster_id.is_empty() {
        return Err("it names no cluster".to_owned());
    }
    Ok(identity)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_added_extension("tmp");
    // What a crash left behind may have another owner's permissions, so it is not written into.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    written.and_then(|()| File::open(directory_of(path))?.sync_all())
}

/// A relative path of one part has the empty path above it, which stands for the working directory.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What the store says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    pub cluster_id: Option<&'a str>,
    /// Whether it holds no key at all.
    pub is_empty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This node has nothing to lose: it takes the store as it is.
    FirstBoot,
    Known,
    /// The node has seen data and the store is empty.
    Wiped {
        expected: String,
    },
    /// The store belongs to another cluster, or to none that it could name.
    OtherStore {
        expected: String,
        found: Option<String>,
    },
}

/// A store that names a cluster is judged by that name, however little else it holds: apps may all have been deleted.
pub fn judge(kept: Option<&Identity>, found: Found<'_>) -> Verdict {
    let Some(Identity { cluster_id, has_seen_data, .. }) = kept else { return Verdict::FirstBoot };
    let expected = cluster_id.clone();
    match (found.cluster_id, found.is_empty, has_seen_data) {
        (Some(id), _, _) if id == expected => Verdict::Known,
        (Some(id), _, _) => Verdict::OtherStore { expected, found: Some(id.to_owned()) },
        (None, true, true) => Verdict::Wiped { expected },
        (None, true, false) => Verdict::FirstBoot,
        (None, false, _) => Verdict::OtherStore { expected, found: None },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn identity(has_seen_data: bool) -> Identity {
        Identity { cluster_id: "blue".into(), has_seen_data, data_version: DataVersion(5) }
    }

    #[test]
    fn every_pair_has_its_verdict() {
        let seen = identity(true);
        let unseen = identity(false);
        let mut table = String::new();
        for (name, kept) in [("nothing", None), ("unseen", Some(&unseen)), ("seen", Some(&seen))] {
            for cluster_id in [None, Some("blue"), Some("red")] {
                for is_empty in [true, false] {
                    let verdict = judge(kept, Found { cluster_id, is_empty });
                    let found = format!("{} {}", cluster_id.unwrap_or("-"), if is_empty { "empty" } else { "full" });
                    table.push_str(&format!("{name:<8} {found:<11} {verdict:?}\n"));
                }
            }
        }
        expect![[r#"
            nothing  - empty     FirstBoot
            nothing  - full      FirstBoot
            nothing  blue empty  FirstBoot
            nothing  blue full   FirstBoot
            nothing  red empty   FirstBoot
            nothing  red full    FirstBoot
            unseen   - empty     FirstBoot
            unseen   - full      OtherStore { expected: "blue", found: None }
            unseen   blue empty  Known
            unseen   blue full   Known
            unseen   red empty   OtherStore { expected: "blue", found: Some("red") }
            unseen   red full    OtherStore { expected: "blue", found: Some("red") }
            seen     - empty     Wiped { expected: "blue" }
            seen     - full      OtherStore { expected: "blue", found: None }
            seen     blue empty  Known
            seen     blue full   Known
            seen     red empty   OtherStore { expected: "blue", found: Some("red") }
            seen     red full    OtherStore { expected: "blue", found: Some("red") }
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn what_is_written_is_read_back_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.json");
        assert_eq!(Identity::read(&path).unwrap(), None);
        let left_behind = dir.path().join("identity.json.tmp");
        fs::write(&left_behind, "from a crash").unwrap();
        fs::set_permissions(&left_behind, fs::Permissions::from_mode(0o644)).unwrap();
        for seen in [false, true] {
            identity(seen).write(&path).unwrap();
            assert_eq!(Identity::read(&path).unwrap(), Some(identity(seen)));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(!left_behind.exists());
        }
        let json = fs::read_to_string(&path).unwrap();
        assert_eq!(json, "{\"cluster_id\":\"blue\",\"has_seen_data\":true,\"data_version\":5}\n");
    }

    #[test]
    fn a_failed_write_leaves_the_former_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.json");
        identity(true).write(&path).unwrap();
        fs::create_dir(dir.path().join("identity.json.tmp")).unwrap();
        let error = identity(false).write(&path).unwrap_err();
        assert!(matches!(error, IdentityError::Write { .. }), "{error}");
        assert_eq!(Identity::read(&path).unwrap(), Some(identity(true)));
    }

    #[test]
    fn what_cannot_be_read_is_no_first_boot() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.json");
        let check = |bytes: &[u8], expected: &str| {
            fs::write(&path, bytes).unwrap();
            let text = Identity::read(&path).unwrap_err().to_string();
            assert!(text.contains(&format!("identity.json is damaged: {expected}. Nothing was changed")), "{text}");
            assert!(text.contains("move the file aside and start again"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        };
        check(b"", "it is cut off");
        check(b"\xff\xfe", "it is not JSON (line 1, column 1)");
        let wrong = "it is JSON, but a member is missing or is not what it has to be";
        check(b"{}", wrong);
        check(br#"{"cluster_id":"blue","has_seen_data":"hunter2","data_version":5}"#, wrong);
        check(br#"{"cluster_id":"blue","has_seen_data":true,"data_version":0}"#, wrong);
        check(br#"{"cluster_id":"","has_seen_data":true,"data_version":5}"#, "it names no cluster");
        check(&[b' '; 5_000], "it is longer than 4096 bytes");

        let missing = dir.path().join("not-mounted").join("identity.json");
        assert!(matches!(Identity::read(&missing), Err(IdentityError::NoDirectory { .. })));
        assert!(matches!(Identity::read(dir.path()), Err(IdentityError::Read { .. })));
    }

    #[test]
    fn members_of_a_later_release_do_no_harm() {
        let json = br#"{"cluster_id":"blue","has_seen_data":true,"data_version":5,"later":{}}"#;
        assert_eq!(parse(json), Ok(identity(true)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), at in 0usize..70, byte: u8) {
            drop(parse(&bytes));
            let mut json = serde_json::to_vec(&identity(true)).unwrap();
            let at = at % json.len();
            json[at] = byte;
            drop(parse(&json));
        }
    }
}
