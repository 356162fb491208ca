//! The section about etcd: a pure function of what was measured, so that no number is typed by hand.
//!
//! Goals are judged strictly: rates and latencies by the median of the rounds, failovers by the worst round. The spread stands
//! beside every figure that has more than one round.

use std::fmt::Write;

use super::writes::{BATCHES, IN_FLIGHT, Round as WriteRound};
use super::{Direct, Engine, Failover, Full, LEASE_S, Measured, Memory, SECTION, Shape, Spent, Start, Trial, Writes};
use super::{failover, probe};
use crate::goals::{self, Goal};
use crate::latency::Summary;
use crate::median::median;
use crate::process::Machine;
use crate::quiet;
use crate::table::{Table, bytes, grouped, milliseconds, seconds};

/// What part of the floor writes should reach.
const WRITES_SHARE_MIN: f64 = 0.7;
/// Reads come from memory, so etcd should not show; so much is noise.
const READS_RATIO_MAX: f64 = 1.1;
const PLANNED_S_MAX: f64 = 1.0;
/// What may come on top of the lease of a master that was killed.
const UNPLANNED_EXTRA_S_MAX: f64 = 2.0;
const PERCENT: f64 = 100.0;

pub(super) fn section(machine: &Machine, measured: &Measured) -> String {
    let mut text = format!("{SECTION}\n\n{}\n", head(machine));
    let goals = judge(measured).into_iter().map(|goal| (None, goal));
    let full = measured.full.as_ref();
    let parts = [
        ("Goals on etcd", goals::table(goals).to_string()),
        ("Claims and starts through the server", trials(measured).to_string()),
        ("The same etcd, written to directly (floor)", direct(measured).to_string()),
        ("Reads on etcd and on the embedded store", full.map(|full| reads(full).to_string()).unwrap_or_default()),
        ("Starts on the full fleet", full.map(|full| starts(full).to_string()).unwrap_or_default()),
        ("Masters that go away", failovers(measured).to_string()),
        ("Memory of the nodes", measured.memory.as_ref().map(|memory| nodes(memory).to_string()).unwrap_or_default()),
        ("Floors of this machine, measured in the same run as etcd", measured.floors.table()),
        ("Notes about etcd", notes(measured)),
    ];
    for (title, part) in parts {
        // Writing into a string cannot fail.
        let _ = write!(text, "### {title}\n\n{part}\n");
    }
    text
}

fn head(machine: &Machine) -> String {
    format!(
        "Written by `cargo xtask bench etcd`; do not edit by hand. The release binary on etcd, with mutual TLS between all, sealed\n\
         records, data on a real disk, on one machine: {} cores ({}), {} of memory, Linux {}.\n\n\
         Clients, server and all members of etcd share these cores. A floor has them for one client and etcd alone, so a part of\n\
         what is missing to it is processor that clients and server used, and not what the server does badly.\n",
        machine.cores,
        machine.processor,
        bytes(machine.memory_bytes as f64),
        machine.kernel,
    )
}

fn judge(measured: &Measured) -> Vec<Goal> {
    let mut goals: Vec<Goal> = measured.writes.iter().flat_map(judge_writes).collect();
    goals.extend(measured.full.iter().flat_map(judge_reads));
    goals.extend(measured.failovers.iter().map(judge_failover));
    goals
}

fn judge_writes(writes: &Writes) -> [Goal; 2] {
    let of_server = |round: &WriteRound| round.reached(&round.floor_of_server);
    let of_largest = |round: &WriteRound| round.direct(BATCHES[2], 1).map_or(0.0, |floor| round.reached(floor));
    let names = match writes.members {
        1 => [
            "one member, records/s of 64 clients to the floor with the server's own batches",
            "one member, records/s of 64 clients to the floor with batches of 64",
        ],
        _ => [
            "three members, records/s of 64 clients to the floor with the server's own batches",
            "three members, records/s of 64 clients to the floor with batches of 64",
        ],
    };
    let goal = |what, share: f64, spread: String| Goal {
        what,
        reach: format!("{} or more", percent(WRITES_SHARE_MIN)),
        measured: format!("{} ({spread})", percent(share)),
        met: Some(share >= WRITES_SHARE_MIN),
    };
    [
        goal(names[0], writes.median(of_server), range(&writes.figures(of_server), percent)),
        goal(names[1], writes.median(of_largest), range(&writes.figures(of_largest), percent)),
    ]
}

