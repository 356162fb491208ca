//! Every way a file can be short, torn or wrong, and a writer that is killed for real.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use store::Store;
use store::embedded::{Embedded, Options};
use tempfile::TempDir;

use crate::files::{Records, damage, named, one_log, open_with_master, put, records, restore, small, snapshot};

const FILE_HEADER_BYTES: usize = 40;

/// A log of three commits. Returns the witness as it was before the last one, and where each commit ends.
async fn three_commits(dir: &Path) -> (Vec<u8>, Vec<usize>) {
    let (store, held) = open_with_master(dir, one_log()).await;
    let log = &named(dir, "log-")[0];
    let mut ends = vec![FILE_HEADER_BYTES];
    let mut witness = Vec::new();
    for value in ["one", "two", "three"] {
        witness = fs::read(dir.join("HIGH")).unwrap();
        store.commit(&held, &[put("/a", value), put(&format!("/{value}"), value)]).await.unwrap();
        ends.push(fs::metadata(log).unwrap().len() as usize);
    }
    (witness, ends)
}

async fn opens_with(dir: &Path, expected: &[&str], what: &str) {
    let store = Embedded::open(dir, one_log()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let keys: Vec<String> = records(&store).await.into_keys().collect();
    assert_eq!(keys, expected, "{what}");
    // The store is whole again: it takes a commit and gives it back.
    let held = store.campaign("test").await.unwrap();
    store.commit(&held, &[put("/z", "after")]).await.unwrap();
    drop((store, held));
    let store = Embedded::open(dir, one_log()).unwrap_or_else(|error| panic!("{what}, reopened: {error}"));
    assert_eq!(records(&store).await.len(), expected.len() + 1, "{what}, reopened");
}

#[tokio::test]
async fn a_last_write_cut_anywhere_is_dropped_unless_it_was_acknowledged() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let (earlier_witness, ends) = three_commits(dir).await;
    let complete = snapshot(dir);
    let log = named(dir, "log-")[0].clone();
    for cut in ends[2]..ends[3] {
        restore(dir, &complete);
        let bytes = fs::read(&log).unwrap();
        fs::write(&log, &bytes[..cut]).unwrap();
        let (file, offset, what) = damage(dir, &format!("acknowledged, cut at {cut}"));
        assert_eq!((file.as_str(), offset), ("log-0000000000000001.log", ends[2] as u64));
        assert_eq!(what, "acknowledged revisions 5 to 6 are missing");
        fs::write(dir.join("HIGH"), &earlier_witness).unwrap();
        opens_with(dir, &["/a", "/one", "/two"], &format!("cut at {cut}")).await;
    }
}

#[tokio::test]
async fn a_wrong_byte_in_the_last_write_is_a_torn_tail_unless_it_was_acknowledged() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let (earlier_witness, ends) = three_commits(dir).await;
    let complete = snapshot(dir);
    let log = named(dir, "log-")[0].clone();
    for at in ends[2]..ends[3] {
        restore(dir, &complete);
        let mut bytes = fs::read(&log).unwrap();
        bytes[at] ^= 0x40;
        fs::write(&log, &bytes).unwrap();
        damage(dir, &format!("acknowledged, byte {at}"));
        fs::write(dir.join("HIGH"), &earlier_witness).unwrap();
        opens_with(dir, &["/a", "/one", "/two"], &format!("byte {at}")).await;
    }
}

#[tokio::test]
async fn a_wrong_byte_before_an_intact_write_is_damage() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let (earlier_witness, ends) = three_commits(dir).await;
    let complete = snapshot(dir);
    let log = named(dir, "log-")[0].clone();
    for at in 0..ends[2] {
        restore(dir, &complete);
        let mut bytes = fs::read(&log).unwrap();
        bytes[at] ^= 0x01;
        fs::write(&log, &bytes).unwrap();
        // Even with a witness that power failure set back: what stands after the broken write gives it away.
        fs::write(dir.join("HIGH"), &earlier_witness).unwrap();
        let (_, offset, what) = damage(dir, &format!("byte {at}"));
        let frame = ends.iter().rev().find(|end| **end <= at).copied().unwrap_or(0);
        assert_eq!(offset, frame as u64, "byte {at}: {what}");
    }
}

