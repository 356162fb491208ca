//! Who is served by which server, who was seen, and who would be left behind.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use api::Route;
use api::version::Version;
use bbs::census::{ClientList, WATCHED_MIN_S};
use bbs::clock::ManualClock;
use bbs::config::{Finalization, Migration};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::harness::{PATIENCE, Server};
use crate::raw::{Reply, exchange, request};

/// When these tests happen.
const START_NS: i64 = 1_800_000_000 * model::NANOS_PER_SECOND;

fn version(major: u64) -> Version {
    Version { major, minor: 4, patch: 0 }
}

async fn of_version(major: u64) -> Server {
    Server::with(|config| config.api_version = version(major)).await
}

async fn call(server: &Server, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
    exchange(server.ready.api, &request(method, path, headers, body)).await.expect("an answer")
}

async fn ask(server: &Server, route: Route, client: &str) -> Reply {
    let headers = if client.is_empty() { String::new() } else { format!("X-Corkboard-Client: {client}\r\n") };
    call(server, route.method().as_str(), route.path(), &headers, b"").await
}

async fn census(server: &Server) -> ClientList {
    serde_json::from_slice(&call(server, "GET", "/corkboard/v1/clients", "", b"").await.body).unwrap()
}

/// The answer of a server to a client that it does not serve: protobuf with an error in field 1, or text.
fn refusal(route: Route, reply: &Reply) -> String {
    assert_eq!(reply.status, 400, "{route}");
    if route == Route::Ping || route.stream() {
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"), "{route}");
        return reply.text().trim_end().to_owned();
    }
    assert_eq!(reply.header("content-type"), Some("application/x-protobuf"), "{route}");
    let answer: api::models::ActualLrpLifecycleResponse = api::decode(&reply.body).unwrap();
    answer.error.unwrap().message
}

