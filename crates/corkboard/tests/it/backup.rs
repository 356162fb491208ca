//! `backup` and `restore`: real servers, real files, and everything that gets in between.

mod killed;
mod onto_etcd;

use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};
use rustix::process::Signal;
use store::backup::{Contents, check};
use tempfile::TempDir;

use crate::operator::Operator;
use crate::program::{LRP, Outcome, Server, TASK, finish, program, run, utf8};
use crate::terminal::Terminal;
use rig::pki::Pki;

const SECRET: &str = r#"{"task_guid":"secret","domain":"demo","rootfs":"preloaded:cflinuxfs4","env":[{"name":"PASSWORD","value":"hunter2"}],"action":{"run":{"path":"/bin/true","user":"vcap"}}}"#;

fn contents(file: &Path) -> Contents {
    check(&mut std::fs::File::open(file).unwrap(), |_, _| {}).unwrap()
}

/// A configuration in a folder of its own, whose store is yet to be made.
fn configured(dir: &Path, tables: &str) -> String {
    let file = dir.join("board.toml");
    let text = format!("listen = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n{tables}");
    std::fs::write(&file, text).unwrap();
    utf8(&file).to_owned()
}

fn stop(server: &mut Server) {
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.wait().code(), Some(0));
}

fn done(outcome: Outcome) -> String {
    assert_eq!(outcome.code, 0, "{outcome:?}");
    outcome.stdout
}

fn fails(outcome: &Outcome, code: i32, text: &str) {
    assert!(outcome.code == code && outcome.stderr.contains(text), "expected {code} and {text:?}: {outcome:?}");
}

#[test]
fn from_a_server_over_tls_with_sealed_records_to_another_directory() {
    let pki = Pki::new();
    let key = pki.path("A");
    done(run(&["keys", "generate", "--out", utf8(&key)]));
    let encryption = format!("[encryption]\nactive = \"A\"\n[encryption.keys]\nA = {{ file = \"{}\" }}\n", utf8(&key));
    let flags = pki.client_flags();
    let mut server = Server::start(pki.dir, "https", &format!("{}{encryption}", Pki::SERVER_TABLE), &flags);
    for args in [["create-desired-lrp", LRP], ["create-task", TASK], ["create-task", SECRET]] {
        done(server.call(&args));
    }
    let file = server.dir.path().join("board.bak");
    let said = done(server.call(&["backup", utf8(&file)]));
    let found = contents(&file);
    assert!(said.starts_with(&format!("{} records of revision ", found.summary.records)), "{said}");
    assert!(said.ends_with("It needs key A, and no key is in it: keep both.\n"), "{said}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((found.plain, found.sealed.keys().map(String::as_str).collect::<Vec<_>>()), (0, vec!["A"]));
    let bytes = std::fs::read(&file).unwrap();
    let secret = std::fs::read_to_string(&key).unwrap();
    for needle in ["hunter2", secret.trim()] {
        assert!(!bytes.windows(needle.len()).any(|found| found == needle.as_bytes()), "{needle} is in the file");
    }

    fails(&server.call(&["backup", utf8(&file)]), 3, "exists already");
    assert_eq!(std::fs::read(&file).unwrap(), bytes, "it is left alone");
    let json = done(server.call(&["backup", utf8(&file), "--force", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sha256"], contents(&file).summary.sha256);
    let listed = |server: &Server| ["desired-lrps", "actual-lrps", "tasks"].map(|list| done(server.call(&[list])));
    let before = listed(&server);
    let config = server.dir.path().join("board.toml");
    let piped = server.command(&["backup", "-"]).output().unwrap();
    assert_eq!(piped.status.code(), Some(0));
    assert!(check(&mut &piped.stdout[..], |_, _| {}).is_ok() && !piped.stderr.is_empty());
    let locked = run(&["backup", utf8(&file), "--force", "--config", utf8(&config)]);
    fails(&locked, 4, "Next: corkboard backup FILE");
    stop(&mut server);
    let alone = server.dir.path().join("alone.bak");
    done(run(&["backup", utf8(&alone), "--config", utf8(&config)]));
    assert_eq!(contents(&alone).sealed, contents(&file).sealed);

    let other = TempDir::new().unwrap();
    let unkeyed = configured(other.path(), "");
    let said = done(run(&["restore", utf8(&file), "--config", &unkeyed]));
    assert!(said.contains("add key A to [encryption.keys]"), "{said}");
    fails(
        &run(&["restore", utf8(&file), "--config", &unkeyed]),
        4,
        "the store is not empty: it holds the records of cluster ",
    );
    let server = Server::start(other, "http", &encryption, &[]);
    assert_eq!(listed(&server), before);
}

/// A client that saw events of the original is told that it missed some, also when it saw later ones than the backup.
#[test]
fn a_restored_server_never_goes_on_in_the_history_of_another() {
    let mut server = Server::plain();
    done(server.call(&["create-task", TASK]));
    let file = server.dir.path().join("board.bak");
    let said = done(server.call(&["backup", utf8(&file), "--json"]));
    let revision = serde_json::from_str::<serde_json::Value>(&said).unwrap()["revision"].as_u64().unwrap();
    stop(&mut server);
    let dir = TempDir::new().unwrap();
    let restored = done(run(&["restore", utf8(&file), "--config", &configured(dir.path(), ""), "--json"]));
    let restored: serde_json::Value = serde_json::from_str(&restored).unwrap();
    assert_eq!(restored["backup_revision"], revision);
    let server = Server::start(dir, "http", "", &[]);
    for seen in [1, revision, revision + 1, revision + 500_000] {
        let mut stream = TcpStream::connect(server.flags[1].trim_start_matches("http://")).unwrap();
        write!(
            stream,
            "POST /v1/events/tasks.r1 HTTP/1.1\r\nhost: a\r\nlast-event-id: {seen}\r\ncontent-length: 0\r\n\r\n"
        )
        .unwrap();
        let (mut answer, mut bytes) = (Vec::new(), [0; 1_024]);
        while !answer.windows(2).any(|end| end == b"\n\n") {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&bytes[..count]);
        }
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("event: gap"), "{seen}: {answer}");
    }
}

#[test]
fn a_file_is_looked_into_without_a_server() {
    let server = Server::plain();
    done(server.call(&["create-task", TASK]));
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("board.bak");
    done(server.call(&["backup", utf8(&file)]));
    let said = done(run(&["backup", "--verify", utf8(&file)]));
    assert!(said.contains("is a whole backup: ") && said.contains("records are not encrypted"), "{said}");
    let json: serde_json::Value =
        serde_json::from_str(&done(run(&["backup", "--verify", utf8(&file), "--json"]))).unwrap();
    assert_eq!((json["whole"].as_bool(), json["records_not_encrypted"].as_u64()), (Some(true), Some(1)));

    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 10]).unwrap();
    let broken = run(&["backup", "--verify", utf8(&file)]);
    assert!(broken.code == 7 && broken.stdout.contains("is NOT a whole backup: the backup is cut off"), "{broken:?}");
    let config = configured(dir.path(), "");
    let refused = run(&["restore", utf8(&file), "--config", &config]);
    fails(&refused, 5, "board.bak cannot be restored: the backup is cut off");
    assert!(!dir.path().join("board").exists(), "nothing was made of half a backup");
    fails(&run(&["restore", "/nonexistent/file", "--config", &config]), 3, "cannot open /nonexistent/file");
}

