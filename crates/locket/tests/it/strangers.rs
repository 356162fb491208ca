//! Who gets in, and that those who do not leave the others alone.

use std::sync::Arc;
use std::time::Duration;

use api::client::tls::client_config;
use api::locket::{Kind, LocketError};
use rig::pki::Pki;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::world::{PATIENCE, World, client, resource};

#[tokio::test]
async fn strangers_are_refused_and_others_are_served() {
    let world = World::new().await;
    let stranger = Pki::new();
    let mut forged = world.files("client");
    forged.cert = stranger.path("client.crt");
    forged.key = stranger.path("client.key");
    let refused = client(&world.address.to_string(), forged).fetch("a", PATIENCE).await.unwrap_err();
    assert!(matches!(&refused, LocketError::Unreachable { .. }), "{refused:?}");
    let mut deceived = world.files("client");
    deceived.ca = stranger.path("ca.crt");
    let refused = client(&world.address.to_string(), deceived).fetch("a", PATIENCE).await.unwrap_err().to_string();
    assert!(refused.contains("invalid peer certificate"), "{refused}");

    // Says nothing at all, and keeps its connection.
    let _silent = TcpStream::connect(world.address).await.unwrap();
    let mut noise = TcpStream::connect(world.address).await.unwrap();
    noise.write_all(&[0xff; 4096]).await.unwrap();
    world.client().lock(&resource("a", "me", Kind::Lock), Duration::from_secs(15), "id", PATIENCE).await.unwrap();
}

/// Diego's clients and servers insist on the protocol being negotiated.
#[tokio::test]
async fn http_2_is_negotiated_or_nothing_is_said() {
    let world = World::new().await;
    let name = || ServerName::try_from("localhost").unwrap();
    for (offered, expected) in [(&[&b"h2"[..]][..], Some(&b"h2"[..])), (&[][..], None)] {
        let mut config = rustls::ClientConfig::clone(&*client_config(&world.files("client")).unwrap());
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let stream = TcpStream::connect(world.address).await.unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name(), stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), expected);
        if expected.is_none() {
            let mut said = Vec::new();
            let _ = stream.read_to_end(&mut said).await;
            assert!(said.is_empty());
        }
    }
}
