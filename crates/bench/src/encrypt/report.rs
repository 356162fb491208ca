//! The section about encryption: a pure function of what was measured, so that no number is typed by hand.
//!
//! Writes are judged by medians, with the spread of each kind and of the pairs beside them, because a cost below the spread is
//! no cost that was seen. Rotations are judged at every size, and beside them stands how much of the machine others took meanwhile.

use std::fmt::Write;

use super::{Cipher, Done, Errand, FirstTime, Measured, Rotated, SECTION, Trial, Writes};
use crate::goals::{self, Goal};
use crate::load::steady::{CLIENTS, READ_EVERY, WRITE_EVERY};
use crate::process::Machine;
use crate::runs::Run;
use crate::sizes::{RECORD_BYTES, Size};
use crate::table::{Table, bytes, cores, grouped, milliseconds, seconds};
use crate::{clients, floors, quiet};

/// What sealing may take of the throughput of writes.
const WRITE_COST_MAX: f64 = 0.05;
const PERCENT: f64 = 100.0;

pub(super) fn section(machine: &Machine, measured: &Measured) -> String {
    let mut text = format!("{SECTION}\n\n{}\n", head(machine));
    let noticed = measured.sizes.iter().map(|rotated| (rotated.size, &rotated.clients));
    let floors = format!("{}\n{}", measured.floors.table(), floors::disk_table(measured.disk_mb_per_s));
    let parts = [
        ("Goals of encryption", goals::table(judge(measured)).to_string()),
        ("What sealing costs a write", format!("{}\n{}", trials(&measured.writes), medians(&measured.writes))),
        ("What one record takes, on one thread", single_records(measured).to_string()),
        ("How long it takes to get under another key", durations(measured).to_string()),
        ("What clients notice of an online rotation", clients::table("before, one key", noticed).to_string()),
        ("Memory and disk of rotations", costs(measured).to_string()),
        ("Floors of this machine, measured in the same run as encryption", floors),
        ("Notes about encryption", notes(measured)),
    ];
    for (title, part) in parts {
        // Writing into a string cannot fail.
        let _ = write!(text, "### {title}\n\n{part}\n");
    }
    text
}

fn head(machine: &Machine) -> String {
    format!(
        "Written by `cargo xtask bench encrypt`; do not edit by hand. The release binary on the embedded store, with mutual TLS, on\n\
         one machine: {} cores ({}), {} of memory, Linux {}.\n\n\
         Sizes are counted in DesiredLRPs (40 of 100, 4.3 KB), running instances (50, 0.75 KB) and running tasks (10, 2.8 KB):\n\
         {:.1} KB on average. Sealed records are values of the store, of which a DesiredLRP has more than one.\n",
        machine.cores,
        machine.processor,
        bytes(machine.memory_bytes as f64),
        machine.kernel,
        RECORD_BYTES as f64 / 1e3,
    )
}

fn judge(measured: &Measured) -> Vec<(Option<Size>, Goal)> {
    let mut goals = vec![(None, judge_writes(&measured.writes))];
    for rotated in &measured.sizes {
        goals.extend(
            judge_rotations(rotated, measured.disk_mb_per_s).into_iter().map(|goal| (Some(rotated.size), goal)),
        );
    }
    if let Some(first) = &measured.first_time {
        let what = "first encryption, offline, the rotation alone";
        let (took_s, written) = (first.rotation.done.seconds, first.rotation.run.written_bytes);
        goals.push((Some(first.size), Goal::offline(what, first.size, took_s, written, measured.disk_mb_per_s)));
    }
    goals
}

fn judge_writes(writes: &Writes) -> Goal {
    let cost = writes.cost(crowd_per_s);
    let (least, most) = writes.costs_of_pairs(crowd_per_s);
    Goal {
        what: "claim/start, what sealing takes of the throughput",
        reach: format!("under {}", percent(WRITE_COST_MAX)),
        measured: format!(
            "{} (pairs: {} to {}); medians {}/s sealed, {}/s plain",
            percent(cost),
            percent(least),
            percent(most),
            grouped(writes.median(true, crowd_per_s)),
            grouped(writes.median(false, crowd_per_s)),
        ),
        met: Some(cost < WRITE_COST_MAX),
    }
}

fn judge_rotations(rotated: &Rotated, disk_mb_per_s: f64) -> Vec<Goal> {
    let Rotated { size, offline: by_server, errand, clients, .. } = rotated;
    let judge = |what, took_s, written| Goal::offline(what, *size, took_s, written, disk_mb_per_s);
    let written = by_server.run.written_bytes;
    let mut goals = vec![
        judge("offline, the rotation alone", by_server.done.seconds, written),
        judge("offline, from the start of the process to the first write", by_server.run.first.write_s, written),
    ];
    if let Some(errand) = errand {
        goals.push(judge("the errand, from start to end", errand.spent.seconds, errand.spent.written_bytes));
    }
    goals.extend(clients.goals());
    goals
}

