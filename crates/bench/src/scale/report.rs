//! The section about a whole cluster: a pure function of what was measured, so that no number is typed by hand.

use std::fmt::Write;

use super::cells::PRESENCES_PER_TTL;
use super::{Delays, Killed, Measured, Memory, Placed, Ready, SECTION, Spent, Steady};
use crate::goals::{self, Goal};
use crate::latency::Summary;
use crate::process::Machine;
use crate::quiet;
use crate::table::{Table, bytes, grouped, milliseconds, seconds};

/// The size that Diego is made for, and what it gives its state server there.
const DIEGO_CELLS: u64 = 1_000;
const DIEGO_INSTANCES: u64 = 250_000;
/// How soon whoever listens should know of a change.
const DELAY_MS_MAX: f64 = 100.0;
const SERVER_BYTES_MAX: f64 = 4e9;

pub(super) fn section(machine: &Machine, measured: &Measured) -> String {
    let mut text = format!("{SECTION}\n\n{}\n", head(machine, measured));
    let goals = judge(measured).into_iter().map(|goal| (None, goal));
    let parts = [
        ("Goals of the cluster", goals::table(goals).to_string()),
        ("What happened to the cluster", course(measured).to_string()),
        ("From a change to whoever listens", delays(measured).to_string()),
        ("Who used the processors", spent(measured).to_string()),
        ("Memory of the programs", memory(measured).to_string()),
        ("Beside Diego's figures", beside_diego(measured).to_string()),
        ("Floors of this machine, measured in the same run as the cluster", measured.floors.table()),
        ("Notes about the cluster", notes(measured)),
    ];
    for (title, part) in parts {
        // Writing into a string cannot fail.
        let _ = write!(text, "### {title}\n\n{part}\n");
    }
    text
}

fn head(machine: &Machine, measured: &Measured) -> String {
    format!(
        "Written by `cargo xtask bench scale`; do not edit by hand. {} cells and {} instances ({} DesiredLRPs), mutual TLS between\n\
         all, on one machine: {} cores ({}), {} of memory, Linux {}. State server, auctioneer, all cells and everybody who\n\
         listens share these cores, so a time is what all of them together can do.\n",
        grouped(measured.cells as f64),
        grouped(measured.instances as f64),
        grouped(measured.lrps as f64),
        machine.cores,
        machine.processor,
        bytes(machine.memory_bytes as f64),
        machine.kernel,
    )
}

fn judge(measured: &Measured) -> Vec<Goal> {
    let mut goals = Vec::new();
    let interval_s = measured.interval_s as f64;
    let is_full = measured.cells >= DIEGO_CELLS && measured.instances >= DIEGO_INSTANCES;
    if let Some(steady) = &measured.steady {
        let longest_s = steady.longest_s();
        goals.push(Goal {
            what: "longest convergence pass, within Diego's loop",
            reach: format!("under {}", seconds(interval_s)),
            measured: seconds(longest_s),
            met: is_full.then_some(longest_s < interval_s),
        });
        goals.push(Goal {
            what: "changes of instances while nothing happens",
            reach: "0".into(),
            measured: grouped(steady.changes as f64),
            met: Some(steady.changes == 0),
        });
        let p99_ms = steady.probes.one_cell.p99_ms;
        goals.push(Goal {
            what: "p99 from a container that changes to whoever listens to its cell",
            reach: format!("under {DELAY_MS_MAX:.0} ms"),
            measured: milliseconds(p99_ms),
            met: is_full.then_some(p99_ms < DELAY_MS_MAX),
        });
    }
    if let Some(killed) = &measured.killed {
        // A presence that was just renewed holds for its whole time, and then the next loop must have found it.
        let limit_s = measured.presence_s as f64 + interval_s;
        goals.push(Goal {
            what: "instances of killed cells run elsewhere, within the time of a presence and one loop",
            reach: format!("under {}", seconds(limit_s)),
            measured: seconds(killed.seconds),
            met: is_full.then_some(killed.seconds < limit_s),
        });
        let peak = killed.memory.server_peak as f64;
        goals.push(Goal {
            what: "peak memory of the state server",
            reach: format!("under {}", bytes(SERVER_BYTES_MAX)),
            measured: bytes(peak),
            met: is_full.then_some(peak < SERVER_BYTES_MAX),
        });
    }
    goals
}

