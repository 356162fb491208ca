//! A key whose bytes are lost: a server that still has it leaves it behind, or an operator gives it up by name. And what was
//! stored before a rotation is not left lying in the files of the store.

use std::path::Path;
use std::time::Duration;

use super::site::Site;
use crate::program::{LRP, TASK};

const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LOOKS_MAX: usize = 1_500;

#[test]
fn a_server_that_still_has_a_lost_key_leaves_it_behind() {
    let site = Site::new();
    site.use_keys(&["A"]);
    let server = site.start();
    server.done(&["create-task", TASK]);
    server.settled();
    std::fs::remove_file(site.path("keys/A")).unwrap();
    site.use_keys(&["B"]);
    let refused = server.call(&["keys", "rotate"]);
    assert_eq!(refused.code, 8, "{refused:?}");
    server.done(&["keys", "rotate", "--keep-missing", "--watch"]);
    let status = server.done(&["keys", "status"]);
    assert!(status.contains("A: 0 records, safe to remove"), "{status}");
    server.stop();
    let server = site.start();
    server.done(&["task", "once"]);
    server.stop();
}

#[test]
fn a_lost_key_is_given_up_by_name_and_its_records_are_kept() {
    let site = Site::new();
    site.use_keys(&["A"]);
    let server = site.start();
    server.done(&["create-task", TASK]);
    server.settled();
    let running = server.call(&["keys", "forget", "A", "--yes"]);
    assert!(running.code == 3 && running.stderr.contains("--keep-missing"), "{running:?}");
    server.stop();
    let known = site.alone(&["keys", "forget", "A", "--yes"]);
    assert!(known.code == 4 && known.stderr.contains("is configured here, so it is not lost"), "{known:?}");

    std::fs::rename(site.path("keys/A"), site.path("keys/lost")).unwrap();
    site.use_keys(&["B"]);
    assert_eq!(site.refused().code, 8);
    let nobody = site.alone(&["keys", "forget", "C", "--yes"]);
    assert!(nobody.code == 4 && nobody.stderr.contains("the store knows no key C"), "{nobody:?}");
    let asked = site.alone(&["keys", "forget", "A"]);
    assert!(asked.code != 0, "nobody typed the name: {asked:?}");
    assert_eq!(site.refused().code, 8, "nothing was changed");
    let given_up = site.alone(&["keys", "forget", "A", "--yes"]);
    assert_eq!(given_up.code, 0, "{given_up:?}");

    let server = site.start();
    server.done(&["create-desired-lrp", LRP]);
    assert_eq!(server.call(&["task", "once"]).code, 4, "it cannot be read");
    let listed = server.done(&["quarantine", "list"]);
    assert!(listed.contains("/task/once") && listed.contains("key A"), "{listed}");
    let status = server.call(&["keys", "status", "--watch"]);
    assert_eq!(status.code, 12, "{status:?}");
    assert!(!status.stdout.contains("A: 0 records, safe to remove"), "{status:?}");

    // The key turns up after all.
    std::fs::rename(site.path("keys/lost"), site.path("keys/A")).unwrap();
    site.use_keys(&["B", "A"]);
    server.done(&["keys", "rotate", "--watch"]);
    server.done(&["quarantine", "retry", "--all"]);
    server.done(&["task", "once"]);
    server.settled();
    let status = server.done(&["keys", "status"]);
    assert!(status.contains("A: 0 records, safe to remove"), "{status}");
    server.stop();
}

/// A file may go while this looks.
fn files_hold(dir: &Path, needle: &[u8]) -> bool {
    let files = std::fs::read_dir(dir).unwrap().filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
    files.into_iter().any(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
}

#[test]
fn what_was_stored_before_is_gone_from_the_files_when_a_rotation_has_ended() {
    let site = Site::new();
    site.configure("");
    let server = site.start();
    server.done(&["create-task", TASK]);
    server.stop();
    let dir = site.path("board");
    let plain = b"00031794700800:";
    assert!(files_hold(&dir, plain), "a record in plain has its header");

    site.use_keys(&["A"]);
    let server = site.start();
    server.settled();
    // It settles first and clears up after that; whoever asks sees only the former.
    let mut looks = 0;
    while files_hold(&dir, plain) {
        looks += 1;
        assert!(looks < LOOKS_MAX, "former bytes stay in the files");
        std::thread::sleep(LOOK_AGAIN);
    }
    server.stop();

    site.use_keys(&["B", "A"]);
    assert!(files_hold(&dir, b"0007A:"));
    assert_eq!(site.alone(&["keys", "rotate"]).code, 0);
    assert!(!files_hold(&dir, b"0007A:") && files_hold(&dir, b"0007B:"));
}