fn crowd_per_s(trial: &Trial) -> f64 {
    trial.crowd.per_second
}

fn kind(sealed: bool) -> &'static str {
    if sealed { "sealed" } else { "plain" }
}

fn trials(writes: &Writes) -> Table {
    let mut table = Table::new(["run", "store", "claims and starts /s", "p50", "p99", "longest", "taken by others"]);
    for (number, trial) in (1..).zip(&writes.trials) {
        let latency = trial.crowd.latency;
        table.row([
            number.to_string(),
            kind(trial.sealed).into(),
            grouped(trial.crowd.per_second),
            milliseconds(latency.p50_ms),
            milliseconds(latency.p99_ms),
            milliseconds(latency.max_ms),
            cores(trial.taken_by_others),
        ]);
    }
    table
}

/// What is compared, and how to write it down.
type Figure = (&'static str, fn(&Trial) -> f64, fn(f64) -> String);

fn medians(writes: &Writes) -> Table {
    let figures: [Figure; 8] = [
        ("claims and starts /s", crowd_per_s, grouped),
        ("p50 of them", |trial| trial.crowd.latency.p50_ms, milliseconds),
        ("p99 of them", |trial| trial.crowd.latency.p99_ms, milliseconds),
        ("processor of the server per write", |trial| trial.crowd.cpu_ms_per_call().unwrap_or(0.0), cpu),
        ("p50, one client", |trial| trial.alone.latency.p50_ms, milliseconds),
        ("p99, one client", |trial| trial.alone.latency.p99_ms, milliseconds),
        ("DesiredLRPs desired /s", |trial| trial.desire.per_second, grouped),
        ("p99 of them", |trial| trial.desire.latency.p99_ms, milliseconds),
    ];
    let mut table = Table::new(["median of the runs", "plain", "spread", "sealed", "spread", "sealed to plain"]);
    for (what, figure, shown) in figures {
        let (plain, sealed) = (writes.median(false, figure), writes.median(true, figure));
        table.row([
            what.to_owned(),
            shown(plain),
            percent(writes.spread(false, figure)),
            shown(sealed),
            percent(writes.spread(true, figure)),
            format!("{:.2}x", sealed / plain.max(1e-9)),
        ]);
    }
    table
}

fn single_records(measured: &Measured) -> Table {
    let mut table = Table::new(["", "bytes", "seal", "", "open", ""]);
    let rows = [
        ("AES-256-GCM alone (floor)", &measured.cipher),
        ("as the server seals and opens, random nonce and envelope included", &measured.sealing),
    ];
    for (what, ciphers) in rows {
        for cipher in ciphers {
            let Cipher { record_bytes, seal_ns, open_ns } = cipher;
            table.row([
                what.to_owned(),
                grouped(*record_bytes as f64),
                format!("{} ns", grouped(*seal_ns)),
                format!("{:.2} GB/s", cipher.seal_gb_per_s()),
                format!("{} ns", grouped(*open_ns)),
                format!("{:.2} GB/s", cipher.open_gb_per_s()),
            ]);
        }
    }
    table
}

/// One way to another key, at one size.
struct Way<'a> {
    size: Size,
    name: &'static str,
    /// `None` when there was nothing to do.
    done: Option<Done>,
    run: &'a Run,
    store_bytes: u64,
    /// What the same server needs when there is nothing to do, where that is known.
    plain: Option<&'a Run>,
}

fn ways(measured: &Measured) -> Vec<Way<'_>> {
    let mut ways = Vec::new();
    for rotated in &measured.sizes {
        let Rotated { size, store_bytes, offline, online, plain, .. } = rotated;
        let runs = [
            ("offline", Some(offline.done), &offline.run),
            ("online, with clients", Some(online.done), &online.run),
            ("plain start, nothing to do", None, plain),
        ];
        let (size, store_bytes, plain) = (*size, *store_bytes, Some(plain));
        ways.extend(runs.map(|(name, done, run)| Way { size, name, done, run, store_bytes, plain }));
    }
    if let Some(FirstTime { size, store_bytes, rotation }) = &measured.first_time {
        let (size, store_bytes, name) = (*size, *store_bytes, "first encryption, offline");
        ways.push(Way { size, name, done: Some(rotation.done), run: &rotation.run, store_bytes, plain: None });
    }
    ways
}

