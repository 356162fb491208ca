//! `keys`: what is asked of the server, what is printed, and how it ends; and the same with real servers on real stores.

mod configured;
mod life;
mod lost;
mod secrets;
mod site;
mod spoiled;

use std::os::unix::fs::MetadataExt as _;

use expect_test::{Expect, expect};

use crate::operator::{Line, Operator, check};
use crate::program::{finish, program, run, utf8};
use crate::terminal::Terminal;

const STATUS: &str = "GET /corkboard/v1/keys";
const ROTATE: &str = "POST /corkboard/v1/keys/rotate";
const VERIFY: &str = "POST /corkboard/v1/keys/verify";

fn status(state: &str, members: &str) -> String {
    let marker = if state == "settled" { r#""B""# } else { "null" };
    format!(r#"{{"state":"{state}","explanation":"It is {state}.","active":"B","marker":{marker}{members}}}"#)
}

fn begun(keys: &str) -> String {
    format!(r#"{{"message":"records are being brought under key B","keys":{keys}}}"#)
}

const FREE: &str = r#","keys":[{"name":"A","active":false,"configured":true,"needed":false,"records":0,"writes":7,"writes_max":4294967296,"oldest_record_ns":null,"since_ns":1,"safe_to_remove":true,"verdict":"A: 0 records, safe to remove","blocked_by":[]}]"#;

#[test]
fn status_in_words_and_in_json() {
    let settled = status("settled", FREE);
    let script = [(STATUS, 200, settled.as_str())];
    check(
        &script,
        &["keys", "status"],
        &expect![[r#"
            Encryption at rest: settled

              It is settled.

              marker    the store says that all records are under key B

              KEY  ROLE   RECORDS  WRITES (OF WHAT IS SAFE)  OLDEST RECORD (UTC)
              A    opens  0        7 (< 1 %)

              A: 0 records, safe to remove
            = 0
            < GET /corkboard/v1/keys
        "#]],
    );
    check(
        &script,
        &["keys", "status", "--json"],
        &expect![[r#"
            {"state":"settled","explanation":"It is settled.","active":"B","marker":"B","keys":[{"name":"A","active":false,"configured":true,"needed":false,"records":0,"writes":7,"writes_max":4294967296,"oldest_record_ns":null,"since_ns":1,"safe_to_remove":true,"verdict":"A: 0 records, safe to remove","blocked_by":[]}]}
            = 0
            < GET /corkboard/v1/keys
        "#]],
    );
    check(
        &[(STATUS, 200, &status("blocked", ""))],
        &["keys", "status", "--json"],
        &expect![[r#"
        {"state":"blocked","explanation":"It is blocked.","active":"B","marker":null}
        = 12
        < GET /corkboard/v1/keys
    "#]],
    );
}

#[test]
fn status_from_a_health_port() {
    let settled = status("settled", "");
    let document = format!(r#"{{"phase":"serving","encryption":{settled}}}"#);
    let operator = Operator::new(&[("GET /status", 200, &document)]);
    let by_flag = run(&["keys", "status", "--json", "--healthURL", &operator.url]);
    assert_eq!((by_flag.code, by_flag.stdout.trim_end()), (0, settled.as_str()), "{by_flag:?}");
    let mut command = program(&["keys", "status", "--json"]);
    let by_variable = finish(command.env("CORKBOARD_HEALTH_URL", &operator.url).env("BBS_URL", "http://127.0.0.1:1"));
    assert_eq!(by_variable.stdout, by_flag.stdout, "{by_variable:?}");
    let standby = Operator::new(&[("GET /status", 200, r#"{"phase":"standby"}"#)]);
    let outcome = run(&["keys", "status", "--healthURL", &standby.url]);
    assert_eq!(outcome.code, 5);
    expect![[r#"
        corkboard: this node does not know about keys, because it is starting, on standby or of an older release; ask the master, or this one again when it serves
    "#]].assert_eq(&outcome.stderr);
}

#[test]
fn a_watch_ends_when_settled_or_blocked() {
    let at = |done: u32, elapsed: u32| {
        status("rotating", &format!(r#","done":{done},"total":9,"elapsed_s":{elapsed},"rate_per_s":{elapsed}.5"#))
    };
    let (one, same, two) = (at(1, 1), at(1, 2), at(2, 3));
    let script = [
        (STATUS, 200, one.as_str()),
        (STATUS, 503, r#"{"code":"not-master","message":"Not master yet.","next":null}"#),
        (STATUS, 200, same.as_str()),
        (STATUS, 200, two.as_str()),
        (STATUS, 200, &status("verifying", "")),
        (STATUS, 200, &status("blocked", "")),
    ];
    check(
        &script,
        &["keys", "status", "--watch"],
        &expect![[r#"
        {"state":"rotating","explanation":"It is rotating.","active":"B","marker":null,"done":1,"total":9,"elapsed_s":1,"rate_per_s":1.5}
        {"state":"rotating","explanation":"It is rotating.","active":"B","marker":null,"done":2,"total":9,"elapsed_s":3,"rate_per_s":3.5}
        {"state":"verifying","explanation":"It is verifying.","active":"B","marker":null}
        {"state":"blocked","explanation":"It is blocked.","active":"B","marker":null}
        = 12
        < GET /corkboard/v1/keys
        < GET /corkboard/v1/keys
        < GET /corkboard/v1/keys
        < GET /corkboard/v1/keys
        < GET /corkboard/v1/keys
        < GET /corkboard/v1/keys
    "#]],
    );
    let operator = Operator::new(&[
        (STATUS, 200, &at(1, 1)),
        (STATUS, 200, &status("verifying", r#","done":5,"total":9,"eta_s":2,"rate_per_s":3.0"#)),
        (STATUS, 200, &status("settled", r#","done":9,"total":9"#)),
    ]);
    let (shown, code) = Terminal::run(&mut operator.command(&["keys", "status", "--watch"])).end();
    expect![[r#"
        <redrawn>rotating     [====                                    ]   11 %  1 of 9  2/s
        verifying    [===================                ]   55 %  2 s left  5 of 9  3/s
        settled

        Encryption at rest: settled

          It is settled.

          marker    the store says that all records are under key B
    "#]]
    .assert_eq(&shown.replace("\r\x1b[2K", "<redrawn>"));
    assert_eq!(code, 0);
}

/// The promise that matters most must be readable, and found by a search, on the narrowest terminal.
#[test]
fn the_verdict_is_one_line_on_a_terminal() {
    let operator = Operator::new(&[(STATUS, 200, &status("settled", FREE))]);
    let (shown, _) = Terminal::run(&mut operator.command(&["keys", "status"])).end();
    assert!(shown.contains("\n  A: 0 records, safe to remove\n"), "{shown}");
}

#[test]
fn rotate_begins_and_may_be_followed() {
    let rotating = status("rotating", r#","next":"corkboard keys status --watch""#);
    let script = [(ROTATE, 200, begun(&rotating)), (STATUS, 200, rotating), (STATUS, 200, status("settled", FREE))];
    let script: Vec<Line<'_>> = script.iter().map(|(question, code, body)| (*question, *code, body.as_str())).collect();
    check(
        &script,
        &["keys", "rotate"],
        &expect![[r#"
            records are being brought under key B
            Next: corkboard keys status --watch
            = 0
            < POST /corkboard/v1/keys/rotate {"keep_missing":false}
        "#]],
    );
    check(
        &script,
        &["keys", "rotate", "--json"],
        &expect![[r#"
            {"message":"records are being brought under key B","keys":{"state":"rotating","explanation":"It is rotating.","active":"B","marker":null,"next":"corkboard keys status --watch"}}
            = 0
            < POST /corkboard/v1/keys/rotate {"keep_missing":false}
        "#]],
    );
    check(
        &script,
        &["keys", "rotate", "--watch", "--json"],
        &expect![[r#"
            {"message":"records are being brought under key B","keys":{"state":"rotating","explanation":"It is rotating.","active":"B","marker":null,"next":"corkboard keys status --watch"}}
            {"state":"rotating","explanation":"It is rotating.","active":"B","marker":null,"next":"corkboard keys status --watch"}
            {"state":"settled","explanation":"It is settled.","active":"B","marker":"B","keys":[{"name":"A","active":false,"configured":true,"needed":false,"records":0,"writes":7,"writes_max":4294967296,"oldest_record_ns":null,"since_ns":1,"safe_to_remove":true,"verdict":"A: 0 records, safe to remove","blocked_by":[]}]}
            = 0
            < POST /corkboard/v1/keys/rotate {"keep_missing":false}
            < GET /corkboard/v1/keys
            < GET /corkboard/v1/keys
        "#]],
    );
    let blocked = [(ROTATE, 200, script[0].2), (STATUS, 200, &status("blocked", ""))];
    assert_eq!(Operator::new(&blocked).call(&["keys", "rotate", "--watch"]).code, 12);
}

#[test]
fn a_refusal_has_its_words_and_its_code() {
    for (status, code, expected) in
        [(409, "encryption-off", 4), (409, "bad-keys", 4), (409, "key-missing", 8), (503, "not-master", 5)]
    {
        let refusal = format!(r#"{{"code":"{code}","message":"No: {code}.","next":"corkboard keys status"}}"#);
        let outcome = Operator::new(&[(ROTATE, status, &refusal)]).call(&["keys", "rotate", "--watch"]);
        let text = format!("corkboard: No: {code}.\nNext: corkboard keys status\n");
        assert_eq!((outcome.code, outcome.stderr, outcome.stdout), (expected, text, String::new()), "{code}");
    }
    let rotating =
        r#"{"code":"rotating","message":"It is verified at the end.","next":"corkboard keys status --watch"}"#;
    assert_eq!(Operator::new(&[(VERIFY, 409, rotating)]).call(&["keys", "verify"]).code, 4);
}

/// As the server says it: the word `checking`, and no verification, until there is one.
#[test]
fn verify_waits_for_the_report() {
    let checking = status("checking", r#","done":1,"total":2,"verification":null"#);
    let found = |broken: &str, total: u32| {
        let tally = r#"{"records":2,"oldest_ns":0,"oldest_id":"/v1/task/a","ids":["/v1/task/a"]}"#;
        let none = r#"{"records":0,"oldest_ns":null,"oldest_id":null,"ids":[]}"#;
        let verification = format!(
            r#"{{"at_ns":0,"records":2,"bytes":200,"plain":{none},"keys":{{"B":{tally}}},"broken":[{broken}],"broken_total":{total}}}"#
        );
        status("settled", &format!(r#","verification":{verification}"#))
    };
    let begun = begun(&checking);
    let script = |last: &str, args: &[&str], expected: &Expect| {
        check(&[(VERIFY, 200, &begun), (STATUS, 200, &checking), (STATUS, 200, last)], args, expected);
    };
    script(
        &found("", 0),
        &["keys", "verify"],
        &expect![[r#"
        All 2 records (200 bytes) can be opened. Looked at on 1970-01-01 00:00:00 UTC.

          KEY  RECORDS  OLDEST (UTC)         OLDEST RECORD
          B    2        1970-01-01 00:00:00  /v1/task/a
        = 0
        < POST /corkboard/v1/keys/verify {}
        < GET /corkboard/v1/keys
        < GET /corkboard/v1/keys
    "#]],
    );
    let broken = r#"{"id":"/v1/task/a","key":"B","why":"it was damaged"}"#;
    script(
        &found(broken, 1),
        &["keys", "verify"],
        &expect![[r#"
        1 of 2 records (200 bytes) CANNOT be opened. Looked at on 1970-01-01 00:00:00 UTC.

          KEY  RECORDS  OLDEST (UTC)         OLDEST RECORD
          B    2        1970-01-01 00:00:00  /v1/task/a

        Cannot be opened:
          /v1/task/a: it was damaged

        Next: corkboard quarantine show '/v1/task/a'
        = 7
        < POST /corkboard/v1/keys/verify {}
        < GET /corkboard/v1/keys
        < GET /corkboard/v1/keys
    "#]],
    );
    script(
        &found(broken, 1),
        &["keys", "verify", "--json"],
        &expect![[r#"
            {"state":"settled","explanation":"It is settled.","active":"B","marker":"B","verification":{"at_ns":0,"records":2,"bytes":200,"plain":{"records":0,"oldest_ns":null,"oldest_id":null,"ids":[]},"keys":{"B":{"records":2,"oldest_ns":0,"oldest_id":"/v1/task/a","ids":["/v1/task/a"]}},"broken":[{"id":"/v1/task/a","key":"B","why":"it was damaged"}],"broken_total":1}}
            = 7
            < POST /corkboard/v1/keys/verify {}
            < GET /corkboard/v1/keys
            < GET /corkboard/v1/keys
        "#]],
    );
    // A server that was restarted meanwhile remembers nothing, and a number must not be made up for it.
    script(
        &status("settled", r#","verification":null"#),
        &["keys", "verify"],
        &expect![[r#"
        corkboard: not every record was opened, because the server was restarted or told to rotate meanwhile; nothing was changed. Give the command again when `corkboard keys status` calls it settled
        = 5
        < POST /corkboard/v1/keys/verify {}
        < GET /corkboard/v1/keys
        < GET /corkboard/v1/keys
    "#]],
    );
}

#[test]
fn generate_is_random_and_never_overwrites() {
    let (one, two) = (run(&["keys", "generate"]).stdout, run(&["keys", "generate"]).stdout);
    assert_ne!(one, two);
    assert_eq!(decoded(&one).len(), 32);
    let json: serde_json::Value = serde_json::from_str(&run(&["keys", "generate", "--json"]).stdout).unwrap();
    assert_eq!(decoded(json["key"].as_str().unwrap()).len(), 32);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("B");
    let args = ["keys", "generate", "--out", utf8(&file)];
    let outcome = run(&args);
    expect![[r#"
        A new key is in DIR/B, and nobody but its owner may read it. Add two lines to the configuration:

          in [encryption]        active = "B"
          in [encryption.keys]   B = { file = "DIR/B" }

        Then restart the server, or give `corkboard keys rotate` if it has keys already. Keep the other keys until `corkboard keys status` calls them safe to remove, and a copy of this one in a safe place: without it nothing that it seals can be read again.
    "#]].assert_eq(&outcome.stdout.replace(utf8(dir.path()), "DIR"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let made = std::fs::read_to_string(&file).unwrap();
    assert_eq!((decoded(&made).len(), std::fs::metadata(&file).unwrap().mode() & 0o777), (32, 0o600));
    assert!(!outcome.stdout.contains(made.trim_end()));
    let again = run(&args);
    expect![[r#"
        corkboard: cannot make a new file DIR/B: File exists (os error 17). No key was made
    "#]]
    .assert_eq(&again.stderr.replace(utf8(dir.path()), "DIR"));
    assert_eq!((again.code, std::fs::read_to_string(&file).unwrap()), (5, made));
    let other = dir.path().join("not-a-name.key");
    let json = run(&["keys", "generate", "--json", "--out", utf8(&other)]).stdout;
    assert_eq!(json, format!("{{\"file\":\"{}\"}}\n", utf8(&other)));
}

fn decoded(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.decode(text.trim_end()).unwrap()
}

/// The configuration is read before anything else is looked for.
#[test]
fn without_a_server_a_configuration_names_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("board.toml");
    std::fs::write(&file, "[store]\ndir = \"board\"\n[encryption]\nmode = \"fast\"\n").unwrap();
    for command in ["status", "rotate", "verify"] {
        let outcome = run(&["keys", command, "--config", utf8(&file)]);
        assert_eq!(outcome.code, 3, "{command}: {outcome:?}");
        assert!(outcome.stderr.contains("encryption.mode: \"fast\" is not known"), "{command}: {outcome:?}");
    }
}
