//! What passes through, and what the router says itself.

use std::time::Duration;

use bytes::Bytes;
use corkboard_router::{Config, Limits};
use expect_test::expect;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::backend::Backend;
use crate::client::{self, request};
use crate::world::{World, config, eventually};

const CHUNK_BYTES: usize = 1024 * 1024;
const CHUNKS: usize = 256;
/// Much less than what is sent, and enough for buffers of the kernel's and ours.
const GROWTH_BYTES_MAX: usize = 64 * 1024 * 1024;

#[tokio::test]
async fn the_routers_own_errors_are_gorouters() {
    let world = World::start().await;
    let unknown = world.get("nobody.example.com", "/secret?token=1").await;
    assert_eq!(unknown.verdict(), "404 unknown_route");
    expect![[r#"
        404 Not Found: Requested route ('nobody.example.com') does not exist.
    "#]]
    .assert_eq(&unknown.body);
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    assert_eq!(world.get("X.com:80", "/").await.body, "one");
    let mut wish = request(Method::GET, "x.com", "/", "");
    wish.headers_mut().insert("x-cf-app-instance", "app-1:7".parse().unwrap());
    assert_eq!(client::send(world.address, wish.clone()).await.unwrap().verdict(), "503 no_endpoints");
    wish.headers_mut().insert("x-cf-app-instance", "app-1".parse().unwrap());
    let verdict = client::send(world.address, wish).await.unwrap().verdict();
    assert_eq!(verdict, "400 invalid_cf_app_instance_header");
    world.unregister("x.com", &one).await;
    assert_eq!(world.get("x.com", "/").await.verdict(), "503 no_endpoints");
    world.register("x.com", &one).await;
    one.kill();
    eventually(|| async { world.get("x.com", "/").await.verdict() == "502 endpoint_failure (connect)" }).await;
    let counters = client::get(world.health, "health", "/metrics").await.body;
    for line in ["responses_total{class=\"4xx\"}", "backend_failures_total{reason=\"connect\"}", "_router_routes 1"] {
        assert!(counters.contains(line), "{line} is missing in\n{counters}");
    }
}

#[tokio::test]
async fn a_backend_hears_who_asked_and_the_client_what_was_answered() {
    let world = World::start().await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    let mut asked = request(Method::POST, "x.com", "/headers?q=1&r=a%20b", "four");
    for (name, value) in [
        ("x-forwarded-for", "198.51.100.1"),
        ("connection", "close, x-hop"),
        ("x-hop", "1"),
        ("x-vcap-request-id", "trace"),
        ("x-cf-instanceid", "forged"),
    ] {
        asked.headers_mut().insert(name, value.parse().unwrap());
    }
    let answer = client::send(world.address, asked).await.unwrap();
    expect![[r#"
        POST /headers?q=1&r=a%20b
        content-length: 4
        host: x.com
        x-cf-applicationid: app-1
        x-cf-instanceid: one
        x-cf-instanceindex: 0
        x-forwarded-for: 198.51.100.1, 127.0.0.1
        x-forwarded-host: x.com
        x-forwarded-proto: http
        x-vcap-request-id: trace
    "#]]
    .assert_eq(&answer.body);
    assert_eq!(answer.header("x-vcap-request-id"), "trace");
    let teapot = world.get("x.com", "/teapot").await;
    assert_eq!((teapot.verdict().as_str(), teapot.header("x-own")), ("418 ", "1"));
    assert_eq!(teapot.header("keep-alive"), "", "that is a matter of the other connection");
    assert_eq!(teapot.header("x-vcap-request-id").len(), 32);
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let world = World::start().await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    let stream = TcpStream::connect(world.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..50 {
        for method in [Method::GET, Method::POST] {
            let answer = client::exchange(&mut sender, request(method, "x.com", "/", "")).await.unwrap();
            assert_eq!(answer.body, "one");
        }
    }
    assert_eq!(one.served(), 100);
}

#[tokio::test]
async fn a_websocket_echoes_through_the_router() {
    let world = World::start().await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = "GET /chat HTTP/1.1\r\nHost: x.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"early") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    let head = String::from_utf8_lossy(&answer).to_lowercase();
    assert!(head.starts_with("http/1.1 101 ") && head.contains("upgrade: websocket"), "{head}");
    for round in 0..100_u32 {
        let word = round.to_string().repeat(50);
        stream.write_all(word.as_bytes()).await.unwrap();
        let mut echo = vec![0; word.len()];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, word.as_bytes());
    }
    one.kill();
    let mut rest = Vec::new();
    // The end comes through; how it is told is up to the kernel.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn an_upgraded_connection_that_is_silent_for_too_long_is_ended() {
    let limits = Limits { upgrade_idle_timeout: Duration::from_millis(100), ..config().limits };
    let world =
        World::with(Config { limits, ..config() }, std::sync::Arc::new(api::registry::bus::InProcess::new())).await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = "GET / HTTP/1.1\r\nHost: x.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert!(all.starts_with(b"HTTP/1.1 101 "));
}

#[tokio::test]
async fn a_large_body_streams_in_both_directions_in_constant_memory() {
    let world = World::start().await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    let chunk = Bytes::from(vec![7; CHUNK_BYTES]);
    let frames = (0..CHUNKS).map(move |_| Ok::<_, std::convert::Infallible>(Frame::data(chunk.clone())));
    let body = StreamBody::new(futures_util::stream::iter(frames));
    let stream = TcpStream::connect(world.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let before = resident_bytes();
    let request = Request::builder().method(Method::POST).uri("/echo").header("host", "x.com").body(body).unwrap();
    let mut echo = sender.send_request(request).await.unwrap().into_body();
    let (mut received, mut most) = (0, 0);
    while let Some(frame) = echo.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        assert!(data.iter().all(|byte| *byte == 7));
        received += data.len();
        most = most.max(resident_bytes());
    }
    assert_eq!(received, CHUNK_BYTES * CHUNKS);
    let grown = most.saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "the process grew by {grown} bytes for a body of {received}");
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn an_instance_that_speaks_tls_must_be_the_one_that_was_registered() {
    let pki = rig::pki::Pki::new();
    pki.pair("instance", &["ig-1"]);
    let path = |name: &str| pki.path(name);
    let files = api::client::TlsFiles {
        ca: path("ca.crt"),
        cert: path("client.crt"),
        key: path("client.key"),
        skip_verify: false,
    };
    let backend_tls = Some(api::client::tls::client_config(&files).unwrap());
    let server =
        api::client::tls::server_config(&path("ca.crt"), &path("instance.crt"), &path("instance.key")).unwrap();
    let world =
        World::with(Config { backend_tls, ..config() }, std::sync::Arc::new(api::registry::bus::InProcess::new()))
            .await;
    let one = Backend::with("ig-1", Some(server)).await;
    let told = |name: &str| api::registry::RegistryMessage {
        port: 0,
        tls_port: one.address.port(),
        server_cert_domain_san: name.into(),
        ..crate::world::message("x.com", &one)
    };
    eventually(|| async {
        world.say("router.register", &told("ig-1")).await;
        world.get("x.com", "/").await.body == "ig-1"
    })
    .await;
    world.say("router.register", &told("ig-2")).await;
    eventually(|| async { world.get("x.com", "/").await.verdict() == "502 endpoint_failure (tls)" }).await;
}
