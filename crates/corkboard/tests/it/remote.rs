//! Every command of the operator against a real server, as one transcript: over plain HTTP and over mutual TLS it is the same.

use std::fmt::Write as _;

use expect_test::expect_file;

use crate::mask::masked;
use crate::program::{LRP, Outcome, Server, TASK};
use rig::pki::Pki;

/// The story, in order. Each command stands for itself in the golden file, with its output and its exit code.
fn story() -> Vec<Vec<&'static str>> {
    vec![
        vec!["domains"],
        vec!["set-domain", "demo", "-t", "1h"],
        vec!["set-domain", "<b>&co"],
        vec!["domains"],
        vec!["domains", "--table"],
        vec!["cells"],
        vec!["cells", "--table"],
        vec!["cell", "cell-1"],
        vec!["cell", "cell-2"],
        vec!["create-desired-lrp", LRP],
        vec!["create-desired-lrp", LRP],
        vec!["create-desired-lrp", "{}"],
        vec!["desired-lrps"],
        vec!["desired-lrps", "-d", "elsewhere"],
        vec!["desired-lrps", "-d", "demo", "--table"],
        vec!["desired-lrp", "hello"],
        vec!["desired-lrp", "hello", "--table"],
        vec!["desired-lrp", "nobody"],
        vec!["desired-lrp-scheduling-infos"],
        vec!["desired-lrp-scheduling-infos", "--table"],
        vec!["actual-lrps"],
        vec!["actual-lrps", "-p", "hello", "-i", "1"],
        vec!["actual-lrps", "-c", "cell-1"],
        vec!["actual-lrps", "--table"],
        vec!["actual-lrp-groups", "-d", "demo"],
        vec!["actual-lrp-groups", "--table"],
        vec!["actual-lrp-groups-for-guid", "hello", "-i", "0"],
        vec!["actual-lrp-groups-for-guid", "hello", "-i", "7"],
        vec!["update-desired-lrp", "hello", r#"{"instances":1,"annotation":"fewer"}"#],
        vec!["update-desired-lrp", "nobody", r#"{"instances":1}"#],
        vec!["actual-lrps"],
        vec!["retire-actual-lrp", "hello", "0"],
        vec!["retire-actual-lrp", "nobody", "0"],
        vec!["delete-desired-lrp", "hello"],
        vec!["delete-desired-lrp", "hello"],
        vec!["desired-lrps", "--table"],
        vec!["create-task", TASK],
        vec!["create-task", TASK],
        vec!["tasks"],
        vec!["tasks", "-c", "cell-1"],
        vec!["tasks", "-d", "demo", "--table"],
        vec!["task", "once"],
        vec!["task", "never"],
        vec!["delete-task", "once"],
        vec!["cancel-task", "once"],
        vec!["task", "once"],
        vec!["tasks", "--table"],
        vec!["delete-task", "once"],
        vec!["delete-task", "once"],
        vec!["tasks"],
    ]
}

fn transcript(server: &Server) -> String {
    let mut text = String::new();
    for args in story() {
        let Outcome { code, stdout, stderr } = server.call(&args);
        let shown: Vec<&str> = args
            .iter()
            .map(|arg| {
                if *arg == LRP {
                    "LRP"
                } else if *arg == TASK {
                    "TASK"
                } else {
                    arg
                }
            })
            .collect();
        writeln!(text, "$ corkboard {}\n{}{stderr}= {code}\n", shown.join(" "), masked(&stdout)).unwrap();
    }
    text
}

#[test]
fn every_command_over_plain_http() {
    expect_file!["./golden/transcript.txt"].assert_eq(&transcript(&Server::plain()));
}

#[test]
fn every_command_over_mutual_tls() {
    let pki = Pki::new();
    let flags = pki.client_flags();
    let server = Server::start(pki.dir, "https", Pki::SERVER_TABLE, &flags);
    expect_file!["./golden/transcript.txt"].assert_eq(&transcript(&server));
}

#[test]
fn a_stranger_is_refused_and_told_what_to_check() {
    let (pki, stranger) = (Pki::new(), Pki::new());
    let flags = pki.client_flags();
    let mut server = Server::start(pki.dir, "https", Pki::SERVER_TABLE, &flags);
    assert_eq!(server.call(&["domains"]).code, 0);

    // One certificate of ours, one of the stranger's: either side must notice.
    let mut unknown_client = server.flags[..2].to_vec();
    unknown_client.extend(stranger.client_flags());
    unknown_client[3] = server.flags[3].clone();
    let mut unknown_server = server.flags.clone();
    unknown_server[3] = stranger.path("ca.crt").display().to_string();
    for flags in [unknown_client, unknown_server] {
        server.flags = flags;
        let outcome = server.call(&["domains"]);
        assert_eq!(outcome.code, 5, "{outcome:?}");
        assert!(outcome.stderr.contains("Check --caCertFile, --clientCertFile and --clientKeyFile"), "{outcome:?}");
    }
    // Not checking the server is a choice; the server still checks us.
    server.flags.push("--skipCertVerify".to_owned());
    assert_eq!(server.call(&["domains"]).code, 0);
}

#[test]
fn records_outlive_the_server() {
    let mut server = Server::plain();
    assert_eq!(server.call(&["create-desired-lrp", LRP]).code, 0);
    server.process.signal(rustix::process::Signal::TERM);
    assert_eq!(server.process.wait().code(), Some(0), "a signal stops in order");
    let Server { dir, .. } = server;
    let server = Server::start(dir, "http", "", &[]);
    let listed = server.call(&["desired-lrps"]).stdout;
    assert!(listed.contains(r#""process_guid":"hello""#), "{listed}");
}

/// The reader goes away after the first line; that is how `| head -1` looks from here.
#[test]
fn a_closed_pipe_is_no_failure() {
    let server = Server::plain();
    let mut command = server.command(&["domains"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(server.call(&["set-domain", "a"]).code, 0);
    let status = command.stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