fn answers(script: &[(&str, u16, &str)], expected: &Expect) {
    let operator = Operator::new(script);
    let dir = TempDir::new().unwrap();
    let outcome = finish(operator.command(&["backup", "board.bak"]).current_dir(dir.path()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    let text = format!("{}{}= {}\n", outcome.stdout, outcome.stderr, outcome.code);
    expected.assert_eq(&text.replace(&operator.url, "URL"));
}

#[test]
fn a_server_that_breaks_off_or_refuses_leaves_no_file() {
    const BACKUP: &str = "GET /corkboard/v1/backup";
    answers(
        &[(BACKUP, 200, "corkbkup\u{1}\0\0\0")],
        &expect![[r#"
        corkboard: the backup broke off before its end: the server stopped, or could not read its store, and then its log says why. No backup was kept and nothing was changed. Give the command again
        = 5
    "#]],
    );
    answers(
        &[(BACKUP, 200, "<html>")],
        &expect![[r#"
        corkboard: what arrived is no whole backup, and none was kept: this is not a backup: it does not begin like one. Nothing was changed. Is it the right file?
        = 5
    "#]],
    );
    answers(
        &[(BACKUP, 503, r#"{"code":"not-master","message":"Ask the other one."}"#)],
        &expect![[r#"
        corkboard: Ask the other one.
        = 5
    "#]],
    );
    answers(
        &[(BACKUP, 404, "404 page not found")],
        &expect![[r#"
        corkboard: cannot talk to the server at URL
          because: the server answered GET /corkboard/v1/backup with status 404; is it of an older release, or another program?
        = 5
    "#]],
    );
}

#[test]
fn a_full_disk_leaves_no_file() {
    let server = Server::plain();
    let dir = TempDir::new().unwrap();
    for at in 0..3 {
        let task = TASK.replace("once", &format!("{at}{}", "x".repeat(100)));
        done(server.call(&["create-task", &task.replace("/bin/true", &"y".repeat(3_000))]));
    }
    // With the signal ignored, a write beyond the limit fails instead of killing the process.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" backup board.bak --bbsURL \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_corkboard"), &server.flags[1]]).env_clear().current_dir(dir.path());
    fails(&finish(&mut shell), 5, "cannot write board.bak: File too large");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn on_a_terminal_there_is_a_bar_and_no_binary() {
    let server = Server::plain();
    let dir = TempDir::new().unwrap();
    let mut command = server.command(&["backup", "board.bak"]);
    let (shown, code) = Terminal::run(command.current_dir(dir.path())).end();
    assert!(code == 0 && shown.contains("backing up   [") && shown.contains("100 %"), "{shown}");
    let (shown, code) = Terminal::run(&mut server.command(&["backup", "-"])).end();
    assert!(code == 3 && shown.contains("is not written to a terminal"), "{shown}");
    fails(&server.call(&["backup", "-", "--json"]), 3, "--json goes with a file");
    fails(&server.call(&["backup", utf8(dir.path())]), 3, "is a directory");
    let mut nowhere = program(&["backup", "no/such/dir.bak"]);
    fails(&finish(nowhere.args(&server.flags).current_dir(dir.path())), 5, "cannot write no/such/dir.bak.");
}
