//! The port for clients that speak TLS, beside the plain one.

use std::sync::Arc;

use api::client::{TlsFiles, tls};
use api::registry::bus::InProcess;
use hyper::Method;
use hyper_util::rt::TokioIo;
use rig::pki::Pki;
use rustls::pki_types::ServerName;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::backend::Backend;
use crate::client::{self, Answer, request};
use crate::world::{World, config, eventually};

async fn get_secured(pki: &Pki, to: std::net::SocketAddr, path: &str) -> Answer {
    let (ca, cert, key) = (pki.path("ca.crt"), pki.path("client.crt"), pki.path("client.key"));
    let tls = tls::client_config(&TlsFiles { ca, cert, key, skip_verify: false }).unwrap();
    let stream = TcpStream::connect(to).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(tls).connect(name, stream).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client::exchange(&mut sender, request(Method::GET, "x.com", path, "")).await.unwrap()
}

#[tokio::test]
async fn both_ports_lead_to_the_same_instances_and_close_in_order() {
    let pki = Arc::new(Pki::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let secured = listener.local_addr().unwrap();
    let server = tls::public_server_config(&pki.path("server.crt"), &pki.path("server.key")).unwrap();
    let world = World::behind(config(), Arc::new(InProcess::new()), Some((listener, server))).await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    assert_eq!(world.get("x.com", "/").await.body, "one");
    assert_eq!(get_secured(&pki, secured, "/").await.body, "one");
    assert!(get_secured(&pki, secured, "/headers").await.body.contains("x-forwarded-proto: https\n"));
    assert!(world.get("x.com", "/headers").await.body.contains("x-forwarded-proto: http\n"));

    let asked = tokio::spawn({
        let pki = pki.clone();
        async move { get_secured(&pki, secured, "/wait").await }
    });
    one.entered().await;
    world.stop();
    for address in [world.address, secured] {
        eventually(|| async { TcpStream::connect(address).await.is_err() }).await;
    }
    assert!(!world.router.is_finished());
    one.release();
    assert_eq!(asked.await.unwrap().body, "one waited\n");
    world.router.await.unwrap();
}
