//! Directories that are not as they should be, and directories in use.

use std::fs;
use std::path::Path;

use store::embedded::{Embedded, Options, StoreId};
use store::{Store, StoreError};

use crate::files::{damage, open_with_master, put, records, small, snapshot};

fn refusal(dir: &Path) -> StoreError {
    Embedded::open(dir, small()).expect_err("this directory must be refused")
}

#[test]
fn a_plain_file_a_missing_parent_and_a_foreign_directory_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(refusal(&file), StoreError::NotADirectory { .. }));
    assert!(matches!(refusal(&file.join("below")), StoreError::NotADirectory { .. }));
    assert!(matches!(refusal(&temporary.path().join("a/b")), StoreError::NoParent { .. }));
    let before = snapshot(temporary.path());
    match refusal(temporary.path()) {
        StoreError::ForeignDirectory { example, .. } => assert_eq!(example, "file"),
        other => panic!("{other}"),
    }
    assert_eq!(snapshot(temporary.path()), before, "a foreign directory is not touched");
}

#[tokio::test]
async fn a_missing_directory_is_made_and_unknown_files_are_left_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("store");
    let (store, held) = open_with_master(&dir, small()).await;
    store.commit(&held, &[put("/a", "1")]).await.unwrap();
    drop(store);
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    fs::create_dir(dir.join("lost+found")).unwrap();
    let store = Embedded::open(&dir, small()).unwrap();
    assert_eq!(records(&store).await.len(), 1);
    assert_eq!(fs::read_to_string(dir.join("notes.txt")).unwrap(), "mine");
}

#[tokio::test]
async fn a_directory_in_use_names_its_owner() {
    let temporary = tempfile::tempdir().unwrap();
    let (store, held) = open_with_master(temporary.path(), small()).await;
    match refusal(temporary.path()) {
        StoreError::Locked { owner, .. } => {
            assert_eq!(owner, format!("process {} (node test)", std::process::id()));
        }
        other => panic!("{other}"),
    }
    assert!(matches!(store.campaign("other").await, Err(StoreError::Locked { .. })), "one mastership at a time");
    drop(held);
    let again = store.campaign("other").await.expect("a mastership that was dropped is free");
    store.resign(again).await.unwrap();
    store.campaign("third").await.expect("a mastership that was given back is free");
    drop(store);
    Embedded::open(temporary.path(), small()).unwrap();
}

#[tokio::test]
async fn a_resigned_master_cannot_write() {
    let temporary = tempfile::tempdir().unwrap();
    let (store, first) = open_with_master(temporary.path(), small()).await;
    let other = tempfile::tempdir().unwrap();
    let (elsewhere, foreign) = open_with_master(other.path(), small()).await;
    drop(elsewhere);
    store.resign(first).await.unwrap();
    let error = store.commit(&foreign, &[put("/a", "1")]).await.unwrap_err();
    assert!(matches!(error, StoreError::NotMaster), "{error}");
    assert_eq!(store.revision(), 0);
}

#[test]
fn a_newer_format_is_refused_and_a_missing_one_is_damage() {
    let temporary = tempfile::tempdir().unwrap();
    drop(Embedded::open(temporary.path(), small()).unwrap());
    let format = temporary.path().join("FORMAT");
    let text = fs::read_to_string(&format).unwrap();
    fs::write(&format, text.replace("format 1", "format 9")).unwrap();
    let error = refusal(temporary.path());
    assert!(matches!(error, StoreError::Unsupported { found: 9, supported: 1, .. }), "{error}");
    fs::write(&format, "nonsense").unwrap();
    assert_eq!(damage(temporary.path(), "nonsense").0, "FORMAT");
    fs::write(&format, text).unwrap();
    Embedded::open(temporary.path(), small()).unwrap();
}

#[tokio::test]
async fn a_lost_format_or_witness_is_damage_when_there_is_data() {
    let temporary = tempfile::tempdir().unwrap();
    let (store, held) = open_with_master(temporary.path(), small()).await;
    store.commit(&held, &[put("/a", "1")]).await.unwrap();
    drop(store);
    for name in ["FORMAT", "HIGH"] {
        let kept = fs::read(temporary.path().join(name)).unwrap();
        fs::remove_file(temporary.path().join(name)).unwrap();
        assert_eq!(damage(temporary.path(), name).0, name);
        fs::write(temporary.path().join(name), kept).unwrap();
    }
}

#[test]
fn an_interrupted_beginning_is_begun_again() {
    let temporary = tempfile::tempdir().unwrap();
    let options = Options { store_id: Some(StoreId([1; 16])), ..small() };
    drop(Embedded::open(temporary.path(), options).unwrap());
    let complete = snapshot(temporary.path());
    // `FORMAT` is renamed into place last; every state before that is one of these.
    for kept in [&["LOCK"][..], &["LOCK", "HIGH"], &["LOCK", "HIGH", "log-0000000000000001.log"]] {
        for (name, bytes) in &complete {
            let path = temporary.path().join(name);
            if kept.contains(&name.as_str()) { fs::write(path, bytes).unwrap() } else { drop(fs::remove_file(path)) }
        }
        fs::write(temporary.path().join("FORMAT.tmp"), "corkb").unwrap();
        drop(Embedded::open(temporary.path(), small()).unwrap());
        assert!(!temporary.path().join("FORMAT.tmp").exists());
    }
}

#[test]
fn a_read_only_directory_is_named_as_such() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    // Root ignores modes, so a read-only mount stands in for them where we may mount.
    let mount = |options: &str| {
        let status = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(dir).output();
        status.is_ok_and(|output| output.status.success())
    };
    if mount("size=1m") {
        drop(Embedded::open(dir, small()).unwrap());
        let remounted = mount("remount,ro");
        let error = remounted.then(|| refusal(dir));
        let unmounted = std::process::Command::new("umount").arg(dir).output().unwrap();
        assert!(unmounted.status.success());
        assert!(matches!(error, Some(StoreError::ReadOnly { .. })), "{error:?}");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o500)).unwrap();
    let is_root = fs::write(dir.join("probe"), "").is_ok();
    if !is_root {
        assert!(matches!(refusal(dir), StoreError::Permission { .. }));
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
}
