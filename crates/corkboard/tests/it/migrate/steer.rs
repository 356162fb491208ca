//! `start`, `pause`, `resume`, `abort`, `finalize`, `rollback`: what changes something, and the questions before it.

use expect_test::expect;

use super::{STATUS, check, none, ready, status};
use crate::operator::{Line, Operator};
use crate::terminal::Terminal;

#[test]
fn acts_pass_on_what_the_server_says() {
    for act in ["start", "pause", "resume", "abort"] {
        let question = format!("POST /corkboard/v1/migration/{act}");
        let done = format!(r#"{{"message": "Did {act}.", "migration": {}}}"#, ready());
        let operator = Operator::new(&[(&question, 200, &done)]);
        let outcome = operator.call(&["migrate", act]);
        let closing = match act {
            "abort" => "Nothing is lost by this, so nothing was asked: the older data is complete and stays in use.\n",
            _ => "",
        };
        let expected = format!("Did {act}.\n{closing}Next: corkboard migrate finalize\n");
        assert_eq!((outcome.code, outcome.stdout), (0, expected));
        assert_eq!(operator.heard(), [format!("{question} {{}}")]);
        let json = operator.call(&["migrate", act, "--json"]).stdout;
        assert!(json.starts_with(&format!(r#"{{"message":"Did {act}.","migration":{{"state":"ready""#)), "{json}");
        assert_eq!(json.lines().count(), 1);
    }
    let start = "POST /corkboard/v1/migration/start";
    let busy =
        r#"{"code":"busy","message":"It sweeps already; nothing was changed.","next":"corkboard migrate status"}"#;
    check(
        &[(start, 409, busy)],
        &["migrate", "start"],
        &expect![[r#"
        corkboard: It sweeps already; nothing was changed.
        Next: corkboard migrate status
        = 4
        < POST /corkboard/v1/migration/start {}
    "#]],
    );
    let standby = r#"{"code":"not-master","message":"This node is not the master.","next":null}"#;
    check(
        &[(start, 503, standby)],
        &["migrate", "start"],
        &expect![[r#"
        corkboard: This node is not the master.
        = 5
        < POST /corkboard/v1/migration/start {}
    "#]],
    );
    check(
        &[(start, 404, "404 page not found")],
        &["migrate", "start"],
        &expect![[r#"
        corkboard: cannot talk to the server at URL
          because: the server answered POST /corkboard/v1/migration/start with status 404; is it of an older release, or another program?
        = 5
        < POST /corkboard/v1/migration/start {}
    "#]],
    );
    check(
        &[(start, 200, "<html>")],
        &["migrate", "start"],
        &expect![[r#"
        corkboard: the answer cannot be understood (expected value at line 1 column 1); is the server of another release?
        = 5
        < POST /corkboard/v1/migration/start {}
    "#]],
    );
}

const FINALIZE: &str = "POST /corkboard/v1/migration/finalize";

#[test]
fn finalize_wants_yes_off_a_terminal() {
    check(
        &[(STATUS, 200, &ready())],
        &["migrate", "finalize"],
        &expect![[r#"
            corkboard: This ends the migration to lrp_definitions (1794700800). The former release can no longer take over by just being started; going back then needs `corkboard migrate rollback`, and the older data is removed.
            This wants an answer, and there is no terminal to give it on. Nothing was changed. Add --yes to go on without the question
            = 3
            < GET /corkboard/v1/migration
            < GET /corkboard/v1/clients
        "#]],
    );
    let done = format!(r#"{{"message": "The migration ends.", "migration": {}}}"#, status("finalizing", ""));
    let script = [(STATUS, 200, ready()), (FINALIZE, 200, done)];
    let script = script.each_ref().map(|(question, code, body)| (*question, *code, body.as_str()));
    check(
        &script,
        &["migrate", "finalize", "--yes"],
        &expect![[r#"
            The migration ends.
            = 0
            < GET /corkboard/v1/migration
            < GET /corkboard/v1/clients
            < POST /corkboard/v1/migration/finalize {"version":1794700800}
        "#]],
    );
    check(
        &[(STATUS, 200, &status("sweeping", ""))],
        &["migrate", "finalize"],
        &expect![[r#"
        corkboard: The migration is sweeping, not ready to be finalized. Nothing was changed. It is sweeping.
        Next: corkboard migrate status --watch
        = 4
        < GET /corkboard/v1/migration
    "#]],
    );
    check(
        &[(STATUS, 200, &none())],
        &["migrate", "finalize", "--yes"],
        &expect![[r#"
        There is nothing to finalize.
        = 0
        < GET /corkboard/v1/migration
    "#]],
    );
    check(
        &[(STATUS, 200, &status("cleaning", ""))],
        &["migrate", "finalize", "--yes"],
        &expect![[r#"
        The migration is being finalized already.
        = 0
        < GET /corkboard/v1/migration
    "#]],
    );
}

#[test]
fn finalize_waits_until_all_is_clean() {
    let done = format!(r#"{{"message": "The migration ends.", "migration": {}}}"#, status("finalizing", ""));
    let (ready, cleaning, none) = (ready(), status("cleaning", r#", "done": 1, "total": 2"#), none());
    let mut script = vec![
        (STATUS, 200, ready.as_str()),
        (FINALIZE, 200, done.as_str()),
        (STATUS, 200, ready.as_str()),
        (STATUS, 200, cleaning.as_str()),
        (STATUS, 200, none.as_str()),
    ];
    check(
        &script,
        &["migrate", "finalize", "--yes", "--wait"],
        &expect![[r#"
            The migration ends.
            The migration is finished, and the older data is gone.
            = 0
            < GET /corkboard/v1/migration
            < GET /corkboard/v1/clients
            < POST /corkboard/v1/migration/finalize {"version":1794700800}
            < GET /corkboard/v1/migration
            < GET /corkboard/v1/migration
            < GET /corkboard/v1/migration
        "#]],
    );
    let blocked = status("blocked", r#", "next": "corkboard quarantine list""#);
    script[4].2 = &blocked;
    check(
        &script,
        &["migrate", "finalize", "--yes", "--wait"],
        &expect![[r#"
            The migration ends.
            corkboard: the migration is BLOCKED. It is blocked.
            Next: corkboard quarantine list
            = 5
            < GET /corkboard/v1/migration
            < GET /corkboard/v1/clients
            < POST /corkboard/v1/migration/finalize {"version":1794700800}
            < GET /corkboard/v1/migration
            < GET /corkboard/v1/migration
            < GET /corkboard/v1/migration
        "#]],
    );
}

/// On a terminal; `typed` answers the question. What was shown, the exit code, and what the server was told to do.
fn typed(script: &[Line<'_>], args: &[&str], typed: &str) -> (String, i32, Vec<String>) {
    let operator = Operator::new(script);
    let mut terminal = Terminal::run(&mut operator.command(args));
    terminal.answer("to go on: ", typed);
    let (shown, code) = terminal.end();
    let told = operator.heard().into_iter().filter(|question| question.starts_with("POST")).collect();
    (shown, code, told)
}

#[test]
fn finalize_asks_for_the_version() {
    let done = format!(r#"{{"message": "The migration ends.", "migration": {}}}"#, status("finalizing", ""));
    let ready = ready();
    let script = [(STATUS, 200, ready.as_str()), (FINALIZE, 200, done.as_str())];
    for answer in ["1794700800", "lrp_definitions"] {
        let (_, code, told) = typed(&script, &["migrate", "finalize"], answer);
        assert_eq!((code, told), (0, vec![format!(r#"{FINALIZE} {{"version":1794700800}}"#)]), "{answer}");
    }
    let (shown, code, told) = typed(&script, &["migrate", "finalize"], "yes");
    expect![[r#"
        This ends the migration to lrp_definitions (1794700800). The former release can no longer take over by just being started; going back then needs `corkboard migrate rollback`, and the older data is removed.
        Type 1794700800 or lrp_definitions to go on: yes
        corkboard: that is not what was asked for; nothing was changed
    "#]].assert_eq(&shown);
    assert_eq!((code, told), (3, vec![]));
    for answer in ["", "1442529338", "y"] {
        let (_, code, told) = typed(&script, &["migrate", "finalize"], answer);
        assert_eq!((code, told), (3, vec![]), "{answer}");
    }
}

const ROLLBACK: &str = "POST /corkboard/v1/migration/rollback";

#[test]
fn rollback_asks_and_names_losses() {
    let done = format!(r#"{{"message": "Going back; the server stops by itself.", "migration": {}}}"#, ready());
    let script = [(ROLLBACK, 200, done.as_str())];
    let args = ["migrate", "rollback", "--to", "split_desired_lrp"];
    let (shown, code, told) = typed(&script, &args, "1442529338");
    expect![[r#"
        This takes all records back to data version 1442529338, split_desired_lrp. The server stops by itself at the end. Then start the former release. This one would serve the older data as it is, until `corkboard migrate start`. If the older version cannot hold everything, nothing is done, and you are told what it is.
        Type 1442529338 or split_desired_lrp to go on: 1442529338
        Going back; the server stops by itself.
        Then start the former release. This one would serve the older data as it is, until `corkboard migrate start`.
        Next: corkboard migrate finalize
    "#]].assert_eq(&shown);
    assert_eq!((code, told), (0, vec![format!(r#"{ROLLBACK} {{"accept_loss":false,"to":1442529338}}"#)]));
    let (_, code, told) = typed(&script, &args, "no");
    assert_eq!((code, told), (3, vec![]));
    check(
        &script,
        &args,
        &expect![[r#"
        corkboard: This takes all records back to data version 1442529338, split_desired_lrp. The server stops by itself at the end. Then start the former release. This one would serve the older data as it is, until `corkboard migrate start`. If the older version cannot hold everything, nothing is done, and you are told what it is.
        This wants an answer, and there is no terminal to give it on. Nothing was changed. Add --yes to go on without the question
        = 3
    "#]],
    );
    let refused = r#"{"code":"loss-refused","message":"2 things would be lost; nothing was changed.",
        "next":"corkboard migrate rollback --to 1442529338 --accept-loss",
        "losses":[{"id":"/v1/task/x","what":"its definition"}],"losses_total":2}"#;
    check(
        &[(ROLLBACK, 409, refused)],
        &["migrate", "rollback", "--to", "1442529338", "--yes"],
        &expect![[r#"
        corkboard: 2 things would be lost; nothing was changed.
          /v1/task/x: its definition
          and 1 more
        Next: corkboard migrate rollback --to 1442529338 --accept-loss
        = 7
        < POST /corkboard/v1/migration/rollback {"accept_loss":false,"to":1442529338}
    "#]],
    );
    check(
        &script,
        &["migrate", "rollback", "--to", "1442529338", "--yes", "--accept-loss", "--json"],
        &expect![[r#"
        {"message":"Going back; the server stops by itself.","migration":{"state":"ready","explanation":"It is ready.","current":{"number":1442529338,"name":"split_desired_lrp"},"target":{"number":1794700800,"name":"lrp_definitions"},"newest":{"number":1794700800,"name":"lrp_definitions"},"next":"corkboard migrate finalize","finalization":"manual","mode":"online"}}
        = 0
        < POST /corkboard/v1/migration/rollback {"accept_loss":true,"to":1442529338}
    "#]],
    );
}
