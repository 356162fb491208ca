//! The surface: all paths, their methods, and what every answer looks like before anybody looks into its message.

use api::Route;

use crate::harness::Server;
use crate::raw::{self, Reply};
use crate::samples;

/// `InvalidRequest: the request received is invalid` in field 1.
const UNREADABLE: &[u8] = b"\x0a\x23\x08\x04\x12\x1fthe request received is invalid";

fn messages() -> impl Iterator<Item = Route> {
    Route::ALL.iter().copied().filter(|route| !route.stream())
}

fn streams() -> impl Iterator<Item = Route> {
    Route::ALL.iter().copied().filter(|route| route.stream())
}

fn ignores_its_body(route: Route) -> bool {
    route.request().is_none()
}

fn check_shape(route: Route, reply: &Reply) {
    assert_eq!(reply.status, 200, "{route}");
    assert_eq!(reply.header("content-type"), Some("application/x-protobuf"), "{route}");
    assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string().as_str()), "{route}");
    assert!(reply.header("date").is_some(), "{route}");
    assert_eq!(reply.header("content-encoding"), None, "{route}");
}

#[tokio::test]
async fn every_call_answers_with_protobuf_and_its_length() {
    let server = Server::start().await;
    for route in messages() {
        check_shape(route, &raw::call(server.ready.api, route, b"").await);
    }
    let ping = raw::post(server.ready.api, "/v1/ping", b"\xff\xff this is not read").await;
    assert_eq!(ping.body, [0x08, 0x01]);
    let query = raw::post(server.ready.api, "/v1/ping?some=thing", b"").await;
    assert_eq!(query.body, [0x08, 0x01], "a query is ignored");
}

