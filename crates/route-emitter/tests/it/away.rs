//! A state server that is away, fails, or says nothing withdraws no route.

use crate::board::{Mood, desired, running};
use crate::world::{World, config, eventually};

async fn routed() -> World {
    let world = World::start(config()).await;
    {
        let mut state = world.board.state();
        state.desired.push(desired("p", "x.com"));
        state.actual.push(running("p", 0, "a", 1001));
        state.domains.push("apps".into());
    }
    world.heard.wait("+ x.com:1001", 1).await;
    world.heard.forget();
    world
}

#[tokio::test]
async fn a_server_that_fails_or_hangs_up_withdraws_nothing_and_routers_hear_on() {
    let world = routed().await;
    world.board.state().mood = Mood::Failing;
    world.board.cut_all();
    eventually("failed listing", || world.metrics.sync_failures.get() >= 1).await;
    assert_eq!(world.metrics.state_server_away.get(), 1);
    world.heard.wait("+ x.com:1001", 5).await;
    world.board.state().mood = Mood::Well;
    world.followed().await;
    world.synced().await;
    assert_eq!(world.heard.unregistrations(), 0);
    assert_eq!(world.metrics.state_server_away.get(), 0);
}

#[tokio::test]
async fn a_server_that_was_emptied_withdraws_nothing() {
    let world = routed().await;
    {
        let mut state = world.board.state();
        state.desired.clear();
        state.actual.clear();
    }
    eventually("refused listings", || world.metrics.syncs_refused.get() >= 3).await;
    world.heard.wait("+ x.com:1001", 5).await;
    assert_eq!(world.heard.unregistrations(), 0);
}

#[tokio::test]
async fn a_server_that_forgot_all_instances_withdraws_nothing_until_it_lists_the_index_again() {
    let world = routed().await;
    world.board.state().actual.clear();
    world.synced().await;
    assert_eq!(world.heard.unregistrations(), 0);
    world.board.state().actual.push(running("p", 0, "b", 1002));
    world.heard.wait("- x.com:1001", 1).await;
    assert!(world.heard.count("+ x.com:1002") >= 1);
}

#[tokio::test]
async fn only_a_fresh_domain_withdraws_a_process_that_is_not_listed() {
    let world = routed().await;
    {
        let mut state = world.board.state();
        state.desired = vec![desired("q", "y.com")];
        state.domains.clear();
    }
    world.synced().await;
    assert_eq!(world.heard.unregistrations(), 0);
    world.board.state().domains.push("apps".into());
    world.heard.wait("- x.com:1001", 1).await;
}
