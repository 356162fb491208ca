//! What broken, slow and hostile clients can do: nothing to the board, and nothing to the others.

use std::time::Duration;

use api::client::Client;
use api::models::{Action, DesireLrpRequest, TryAction};
use api::{Route, encode};
use bbs::config::Limits;
use tokio::io::AsyncWriteExt;

use crate::harness::{Server, Shown, shown, until, verdict};
use crate::{raw, samples};

/// Long enough for a busy machine to send a request, short enough to wait for.
const SHORT: Duration = Duration::from_millis(400);

async fn server() -> (Server, Client, Shown) {
    let server = Server::with(|config| {
        config.limits = Limits {
            body_bytes_max: 1024 * 1024,
            header_bytes_max: 16 * 1024,
            connections_max: 64,
            handshake_timeout: SHORT,
            idle_timeout: SHORT,
            body_timeout: SHORT,
            ..Limits::default()
        };
    })
    .await;
    let client = server.client();
    client.desire_lrp(samples::lrp("p", 2)).await.unwrap();
    client.desire_task("t", "d", samples::task()).await.unwrap();
    client.upsert_domain("d", 0).await.unwrap();
    let before = shown(&client).await;
    (server, client, before)
}

#[tokio::test]
async fn no_refused_request_changes_anything() {
    let (server, client, before) = server().await;
    let api = server.ready.api;
    let nested = |depth| {
        let mut action = samples::run();
        for _ in 0..depth {
            action = Action {
                try_action: Some(Box::new(TryAction { action: Some(Box::new(action)), ..Default::default() })),
                ..Default::default()
            };
        }
        let lrp = api::models::DesiredLrp { action: Some(action), ..samples::lrp("deep", 1) };
        encode(DesireLrpRequest { desired_lrp: Some(lrp) })
    };
    let too_deep = raw::post(api, Route::DesireDesiredLrp.path(), &nested(200)).await;
    assert_eq!((too_deep.status, &too_deep.body[2..4]), (200, &[0x08, 0x04][..]), "an InvalidRequest");
    assert_eq!(shown(&client).await, before);

    let empty = Action {
        try_action: Some(Box::new(TryAction { action: Some(Box::default()), ..Default::default() })),
        ..Default::default()
    };
    let lrp = api::models::DesiredLrp { action: Some(empty), ..samples::lrp("empty", 1) };
    assert!(verdict(client.desire_lrp(lrp).await).starts_with("InvalidRequest: Invalid field: action"));
    assert_eq!(
        verdict(client.desire_lrp(api::models::DesiredLrp::default()).await),
        "InvalidRequest: Invalid field: domain, Invalid field: rootfs, Invalid field: rootfs, Invalid field: metric_tags, \
         Invalid field: domain, Invalid field: process_guid, invalid action type"
    );
    let keyless = api::models::StartActualLrpRequest {
        actual_lrp_key: Some(Default::default()),
        actual_lrp_instance_key: Some(Default::default()),
        actual_lrp_net_info: Some(Default::default()),
        ..Default::default()
    };
    assert_eq!(
        verdict(client.start_actual_lrp(keyless).await),
        "InvalidRequest: Invalid field: process_guid, Invalid field: domain, Invalid field: cell_id, \
         Invalid field: instance_guid, Invalid field: address"
    );
    let long = "x".repeat(256);
    assert!(verdict(client.upsert_domain(&long, 0).await).starts_with("InvalidRequest"));
    assert!(verdict(client.upsert_domain("", 0).await).starts_with("InvalidRequest"));
    assert!(verdict(client.claim_actual_lrp(&long, 0, samples::instance("a")).await).starts_with("InvalidRequest"));
    assert!(verdict(client.desire_task("a/b", "d", samples::task()).await).starts_with("InvalidRequest"));
    assert_eq!(shown(&client).await, before);

    let deep_enough = raw::post(api, Route::DesireDesiredLrp.path(), &nested(20)).await;
    assert_eq!(deep_enough.body, b"", "some nesting is fine");
}

#[tokio::test]
async fn a_record_that_no_store_takes_is_refused_by_name() {
    let server = Server::start().await;
    let client = server.client();
    client.desire_lrp(samples::lrp("p", 1)).await.unwrap();
    let before = shown(&client).await;
    let value = "x".repeat(6 * 1024 * 1024);
    let large = api::models::EnvironmentVariable { name: "LARGE".into(), value };
    let lrp = api::models::DesiredLrp { environment_variables: vec![large.clone()], ..samples::lrp("large", 1) };
    let refused = verdict(client.desire_lrp(lrp).await);
    assert!(refused.starts_with("InvalidRequest: ") && refused.contains("bytes"), "{refused}");
    let task = api::models::TaskDefinition { environment_variables: vec![large], ..samples::task() };
    assert!(verdict(client.desire_task("large", "d", task).await).starts_with("InvalidRequest: "));
    assert_eq!(shown(&client).await, before);
}

