//! `clients`, and what finalizing says about them: what is asked, what is printed, and how it ends; and the same with a real
//! server.

use expect_test::expect;
use tempfile::TempDir;

use crate::operator::check;
use crate::program::{Server, run};

const CLIENTS: &str = "GET /corkboard/v1/clients";
const STATUS: &str = "GET /corkboard/v1/migration";
const FINALIZE: &str = "POST /corkboard/v1/migration/finalize";

/// The moments lie in the future, so that the time since then is nothing.
fn list(clients: &str) -> String {
    format!(
        r#"{{"server_version":"1.0.0","since_ns":9000000000000000000,"clients_max":1024,"news":1,"clients":[{clients}]}}"#
    )
}

const OLD: &str = r#"{"name":"billing","version":"0.8.2","from":"10.0.0.7","first_seen_ns":0,"last_seen_ns":9000000000000000000,
    "requests":3,"refused":0,"left_behind":"it is of version 0.8.2","endpoints":[{"endpoint":"Tasks_r2",
    "path":"/v1/tasks/list.r2","revision":2,"deprecated":true,"replaced_by":"/v1/tasks/list.r3","served_until":null,
    "requests":3,"last_seen_ns":9000000000000000000}]}"#;
const NEW: &str = r#"{"name":"Go-http-client/1.1","version":null,"from":null,"first_seen_ns":0,
    "last_seen_ns":9000000000000000000,"requests":1,"refused":0,"left_behind":null,"endpoints":[{"endpoint":"Cells",
    "path":"/v1/cells/list.r1","revision":1,"deprecated":false,"replaced_by":null,"served_until":null,"requests":1,
    "last_seen_ns":9000000000000000000}]}"#;

#[test]
fn in_words_and_in_json() {
    let both = list(&format!("{OLD},{NEW}"));
    let script = [(CLIENTS, 200, both.as_str())];
    check(
        &script,
        &["clients"],
        &expect![[r#"
        CLIENT              VERSION  FROM      ENDPOINT           REVISION  REQUESTS  LAST SEEN  NOTE
        billing             0.8.2    10.0.0.7  /v1/tasks/list.r2  r2        3         0 s ago    deprecated, use /v1/tasks/list.r3
        Go-http-client/1.1  unknown            /v1/cells/list.r1  r1        1         0 s ago

        warning: billing/0.8.2 (last from 10.0.0.7) would be left behind: it is of version 0.8.2
        Seen by server 1.0.0 in the 0 s since it became master; it forgets at a change of masters.
        = 7
        < GET /corkboard/v1/clients
    "#]],
    );
    check(
        &script,
        &["clients", "--deprecated"],
        &expect![[r#"
        CLIENT   VERSION  FROM      ENDPOINT           REVISION  REQUESTS  LAST SEEN  NOTE
        billing  0.8.2    10.0.0.7  /v1/tasks/list.r2  r2        3         0 s ago    deprecated, use /v1/tasks/list.r3

        warning: billing/0.8.2 (last from 10.0.0.7) would be left behind: it is of version 0.8.2
        Seen by server 1.0.0 in the 0 s since it became master; it forgets at a change of masters.
        = 7
        < GET /corkboard/v1/clients
    "#]],
    );
    check(
        &script,
        &["clients", "--json"],
        &expect![[r#"
        {"server_version":"1.0.0","since_ns":9000000000000000000,"clients_max":1024,"news":1,"clients":[{"name":"billing","version":"0.8.2","from":"10.0.0.7","first_seen_ns":0,"last_seen_ns":9000000000000000000,"requests":3,"refused":0,"left_behind":"it is of version 0.8.2","endpoints":[{"endpoint":"Tasks_r2","path":"/v1/tasks/list.r2","revision":2,"deprecated":true,"replaced_by":"/v1/tasks/list.r3","served_until":null,"requests":3,"last_seen_ns":9000000000000000000}]},{"name":"Go-http-client/1.1","version":null,"from":null,"first_seen_ns":0,"last_seen_ns":9000000000000000000,"requests":1,"refused":0,"left_behind":null,"endpoints":[{"endpoint":"Cells","path":"/v1/cells/list.r1","revision":1,"deprecated":false,"replaced_by":null,"served_until":null,"requests":1,"last_seen_ns":9000000000000000000}]}]}
        = 7
        < GET /corkboard/v1/clients
    "#]],
    );
    let current = list(NEW);
    check(
        &[(CLIENTS, 200, &current)],
        &["clients", "--deprecated"],
        &expect![[r#"
        no clients: nobody who uses something deprecated or would be left behind was seen since this server became master, 0 s ago
        = 0
        < GET /corkboard/v1/clients
    "#]],
    );
}

#[test]
fn an_older_server_knows_no_clients() {
    check(
        &[(CLIENTS, 404, r#"{"code":"no-such-path","message":"there is nothing","next":null}"#)],
        &["clients"],
        &expect![[r#"
            corkboard: there is nothing
            = 4
            < GET /corkboard/v1/clients
        "#]],
    );
}

const READY: &str = r#"{"state":"ready","explanation":"Everything is copied.","next":"corkboard migrate finalize","mode":"online",
    "current":{"number":1,"name":"a"},"target":{"number":2,"name":"b"},"done":1,"total":1}"#;

#[test]
fn finalizing_warns_or_refuses() {
    let left = list(OLD);
    let done = r#"{"message":"The migration is being finalized.","migration":{"state":"finalizing"}}"#;
    let script = [(STATUS, 200, READY), (CLIENTS, 200, left.as_str()), (FINALIZE, 200, done)];
    check(
        &script,
        &["migrate", "finalize", "--yes"],
        &expect![[r#"
        The migration is being finalized.
        warning: billing/0.8.2 (last from 10.0.0.7) would be left behind: it is of version 0.8.2
        = 0
        < GET /corkboard/v1/migration
        < GET /corkboard/v1/clients
        < POST /corkboard/v1/migration/finalize {"version":2}
    "#]],
    );
    let refused = r#"{"code":"clients-left-behind","message":"clients were seen that would be left behind: billing/0.8.2","next":"corkboard clients"}"#;
    let script = [(STATUS, 200, READY), (FINALIZE, 409, refused)];
    check(
        &script,
        &["migrate", "finalize", "--yes", "--require-clients"],
        &expect![[r#"
        corkboard: clients were seen that would be left behind: billing/0.8.2
        Next: corkboard clients
        = 4
        < GET /corkboard/v1/migration
        < POST /corkboard/v1/migration/finalize {"require_clients":true,"version":2}
    "#]],
    );
}

#[test]
fn of_several_addresses_the_one_that_serves_is_used() {
    let server = Server::start(TempDir::new().unwrap(), "http", "", &[]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let several = format!("http://{nobody},{}", server.flags[1]);
    assert_eq!(run(&["--bbsURL", &several, "domains"]).code, 0);
    let outcome = run(&["--bbsURL", &format!("http://{nobody}"), "domains"]);
    assert_eq!(outcome.code, 5, "{outcome:?}");
}

#[test]
fn a_real_server_tells_who_asked_it() {
    let server = Server::start(TempDir::new().unwrap(), "http", "", &[]);
    assert_eq!(server.call(&["domains"]).code, 0);
    let outcome = server.call(&["clients"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let client = concat!("corkboard  ", env!("CARGO_PKG_VERSION"));
    assert!(outcome.stdout.contains(client) && outcome.stdout.contains("/v1/domains/list"), "{}", outcome.stdout);
}
