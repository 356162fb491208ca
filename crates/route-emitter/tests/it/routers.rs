//! What routers hear, and when.

use std::time::Duration;

use corkboard_route_emitter::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::board::{desired, running};
use crate::world::{World, config, eventually};

#[tokio::test]
async fn instances_are_registered_again_and_again_and_unregistered_several_times() {
    let world = World::start(config()).await;
    world.board.state().desired.push(desired("p", "x.com"));
    world.followed().await;
    world.synced().await;
    let instance = running("p", 0, "a", 1001);
    world.board.run_instance(instance.clone());
    world.heard.wait("+ x.com:1001", 4).await;
    assert_eq!(world.heard.unregistrations(), 0);
    world.board.end_instance(instance);
    // Once, and three more times.
    world.heard.wait("- x.com:1001", 4).await;
    let (before, syncs) = (world.heard.registrations(), world.metrics.syncs.get());
    eventually("listings", || world.metrics.syncs.get() > syncs + 3).await;
    assert_eq!((world.heard.count("- x.com:1001"), world.heard.registrations()), (4, before));
    world.stop();
}

#[tokio::test]
async fn an_unregistration_is_not_repeated_once_it_was_taken_back() {
    let world = World::start(Config { unregister_interval: Duration::from_millis(300), ..config() }).await;
    world.board.state().desired.push(desired("p", "x.com"));
    world.followed().await;
    world.synced().await;
    let instance = running("p", 0, "a", 1001);
    world.board.run_instance(instance.clone());
    world.heard.wait("+ x.com:1001", 1).await;
    world.board.end_instance(instance);
    world.heard.wait("- x.com:1001", 1).await;
    world.heard.forget();
    world.board.run_instance(running("p", 0, "b", 1001));
    world.heard.wait("+ x.com:1001", 12).await;
    assert!(world.heard.unregistrations() <= 1, "at most one was on its way");
}

#[tokio::test]
async fn a_greeting_is_repeated_until_a_router_answers_and_its_wish_counts() {
    let never = Config { register_interval: Duration::from_secs(3600), ..config() };
    let world = World::start(never).await;
    world.board.state().desired.push(desired("p", "x.com"));
    world.board.state().actual.push(running("p", 0, "a", 1001));
    world.heard.wait("greet", 2).await;
    world.heard.wait("+ x.com:1001", 1).await;
    world.router_starts(1).await;
    // At once, and then every second.
    world.heard.wait("+ x.com:1001", 3).await;
    let greetings = world.heard.count("greet");
    world.router_starts(3600).await;
    world.heard.wait("+ x.com:1001", 4).await;
    assert_eq!(world.heard.count("greet"), greetings);
    assert_eq!(world.metrics.router_starts.get(), 2);
}

#[tokio::test]
async fn what_changed_while_the_stream_was_cut_is_found_by_listing() {
    let rarely = Config { sync_interval: Duration::from_secs(3600), ..config() };
    let world = World::start(rarely).await;
    world.board.state().desired.push(desired("p", "x.com"));
    world.board.state().actual.push(running("p", 0, "a", 1001));
    world.followed().await;
    world.board.cut_all();
    world.board.state().actual.clear();
    world.board.state().actual.push(running("p", 0, "b", 1002));
    world.heard.wait("+ x.com:1002", 1).await;
    world.synced_once_more().await;
}

impl World {
    /// The stream is open again, and what it brings is applied.
    async fn synced_once_more(&self) {
        self.followed().await;
        self.board.run_instance(running("p", 1, "c", 1003));
        self.heard.wait("+ x.com:1003", 1).await;
    }
}

#[tokio::test]
async fn health_answers_and_shows_the_counters() {
    let world = World::start(config()).await;
    world.board.state().desired.push(desired("p", "x.com"));
    world.board.state().actual.push(running("p", 0, "a", 1001));
    world.heard.wait("+ x.com:1001", 1).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopping) = tokio::sync::watch::channel(false);
    tokio::spawn(corkboard_route_emitter::health::serve(listener, world.metrics.clone(), stopping));
    for (path, expected) in [("/", "ok"), ("/ping", "ok"), ("/metrics", "corkboard_route_emitter_routes 1")] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(expected), "{answer}");
    }
}
