//! What holds for any cells, any starts and any seed.

use std::collections::{BTreeMap, BTreeSet};

use api::rep::{Needs, Resources, RootfsProvider};
use proptest::prelude::*;

use crate::place::*;

fn any_offer() -> impl Strategy<Value = CellState> {
    let amounts = (0..2000i32, 0..2000i32, 0..12i64);
    let flags = (0..3u8, any::<bool>(), any::<bool>(), any::<bool>());
    (amounts, flags, 0..3i64, prop::collection::vec(0..4u8, 0..6)).prop_map(
        |((memory, disk, containers), (zone, tagged, optional, drivers), starting, lrps)| {
            let mut state = CellState {
                available: Resources { memory_mb: memory, disk_mb: disk, containers },
                total: Resources { memory_mb: 2000, disk_mb: 2000, containers: 12 },
                zone: format!("z{zone}"),
                starting_container_count: starting,
                proxy_memory_allocation_mb: starting * 16,
                placement_tags: texts(tagged, "x"),
                optional_placement_tags: texts(optional, "y"),
                volume_drivers: texts(drivers, "nfs"),
                lrps: lrps.into_iter().map(|app| lrp(app, 0, Needs::default())).collect(),
                ..CellState::default()
            };
            let stacks = ["s".to_owned()].into();
            state.rootfs_providers.0.insert("preloaded".into(), RootfsProvider::FixedSet(stacks));
            state
        },
    )
}

fn any_needs() -> impl Strategy<Value = Needs> {
    (0..600i32, 0..600i32, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(memory, disk, x, y, driver)| Needs {
        placement_tags: [texts(x, "x"), texts(y, "y")].concat(),
        volume_drivers: texts(driver, "nfs"),
        rootfs: "preloaded:s".into(),
        memory_mb: memory,
        disk_mb: disk,
        max_pids: 0,
    })
}

fn texts(there: bool, text: &str) -> Vec<String> {
    if there { vec![text.to_owned()] } else { vec![] }
}

fn lrp(app: u8, index: i32, needs: Needs) -> Lrp {
    Lrp { process_guid: format!("app-{app}"), index, needs, ..Lrp::default() }
}

fn any_batch() -> impl Strategy<Value = Batch> {
    let lrps = prop::collection::btree_map((0..4u8, 0..8i32), any_needs(), 0..24);
    let tasks = prop::collection::btree_map(0..16u8, any_needs(), 0..10);
    (lrps, tasks).prop_map(|(lrps, tasks)| Batch {
        lrps: lrps.into_iter().map(|((app, index), needs)| lrp(app, index, needs)).collect(),
        tasks: tasks
            .into_iter()
            .map(|(task, needs)| Task { task_guid: format!("task-{task}"), needs, ..Task::default() })
            .collect(),
    })
}

fn any_cells() -> impl Strategy<Value = Vec<Offer>> {
    prop::collection::vec(any_offer(), 0..12).prop_map(|states| {
        let named = states.into_iter().enumerate();
        named.map(|(at, state)| Offer { cell: CellId::parse(&format!("cell-{at}")).unwrap(), state }).collect()
    })
}

fn names(starts: impl IntoIterator<Item = Start>) -> Vec<String> {
    let mut names: Vec<_> = starts.into_iter().map(|start| start.to_string()).collect();
    names.sort_unstable();
    names
}

fn needs(start: &Start) -> &Needs {
    match start {
        Start::Lrp(lrp) => &lrp.needs,
        Start::Task(task) => &task.needs,
    }
}

fn starts(work: &Work) -> impl Iterator<Item = Start> + '_ {
    work.lrps.iter().cloned().map(Start::Lrp).chain(work.tasks.iter().cloned().map(Start::Task))
}

