//! `config check`: from a file to the exact words about it.

mod etcd;
mod locket;

use expect_test::{Expect, expect};

use crate::program::{finish, program, run};
use rig::pki::Pki;

/// Checks `text` as `board.toml` in a folder that holds certificates, from within that folder.
fn check(pki: &Pki, text: &str, expected_code: i32, expected: &Expect) {
    std::fs::write(pki.path("board.toml"), text).unwrap();
    let outcome = finish(program(&["config", "check", "board.toml"]).current_dir(pki.dir.path()));
    expected.assert_eq(&format!("{}{}", outcome.stdout, outcome.stderr));
    assert_eq!(outcome.code, expected_code);
}

#[test]
fn files_that_are_fine() {
    let pki = Pki::new();
    check(
        &pki,
        "[store]\ndir = \"board\"\n",
        0,
        &expect![[r#"
            board.toml: no problems
              node        board
              API         127.0.0.1:8889 (plain http)
              health      127.0.0.1:8890 (plain http)
              store       embedded, board
              identity    board.identity
              migration   online, starts by itself, ends by itself
              encryption  none; records are stored as they are
              auctioneer  none; instances wait until a cell claims them
              converge    every 30s
              tasks       offered again after 30s, failed after 30m or more than 3 rejections, deleted 2m after completion
        "#]],
    );
    let tls = Pki::SERVER_TABLE;
    check(
        &pki,
        &format!(
            "node = \"b\"\nlisten = \"0.0.0.0:8889\"\n[store]\ndir = \"/board\"\n{tls}[timing]\nkick_task = \"500ms\"\n"
        ),
        0,
        &expect![[r#"
            board.toml: no problems
              node        b
              API         0.0.0.0:8889 (https, client certificates required)
              health      127.0.0.1:8890 (plain http)
              store       embedded, /board
              identity    /board.identity
              migration   online, starts by itself, ends by itself
              encryption  none; records are stored as they are
              auctioneer  none; instances wait until a cell claims them
              converge    every 30s
              tasks       offered again after 500ms, failed after 30m or more than 3 rejections, deleted 2m after completion
        "#]],
    );
}

#[test]
fn migrations_are_told_in_the_summary() {
    let text = "identity = \"id\"\n[store]\ndir = \"board\"\n[migration]\nmode = \"read-only\"\nstart = \"manual\"\n\
                finalization = \"manual\"\nrecords_per_s_max = 500\nrollback_on_drain_to_version = \"split_desired_lrp\"\n";
    check(
        &Pki::new(),
        text,
        0,
        &expect![[r#"
            board.toml: no problems
              node        board
              API         127.0.0.1:8889 (plain http)
              health      127.0.0.1:8890 (plain http)
              store       embedded, board
              identity    id
              migration   read-only, starts with `corkboard migrate start`, ends with `corkboard migrate finalize`; goes back to data version 1442529338 when stopped
              encryption  none; records are stored as they are
              auctioneer  none; instances wait until a cell claims them
              converge    every 30s
              tasks       offered again after 30s, failed after 30m or more than 3 rejections, deleted 2m after completion
        "#]],
    );
}

#[test]
fn one_mistake_each() {
    let pki = Pki::new();
    let store = "[store]\ndir = \"board\"\n";
    let case =
        |before: &str, after: &str, expected: Expect| check(&pki, &format!("{before}{store}{after}"), 3, &expected);
    case(
        "listen = \"0.0.0.0:8889\"\n",
        "",
        expect![[r#"
        board.toml:1: listen: 0.0.0.0:8889 is not a loopback address, and plain HTTP is served only on loopback; add a table [tls] with ca, cert and key, or listen on 127.0.0.1 or [::1]
        1 problem; nothing was started
    "#]],
    );
    case(
        "listen = \"localhost:8889\"\n",
        "",
        expect![[r#"
        board.toml:1: listen: "localhost:8889" is not an address; expected an IP address and a port, such as "127.0.0.1:8889" or "[::1]:8889"
        1 problem; nothing was started
    "#]],
    );
    case(
        "listen = 8889\n",
        "",
        expect![[r#"
        board.toml:1: listen: is an integer; expected an IP address and a port, such as "127.0.0.1:8889" or "[::1]:8889"
        1 problem; nothing was started
    "#]],
    );
    case(
        "health = \"127.0.0.1:8889\"\n",
        "",
        expect![[r#"
        board.toml:1: health: 127.0.0.1:8889 is also the address of `listen`; expected another port
        1 problem; nothing was started
    "#]],
    );
    case(
        "node = \"\"\n",
        "",
        expect![[r#"
        board.toml:1: node: is empty; leave the key out, or give it a value
        1 problem; nothing was started
    "#]],
    );
    case(
        "nodes = \"a\"\n",
        "",
        expect![[r#"
            board.toml:1: nodes: is not a key; expected one of node, listen, health, advertise, max_task_retries, definitions_kept, identity, standby, store, tls, timing, limits, auctioneer, cells, callbacks, migration, encryption, locket, serve_locket
            1 problem; nothing was started
        "#]],
    );
    case(
        "max_task_retries = -1\n",
        "",
        expect![[r#"
        board.toml:1: max_task_retries: -1 is negative; expected a whole number, 0 or more
        1 problem; nothing was started
    "#]],
    );
    case(
        "advertise = \"https://board.example.org\"\n",
        "",
        expect![[r#"
            board.toml:1: advertise: "https://board.example.org" begins with https://, but this node has no table [tls]; add one, or use http://
            1 problem; nothing was started
        "#]],
    );
    case(
        "advertise = \"http://board.example.org\"\n",
        "",
        expect![[r#"
            board.toml:1: advertise: "http://board.example.org" is plain HTTP to another machine; plain HTTP is only for loopback
            1 problem; nothing was started
        "#]],
    );
    case(
        "",
        "[timing]\nconverge_interval = 30\n",
        expect![[r#"
        board.toml:4: timing.converge_interval: is an integer; expected a duration in quotes, such as "500ms", "30s", "5m" or "2h"
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[timing]\nconverge_interval = \"30\"\n",
        expect![[r#"
        board.toml:4: timing.converge_interval: "30" is not a duration; expected a number and a unit, such as "500ms", "30s", "5m" or "2h"
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[timing]\nconverge_interval = \"0s\"\n",
        expect![[r#"
        board.toml:4: timing.converge_interval: "0s" is zero; expected more
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[limits]\nconnections_max = 0\n",
        expect![[r#"
        board.toml:4: limits.connections_max: 0 is out of range; expected a whole number, 1 or more
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[tls]\n",
        expect![[r#"
        board.toml: tls: is empty; expected ca, cert and key
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\n",
        expect![[r#"
        board.toml: tls.key: is missing; ca, cert and key belong together
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[tls]\nca = \"nowhere.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n",
        expect![[r#"
        board.toml:4: tls.ca: cannot read nowhere.crt: No such file or directory (os error 2)
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"client.key\"\n",
        expect![[r#"
        board.toml:6: tls.key: the key in client.key does not belong to the certificate in server.crt
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[tls]\nca = \"ca.crt\"\ncert = \"server.key\"\nkey = \"server.key\"\n",
        expect![[r#"
        board.toml:5: tls.cert: server.key holds no certificate; expected a PEM section BEGIN CERTIFICATE
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[auctioneer]\nurl = \"https://auctioneer\"\n",
        expect![[r#"
        board.toml:4: auctioneer.url: begins with https://, which needs ca, cert and key in the table [auctioneer]
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[auctioneer]\nurl = \"http://auctioneer\"\nrequire_tls = true\n",
        expect![[r#"
        board.toml:5: auctioneer.require_tls: is true, but `url` begins with http://; expected https://
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[auctioneer]\nurl = \"http://ada:hunter2@auctioneer\"\n",
        expect![[r#"
        board.toml:4: auctioneer.url: holds a user name or a password, which would show up in logs; expected a URL without them
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[auctioneer]\nurl = \"auctioneer:9016\"\n",
        expect![[r#"
        board.toml:4: auctioneer.url: is not the URL of a web server; expected http:// or https:// with a host, such as "https://board.example.org:8889"
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[cells]\nrequire_tls = true\n",
        expect![[r#"
        board.toml:4: cells.require_tls: is true, which needs ca, cert and key in the table [cells]
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[cells]\nfile = \"nowhere.jsonl\"\n",
        expect![[r#"
        board.toml:4: cells.file: cannot read nowhere.jsonl: No such file or directory (os error 2)
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[cells]\nrequire_tls = \"yes\"\n",
        expect![[r#"
        board.toml:4: cells.require_tls: is a string; expected true or false
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        "[callbacks]\nca = \"ca.crt\"\n",
        expect![[r#"
        board.toml: callbacks.cert: is missing; ca, cert and key belong together
        board.toml: callbacks.key: is missing; ca, cert and key belong together
        2 problems; nothing was started
    "#]],
    );
    case(
        "",
        "[callbacks\n",
        expect![[r#"
        board.toml:3: unclosed table, expected `]`
        1 problem; nothing was started
    "#]],
    );
    check(
        &pki,
        "[store]\ndir = \"nowhere/board\"\n",
        3,
        &expect![[r#"
        board.toml:2: store.dir: the directory above, nowhere, does not exist; create it, or is a disk not mounted?
        1 problem; nothing was started
    "#]],
    );
    for (after, expected) in [
        (
            "[migration]\nmode = \"fast\"\n",
            expect![[r#"
            board.toml:4: migration.mode: "fast" is not known; expected "online" or "read-only" or "offline"
            1 problem; nothing was started
        "#]],
        ),
        (
            "[migration]\nstart = true\n",
            expect![[r#"
            board.toml:4: migration.start: is a boolean; expected "auto" or "manual"
            1 problem; nothing was started
        "#]],
        ),
        (
            "[migration]\nfinalization = \"\"\n",
            expect![[r#"
            board.toml:4: migration.finalization: "" is not known; expected "auto" or "manual"
            1 problem; nothing was started
        "#]],
        ),
        (
            "[migration]\nrecords_per_s_max = -1\n",
            expect![[r#"
            board.toml:4: migration.records_per_s_max: -1 is negative; expected a whole number, or 0 for no limit
            1 problem; nothing was started
        "#]],
        ),
        (
            "[migration]\nrollback_on_drain_to_version = 7\n",
            expect![[r#"
            board.toml:4: migration.rollback_on_drain_to_version: 7 is not a data version of this release; expected initial_json (1), protobuf (1441411196), split_desired_lrp (1442529338), lrp_definitions (1794700800)
            1 problem; nothing was started
        "#]],
        ),
        (
            "[migration]\nrollback_on_drain_to_version = \"newest\"\n",
            expect![[r#"
            board.toml:4: migration.rollback_on_drain_to_version: "newest" is neither the number nor the name of a data version; expected initial_json (1), protobuf (1441411196), split_desired_lrp (1442529338), lrp_definitions (1794700800)
            1 problem; nothing was started
        "#]],
        ),
        (
            "[migration]\ncleanup = \"auto\"\n",
            expect![[r#"
            board.toml:4: migration.cleanup: is not a key; expected one of mode, start, finalization, records_per_s_max, rollback_on_drain_to_version
            1 problem; nothing was started
        "#]],
        ),
    ] {
        case("", after, expected);
    }
    case(
        "identity = \"board/identity\"\n",
        "",
        expect![[r#"
        board.toml:1: identity: lies in the directory of the store, with which it would be lost; expected a file outside of it
        1 problem; nothing was started
    "#]],
    );
    case(
        "identity = \"nowhere/identity\"\n",
        "",
        expect![[r#"
        board.toml:1: identity: the directory above, nowhere, does not exist; create it
        1 problem; nothing was started
    "#]],
    );
    check(
        &pki,
        "[store]\ndir = \"/\"\n",
        3,
        &expect![[r#"
        board.toml: identity: is missing, and the store's directory has no name to make a default from; expected a file outside of that directory
        1 problem; nothing was started
    "#]],
    );
    case(
        "tls = 3\n",
        "",
        expect![[r#"
        board.toml:1: invalid type: integer `3`, expected a table
        1 problem; nothing was started
    "#]],
    );
}

#[test]
fn all_mistakes_at_once_in_the_order_of_the_file() {
    let text = "listen = \"10.0.0.1:8889\"\nhealth = true\n[timing]\nkick = \"1s\"\nkick_task = \"1x\"\n[cells]\nworkers = 0\n";
    check(
        &Pki::new(),
        text,
        3,
        &expect![[r#"
        board.toml:1: listen: 10.0.0.1:8889 is not a loopback address, and plain HTTP is served only on loopback; add a table [tls] with ca, cert and key, or listen on 127.0.0.1 or [::1]
        board.toml:2: health: is a boolean; expected an IP address and a port, such as "127.0.0.1:8889" or "[::1]:8889"
        board.toml:4: timing.kick: is not a key; expected one of converge_interval, kick_task, expire_pending_task, expire_completed_task, communication_timeout
        board.toml:5: timing.kick_task: "1x" is not a duration; expected a number and a unit, such as "500ms", "30s", "5m" or "2h"
        board.toml:7: cells.workers: 0 is out of range; expected a whole number, 1 or more
        board.toml: store.dir: is missing; expected the directory that holds the records, on a local disk
        6 problems; nothing was started
    "#]],
    );
}

#[test]
fn the_example_passes_as_it_is_and_with_tls_filled_in() {
    let pki = Pki::new();
    let example = run(&["config", "example"]).stdout;
    let checked = |text: &str| {
        std::fs::write(pki.path("board.toml"), text).unwrap();
        finish(program(&["config", "check", "board.toml"]).current_dir(pki.dir.path()))
    };
    let outcome = checked(&example);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let with_tls = example
        .replace("listen = \"127.0.0.1:8889\"", "listen = \"0.0.0.0:8889\"")
        .replace("# [tls]", "[tls]")
        .replace("# [locket]", "[locket]")
        .replace("# address", "address")
        .replace("# ca = \"tls/ca.crt\"", "ca = \"ca.crt\"")
        .replace("# cert = \"tls/board.crt\"", "cert = \"server.crt\"")
        .replace("# key = \"tls/board.key\"", "key = \"server.key\"")
        .replace("# advertise", "advertise")
        .replace("# url", "url");
    let outcome = checked(&with_tls);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("0.0.0.0:8889 (https, client certificates required)"), "{}", outcome.stdout);
}