fn judge_reads(full: &Full) -> [Goal; 2] {
    let goal = |what, figure: fn(&Start) -> f64| {
        let ratio = full.ratio(figure);
        Goal {
            what,
            reach: format!("under {READS_RATIO_MAX:.1}x"),
            measured: format!("{ratio:.2}x"),
            met: Some(ratio < READS_RATIO_MAX),
        }
    };
    [
        goal("p50 of the actual LRPs of a cell, etcd to embedded", |start| start.one_cell.p50_ms),
        goal("p50 of one desired LRP, etcd to embedded", |start| start.one_lrp.p50_ms),
    ]
}

fn judge_failover(failover: &Failover) -> Goal {
    let worst = failover.rounds.iter().map(|round| round.first_write_s).fold(0.0, f64::max);
    let (what, limit_s) = match (failover.planned, failover.lease_s) {
        (true, _) => ("master stopped, to the next write, worst round", PLANNED_S_MAX),
        (false, LEASE_S) => ("master killed, to the next write, worst round", LEASE_S as f64 + UNPLANNED_EXTRA_S_MAX),
        (false, lease_s) => {
            ("master killed with a short lease, to the next write, worst round", lease_s as f64 + UNPLANNED_EXTRA_S_MAX)
        }
    };
    Goal {
        what,
        reach: format!("under {}", seconds(limit_s)),
        measured: seconds(worst),
        met: Some(!failover.rounds.is_empty() && worst < limit_s),
    }
}

fn trials(measured: &Measured) -> Table {
    let mut table = Table::new([
        "members",
        "clients",
        "writes /s",
        "records /s",
        "least to most",
        "p50",
        "p99",
        "records per transaction",
        "cores: etcd",
        "server",
        "clients",
    ]);
    for writes in &measured.writes {
        let Some(first) = writes.rounds.first() else { continue };
        for clients in first.trials.iter().map(|trial| trial.clients) {
            let figures = |figure: fn(&Trial) -> f64| writes.figures(|round| round.trial(clients).map_or(0.0, figure));
            let middle = |figure: fn(&Trial) -> f64| median(figures(figure));
            table.row([
                writes.members.to_string(),
                clients.to_string(),
                grouped(middle(|trial| trial.calls.per_second)),
                grouped(middle(Trial::records_per_s)),
                range(&figures(Trial::records_per_s), grouped),
                milliseconds(middle(|trial| trial.calls.latency.p50_ms)),
                milliseconds(middle(|trial| trial.calls.latency.p99_ms)),
                format!("{:.1}", middle(Trial::records_per_transaction)),
                format!("{:.2}", middle(|trial| trial.spent.etcd)),
                format!("{:.2}", middle(|trial| trial.spent.server)),
                format!("{:.2}", middle(|trial| trial.spent.client)),
            ]);
        }
    }
    table
}

fn direct(measured: &Measured) -> Table {
    let mut table = Table::new([
        "members",
        "records per transaction",
        "in flight",
        "records /s",
        "least to most",
        "p50 of a transaction",
        "p99",
        "cores: etcd",
        "client",
    ]);
    for writes in &measured.writes {
        let mut row = |batch: String, in_flight: u64, of: &dyn Fn(&WriteRound) -> Option<Direct>| {
            let figures = |figure: fn(&Direct) -> f64| -> Vec<f64> {
                writes.rounds.iter().filter_map(of).map(|direct| figure(&direct)).collect()
            };
            table.row([
                writes.members.to_string(),
                batch,
                in_flight.to_string(),
                grouped(median(figures(|direct| direct.records_per_s))),
                range(&figures(|direct| direct.records_per_s), grouped),
                milliseconds(median(figures(|direct| direct.latency.p50_ms))),
                milliseconds(median(figures(|direct| direct.latency.p99_ms))),
                format!("{:.2}", median(figures(|direct| direct.spent.etcd))),
                format!("{:.2}", median(figures(|direct| direct.spent.client))),
            ]);
        };
        for in_flight in IN_FLIGHT {
            for batch in BATCHES {
                row(batch.to_string(), in_flight, &|round| round.direct(batch, in_flight).copied());
            }
        }
        let batches = writes.figures(|round| round.floor_of_server.batch as f64);
        row(format!("{}, as the server made", range(&batches, grouped)), 1, &|round| Some(round.floor_of_server));
    }
    table
}

