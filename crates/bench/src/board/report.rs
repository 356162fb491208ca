//! The report: a pure function of what was measured, so that it can be tested and so that no number is typed by hand.
//!
//! Every line says what another implementation of the protocol did at the same size on two cores, what we set out to reach, what
//! was measured, and how far that is from the floor of the machine. A line whose phase had failures says so instead.

use std::fmt::Write;

use super::Measured;
use crate::floors::Floors;
use crate::load::events::{ALONE, DELIVERED, PACE_PER_S, PACED_ALONE, PACED_DELIVERED, PACED_WATCHED, WATCHED};
use crate::load::reads::{ALL_ACTUAL, ALL_DESIRED, ALL_SCHEDULING, ONE_CELL, ONE_LRP};
use crate::load::{self, Measure, PhaseReport};
use crate::process::Machine;
use crate::table::{Table, bytes, grouped, milliseconds};

const CROWD: &str = "claim + start";
const CLAIM_ALONE: &str = "claim alone + start alone";
const CYCLES: &str = "crash + claim + start";
const POLLS: &str = "polls of cells + polls of route emitters";

/// The sizes that the goals, and the figures of the other server, are for.
const SIZES: [u64; 3] = [5_000, 50_000, 200_000];
const SIZES_SAID: &str = "Small size: 5,000 DesiredLRPs; middle size: 50,000; everything else at full size.";

/// One line of the table.
struct Line {
    what: &'static str,
    other: &'static str,
    reach: &'static str,
    measured: String,
    reached: bool,
    of_floor: String,
}

pub(super) fn markdown(machine: &Machine, measured: &Measured) -> String {
    let mut text = String::new();
    let rest = &measured.rest;
    // Writing into a string cannot fail.
    let _ = write!(
        text,
        "# Benchmarks\n\n\
         Written by `cargo xtask bench board`; do not edit by hand. Client and server ran on one machine: {} cores ({}), {} of\n\
         memory, Linux {}. The full size is {} DesiredLRPs with {} instances on 1,000 cells; the server keeps its records\n\
         on disk with a sync per group of writes, and every connection uses mutual TLS.\n\n",
        machine.cores,
        machine.processor,
        bytes(machine.memory_bytes as f64),
        machine.kernel,
        grouped(rest.lrps as f64),
        grouped(rest.instances as f64),
    );
    let _ = write!(text, "## Floors of this machine, measured in the same run\n\n{}\n", measured.floors.table());
    let comparable = is_comparable(measured);
    let mut table = Table::new(["", "Go BBS, 2 cores", "to reach", "measured", "reached?", "ratio to the floor"]);
    for line in lines(measured) {
        let reached = match (comparable, line.reached) {
            (false, _) => "other size",
            (true, true) => "yes",
            (true, false) => "**no**",
        };
        table.row([line.what, line.other, line.reach, &line.measured, reached, &line.of_floor]);
    }
    let _ = write!(
        text,
        "## Results\n\nThe figures of the Go BBS were measured earlier at the same sizes on a machine with two cores, not in this \
         run.\n{}\n\n{table}\n",
        if comparable {
            SIZES_SAID
        } else {
            "**This run has other sizes than the goals are for, so nothing is judged.**"
        },
    );
    let _ = write!(text, "## Growth of cost with the size of the board\n\n{}\n", growth(measured));
    let _ = write!(text, "## Notes\n\n{}\n", notes(measured));
    for (title, reports) in
        [("small size", &measured.small), ("middle size", &measured.middle), ("full size", &measured.full)]
    {
        let lrps = reports.first().map_or(0.0, |report| report.lrps as f64);
        let _ = write!(text, "## All numbers, {title} ({} DesiredLRPs)\n\n{}\n", grouped(lrps), load::table(reports));
    }
    text
}

fn is_comparable(measured: &Measured) -> bool {
    let size = |reports: &[PhaseReport]| reports.first().map_or(0, |report| report.lrps);
    [size(&measured.small), size(&measured.middle), measured.rest.lrps] == SIZES
}

