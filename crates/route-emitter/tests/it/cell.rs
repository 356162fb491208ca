//! An emitter for one cell.

use corkboard_route_emitter::config::Config;

use crate::board::{desired, running};
use crate::world::{World, config};

#[tokio::test]
async fn it_speaks_for_its_own_instances_and_asks_for_the_routes_of_those() {
    let world = World::start(Config { cell_id: Some("cell-1".into()), ..config() }).await;
    world.followed().await;
    world.synced().await;
    world.board.state().desired.extend([desired("p", "x.com"), desired("q", "y.com")]);
    let mut elsewhere = running("q", 0, "e", 2001);
    elsewhere.actual_lrp_instance_key.as_mut().unwrap().cell_id = "cell-2".into();
    world.board.run_instance(elsewhere);
    world.board.run_instance(running("p", 0, "a", 1001));
    world.heard.wait("+ x.com:1001", 3).await;
    assert_eq!(world.heard.count("+ y.com:2001"), 0);
    // Its list is empty, but the server says where the index is now.
    {
        let mut moved = running("p", 0, "b", 3001);
        moved.actual_lrp_instance_key.as_mut().unwrap().cell_id = "cell-2".into();
        world.board.state().actual = vec![moved];
    }
    world.heard.wait("- x.com:1001", 1).await;
    assert_eq!(world.heard.count("+ x.com:3001"), 0);
}

/// Other instances of the process go on here, so that its absence from the list alone would say nothing.
#[tokio::test]
async fn what_left_unheard_is_asked_for_also_when_its_process_goes_on_here() {
    let world = World::start(Config { cell_id: Some("cell-1".into()), ..config() }).await;
    world.followed().await;
    world.synced().await;
    world.board.state().desired.push(desired("p", "x.com"));
    world.board.run_instance(running("p", 0, "a", 1001));
    world.board.run_instance(running("p", 1, "b", 1002));
    world.heard.wait("+ x.com:1001", 1).await;
    world.heard.wait("+ x.com:1002", 1).await;
    {
        let mut moved = running("p", 0, "c", 3001);
        moved.actual_lrp_instance_key.as_mut().unwrap().cell_id = "cell-2".into();
        world.board.state().actual = vec![moved, running("p", 1, "b", 1002)];
    }
    world.heard.wait("- x.com:1001", 1).await;
    assert_eq!(world.heard.count("- x.com:1002"), 0);
}
