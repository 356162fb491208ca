//! Single calls: what is sent, and how each kind of answer is understood.

use std::time::Duration;

use api::client::{ClientError, TransportKind};
use api::models::error::Type;
use api::models::{
    ActualLrpInstanceKey, ActualLrpKey, ActualLrpNetInfo, EvacuateRunningActualLrpRequest, StartActualLrpRequest,
};

use crate::server::{Reply, Server, answer, protobuf};

const NOT_FOUND: &[u8] = b"\x0a\x2d\x08\x0d\x12\x29the requested resource could not be found";

async fn failure(reply: Reply) -> ClientError {
    let server = Server::start(vec![reply]).await;
    server.client().upsert_domain("d", 0).await.expect_err("the call must fail")
}

fn transport_kind(error: &ClientError) -> TransportKind {
    match error {
        ClientError::Transport { kind, .. } => *kind,
        other => panic!("not a transport failure: {other:?}"),
    }
}

#[tokio::test]
async fn a_ping_is_what_diego_sends_and_answers() {
    let server = Server::start(vec![protobuf(&[0x08, 0x01]), protobuf(&[])]).await;
    let client = server.client();
    assert!(client.ping().await.unwrap());
    assert!(!client.ping().await.unwrap(), "a server may say that it is not available");
    let seen = &server.requests()[0];
    assert_eq!(seen.line(), "POST /v1/ping HTTP/1.1");
    assert_eq!(seen.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(seen.header("content-length"), Some("0"));
    assert_eq!(seen.header("host"), Some(format!("127.0.0.1:{}", server.port).as_str()));
    assert_eq!(seen.header("x-vcap-request-id"), None);
    assert!(seen.header("x-corkboard-client").unwrap().starts_with("corkboard/"));
}

#[tokio::test]
async fn a_start_has_the_bytes_seen_on_the_wire() {
    let server = Server::start(vec![protobuf(&[])]).await;
    let client = server.client_with(|config| config.trace_id = Some("abc-123".into()));
    let request = StartActualLrpRequest {
        actual_lrp_key: Some(ActualLrpKey::default()),
        actual_lrp_instance_key: Some(ActualLrpInstanceKey::default()),
        actual_lrp_net_info: Some(ActualLrpNetInfo::default()),
        routable: Some(true),
        ..Default::default()
    };
    client.start_actual_lrp(request.clone()).await.unwrap();
    client.with_trace_id("def").unwrap().start_actual_lrp(request).await.unwrap();
    let seen = server.requests();
    assert_eq!(seen[0].line(), "POST /v1/actual_lrps/start.r1 HTTP/1.1");
    assert_eq!(seen[0].body, b"\x0a\x00\x12\x00\x1a\x00\x30\x01");
    assert_eq!(seen[0].header("x-vcap-request-id"), Some("abc-123"));
    assert_eq!(seen[1].header("x-vcap-request-id"), Some("def"));
}

#[tokio::test]
async fn an_error_field_is_the_servers_refusal() {
    let error = failure(protobuf(NOT_FOUND)).await;
    assert!(error.is(Type::ResourceNotFound));
    assert_eq!(
        error.to_string(),
        "the server refused POST /v1/domains/upsert: ResourceNotFound: the requested resource could not be found"
    );
    assert!(failure(protobuf(&[0x0a, 0x00])).await.is(Type::UnknownError), "present but empty");
}

#[tokio::test]
async fn the_content_type_decides_and_not_the_status() {
    let reply = answer("503 Service Unavailable", "Content-Type: APPLICATION/x-protobuf; v=1\r\n", NOT_FOUND);
    assert!(failure(reply).await.is(Type::ResourceNotFound));

    let server = Server::start(vec![answer("200 OK", "Content-Type: text/html\r\n", b"<html>hello</html>")]).await;
    assert_eq!(server.client().domains().await.unwrap(), Vec::<String>::new(), "an empty success, as in Diego");
}

#[tokio::test]
async fn a_status_says_what_the_server_is_doing() {
    let error = failure(answer("404 Not Found", "Content-Type: text/plain\r\n", b"404 page not found")).await;
    assert!(matches!(&error, ClientError::Status { status: 404, body, .. } if body == "404 page not found"));
    assert_eq!(error.as_bbs().unwrap().message, "Invalid Response with status code: 404");

    let headers = "Retry-After: 2\r\nX-Corkboard-Phase: migrating\r\nContent-Type: application/json\r\n";
    let error = failure(answer("503 Service Unavailable", headers, br#"{"code":"not_ready"}"#)).await;
    assert_eq!(error.to_string(), "the server answered POST /v1/domains/upsert with status 503 (phase: migrating)");
    match error {
        ClientError::Status { status: 503, retry_after_s: Some(2), body, .. } => {
            assert_eq!(body, r#"{"code":"not_ready"}"#);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        failure(answer("503 Service Unavailable", "", b"")).await,
        ClientError::Status { status: 503, .. }
    ));
}

#[tokio::test]
async fn a_long_failure_body_is_cut_and_its_connection_not_used_again() {
    let server = Server::start(vec![answer("500 Oh", "", &[b'x'; 100_000]), protobuf(&[0x08, 0x01])]).await;
    let client = server.client();
    match client.upsert_domain("d", 0).await.unwrap_err() {
        ClientError::Status { body, .. } => assert_eq!(body.len(), 4096),
        other => panic!("{other:?}"),
    }
    assert!(client.ping().await.unwrap());
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_router_on_the_way_is_named() {
    let reply = answer("502 Bad Gateway", "X-Cf-Routererror: endpoint_failure\r\n", b"");
    let error = failure(reply).await;
    assert_eq!(
        error.to_string(),
        "a router on the way answered POST /v1/domains/upsert: endpoint_failure; the call may have been carried out"
    );
    assert!(error.retryable());
}

#[tokio::test]
async fn protobuf_that_is_none_is_told_apart() {
    let error = failure(protobuf(&[0x0a, 0x7f])).await;
    assert!(matches!(&error, ClientError::Decode { .. }), "{error:?}");
    assert_eq!(error.as_bbs().unwrap().kind(), Type::InvalidProtobufMessage);
}

#[tokio::test]
async fn silence_ends_at_the_time_limit() {
    for reply in [Reply::Silence, Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec())] {
        let server = Server::start(vec![reply]).await;
        let client = server.client_with(|config| config.timeout = Some(Duration::from_millis(50)));
        let error = client.domains().await.unwrap_err();
        assert_eq!(transport_kind(&error), TransportKind::Timeout);
        assert_eq!(error.as_bbs().unwrap().kind(), Type::Timeout);
    }
}

#[tokio::test]
async fn a_connection_that_ends_too_early_is_told_apart() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 9\r\n\r\nhalf".to_vec();
    for reply in [Reply::BytesThenClose(vec![]), Reply::BytesThenClose(cut)] {
        let error = failure(reply).await;
        assert_eq!(transport_kind(&error), TransportKind::Closed, "{error:?}");
        assert!(error.retryable() && error.as_bbs().is_none());
    }
}

#[tokio::test]
async fn nobody_listening_is_told_apart() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let config = api::client::ClientConfig::once(url, None);
    let error = api::client::Client::new(config).unwrap().ping().await.unwrap_err();
    assert_eq!(transport_kind(&error), TransportKind::Refused);
    assert_eq!(error.to_string(), "POST /v1/ping failed: the connection was refused; the server is down or on standby");
}

#[tokio::test]
async fn connections_are_kept_and_shared_between_clones() {
    let server = Server::start(vec![protobuf(&[0x08, 0x01])]).await;
    let client = server.client();
    for _ in 0..3 {
        assert!(client.ping().await.unwrap());
        assert!(client.clone().ping().await.unwrap());
    }
    assert_eq!(server.connections(), 1);
    let (a, b) = tokio::join!(client.ping(), client.ping());
    assert!(a.unwrap() && b.unwrap());
    assert_eq!(server.connections(), 2, "calls at the same time need two");
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_replaced() {
    let last = answer("200 OK", "Content-Type: application/x-protobuf\r\nConnection: close\r\n", &[0x08, 0x01]);
    let server = Server::start(vec![last]).await;
    let client = server.client();
    for _ in 0..3 {
        assert!(client.ping().await.unwrap());
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn text_in_answers_may_be_broken() {
    let server = Server::start(vec![protobuf(b"\x12\x02a\xff")]).await;
    assert_eq!(server.client().domains().await.unwrap(), ["a\u{fffd}"]);
}

#[tokio::test]
async fn evacuation_always_says_whether_to_keep_the_container() {
    let refused = [NOT_FOUND, b"\x10\x01"].concat();
    let server = Server::start(vec![protobuf(b"\x10\x01"), protobuf(&refused), Reply::BytesThenClose(vec![])]).await;
    let client = server.client();
    let key = || (ActualLrpKey::default(), ActualLrpInstanceKey::default());

    let kept = client.evacuate_running_actual_lrp(EvacuateRunningActualLrpRequest::default()).await;
    assert!(kept.keep_container && kept.outcome.is_ok());

    let refused = client.evacuate_claimed_actual_lrp(key().0, key().1).await;
    assert!(refused.keep_container, "the answer counts although it is an error");
    assert!(refused.outcome.unwrap_err().is(Type::ResourceNotFound));

    let lost = [
        client.evacuate_claimed_actual_lrp(key().0, key().1).await,
        client.evacuate_running_actual_lrp(EvacuateRunningActualLrpRequest::default()).await,
        client.evacuate_crashed_actual_lrp(key().0, key().1, "e").await,
        client.evacuate_stopped_actual_lrp(key().0, key().1).await,
    ];
    assert!(lost.iter().all(|it| it.outcome.is_err()));
    assert_eq!(lost.map(|it| it.keep_container), [true, true, false, false]);
}

/// Programs call from tasks that move between threads; this does not compile otherwise.
#[tokio::test]
async fn calls_may_be_made_from_any_task() {
    let server = Server::start(vec![protobuf(&[0x08, 0x01])]).await;
    let client = server.client();
    let ping = tokio::spawn(async move {
        let _ = client.ask(&api::client::Question::get("/a", &[])).await;
        if let Ok(mut feed) = client.follow_task_events().await {
            drop(tokio::spawn(async move { feed.next().await.is_ok() }));
        }
        client.ping().await
    });
    assert!(ping.await.unwrap().unwrap());
}