fn lines(measured: &Measured) -> Vec<Line> {
    let Measured { floors, middle, full, rest, .. } = measured;
    let mut lines = writes(measured);
    lines.extend(reads(measured));
    lines.push(goal("peak memory, everything above and below", "5.0 GB", "under 3 GB").line(
        bytes(rest.memory_peak_bytes as f64),
        rest.memory_peak_bytes < 3_000_000_000,
        String::new(),
    ));
    let mixed = goal(
        "mixed: 64 workers crash/claim/start, polls and large lists",
        "19 to 28 writes/s, claim p50 1.6 to 2.6 s",
        "10,000 writes/s, p99 < 50 ms",
    );
    lines.push(mixed.judge(full, "mixed", CYCLES, |measure| {
        let reached = measure.per_second >= 10_000.0 && measure.latency.p99_ms < 50.0;
        (rate(measure), reached, of_echo(measure, floors))
    }));
    let events = goal(
        "events to 50 subscribers, middle size",
        "14,800/s; writes fall from 506 to 177/s",
        "200,000/s, writes fall by less than a quarter",
    );
    lines.push(events.judge(middle, "events", PACED_DELIVERED, |measure| {
        let found = |name| middle.iter().find_map(|report| report.measure(name)).map_or(0.0, |found| found.per_second);
        let (alone, watched) = (found(PACED_ALONE), found(PACED_WATCHED));
        let fall = 100.0 * (1.0 - watched / alone.max(1e-9));
        let text = format!(
            "{}/s, writes fall by {fall:.0} % at {}/s offered; {}/s, from {} to {}/s, when writers take all they can",
            grouped(measure.per_second),
            grouped(PACE_PER_S),
            grouped(found(DELIVERED)),
            grouped(found(ALONE)),
            grouped(found(WATCHED)),
        );
        let share = measure.bytes / 1e6 / measure.seconds.max(1e-9) / floors.bulk_mb_per_s;
        let reached = measure.per_second >= 200_000.0 && watched > 0.75 * alone;
        (text, reached, format!("{:.0} % of TLS in bulk", 100.0 * share))
    }));
    lines.push(goal("convergence pass, nothing to do", "21 to 23 s", "0.5 s").line(
        milliseconds(rest.convergence_s * 1e3),
        rest.convergence_s <= 0.5,
        String::new(),
    ));
    let polling = goal("polling of 1,000 cells and their route emitters", "one full core for ever", "5 % of a core");
    lines.push(polling.judge(full, "poll", POLLS, |measure| {
        let share = measure.server_cpu_s.map_or(f64::NAN, |cpu| cpu / measure.seconds);
        let text = format!("{:.1} % of a core, p99 {}", 100.0 * share, milliseconds(measure.latency.p99_ms));
        (text, share <= 0.05, String::new())
    }));
    let start = goal(
        "start to serving, after a stop / after a kill",
        "< 1 s (state stays in the database)",
        "5 s with everything loaded",
    );
    lines.push(start.line(
        format!("{:.2} s / {:.2} s", rest.start_after_stop_s, rest.start_after_kill_s),
        rest.start_after_stop_s.max(rest.start_after_kill_s) <= 5.0,
        String::new(),
    ));
    lines
}

fn writes(measured: &Measured) -> Vec<Line> {
    let Measured { floors, small, .. } = measured;
    let crowd = goal(
        "claim/start, 64 clients, small size",
        "640/s, p50 82 ms, p99 205 ms; 2.5 ms CPU per write",
        "15,000/s, p99 < 25 ms",
    );
    let crowd = crowd.judge(small, "claim-start", CROWD, |measure| {
        let reached = measure.per_second >= 15_000.0 && measure.latency.p99_ms < 25.0;
        (rate(measure), reached, of_echo(measure, floors))
    });
    let alone = goal("claim/start, 1 client, small size", "3.2 ms", "2x the fdatasync floor");
    let alone = alone.judge(small, "claim-start", CLAIM_ALONE, |measure| {
        let p50 = measure.latency.p50_ms;
        let text = format!("p50 {}, p99 {}", milliseconds(p50), milliseconds(measure.latency.p99_ms));
        let both = floors.sync.p50_ms + floors.echo_one.latency.p50_ms;
        let ratios =
            format!("{}, {}", ratio(p50, floors.sync.p50_ms, "fdatasync"), ratio(p50, both, "fdatasync + TLS echo"));
        (text, p50 <= 2.0 * floors.sync.p50_ms, ratios)
    });
    vec![crowd, alone]
}