fn course(measured: &Measured) -> Table {
    let mut table = Table::new(["what", "measured"]);
    let Ready { seconds: ready_s, listeners, .. } = &measured.ready;
    table.row([
        format!(
            "{} cells started, {} listeners, all known to the server",
            grouped(measured.cells as f64),
            grouped(*listeners as f64)
        ),
        seconds(*ready_s),
    ]);
    if let Some(Placed { desired_s, seconds: placed_s, instances_per_s, events, interruptions, .. }) = &measured.placed
    {
        let all = grouped(measured.instances as f64);
        table.row([format!("all {} DesiredLRPs accepted", grouped(measured.lrps as f64)), seconds(*desired_s)]);
        table.row([
            format!("all {all} instances run"),
            format!("{}, {} instances/s", seconds(*placed_s), grouped(*instances_per_s)),
        ]);
        table.row([
            "events delivered meanwhile".into(),
            format!("{}, {interruptions} streams cut off", grouped(*events as f64)),
        ]);
    }
    if let Some(Steady { passes_s, changes, interruptions, .. }) = &measured.steady {
        let passes: Vec<String> = passes_s.iter().map(|pass_s| seconds(*pass_s)).collect();
        table.row([format!("{} convergence passes, nothing to do", passes.len()), passes.join(", ")]);
        table.row([
            "changes of instances meanwhile".to_owned(),
            format!("{}, {interruptions} streams cut off", grouped(*changes as f64)),
        ]);
    }
    if let Some(Killed { cells, instances, noticed_s, seconds: took_s, pass_s, interruptions, .. }) = &measured.killed {
        let (cells, instances_grouped) = (grouped(*cells as f64), grouped(*instances as f64));
        table.row([format!("{cells} cells killed: the server lists none of them any more"), seconds(*noticed_s)]);
        let rate = *instances as f64 / (took_s - noticed_s).max(1e-9);
        table.row([
            format!("their {instances_grouped} instances run elsewhere"),
            format!(
                "{} ({} instances/s once noticed), {interruptions} streams cut off",
                seconds(*took_s),
                grouped(rate)
            ),
        ]);
        table.row(["convergence pass after that".into(), seconds(*pass_s)]);
    }
    table
}

fn delays(measured: &Measured) -> Table {
    let mut table = Table::new(["when", "from", "to whoever listens to", "changes", "p50", "p99", "longest"]);
    let mut rows = |when: &str, from: &str, Delays { one_cell, all }: &Delays| {
        for (to, summary) in [("the one cell", one_cell), ("everything", all)] {
            let Summary { count, p50_ms, p99_ms, max_ms } = summary;
            let mut row = vec![when.to_owned(), from.to_owned(), to.to_owned(), grouped(*count as f64)];
            row.extend([p50_ms, p99_ms, max_ms].map(|ms| milliseconds(*ms)));
            table.row(row);
        }
    };
    let server = "the server takes it up";
    if let Some(placed) = &measured.placed {
        rows("while all are placed", server, &placed.delays);
    }
    if let Some(steady) = &measured.steady {
        rows("one change at a time", "the container changes", &steady.probes);
    }
    if let Some(killed) = &measured.killed {
        rows("while those of killed cells are placed", server, &killed.delays);
    }
    table
}

fn phases(measured: &Measured) -> Vec<(&'static str, Spent, Memory)> {
    let mut phases = Vec::new();
    phases.extend(measured.placed.as_ref().map(|phase| ("all are placed", phase.spent, phase.memory)));
    phases.extend(measured.steady.as_ref().map(|phase| ("nothing happens", phase.spent, phase.memory)));
    phases.extend(measured.killed.as_ref().map(|phase| ("cells are killed", phase.spent, phase.memory)));
    phases
}

fn spent(measured: &Measured) -> Table {
    let mut table =
        Table::new(["while", "for", "state server and Locket", "auctioneer", "all cells and listeners", "others"]);
    for (phase, spent, _) in phases(measured) {
        let mut row = vec![phase.to_owned(), seconds(spent.seconds)];
        let all = [spent.server, spent.auctioneer, spent.cells, spent.others];
        row.extend(all.map(|used| format!("{used:.2} cores")));
        table.row(row);
    }
    table
}

fn memory(measured: &Measured) -> Table {
    let mut table = Table::new([
        "after",
        "state server and Locket",
        "its peak",
        "auctioneer",
        "its peak",
        "all cells and listeners",
    ]);
    let ready = &measured.ready;
    let before = [("programs started", ready.memory_alone), ("cells started, no instance yet", ready.memory)];
    for (after, memory) in
        before.into_iter().chain(phases(measured).into_iter().map(|(phase, _, memory)| (phase, memory)))
    {
        let Memory { server, server_peak, auctioneer, auctioneer_peak, cells } = memory;
        let all = [server, server_peak, auctioneer, auctioneer_peak, cells];
        table.row([after.to_owned()].into_iter().chain(all.map(|count| bytes(count as f64))));
    }
    table
}

/// Given, from Diego's notes and documentation; none of it was measured here.
fn beside_diego(measured: &Measured) -> Table {
    let mut table = Table::new(["", "Diego, given", "here"]);
    let steady = measured.steady.as_ref();
    table.row([
        "size that it is made for".to_owned(),
        "250,000 instances, 1,000 cells".into(),
        format!("{} instances, {} cells", grouped(measured.instances as f64), grouped(measured.cells as f64)),
    ]);
    let used = steady.map(|steady| {
        format!("{:.2} cores, {} while nothing happens", steady.spent.server, bytes(steady.memory.server as f64))
    });
    table.row([
        "state server and Locket for that".to_owned(),
        "16 cores, 60 GB, and as much for a database".into(),
        used.unwrap_or_default(),
    ]);
    table.row([
        "convergence, within loops of 30 s".to_owned(),
        "27.0 s to gather 200,000 instances (MySQL, 2016)".into(),
        steady.map(|steady| seconds(steady.longest_s())).unwrap_or_default(),
    ]);
    let noticed = measured.killed.as_ref().map(|killed| seconds(killed.noticed_s));
    table.row([
        "a lost cell is noticed".to_owned(),
        "15 s, the time of a presence".into(),
        noticed.unwrap_or_default(),
    ]);
    table
}