#[tokio::test]
async fn what_a_power_failure_leaves_behind_the_last_write_is_cut_off() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let (_, ends) = three_commits(dir).await;
    let complete = snapshot(dir);
    let log = named(dir, "log-")[0].clone();
    let frames = fs::read(&log).unwrap();
    for (what, tail) in [
        ("zeros", vec![0; 10_000]),
        ("noise", (0..5_000u32).map(|at| (at * at % 251) as u8).collect()),
        // An old write is not a later one: its revision has passed.
        ("an old write after rubbish", [b"rubbish".as_slice(), &frames[ends[0]..ends[1]]].concat()),
    ] {
        restore(dir, &complete);
        fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(&tail).unwrap();
        opens_with(dir, &["/a", "/one", "/three", "/two"], what).await;
    }
    restore(dir, &complete);
    fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(&frames[ends[0]..ends[1]]).unwrap();
    let (_, offset, what) = damage(dir, "an old write again");
    assert_eq!((offset, what.as_str()), (ends[3] as u64, "revision 7 was expected and 1 found"));
}

/// Three logs, then a checkpoint and two more logs. Returns the files just before and just after the checkpoint.
async fn with_checkpoint() -> (TempDir, Records, [std::collections::BTreeMap<String, Vec<u8>>; 2]) {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("store");
    let (store, held) = open_with_master(&dir, small()).await;
    for n in 0..12 {
        store.commit(&held, &[put(&format!("/k/{}", n % 5), &format!("value {n}, and some more text"))]).await.unwrap();
    }
    drop((store, held));
    let before = snapshot(&dir);
    assert!(named(&dir, "log-").len() >= 3, "the logs are small");
    let (store, _held) = open_with_master(&dir, small()).await;
    assert_eq!(store.checkpoint().await.unwrap(), 12);
    let expected = records(&store).await;
    drop(store);
    let after = snapshot(&dir);
    (temporary, expected, [before, after])
}

#[tokio::test]
async fn a_checkpoint_replaces_the_logs_before_it() {
    let (temporary, expected, _) = with_checkpoint().await;
    let dir = temporary.path().join("store");
    assert_eq!(named(&dir, "checkpoint-").len(), 1);
    let logs = named(&dir, "log-");
    assert_eq!(logs, [dir.join("log-000000000000000d.log")]);
    let (store, held) = open_with_master(&dir, small()).await;
    assert_eq!(records(&store).await, expected);
    assert_eq!(store.revision(), 12);
    assert_eq!(store.checkpoint().await.unwrap(), 12, "a checkpoint of nothing new is no work");
    assert_eq!(store.commit(&held, &[put("/k/0", "newer")]).await.unwrap(), 13);
    assert_eq!(store.checkpoint().await.unwrap(), 13);
    assert_eq!(named(&dir, "checkpoint-"), [dir.join("checkpoint-000000000000000d.ckpt")]);
    assert_eq!(records(&store).await["/k/0"], b"newer");
}

#[tokio::test]
async fn a_wrong_or_missing_byte_in_a_checkpoint_is_damage() {
    let (temporary, _, [_, after]) = with_checkpoint().await;
    let dir = temporary.path().join("store");
    let checkpoint = named(&dir, "checkpoint-")[0].clone();
    let bytes = fs::read(&checkpoint).unwrap();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x80;
        fs::write(&checkpoint, &flipped).unwrap();
        assert_eq!(damage(&dir, &format!("byte {at}")).0, "checkpoint-000000000000000c.ckpt");
        fs::write(&checkpoint, &bytes[..at]).unwrap();
        assert_eq!(damage(&dir, &format!("cut at {at}")).0, "checkpoint-000000000000000c.ckpt");
    }
    restore(&dir, &after);
    fs::write(&checkpoint, [bytes.as_slice(), b"x"].concat()).unwrap();
    damage(&dir, "a byte too many");
}

#[tokio::test]
async fn a_missing_file_is_damage() {
    let (temporary, _, states) = with_checkpoint().await;
    let dir = temporary.path().join("store");
    for state in &states {
        for name in state.keys().filter(|name| name.starts_with("log-") || name.starts_with("checkpoint-")) {
            restore(&dir, state);
            fs::remove_file(dir.join(name)).unwrap();
            damage(&dir, &format!("{name} is missing"));
        }
    }
}