proptest! {
    #[test]
    fn every_start_is_placed_once_or_fails_once(
        cells in any_cells(), batch in any_batch(), seed: u64, limit in 0..20u64,
    ) {
        let settings = Settings { starting_container_count_max: limit, ..Settings::default() };
        let asked = names(starts(&Work { lrps: batch.lrps.clone(), tasks: batch.tasks.clone(), cell_id: String::new() }));
        let outcome = place(&cells, batch, &settings, seed);
        let placed = outcome.placed.iter().flat_map(|placed| starts(&placed.work));
        let answered = names(placed.chain(outcome.failed.iter().map(|failed| failed.start.clone())));
        prop_assert_eq!(asked, answered);
    }

    #[test]
    fn no_cell_gets_more_than_it_has_or_what_it_does_not_welcome(cells in any_cells(), batch in any_batch(), seed: u64) {
        let by_id: BTreeMap<_, _> = cells.iter().map(|offer| (&offer.cell, &offer.state)).collect();
        for Placed { cell, work } in place(&cells, batch, &Settings::default(), seed).placed {
            let state = by_id[&cell];
            let proxies = state.proxy_memory_allocation_mb * work.lrps.len() as i64;
            let memory: i64 = starts(&work).map(|start| i64::from(needs(&start).memory_mb)).sum();
            let disk: i64 = starts(&work).map(|start| i64::from(needs(&start).disk_mb)).sum();
            prop_assert!(memory + proxies <= i64::from(state.available.memory_mb));
            prop_assert!(disk <= i64::from(state.available.disk_mb));
            prop_assert!(starts(&work).count() as i64 <= state.available.containers);
            for start in starts(&work) {
                let wanted: BTreeSet<_> = needs(&start).placement_tags.iter().collect();
                prop_assert!(state.placement_tags.iter().all(|tag| wanted.contains(tag)));
                let known: BTreeSet<_> = state.placement_tags.iter().chain(&state.optional_placement_tags).collect();
                prop_assert!(wanted.is_subset(&known));
                prop_assert!(needs(&start).volume_drivers.iter().all(|it| state.volume_drivers.contains(it)));
            }
        }
    }

    /// Whoever failed for want of resources would find room nowhere, not even after everything else was decided.
    #[test]
    fn nothing_fails_that_fits(cells in any_cells(), batch in any_batch(), seed: u64) {
        let outcome = place(&cells, batch, &Settings::default(), seed);
        let given: BTreeMap<_, _> = outcome.placed.iter().map(|placed| (&placed.cell, &placed.work)).collect();
        let failed = outcome.failed.iter().filter(|failed| matches!(failed.reason, Reason::Resources(_)));
        for start in failed.map(|failed| &failed.start) {
            for Offer { cell, state } in &cells {
                let none = Work::default();
                let work = given.get(cell).copied().unwrap_or(&none);
                let proxy = state.proxy_memory_allocation_mb;
                let memory: i64 = starts(work).map(|it| i64::from(needs(&it).memory_mb)).sum();
                let left = i64::from(state.available.memory_mb) - memory - proxy * work.lrps.len() as i64;
                let cost = i64::from(needs(start).memory_mb) + if matches!(start, Start::Lrp(_)) { proxy } else { 0 };
                let disk: i32 = starts(work).map(|it| needs(&it).disk_mb).sum();
                let fits = cost <= left
                    && needs(start).disk_mb <= state.available.disk_mb - disk
                    && (starts(work).count() as i64) < state.available.containers;
                let welcome = place(
                    &[Offer { cell: cell.clone(), state: roomy(state) }],
                    one(start.clone()),
                    &Settings::default(),
                    0,
                );
                prop_assert!(!fits || welcome.placed.is_empty(), "{start} fits on {cell}");
            }
        }
    }

    #[test]
    fn the_seed_decides_and_the_order_of_answers_does_not(
        mut cells in any_cells(), batch in any_batch(), seed: u64, turn in 0..12usize,
    ) {
        let outcome = place(&cells, batch.clone(), &Settings::default(), seed);
        if !cells.is_empty() {
            let turn = turn % cells.len();
            cells.rotate_left(turn);
        }
        prop_assert_eq!(place(&cells, batch, &Settings::default(), seed), outcome);
    }

    /// Zones of any number of cells, as long as there is room.
    #[test]
    fn instances_of_an_app_are_spread_over_zones_within_one(
        zones in prop::collection::vec(1..5usize, 1..6), instances in 0..60i32, seed: u64,
    ) {
        let mut cells = Vec::new();
        for (zone, size) in zones.iter().enumerate() {
            for cell in 0..*size {
                let mut state = CellState { zone: format!("z{zone}"), ..CellState::default() };
                state.available = Resources { memory_mb: 10_000, disk_mb: 10_000, containers: 100 };
                state.total = state.available.clone();
                state.rootfs_providers.0.insert("docker".into(), RootfsProvider::Arbitrary);
                cells.push(Offer { cell: CellId::parse(&format!("{zone}-{cell}")).unwrap(), state });
            }
        }
        let needs = Needs { rootfs: "docker:///x".into(), memory_mb: 10, ..Needs::default() };
        let batch = Batch { lrps: (0..instances).map(|index| lrp(0, index, needs.clone())).collect(), tasks: vec![] };
        let outcome = place(&cells, batch, &Settings::default(), seed);
        prop_assert!(outcome.failed.is_empty());
        let on = |part: &str| -> usize {
            let placed = outcome.placed.iter().filter(|placed| placed.cell.as_str().starts_with(part));
            placed.map(|placed| placed.work.lrps.len()).sum()
        };
        for (zone, size) in zones.iter().enumerate() {
            for (other, _) in zones.iter().enumerate() {
                let (here, there) = (on(&format!("{zone}-")), on(&format!("{other}-")));
                prop_assert!(here <= there + 1, "{} and {} instances", here, there);
            }
            let on_cells: Vec<_> = (0..*size).map(|cell| on(&format!("{zone}-{cell}"))).collect();
            prop_assert!(on_cells.iter().max().unwrap() - on_cells.iter().min().unwrap() <= 1, "{on_cells:?}");
        }
    }
}

/// The same cell with room for anything, to ask whether a start is welcome at all.
fn roomy(state: &CellState) -> CellState {
    let available = Resources { memory_mb: i32::MAX, disk_mb: i32::MAX, containers: 1 };
    CellState { available, ..state.clone() }
}

fn one(start: Start) -> Batch {
    match start {
        Start::Lrp(lrp) => Batch { lrps: vec![lrp], tasks: vec![] },
        Start::Task(task) => Batch { lrps: vec![], tasks: vec![task] },
    }
}
