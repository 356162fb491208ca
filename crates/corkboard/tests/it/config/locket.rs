//! The tables `[locket]`, `[serve_locket]` and `[callbacks]`: among Diego's own components without a file of Diego's.

use expect_test::{Expect, expect};
use rig::pki::Pki;

use super::check;
use crate::program::{run, utf8};

const STORE: &str = "[store]\ndir = \"board\"\n";
const FILES: &str = "ca = \"ca.crt\"\ncert = \"client.crt\"\nkey = \"client.key\"\n";

fn case(tables: &str, code: i32, expected: &Expect) {
    check(&Pki::new(), &format!("node = \"n-1\"\n{STORE}{tables}"), code, expected);
}

#[test]
fn the_summary_names_locket_and_the_body_of_callbacks() {
    let tables = format!(
        "[callbacks]\nbody = \"full\"\ngive_up = \"1h\"\n[locket]\naddress = \"locket.example.org:8891\"\n{FILES}\
         owner = \"me\"\nkeepalive_time = \"10s\"\nkeepalive_timeout = \"22s\"\n"
    );
    case(
        &tables,
        0,
        &expect![[r#"
            board.toml: no problems
              node        n-1
              API         127.0.0.1:8889 (plain http)
              health      127.0.0.1:8890 (plain http)
              store       embedded, board
              identity    board.identity
              migration   online, starts by itself, ends by itself
              encryption  none; records are stored as they are
              auctioneer  none; instances wait until a cell claims them
              converge    every 30s
              tasks       offered again after 30s, failed after 30m or more than 3 rejections, deleted 2m after completion
              locket      locket.example.org:8891, as me
              callbacks   how a task ended; it is deleted when the receiver has answered
        "#]],
    );
}

#[test]
fn without_an_owner_the_node_is_meant() {
    let text = format!("node = \"n-1\"\n{STORE}[locket]\naddress = \"[::1]:8891\"\n{FILES}");
    check(
        &Pki::new(),
        &text,
        0,
        &expect![[r#"
        board.toml: no problems
          node        n-1
          API         127.0.0.1:8889 (plain http)
          health      127.0.0.1:8890 (plain http)
          store       embedded, board
          identity    board.identity
          migration   online, starts by itself, ends by itself
          encryption  none; records are stored as they are
          auctioneer  none; instances wait until a cell claims them
          converge    every 30s
          tasks       offered again after 30s, failed after 30m or more than 3 rejections, deleted 2m after completion
          locket      [::1]:8891, as n-1
    "#]],
    );
}

#[test]
fn mistakes_about_locket() {
    case(
        "[locket]\n",
        3,
        &expect![[r#"
        board.toml: locket.address: is missing; expected a host and a port, such as "locket.example.org:8891"
        board.toml: locket.ca: is missing, and cert and key too; Locket wants to see a certificate
        2 problems; nothing was started
    "#]],
    );
    let tables =
        "[locket]\naddress = \"https://locket:8891\"\nca = \"ca.crt\"\nkeepalive_timeout = \"22s\"\nttl = \"15s\"\n";
    case(
        tables,
        3,
        &expect![[r#"
            board.toml:5: locket.address: is not a host and a port; expected for instance "locket.example.org:8891", without https://, or several with commas between them
            board.toml:7: locket.keepalive_timeout: is for connections that are probed; add keepalive_time, or leave it out
            board.toml:8: locket.ttl: is not a key; expected one of address, ca, cert, key, owner, keepalive_time, keepalive_timeout
            board.toml: locket.cert: is missing; ca, cert and key belong together
            board.toml: locket.key: is missing; ca, cert and key belong together
            5 problems; nothing was started
        "#]],
    );
    let tables = format!("[locket]\naddress = \"locket:8891\"\n{FILES}owner = \"\"\nkeepalive_time = 10\n");
    case(
        &tables,
        3,
        &expect![[r#"
            board.toml:9: locket.owner: is empty; leave the key out, or give it a value
            board.toml:10: locket.keepalive_time: is an integer; expected a duration in quotes, such as "500ms", "30s", "5m" or "2h"
            2 problems; nothing was started
        "#]],
    );
    let tables = "[locket]\naddress = \"locket:8891\"\nca = \"ca.crt\"\ncert = \"client.crt\"\nkey = \"server.key\"\n";
    case(
        tables,
        3,
        &expect![[r#"
            board.toml:8: locket.key: the key in server.key does not belong to the certificate in client.crt
            1 problem; nothing was started
        "#]],
    );
}

/// Under one name two nodes would hold the lock together.
#[test]
fn a_node_without_a_name_needs_an_owner() {
    let text = format!("{STORE}[locket]\naddress = \"locket:8891\"\n{FILES}");
    check(
        &Pki::new(),
        &text,
        3,
        &expect![[r#"
        board.toml: locket.owner: is missing, and so is `node`; nodes that ask the same Locket need a name each
        1 problem; nothing was started
    "#]],
    );
}

#[test]
fn several_lockets_may_be_named() {
    let text = format!("node = \"n-1\"\n{STORE}[locket]\naddress = \"10.0.0.1:8891, 10.0.0.2:8891\"\n{FILES}");
    let pki = Pki::new();
    std::fs::write(pki.path("board.toml"), text).unwrap();
    let outcome = run(&["config", "check", utf8(&pki.path("board.toml"))]);
    assert!(outcome.stdout.contains("locket      10.0.0.1:8891, 10.0.0.2:8891, as n-1\n"), "{outcome:?}");
}

#[test]
fn a_node_may_serve_locket_itself() {
    let tls = Pki::SERVER_TABLE;
    case(
        &format!("{tls}[serve_locket]\n"),
        0,
        &expect![[r#"
            board.toml: no problems
              node        n-1
              API         127.0.0.1:8889 (https, client certificates required)
              health      127.0.0.1:8890 (plain http)
              store       embedded, board
              identity    board.identity
              migration   online, starts by itself, ends by itself
              encryption  none; records are stored as they are
              auctioneer  none; instances wait until a cell claims them
              converge    every 30s
              tasks       offered again after 30s, failed after 30m or more than 3 rejections, deleted 2m after completion
              Locket      served on 0.0.0.0:8891 (TLS, client certificates required)
        "#]],
    );
    case(
        &format!(
            "[serve_locket]\nlisten = \"127.0.0.1:8890\"\naddress = \"a:1\"\n[locket]\naddress = \"a:1\"\n{FILES}"
        ),
        3,
        &expect![[r#"
            board.toml:5: serve_locket.listen: 127.0.0.1:8890 is also the address of `health`; expected another port
            board.toml:6: serve_locket.address: is not a key; expected one of listen
            board.toml: serve_locket: needs the table [tls]: Locket shows a certificate, and wants to see one
            board.toml: serve_locket: serves Locket from this node, and [locket] makes this node a client of another one; expected one of the two tables
            4 problems; nothing was started
        "#]],
    );
}

#[test]
fn mistakes_about_callbacks() {
    case(
        "[callbacks]\nbody = \"all\"\ngive_up = \"0s\"\n",
        3,
        &expect![[r#"
            board.toml:5: callbacks.body: "all" is not known; expected "guid" or "full"
            board.toml:6: callbacks.give_up: "0s" is zero; expected more
            2 problems; nothing was started
        "#]],
    );
}
