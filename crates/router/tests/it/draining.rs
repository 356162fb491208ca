//! A stop lets what is in flight finish, and says so first.

use std::sync::Arc;
use std::time::Duration;

use api::registry::bus::InProcess;
use corkboard_router::{Config, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::backend::Backend;
use crate::client;
use crate::world::{World, config, eventually};

#[tokio::test]
async fn health_turns_first_then_the_door_closes_then_the_last_answer_leaves() {
    let limits = Limits { drain_wait: Duration::from_millis(500), ..config().limits };
    let world = World::with(Config { limits, ..config() }, Arc::new(InProcess::new())).await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    assert_eq!(client::get(world.health, "h", "/health").await.status, 200);
    let address = world.address;
    let asked = tokio::spawn(async move { client::get(address, "x.com", "/wait").await });
    one.entered().await;
    world.stop();
    eventually(|| async { client::get(world.health, "h", "/health").await.status == 503 }).await;
    assert_eq!(world.get("x.com", "/").await.body, "one", "who did not look yet is still served");
    eventually(|| async { TcpStream::connect(world.address).await.is_err() }).await;
    assert!(!world.router.is_finished());
    one.release();
    assert_eq!(asked.await.unwrap().body, "one waited\n");
    world.router.await.unwrap();
}

#[tokio::test]
async fn who_does_not_finish_in_time_is_cut_off() {
    let limits = Limits { drain_timeout: Duration::from_millis(50), ..config().limits };
    let world = World::with(Config { limits, ..config() }, Arc::new(InProcess::new())).await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = "GET / HTTP/1.1\r\nHost: x.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_ne!(stream.read_buf(&mut Vec::new()).await.unwrap(), 0);
    world.stop();
    world.router.await.unwrap();
}
