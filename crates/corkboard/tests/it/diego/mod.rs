//! In the place of Diego's BBS: with its file, under its name, with its command line and its logs.

mod logs;
mod site;

use expect_test::{Expect, expect};
use rustix::process::Signal;
use serde_json::json;

use crate::program::{finish, program, utf8};
use site::{SECRETS, Site};

/// As diego-release starts it: a link called `bbs`, and Go's single dash.
#[test]
fn it_runs_unchanged_under_the_name_of_diegos_program() {
    let site = Site::new(&json!({}));
    let mut bbs = site.start(&[&format!("-config={}", utf8(&site.file()))]);
    let started = bbs.lines_until("bbs.started");
    // What the start check compares with the owner of the port.
    assert_eq!(std::fs::read_to_string(format!("/proc/{}/comm", bbs.id())).unwrap(), "bbs\n");
    let data = &started.last().unwrap()["data"];
    let api = format!("https://{}", data["api"].as_str().unwrap());
    let mut set = program(&["set-domain", "d", "-t", "60s", "--bbsURL", &api]);
    let outcome = finish(set.args(site.pki.client_flags()));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let health = data["health"].as_str().unwrap();
    assert!(site::get(health, "/ping").starts_with("HTTP/1.1 200 "), "the start check of diego-release asks for it");

    bbs.signal(Signal::TERM);
    let ended = bbs.rest();
    assert_eq!(ended.last().unwrap()["message"], "bbs.exited");
    assert_eq!(bbs.end(), (Some(0), String::new()));

    // The directory stands in the file, so that errands find it too, and what was written there is under the key of the file.
    let status = finish(&mut program(&["keys", "status", "--config", utf8(&site.file())]));
    assert_eq!(status.code, 0, "{}{}", status.stdout, status.stderr);
    assert!(status.stdout.contains("key-1"), "{}", status.stdout);
}

#[test]
fn the_flag_names_the_directory_where_the_file_does_not_and_wins_where_it_does() {
    let site = Site::new(&json!({}));
    let other = site.pki.path("other");
    let mut bbs = site.start(&["-config", utf8(&site.file()), "--store", utf8(&other)]);
    bbs.lines_until("bbs.started");
    assert!(other.is_dir() && !site.pki.path("board").exists());
    bbs.signal(Signal::TERM);
    bbs.rest();
    assert_eq!(bbs.end().0, Some(0));
}

/// As Diego's operators change a key: in the file. The flag is remembered, since the file does not have the directory.
#[test]
fn a_rotation_reads_the_file_again() {
    let site = Site::new(&json!({ "corkboard_store": null }));
    let mut bbs = site.start(&["-config", utf8(&site.file()), "--store", utf8(&site.pki.path("board"))]);
    let started = bbs.lines_until("bbs.started");
    let api = format!("https://{}", started.last().unwrap()["data"]["api"].as_str().unwrap());
    let text = std::fs::read_to_string(site.file()).unwrap();
    let text = text.replace("\"active_key_label\": \"key-1\"", "\"active_key_label\": \"key_2\"");
    let changed =
        text.replace("\"encryption_keys\": {", "\"encryption_keys\": { \"key_2\": \"another one of some length\",");
    std::fs::write(site.file(), changed).unwrap();
    let mut rotate = program(&["keys", "rotate", "--watch", "--bbsURL", &api]);
    let outcome = finish(rotate.args(site.pki.client_flags()));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.contains("key_2"), "{outcome:?}");
}

#[test]
fn what_is_wrong_is_said_on_stderr_and_in_the_log() {
    let site = Site::new(&json!({ "corkboard_store": null, "log_level": "loud", "kick_task_duration": 30 }));
    let mut bbs = site.start(&["-config", utf8(&site.file())]);
    let lines = bbs.rest();
    let last = lines.last().unwrap();
    assert_eq!((&last["message"], &last["log_level"]), (&json!("bbs.invalid-configuration"), &json!(3)));
    let (code, stderr) = bbs.end();
    assert_eq!((code, last["data"]["error"].as_str().unwrap()), (Some(3), stderr.trim_end()));
    expect![[r#"
        DIR/bbs.json:14: kick_task_duration: is a number; expected a duration in quotes, such as "10s"
        DIR/bbs.json:20: log_level: "loud" is not known; expected "debug" or "info" or "error" or "fatal"
        DIR/bbs.json: corkboard_store: is missing, and so is --store. The SQL database is not used; records are kept in a directory of this machine. Say which: `corkboard bbs --config DIR/bbs.json --store DIR`, or "corkboard_store": "DIR" in this file
        3 problems; nothing was started
    "#]].assert_eq(&site.masked(&stderr));
}

fn check(site: &Site, flags: &[&str], expected_code: i32, expected: &Expect) {
    let mut command = program(&["config", "check", utf8(&site.file())]);
    let outcome = finish(command.args(flags));
    let text = site.masked(&format!("{}{}", outcome.stdout, outcome.stderr));
    for secret in SECRETS {
        assert!(!text.contains(secret), "{text}");
    }
    expected.assert_eq(&text);
    assert_eq!(outcome.code, expected_code);
}

#[test]
fn a_check_says_what_is_used_ignored_and_unknown() {
    let changes =
        json!({ "access_log_path": "/a", "lock_ttl": "15s", "from_the_future": 1, "locket_address": "127.0.0.1:1" });
    let site = Site::new(&changes);
    check(
        &site,
        &[],
        0,
        &expect![[r#"
            DIR/bbs.json: no problems
              node        bbs-0
              API         127.0.0.1:0 (https, client certificates required)
              health      127.0.0.1:0 (plain http)
              store       embedded, DIR/board
              identity    DIR/board.identity
              migration   online, starts by itself, ends by itself
              encryption  key key-1 seals, key-1 can be opened; rotation online
              auctioneer  http://127.0.0.1:1
              converge    every 30s
              tasks       offered again after 30s, failed after 30m or more than 3 rejections, deleted 2m after completion
              locket      127.0.0.1:1, as bbs-0
              callbacks   how a task ended; it is deleted when the receiver has answered
            This is a file of Diego's BBS. Its postgres database is not touched.
              used        active_key_label, auctioneer_address, ca_file, cert_file, corkboard_store, encryption_keys, health_address, key_file, listen_address, locket_address, locket_ca_cert_file, locket_client_cert_file, locket_client_key_file, log_level, session_name, uuid
              ignored     access_log_path (no access log), database_connection_string (no SQL), database_driver (no SQL), lock_ttl (fixed), report_interval (metrics are pulled)
              unknown     from_the_future
        "#]],
    );
}

#[test]
fn a_check_takes_the_flag_too() {
    let site = Site::new(&json!({ "corkboard_store": null }));
    check(
        &site,
        &["--store", "/nowhere/board"],
        3,
        &expect![[r#"
        DIR/bbs.json: --store: the directory above, /nowhere, does not exist; create it, or is a disk not mounted?
        1 problem; nothing was started
    "#]],
    );
}

#[test]
fn the_flag_is_not_for_our_own_file() {
    let site = Site::new(&json!({}));
    std::fs::write(site.file(), "[store]\ndir = \"board\"\n").unwrap();
    check(
        &site,
        &["--store", "other"],
        3,
        &expect![[r#"
        --store is for the configuration file of Diego's BBS, and DIR/bbs.json is one of Corkboard's own: its table [store] says where the records are. Nothing was started
    "#]],
    );
}
