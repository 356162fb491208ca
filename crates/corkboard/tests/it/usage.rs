//! Mistakes of the caller end with 3, and an absent server with 5 and a sentence about what to do.

use std::net::TcpListener;

use expect_test::expect;

use crate::program::{finish, program, run};

#[test]
fn wrong_use_is_three() {
    for args in [
        &[][..],
        &["no-such-command"],
        &["domains", "extra"],
        &["domains", "--no-such-flag"],
        &["domains", "--json", "--table"],
        &["set-domain"],
        &["set-domain", ""],
        &["set-domain", "a", "-t", "-1s"],
        &["set-domain", "a", "-t", "500ms"],
        &["set-domain", "a", "-t", "ten"],
        &["cell"],
        &["desired-lrp", ""],
        &["create-desired-lrp", "{"],
        &["create-desired-lrp", "@/nowhere/at/all"],
        &["create-desired-lrp", r#"{"instances":"two"}"#],
        &["update-desired-lrp", "g"],
        &["retire-actual-lrp", "g"],
        &["retire-actual-lrp", "g", "-1"],
        &["retire-actual-lrp", "g", "one"],
        &["actual-lrps", "-i", "x"],
        &["domains", "--timeout", "soon"],
        &["domains", "--skipCertVerify=perhaps"],
        &["domains", "--bbsURL", "localhost"],
        &["domains", "--bbsURL", "http://bbs.service.cf.internal:8889"],
        &["domains", "--bbsURL", "https://127.0.0.1:1"],
        &["bbs"],
        &["bbs", "--config", "/nowhere/at/all"],
        &["up", "--listen", "0.0.0.0:0"],
        &["up", "--cells", "0"],
        &["up", "--app-ports", "9-1"],
        &["up", "--board-only", "--router", "127.0.0.1:0"],
        &["run-app", "--route", "hello.local"],
        &["run-app", "--", "/bin/true"],
        &["run-app", "--route", "http://hello.local", "--", "/bin/true"],
        &["run-app", "--route", "hello.local", "--memory", "much", "--", "/bin/true"],
        &["run-app", "--route", "hello.local", "--router", "ftp://a", "--", "/bin/true"],
        &["run-app", "--route", "hello.local", "--", "no-such-program-anywhere"],
        &["stop-app"],
        &["demo-app", "--port", "many"],
        &["config", "check", "/nowhere/at/all"],
        &["completions", "cmd.exe"],
        &["bbs", "--config", "board.toml", "--rollback-on-drain-to-version", "7"],
        &["up", "--rollback-on-drain-to-version", "newest"],
        &["up", "--migration-mode", "fast", "--dir", "/nowhere/at/all"],
        &["migrate"],
        &["migrate", "status", "--healthURL", "127.0.0.1:8890"],
        &["migrate", "status", "--healthURL", "https://127.0.0.1:8890"],
        &["migrate", "status", "--healthURL", "http://a", "--bbsURL", "http://127.0.0.1"],
        &["migrate", "status", "--config", "board.toml", "--bbsURL", "http://127.0.0.1"],
        &["migrate", "status", "--config", "/nowhere/at/all"],
        &["migrate", "status", "--config", "board.toml", "--watch"],
        &["migrate", "plan", "--to", "newest"],
        &["migrate", "rollback"],
        &["migrate", "rollback", "--to", "newest", "--yes"],
        &["migrate", "history", "--last", "0"],
        &["quarantine", "show", ""],
        &["quarantine", "retry"],
        &["quarantine", "retry", "a", "--all"],
        &["quarantine", "discard"],
        &["store", "confirm"],
        &["store", "confirm", "--cluster-id", ""],
    ] {
        let outcome = run(args);
        assert_eq!(outcome.code, 3, "{args:?}: {outcome:?}");
        assert!(outcome.stdout.is_empty() && !outcome.stderr.is_empty(), "{args:?}: {outcome:?}");
    }
}

/// An address that nobody listens on: it was free a moment ago, and the kernel does not give it out again so soon.
fn dead_url() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

#[test]
fn nobody_there_is_five_and_says_what_to_do() {
    let url = dead_url();
    let outcome = run(&["tasks", "--bbsURL", &url]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (5, ""));
    let stderr = outcome.stderr.replace(&url, "URL");
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.contains("os error")).collect();
    expect![[r#"
        corkboard: cannot talk to the server at URL
          because: POST /v1/tasks/list.r3 failed: the connection was refused; the server is down or on standby
        Is the server running? `corkboard up` starts one on this machine. The address is from --bbsURL or BBS_URL."#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn the_environment_and_all_spellings_of_flags_lead_to_the_same_place() {
    let url = dead_url();
    let from_variable = finish(program(&["domains"]).env("BBS_URL", &url)).stderr;
    assert!(from_variable.contains(&url), "{from_variable}");
    assert_eq!(run(&["domains", "--bbs-url", &url]).stderr, from_variable);
    assert_eq!(run(&["domains", &format!("--bbsURL={url}")]).stderr, from_variable);
    assert_eq!(run(&["--bbsURL", &url, "domains"]).stderr, from_variable);
    let outcome = finish(program(&["domains"]).env("BBS_URL", "http://10.0.0.1"));
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("plain HTTP is only for loopback"), "{}", outcome.stderr);
}
