//! Cells that end in every way but an evacuation: what runs on them runs on, and the next life finds it.

use rustix::process::Signal;

use super::world::{PATIENCE, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_finds_its_containers_again() {
    let mut world = World::start(1).await;
    world.run_app(1).await;
    let before = (world.running().await, world.seen(1));

    world.cells[0].kill();
    assert_eq!(world.seen(1), before.1, "an app outlives the process of its cell");
    world.start_cell(0);
    world.until("the cell is known", async || world.call(&["cells"]).contains("cell-0")).await;
    assert_eq!((world.running().await, world.seen(1)), before);

    // The first signal begins an evacuation, which has nowhere to go; the second ends the cell as it is.
    world.cells[0].signal(Signal::INT);
    world.until("the evacuation begins", async || world.cells[0].whole_log().contains("a signal to stop")).await;
    world.cells[0].signal(Signal::TERM);
    assert_eq!(world.cells[0].ended(PATIENCE).await.code(), Some(0));
    assert_eq!(world.seen(1), before.1, "an app outlives a cell that is told twice");
    world.start_cell(0);
    assert_eq!(world.seen(1), before.1);
    assert!(!world.cells[0].whole_log().contains("another process is present as this cell"));
}
