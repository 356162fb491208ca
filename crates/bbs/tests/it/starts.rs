//! Cells during an update: what they are told to run, and what is noted of those that know no definitions.

use api::models::{DesiredLrp, DesiredLrpUpdate, StartActualLrpRequest};

use crate::assembled::Assembled;
use crate::samples;

/// Two instances, and an update to another port that has come to neither of them.
async fn updating() -> Assembled {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(DesiredLrp { ports: vec![8080], ..samples::lrp("p", 2) }).await.unwrap();
    for (index, name) in [(0, "a"), (1, "b")] {
        client.claim_actual_lrp("p", index, samples::instance(name)).await.unwrap();
        client.start_actual_lrp(samples::start("p", index, name)).await.unwrap();
    }
    world.clock.advance(model::NANOS_PER_SECOND);
    let new = DesiredLrp { ports: vec![9090], ..samples::lrp("p", 2) };
    let update = DesiredLrpUpdate { desired_lrp: Some(new), ..samples::redefinition("v2") };
    client.update_desired_lrp("p", update).await.unwrap();
    world.clock.advance(model::NANOS_PER_SECOND);
    world
}

/// The ports and the number that a cell is told for an instance.
async fn told(world: &Assembled, name: &str) -> (Vec<u32>, u32) {
    let lrp = world.client().desired_lrp_of_instance("p", samples::instance(name)).await.unwrap();
    (lrp.ports, lrp.definition_number)
}

/// The definitions that the rows name, and how often one was not honoured.
fn noted(world: &Assembled) -> (Vec<u32>, u64) {
    let board = world.app.board.load();
    let rows = board.slots.values().flat_map(|entry| entry.slot.rows());
    (rows.map(|row| row.definition.0).collect(), world.app.metrics.rollouts.not_honoured.get())
}

#[tokio::test]
async fn a_cell_is_told_the_definition_that_the_row_of_its_instance_names() {
    let world = updating().await;
    let client = world.client();
    let (old, new) = ((vec![8080], 0), (vec![9090], 2));
    assert_eq!(told(&world, "a").await, old);
    assert_eq!(told(&world, "stranger").await, new);
    let unasked = client.desired_lrp_by_process_guid("p").await.unwrap();
    assert_eq!((unasked.ports, unasked.definition_number), new);
    // What starts again where the update has not come to is what ran there before.
    client.crash_actual_lrp(samples::key("p", 0), samples::instance("a"), "broken").await.unwrap();
    client.claim_actual_lrp("p", 0, samples::instance("c")).await.unwrap();
    assert_eq!((told(&world, "c").await, told(&world, "a").await), (old, new));
}

#[tokio::test]
async fn an_instance_that_did_not_get_what_it_asked_for_says_so_and_is_counted_once() {
    let world = updating().await;
    let client = world.client();
    assert_eq!(noted(&world), (vec![1, 1], 0));
    for (index, from, to, said, noted_then) in [
        // A cell that knows definitions.
        (0, "a", "c", 1, (vec![1, 1], 0)),
        // One that does not: it asked without saying for whom, and got the one in use.
        (1, "b", "d", 0, (vec![1, 2], 1)),
    ] {
        client.crash_actual_lrp(samples::key("p", index), samples::instance(from), "broken").await.unwrap();
        client.claim_actual_lrp("p", index, samples::instance(to)).await.unwrap();
        let start = StartActualLrpRequest { definition_number: said, ..samples::start("p", index, to) };
        for _ in 0..3 {
            client.start_actual_lrp(start.clone()).await.unwrap();
            assert_eq!(noted(&world), noted_then);
        }
    }
}
