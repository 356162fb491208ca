//! `corkboard up`: what it prints is true, and the commands it prints work. Here the state server alone; the folder has the
//! whole cluster.

mod apps;
mod first;
mod readme;
mod restarts;
mod site;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use expect_test::expect;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::program::{Background, program, utf8};

fn up(dir: &TempDir) -> (Background, Vec<String>) {
    let mut command = program(&["up", "--board-only", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--dir"]);
    let mut server = Background::start(command.arg(dir.path().join("board")));
    let lines = server.lines_until(|line| line.contains("lrp-events"));
    (server, lines)
}

#[test]
fn what_it_prints_can_be_copied_into_a_shell() {
    let dir = TempDir::new().unwrap();
    let (mut server, lines) = up(&dir);
    let url = lines.iter().find_map(|line| line.strip_prefix("  API      ")).unwrap().to_owned();
    let health = lines.iter().find_map(|line| line.strip_prefix("  health   ")).unwrap().to_owned();
    let shown = lines.join("\n").replace(&url, "URL").replace(&health, "HEALTH");
    let shown = shown.replace(utf8(dir.path()), "DIR").replace(env!("CARGO_BIN_EXE_corkboard"), "corkboard");
    expect![[r#"
        The state server is up, alone. Stop it with Ctrl-C.

          API      URL
          health   HEALTH
          records  DIR/board

        Try, in another terminal:

          corkboard set-domain demo --bbsURL URL
          corkboard create-desired-lrp --bbsURL URL \
            '{"process_guid":"hello","domain":"demo","rootfs":"preloaded:cflinuxfs4","instances":2,"action":{"run":{"path":"/bin/sh","user":"vcap"}},"metric_tags":{"source_id":{"static":"hello"}}}'
          corkboard actual-lrps --bbsURL URL

        and to see what happens while it happens:

          corkboard lrp-events -x --bbsURL URL"#]].assert_eq(&shown);

    let start = lines.iter().position(|line| line.starts_with("Try")).unwrap() + 2;
    let end = lines.iter().position(|line| line.starts_with("and to see")).unwrap();
    let script = format!("set -e\n{}", lines[start..end].join("\n"));
    let output = Command::new("sh").args(["-c", &script]).env_clear().stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stdout.matches(r#""state":"UNCLAIMED""#).count(), 2, "{stdout}");

    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_server_on_the_same_records_is_refused() {
    let dir = TempDir::new().unwrap();
    let (_first, _) = up(&dir);
    let mut second = program(&["up", "--board-only", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--dir"]);
    let output = second.arg(dir.path().join("board")).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("corkboard: the server cannot go on\n  because: "), "{stderr}");
}

/// With nothing given but free ports, in an empty folder: what a newcomer does first.
#[test]
fn the_default_directory_is_made() {
    let dir = TempDir::new().unwrap();
    let mut command = program(&["up", "--board-only", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0"]);
    let mut server = Background::start(command.current_dir(dir.path()));
    server.lines_until(|line| line.starts_with("  records  data/board"));
    assert!(dir.path().join("data/board").is_dir());
}

/// A request that never ends holds up the stop; whoever is in a hurry signals again.
#[test]
fn a_second_signal_ends_at_once() {
    let dir = TempDir::new().unwrap();
    let mut command = program(&["up", "--board-only", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--dir"]);
    let mut server = Background::start(command.arg(dir.path().join("board")).env("CORKBOARD_LOG", "info"));
    let api = server.lines_until(|line| line.starts_with("  API")).pop().unwrap();
    let mut request = TcpStream::connect(api.rsplit('/').next().unwrap()).unwrap();
    let head = "POST /v1/domains/upsert HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n";
    request.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    request.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100", "the server waits for the body now");

    server.signal(Signal::TERM);
    server.wait_for_log("a second signal ends the process at once");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(128 + 15));
}
