//! The life of keys with real servers: made, used, followed by others, and taken away; also too early.

use expect_test::expect;
use rustix::process::Signal;

use super::site::Site;
use crate::program::{Background, LRP, TASK, finish, program, run, utf8};
use crate::terminal::Terminal;

#[test]
fn a_key_is_made_used_and_replaced_under_a_running_server() {
    let site = Site::new();
    site.use_keys(&["A"]);
    let server = site.start();
    server.done(&["create-desired-lrp", LRP]);
    server.done(&["create-task", TASK]);
    server.settled();
    let before = server.done(&["desired-lrp", "hello"]);
    let report = server.done(&["keys", "verify"]);
    assert!(report.starts_with("All ") && report.contains(" can be opened."), "{report}");

    site.use_keys(&["B", "A"]);
    let begun = server.done(&["keys", "rotate"]);
    assert!(begun.starts_with("records are being brought under key B\n"), "{begun}");
    server.settled();
    let status = server.done(&["keys", "status"]);
    assert!(status.contains("\n  A: 0 records, safe to remove\n"), "{status}");
    assert!(status.contains("  all records are under key B\n"), "{status}");
    let again = server.done(&["keys", "rotate", "--watch"]);
    assert!(again.starts_with("all records are under key B already; there is nothing to do\n"), "{again}");

    // What is not needed any more may go, under the running server and at the next start.
    site.use_keys(&["B"]);
    server.done(&["keys", "rotate", "--watch"]);
    std::fs::remove_file(site.path("keys/A")).unwrap();
    server.stop();
    let server = site.start();
    assert_eq!(server.done(&["desired-lrp", "hello"]), before);
    let health = format!("http://{}", server.health);
    let json = server.done(&["keys", "status", "--json", "--healthURL", &health]);
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&status["state"], &status["marker"]), (&"settled".into(), &"B".into()), "{status}");
    server.stop();
}

#[test]
fn a_key_that_is_needed_is_missed_by_name() {
    let site = Site::new();
    site.use_keys(&["A"]);
    let server = site.start();
    server.done(&["create-task", TASK]);
    server.settled();

    site.use_keys(&["B"]);
    let refused = server.call(&["keys", "rotate"]);
    assert_eq!(refused.code, 8, "{refused:?}");
    assert!(
        refused.stderr.contains("records are sealed with key A, and the configuration no longer has it"),
        "{refused:?}"
    );
    server.done(&["task", "once"]);
    server.stop();

    let early = site.refused();
    assert_eq!(early.code, 8, "{early:?}");
    let sentence = "all records of the store are sealed with key A, and this node has only B. Nothing was changed and the lock \
                    is given back. Add key A to [encryption.keys] of this node (it need not be active), or start a node that \
                    has it";
    assert!(early.stderr.contains(sentence), "{}", early.stderr);
    for command in ["status", "rotate", "verify"] {
        let alone = site.alone(&["keys", command]);
        assert_eq!((alone.code, alone.stderr), (8, format!("corkboard: {sentence}\n")), "{command}");
    }
    site.configure("");
    let without = site.refused();
    assert!(without.code == 8 && without.stderr.contains("this node has no key at all"), "{without:?}");
    assert_eq!(site.alone(&["keys", "status"]).code, 8);
    // Another key of the same name is not the same key.
    std::fs::rename(site.path("keys/B"), site.path("keys/A")).unwrap();
    site.use_keys(&["A"]);
    let other = site.refused();
    assert!(other.code == 8 && other.stderr.contains("the bytes differ"), "{other:?}");
}

#[test]
fn a_configuration_that_cannot_be_read_changes_nothing() {
    let site = Site::new();
    site.use_keys(&["A"]);
    let server = site.start();
    server.settled();
    for (tables, expected) in [
        ("[encryption]\nactive = \"B\"\n[encryption.keys]\nA = { file = \"keys/A\" }\n", "\"B\" is not among the keys"),
        ("[encryption\n", "unclosed table"),
        ("", "has no table [encryption] any more"),
        ("[encryption]\nactive = \"A\"\n[encryption.keys]\nA = { file = \"keys/nowhere\" }\n", "cannot read"),
    ] {
        site.configure(tables);
        let refused = server.call(&["keys", "rotate", "--watch"]);
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
        assert!(refused.stderr.contains("The keys in use stay as they are."), "{refused:?}");
    }
    assert!(server.done(&["keys", "status"]).contains("all records are under key A"));
    server.stop();
}

