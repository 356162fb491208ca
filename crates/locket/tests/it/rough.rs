//! Clients that send what no client should: every one gets a code or is cut off, and the others notice nothing.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use api::client::tls::client_config;
use api::locket::Kind;
use expect_test::expect;
use http_body_util::{BodyExt, Full};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tonic::codegen::{Bytes, Service};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::world::{PATIENCE, World, client, resource};

const TTL: Duration = Duration::from_secs(60);
/// What begins every connection of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn channel(world: &World) -> Channel {
    let read = |name: &str| std::fs::read(world.pki.path(name)).unwrap();
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(read("ca.crt")))
        .identity(Identity::from_pem(read("client.crt"), read("client.key")));
    let endpoint = Endpoint::from_shared(format!("https://{}", world.address)).unwrap();
    endpoint.tls_config(tls).unwrap().connect().await.unwrap()
}

/// A message as gRPC frames it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// The code that a call ends with, from whatever part of the answer.
async fn code(channel: &Channel, path: &str, body: Vec<u8>) -> String {
    let mut channel = channel.clone();
    let request = Request::post(format!("https://locket{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(body))))
        .unwrap();
    poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let answer = timeout(PATIENCE, channel.call(request)).await.expect("an answer comes").unwrap();
    let (head, body) = answer.into_parts();
    let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
    let of = |name: &str| head.headers.get(name).or_else(|| trailers.get(name)).cloned();
    of("grpc-status").map_or_else(|| format!("HTTP {}", head.status), |code| code.to_str().unwrap().to_owned())
}

/// Whoever behaves is served.
async fn check_that_others_are_served(world: &World) {
    let mine = resource("a", "me", Kind::Lock);
    world.client().lock(&mine, TTL, "id", PATIENCE).await.unwrap();
}

#[tokio::test]
async fn every_wrong_request_has_its_code() {
    let world = World::new().await;
    let channel = channel(&world).await;
    let lock = "/models.Locket/Lock";
    // Field 1 holds a resource with a type code of 1, and nothing else; field 2 is the time to live.
    let mut text = String::new();
    for (what, path, body) in [
        ("an unknown method", "/models.Locket/Steal", framed(b"")),
        ("an unknown service", "/grpc.health.v1.Health/Check", framed(b"")),
        ("no method at all", "/", framed(b"")),
        ("a message without a resource", lock, framed(b"")),
        ("a release without a resource", "/models.Locket/Release", framed(b"")),
        ("a resource without a type", lock, framed(b"\x0a\x00\x10\x0f")),
        ("a resource of an unknown type", lock, framed(b"\x0a\x02\x28\x63\x10\x0f")),
        ("a resource without a time to live", lock, framed(b"\x0a\x02\x28\x01")),
        ("a negative time to live", lock, framed(b"\x0a\x02\x28\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")),
        ("a resource without an owner", lock, framed(b"\x0a\x02\x28\x01\x10\x0f")),
        ("an unknown field beside a resource", lock, framed(b"\x0a\x05\x28\x01\x12\x01x\x10\x0f\xf8\x07\x01")),
        ("a key that is no text", lock, framed(b"\x0a\x04\x0a\x02\xff\xfe\x10\x0f")),
        ("bytes that are no message", lock, framed(b"\xff\xff\xff\xff\xff\xff")),
        ("a message cut short", lock, [&[0, 0, 0, 0, 100][..], b"short"].concat()),
        ("no message", lock, Vec::new()),
        ("two messages", lock, [framed(b"\x0a\x05\x28\x01\x12\x01x\x10\x0f"), framed(b"")].concat()),
        ("a compressed message", lock, vec![1, 0, 0, 0, 1, 0]),
        ("a kind of message that there is not", lock, vec![9, 0, 0, 0, 0]),
        ("a message of 64 KiB and more", lock, framed(&[0; 65 * 1024])),
        ("a message of 4 GiB, it says", lock, [&[0, 0xff, 0xff, 0xff, 0xff][..], &[0; 1024]].concat()),
        ("a list without a type", "/models.Locket/FetchAll", framed(b"")),
        ("a key of nobody", "/models.Locket/Fetch", framed(b"\x0a\x01z")),
    ] {
        writeln!(text, "{what}: {}", code(&channel, path, body).await).unwrap();
    }
    expect![[r#"
        an unknown method: 12
        an unknown service: 12
        no method at all: 12
        a message without a resource: 3
        a release without a resource: 3
        a resource without a type: 5
        a resource of an unknown type: 5
        a resource without a time to live: 3
        a negative time to live: 3
        a resource without an owner: 3
        an unknown field beside a resource: 0
        a key that is no text: 13
        bytes that are no message: 13
        a message cut short: 13
        no message: 13
        two messages: 0
        a compressed message: 13
        a kind of message that there is not: 13
        a message of 64 KiB and more: 11
        a message of 4 GiB, it says: 11
        a list without a type: 5
        a key of nobody: 5
    "#]]
    .assert_eq(&text);
    check_that_others_are_served(&world).await;
}

/// Whatever a message says, it gets one of the codes that Locket has, and never the end of the server.
#[test]
fn any_bytes_as_a_message_get_a_code() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (world, channel) = runtime.block_on(async {
        let world = World::new().await;
        let channel = channel(&world).await;
        (world, channel)
    });
    let paths = ["Lock", "Release", "Fetch", "FetchAll"].map(|name| format!("/models.Locket/{name}"));
    // Bytes that look like fields come further than noise does.
    let field = (prop_oneof![Just(0x0a_u8), Just(0x10), Just(0x28), Just(0x12), any::<u8>()], vec(any::<u8>(), 0..12));
    let message = vec(field, 0..8).prop_map(|fields| {
        let written =
            fields.into_iter().map(|(tag, rest)| [&[tag, u8::try_from(rest.len()).unwrap()][..], &rest].concat());
        written.collect::<Vec<_>>().concat()
    });
    let mut runner = TestRunner::new(Config { cases: 300, ..Config::default() });
    let ran = runner.run(&(0..4_usize, message, any::<bool>()), |(path, message, is_framed)| {
        let body = if is_framed { framed(&message) } else { message };
        let code = runtime.block_on(code(&channel, &paths[path], body));
        let known = ["0", "2", "3", "5", "6", "8", "11", "12", "13"];
        prop_assert!(known.contains(&code.as_str()), "{}", code);
        Ok(())
    });
    ran.unwrap();
    runtime.block_on(check_that_others_are_served(&world));
}

async fn tls(world: &World) -> TlsStream<TcpStream> {
    let mut config = rustls::ClientConfig::clone(&*client_config(&world.files("client")).unwrap());
    config.alpn_protocols = std::vec![b"h2".to_vec()];
    let stream = TcpStream::connect(world.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Noise below gRPC, from somebody with a good certificate.
#[test]
fn any_bytes_on_a_connection_do_no_harm() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let world = runtime.block_on(World::new());
    let mut runner = TestRunner::new(Config { cases: 40, ..Config::default() });
    let ran = runner.run(&(any::<bool>(), vec(any::<u8>(), 0..2000)), |(has_preface, noise)| {
        runtime.block_on(async {
            let mut stream = tls(&world).await;
            if has_preface {
                stream.write_all(PREFACE).await.unwrap();
            }
            let _ = stream.write_all(&noise).await;
            let _ = stream.shutdown().await;
            // It may say why, and then it hangs up.
            let mut said = Vec::new();
            let _ = timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("the connection ends");
        });
        Ok(())
    });
    ran.unwrap();
    runtime.block_on(check_that_others_are_served(&world));
}

/// When all places are taken, whoever comes is turned away; those who are there stay, and a place that is given up is free again.
#[tokio::test]
async fn connections_have_a_limit() {
    let world = World::new().await;
    let (address, _running) = world.sibling(2).await;
    let connect = async || client(&address.to_string(), world.files("client"));
    let (first, second, third) = (connect().await, connect().await, connect().await);
    let mine = resource("a", "me", Kind::Lock);
    for there in [&first, &second] {
        there.lock(&mine, TTL, "id", PATIENCE).await.unwrap();
    }
    third.fetch("a", Duration::from_secs(2)).await.unwrap_err();
    first.lock(&mine, TTL, "id", PATIENCE).await.unwrap();
    drop(second);
    timeout(PATIENCE, async {
        while third.fetch("a", PATIENCE).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
}
