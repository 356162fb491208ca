//! Locks: two auctioneers of which one is active, and what becomes of those who lose theirs.

use rustix::process::Signal;

use super::world::{PATIENCE, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_other_auctioneer_takes_over() {
    let mut world = World::start(1).await;
    world.auctioneers[1].start();
    let waits = async || world.auctioneers[1].whole_log().contains("waiting for the lock, which another one has");
    world.until("the second waits", waits).await;

    // Nobody gives the lock back, so that its time has to pass.
    world.auctioneers[0].kill();
    world.follow_auctioneer(1);
    world.run_app(1).await;

    // A stop in order gives it back, and the next one has it at once.
    world.auctioneers[0].start();
    world.auctioneers[1].signal(Signal::TERM);
    assert_eq!(world.auctioneers[1].ended(PATIENCE).await.code(), Some(0));
    assert!(world.auctioneers[1].whole_log().contains("the lock is given back"));
    world.follow_auctioneer(0);
    world.call(&["update-desired-lrp", "app", r#"{"instances":2}"#]);
    world.until("the second instance answers", async || world.seen(40).len() == 2).await;
}

/// Whoever watches processes starts it again, and it waits for its turn; an emitter does that by itself.
#[tokio::test(flavor = "multi_thread")]
async fn who_loses_a_lock_is_active_no_longer() {
    let mut world = World::start(1).await;
    world.run_app(1).await;
    world.take_lock_away("auctioneer").await;
    assert_eq!(world.auctioneers[0].ended(PATIENCE).await.code(), Some(1));
    world.start_auctioneer(0);

    world.take_lock_away("route_emitter").await;
    let is_lost = async || world.emitter.whole_log().contains("this one waits for its turn");
    world.until("the emitter hears of it", is_lost).await;
    let has_it =
        async || world.locket.fetch("route_emitter", PATIENCE).await.is_ok_and(|lock| lock.owner != "somebody");
    world.until("the emitter has its lock again", has_it).await;
    assert_eq!(world.seen(5).len(), 1, "routes stay as they are");
    world.emitter.signal(Signal::TERM);
    assert_eq!(world.emitter.ended(PATIENCE).await.code(), Some(0));
    assert!(world.locket.fetch("route_emitter", PATIENCE).await.is_err(), "the lock is given back");
    world.router.signal(Signal::TERM);
    assert_eq!(world.router.ended(PATIENCE).await.code(), Some(0));
}
