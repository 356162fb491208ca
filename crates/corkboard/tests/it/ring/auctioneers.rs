//! Two auctioneers, of which one is active.

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
