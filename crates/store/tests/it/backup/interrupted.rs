//! Restores that end too early, at every write, and stores that begin too early.

use std::sync::Arc;

use store::embedded::Embedded;
use store::memory::Memory;
use store::root::read_root;
use store::seal::ledger::read_ledger;
use store::{Step, Store};

use super::{VERSION, contents_of, file_of, fill, is_half_restored, try_restore};
use crate::files::{open_with_master, put, records, restore, small, snapshot};

/// Small enough that every write can be the last.
async fn backup(name: &str) -> Vec<u8> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let held = store.campaign("test").await.unwrap();
    let mut steps = Vec::new();
    for n in 0..300 {
        steps.push(put(&format!("/v1/task/{n:03}"), name));
    }
    steps.push(put(VERSION.0, VERSION.1));
    steps.push(put("/cluster-id", name));
    store.commit(&held, &steps).await.unwrap();
    file_of(&store).await
}

#[tokio::test]
async fn wherever_it_ends_no_server_takes_the_store_and_the_next_attempt_completes_it() {
    let (file, other) = (backup("one").await, backup("other").await);
    let whole = Memory::new();
    try_restore(&whole, &file, false).await.unwrap();
    let (expected, writes) = (records(&whole).await, whole.writes());
    assert!(writes > 4, "{writes}");
    for (write, after) in (1..=writes).flat_map(|write| [(write, false), (write, true)]) {
        let store = Memory::new();
        if after {
            store.fail_after(write);
        } else {
            store.fail_before(write);
        }
        let error = try_restore(&store, &file, false).await.unwrap_err().to_string();
        assert!(error.contains("Give the same command again"), "{error}");
        let store = store.reopen();
        let root = read_root(&store).await;
        let is_done = after && write == writes;
        match (root, records(&store).await.len()) {
            (Ok(root), 0) => assert!(root.empty && write == 1),
            (Ok(_), _) => assert!(is_done, "write {write}: a store that is not whole was taken for one"),
            (Err(error), _) => assert!(is_half_restored(&error) && !is_done, "write {write}: {error}"),
        }
        if is_done || records(&store).await.is_empty() {
            continue;
        }
        assert!(is_half_restored(&read_ledger(&store).await.unwrap_err()));
        let error = try_restore(&store, &other, false).await.unwrap_err().to_string();
        assert!(error.contains("or add --force to start over with this one"), "{error}");
        // What the first attempt left behind beside its records goes.
        store.slip_in("/v1/task/stray", "x");
        assert!(try_restore(&store, &file, false).await.unwrap().started_over);
        assert_eq!(records(&store).await, expected, "write {write}");
        read_root(&store).await.unwrap();
    }
}

#[tokio::test]
async fn another_file_takes_over_by_force() {
    let (file, other) = (backup("one").await, backup("other").await);
    let store = Memory::new();
    store.fail_after(2);
    try_restore(&store, &file, false).await.unwrap_err();
    let store = store.reopen();
    try_restore(&store, &other, true).await.unwrap();
    assert_eq!(read_root(&store).await.unwrap().cluster_id.as_deref(), Some("other"));
}

#[tokio::test]
async fn a_file_that_changes_under_the_restore_does_not_become_a_store() {
    let (file, other) = (backup("one").await, backup("two").await);
    let store = Memory::new();
    let held = store.campaign("test").await.unwrap();
    let contents = contents_of(&file);
    let target = store::backup::Target { store: &store, held: &held, contents: &contents, force: false, now_ns: 1 };
    for wrong in [&other[..], &file[..file.len() - 9], b""] {
        let error = store::backup::restore(target, &mut std::io::Cursor::new(wrong), |_| {}).await.unwrap_err();
        assert!(error.to_string().contains("and no server will use it"), "{error}");
        assert!(is_half_restored(&read_root(&store).await.unwrap_err()));
    }
    store::backup::restore(target, &mut std::io::Cursor::new(&file), |_| {}).await.unwrap();
    read_root(&store).await.unwrap();
}

/// Beginning at another revision replaces files; a crash may come between any two of them.
#[tokio::test]
async fn a_directory_whose_beginning_was_interrupted_is_empty_and_can_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let (store, held) = open_with_master(dir.path(), small()).await;
    let before = snapshot(dir.path());
    store.begin_after(&held, 1_000).await.unwrap();
    let after = snapshot(dir.path());
    drop((store, held));
    let new: Vec<&String> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    assert_eq!(new.len(), 2, "a checkpoint and a log: {new:?}");
    for files in [0, 1, 2] {
        let mut state = before.clone();
        state.remove("FORMAT");
        state.extend(new[..files].iter().map(|name| ((*name).clone(), after[*name].clone())));
        restore(dir.path(), &state);
        let (store, held) = open_with_master(dir.path(), small()).await;
        assert_eq!((store.revision(), records(&store).await.len()), (0, 0), "{files} new files");
        store.begin_after(&held, 2_000).await.unwrap();
        assert_eq!(store.commit(&held, &[Step::default()]).await.unwrap(), 2_001);
        drop((store, held));
        assert_eq!(Embedded::open(dir.path(), small()).unwrap().revision(), 2_001);
    }
    let mut state = after.clone();
    state.extend(
        before.iter().filter(|(name, _)| name.starts_with("log-")).map(|(name, bytes)| (name.clone(), bytes.clone())),
    );
    restore(dir.path(), &state);
    assert_eq!(Embedded::open(dir.path(), small()).unwrap().revision(), 1_000, "the former log had not gone yet");
}

/// Without `FORMAT`, a log that holds something is no beginning, whatever lies beside it.
#[tokio::test]
async fn a_store_that_lost_its_format_is_damaged_and_not_new() {
    let dir = tempfile::tempdir().unwrap();
    let (store, held) = open_with_master(dir.path(), small()).await;
    store.begin_after(&held, 1_000).await.unwrap();
    fill_after(&store, held).await;
    drop(store);
    std::fs::remove_file(dir.path().join("FORMAT")).unwrap();
    let (file, _, what) = crate::files::damage(dir.path(), "no FORMAT");
    assert!(file == "FORMAT" && what.contains("it is missing, although"), "{file}: {what}");
}

async fn fill_after(store: &Embedded, held: store::Mastership) {
    store.resign(held).await.unwrap();
    fill(store).await;
}
