//! The four calls over the wire, and what their errors are to a caller.

use std::time::Duration;

use api::locket::proto::locket_client::LocketClient;
use api::locket::proto::{LockRequest, ReleaseRequest};
use api::locket::{Client, Kind, LocketError, Options};
use expect_test::expect;
use tokio::net::TcpListener;

use crate::world::{PATIENCE, World, client, resource};

const TTL: Duration = Duration::from_secs(15);

#[tokio::test]
async fn a_resource_goes_from_hand_to_hand() {
    let world = World::new().await;
    let client = world.client();
    let (mine, yours) = (resource("bbs", "me", Kind::Lock), resource("bbs", "you", Kind::Lock));
    let cell = resource("cell-1", "rep", Kind::Presence);
    client.lock(&mine, TTL, "id-1", PATIENCE).await.unwrap();
    client.lock(&mine, TTL, "", PATIENCE).await.unwrap();
    client.lock(&cell, TTL, "not an id\n", PATIENCE).await.unwrap();
    assert_eq!(client.fetch("bbs", PATIENCE).await.unwrap(), mine);
    assert_eq!(client.fetch_all(Kind::Lock, PATIENCE).await.unwrap(), std::slice::from_ref(&mine));
    assert_eq!(client.fetch_all(Kind::Presence, PATIENCE).await.unwrap(), [cell]);
    for refused in [client.lock(&yours, TTL, "id-2", PATIENCE).await, client.release(&yours, PATIENCE).await] {
        assert!(matches!(refused, Err(LocketError::Collision { .. })), "{refused:?}");
    }
    client.release(&mine, PATIENCE).await.unwrap();
    client.release(&mine, PATIENCE).await.unwrap();
    client.lock(&yours, TTL, "id-3", PATIENCE).await.unwrap();
    assert!(matches!(client.fetch("nobody's", PATIENCE).await, Err(LocketError::NotFound { .. })));
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said() {
    let world = World::new().await;
    let client = world.client();
    let mut long = resource("a", "me", Kind::Lock);
    long.value = "v".repeat(5000);
    let said = [
        client.lock(&resource("a", "me", Kind::Lock), Duration::ZERO, "id", PATIENCE).await.unwrap_err(),
        client.lock(&resource("a", "", Kind::Lock), TTL, "id", PATIENCE).await.unwrap_err(),
        client.lock(&long, TTL, "id", PATIENCE).await.unwrap_err(),
        client.fetch("a", PATIENCE).await.unwrap_err(),
    ];
    expect![[r#"
        asking for the lock a: Locket does not accept the request (invalid-ttl); asking again changes nothing
        asking for the lock a: Locket does not accept the request (invalid-owner); asking again changes nothing
        asking for the lock a: Locket failed with Unknown (sql-bad-request: the value has 5000 characters, and at most 4096 fit)
        looking for a: there is no such thing (resource-not-found)
    "#]].assert_eq(&said.map(|error| format!("{error}\n")).concat());
}

/// Diego's server ends with such a request.
#[tokio::test]
async fn a_request_without_a_resource_is_refused() {
    let world = World::new().await;
    let dial = world.client();
    dial.fetch("", PATIENCE).await.unwrap_err();
    let channel = raw::channel(&world).await;
    let mut raw = LocketClient::new(channel.clone());
    let refused = raw.lock(LockRequest { resource: None, ttl_in_seconds: 15 }).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    let refused = raw.release(ReleaseRequest { resource: None }).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    dial.lock(&resource("a", "me", Kind::Lock), TTL, "id", PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_locket_that_is_not_there_is_named() {
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let silent = client(&address, world.files("client"));
    let said = silent.fetch("a", Duration::from_millis(200)).await.unwrap_err().to_string().replace(&address, "HERE");
    expect!["looking for a: Locket at HERE does not answer: nothing came back within 200 ms"].assert_eq(&said);
    drop(listener);
    let said = silent.fetch("a", PATIENCE).await.unwrap_err().to_string().replace(&address, "HERE");
    expect!["looking for a: Locket at HERE does not answer: Connection refused (os error 111)"].assert_eq(&said);
    for wrong in ["", "host", "host:port", ":8891", "a b:1", "https://host:1"] {
        let options = Options { address: wrong.into(), tls: world.files("client"), keepalive: None };
        assert!(matches!(Client::new(&options), Err(LocketError::Address { .. })), "{wrong}");
    }
}

#[tokio::test]
async fn a_client_waits_a_little_for_its_locket_and_goes_on_after_a_restart() {
    let mut world = World::new().await;
    world.stop().await;
    let (address, tls) = (world.address.to_string(), world.files("client"));
    let probes = (Duration::from_secs(10), Duration::from_secs(20));
    let options = Options { address, tls, keepalive: Some(probes) };
    let connecting = tokio::spawn(async move { Client::connect(&options).await });
    tokio::task::yield_now().await;
    world.start().await;
    let client = connecting.await.unwrap().unwrap();
    client.lock(&resource("a", "me", Kind::Lock), TTL, "id", PATIENCE).await.unwrap();
    world.stop().await;
    assert!(matches!(client.fetch("a", PATIENCE).await, Err(LocketError::Unreachable { .. })));
    world.start().await;
    assert_eq!(client.fetch("a", PATIENCE).await.unwrap().owner, "me");
}

mod raw {
    //! A channel without our client, for requests that it would never make.

    use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

    use crate::world::World;

    pub(super) async fn channel(world: &World) -> Channel {
        let read = |name: &str| std::fs::read(world.pki.path(name)).unwrap();
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read("ca.crt")))
            .identity(Identity::from_pem(read("client.crt"), read("client.key")));
        let endpoint = Endpoint::from_shared(format!("https://{}", world.address)).unwrap();
        endpoint.tls_config(tls).unwrap().connect().await.unwrap()
    }
}