#[tokio::test]
async fn a_crash_at_any_point_of_a_checkpoint_loses_nothing() {
    let (temporary, expected, [before, after]) = with_checkpoint().await;
    let dir = temporary.path().join("store");
    let is_new = |name: &str| !before.contains_key(name);
    let checkpoint = after.keys().find(|name| name.starts_with("checkpoint-")).unwrap();
    let check = async |what: &str| {
        let store = Embedded::open(&dir, small()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(records(&store).await, expected, "{what}");
        assert_eq!(store.revision(), 12, "{what}");
        drop(store);
        assert!(named(&dir, "").iter().all(|path| path.extension().is_none_or(|ext| ext != "tmp")), "{what}");
    };
    // The log was closed, and the checkpoint is written up to some byte.
    let mut state = before.clone();
    state.extend(
        after.iter().filter(|(name, _)| name.starts_with("log-") && is_new(name)).map(|(n, b)| (n.clone(), b.clone())),
    );
    restore(&dir, &state);
    check("after closing the log").await;
    for bytes in 0..=after[checkpoint].len() {
        restore(&dir, &state);
        fs::write(dir.join(format!("{checkpoint}.tmp")), &after[checkpoint][..bytes]).unwrap();
        check(&format!("after {bytes} bytes")).await;
    }
    // It was renamed, and of the older files some are deleted: any of them, because the order is not durable.
    state.insert(checkpoint.clone(), after[checkpoint].clone());
    let old: Vec<&String> =
        before.keys().filter(|name| name.starts_with("log-") && !after.contains_key(*name)).collect();
    assert!(old.len() >= 3);
    for deleted in 0..1u32 << old.len() {
        restore(&dir, &state);
        for (bit, name) in old.iter().enumerate() {
            if deleted & (1 << bit) != 0 {
                fs::remove_file(dir.join(name)).unwrap();
            }
        }
        check(&format!("after deleting {deleted:b}")).await;
        assert_eq!(named(&dir, "log-").len(), 1, "what the checkpoint replaced is removed");
    }
}

#[tokio::test]
async fn a_value_that_rots_under_a_running_store_is_reported_and_not_copied() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let (store, held) = open_with_master(dir, one_log()).await;
    store.commit(&held, &[put("/a", "precious"), put("/b", "other")]).await.unwrap();
    let log = named(dir, "log-")[0].clone();
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.windows(8).position(|window| window == b"precious").unwrap();
    bytes[at] ^= 1;
    fs::write(&log, &bytes).unwrap();
    for error in [store.get("/a").await.unwrap_err(), store.checkpoint().await.unwrap_err()] {
        assert!(error.to_string().contains(&format!("damaged at byte {at}")), "{error}");
    }
    assert!(store.get("/b").await.unwrap().is_some(), "the other records stay readable");
    assert!(named(dir, "checkpoint-").is_empty(), "no checkpoint and no unfinished one is left");
    store.commit(&held, &[put("/c", "commits go on")]).await.unwrap();
}

const KILLED_DIR: &str = "STORE_TEST_KILLED_DIR";

/// The other half of the next test: writes for ever, and says what was acknowledged.
#[tokio::test]
async fn the_writer_that_is_killed() {
    let Ok(dir) = std::env::var(KILLED_DIR) else { return };
    let options = Options { segment_bytes: 20_000, checkpoint_min_bytes: 1, ..small() };
    let (store, held) = open_with_master(Path::new(&dir), options).await;
    loop {
        let next = store.revision() + 1;
        let revision = store.commit(&held, &[put(&format!("/{}", next % 50), &format!("{next:0200}"))]).await.unwrap();
        println!("acknowledged {revision}");
    }
}

#[tokio::test]
async fn a_killed_writer_loses_nothing_it_acknowledged() {
    let temporary = tempfile::tempdir().unwrap();
    let mut total = 0;
    for round in 1..=4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::the_writer_that_is_killed", "--nocapture", "--test-threads=1"])
            .env(KILLED_DIR, temporary.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let target = total + 150 * round;
        let mut acknowledged = 0;
        for line in lines {
            let line = line.unwrap();
            // The test harness may print its own words on the same line.
            let Some((_, revision)) = line.split_once("acknowledged ") else { continue };
            acknowledged = revision.trim().parse().unwrap();
            if acknowledged >= target {
                // Lines already in the pipe are still read: they were acknowledged too.
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(acknowledged >= target, "the writer ended by itself");
        let store = Embedded::open(temporary.path(), small()).unwrap();
        assert!(store.revision() >= acknowledged, "{} < {acknowledged}", store.revision());
        total = store.revision();
        for (key, value) in records(&store).await {
            let newest: u64 = std::str::from_utf8(&value).unwrap().parse().unwrap();
            assert_eq!(key, format!("/{}", newest % 50));
            assert!(newest + 50 > total, "{key} holds revision {newest} of {total}");
        }
    }
}
