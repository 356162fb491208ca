//! The section about migrations: a pure function of what was measured, so that no number is typed by hand.
//!
//! Every goal is judged at every size. What a plain start or an idle server costs stands beside what a migration costs, and
//! beside both stands how much of the machine others took meanwhile.

use std::fmt::Write;

use store::Version;

use super::{Measured, SECTION, Sized};
use crate::goals::{self, Goal};
use crate::load::steady::{CLIENTS, READ_EVERY, WRITE_EVERY};
use crate::process::Machine;
use crate::runs::Run;
use crate::sizes::RECORD_BYTES;
use crate::table::{Table, bytes, cores, grouped, seconds};
use crate::{clients, floors, quiet};

const COPIED_PER_S_MIN: f64 = 20_000.0;
/// A second copy of everything would double it.
const MEMORY_RATIO_MAX: f64 = 1.5;

pub(super) fn section(machine: &Machine, measured: &Measured) -> String {
    let mut text = format!("{SECTION}\n\n{}\n", head(machine));
    let judged = |sized: &Sized| {
        judge(sized, measured.disk_mb_per_s).into_iter().map(|goal| (Some(sized.size), goal)).collect::<Vec<_>>()
    };
    let goals = goals::table(measured.sizes.iter().flat_map(judged));
    let noticed =
        clients::table("before, former release", measured.sizes.iter().map(|sized| (sized.size, &sized.clients)));
    let disk_floor = floors::disk_table(measured.disk_mb_per_s);
    let parts = [
        ("Goals", goals.to_string()),
        ("How long it takes", durations(measured).to_string()),
        ("What clients notice of a start", starts(measured).to_string()),
        ("What clients notice of an online migration", noticed.to_string()),
        ("Memory and disk", costs(measured).to_string()),
        ("Floors of this machine, measured in the same run", format!("{}\n{disk_floor}", measured.floors.table())),
        ("Notes about migrations", notes(measured)),
    ];
    for (title, part) in parts {
        // Writing into a string cannot fail.
        let _ = write!(text, "### {title}\n\n{part}\n");
    }
    text
}

fn head(machine: &Machine) -> String {
    let [.., from, to] = Version::ALL else { return String::new() };
    format!(
        "Written by `cargo xtask bench migrate`; do not edit by hand. Two release binaries, the former release and this one, on\n\
         the embedded store, with mutual TLS, on one machine: {} cores ({}), {} of memory, Linux {}.\n\
         From data version {} ({}) to {} ({}).\n\n\
         A record is what the status counts. Of 100 records, 40 are DesiredLRPs (4.3 KB, most of it run info; two records on\n\
         disk), 50 running instances (0.75 KB) and 10 running tasks (2.8 KB): {} on average.\n",
        machine.cores,
        machine.processor,
        bytes(machine.memory_bytes as f64),
        machine.kernel,
        from.number(),
        from.name(),
        to.number(),
        to.name(),
        format_args!("{:.1} KB", RECORD_BYTES as f64 / 1e3),
    )
}

fn judge(sized: &Sized, disk_mb_per_s: f64) -> Vec<Goal> {
    let Sized { offline, online, plain, clients, .. } = sized;
    let rate = online.course.records_per_s("sweeping");
    let memory = online.memory_peak_bytes.max(offline.memory_peak_bytes) as f64;
    let growth = memory / (plain.memory_peak_bytes as f64).max(1.0);
    let mut goals = vec![
        Goal::offline(
            "offline, from the start of the process to migrated",
            sized.size,
            offline.course.total_s(),
            offline.written_bytes,
            disk_mb_per_s,
        ),
        Goal {
            what: "online, copied while clients work",
            reach: format!("{}/s", grouped(COPIED_PER_S_MIN)),
            measured: format!("{}/s", grouped(rate)),
            met: Some(rate >= COPIED_PER_S_MIN),
        },
    ];
    goals.extend(clients.goals());
    goals.push(Goal {
        what: "peak memory, the most of offline and online",
        reach: format!("{MEMORY_RATIO_MAX:.1}x a plain start"),
        measured: format!("{growth:.2}x: {}", bytes(memory)),
        met: Some(growth < MEMORY_RATIO_MAX),
    });
    goals
}

/// How often the disk could have written the same bytes meanwhile.
fn disk_floors(run: &Run, disk_mb_per_s: f64) -> f64 {
    floors::disk_ratio(run.course.total_s(), run.written_bytes, disk_mb_per_s)
}