/// Every pair of major versions, on every route that answers with a message.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_serves_its_own_major_version_and_the_one_before() {
    let mut table = String::new();
    for server_major in 0..4 {
        let server = of_version(server_major).await;
        for client_major in 0..5 {
            let client = format!("tool/{client_major}.9.1");
            let (mut served, mut refused) = (0, Vec::new());
            for route in Route::ALL.iter().copied().filter(|route| !route.stream()) {
                let reply = ask(&server, route, &client).await;
                assert_eq!(reply.header("x-corkboard-server"), Some(&*version(server_major).to_string()), "{route}");
                match reply.status {
                    200 => served += 1,
                    _ => refused.push(refusal(route, &reply)),
                }
            }
            refused.dedup();
            assert!(served == 0 || refused.is_empty(), "the rule is the same on every route");
            let outcome = refused.first().map_or("served", String::as_str);
            writeln!(table, "server {server_major}.4.0, client {client_major}.9.1: {outcome}").unwrap();
        }
        server.stop().await;
    }
    expect![[r#"
        server 0.4.0, client 0.9.1: served
        server 0.4.0, client 1.9.1: tool/1.9.1 is newer than this server: it speaks version 1.9.1 of the API, and server 0.4.0 does not know more than version 0. Nothing was changed. Upgrade the servers first, then tool
        server 0.4.0, client 2.9.1: tool/2.9.1 is newer than this server: it speaks version 2.9.1 of the API, and server 0.4.0 does not know more than version 0. Nothing was changed. Upgrade the servers first, then tool
        server 0.4.0, client 3.9.1: tool/3.9.1 is newer than this server: it speaks version 3.9.1 of the API, and server 0.4.0 does not know more than version 0. Nothing was changed. Upgrade the servers first, then tool
        server 0.4.0, client 4.9.1: tool/4.9.1 is newer than this server: it speaks version 4.9.1 of the API, and server 0.4.0 does not know more than version 0. Nothing was changed. Upgrade the servers first, then tool
        server 1.4.0, client 0.9.1: served
        server 1.4.0, client 1.9.1: served
        server 1.4.0, client 2.9.1: tool/2.9.1 is newer than this server: it speaks version 2.9.1 of the API, and server 1.4.0 does not know more than version 1. Nothing was changed. Upgrade the servers first, then tool
        server 1.4.0, client 3.9.1: tool/3.9.1 is newer than this server: it speaks version 3.9.1 of the API, and server 1.4.0 does not know more than version 1. Nothing was changed. Upgrade the servers first, then tool
        server 1.4.0, client 4.9.1: tool/4.9.1 is newer than this server: it speaks version 4.9.1 of the API, and server 1.4.0 does not know more than version 1. Nothing was changed. Upgrade the servers first, then tool
        server 2.4.0, client 0.9.1: tool/0.9.1 is too old for this server: it speaks version 0.9.1 of the API, and server 2.4.0 serves clients of versions 1 and 2. Nothing was changed. Upgrade tool, one major version at a time
        server 2.4.0, client 1.9.1: served
        server 2.4.0, client 2.9.1: served
        server 2.4.0, client 3.9.1: tool/3.9.1 is newer than this server: it speaks version 3.9.1 of the API, and server 2.4.0 does not know more than version 2. Nothing was changed. Upgrade the servers first, then tool
        server 2.4.0, client 4.9.1: tool/4.9.1 is newer than this server: it speaks version 4.9.1 of the API, and server 2.4.0 does not know more than version 2. Nothing was changed. Upgrade the servers first, then tool
        server 3.4.0, client 0.9.1: tool/0.9.1 is too old for this server: it speaks version 0.9.1 of the API, and server 3.4.0 serves clients of versions 2 and 3. Nothing was changed. Upgrade tool, one major version at a time
        server 3.4.0, client 1.9.1: tool/1.9.1 is too old for this server: it speaks version 1.9.1 of the API, and server 3.4.0 serves clients of versions 2 and 3. Nothing was changed. Upgrade tool, one major version at a time
        server 3.4.0, client 2.9.1: served
        server 3.4.0, client 3.9.1: served
        server 3.4.0, client 4.9.1: tool/4.9.1 is newer than this server: it speaks version 4.9.1 of the API, and server 3.4.0 does not know more than version 3. Nothing was changed. Upgrade the servers first, then tool
    "#]].assert_eq(&table);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_operators_meet_the_same_rule() {
    let server = of_version(2).await;
    for route in Route::ALL.iter().copied().filter(|route| route.stream()) {
        let reply = ask(&server, route, "tool/0.1.0").await;
        assert!(refusal(route, &reply).contains("tool/0.1.0 is too old for this server"), "{route}");
    }
    let headers = "X-Corkboard-Client: tool/3.0.0\r\n";
    for (method, path) in [("GET", "status"), ("GET", "clients"), ("POST", "migration/start")] {
        let reply = call(&server, method, &format!("/corkboard/v1/{path}"), headers, b"").await;
        let refusal: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((reply.status, &refusal["code"]), (400, &json!("client-version")), "{path}");
    }
    assert_eq!(server.metric("clients_refused_total").await, 9.0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_names_nobody_is_refused_and_none_is_current() {
    let server = of_version(1).await;
    for wrong in ["tool", "tool/1", "tool/one.two.three", "/1.0.0", "a b/1.0.0"] {
        let reply = ask(&server, Route::Domains, wrong).await;
        assert!(refusal(Route::Domains, &reply).contains("not a name and a version"), "{wrong}");
    }
    for served in ["", "tool/1.0.0", "tool/0.9.0-rc.1"] {
        assert_eq!(ask(&server, Route::Domains, served).await.status, 200, "{served}");
    }
    // What is no version of a client changes nothing.
    let body = api::encode(api::models::UpsertDomainRequest { domain: "d".into(), ttl: 0 });
    let reply = call(&server, "POST", Route::UpsertDomain.path(), "X-Corkboard-Client: tool/2.0.0\r\n", &body).await;
    assert_eq!(reply.status, 400);
    assert!(server.client().domains().await.unwrap().is_empty(), "nothing was changed");
    server.stop().await;
}

fn shown(list: &ClientList) -> String {
    let mut text = String::new();
    for client in &list.clients {
        let from = client.from.as_deref().unwrap_or("nowhere");
        writeln!(text, "{} from {from}, {} served, {} refused", client.shown(), client.requests, client.refused)
            .unwrap();
        for endpoint in &client.endpoints {
            let age = if endpoint.deprecated { " deprecated" } else { "" };
            writeln!(text, "  {} r{} {}{age}", endpoint.path, endpoint.revision, endpoint.requests).unwrap();
        }
    }
    text
}

fn check(list: &ClientList, expected: &Expect) {
    assert!(list.clients.iter().all(|client| client.first_seen_ns >= list.since_ns), "since this node has been master");
    expected.assert_eq(&shown(list));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_is_seen_everywhere() {
    let server = of_version(1).await;
    ask(&server, Route::TasksR2, "billing/0.8.2").await;
    ask(&server, Route::Tasks, "billing/1.0.0").await;
    ask(&server, Route::Tasks, "billing/3.0.0").await;
    call(&server, "POST", Route::Cells.path(), "User-Agent: Go-http-client/1.1\r\n", b"").await;
    let list = census(&server).await;
    check(
        &list,
        &expect![[r#"
        unnamed from 127.0.0.1, 0 served, 0 refused
        Go-http-client/1.1 from 127.0.0.1, 1 served, 0 refused
          /v1/cells/list.r1 r1 1
        billing/3.0.0 from 127.0.0.1, 0 served, 1 refused
        billing/1.0.0 from 127.0.0.1, 1 served, 0 refused
          /v1/tasks/list.r3 r3 1
        billing/0.8.2 from 127.0.0.1, 1 served, 0 refused
          /v1/tasks/list.r2 r2 1 deprecated
    "#]],
    );
    let status = call(&server, "GET", "/corkboard/v1/status", "", b"").await;
    let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    let in_status: ClientList = serde_json::from_value(status["clients"].clone()).unwrap();
    assert_eq!(in_status.clients.len(), list.clients.len());
    let metrics = exchange(server.ready.health, b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    let metrics = metrics.unwrap().text().to_owned();
    assert!(metrics.contains("corkboard_deprecated_requests_total{route=\"Tasks_r2\"} 1\n"), "{metrics}");
    assert!(
        !metrics.contains("corkboard_deprecated_requests_total{route=\"Tasks\"}"),
        "only deprecated ones are counted"
    );
    let server = server.restart().await;
    check(
        &census(&server).await,
        &expect![[r#"
        unnamed from 127.0.0.1, 0 served, 0 refused
    "#]],
    );
    server.stop().await;
}

/// A server with a migration to finalize, under a clock that a test moves.
async fn migrating(clock: Arc<ManualClock>) -> Server {
    let server = Server::with_clock(clock, |config| {
        config.newest = store::Version::SplitDesiredLrp;
        config.api_version = version(1);
    })
    .await;
    let upgraded = server.stop().await.changed(|config| {
        config.newest = store::Version::LATEST;
        config.migration = Migration { finalization: Finalization::Manual, ..Migration::default() };
    });
    upgraded.start().await
}

async fn finalize(server: &Server, require_clients: bool) -> Reply {
    let body = json!({ "version": store::Version::LATEST.number().0, "require_clients": require_clients });
    call(server, "POST", "/corkboard/v1/migration/finalize", "", body.to_string().as_bytes()).await
}

/// The engine may still be on its way.
async fn finalized(server: &Server, require_clients: bool) {
    let accepted = async {
        while finalize(server, require_clients).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, accepted).await.expect("the migration becomes ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizing_may_insist_that_nobody_is_left_behind() {
    let server = migrating(Arc::new(ManualClock::at(START_NS))).await;
    ask(&server, Route::Ping, "billing/0.8.2").await;
    let refused = finalize(&server, true).await;
    assert_eq!(refused.status, 409);
    expect![[r#"{"code":"clients-left-behind","message":"clients were seen that would be left behind: billing/0.8.2: it is of version 0.8.2, and the next major version serves clients of 1.x and 2.x. Nothing was changed","next":"corkboard clients"}"#]].assert_eq(refused.text());
    // Without the demand it is the operator's to know.
    finalized(&server, false).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_known_to_be_missing_before_everybody_had_time_to_call() {
    let clock = Arc::new(ManualClock::at(START_NS));
    let server = migrating(clock.clone()).await;
    clock.advance(2 * model::NANOS_PER_SECOND);
    let refused = finalize(&server, true).await;
    assert_eq!(refused.status, 409);
    expect![[r#"{"code":"clients-unknown","message":"this server has been master for 2 s, which is too short to have seen every client: all of them are known after 300 s. Nothing was changed. Ask again in 298 s","next":"corkboard clients"}"#]].assert_eq(refused.text());
    clock.advance((WATCHED_MIN_S - 2) * model::NANOS_PER_SECOND);
    finalized(&server, true).await;
    server.stop().await;
}
