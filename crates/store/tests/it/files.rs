//! What the tests do to a store's files behind its back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::embedded::{Embedded, Options};
use store::{Mastership, Step, Store, StoreError};

/// Small enough that a handful of commits fills several logs. Checkpoints happen only when a test asks.
pub(crate) fn small() -> Options {
    Options {
        segment_bytes: 400,
        checkpoint_min_bytes: u64::MAX,
        checkpoint_bytes_per_s: u64::MAX,
        checkpoint_retry: Duration::from_millis(10),
        reserve_bytes: 0,
        ..Options::default()
    }
}

pub(crate) fn one_log() -> Options {
    Options { segment_bytes: u64::MAX, ..small() }
}

pub(crate) fn put(key: &str, value: &str) -> Step {
    let mut step = Step::default();
    step.put(key, value.to_owned());
    step
}

pub(crate) type Records = BTreeMap<String, Vec<u8>>;

pub(crate) async fn records(store: &dyn Store) -> Records {
    let mut records = Records::new();
    let mut after = None;
    loop {
        let page = store.scan("", after.as_deref(), 100).await.unwrap();
        records.extend(page.records.into_iter().map(|(key, value)| (key, value.to_vec())));
        match page.next {
            Some(next) => after = Some(next),
            None => return records,
        }
    }
}

pub(crate) async fn open_with_master(dir: &Path, options: Options) -> (Embedded, Mastership) {
    let store = Embedded::open(dir, options).unwrap();
    let held = store.campaign("test").await.unwrap();
    (store, held)
}

/// The files of a directory and their bytes: a state of the disk to compare with, or to go back to.
pub(crate) fn snapshot(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

pub(crate) fn restore(dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).unwrap();
    }
}

pub(crate) fn named(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut names: Vec<String> = snapshot(dir).into_keys().filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names.iter().map(|name| dir.join(name)).collect()
}

/// Opens a store that must be refused as damaged, and checks that the attempt changed nothing on disk.
pub(crate) fn damage(dir: &Path, what: &str) -> (String, u64, String) {
    let before = snapshot(dir);
    match Embedded::open(dir, small()) {
        Err(StoreError::Damaged { file, offset, what }) => {
            assert_eq!(snapshot(dir), before, "{what}: nothing on disk is changed");
            (file.file_name().unwrap().to_str().unwrap().to_owned(), offset, what)
        }
        other => panic!("{what}: expected damage, got {other:?}"),
    }
}
