//! A failover harms no instance that runs, and whoever follows events is told everything or warned.

use std::time::Duration;

use api::client::{Client, EventStream, Subscription};
use api::event::EventPayload;
use api::models::DesiredLrpUpdate;
use tokio::time::Instant;

use super::cells::{CELLS, GRACE, instances_on, populate, prepare, set_cells};
use super::nodes::{Nodes, Plan};
use super::say;
use crate::durability::world::lrp;
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE};

const FAILOVERS: usize = 6;
const PASSES: u64 = 3;
/// What a new master may have heard before it served.
const EARLY: Duration = Duration::from_secs(5);
/// Changes before, over and after each failover.
const CHANGES: usize = 5;
const MARKER: &str = "marker";

/// The next master, after this one was stopped or killed and started again.
async fn fail_over(nodes: &mut Nodes, gently: bool) -> usize {
    let old = nodes.master().await;
    if gently {
        nodes.stop(old).await;
    } else {
        nodes.kill(old);
    }
    nodes.restart(old);
    nodes.master().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_run_are_left_alone_and_a_cell_that_is_gone_is_noticed() {
    let mut nodes = prepare();
    nodes.start_all().await;
    let mut master = nodes.master().await;
    populate(&nodes.client(master, PATIENCE)).await;
    let before = instances_on(&nodes.client(master, PATIENCE), 0..CELLS).await;
    assert!(before.iter().all(|row| row.state == "RUNNING"), "{before:#?}");
    for number in 0..FAILOVERS {
        master = fail_over(&mut nodes, number % 2 == 0).await;
        nodes.passes(master, PASSES).await;
        assert_eq!(instances_on(&nodes.client(master, PATIENCE), 0..CELLS).await, before, "{}", nodes.logs());
    }

    // A cell goes while there is no master. The next one cannot know at once whether it is gone or was not heard yet.
    set_cells(nodes.dir.path(), 0..CELLS - 1);
    master = fail_over(&mut nodes, false).await;
    let since = Instant::now();
    let client = nodes.client(master, PATIENCE);
    while instances_on(&client, 0..CELLS).await == before {
        assert!(since.elapsed() < GRACE + PATIENCE, "the cell that is gone is not noticed\n{}", nodes.logs());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    assert!(since.elapsed() > GRACE - EARLY, "taken for gone after {:?}", since.elapsed());
    say(&format!("noticed {:?} after the new master served", since.elapsed()));
    nodes.passes(master, PASSES).await;
    let left = instances_on(&client, 0..CELLS - 1).await;
    let untouched: Vec<_> = before.into_iter().filter(|row| left.iter().any(|other| other == row)).collect();
    assert_eq!(left, untouched, "instances on cells that are there were touched");
    assert!(!left.is_empty());
    nodes.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_over_a_failover_are_whole_or_a_gap_is_told() {
    let mut nodes = Nodes::start(Plan::default()).await;
    let master = nodes.master().await;
    let mut client = nodes.client(master, PATIENCE);
    client.desire_lrp(lrp(MARKER, 0, "")).await.unwrap();
    let mut ears = Ears { stream: subscribe(&client, None).await, last_id: None, heard: 0, gaps: 0 };
    let mut change = 0;
    for number in 0..FAILOVERS {
        make_changes(&client, &mut change).await;
        // Whoever has heard everything misses nothing; whoever has not may have to be told so.
        if number % 3 < 2 {
            ears.listen_until(change).await;
        }
        let master = fail_over(&mut nodes, number % 2 == 0).await;
        client = nodes.client(master, PATIENCE);
        make_changes(&client, &mut change).await;
        ears.stream = subscribe(&client, ears.last_id.clone()).await;
        make_changes(&client, &mut change).await;
        ears.listen_until(change).await;
    }
    say(&format!("{} gaps were told over {FAILOVERS} failovers", ears.gaps));
    drop(ears);
    nodes.finish().await;
}

async fn make_changes(client: &Client, change: &mut usize) {
    for _ in 0..CHANGES {
        *change += 1;
        let update = DesiredLrpUpdate { annotation: Some(change.to_string()), ..DesiredLrpUpdate::default() };
        client.update_desired_lrp(MARKER, update).await.unwrap();
    }
}

async fn subscribe(client: &Client, last_event_id: Option<String>) -> EventStream {
    let what = Subscription { cell_id: String::new(), last_event_id };
    client.subscribe_to_instance_events(what).await.unwrap()
}

/// Hears the numbers of changes, one after the other unless a gap is told between them.
struct Ears {
    stream: EventStream,
    last_id: Option<String>,
    heard: usize,
    gaps: usize,
}

impl Ears {
    async fn listen_until(&mut self, change: usize) {
        let mut is_warned = false;
        while self.heard < change {
            let event = tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("events come").unwrap();
            let event = event.expect("the stream goes on while its server does");
            self.last_id = Some(event.id);
            match event.payload {
                EventPayload::Gap(_) => {
                    is_warned = true;
                    self.gaps += 1;
                }
                EventPayload::DesiredLrpChanged(changed) => {
                    let number: usize = changed.after.unwrap().annotation.parse().unwrap();
                    let follows = number == self.heard + 1 || (is_warned && number > self.heard);
                    assert!(follows, "change {number} came after {}, and nobody warned", self.heard);
                    (self.heard, is_warned) = (number, false);
                }
                _ => {}
            }
        }
    }
}
