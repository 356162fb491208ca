//! How long one batch takes to decide: `cargo run --release -p corkboard-auctioneer --example place [starts] [cells]`.
//!
//! The goal is below a second for 10,000 starts over 1,000 cells, whatever the starts look like. Each kind of batch is decided
//! a few times; the fastest run is told, because everything slower was something else on the machine.

#![expect(clippy::print_stdout, reason = "the table is for the terminal")]

use std::time::Duration;

use api::rep::{CellState, Lrp, Needs, Resources, RootfsProvider, Task};
use corkboard_auctioneer::place::{Batch, Offer, Settings, place};
use model::CellId;
use tokio::time::Instant;

const RUNS: u64 = 5;
const ZONES: usize = 3;
/// A quarter million instances over a thousand cells.
const LRPS_PER_CELL: usize = 250;

fn main() {
    let mut numbers = std::env::args().skip(1).map_while(|word| word.parse::<usize>().ok());
    let starts = numbers.next().unwrap_or(10_000);
    let cells = numbers.next().unwrap_or(1_000);
    println!("{starts} starts over {cells} cells in {ZONES} zones");
    let empty = cluster(cells, 0);
    let busy = cluster(cells, LRPS_PER_CELL);
    let apps = |instances: usize| lrps(starts, |at| (at / instances, at % instances), |_| "preloaded:s".into());
    let images = lrps(starts, |at| (at, 0), |at| format!("docker:///image-{at}"));
    let tasks = Batch {
        tasks: (0..starts)
            .map(|at| Task { task_guid: format!("task-{at}"), needs: needs("preloaded:s"), ..Task::default() })
            .collect(),
        lrps: vec![],
    };
    let mut large = apps(10);
    large.lrps.iter_mut().for_each(|lrp| lrp.needs.memory_mb = i32::MAX);
    measure("apps of 10 instances, empty cells", &empty, &apps(10));
    measure("apps of 10 instances, 250 others on each cell", &busy, &apps(10));
    measure("one app", &empty, &apps(starts));
    measure("an image for each app", &empty, &images);
    measure("tasks", &empty, &tasks);
    measure("nothing fits", &busy, &large);
}

fn measure(name: &str, offers: &[Offer], batch: &Batch) {
    let (mut best, mut placed) = (Duration::MAX, 0);
    for seed in 0..RUNS {
        let batch = batch.clone();
        let begun = Instant::now();
        let outcome = place(offers, batch, &Settings::default(), seed);
        best = best.min(begun.elapsed());
        placed = outcome.placed.iter().map(|it| it.work.lrps.len() + it.work.tasks.len()).sum();
    }
    println!("{:>8.1} ms  {name}; {placed} placed", best.as_secs_f64() * 1000.0);
}

fn needs(rootfs: &str) -> Needs {
    Needs { rootfs: rootfs.into(), memory_mb: 64, disk_mb: 64, ..Needs::default() }
}

fn lrps(starts: usize, which: impl Fn(usize) -> (usize, usize), rootfs: impl Fn(usize) -> String) -> Batch {
    let one = |at: usize| {
        let (app, index) = which(at);
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        Lrp { process_guid: format!("app-{app}"), index, needs: needs(&rootfs(at)), ..Lrp::default() }
    };
    Batch { lrps: (0..starts).map(one).collect(), tasks: vec![] }
}

fn cluster(cells: usize, lrps_each: usize) -> Vec<Offer> {
    let one = |cell: usize| {
        let total = Resources { memory_mb: 65_536, disk_mb: 262_144, containers: 1_000 };
        let mut state = CellState { zone: format!("z{}", cell % ZONES), ..CellState::default() };
        (state.available, state.total) = (total.clone(), total);
        state.available.memory_mb -= i32::try_from(cell % 7 * 1000).unwrap_or(0);
        state.rootfs_providers.0.insert("docker".into(), RootfsProvider::Arbitrary);
        state.rootfs_providers.0.insert("preloaded".into(), RootfsProvider::FixedSet(["s".to_owned()].into()));
        let others = (0..lrps_each).map(|at| Lrp { process_guid: format!("app-{}", cell * 31 + at), ..Lrp::default() });
        state.lrps = others.collect();
        Offer { cell: CellId::parse(&format!("cell-{cell}")).expect("a name is not empty"), state }
    };
    (0..cells).map(one).collect()
}
