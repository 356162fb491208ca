//! Beginning, standing by, and ending.

use std::sync::Arc;

use auctioneer::{AlwaysMine, Config, Lock, RunError};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

use crate::cell::Cell;
use crate::peer::call;
use crate::state_server::StateServer;
use crate::world::{World, client, config, patiently};

/// A lock that a test holds in its hand.
#[derive(Clone, Default)]
struct Hand {
    given: Arc<Notify>,
    taken: Arc<Notify>,
    asked: Arc<Notify>,
}

impl Lock for Hand {
    async fn acquire(&self) {
        self.asked.notify_one();
        self.given.notified().await;
    }

    async fn lost(&self) -> String {
        self.taken.notified().await;
        "somebody else holds it".to_owned()
    }
}

#[tokio::test]
async fn a_standby_refuses_connections_and_tells_its_health() {
    let cell = Cell::start("cell-1").await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let health = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (api, health_at) = (free.local_addr().unwrap(), health.local_addr().unwrap());
    drop((free, health));
    let config = Config { listen: api, health: Some(health_at), ..config() };
    let hand = Hand::default();
    let starting = tokio::spawn({
        let hand = hand.clone();
        async move { World::start(config, &[&cell], hand).await }
    });
    patiently(hand.asked.notified()).await;
    let refused = TcpStream::connect(api).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let (status, _, metrics) =
        patiently(call(health_at, None, hyper::Request::get("/metrics"), "")).await.expect("an answer");
    assert_eq!(status, 200);
    assert!(metrics.contains("corkboard_auctioneer_lock_held 0\n"), "{metrics}");
    let (status, ..) = patiently(call(health_at, None, hyper::Request::get("/ping"), "")).await.expect("an answer");
    assert_eq!(status, 200);

    hand.given.notify_one();
    let mut world = patiently(starting).await.unwrap();
    assert_eq!(world.api, api);
    assert_eq!(world.metric("lock_held").await, "1");
    assert_eq!(world.post("/v1/lrps", "", "[]").await, "202 {}");

    // To lose the lock ends it at once.
    hand.taken.notify_one();
    let ended = patiently(&mut world.ended).await.unwrap();
    assert!(matches!(&ended, Err(RunError::LockLost { why }) if why == "somebody else holds it"), "{ended:?}");
    assert!(TcpStream::connect(api).await.is_err());
    assert!(TcpStream::connect(health_at).await.is_err());
}

/// Work that is decided after the lock is lost would meet that of another auctioneer.
#[tokio::test]
async fn an_auction_under_way_ends_with_the_lock() {
    let mut cell = Cell::start("cell-1").await;
    cell.hold_answers();
    let hand = Hand::default();
    hand.given.notify_one();
    let mut world = World::start(config(), &[&cell], hand.clone()).await;
    world.ask("app/0").await;
    cell.asked().await;
    hand.taken.notify_one();
    assert!(patiently(&mut world.ended).await.unwrap().is_err());
    cell.played.answers.add_permits(10);
    assert!(cell.got_nothing());
    assert_eq!(world.bbs.heard_so_far(), Vec::<String>::new());
}

#[tokio::test]
async fn a_stop_while_standing_by_is_orderly() {
    let hand = Hand::default();
    let bbs = StateServer::start().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let stop_heard = async {
        let _ = stopped.await;
    };
    let running = tokio::spawn(auctioneer::run(config(), client(&bbs.url), hand.clone(), stop_heard, |_| {}));
    patiently(hand.asked.notified()).await;
    drop(stop);
    patiently(running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_waits_for_what_was_accepted() {
    let mut cell = Cell::start("cell-1").await;
    cell.hold_answers();
    let mut world = World::with(&[&cell]).await;
    world.ask("first/0").await;
    cell.asked().await;
    world.ask("late/0").await;
    drop(world.stop.take());
    // The port closes first.
    patiently(async {
        while TcpStream::connect(world.api).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!world.ended.is_finished());
    cell.played.answers.add_permits(10);
    assert_eq!(cell.started().await, "first/0 late/0");
    patiently(&mut world.ended).await.unwrap().unwrap();
}

/// Without its cells nothing can be decided, and whoever stops an auctioneer should not have to wait for the state server.
#[tokio::test]
async fn a_stop_does_not_wait_for_a_state_server_that_is_away() {
    let mut cell = Cell::start("cell-1").await;
    let mut world = World::with(&[&cell]).await;
    *world.bbs.played.unavailable.lock().unwrap() = usize::MAX;
    world.ask("app/0").await;
    world.stop().await.unwrap();
    assert!(cell.got_nothing());
}

#[tokio::test]
async fn a_port_in_use_is_found_before_the_lock_is_asked_for() {
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bbs = StateServer::start().await;
    let taken = other.local_addr().unwrap();
    let hand = Hand::default();
    for config in [Config { listen: taken, ..config() }, Config { health: Some(taken), ..config() }] {
        let running = auctioneer::run(config, client(&bbs.url), hand.clone(), std::future::pending(), |_| {});
        let error = patiently(running).await.unwrap_err();
        assert!(error.to_string().contains(&format!("cannot listen on {taken}")), "{error}");
    }
    let off_loopback = Config { listen: "0.0.0.0:0".parse().unwrap(), ..config() };
    let running = auctioneer::run(off_loopback, client(&bbs.url), AlwaysMine, std::future::pending(), |_| {});
    assert!(matches!(patiently(running).await, Err(RunError::Config(_))));
}
