//! Backups that are taken while somebody writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use store::backup::{Parser, Part};
use store::embedded::{Embedded, Options};
use store::etcd::Etcd;
use store::memory::Memory;
use store::{Step, Store};

use super::{VERSION, contents_of, file_of};
use crate::files::{Records, small};

const BACKUPS: usize = 12;
const KEYS: u64 = 60;

fn records_of(file: &[u8]) -> Records {
    let mut parser = Parser::default();
    let mut records = Records::new();
    parser.feed(file);
    while let Some(part) = parser.part().unwrap() {
        if let Part::Records(found) = part {
            records.extend(found.into_iter().map(|(key, value)| (key, value.to_vec())));
        }
    }
    records
}

/// Every step overwrites two records with its number and deletes or makes a third, so that half a step would show.
fn step(n: u64) -> Step {
    let mut step = Step::default();
    step.put(format!("/v1/a/{:02}", n % KEYS), n.to_string());
    step.put(format!("/v1/z/{:02}", n % KEYS), n.to_string());
    match n % 3 {
        0 => step.delete(format!("/v1/m/{:02}", n % KEYS)),
        _ => step.put(format!("/v1/m/{:02}", n % KEYS), vec![n as u8; 500]),
    }
    step
}

/// A backup equals the state at its revision, exactly, and nothing that was confirmed before it began is missing.
async fn check(store: Arc<dyn Store>) {
    let held = store.campaign("test").await.unwrap();
    let mut first = Step::default();
    first.put(VERSION.0, VERSION.1);
    let start = store.commit(&held, &[first]).await.unwrap();
    let mut state: Records = BTreeMap::from([(VERSION.0.to_owned(), VERSION.1.as_bytes().to_vec())]);
    let states = Arc::new(Mutex::new(BTreeMap::from([(start, state.clone())])));
    let (confirmed, over) = (Arc::new(AtomicU64::new(start)), Arc::new(AtomicBool::new(false)));
    let writing = {
        let (store, states, confirmed, over) = (store.clone(), states.clone(), confirmed.clone(), over.clone());
        tokio::spawn(async move {
            let mut n = 0;
            while !over.load(Ordering::Relaxed) {
                let steps: Vec<Step> = (0..3).map(|at| step(n + at)).collect();
                n += 3;
                for (at, step) in steps.iter().enumerate() {
                    for op in &step.ops {
                        match op {
                            store::Op::Put { key, value } => state.insert(key.clone(), value.to_vec()),
                            store::Op::Delete { key } => state.remove(key),
                        };
                    }
                    let revision = confirmed.load(Ordering::Acquire) + 1 + at as u64;
                    states.lock().unwrap().insert(revision, state.clone());
                }
                let revision = store.commit(&held, &steps).await.unwrap();
                confirmed.store(revision, Ordering::Release);
                tokio::task::yield_now().await;
            }
        })
    };
    let mut seen = Vec::new();
    for _ in 0..BACKUPS {
        let before = confirmed.load(Ordering::Acquire);
        let file = file_of(&store).await;
        let revision = contents_of(&file).header.revision;
        assert!(revision >= before, "what was confirmed as {before} is not in the backup of {revision}");
        assert!(records_of(&file) == states.lock().unwrap()[&revision], "the backup of {revision} is another state");
        seen.push(revision);
        while confirmed.load(Ordering::Acquire) <= revision {
            tokio::task::yield_now().await;
        }
    }
    over.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    assert!(
        seen.windows(2).all(|two| two[0] <= two[1]) && seen[0] < seen[BACKUPS - 1],
        "nothing was written: {seen:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_memory() {
    check(Arc::new(Memory::new())).await;
}

/// Checkpoints run all the time and remove the files that the backups read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 20_000, checkpoint_min_bytes: 1, ..small() };
    check(Arc::new(Embedded::open(dir.path(), options).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_etcd() {
    let cluster = rig::etcd::Cluster::start(rig::etcd::Options::default());
    check(Arc::new(Etcd::open(crate::etcd::options(&cluster)).await.unwrap())).await;
}
