//! What one client may cost.

use std::sync::Arc;
use std::time::Duration;

use api::registry::bus::InProcess;
use corkboard_router::{Config, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::backend::Backend;
use crate::client;
use crate::world::{World, config, eventually};

async fn limited(limits: Limits) -> (World, Backend) {
    let world = World::with(Config { limits, ..config() }, Arc::new(InProcess::new())).await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    (world, one)
}

async fn raw(world: &World, text: &str) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let (world, _one) = limited(Limits { header_bytes_max: 8192, ..config().limits }).await;
    let head = format!("GET / HTTP/1.1\r\nHost: x.com\r\nX-Large: {}\r\n\r\n", "a".repeat(16 * 1024));
    assert!(raw(&world, &head).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_head_or_its_body_is_given_up() {
    let short = Duration::from_millis(100);
    let (world, one) =
        limited(Limits { client_idle_timeout: short, client_stall_timeout: short, ..config().limits }).await;
    let cut = raw(&world, "GET / HTTP/1.1\r\nHo").await;
    assert!(cut.is_empty() || cut.starts_with("HTTP/1.1 408 "), "{cut}");
    let half = raw(&world, "POST /upload HTTP/1.1\r\nHost: x.com\r\nContent-Length: 10\r\n\r\nhalf").await;
    assert!(half.starts_with("HTTP/1.1 400 ") && half.contains("client_failure"), "{half}");
    eventually(|| async { one.active() == 0 }).await;
}

#[tokio::test]
async fn a_backend_that_does_not_answer_in_time_is_a_gateway_timeout() {
    let (world, _one) = limited(Limits { backend_timeout: Duration::from_millis(50), ..config().limits }).await;
    assert_eq!(world.get("x.com", "/wait").await.verdict(), "504 endpoint_failure (timeout)");
}

#[tokio::test]
async fn clients_beyond_the_limit_are_closed_at_once_and_those_within_are_served() {
    let (world, _one) = limited(Limits { connections_max: 1, ..config().limits }).await;
    eventually(|| async {
        !raw(&world, "GET / HTTP/1.1\r\nHost: x.com\r\nConnection: close\r\n\r\n").await.is_empty()
    })
    .await;
    let mut held = TcpStream::connect(world.address).await.unwrap();
    held.write_all(b"GET / HTTP/1.1\r\nHost: x.com\r\n\r\n").await.unwrap();
    assert_ne!(held.read_buf(&mut Vec::new()).await.unwrap(), 0);
    assert_eq!(raw(&world, "GET / HTTP/1.1\r\nHost: x.com\r\n\r\n").await, "");
    assert!(world.metrics.refused_connections.get() > 0);
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_and_hurt_nobody() {
    let (world, _one) = limited(config().limits).await;
    for (text, status) in [
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "400"),
        ("CONNECT x.com:443 HTTP/1.1\r\nHost: x.com\r\nConnection: close\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
        (
            "POST / HTTP/1.1\r\nHost: x.com\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
            "200",
        ),
        ("GET http://x.com/ HTTP/1.1\r\nHost: other.com\r\nConnection: close\r\n\r\n", "200"),
    ] {
        let answer = raw(&world, text).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{text:?} -> {answer:?}");
    }
    assert_eq!(world.get("x.com", "/").await.body, "one");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_given_up() {
    let short = Duration::from_millis(200);
    let (world, one) = limited(Limits { client_stall_timeout: short, ..config().limits }).await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(b"GET /flood HTTP/1.1\r\nHost: x.com\r\n\r\n").await.unwrap();
    eventually(|| async { one.served() == 1 && in_flight(&world).await == 1 }).await;
    eventually(|| async { in_flight(&world).await == 0 }).await;
    assert_eq!(world.get("x.com", "/").await.body, "one");
}

async fn in_flight(world: &World) -> u64 {
    let routes = client::get(world.health, "h", "/routes").await.body;
    let routes: serde_json::Value = serde_json::from_str(&routes).unwrap();
    routes["x.com"][0]["in_flight"].as_u64().unwrap()
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_a_whole_one() {
    let (world, one) = limited(config().limits).await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(b"GET /half HTTP/1.1\r\nHost: x.com\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"half") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    one.kill();
    // The length says eight bytes; the connection ends after four.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.ends_with(b"half"));
    eventually(|| async { in_flight(&world).await == 0 }).await;
}
