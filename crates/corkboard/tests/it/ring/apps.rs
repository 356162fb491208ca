//! An app that is asked all the time, whatever happens to the programs around it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use api::models::task::State;
use rustix::process::Signal;

use super::world::{PATIENCE, World, cell_name, get};

/// How long something is away before it comes back; dozens of requests are made in that time.
const AWAY: Duration = Duration::from_secs(1);

/// Somebody who asks one request after the other and remembers what went wrong.
struct Visitor {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<(usize, Vec<String>)>,
}

impl Visitor {
    fn start(world: &World) -> Self {
        let (router, stop) = (world.router_address.clone(), Arc::new(AtomicBool::new(false)));
        let ours = stop.clone();
        let asking = std::thread::spawn(move || {
            let (mut answered, mut failed) = (0, Vec::new());
            while !ours.load(Ordering::Relaxed) {
                match get(&router) {
                    Ok((200, _)) => answered += 1,
                    other => failed.push(format!("{other:?}")),
                }
            }
            (answered, failed)
        });
        Self { stop, asking }
    }

    /// Every request was answered, and there were some.
    fn was_always_answered(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (answered, failed) = self.asking.join().unwrap();
        assert!(failed.is_empty() && answered > 10, "{answered} answers, {} failures: {failed:?}", failed.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_reachable_while_its_cell_is_evacuated_and_its_emitter_is_gone() {
    let mut world = World::start(2).await;
    world.run_app(2).await;
    let cells: BTreeSet<String> = world.seen(40).into_values().collect();
    assert_eq!(cells, BTreeSet::from([cell_name(0), cell_name(1)]), "zones share the instances of an app");

    let visitor = Visitor::start(&world);
    world.cells[0].signal(Signal::TERM);
    let status = world.cells[0].ended(PATIENCE).await;
    assert_eq!(status.code(), Some(0));
    let running = world.running().await;
    assert_eq!(running.len(), 2, "{running:?}");
    assert!(running.values().all(|(cell, _)| *cell == cell_name(1)), "{running:?}");
    let is_gone = async || !world.call(&["cells"]).contains(&cell_name(0));
    world.until("the cell has taken its presence back", is_gone).await;
    visitor.was_always_answered();

    let visitor = Visitor::start(&world);
    world.emitter.kill();
    tokio::time::sleep(AWAY).await;
    world.emitter.start();
    world.emitter.address_after("The route emitter answers health on ");
    world.start_cell(0);
    visitor.was_always_answered();
    assert_eq!(world.seen(40).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_to_its_end_and_its_result_is_told() {
    let world = World::start(1).await;
    let task = r#"{"task_guid":"once","domain":"ring","rootfs":"preloaded:cflinuxfs4","memory_mb":16,"disk_mb":16,
        "result_file":"/result","action":{"run":{"path":"/bin/sh","args":["-c","echo done > result"],"user":"root"}}}"#;
    world.call(&["create-task", task]);
    let finished = async || world.client.task_by_guid("once").await.unwrap().state == State::Completed as i32;
    world.until("the task is completed", finished).await;
    let task = world.client.task_by_guid("once").await.unwrap();
    assert_eq!((task.failed, task.result.as_str()), (false, "done\n"), "{task:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_is_away_takes_no_route_away() {
    let world = World::start(1).await;
    world.run_app(1).await;
    let visitor = Visitor::start(&world);
    world.bus().kill();
    tokio::time::sleep(AWAY).await;
    world.bus().restart();
    visitor.was_always_answered();
}
