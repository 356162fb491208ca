//! `migrate`: what is asked of the server, what is printed, and how it ends.

mod steer;

use expect_test::expect;

use crate::operator::{GONE, Operator, check};
use crate::program::{finish, program, run};
use crate::terminal::Terminal;

const STATUS: &str = "GET /corkboard/v1/migration";

/// A status with the usual versions.
fn status(state: &str, members: &str) -> String {
    format!(
        r#"{{
  "state": "{state}", "explanation": "It is {state}.",
  "current": {{"number": 1442529338, "name": "split_desired_lrp"}},
  "target": {{"number": 1794700800, "name": "lrp_definitions"}},
  "newest": {{"number": 1794700800, "name": "lrp_definitions"}}{members}
}}
"#
    )
}

fn ready() -> String {
    status("ready", r#", "next": "corkboard migrate finalize", "finalization": "manual", "mode": "online""#)
}

fn none() -> String {
    r#"{"state":"none","explanation":"All is well.","current":{"number":1794700800,"name":"lrp_definitions"},"target":null,"next":null}"#
        .to_owned()
}

#[test]
fn status_in_words_and_in_json() {
    let sweeping = status(
        "sweeping",
        r#", "next": "corkboard migrate status --watch", "mode": "online", "finalization": "auto", "done": 120000,
  "total": 500000, "rate_per_s": 21000.0, "eta_s": 18, "elapsed_s": 6, "last_progress_s": 0, "can_go_back": true,
  "how_to_go_back": "start the former release", "news": {"a": [1, 2]}"#,
    );
    let script = [(STATUS, 200, sweeping.as_str())];
    check(
        &script,
        &["migrate", "status"],
        &expect![[r#"
        Migration to lrp_definitions (1794700800): sweeping

          [sweep] > verify > ready > finalize > clean up

          It is sweeping.

          version   split_desired_lrp (1442529338) -> lrp_definitions (1794700800)
          mode      online, finalization auto
          progress  120,000 of 500,000 records (24 %), 21,000/s
          time      about 18 s left, 6 s so far
          go back   yes: start the former release

        Next: corkboard migrate status --watch
        = 10
        < GET /corkboard/v1/migration
    "#]],
    );
    check(
        &script,
        &["migrate", "status", "--json"],
        &expect![[r#"
        {"state":"sweeping","explanation":"It is sweeping.","current":{"number":1442529338,"name":"split_desired_lrp"},"target":{"number":1794700800,"name":"lrp_definitions"},"newest":{"number":1794700800,"name":"lrp_definitions"},"next":"corkboard migrate status --watch","mode":"online","finalization":"auto","done":120000,"total":500000,"rate_per_s":21000.0,"eta_s":18,"elapsed_s":6,"last_progress_s":0,"can_go_back":true,"how_to_go_back":"start the former release","news":{"a":[1,2]}}
        = 10
        < GET /corkboard/v1/migration
    "#]],
    );
    check(
        &[(STATUS, 200, &ready())],
        &["migrate", "status"],
        &expect![[r#"
        Migration to lrp_definitions (1794700800): ready

          sweep > verify > [ready] > finalize > clean up

          It is ready.

          version   split_desired_lrp (1442529338) -> lrp_definitions (1794700800)
          mode      online, finalization manual

        Next: corkboard migrate finalize
        = 11
        < GET /corkboard/v1/migration
    "#]],
    );
    check(
        &[(STATUS, 200, &none())],
        &["migrate", "status"],
        &expect![[r#"
        No migration is under way.

          All is well.

          version   lrp_definitions (1794700800)
        = 0
        < GET /corkboard/v1/migration
    "#]],
    );
    check(
        &[(STATUS, 200, &status("failed", ""))],
        &["migrate", "status", "--json"],
        &expect![[r#"
        {"state":"failed","explanation":"It is failed.","current":{"number":1442529338,"name":"split_desired_lrp"},"target":{"number":1794700800,"name":"lrp_definitions"},"newest":{"number":1794700800,"name":"lrp_definitions"}}
        = 12
        < GET /corkboard/v1/migration
    "#]],
    );
}

#[test]
fn status_from_a_health_port() {
    let document = format!(r#"{{"phase":"standby","migration":{}}}"#, none());
    let operator = Operator::new(&[("GET /status", 200, &document)]);
    let by_flag = run(&["migrate", "status", "--json", "--healthURL", &operator.url]);
    assert_eq!((by_flag.code, by_flag.stdout.trim_end()), (0, none().as_str()), "{by_flag:?}");
    let mut command = program(&["migrate", "status", "--json"]);
    let by_variable = finish(command.env("CORKBOARD_HEALTH_URL", &operator.url).env("BBS_URL", "http://127.0.0.1:1"));
    assert_eq!(by_variable.stdout, by_flag.stdout, "{by_variable:?}");
    // A server that is named wins over a variable that is always there.
    let mut command = program(&["migrate", "status", "--bbsURL", "http://127.0.0.1:1"]);
    let named = finish(command.env("CORKBOARD_HEALTH_URL", &operator.url));
    assert!(named.code == 5 && named.stderr.contains("http://127.0.0.1:1"), "{named:?}");
    let older = Operator::new(&[("GET /status", 200, r#"{"phase":"serving"}"#)]);
    let outcome = run(&["migrate", "status", "--healthURL", &older.url]);
    assert_eq!(outcome.code, 5);
    expect![[r#"
        corkboard: the answer says nothing about migration; is the server older?
    "#]]
    .assert_eq(&outcome.stderr);
}

#[test]
fn a_watch_off_a_terminal_is_one_line_per_change() {
    let at = |done: u32, elapsed: u32| {
        status("sweeping", &format!(r#", "done": {done}, "total": 9, "elapsed_s": {elapsed}"#))
    };
    let (one, same, two) = (at(1, 1), at(1, 2), at(2, 3));
    let script = [
        (STATUS, 200, one.as_str()),
        (STATUS, 503, r#"{"code":"not-master","message":"Not master yet.","next":null}"#),
        (STATUS, 200, same.as_str()),
        (STATUS, 200, two.as_str()),
        (STATUS, 200, &ready()),
    ];
    check(
        &script,
        &["migrate", "status", "--watch"],
        &expect![[r#"
        {"state":"sweeping","explanation":"It is sweeping.","current":{"number":1442529338,"name":"split_desired_lrp"},"target":{"number":1794700800,"name":"lrp_definitions"},"newest":{"number":1794700800,"name":"lrp_definitions"},"done":1,"total":9,"elapsed_s":1}
        {"state":"sweeping","explanation":"It is sweeping.","current":{"number":1442529338,"name":"split_desired_lrp"},"target":{"number":1794700800,"name":"lrp_definitions"},"newest":{"number":1794700800,"name":"lrp_definitions"},"done":2,"total":9,"elapsed_s":3}
        {"state":"ready","explanation":"It is ready.","current":{"number":1442529338,"name":"split_desired_lrp"},"target":{"number":1794700800,"name":"lrp_definitions"},"newest":{"number":1794700800,"name":"lrp_definitions"},"next":"corkboard migrate finalize","finalization":"manual","mode":"online"}
        = 11
        < GET /corkboard/v1/migration
        < GET /corkboard/v1/migration
        < GET /corkboard/v1/migration
        < GET /corkboard/v1/migration
        < GET /corkboard/v1/migration
    "#]],
    );
}

#[test]
fn a_watch_on_a_terminal_is_redrawn_in_place() {
    let at = |done: u32| status("sweeping", &format!(r#", "done": {done}, "total": 9, "eta_s": 2, "rate_per_s": 3.0"#));
    let (one, two) = (at(1), at(5));
    let operator = Operator::new(&[(STATUS, 200, &one), (STATUS, 200, &two), (STATUS, 200, &ready())]);
    let (shown, code) = Terminal::run(&mut operator.command(&["migrate", "status", "--watch"])).end();
    expect![[r#"
        <redrawn>sweeping     [===                                ]   11 %  2 s left  1 of 9  3/s<redrawn>sweeping     [===================                ]   55 %  2 s left  5 of 9  3/s
        ready

        Migration to lrp_definitions (1794700800): ready

          sweep > verify > [ready] > finalize > clean up

          It is ready.

          version   split_desired_lrp (1442529338) -> lrp_definitions (1794700800)
          mode      online, finalization manual

        Next: corkboard migrate finalize
    "#]].assert_eq(&shown.replace("\r\x1b[2K", "<redrawn>"));
    assert_eq!(code, 11);
}

/// A server that rolls back stops at the end, and whoever watches must not be left with a bare refused connection.
#[test]
fn a_watch_of_a_rollback_ends_with_the_server() {
    let rolling = status("rolling_back", r#", "done": 9, "total": 9"#);
    let operator = Operator::new(&[(STATUS, 200, &rolling), (STATUS, GONE, "")]);
    let outcome = operator.call(&["migrate", "status", "--watch"]);
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (5, 1));
    expect![[r#"
        corkboard: the server does not answer any more, as it should at the end of a rollback; `corkboard migrate status --config FILE` says whether the store is ready for the former release
    "#]].assert_eq(&outcome.stderr);
}

const PLAN: &str = "GET /corkboard/v1/migration/plan";

fn plan(members: &str) -> String {
    format!(
        r#"{{"from": {{"number": 1442529338, "name": "split_desired_lrp"}}, "to": {{"number": 1794700800, "name":
        "lrp_definitions"}}, "records": 12000, "entities": 8000, "bytes_before": 12300000, "bytes_after": 11000000,
        "forecast_s": 61.5, "took_s": 0.4, {members}}}"#
    )
}

#[test]
fn a_plan_that_is_clean_and_one_that_is_not() {
    let clean = plan(
        r#""failures": [], "failures_total": 0, "losses": [], "losses_total": 0, "lossless": true, "message": "All well.""#,
    );
    check(
        &[(PLAN, 200, &clean)],
        &["migrate", "plan"],
        &expect![[r#"
            Rehearsal split_desired_lrp (1442529338) -> lrp_definitions (1794700800); nothing was written.

              records   12,000 (8,000 entities)
              size      12.3 MB before, 11.0 MB after
              forecast  1 min 2 s (the rehearsal took less than 1 s)
              failures  none
              losses    none

            All well.
            = 0
            < GET /corkboard/v1/migration/plan
        "#]],
    );
    let unclean = plan(
        r#""failures": [{"id": "/v1/task/x", "why": "no domain"}], "failures_total": 1200, "losses": [{"id": "/v1/task/y",
        "what": "its definition"}], "losses_total": 1, "lossless": false, "message": "Not all is well.""#,
    );
    let question = format!("{PLAN}?to=1442529338");
    let script = [(question.as_str(), 200, unclean.as_str())];
    check(
        &script,
        &["migrate", "plan", "--to", "split_desired_lrp"],
        &expect![[r#"
            Rehearsal split_desired_lrp (1442529338) -> lrp_definitions (1794700800); nothing was written.

              records   12,000 (8,000 entities)
              size      12.3 MB before, 11.0 MB after
              forecast  1 min 2 s (the rehearsal took less than 1 s)
              failures  1,200: these records cannot be brought over
              losses    1: this does not survive

            Failures:
              /v1/task/x: no domain
              and 1,199 more

            Losses:
              /v1/task/y: its definition

            Not all is well.
            = 7
            < GET /corkboard/v1/migration/plan?to=1442529338
        "#]],
    );
    check(
        &script,
        &["migrate", "plan", "--to", "1442529338", "--json"],
        &expect![[r#"
        {"from":{"number":1442529338,"name":"split_desired_lrp"},"to":{"number":1794700800,"name":"lrp_definitions"},"records":12000,"entities":8000,"bytes_before":12300000,"bytes_after":11000000,"forecast_s":61.5,"took_s":0.4,"failures":[{"id":"/v1/task/x","why":"no domain"}],"failures_total":1200,"losses":[{"id":"/v1/task/y","what":"its definition"}],"losses_total":1,"lossless":false,"message":"Not all is well."}
        = 7
        < GET /corkboard/v1/migration/plan?to=1442529338
    "#]],
    );
    let nothing = r#"{"code":"nothing-to-do","message":"The data is of the newest version.","next":null}"#;
    check(
        &[(PLAN, 409, nothing)],
        &["migrate", "plan"],
        &expect![[r#"
        The data is of the newest version.
        = 0
        < GET /corkboard/v1/migration/plan
    "#]],
    );
    check(
        &[(PLAN, 409, nothing)],
        &["migrate", "plan", "--json"],
        &expect![[r#"
        {"code":"nothing-to-do","message":"The data is of the newest version.","next":null}
        = 0
        < GET /corkboard/v1/migration/plan
    "#]],
    );
}

#[test]
fn history_is_a_table_or_lines() {
    let entries = r#"{"entries": [
        {"number": 1, "at_ns": 1794700800000000000, "node": "a", "release": "0.1.0", "what": "begun", "from": 1442529338,
         "to": 1794700800, "detail": "online"},
        {"number": 2, "at_ns": 1794700861999999999, "node": "a", "release": "0.1.0", "what": "finalized",
         "from": null, "to": 1794700800, "detail": null}]}"#;
    let script =
        [("GET /corkboard/v1/history?last=50", 200, entries), ("GET /corkboard/v1/history?last=2", 200, entries)];
    check(
        &script,
        &["migrate", "history"],
        &expect![[r#"
        #  WHEN (UTC)           NODE  RELEASE  WHAT       FROM        TO          DETAIL
        1  2026-11-15 00:00:00  a     0.1.0    begun      1442529338  1794700800  online
        2  2026-11-15 00:01:01  a     0.1.0    finalized              1794700800
        = 0
        < GET /corkboard/v1/history?last=50
    "#]],
    );
    check(
        &script,
        &["migrate", "history", "--last", "2", "--json"],
        &expect![[r#"
        {"number":1,"at_ns":1794700800000000000,"node":"a","release":"0.1.0","what":"begun","from":1442529338,"to":1794700800,"detail":"online"}
        {"number":2,"at_ns":1794700861999999999,"node":"a","release":"0.1.0","what":"finalized","from":null,"to":1794700800,"detail":null}
        = 0
        < GET /corkboard/v1/history?last=2
    "#]],
    );
    let none = [("GET /corkboard/v1/history?last=50", 200, r#"{"entries":[]}"#)];
    check(
        &none,
        &["migrate", "history"],
        &expect![[r#"
        no entries: nothing has happened to the data yet
        = 0
        < GET /corkboard/v1/history?last=50
    "#]],
    );
}

#[test]
fn nobody_there_is_five_and_names_the_other_ways() {
    let url = format!("http://{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let outcome = run(&["migrate", "status", "--bbsURL", &url]);
    let lines = outcome.stderr.replace(&url, "URL");
    let lines: Vec<&str> = lines.lines().filter(|line| !line.contains("os error")).collect();
    expect![[r#"
        corkboard: cannot talk to the server at URL
          because: GET /corkboard/v1/migration failed: the connection was refused; the server is down or on standby
        Is the server running, and is it the master? `corkboard nodes --healthURL URL` asks any node who is, in any phase. The address is from --bbsURL or BBS_URL."#]].assert_eq(&lines.join("\n"));
    assert_eq!(outcome.code, 5);
}

/// The configuration is read before anything else is looked for.
#[test]
fn without_a_server_a_configuration_names_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("board.toml");
    std::fs::write(&file, "[store]\ndir = \"board\"\n[migration]\nmode = \"fast\"\n").unwrap();
    for args in [&["status"][..], &["plan"], &["history"], &["abort"], &["rollback", "--to", "1", "--yes"]] {
        let mut all = vec!["migrate"];
        all.extend(args);
        all.extend(["--config", crate::program::utf8(&file)]);
        let outcome = run(&all);
        assert_eq!(outcome.code, 3, "{args:?}: {outcome:?}");
        assert!(outcome.stderr.contains("migration.mode: \"fast\" is not known"), "{args:?}: {outcome:?}");
    }
}