#[tokio::test]
async fn text_that_is_not_utf8_is_taken_leniently() {
    let (server, client, _) = server().await;
    let reply = raw::post(server.ready.api, "/v1/domains/upsert", b"\x0a\x05caf\xe9!").await;
    assert_eq!((reply.status, reply.body.as_slice()), (200, &b""[..]));
    assert_eq!(client.domains().await.unwrap(), ["caf\u{fffd}!", "d"]);
}

#[tokio::test]
async fn bodies_beyond_the_limit_are_413() {
    let (server, client, before) = server().await;
    let path = Route::DesireDesiredLrp.path();
    let announced = format!("POST {path} HTTP/1.1\r\nHost: bbs\r\nContent-Length: 1048577\r\n\r\n");
    let reply = raw::exchange(server.ready.api, announced.as_bytes()).await.unwrap();
    assert_eq!(reply.status, 413, "refused before a byte of it was sent");
    assert_eq!(reply.text(), "the request body is larger than this server accepts\n");

    let mut stream = raw::connect(server.ready.api).await;
    let head = format!("POST {path} HTTP/1.1\r\nHost: bbs\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"10000\r\n".as_slice(), &vec![0; 0x10000], b"\r\n"].concat();
    for _ in 0..17 {
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
    }
    let answer = raw::read_to_end(&mut stream).await;
    // The server may close while we still send, and a reset can overtake its answer.
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(shown(&client).await, before);
}

#[tokio::test]
async fn slow_senders_are_given_up() {
    let (server, client, before) = server().await;
    let api = server.ready.api;
    let reply =
        raw::exchange(api, b"POST /v1/domains/upsert HTTP/1.1\r\nHost: bbs\r\nContent-Length: 100\r\n\r\n\x0a").await;
    let reply = reply.unwrap();
    assert_eq!((reply.status, reply.text()), (408, "the request body did not arrive in time\n"));

    let mut slow_head = raw::connect(api).await;
    slow_head.write_all(b"POST /v1/ping HTTP/1.1\r\nHost: b").await.unwrap();
    let mut silent = raw::connect(api).await;
    for stream in [&mut slow_head, &mut silent] {
        let answer = String::from_utf8(raw::read_to_end(stream).await).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert_eq!(shown(&client).await, before);
}

#[tokio::test]
async fn what_is_not_http_is_turned_away() {
    let (server, client, before) = server().await;
    let many = format!("POST /v1/ping HTTP/1.1\r\nHost: bbs\r\n{}\r\n", "X-Filler: x\r\n".repeat(5000));
    let large = format!("POST /v1/ping HTTP/1.1\r\nHost: bbs\r\nX-Filler: {}\r\n\r\n", "x".repeat(2_000_000));
    let above = format!("POST /v1/ping HTTP/1.1\r\nHost: bbs\r\nX-Filler: {}\r\n\r\n", "x".repeat(17_000));
    assert_eq!(raw::exchange(server.ready.api, above.as_bytes()).await.map(|reply| reply.status), Some(431));
    let below = format!("POST /v1/ping HTTP/1.1\r\nHost: bbs\r\nX-Filler: {}\r\n\r\n", "x".repeat(15_000));
    assert_eq!(raw::exchange(server.ready.api, below.as_bytes()).await.map(|reply| reply.status), Some(200));
    let cases: [(&str, &[u8], &[u16]); 6] = [
        ("noise", b"\x00\x01\x02\xff\xfe\r\n\r\n", &[400]),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", &[400, 408]),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[400, 404, 505]),
        ("two lengths", b"POST /v1/ping HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", &[400]),
        ("many headers", many.as_bytes(), &[431]),
        ("large headers", large.as_bytes(), &[431]),
    ];
    for (what, bytes, statuses) in cases {
        // Closing without a word is as good as a refusal.
        if let Some(reply) = raw::exchange(server.ready.api, bytes).await {
            assert!(statuses.contains(&reply.status), "{what}: {reply:?}");
        }
        assert_eq!(shown(&client).await, before, "{what}");
    }
}

#[tokio::test]
async fn idle_connections_take_no_place_for_ever() {
    let (server, client, before) = server().await;
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(raw::connect(server.ready.api).await);
        // Who is connected already is served all the while.
        assert!(client.ping().await.unwrap());
    }
    drop(client);
    let metrics = || async {
        let reply = raw::exchange(server.ready.health, &raw::request("GET", "/metrics", "", b"")).await.unwrap();
        reply.text().to_owned()
    };
    assert!(!metrics().await.contains("corkboard_refused_connections_total 0\n"), "more came than there is room for");
    // The idle ones are closed after their time, and whoever comes then finds a place.
    let newcomer = server.client();
    until("a newcomer is served", || async { newcomer.ping().await.is_ok() }).await;
    assert_eq!(shown(&newcomer).await, before);
    drop(idle);
}