fn reads(full: &Full) -> Table {
    type Read = (&'static str, fn(&Start) -> Summary);
    let kinds: [Read; 2] =
        [("actual LRPs of one cell", |start| start.one_cell), ("one desired LRP", |start| start.one_lrp)];
    let mut table = Table::new(["read", "", "etcd", "least to most", "embedded", "least to most", "etcd to embedded"]);
    for (what, of) in kinds {
        for (name, pick) in
            [("p50", (|summary| summary.p50_ms) as fn(Summary) -> f64), ("p99", |summary| summary.p99_ms)]
        {
            let figure = |start: &Start| pick(of(start));
            let mut row = vec![what.to_owned(), name.to_owned()];
            for engine in [Engine::Etcd, Engine::Embedded] {
                row.push(milliseconds(full.median(engine, figure)));
                row.push(range(&full.figures(engine, figure), milliseconds));
            }
            row.push(format!("{:.2}x", full.ratio(figure)));
            table.row(row);
        }
    }
    table
}

fn starts(full: &Full) -> Table {
    let mut table = Table::new(["what", "median", "least to most", "records /s", "MB/s", "memory after it"]);
    let rates = |took_s: f64| {
        let took_s = took_s.max(1e-9);
        [grouped(full.records as f64 / took_s), grouped(full.record_bytes as f64 / 1e6 / took_s)]
    };
    for engine in [Engine::Etcd, Engine::Embedded] {
        let took_s = full.median(engine, |start| start.start_s);
        let mut row = vec![format!("start on {}, to the first answer", engine.name()), seconds(took_s)];
        row.push(range(&full.figures(engine, |start| start.start_s), seconds));
        row.extend(rates(took_s));
        row.push(bytes(full.median(engine, |start| start.memory_bytes as f64)));
        table.row(row);
    }
    let mut row =
        vec!["reading all records of etcd, one thread (floor)".to_owned(), seconds(full.read_s), String::new()];
    row.extend(rates(full.read_s));
    table.row(row);
    table
}

fn failovers(measured: &Measured) -> Table {
    let mut table = Table::new(["how", "lease", "rounds", "what", "least", "median", "most"]);
    for failover in &measured.failovers {
        let how = if failover.planned { "stopped (SIGTERM)" } else { "killed (SIGKILL)" };
        let of = |figure: fn(&super::Round) -> f64| failover.rounds.iter().map(figure).collect::<Vec<f64>>();
        let figures = [
            ("signal to the first write at another node", of(|round| round.first_write_s)),
            ("longest gap of a client", of(|round| round.longest_gap_s)),
        ];
        for (what, figures) in figures {
            let (least, most) = bounds(&figures);
            let head = [how.to_owned(), format!("{} s", failover.lease_s), figures.len().to_string(), what.to_owned()];
            let figures = [least, median(figures), most].map(seconds);
            table.row(head.into_iter().chain(figures));
        }
    }
    table.row(["Go BBS, stopped (given)", "", "", "time without a master", "1.50 s", "", "2.20 s"]);
    table.row(["Go BBS, killed (given)", "", "", "time without a master", "", "15.1 s", ""]);
    table
}

fn nodes(memory: &Memory) -> Table {
    let mut table = Table::new(["node", "resident memory", "of the master's"]);
    table.row(["master".to_owned(), bytes(memory.master_bytes as f64)]);
    for held in &memory.standbys_bytes {
        let share = *held as f64 / (memory.master_bytes as f64).max(1.0);
        table.row(["standby, warm".to_owned(), bytes(*held as f64), format!("{share:.2}x")]);
    }
    table
}

fn notes(measured: &Measured) -> String {
    let mut text = String::new();
    if let Some(writes) = measured.writes.first() {
        let _ = write!(
            text,
            "- Writes: clients claim and start the instances of up to {} DesiredLRPs, each number of clients on a server and a prefix of its\n  \
             own, {} rounds. Figures are medians of the rounds. Records are those of instances and are counted in etcd, by\n  \
             the versions of their keys; transactions by the growth of etcd's revision.\n",
            grouped(writes.lrps as f64),
            writes.rounds.len(),
        );
    }
    if let Some(Shape { key_bytes, value_bytes }) =
        measured.writes.first().and_then(|writes| Some(writes.rounds.first()?.shape))
    {
        let _ = write!(
            text,
            "- The floor puts records of {key_bytes} + {value_bytes} bytes (key + value), which is the average of the instances that the server\n  \
             wrote in the same round, with a client of its own and without what every transaction of the server carries besides: two\n  \
             comparisons, the revision, and how often the key has sealed. Server and floor talk to the leader; through another member every\n  \
             transaction takes one hop more.\n",
        );
    }
    let _ = write!(
        text,
        "- The floor was not measured beside a load that uses as much processor as clients and server do, so the shares above are what\n  \
         one machine gives and not what machines of their own would.\n",
    );
    if let Some(full) = &measured.full {
        let _ = write!(
            text,
            "- The full fleet is {} DesiredLRPs and {} instances: {} records, {} in all. Filling took\n  \
             {} on etcd and {} on the embedded store. The embedded store reads the same records, so its MB/s are of the same bytes. Starts are from the\n  \
             start of the process, election included, with files in the cache of the system; all lists are counted after each.\n",
            grouped(full.lrps as f64),
            grouped(full.instances as f64),
            grouped(full.records as f64),
            bytes(full.record_bytes as f64),
            seconds(full.fill_etcd_s),
            seconds(full.fill_embedded_s),
        );
    }
    let _ = write!(
        text,
        "- Masters: three nodes with the full fleet, both standbys warm. {} clients renew a domain every {} ms at the node that took it\n  \
         last; after a failure they try the next address at once, and rest {} ms when all have failed. A call is given up after\n  \
         {}. A gap is the time between two successes of one client, its pace included. After the last round all lists are counted.\n\
         - The Go BBS, for comparison, given and not measured here; its figures are from another machine and another store.\n",
        failover::CLIENTS,
        probe::PACE.as_millis(),
        probe::PAUSE.as_millis(),
        seconds(probe::ANSWER_MAX.as_secs_f64()),
    );
    text.push_str(&quiet::note(taken_by_others(measured)));
    text
}

fn taken_by_others(measured: &Measured) -> f64 {
    let rounds = || measured.writes.iter().flat_map(|writes| &writes.rounds);
    let trials = rounds().flat_map(|round| &round.trials).map(|trial| trial.spent);
    let floors = rounds().flat_map(|round| &round.floor).map(|direct| direct.spent);
    let of = |spent: Spent| spent.taken_by_others;
    trials.map(of).chain(floors.map(of)).fold(0.0, f64::max)
}

fn bounds(figures: &[f64]) -> (f64, f64) {
    let least = figures.iter().copied().reduce(f64::min).unwrap_or(0.0);
    (least, figures.iter().copied().fold(0.0, f64::max))
}

/// From the least to the most.
fn range(figures: &[f64], shown: impl Fn(f64) -> String) -> String {
    let (least, most) = bounds(figures);
    let (least, most) = (shown(least), shown(most));
    if least == most { least } else { format!("{least} to {most}") }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * PERCENT)
}

#[cfg(test)]
mod tests;
