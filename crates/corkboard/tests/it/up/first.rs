//! The first minutes of somebody new: an empty folder, nothing configured, commands copied from the screen.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect;
use tempfile::TempDir;

use super::site::{Site, get};
use crate::program::{Outcome, program, utf8};

/// Nobody in particular, on every Linux.
const NOBODY: u32 = 65_534;

#[test]
fn what_it_prints_can_be_copied_into_a_shell() {
    let mut site = Site::start(0);
    let shown = site.welcome.join("\n").replace(&site.api, "API").replace(&site.router, "ROUTER");
    let health = site.welcome.iter().find_map(|line| line.strip_prefix("  health   ")).unwrap();
    let shown = shown.replace(health, "HEALTH").replace(env!("CARGO_BIN_EXE_corkboard"), "corkboard");
    let warning = shown.lines().position(|line| line.starts_with("Apps run as root"));
    let lines = shown.lines().enumerate().filter(|(at, _)| warning.is_none_or(|it| *at != it && *at != it + 1));
    let shown: Vec<&str> = lines.map(|(_, line)| line).collect();
    expect![[r#"
        Corkboard is up. Stop it with Ctrl-C; apps are stopped with it, and run again after the next start.

          API      API
          health   HEALTH
          router   ROUTER
          cells    cell-1, cell-2
          records  data/board

        Try, in another terminal:

          corkboard run-app --route hello.local --instances 2 --router ROUTER --bbsURL API -- corkboard demo-app
          curl -H 'Host: hello.local' ROUTER
          corkboard stop-app hello --bbsURL API

        and to see what happens while it happens:

          corkboard lrp-events -x --bbsURL API"#]]
    .assert_eq(&shown.join("\n"));
    assert_eq!(warning.is_some(), rustix::process::geteuid().is_root());

    let start = site.welcome.iter().position(|line| line.starts_with("Try")).unwrap() + 2;
    let answers: Vec<Outcome> = site.welcome[start..start + 3].iter().map(|line| typed(line.trim())).collect();
    let codes: Vec<i32> = answers.iter().map(|answer| answer.code).collect();
    assert_eq!(codes, [0, 0, 0], "{answers:#?}");
    assert!(answers[0].stdout.ends_with(&format!("Try:\n  curl -H 'Host: hello.local' {}\n", site.router)));
    assert!(answers[1].stdout.starts_with("message: Hello from Corkboard\nindex: "), "{}", answers[1].stdout);
    assert_eq!(answers[2].stdout, "hello is stopped\n");
    site.stop_in_order();
}

/// A line as a shell takes it; `curl` is played by the test.
pub(super) fn typed(line: &str) -> Outcome {
    let Some(arguments) = line.strip_prefix("curl -H 'Host: ") else {
        let output = Command::new("sh").args(["-c", line]).env_clear().stdin(Stdio::null()).output().unwrap();
        return Outcome {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
    };
    let (host, url) = arguments.split_once("' http://").unwrap();
    let (status, stdout) = get(url, host, "/").unwrap();
    Outcome { code: if status == 200 { 0 } else { 22 }, stdout, stderr: String::new() }
}

/// A machine where nobody is root: only a test that is root can play that.
#[test]
fn a_plain_user_can_do_the_same() {
    let dir = TempDir::new().unwrap();
    let binary = dir.path().join("corkboard");
    let user = rustix::process::geteuid().is_root().then_some(NOBODY);
    // The program may lie where only its owner can go.
    std::fs::copy(env!("CARGO_BIN_EXE_corkboard"), &binary).unwrap();
    if let Some(user) = user {
        chown(dir.path(), Some(user), Some(user)).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let mut site = Site::start_as(1, &binary, dir, user);
    assert!(!site.welcome.iter().any(|line| line.contains("as root")));
    let outcome = site.run_hello(&["--instances", "2"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    site.until_answered_by(2);
    site.stop_in_order();
    if user.is_some() {
        let mut command = site.command(&["up", "--run-as", "daemon"]);
        assert_eq!(command.output().unwrap().status.code(), Some(3), "only root can choose");
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let with = |flag: &str| {
        let dir = TempDir::new().unwrap();
        let mut command = program(&["up"]);
        for each in ["--listen", "--health", "--router"] {
            command.args([each, if each == flag { &taken } else { "127.0.0.1:0" }]);
        }
        let output = command.current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(5));
        String::from_utf8(output.stderr).unwrap().replace(&taken, "ADDRESS")
    };
    let complaints: Vec<String> =
        ["--router", "--listen", "--health"].map(with).iter().map(|text| last_line(text)).collect();
    expect![[r#"
        corkboard: the router cannot listen on ADDRESS: Address already in use (os error 98). Is another program using it? Choose another address with --router
        corkboard: the state server cannot listen on ADDRESS for its API port: Address already in use (os error 98). Is another program using it? Choose another address with --listen
        corkboard: the state server cannot listen on ADDRESS for its health port: Address already in use (os error 98). Is another program using it? Choose another address with --health"#]].assert_eq(&complaints.join("\n"));
}

/// The log may say more before.
fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_second_one_in_the_same_place_is_refused() {
    let site = Site::start(2);
    let args = ["up", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--router", "127.0.0.1:0"];
    let outcome = site.call(&args);
    assert_eq!(outcome.code, 5);
    expect!["corkboard: another `corkboard up` uses data/board.cells; stop it first, or give this one a directory of its own with --dir"].assert_eq(&last_line(&outcome.stderr));
    let nowhere = site.call(&[&args[..], &["--dir", "no/where"]].concat());
    assert_eq!(nowhere.code, 5);
    expect!["corkboard: the folder no/where.cells for the cells cannot be used: a directory above it does not exist; create it, or choose another one with --dir"].assert_eq(&last_line(&nowhere.stderr));
    assert!(!Path::new(utf8(site.dir.path())).join("no").exists());
}
