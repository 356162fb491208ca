//! Cells that are not what they seem: one of Diego, one that is away, one whose apps write what terminals obey.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use expect_test::expect;
use tempfile::TempDir;

use crate::program::{LRP, Server};
use crate::terminal::Terminal;

/// Answers every request with the same.
fn played(status: &'static str, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    address
}

fn server(cells: &[(&str, SocketAddr)]) -> Server {
    let dir = TempDir::new().unwrap();
    let cell = |(id, address): &(&str, SocketAddr)| {
        format!(r#"{{"cell_id":"{id}","rep_address":"http://{address}","zone":"z1","rep_url":"http://{address}"}}"#)
            + "\n"
    };
    std::fs::write(dir.path().join("cells.jsonl"), cells.iter().map(cell).collect::<String>()).unwrap();
    let text = "listen = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n[cells]\nfile = \"cells.jsonl\"\n";
    std::fs::write(dir.path().join("board.toml"), text).unwrap();
    let server = Server::start_as_configured(dir, "http", &[]);
    assert_eq!(server.call(&["create-desired-lrp", LRP]).code, 0);
    server
}

const TOLD: &str = concat!(
    r#"{"type":"hello","cell_id":"ours","now_ns":5}"#,
    "\n",
    r#"{"type":"line","at_ns":1700000000123456789,"process_guid":"hello","instance_guid":"i","index":0,"source":"APP","error":false,"text":"\u001b[2J\u001b]0;owned\u0007\u001b[31mred\u001b[0m \u009b2J"}"#,
    "\n",
    r#"{"type":"of a later release"}"#,
    "\n"
);

#[test]
fn who_does_not_tell_is_named_and_the_rest_is_shown() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (diego, ours) = (played("404 Not Found", ""), played("200 OK", TOLD));
    let silent = server(&[("diego", diego), ("gone", gone)]).call(&["logs", "hello"]);
    expect![[r#"
        corkboard: diego is not heard, so its lines are missing: it does not know the path /corkboard/v1/logs: it is a cell of Diego, whose logs are found where Diego sends them, or of an older release
        corkboard: gone is not heard, so its lines are missing: nobody listens at its address: Connection refused (os error 111)
        corkboard: none of the cells could be asked
    "#]].assert_eq(&silent.stderr);
    assert_eq!((silent.code, silent.stdout.as_str()), (5, ""));

    let some = server(&[("diego", diego), ("ours", ours)]).call(&["logs", "hello"]);
    assert_eq!(some.code, 0, "{some:?}");
    assert!(some.stderr.starts_with("corkboard: diego is not heard") && some.stderr.lines().count() == 1, "{some:?}");
    assert!(some.stdout.ends_with("\u{1b}[31mred\u{1b}[0m \u{9b}2J\n"), "a pipe gets what was written: {some:?}");
}

#[test]
fn a_terminal_obeys_no_app() {
    let server = server(&[("ours", played("200 OK", TOLD))]);
    let (shown, code) = Terminal::run(&mut server.command(&["logs", "hello"])).end();
    assert_eq!(code, 0, "{shown}");
    expect![[r#"2023-11-14T22:13:20.123Z \u{1b}[32m[APP/0]\u{1b}[0m OUT ␛[2J␛]0;owned␇red �2J\n"#]]
        .assert_eq(&shown.escape_debug().to_string());
    let (json, _) = Terminal::run(&mut server.command(&["logs", "hello", "--json"])).end();
    assert!(!json.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{json:?}");
}
