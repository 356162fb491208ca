//! `run-app` and `stop-app` against a whole cluster.

use std::sync::atomic::{AtomicBool, Ordering};

use expect_test::expect;

use super::site::Site;
use crate::program::{Server, finish, program};

#[test]
fn an_app_is_run_scaled_and_stopped() {
    let mut site = Site::start(7);
    let outcome = site.run_hello(&["--instances", "2", "--env", "MESSAGE=one", "--health-path", "/healthz"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "hello is desired, with 2 instances");
    assert_eq!(lines[lines.len() - 3], "hello: 2 of 2 placed, 2 healthy, routed");
    site.until_answered_by(2);
    assert!(site.get("hello.local", "/").unwrap().1.starts_with("message: one\n"));
    assert_eq!(site.get("nobody.local", "/").unwrap().0, 404);
    assert_eq!(site.get("hello.local", "/slow?ms=x").unwrap().0, 400);

    let again = site.run_hello(&["--instances", "4", "--env", "MESSAGE=one", "--health-path", "/healthz"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stdout.starts_with("hello is changed, with 4 instances\n"), "{}", again.stdout);
    site.until_answered_by(4);
    let fewer = site.run_hello(&["--instances", "1", "--env", "MESSAGE=one", "--health-path", "/healthz"]);
    assert_eq!(fewer.code, 0, "{fewer:?}");
    let same = site.run_hello(&["--env", "MESSAGE=one", "--health-path", "/healthz"]);
    assert!(same.stdout.starts_with("hello is desired already, with 1 instance\n"), "{}", same.stdout);

    assert!(site.call(&["domains"]).stdout.contains("corkboard-apps"));

    let stopped = site.call(&["stop-app", "hello"]);
    assert_eq!((stopped.code, stopped.stdout.as_str()), (0, "hello is stopped\n"));
    assert_ne!(site.get("hello.local", "/").unwrap().0, 200);
    let twice = site.call(&["stop-app", "hello"]);
    assert_eq!(twice.code, 5);
    expect![[r#"
        corkboard: there is no app hello; `corkboard desired-lrps -d corkboard-apps` lists those that there are
    "#]]
    .assert_eq(&twice.stderr);
    site.stop_in_order();
}

#[test]
fn what_cannot_run_says_why() {
    let mut site = Site::start(8);
    let shell = |site: &Site, flags: &[&str], script: &str| {
        let args = [&["run-app", "--name", "sad"], flags, &["--", "/bin/sh", "-c", script]].concat();
        let outcome = site.call(&args);
        assert_eq!(site.call(&["stop-app", "sad"]).code, 0);
        (outcome.code, outcome.stderr)
    };
    let (code, stderr) = shell(&site, &[], "echo my last words; exit 3");
    assert_eq!(code, 5);
    // How often it was tried meanwhile is chance.
    let (first, last) =
        ("corkboard: instance 0 of sad crashed: APP: Exited with status 3\n", "`corkboard stop-app sad`\n");
    assert!(stderr.starts_with(first) && stderr.ends_with(last), "{stderr}");
    assert!(stderr.contains("The last that was written:\n  [APP] my last words\n"), "{stderr}");
    let (code, stderr) = shell(&site, &["--memory", "1000000G"], "sleep 60");
    assert_eq!(code, 5);
    expect![[r#"
        corkboard: instance 0 of sad cannot be placed: insufficient resources: memory
        It stays desired and is tried again. See which cells there are with `corkboard cells`; stop it with `corkboard stop-app sad`
    "#]].assert_eq(&stderr);
    let (code, stderr) = shell(&site, &["--route", "sad.local", "--wait-timeout", "2s"], "sleep 60");
    assert_eq!(code, 5);
    expect![[r#"
        corkboard: after 2s sad is not there; the last that was seen: sad: 1 of 1 placed, 0 healthy. It stays desired. See `corkboard actual-lrps -p sad` and `corkboard logs sad`, and wait longer with --wait-timeout
    "#]].assert_eq(&stderr);
    site.stop_in_order();
}

/// With a server alone there is nobody to place anything, and no router: what can be said is said.
#[test]
fn without_cells_it_waits_and_says_so() {
    let server = Server::plain();
    let ask = |args: &[&str]| finish(program(args).env("BBS_URL", &server.flags[1]));
    let outcome = ask(&["run-app", "--name", "lone", "--wait-timeout", "500ms", "--", "/bin/sh"]);
    assert_eq!(outcome.code, 5);
    expect![[r#"
        corkboard: after 500ms lone is not there; the last that was seen: lone: 0 of 1 placed, 0 healthy. It stays desired. See `corkboard actual-lrps -p lone` and `corkboard logs lone`, and wait longer with --wait-timeout
    "#]].assert_eq(&outcome.stderr);
    let none = ask(&["run-app", "--name", "none", "--instances", "0", "--", "/bin/sh"]);
    assert_eq!(
        (none.code, none.stdout.as_str()),
        (0, "none is desired, with 0 instances\nnone: 0 of 0 placed, 0 healthy\n")
    );
    let theirs = crate::program::LRP;
    assert_eq!(ask(&["create-desired-lrp", theirs]).code, 0);
    let refused = ask(&["stop-app", "hello"]);
    assert_eq!(refused.code, 3);
    expect![[r#"
        corkboard: hello is somebody else's: its domain is demo, and this command is for those of corkboard-apps. Nothing was changed. `corkboard update-desired-lrp` and `corkboard delete-desired-lrp` change any
    "#]].assert_eq(&refused.stderr);
    let refused = ask(&["run-app", "--name", "hello", "--", "/bin/sh"]);
    assert_eq!(refused.code, 3);
}

/// Another definition while requests come: none is lost, and one that does not work is taken back.
#[test]
fn an_app_that_runs_is_updated_under_load() {
    let mut site = Site::start(11);
    let terms = ["--instances", "2", "--health-path", "/healthz", "--healthy", "500ms", "--instance-deadline", "40s"];
    let with = |message: &'static str| [&terms[..], &["--env", message]].concat();
    assert_eq!(site.run_hello(&with("MESSAGE=one")).code, 0);
    site.until_answered_by(2);

    let is_over = AtomicBool::new(false);
    let (updated, asked) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut asked = 0;
            while !is_over.load(Ordering::Relaxed) {
                let answer = site.get("hello.local", "/");
                assert!(matches!(answer, Some((200, _))), "request {asked}: {answer:?}");
                asked += 1;
            }
            asked
        });
        let updated = site.run_hello(&with("MESSAGE=two"));
        is_over.store(true, Ordering::Relaxed);
        (updated, load.join().unwrap())
    });
    assert_eq!((updated.code, updated.stderr.as_str()), (0, ""), "{updated:?}");
    assert!(asked > 0);
    let lines: Vec<&str> = updated.stdout.lines().collect();
    assert_eq!(lines[0], "hello is updated to v2 (--env), with 2 instances");
    assert!(lines.contains(&"hello: done, all have definition 2 (v2)"), "{lines:#?}");
    assert!(lines.contains(&"hello: 2 of 2 placed, 2 healthy, routed"), "{lines:#?}");
    assert!(site.get("hello.local", "/").unwrap().1.starts_with("message: two\n"));

    let args =
        [&["run-app", "--route", "hello.local"], &with("MESSAGE=two")[..], &["--", "echo my last words; exit 3"]]
            .concat();
    let failed = site.call(&args);
    assert_eq!(failed.code, 5, "{failed:?}");
    assert!(failed.stderr.starts_with("corkboard: the update of hello was taken back: instance 0 "), "{failed:?}");
    assert!(failed.stderr.contains("\n  [APP] my last words\n"), "{failed:?}");
    site.until_answered_by(2);
    assert!(site.get("hello.local", "/").unwrap().1.starts_with("message: two\n"));
    assert_eq!(site.call(&["stop-app", "hello"]).code, 0);
    site.stop_in_order();
}
