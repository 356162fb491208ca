//! `quarantine` and `store`: what is asked of the server, what is printed, and how it ends.

use expect_test::{Expect, expect};

use crate::operator::{Line, Operator};
use crate::program::utf8;
use crate::terminal::Terminal;

const LIST: &str = "GET /corkboard/v1/quarantine";
const RECORD: &str = "GET /corkboard/v1/quarantine/record?id=%2Fv1442529338%2Ftask%2Fa%252Fb";
const ID: &str = "/v1442529338/task/a%2Fb";
const RECORDS: &str = r#"{"records": [
    {"id": "/v1442529338/task/a%2Fb", "why": "the payload is cut off", "bytes": 1234, "place": "in place",
     "since_ns": 1794700800000000000},
    {"id": "/v1442529338/domain/c", "why": "no header", "bytes": 3, "place": "leftover", "since_ns": null}]}"#;
const SECRET: &str =
    "00031442529338:PASSWORD=hunter2\u{7}, and more that goes on beyond the sixty-four bytes that are shown";

fn check(script: &[Line<'_>], args: &[&str], expected: &Expect) {
    let operator = Operator::new(script);
    let outcome = operator.call(args);
    let heard: String = operator.heard().iter().map(|question| format!("< {question}\n")).collect();
    expected.assert_eq(&format!("{}{}= {}\n{heard}", outcome.stdout, outcome.stderr, outcome.code));
}

#[test]
fn list() {
    check(
        &[(LIST, 200, RECORDS)],
        &["quarantine", "list"],
        &expect![[r#"
        ID                       PLACE     BYTES  SINCE (UTC)          WHY
        /v1442529338/task/a%2Fb  in place  1234   2026-11-15 00:00:00  the payload is cut off
        /v1442529338/domain/c    leftover  3                           no header
        = 0
        < GET /corkboard/v1/quarantine
    "#]],
    );
    check(
        &[(LIST, 200, RECORDS)],
        &["quarantine", "list", "--json"],
        &expect![[r#"
        {"id":"/v1442529338/task/a%2Fb","why":"the payload is cut off","bytes":1234,"place":"in place","since_ns":1794700800000000000}
        {"id":"/v1442529338/domain/c","why":"no header","bytes":3,"place":"leftover","since_ns":null}
        = 0
        < GET /corkboard/v1/quarantine
    "#]],
    );
    check(
        &[(LIST, 200, r#"{"records":[]}"#)],
        &["quarantine", "list"],
        &expect![[r#"
        no records in quarantine
        = 0
        < GET /corkboard/v1/quarantine
    "#]],
    );
}

#[test]
fn show_keeps_the_content_to_itself_unless_asked() {
    let script = [(LIST, 200, RECORDS), (RECORD, 200, SECRET)];
    check(
        &script,
        &["quarantine", "show", ID],
        &expect![[r#"
        /v1442529338/task/a%2Fb

          why     the payload is cut off
          place   in place
          size    1.2 kB
          since   2026-11-15 00:00:00 UTC
          header  encoding Protobuf, data version 1442529338

        It is kept byte for byte. Next: corkboard quarantine retry /v1442529338/task/a%2Fb
              or: corkboard quarantine export /v1442529338/task/a%2Fb -o FILE
        = 0
        < GET /corkboard/v1/quarantine
        < GET /corkboard/v1/quarantine/record?id=%2Fv1442529338%2Ftask%2Fa%252Fb
    "#]],
    );
    check(
        &script,
        &["quarantine", "show", ID, "--bytes"],
        &expect![[r#"
            /v1442529338/task/a%2Fb

              why     the payload is cut off
              place   in place
              size    1.2 kB
              since   2026-11-15 00:00:00 UTC
              header  encoding Protobuf, data version 1442529338

              0000  30 30 30 33 31 34 34 32 35 32 39 33 33 38 3a 50  00031442529338:P
              0010  41 53 53 57 4f 52 44 3d 68 75 6e 74 65 72 32 07  ASSWORD=hunter2.
              0020  2c 20 61 6e 64 20 6d 6f 72 65 20 74 68 61 74 20  , and more that
              0030  67 6f 65 73 20 6f 6e 20 62 65 79 6f 6e 64 20 74  goes on beyond t

            It is kept byte for byte. Next: corkboard quarantine retry /v1442529338/task/a%2Fb
                  or: corkboard quarantine export /v1442529338/task/a%2Fb -o FILE
            = 0
            < GET /corkboard/v1/quarantine
            < GET /corkboard/v1/quarantine/record?id=%2Fv1442529338%2Ftask%2Fa%252Fb
        "#]],
    );
    check(
        &script,
        &["quarantine", "show", ID, "--json"],
        &expect![[r#"
        {"id":"/v1442529338/task/a%2Fb","why":"the payload is cut off","bytes":1234,"place":"in place","since_ns":1794700800000000000,"header":"encoding Protobuf, data version 1442529338"}
        = 0
        < GET /corkboard/v1/quarantine
        < GET /corkboard/v1/quarantine/record?id=%2Fv1442529338%2Ftask%2Fa%252Fb
    "#]],
    );
    check(
        &script,
        &["quarantine", "show", ID, "--json", "--bytes"],
        &expect![[r#"
        {"id":"/v1442529338/task/a%2Fb","why":"the payload is cut off","bytes":1234,"place":"in place","since_ns":1794700800000000000,"header":"encoding Protobuf, data version 1442529338","first_bytes_hex":"30303033313434323532393333383a50415353574f52443d68756e74657232072c20616e64206d6f7265207468617420676f6573206f6e206265796f6e642074"}
        = 0
        < GET /corkboard/v1/quarantine
        < GET /corkboard/v1/quarantine/record?id=%2Fv1442529338%2Ftask%2Fa%252Fb
    "#]],
    );
    let sealed = [(LIST, 200, RECORDS), (RECORD, 200, "0007blue:xyz")];
    let outcome = Operator::new(&sealed).call(&["quarantine", "show", ID]);
    assert!(outcome.stdout.contains("sealed with key blue"), "{outcome:?}");
    let missing =
        r#"{"code":"no-such-record","message":"There is no such record.","next":"corkboard quarantine list"}"#;
    let script = [(LIST, 200, r#"{"records":[]}"#), (RECORD, 404, missing)];
    check(
        &script,
        &["quarantine", "show", ID],
        &expect![[r#"
        corkboard: There is no such record.
        Next: corkboard quarantine list
        = 4
        < GET /corkboard/v1/quarantine
        < GET /corkboard/v1/quarantine/record?id=%2Fv1442529338%2Ftask%2Fa%252Fb
    "#]],
    );
}

#[test]
fn retry_one_or_all() {
    let retry = "POST /corkboard/v1/quarantine/retry";
    let partly = r#"{"message":"1 of 2 can be read now.","recovered":["/a"],"still":[{"id":"/b","why":"no header"}]}"#;
    check(
        &[(retry, 200, partly)],
        &["quarantine", "retry", "--all"],
        &expect![[r#"
        1 of 2 can be read now.
          recovered  /a
          still      /b: no header
        = 7
        < POST /corkboard/v1/quarantine/retry {"all":true}
    "#]],
    );
    check(
        &[(retry, 200, partly)],
        &["quarantine", "retry", "--all", "--json"],
        &expect![[r#"
        {"message":"1 of 2 can be read now.","recovered":["/a"],"still":[{"id":"/b","why":"no header"}]}
        = 7
        < POST /corkboard/v1/quarantine/retry {"all":true}
    "#]],
    );
    let wholly = r#"{"message":"It can be read now.","recovered":["/a"],"still":[]}"#;
    check(
        &[(retry, 200, wholly)],
        &["quarantine", "retry", "/a"],
        &expect![[r#"
        It can be read now.
          recovered  /a
        = 0
        < POST /corkboard/v1/quarantine/retry {"id":"/a"}
    "#]],
    );
}

#[test]
fn export_is_byte_for_byte_and_never_onto_a_terminal_or_a_file() {
    let operator = Operator::new(&[(RECORD, 200, SECRET)]);
    let outcome = operator.call(&["quarantine", "export", ID]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, SECRET));

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record.bin");
    let args = ["quarantine", "export", ID, "-o", utf8(&file)];
    let outcome = operator.call(&args);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(outcome.stdout.replace(utf8(&file), "FILE"), format!("{} bytes of {ID} are in FILE\n", SECRET.len()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), SECRET);
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap());
    assert_eq!(mode & 0o777, 0o600, "records may be secret");
    let again = operator.call(&args);
    assert_eq!(again.code, 5);
    assert!(again.stderr.contains("File exists") && again.stderr.contains("still quarantined"), "{again:?}");

    let (shown, code) = Terminal::run(&mut operator.command(&["quarantine", "export", ID])).end();
    expect![[r#"
        corkboard: the record is binary and may be secret, so it is not written to a terminal; add --output FILE
    "#]]
    .assert_eq(&shown);
    assert_eq!(code, 3);
    assert_eq!(operator.call(&["quarantine", "export", ID, "--json"]).code, 3);
    let other = dir.path().join("other.bin");
    let json = operator.call(&["quarantine", "export", ID, "--json", "-o", utf8(&other)]).stdout;
    assert!(json.starts_with(r#"{"bytes":"#) && json.contains(r#""id":"/v1442529338/task/a%2Fb""#), "{json}");
}

const DISCARD: &str = "POST /corkboard/v1/quarantine/discard";

#[test]
fn discard_wants_the_id_typed() {
    let script = [(LIST, 200, RECORDS), (DISCARD, 200, r#"{"message":"It is gone."}"#)];
    check(
        &script,
        &["quarantine", "discard", ID],
        &expect![[r#"
        corkboard: This destroys the only copy of /v1442529338/task/a%2Fb (1.2 kB): the payload is cut off.
        Keep one first: corkboard quarantine export /v1442529338/task/a%2Fb -o FILE
        This wants an answer, and there is no terminal to give it on. Nothing was changed. Add --yes to go on without the question
        = 3
        < GET /corkboard/v1/quarantine
    "#]],
    );
    check(
        &script,
        &["quarantine", "discard", ID, "--yes"],
        &expect![[r#"
        It is gone.
        = 0
        < POST /corkboard/v1/quarantine/discard {"id":"/v1442529338/task/a%2Fb"}
    "#]],
    );
    check(
        &script,
        &["quarantine", "discard", ID, "--yes", "--json"],
        &expect![[r#"
        {"message":"It is gone."}
        = 0
        < POST /corkboard/v1/quarantine/discard {"id":"/v1442529338/task/a%2Fb"}
    "#]],
    );
    for (answer, expected_code) in [(ID, 0), ("yes", 3), ("", 3)] {
        let operator = Operator::new(&script);
        let mut terminal = Terminal::run(&mut operator.command(&["quarantine", "discard", ID]));
        terminal.answer("to go on: ", answer);
        assert_eq!(terminal.end().1, expected_code, "{answer}");
        let was_told = operator.heard().iter().any(|question| question.starts_with(DISCARD));
        assert_eq!(was_told, expected_code == 0, "{answer}");
    }
}

const CONFIRM: &str = "POST /corkboard/v1/store/confirm";

#[test]
fn a_store_is_confirmed_by_its_identity() {
    let guarded = r#"{"phase":"waiting","store_guard":{"state":"wiped","explanation":"The store is empty.",
        "expected_cluster_id":"old","found_cluster_id":"new","next":"corkboard store confirm --cluster-id new"}}"#;
    let script = [
        ("GET /corkboard/v1/status", 200, guarded),
        (CONFIRM, 200, r#"{"message":"The store is served from now on."}"#),
    ];
    let args = ["store", "confirm", "--cluster-id", "new"];
    check(
        &script,
        &args,
        &expect![[r#"
        corkboard: The store is empty.
          expected  old
          found     new
        If you go on, the store that was found is served, and what is only in the other one is forgotten by everybody who asks this server.
        This wants an answer, and there is no terminal to give it on. Nothing was changed. Add --yes to go on without the question
        = 3
        < GET /corkboard/v1/status
    "#]],
    );
    check(
        &script,
        &["store", "confirm", "--cluster-id", "new", "--yes"],
        &expect![[r#"
        The store is served from now on.
        = 0
        < POST /corkboard/v1/store/confirm {"cluster_id":"new"}
    "#]],
    );
    check(
        &script,
        &["store", "confirm", "--cluster-id", "new", "--yes", "--json"],
        &expect![[r#"
        {"message":"The store is served from now on."}
        = 0
        < POST /corkboard/v1/store/confirm {"cluster_id":"new"}
    "#]],
    );
    let operator = Operator::new(&script);
    let mut terminal = Terminal::run(&mut operator.command(&args));
    terminal.answer("to go on: ", "new");
    let (shown, code) = terminal.end();
    expect![[r#"
        The store is empty.
          expected  old
          found     new
        If you go on, the store that was found is served, and what is only in the other one is forgotten by everybody who asks this server.
        Type new to go on: new
        The store is served from now on.
    "#]].assert_eq(&shown);
    assert_eq!((code, operator.heard().len()), (0, 2));
    let wrong = r#"{"code":"conflict","message":"That is not the store that is there.","next":null}"#;
    check(
        &[(CONFIRM, 409, wrong)],
        &["store", "confirm", "--cluster-id", "x", "--yes"],
        &expect![[r#"
        corkboard: That is not the store that is there.
        = 4
        < POST /corkboard/v1/store/confirm {"cluster_id":"x"}
    "#]],
    );
}
