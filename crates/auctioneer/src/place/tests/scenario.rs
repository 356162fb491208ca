//! Cells and starts from lines of words, and an outcome as lines.

use std::fmt::Write;

use api::rep::{Needs, Resources, RootfsProvider};

use crate::place::*;

/// `key=value` after the name; what is not said is 1000 of everything, the stack `s`, and no wishes.
struct Line<'a> {
    kind: &'a str,
    name: &'a str,
    words: Vec<(&'a str, &'a str)>,
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let mut words = line.split_whitespace();
        let (kind, name) = (words.next().unwrap(), words.next().unwrap_or_default());
        Line { kind, name, words: words.map(|word| word.split_once('=').unwrap()).collect() }
    })
}

impl<'a> Line<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, key: &str, default: T) -> T {
        self.get(key).map_or(default, |value| value.parse().unwrap())
    }

    fn list(&self, key: &str) -> Vec<String> {
        self.get(key).map(|value| value.split(',').map(str::to_owned).collect()).unwrap_or_default()
    }

    fn left_and_total(&self, key: &str) -> (i64, i64) {
        let (left, total) = self.get(key).unwrap_or("1000/1000").split_once('/').unwrap();
        (left.parse().unwrap(), total.parse().unwrap())
    }
}

pub(super) fn settings(given: &str) -> Settings {
    let mut settings = Settings::default();
    for line in lines(given) {
        match line.kind.split_once('=') {
            Some(("starting_weight", value)) => settings.starting_container_weight = value.parse().unwrap(),
            Some(("in_flight_max", value)) => settings.starting_container_count_max = value.parse().unwrap(),
            Some(("bin_pack", value)) => settings.bin_pack_first_fit_weight = value.parse().unwrap(),
            _ => assert_eq!(line.kind, "cell"),
        }
    }
    settings
}

pub(super) fn offers(given: &str) -> Vec<Offer> {
    lines(given).filter(|line| line.kind == "cell").map(|line| offer(&line)).collect()
}

fn offer(line: &Line<'_>) -> Offer {
    let (memory, disk, containers) =
        (line.left_and_total("memory"), line.left_and_total("disk"), line.left_and_total("containers"));
    let resources = |memory: i64, disk: i64, containers| Resources {
        memory_mb: memory.try_into().unwrap(),
        disk_mb: disk.try_into().unwrap(),
        containers,
    };
    let stacks = line.get("rootfs").unwrap_or("s").split(',').map(str::to_owned).collect();
    let mut state = CellState {
        available: resources(memory.0, disk.0, containers.0),
        total: resources(memory.1, disk.1, containers.1),
        zone: line.get("zone").unwrap_or("z1").into(),
        cell_index: line.number("index", 0),
        starting_container_count: line.number("starting", 0),
        proxy_memory_allocation_mb: line.number("proxy", 0),
        placement_tags: line.list("tags"),
        optional_placement_tags: line.list("optional"),
        volume_drivers: line.list("drivers"),
        tasks: vec![Task::default(); line.number("tasks", 0)],
        ..CellState::default()
    };
    state.rootfs_providers.0.insert("preloaded".into(), RootfsProvider::FixedSet(stacks));
    let lrps = line.list("lrps").into_iter();
    state.lrps = lrps.map(|process_guid| Lrp { process_guid, ..Lrp::default() }).collect();
    Offer { cell: CellId::parse(line.name).unwrap(), state }
}

pub(super) fn work(starts: &str) -> Batch {
    let mut batch = Batch::default();
    for line in lines(starts) {
        let needs = Needs {
            placement_tags: line.list("tags"),
            volume_drivers: line.list("drivers"),
            rootfs: line.get("rootfs").unwrap_or("preloaded:s").into(),
            memory_mb: line.number("memory", 10),
            disk_mb: line.number("disk", 10),
            max_pids: 0,
        };
        match line.kind {
            "task" => batch.tasks.push(Task { task_guid: line.name.into(), needs, ..Task::default() }),
            _ => {
                let (guid, index) = line.name.split_once('/').unwrap();
                let index = index.parse().unwrap();
                batch.lrps.push(Lrp { process_guid: guid.into(), index, needs, ..Lrp::default() });
            }
        }
    }
    batch
}

/// What each cell got, instances before tasks, and what failed.
pub(super) fn shown(outcome: &Outcome) -> String {
    let mut text = String::new();
    for Placed { cell, work } in &outcome.placed {
        assert_eq!(work.cell_id, cell.as_str());
        let lrps = work.lrps.iter().cloned().map(Start::Lrp);
        let starts: Vec<_> = lrps.chain(work.tasks.iter().cloned().map(Start::Task)).map(|it| it.to_string()).collect();
        writeln!(text, "{cell}: {}", starts.join(", ")).unwrap();
    }
    for Failed { start, reason } in &outcome.failed {
        writeln!(text, "{start}: {reason}").unwrap();
    }
    text
}

pub(super) struct Recorded {
    pub(super) offers: Vec<Offer>,
    pub(super) batch: Batch,
    pub(super) settings: Settings,
    pub(super) decisions: Vec<String>,
}

/// One line of `diego.jsonl`.
pub(super) fn recorded(line: &str) -> Recorded {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let states: Vec<CellState> = serde_json::from_str(&line["Cells"].to_string()).unwrap();
    let offers = states.into_iter().map(|state| Offer { cell: CellId::parse(&state.cell_id).unwrap(), state });
    let weight = |name| line["Settings"][name].as_f64().unwrap();
    Recorded {
        offers: offers.collect(),
        batch: Batch {
            lrps: serde_json::from_str(&line["LRPs"].to_string()).unwrap(),
            tasks: serde_json::from_str(&line["Tasks"].to_string()).unwrap(),
        },
        settings: Settings {
            starting_container_weight: weight("starting_container_weight"),
            starting_container_count_max: line["Settings"]["starting_container_count_max"].as_u64().unwrap(),
            bin_pack_first_fit_weight: weight("bin_pack_first_fit_weight"),
        },
        decisions: serde_json::from_str(&line["Outcome"].to_string()).unwrap(),
    }
}

/// An outcome as it is recorded: sorted, a line for each start.
pub(super) fn decisions(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<String> =
        outcome.failed.iter().map(|Failed { start, reason }| format!("{start}: {reason}")).collect();
    for Placed { cell, work } in &outcome.placed {
        lines.extend(work.lrps.iter().map(|lrp| format!("{} -> {cell}", Start::Lrp(lrp.clone()))));
        lines.extend(work.tasks.iter().map(|task| format!("{} -> {cell}", Start::Task(task.clone()))));
    }
    lines.sort_unstable();
    lines
}
