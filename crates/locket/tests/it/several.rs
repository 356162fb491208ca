//! One client of two Lockets that share their book.

use std::time::Duration;

use api::locket::{Kind, LocketError};
use corkboard_locket::server::CONNECTIONS_MAX;
use expect_test::expect;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::world::{PATIENCE, World, client, resource};

const TTL: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_next_one_is_asked_when_one_does_not_answer() {
    let mut world = World::new().await;
    let (other, _running) = world.sibling(CONNECTIONS_MAX).await;
    let both = client(&format!("{},{other}", world.address), world.files("client"));
    let (mine, yours) = (resource("bbs", "me", Kind::Lock), resource("bbs", "you", Kind::Lock));
    both.lock(&mine, TTL, "id", PATIENCE).await.unwrap();
    world.stop().await;
    both.lock(&mine, TTL, "id", PATIENCE).await.unwrap();
    let refused = client(&other.to_string(), world.files("client")).lock(&yours, TTL, "id", PATIENCE).await;
    assert!(matches!(refused, Err(LocketError::Collision { .. })), "{refused:?}");
    // An answer that nobody likes is one: nobody else is asked.
    let refused = both.lock(&yours, TTL, "id", PATIENCE).await;
    assert!(matches!(refused, Err(LocketError::Collision { .. })), "{refused:?}");
    world.start().await;
    assert_eq!(both.fetch("bbs", PATIENCE).await.unwrap(), mine);
    both.release(&mine, PATIENCE).await.unwrap();
    both.lock(&yours, TTL, "id", PATIENCE).await.unwrap();
}

/// One that is silent costs its part of the limit, and that once.
#[tokio::test]
async fn a_silent_one_is_left_alone_after_its_part_of_the_limit() {
    const LIMIT: Duration = Duration::from_secs(8);
    let world = World::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = format!("{}, {}", silent.local_addr().unwrap(), world.address);
    let client = client(&addresses, world.files("client"));
    let began = Instant::now();
    client.fetch_all(Kind::Lock, LIMIT).await.unwrap();
    // A connection has two seconds, which is less than half of the limit.
    assert!(began.elapsed() > Duration::from_secs(1) && began.elapsed() < LIMIT, "{:?}", began.elapsed());
    let began = Instant::now();
    client.fetch_all(Kind::Lock, LIMIT).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn when_nobody_answers_all_are_named() {
    let mut world = World::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (gone, silent_at) = (world.address.to_string(), silent.local_addr().unwrap().to_string());
    world.stop().await;
    let client = client(&format!("{gone},{silent_at}"), world.files("client"));
    let said = client.fetch("a", Duration::from_millis(400)).await.unwrap_err();
    assert!(said.retryable());
    let said = said.to_string().replace(&gone, "GONE").replace(&silent_at, "SILENT");
    // How much of the limit was left for the second is not the same every time.
    let (said, left) = said.strip_suffix(" ms").unwrap().rsplit_once(' ').unwrap();
    expect!["looking for a: Locket at GONE,SILENT does not answer: GONE: Connection refused (os error 111); SILENT: nothing came back within"]
        .assert_eq(said);
    assert!((200..=400).contains(&left.parse::<u64>().unwrap()), "{left}");
}