fn notes(measured: &Measured) -> String {
    let ready = &measured.ready;
    let grown = ready.memory.cells.saturating_sub(ready.memory_alone.cells) as f64;
    let others = phases(measured).into_iter().map(|(_, spent, _)| spent.others).fold(0.0, f64::max);
    format!(
        "- Cells are real but for their containers: each has its own ports, its own connections and its own presence in Locket, and\n  \
           speaks with certificates. A container takes 0.1 s to run. They are all on one runtime, with a thread for each core, and\n  \
           their presences on another thread, as a real cell is not kept from speaking up by others;\n  \
           a cell and its listener take {} before they have anything to run.\n\
         - State server and auctioneer are processes of the release binary. The state server has the embedded store, with a sync for\n  \
           each group of writes, and serves Locket, where each cell renews its presence every {} s.\n\
         - A process may have {} open files here. The limit was raised to that, and {} cells need most of it.\n\
         - Beside each cell somebody listens to its events, as its route emitter would, and gets every change of a DesiredLRP too.\n\
         - Killed cells are not missed before their presence ends, {} s after they last renewed it.\n\
         - Instances count as running when the server said so to the listener of their cell; afterwards all cells are listed and\n  \
           every instance is counted.\n{}",
        bytes(grown / measured.cells as f64),
        measured.presence_s / PRESENCES_PER_TTL,
        grouped(measured.files_max as f64),
        grouped(measured.cells as f64),
        measured.presence_s,
        quiet::note(others),
    )
}

impl Steady {
    fn longest_s(&self) -> f64 {
        self.passes_s.iter().copied().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floors::Floors;

    fn measured() -> Measured {
        let delays = Delays {
            one_cell: Summary { count: 500, p50_ms: 3.0, p99_ms: 20.0, max_ms: 40.0 },
            all: Summary { count: 500, p50_ms: 4.0, p99_ms: 30.0, max_ms: 50.0 },
        };
        let spent = Spent { seconds: 90.0, server: 0.2, ..Spent::default() };
        let memory = Memory { server: 900_000_000, server_peak: 1_000_000_000, cells: 50_000_000, ..Memory::default() };
        Measured {
            cells: 1_000,
            lrps: 2_500,
            instances: 250_000,
            interval_s: 30,
            presence_s: 15,
            files_max: 20_000,
            floors: Floors::example(),
            ready: Ready { seconds: 5.0, listeners: 1_001, memory_alone: Memory::default(), memory },
            placed: Some(Placed {
                desired_s: 2.0,
                seconds: 50.0,
                instances_per_s: 5_000.0,
                events: 1_000_000,
                interruptions: 0,
                delays,
                spent,
                memory,
            }),
            steady: Some(Steady {
                passes_s: vec![0.5, 1.5, 0.7],
                changes: 0,
                interruptions: 0,
                spent,
                memory,
                probes: delays,
            }),
            killed: Some(Killed {
                cells: 100,
                instances: 25_000,
                noticed_s: 20.0,
                seconds: 30.0,
                interruptions: 0,
                delays,
                spent,
                memory,
                pass_s: 0.9,
            }),
        }
    }

    #[test]
    fn goals_are_judged_by_the_worst_and_only_at_the_size_they_are_for() {
        assert!(goals::not_met(judge(&measured())).is_empty());
        let mut slow = measured();
        slow.steady.as_mut().unwrap().passes_s.push(31.0);
        slow.steady.as_mut().unwrap().changes = 1;
        slow.killed.as_mut().unwrap().seconds = 45.0;
        assert_eq!(
            goals::not_met(judge(&slow)),
            [
                "longest convergence pass, within Diego's loop",
                "changes of instances while nothing happens",
                "instances of killed cells run elsewhere, within the time of a presence and one loop",
            ]
        );
        slow.cells = 20;
        assert_eq!(goals::not_met(judge(&slow)), ["changes of instances while nothing happens"]);
    }

    #[test]
    fn the_section_has_its_heading_and_every_phase() {
        let machine = Machine { cores: 2, processor: "P".into(), memory_bytes: 8_000_000_000, kernel: "6.1".into() };
        let text = section(&machine, &measured());
        assert!(text.starts_with(SECTION), "{text}");
        for part in [
            "| all 250,000 instances run",
            "50.0 s, 5,000 instances/s",
            "500 ms, 1.50 s, 700 ms",
            "2,500 instances/s once noticed",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(!text.contains("Others used"), "{text}");
        let mut spoilt = measured();
        spoilt.placed.as_mut().unwrap().spent.others = 1.0;
        assert!(section(&machine, &spoilt).contains("**Others used this machine meanwhile, up to 1.0 cores"));
    }
}