#[test]
fn without_a_server_the_store_is_worked_on_directly() {
    let site = Site::new();
    site.use_keys(&["A"]);
    let empty = site.alone(&["keys", "rotate"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (0, "the store is empty\n"), "{empty:?}");
    let server = site.start();
    server.done(&["create-desired-lrp", LRP]);
    server.settled();
    let held = site.alone(&["keys", "status"]);
    assert_eq!(held.code, 5, "a server uses the store: {held:?}");
    server.stop();

    let status = site.alone(&["keys", "status"]);
    assert!(status.code == 0 && status.stdout.contains("all records are under key A"), "{status:?}");
    site.use_keys(&["B", "A"]);
    let unfinished = site.alone(&["keys", "status"]);
    assert!(unfinished.code == 11, "{unfinished:?}");
    assert!(unfinished.stdout.ends_with("Next: corkboard keys rotate --config FILE\n"), "{unfinished:?}");
    let rotated = site.alone(&["keys", "rotate"]);
    assert_eq!(rotated.code, 0, "{rotated:?}");
    assert!(rotated.stdout.contains("\n  A: 0 records, safe to remove\n"), "{rotated:?}");
    let verified = site.alone(&["keys", "verify", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&verified.stdout).unwrap();
    let found = &document["verification"];
    assert_eq!((verified.code, &found["broken_total"]), (0, &0.into()), "{verified:?}");
    assert_eq!(found["records"], found["keys"]["B"]["records"], "{verified:?}");
    let mut command = program(&["keys", "verify", "--config", utf8(&site.path("board.toml"))]);
    let (shown, code) = Terminal::run(&mut command).end();
    assert!(code == 0 && shown.contains(" records (") && shown.contains(") can be opened."), "{shown:?}");

    site.use_keys(&["B"]);
    let server = site.start();
    server.done(&["desired-lrp", "hello"]);
    server.stop();
}

/// A store that was never encrypted gets under its first key while it is served.
#[test]
fn first_encryption_needs_nothing_but_a_key() {
    let site = Site::new();
    site.configure("");
    let server = site.start();
    server.done(&["create-desired-lrp", LRP]);
    assert!(server.done(&["keys", "status"]).starts_with("Encryption at rest: off\n"));
    for command in ["rotate", "verify"] {
        let off = server.call(&["keys", command]);
        assert!(off.code == 4 && off.stderr.contains("no encryption is configured"), "{off:?}");
    }
    server.stop();
    assert!(site.alone(&["keys", "status"]).stdout.starts_with("Encryption at rest: off\n"));
    assert_eq!(site.alone(&["keys", "verify"]).code, 4);
    site.use_keys(&["A"]);
    let server = site.start();
    server.settled();
    let report = server.done(&["keys", "verify"]);
    assert!(!report.contains("not encrypted"), "{report}");
    server.stop();
}

#[test]
fn up_takes_keys_as_flags() {
    let site = Site::new();
    site.use_keys(&["A", "B"]);
    let flags = |names: &[&str], more: &[&str]| {
        let mut command =
            program(&["up", "--board-only", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--dir"]);
        command.arg(site.path("board"));
        for name in names {
            command.args(["--encryption-key", &format!("{name}={}", utf8(&site.path(&format!("keys/{name}"))))]);
        }
        command.args(more);
        command
    };
    let mut server = Background::start(&mut flags(&["A"], &[]));
    let api = server.lines_until(|line| line.starts_with("  API")).pop().unwrap();
    let url = api.trim_start_matches("  API").trim().to_owned();
    let watched = run(&["keys", "status", "--watch", "--bbsURL", &url]);
    assert!(watched.code == 0 && watched.stdout.contains(r#""marker":"A""#), "{watched:?}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let too_early = finish(&mut flags(&["B"], &[]));
    assert!(too_early.code == 8 && too_early.stderr.contains("sealed with key A"), "{too_early:?}");
    let which = finish(&mut flags(&["A", "B"], &[]));
    expect![[r#"
        corkboard: --active-key: is missing, and there are several keys; expected one of A, B
    "#]]
    .assert_eq(&which.stderr);
    assert_eq!(which.code, 3);
}