fn durations(measured: &Measured) -> Table {
    let mut table = Table::new([
        "records",
        "way",
        "sealed records",
        "the rotation alone",
        "sealed /s",
        "of it sweep",
        "of it verify",
        "first read",
        "first write",
        "start to the end of all",
        "taken by others",
    ]);
    let rotation = |done: Option<Done>| match done {
        Some(done) => [grouped(done.records as f64), seconds(done.seconds), grouped(done.records_per_s())],
        None => Default::default(),
    };
    for Way { size, name, done, run, .. } in ways(measured) {
        // While nobody is let in, the server does not say which of the two it does.
        let part = |state: &str| Some(run.course.lasted_s(state)).filter(|s| *s > 0.0).map(seconds).unwrap_or_default();
        let mut row = vec![size.to_string(), name.to_owned()];
        row.extend(rotation(done));
        row.extend([part("rotating"), part("verifying"), seconds(run.first.read_s), seconds(run.first.write_s)]);
        row.extend([seconds(run.course.total_s()), cores(run.taken_by_others)]);
        table.row(row);
    }
    for (size, errand) in errands(measured) {
        let mut row = vec![size.to_string(), "`corkboard keys rotate`".to_owned()];
        row.extend(rotation(Some(errand.done)));
        row.extend([const { String::new() }; 4]);
        row.extend([seconds(errand.spent.seconds), cores(errand.spent.taken_by_others)]);
        table.row(row);
    }
    table
}

fn errands(measured: &Measured) -> impl Iterator<Item = (Size, &Errand)> {
    measured.sizes.iter().filter_map(|rotated| Some((rotated.size, rotated.errand.as_ref()?)))
}

fn costs(measured: &Measured) -> Table {
    let mut table = Table::new([
        "records",
        "way",
        "peak memory",
        "of a plain start",
        "written",
        "of the store before",
        "the rotation alone, to the disk floor",
    ]);
    for Way { size, name, done, run, store_bytes, plain } in ways(measured) {
        let of_plain = |plain: &Run| run.memory_peak_bytes as f64 / (plain.memory_peak_bytes as f64).max(1.0);
        let of_disk = |done: Done| floors::disk_ratio(done.seconds, run.written_bytes, measured.disk_mb_per_s);
        table.row([
            size.to_string(),
            name.into(),
            bytes(run.memory_peak_bytes as f64),
            plain.map(|plain| format!("{:.2}x", of_plain(plain))).unwrap_or_default(),
            bytes(run.written_bytes as f64),
            format!("{:.2}x", run.written_bytes as f64 / (store_bytes as f64).max(1.0)),
            done.map(|done| format!("{:.1}x", of_disk(done))).unwrap_or_default(),
        ]);
    }
    table
}

fn notes(measured: &Measured) -> String {
    let Writes { lrps, clients, trials, .. } = &measured.writes;
    let mut text = format!(
        "- Writes: {clients} clients claim and start the instances of {} DesiredLRPs, each run on a server and a store of its own, {} runs\n  \
         of each kind that take turns. The spread is from the least to the most, as a share of the median; a difference\n  \
         that is smaller says nothing.\n\
         - The rotation alone is from the note in the store that it begins to the note that every record was read back and opened\n  \
         under the new key. Other times count from the start of the process and include loading the records.\n\
         - While a rotation runs online, {CLIENTS} clients crash, claim and start instances, each with a call every {} ms, and one\n  \
         reads the actual LRPs of a cell every {} ms. A call that is due while the one before it waits counts from then.\n\
         - After every rotation all lists are read and counted, and the server must say that all records are under the one key.\n\
         - Figures of rotations are from one run each.\n\
         - The Go BBS, for comparison, given and not measured here: it re-encrypts about 400 records a second in the background;\n  \
         50,000 records took 261 s.\n",
        grouped(*lrps as f64),
        trials.len() / 2,
        WRITE_EVERY.as_millis(),
        READ_EVERY.as_millis(),
    );
    if let Some(Rotated { size, online, .. }) = measured.sizes.last() {
        let rate = grouped(online.done.records_per_s());
        let _ = writeln!(
            text,
            "- Here it is {rate} sealed records a second online at {size} records, verified, under clients."
        );
    }
    if measured.sizes.iter().any(|rotated| rotated.errand.is_none()) {
        text.push_str("- The binary has no `corkboard keys rotate`, so the errand was not measured.\n");
    }
    let (least, most) = measured.writes.costs_of_pairs(crowd_per_s);
    if least < WRITE_COST_MAX && most >= WRITE_COST_MAX {
        let _ = writeln!(
            text,
            "- **One pair of runs says that sealing takes {} of the throughput, another {}: this run cannot tell on which side of\n  \
             {} it lies. The processor time per write is steadier.**",
            percent(least),
            percent(most),
            percent(WRITE_COST_MAX),
        );
    }
    let rotations = ways(measured).into_iter().map(|way| way.run.taken_by_others);
    let errands = errands(measured).map(|(_, errand)| errand.spent.taken_by_others);
    let trials = measured.writes.trials.iter().map(|trial| trial.taken_by_others);
    let most = rotations.chain(errands).chain(trials).fold(0.0, f64::max);
    text.push_str(&quiet::note(most));
    for rotated in measured.sizes.iter().filter(|rotated| !rotated.clients.count()) {
        let (size, why) = (rotated.size, rotated.clients.first_failure());
        let _ = writeln!(text, "- **At {size} records calls failed, so their latencies mean nothing: {why}.**");
    }
    text
}

fn cpu(ms: f64) -> String {
    format!("{ms:.3} ms")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * PERCENT)
}

#[cfg(test)]
mod tests;