fn reads(measured: &Measured) -> Vec<Line> {
    let Measured { floors, full, .. } = measured;
    // How long the bytes alone take, through the cipher and the loopback device.
    let bulk_ms = |measure: &Measure| measure.bytes / 1e3 / floors.bulk_mb_per_s;
    let lists = [
        (goal("list all actual LRPs", "7.0 s (186 MB)", "0.35 s, first byte < 50 ms"), ALL_ACTUAL, 350.0, 50.0),
        (goal("list all scheduling infos", "4.2 s (182 MB)", "0.35 s"), ALL_SCHEDULING, 350.0, f64::INFINITY),
        (goal("list all DesiredLRPs", "32 s (857 MB)", "1.6 s"), ALL_DESIRED, 1_600.0, f64::INFINITY),
    ];
    let mut lines = Vec::new();
    for (goal, name, total_ms_max, first_byte_ms_max) in lists {
        lines.push(goal.judge(full, "reads", name, |measure| {
            let (p50, first) = (measure.latency.p50_ms, measure.first_byte_ms.unwrap_or(f64::INFINITY));
            let text = format!("{} ({}, first byte {})", milliseconds(p50), bytes(measure.bytes), milliseconds(first));
            (text, p50 <= total_ms_max && first <= first_byte_ms_max, ratio(p50, bulk_ms(measure), "TLS in bulk"))
        }));
    }
    let single = [
        (goal("actual LRPs of one cell", "8.1 ms (185 KB)", "1 ms"), ONE_CELL, 1.0),
        (goal("one DesiredLRP", "1.2 ms", "0.2 ms"), ONE_LRP, 0.2),
    ];
    for (goal, name, ms_max) in single {
        lines.push(goal.judge(full, "reads", name, |measure| {
            let (p50, p99) = (measure.latency.p50_ms, measure.latency.p99_ms);
            let text = format!("p50 {} ({}), p99 {}", milliseconds(p50), bytes(measure.bytes), milliseconds(p99));
            let floor_ms = floors.echo_one.latency.p50_ms + bulk_ms(measure);
            (text, p50 <= ms_max, ratio(p50, floor_ms, "TLS echo + bulk"))
        }));
    }
    lines
}

fn of_echo(measure: &Measure, floors: &Floors) -> String {
    format!("{:.0} % of TLS echo", 100.0 * measure.per_second / floors.echo_many.per_s)
}

/// What is wanted, before it is known what was reached.
struct Goal {
    what: &'static str,
    other: &'static str,
    reach: &'static str,
}

fn goal(what: &'static str, other: &'static str, reach: &'static str) -> Goal {
    Goal { what, other, reach }
}

impl Goal {
    /// The line of a measure, if its phase counts.
    fn judge(
        self,
        reports: &[PhaseReport],
        phase: &str,
        measure: &str,
        judge: impl FnOnce(&Measure) -> (String, bool, String),
    ) -> Line {
        let report = reports.iter().find(|report| report.phase == phase);
        let (measured, reached, of_floor) = match report.map(|report| (report.failed(), report.measure(measure))) {
            Some((false, Some(measure))) => judge(measure),
            Some((true, _)) => ("the phase failed; see below".to_owned(), false, String::new()),
            _ => ("not measured".to_owned(), false, String::new()),
        };
        self.line(measured, reached, of_floor)
    }

    fn line(self, measured: String, reached: bool, of_floor: String) -> Line {
        let Goal { what, other, reach } = self;
        Line { what, other, reach, measured, reached, of_floor }
    }
}

fn rate(measure: &Measure) -> String {
    let Measure { latency, .. } = measure;
    let cpu = measure.cpu_ms_per_call().map(|ms| format!("; {ms:.3} ms CPU per write")).unwrap_or_default();
    format!(
        "{}/s, p50 {}, p99 {}{cpu}",
        grouped(measure.per_second),
        milliseconds(latency.p50_ms),
        milliseconds(latency.p99_ms)
    )
}

fn ratio(measured: f64, floor: f64, of: &str) -> String {
    format!("{:.1}x {of}", measured / floor)
}

/// The same work on a small and on a full board. A cost that grows with the board is a scan that should not be there.
fn growth(measured: &Measured) -> Table {
    let mut table = Table::new(["", "small", "full", "growth"]);
    let cpu_ms = |reports: &[PhaseReport]| reports.iter().find_map(|report| report.measure(CROWD))?.cpu_ms_per_call();
    if let (Some(small), Some(full)) = (cpu_ms(&measured.small), cpu_ms(&measured.full)) {
        let what = "claim/start, 64 clients, CPU of the server per write".to_owned();
        table.row([what, format!("{small:.3} ms"), format!("{full:.3} ms"), format!("{:.2}x", full / small.max(1e-9))]);
    }
    let works = [
        ("desire, per call", "populate", "desire"),
        ("claim/start, 64 clients", "claim-start", CROWD),
        ("claim/start, 1 client", "claim-start", CLAIM_ALONE),
        ("one DesiredLRP", "reads", ONE_LRP),
    ];
    for (what, phase, measure) in works {
        let found = |reports: &[PhaseReport]| {
            reports.iter().find(|report| report.phase == phase)?.measure(measure).map(|found| found.latency.p50_ms)
        };
        if let (Some(small), Some(full)) = (found(&measured.small), found(&measured.full)) {
            let growth = format!("{:.2}x", full / small.max(1e-9));
            table.row([
                what.to_owned(),
                format!("p50 {}", milliseconds(small)),
                format!("p50 {}", milliseconds(full)),
                growth,
            ]);
        }
    }
    table
}

