//! A disk without room: commits are refused cleanly, nothing is lost, and the store goes on when there is room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use store::embedded::{Embedded, Options};
use store::{Step, Store, StoreError};

use crate::files::{one_log, open_with_master, put, records, small};

fn bulky(key: &str, bytes: usize) -> Step {
    let mut step = Step::default();
    step.put(key, vec![7; bytes]);
    step
}

/// A small file system of its own; `None` where we may not mount.
struct Mounted {
    dir: PathBuf,
    _temporary: tempfile::TempDir,
}

impl Mounted {
    fn new(size: &str) -> Option<Mounted> {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("disk");
        fs::create_dir(&dir).unwrap();
        let size = format!("size={size}");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&dir).output();
        output.is_ok_and(|output| output.status.success()).then_some(Mounted { dir, _temporary: temporary })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.dir).output();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_commits_and_recovers_when_there_is_room() {
    let Some(disk) = Mounted::new("4m") else { return };
    let dir = disk.dir.join("store");
    let options = Options { reserve_bytes: 64 * 1024, ..one_log() };
    let (store, held) = open_with_master(&dir, options.clone()).await;
    store.commit(&held, &[put("/first", "safe")]).await.unwrap();
    let ballast = disk.dir.join("ballast");
    fs::write(&ballast, vec![0; 3_000_000]).unwrap();
    let mut stored = 1;
    let error = loop {
        match store.commit(&held, &[bulky(&format!("/{stored}"), 100_000)]).await {
            Ok(revision) => stored = revision,
            Err(error) => break error,
        }
        assert!(stored < 100, "the disk must become full");
    };
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
    assert!(!error.outcome_unknown() && error.retryable());
    assert_eq!(store.revision(), stored);
    assert_eq!(records(&store).await.len() as u64, stored, "reads go on");
    store.checkpoint().await.expect_err("there is no room for a checkpoint either");
    assert!(matches!(store.commit(&held, &[bulky("/again", 100_000)]).await, Err(StoreError::NoSpace { .. })));

    fs::remove_file(&ballast).unwrap();
    assert_eq!(store.commit(&held, &[bulky("/room", 100_000)]).await.unwrap(), stored + 1);
    store.checkpoint().await.unwrap();
    drop((store, held));
    let store = Embedded::open(&dir, options).unwrap();
    assert_eq!(records(&store).await.len() as u64, stored + 1);
}

#[tokio::test]
async fn a_full_disk_does_not_keep_a_store_from_opening() {
    let Some(disk) = Mounted::new("1m") else { return };
    let dir = disk.dir.join("store");
    let (store, held) = open_with_master(&dir, small()).await;
    store.commit(&held, &[put("/a", "1")]).await.unwrap();
    drop((store, held));
    let mut ballast = vec![0; 1_000_000];
    while fs::write(disk.dir.join("ballast"), &ballast).is_err() {
        ballast.truncate(ballast.len() - 4_096);
    }
    let options = Options { reserve_bytes: 1_000_000, ..small() };
    let (store, _held) = open_with_master(&dir, options).await;
    assert_eq!(records(&store).await.len(), 1);
}

#[tokio::test]
async fn a_checkpoint_without_room_is_tried_again_and_harms_no_commit() {
    let Some(disk) = Mounted::new("4m") else { return };
    let dir = disk.dir.join("store");
    let options = Options { segment_bytes: 200_000, checkpoint_min_bytes: 1_000_000, ..small() };
    let (store, held) = open_with_master(&dir, options).await;
    // 0.9 MB live, 1.1 MB garbage: a checkpoint is due, and there is no room for one.
    let ballast = disk.dir.join("ballast");
    fs::write(&ballast, vec![0; 1_800_000]).unwrap();
    for n in 0..20 {
        store.commit(&held, &[bulky(&format!("/{}", n % 9), 99_000)]).await.unwrap();
    }
    let logs = || {
        fs::read_dir(&dir)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("log-"))
            .count()
    };
    assert!(logs() > 5, "the old logs are still needed");
    fs::remove_file(&ballast).unwrap();
    let mut commits = 0;
    while logs() > 5 {
        store.commit(&held, &[put("/small", "nudge")]).await.unwrap();
        commits += 1;
        assert!(commits < 100_000, "the checkpoint must be tried again");
    }
    assert_eq!(records(&store).await.len(), 10);
}

const LIMITED_DIR: &str = "STORE_TEST_LIMITED_DIR";

/// The other half of the next test: it runs under a file size limit.
#[tokio::test]
async fn the_writer_with_a_file_size_limit() {
    let Ok(dir) = std::env::var(LIMITED_DIR) else { return };
    let (store, held) = open_with_master(Path::new(&dir), one_log()).await;
    store.commit(&held, &[bulky("/fits", 20_000)]).await.unwrap();
    let error = store.commit(&held, &[put("/small", "of the same group"), bulky("/large", 900_000)]).await.unwrap_err();
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
    assert_eq!(store.commit(&held, &[put("/small", "fits")]).await.unwrap(), 2);
}

#[tokio::test]
async fn a_file_size_limit_is_a_lack_of_space() {
    let temporary = tempfile::tempdir().unwrap();
    // With the signal ignored, a write beyond the limit fails instead of killing the process.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" --exact full_disk::the_writer_with_a_file_size_limit"])
        .arg(std::env::current_exe().unwrap())
        .env(LIMITED_DIR, temporary.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let store = Embedded::open(temporary.path(), one_log()).unwrap();
    let keys: Vec<String> = records(&store).await.into_keys().collect();
    assert_eq!(keys, ["/fits", "/small"]);
}
