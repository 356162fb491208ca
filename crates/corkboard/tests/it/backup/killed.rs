//! Restores that are killed, and servers that find what they left.

use std::path::Path;

use rustix::process::Signal;
use store::embedded::{Embedded, Options};
use store::{Step, Store};
use tempfile::TempDir;

use super::{configured, contents, done, fails, stop};
use crate::program::{Background, Server, TASK, program, run, utf8};

const RECORDS: usize = 20_000;
const RECORD_BYTES: usize = 2_000;
/// In hundredths of what a whole restore writes.
const MOMENTS: [u64; 4] = [0, 20, 60, 95];

/// A backup that takes a while to restore: the store of a server, with what an old migration left beside it.
fn large_backup(dir: &Path) -> String {
    let mut server = Server::plain();
    done(server.call(&["create-task", TASK]));
    stop(&mut server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Embedded::open(server.dir.path().join("board"), Options::default()).unwrap();
        let held = store.campaign("test").await.unwrap();
        let steps: Vec<Step> = (0..RECORDS / 100)
            .map(|step| {
                let mut puts = Step::default();
                (0..100)
                    .for_each(|at| puts.put(format!("/v1/task/{:05}", step * 100 + at), vec![at as u8; RECORD_BYTES]));
                puts
            })
            .collect();
        store.commit(&held, &steps).await.unwrap();
    });
    let file = dir.join("board.bak");
    let config = server.dir.path().join("board.toml");
    done(run(&["backup", utf8(&file), "--config", utf8(&config)]));
    utf8(&file).to_owned()
}

fn bytes_in(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|file| file.len()).sum()
}

#[test]
fn a_restore_that_is_killed_is_refused_by_servers_and_completed_by_the_next() {
    let dir = TempDir::new().unwrap();
    let file = large_backup(dir.path());
    let whole = contents(Path::new(&file));
    let mut half = 0;
    for moment in MOMENTS {
        let site = TempDir::new().unwrap();
        let (board, config) = (site.path().join("board"), configured(site.path(), ""));
        let mut restore = Background::start(&mut program(&["restore", &file, "--config", &config]));
        // The reserve of a new store is a MiB, which the first log comes after.
        let enough = 1_100_000 + whole.summary.bytes * moment / 100;
        while bytes_in(&board) < enough && !restore.has_ended() {
            std::thread::yield_now();
        }
        restore.signal(Signal::KILL);
        restore.wait();
        let refused = run(&["migrate", "status", "--config", &config]);
        if refused.code != 0 && !refused.stderr.contains("the store is empty") {
            half += 1;
            fails(&refused, 5, "`corkboard restore FILE --config CONFIG`");
            fails(&run(&["bbs", "--config", &config]), 5, &whole.summary.sha256);
            fails(&run(&["backup", utf8(&site.path().join("bak")), "--config", &config]), 4, "is being restored");
        }
        done(run(&["restore", &file, "--config", &config]));
        let again = site.path().join("again.bak");
        done(run(&["backup", utf8(&again), "--config", &config]));
        let again = contents(&again);
        assert_eq!((again.summary.records, &again.versions), (whole.summary.records, &whole.versions), "{moment}");
        let server = Server::start(site, "http", "", &[]);
        assert!(done(server.call(&["tasks"])).contains("once"));
    }
    assert!(half >= 2, "only {half} of the restores were killed in their middle");
}