/// What limits the numbers, from the numbers.
fn notes(measured: &Measured) -> String {
    let Measured { floors, full, rest, .. } = measured;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "- Client and server share the cores, so a rate is what both together can do. A TLS echo that does nothing else reaches\n  \
         {}/s with {} connections on the same cores.",
        grouped(floors.echo_many.per_s),
        floors.connections,
    );
    for (name, what) in [(CROWD, "claimed and started"), (CYCLES, "crashed, claimed and started in the mixed phase")] {
        let found = full.iter().find_map(|report| report.measure(name));
        if let Some((found, server_s, client_s)) =
            found.and_then(|found| Some((found, found.server_cpu_s?, found.client_cpu_s?)))
        {
            let cores = |cpu_s: f64| cpu_s / found.seconds.max(1e-9);
            let _ = writeln!(
                text,
                "- While 64 clients {what} at full size, the server used {:.2} cores and the client {:.2}; what is left was idle or\n  \
                 taken by others.",
                cores(server_s),
                cores(client_s),
            );
        }
    }
    let _ = writeln!(
        text,
        "- One connection moves {} MB/s through the cipher and the loopback device; a large list is measured against that.\n\
         - In the mixed phase the reads have a fixed rate (every cell and its route emitter, and one reader of large lists that\n  \
         rests two seconds after each round); only the writes go as fast as they can.\n\
         - Memory after a restart, with all lists read once: {}. It took {:.2} s to stop.",
        grouped(floors.bulk_mb_per_s),
        bytes(rest.memory_peak_after_restart_bytes as f64),
        rest.stop_s,
    );
    let of = |report: &PhaseReport| format!("{} at {} LRPs", report.phase, report.lrps);
    let failed: Vec<String> = measured.phases().filter(|report| report.failed()).map(of).collect();
    if !failed.is_empty() {
        let _ = writeln!(text, "- **Phases with failures, whose numbers mean nothing: {}.**", failed.join(", "));
    }
    if let Some(doubt) = doubt_about(floors) {
        let _ = writeln!(text, "- {doubt}");
    }
    text
}