fn runs(sized: &Sized) -> [(&'static str, &Run); 4] {
    let Sized { offline, read_only, online, plain, .. } = sized;
    [("offline", offline), ("read-only", read_only), ("online, with clients", online), ("plain start", plain)]
}

fn durations(measured: &Measured) -> Table {
    let mut table = Table::new([
        "records",
        "mode",
        "start to migrated",
        "load",
        "copy",
        "verify",
        "clean up",
        "copied /s",
        "taken by others",
    ]);
    for sized in &measured.sizes {
        for (mode, Run { course, taken_by_others, .. }) in runs(sized).into_iter().take(3) {
            let verify_s = course.lasted_s("verifying") + course.lasted_s("finalizing");
            table.row([
                sized.size.to_string(),
                mode.into(),
                seconds(course.total_s()),
                seconds(course.load_s()),
                seconds(course.lasted_s("sweeping")),
                seconds(verify_s),
                seconds(course.lasted_s("cleaning")),
                grouped(course.records_per_s("sweeping")),
                cores(*taken_by_others),
            ]);
        }
        let (mut row, others) = (vec![String::new(); 8], cores(sized.rollback.taken_by_others));
        (row[0], row[1], row[2]) = (sized.size.to_string(), "rollback, online".into(), seconds(sized.rollback.seconds));
        row.push(others);
        table.row(row);
    }
    table
}

fn starts(measured: &Measured) -> Table {
    let mut table =
        Table::new(["records", "mode", "first read", "first write", "read, beyond a plain start", "write, beyond it"]);
    for sized in &measured.sizes {
        for (mode, run) in runs(sized) {
            let beyond = |took_s: f64, plain_s: f64| format!("{:+.2} s", took_s - plain_s);
            let (first, plain) = (run.first, sized.plain.first);
            table.row([
                sized.size.to_string(),
                mode.into(),
                seconds(first.read_s),
                seconds(first.write_s),
                beyond(first.read_s, plain.read_s),
                beyond(first.write_s, plain.write_s),
            ]);
        }
    }
    table
}

fn costs(measured: &Measured) -> Table {
    let mut table = Table::new([
        "records",
        "mode",
        "peak memory",
        "of a plain start",
        "written",
        "of the store before",
        "ratio to the disk floor",
    ]);
    for sized in &measured.sizes {
        for (mode, run) in runs(sized) {
            let plain = sized.plain.memory_peak_bytes as f64;
            table.row([
                sized.size.to_string(),
                mode.into(),
                bytes(run.memory_peak_bytes as f64),
                format!("{:.2}x", run.memory_peak_bytes as f64 / plain.max(1.0)),
                bytes(run.written_bytes as f64),
                format!("{:.2}x", run.written_bytes as f64 / (sized.store_bytes as f64).max(1.0)),
                if run.course.records > 0 {
                    format!("{:.1}x", disk_floors(run, measured.disk_mb_per_s))
                } else {
                    String::new()
                },
            ]);
        }
    }
    table
}

fn notes(measured: &Measured) -> String {
    let mut text = format!(
        "- Times count from the start of the process and include loading the records, which every start has to do. A store\n  \
         is in the page cache when it is opened.\n\
         - While a migration runs online, {CLIENTS} clients crash, claim and start instances, each with a call every {} ms, and\n  \
         one reads the actual LRPs of a cell every {} ms. A call that is due while the one before it waits counts from then.\n\
         - Every figure is from one run. A migration that is over soon sees few calls, and their p99 is little more than the longest.\n\
         - The plain start is made once, on the store as the offline migration left it. It varies as much as the others do: a\n  \
         difference to it that is small, or below zero, says nothing.\n\
         - Every list is read and counted after each migration, after a restart, and by the former release after the rollback.\n\
         - The Go BBS, for comparison, given and not measured here: a migration that rewrites DesiredLRPs answers 503 for 9 s\n  \
         at 5,000 records and for 91 s at 50,000 on MariaDB (1.8 ms per record), and takes 0.23 to 0.42 ms per record on\n  \
         PostgreSQL.\n",
        WRITE_EVERY.as_millis(),
        READ_EVERY.as_millis(),
    );
    if let Some(largest) = measured.sizes.last() {
        let per_record_ms = largest.offline.course.total_s() * 1e3 / largest.size.0 as f64;
        let _ = writeln!(
            text,
            "- Here a record takes {per_record_ms:.3} ms offline at {} records, loading included.",
            largest.size
        );
    }
    let all = measured.sizes.iter().flat_map(runs).map(|(_, run)| run.taken_by_others);
    let most = all.fold(0.0, f64::max);
    text.push_str(&quiet::note(most));
    for sized in measured.sizes.iter().filter(|sized| !sized.counts()) {
        let (size, why) = (sized.size, sized.clients.first_failure());
        let _ = writeln!(text, "- **At {size} records calls failed, so their latencies mean nothing: {why}.**");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;
    use crate::course::{Course, First, Mark};
    use crate::floors::Floors;
    use crate::quiet::Spent;
    use crate::sizes::Size;

    fn run(total_s: f64) -> Run {
        let marks = [("loading", 0.1), ("sweeping", 2.0), ("verifying", 10.0), ("cleaning", 11.0), ("none", total_s)];
        let marks = marks.map(|(state, at_s)| Mark { state: state.into(), at_s }).to_vec();
        Run {
            course: Course { marks, records: 500_000 },
            first: First { read_s: 2.0, write_s: 2.1 },
            memory_peak_bytes: 2_500_000_000,
            written_bytes: 2_000_000_000,
            taken_by_others: 0.0,
        }
    }

    fn good() -> Sized {
        Sized {
            size: Size(500_000),
            store_bytes: 1_500_000_000,
            fill_s: 60.0,
            offline: run(14.0),
            read_only: run(14.0),
            online: run(20.0),
            plain: Run { memory_peak_bytes: 2_000_000_000, ..run(3.0) },
            clients: Clients::example(),
            rollback: Spent { seconds: 20.0, written_bytes: 0, taken_by_others: 0.0 },
        }
    }

    fn everything(sized: Sized) -> Measured {
        Measured { floors: Floors::example(), disk_mb_per_s: 1_000.0, sizes: vec![sized] }
    }

    fn not_met(spoil: impl Fn(&mut Sized)) -> Vec<&'static str> {
        let mut sized = good();
        spoil(&mut sized);
        goals::not_met(judge(&sized, 1_000.0))
    }

    #[test]
    fn each_goal_is_judged_by_its_own_figure() {
        assert_eq!(not_met(|_| {}), [""; 0]);
        let offline = "offline, from the start of the process to migrated";
        assert_eq!(not_met(|sized| sized.offline = run(15.5)), [offline]);
        let small = |sized: &mut Sized| (sized.size, sized.offline) = (Size(10_000), run(15.5));
        assert_eq!(not_met(small), [""; 0], "the goal is for half a million");
        let more = |sized: &mut Sized| sized.offline = Run { written_bytes: 6_000_000_000, ..run(15.5) };
        assert_eq!(not_met(more), [""; 0], "2.6 times the disk floor is near enough");
        let slow = |sized: &mut Sized| sized.online.course.records = 100_000;
        assert_eq!(not_met(slow), ["online, copied while clients work"]);
        let refused = |sized: &mut Sized| (sized.clients.after.failures, sized.clients.after.unavailable) = (1, 1);
        assert_eq!(not_met(refused), ["online, 503 after the first success"]);
        let stalled = |sized: &mut Sized| sized.clients.during.reads.max_ms = 250.0;
        assert_eq!(not_met(stalled), ["online, longest stall of a request"]);
        let slower = |sized: &mut Sized| sized.clients.during.writes.p99_ms = 4.0;
        assert_eq!(not_met(slower), ["online, p99 of writes"]);
        let fat = |sized: &mut Sized| sized.online.memory_peak_bytes = 3_000_000_000;
        assert_eq!(not_met(fat), ["peak memory, the most of offline and online"]);
    }

    #[test]
    fn the_section_says_what_spoilt_its_figures() {
        let machine = Machine { cores: 2, processor: "x".into(), memory_bytes: 1, kernel: "6".into() };
        let quiet = section(&machine, &everything(good()));
        assert!(quiet.starts_with("## Migrations\n") && !quiet.contains("\n## "), "{quiet}");
        assert!(!quiet.contains("Others used") && !quiet.contains("**no**"), "{quiet}");
        let mut spoilt = good();
        spoilt.online.taken_by_others = 1.5;
        (spoilt.clients.during.failures, spoilt.clients.during.first_failure) = (2, Some("status 503".into()));
        let text = section(&machine, &everything(spoilt));
        assert!(text.contains("Others used this machine meanwhile, up to 1.5 cores"), "{text}");
        assert!(
            text.contains("At 500,000 records calls failed, so their latencies mean nothing: status 503."),
            "{text}"
        );
    }
}