#[tokio::test]
async fn a_body_that_is_no_message_is_told_so_in_a_200() {
    let server = Server::start().await;
    for (why, body) in [
        ("truncated", &b"\x0a"[..]),
        ("a length beyond the end", b"\x0a\x7fabc"),
        ("field number 0", b"\x02\x00"),
        ("a wrong wire type on field 1", b"\x0d\x00\x00\x00\x00"),
        ("an endless varint", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    ] {
        for route in messages().filter(|route| !ignores_its_body(*route)) {
            let reply = raw::call(server.ready.api, route, body).await;
            check_shape(route, &reply);
            let keeps = matches!(
                route,
                Route::EvacuateClaimedActualLrp | Route::EvacuateRunningActualLrp | Route::EvacuateRunningActualLrpR0
            );
            let expected = if keeps { [UNREADABLE, b"\x10\x01"].concat() } else { UNREADABLE.to_vec() };
            assert_eq!(reply.body, expected, "{why} on {route}");
        }
    }
}

#[tokio::test]
async fn unknown_paths_are_404() {
    let server = Server::start().await;
    let mut paths: Vec<String> = Route::ALL.iter().map(|route| format!("{}/", route.path())).collect();
    paths.extend(
        ["/", "/v1", "/v1/ping.r1", "/V1/ping", "//v1/ping", "/v1/cells/list", "/v1/tasks/list.r4", "/v2/ping"]
            .map(Into::into),
    );
    for path in paths {
        for method in ["POST", "GET", "DELETE"] {
            let reply = raw::exchange(server.ready.api, &raw::request(method, &path, "", b"")).await.unwrap();
            assert_eq!((reply.status, reply.text()), (404, "404 page not found\n"), "{method} {path}");
            assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        }
    }
}

#[tokio::test]
async fn known_paths_with_another_method_are_405_and_name_the_right_ones() {
    let server = Server::start().await;
    for route in Route::ALL {
        let allowed = Route::allow(route.path()).unwrap();
        for method in ["GET", "POST", "PUT", "DELETE"].into_iter().filter(|method| !allowed.contains(method)) {
            let reply = raw::exchange(server.ready.api, &raw::request(method, route.path(), "", b"")).await.unwrap();
            assert_eq!((reply.status, reply.text()), (405, "Method Not Allowed\n"), "{method} {route}");
            assert_eq!(reply.header("allow"), Some(allowed), "{route}");
        }
    }
    let both = raw::exchange(server.ready.api, &raw::request("PUT", "/v1/cells/list.r1", "", b"")).await.unwrap();
    assert_eq!(both.header("allow"), Some("GET, POST"));
}

#[tokio::test]
async fn streams_answer_before_there_is_any_event() {
    let server = Server::start().await;
    for route in streams() {
        for body in [&b""[..], b"\x0a\x04cell"] {
            let mut stream = raw::connect(server.ready.api).await;
            let request = raw::request(route.method().as_str(), route.path(), "", body);
            tokio::io::AsyncWriteExt::write_all(&mut stream, &request).await.unwrap();
            let head = raw::read_until(&mut stream, "\r\n\r\n").await;
            let reply = Reply::parse(head.as_bytes()).unwrap();
            assert_eq!(reply.status, 200, "{route}");
            assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"), "{route}");
            assert_eq!(reply.header("cache-control"), Some("no-cache, no-store, must-revalidate"), "{route}");
            assert_eq!(reply.header("transfer-encoding"), Some("chunked"), "{route}");
            assert_eq!(reply.text(), "", "{route}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_cannot_be_understood_is_500_without_a_body() {
    let server = Server::start().await;
    let nobody = [&b"\x0a\x80\x02"[..], &[b'x'; 256]].concat();
    for route in streams().filter(|route| !ignores_its_body(*route)) {
        for body in [&b"\x0a"[..], &nobody] {
            let request = raw::request(route.method().as_str(), route.path(), "", body);
            let reply = raw::exchange(server.ready.api, &request).await.unwrap();
            assert_eq!((reply.status, reply.body.as_slice()), (500, &b""[..]), "{route}");
        }
    }
}

#[tokio::test]
async fn the_request_id_is_optional_and_given_back() {
    let server = Server::start().await;
    let client = server.client();
    let mut events = client.subscribe_to_instance_events(Default::default()).await.unwrap();
    for (at, (header, echoed)) in [
        ("", None),
        ("X-Vcap-Request-Id: \r\n", Some("")),
        ("x-vcap-request-id: 0123-abcd\r\n", Some("0123-abcd")),
        ("X-VCAP-REQUEST-ID: caf\u{e9}\r\n", Some("caf\u{e9}")),
    ]
    .into_iter()
    .enumerate()
    {
        let lrp = api::models::DesireLrpRequest { desired_lrp: Some(samples::lrp(&format!("p{at}"), 1)) };
        let request = raw::request("POST", Route::DesireDesiredLrp.path(), header, &api::encode(lrp));
        let reply = raw::exchange(server.ready.api, &request).await.unwrap();
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b""[..]));
        assert_eq!(reply.header("x-vcap-request-id"), echoed);
        // Only what can be text in a message is carried into it.
        let trace = echoed.filter(|id| id.is_ascii()).unwrap_or_default();
        for _ in 0..2 {
            match events.next().await.unwrap().unwrap().payload {
                api::event::EventPayload::DesiredLrpCreated(event) => assert_eq!(event.trace_id, trace),
                api::event::EventPayload::ActualLrpInstanceCreated(event) => assert_eq!(event.trace_id, trace),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let server = Server::start().await;
    let mut stream = raw::connect(server.ready.api).await;
    let one = "POST /v1/ping HTTP/1.1\r\nHost: bbs\r\nContent-Length: 0\r\n\r\n";
    // Sent at once: the answers come one after another, in order.
    tokio::io::AsyncWriteExt::write_all(&mut stream, one.repeat(50).as_bytes()).await.unwrap();
    let mut answers = String::new();
    while answers.matches("HTTP/1.1 200 OK").count() < 50 {
        answers += &raw::read_until(&mut stream, "\x08\x01").await;
    }
}