/// A sync that is too fast to be one makes every latency here worthless on a real disk, so the report says it.
fn doubt_about(floors: &Floors) -> Option<&'static str> {
    (floors.sync.p50_ms < 0.02).then_some(
        "A synced append took less than 0.02 ms: this disk does not wait for its medium. Do not compare latencies of writes.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Rest;
    use crate::floors::Echo;
    use crate::latency::Summary;

    fn measure(what: &str, per_second: f64, ms: f64) -> Measure {
        let latency = Summary { count: 10, p50_ms: ms, p99_ms: 2.0 * ms, max_ms: 3.0 * ms };
        let cpu = Some(0.4);
        Measure {
            what: what.into(),
            calls: 10,
            per_second,
            latency,
            seconds: 10.0,
            bytes: 1e6,
            first_byte_ms: Some(1.0),
            server_cpu_s: cpu,
            ..Default::default()
        }
    }

    #[test]
    fn other_sizes_are_not_judged() {
        let machine = Machine { cores: 2, processor: "x".into(), memory_bytes: 1, kernel: "6".into() };
        let mut measured = everything();
        assert!(!is_comparable(&measured), "the reports say 100 LRPs");
        let text = markdown(&machine, &measured);
        assert!(text.contains("nothing is judged") && !text.contains("| yes "), "{text}");
        measured.small[0].lrps = 5_000;
        measured.middle[0].lrps = 50_000;
        let text = markdown(&machine, &measured);
        assert!(!text.contains("nothing is judged") && text.contains("| yes "), "{text}");
    }

    fn phase(name: &str, measures: Vec<Measure>) -> PhaseReport {
        PhaseReport { phase: name.into(), lrps: 100, measures }
    }

    fn everything() -> Measured {
        let echo = Echo { per_s: 40_000.0, latency: Summary { count: 1, p50_ms: 0.05, p99_ms: 0.1, max_ms: 0.1 } };
        let sync = Summary { count: 1, p50_ms: 0.25, p99_ms: 0.5, max_ms: 1.0 };
        let floors = Floors {
            sync,
            copy_mb_per_s: 9e3,
            cipher_mb_per_s: 4e3,
            echo_one: echo,
            echo_many: echo,
            connections: 64,
            bulk_mb_per_s: 1e3,
        };
        let claims = || phase("claim-start", vec![measure(CROWD, 20_000.0, 3.0), measure(CLAIM_ALONE, 2_500.0, 0.4)]);
        let lists = [ALL_ACTUAL, ALL_SCHEDULING, ALL_DESIRED].map(|name| measure(name, 3.0, 300.0));
        let small_reads = [measure(ONE_CELL, 900.0, 0.9), measure(ONE_LRP, 9_000.0, 0.1)];
        let reads = || phase("reads", lists.iter().chain(&small_reads).cloned().collect());
        let events = phase(
            "events",
            vec![
                measure(PACED_ALONE, 2_500.0, 8.0),
                measure(PACED_WATCHED, 2_450.0, 9.0),
                measure(PACED_DELIVERED, 204_000.0, 0.0),
                measure(ALONE, 6_000.0, 8.0),
                measure(WATCHED, 2_000.0, 9.0),
                measure(DELIVERED, 250_000.0, 0.0),
            ],
        );
        let rest = Rest {
            lrps: 200_000,
            instances: 250_000,
            convergence_s: 0.3,
            memory_peak_bytes: 2_500_000_000,
            memory_peak_after_restart_bytes: 2_000_000_000,
            start_after_stop_s: 2.0,
            start_after_kill_s: 3.0,
            stop_s: 0.1,
        };
        let full = vec![
            claims(),
            reads(),
            phase("poll", vec![measure(POLLS, 100.0, 1.0)]),
            phase("mixed", vec![measure(CYCLES, 12_000.0, 5.0)]),
        ];
        Measured { floors, small: vec![claims(), reads()], middle: vec![events], full, rest }
    }

    #[test]
    fn every_goal_is_judged_by_what_was_measured() {
        let lines = lines(&everything());
        assert_eq!(lines.len(), 13);
        for line in &lines {
            assert!(line.reached, "{}: {}", line.what, line.measured);
        }
    }

    #[test]
    fn a_worse_number_does_not_reach_its_goal() {
        let not_reached = |spoil: &dyn Fn(&mut Measured)| {
            let mut measured = everything();
            spoil(&mut measured);
            lines(&measured).into_iter().filter(|line| !line.reached).map(|line| line.what).collect::<Vec<_>>()
        };
        assert_eq!(not_reached(&|all| all.rest.convergence_s = 0.6), ["convergence pass, nothing to do"]);
        assert_eq!(
            not_reached(&|all| all.rest.start_after_kill_s = 5.1),
            ["start to serving, after a stop / after a kill"]
        );
        assert_eq!(
            not_reached(&|all| all.rest.memory_peak_bytes = 3_100_000_000),
            ["peak memory, everything above and below"]
        );
        assert_eq!(
            not_reached(&|all| all.small[0].measures[0].per_second = 14_000.0),
            ["claim/start, 64 clients, small size"]
        );
        assert_eq!(
            not_reached(&|all| all.small[0].measures[1].latency.p50_ms = 0.6),
            ["claim/start, 1 client, small size"]
        );
        assert_eq!(not_reached(&|all| all.full[1].measures[0].first_byte_ms = Some(60.0)), ["list all actual LRPs"]);
        assert_eq!(
            not_reached(&|all| all.middle[0].measures[1].per_second = 1_800.0),
            ["events to 50 subscribers, middle size"]
        );
        assert_eq!(
            not_reached(&|all| all.full[2].measures[0].server_cpu_s = None),
            ["polling of 1,000 cells and their route emitters"]
        );
    }

    #[test]
    fn a_failed_phase_has_no_numbers_and_is_named() {
        let mut measured = everything();
        measured.full[3].measures[0].failures = 1;
        let line = lines(&measured).into_iter().find(|line| line.what.starts_with("mixed")).unwrap();
        assert_eq!((line.measured.as_str(), line.reached), ("the phase failed; see below", false));
        let machine = Machine { cores: 2, processor: "x".into(), memory_bytes: 1, kernel: "6".into() };
        let text = markdown(&machine, &measured);
        assert!(text.contains("Phases with failures, whose numbers mean nothing: mixed at 100 LRPs."), "{text}");
    }
}
