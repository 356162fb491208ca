//! The section about encryption: a pure function of what was measured, so that no number is typed by hand.
//!
//! Writes are judged by medians, with the spread of each kind beside them, because a cost below the spread is no cost that was
//! seen. Rotations are judged at every size, and beside them stands how much of the machine others took meanwhile.

use std::fmt::Write;

use super::{Cipher, Done, Measured, Rotated, SECTION, Trial, Writes};
use crate::goals::{self, Goal};
use crate::load::steady::{CLIENTS, READ_EVERY, WRITE_EVERY};
use crate::process::Machine;
use crate::runs::Run;
use crate::sizes::{RECORD_BYTES, Size};
use crate::table::{Table, bytes, grouped, milliseconds};
use crate::{clients, floors};

/// What sealing may take of the throughput of writes.
const WRITE_COST_MAX: f64 = 0.05;
/// Offline, 500,000 records should take 15 s, and more in proportion. Fewer are not judged: the start of a process counts most.
const OFFLINE_US_PER_RECORD_MAX: f64 = 30.0;
const OFFLINE_RECORDS_MIN: u64 = 500_000;
const DISK_FLOORS_MAX: f64 = 3.0;
/// Others that took more than this many cores have changed the figures.
const OTHERS_CORES_MAX: f64 = 0.2;
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
        goals.push((Some(first.size), offline(what, first.size, took_s, written, measured.disk_mb_per_s)));
    }
    goals
}

fn judge_writes(writes: &Writes) -> Goal {
    let cost = writes.cost(crowd_per_s);
    Goal {
        what: "claim/start, what sealing takes of the throughput",
        reach: format!("under {}", percent(WRITE_COST_MAX)),
        measured: format!(
            "{}: {}/s after {}/s, medians",
            percent(cost),
            grouped(writes.median(true, crowd_per_s)),
            grouped(writes.median(false, crowd_per_s)),
        ),
        met: Some(cost < WRITE_COST_MAX),
    }
}

fn judge_rotations(rotated: &Rotated, disk_mb_per_s: f64) -> Vec<Goal> {
    let Rotated { size, offline: by_server, errand, clients, .. } = rotated;
    let judge = |what, took_s, written| offline(what, *size, took_s, written, disk_mb_per_s);
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

fn offline(what: &'static str, size: Size, took_s: f64, written_bytes: u64, disk_mb_per_s: f64) -> Goal {
    let limit_s = size.0 as f64 * OFFLINE_US_PER_RECORD_MAX / 1e6;
    let floors = floors::disk_ratio(took_s, written_bytes, disk_mb_per_s);
    Goal {
        what,
        reach: format!("{} or {DISK_FLOORS_MAX:.0}x the disk floor", seconds(limit_s)),
        measured: format!("{}, {floors:.1}x the disk floor", seconds(took_s)),
        met: (size.0 >= OFFLINE_RECORDS_MIN).then_some(took_s <= limit_s || floors <= DISK_FLOORS_MAX),
    }
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
                record_bytes.to_string(),
                format!("{seal_ns:.0} ns"),
                format!("{:.2} GB/s", cipher.seal_gb_per_s()),
                format!("{open_ns:.0} ns"),
                format!("{:.2} GB/s", cipher.open_gb_per_s()),
            ]);
        }
    }
    table
}

fn durations(measured: &Measured) -> Table {
    let mut table = Table::new([
        "records",
        "way",
        "sealed records",
        "the rotation alone",
        "sealed /s",
        "first read",
        "first write",
        "start to the end of all",
        "taken by others",
    ]);
    let mut row = |size: Size, way: &str, done: Option<Done>, run: &Run| {
        table.row([
            size.to_string(),
            way.to_owned(),
            done.map(|done| grouped(done.records as f64)).unwrap_or_default(),
            done.map(|done| seconds(done.seconds)).unwrap_or_default(),
            done.map(|done| grouped(done.records_per_s())).unwrap_or_default(),
            seconds(run.first.read_s),
            seconds(run.first.write_s),
            seconds(run.course.total_s()),
            cores(run.taken_by_others),
        ]);
    };
    for rotated in &measured.sizes {
        for (way, done, run) in runs(rotated) {
            row(rotated.size, way, done, run);
        }
    }
    if let Some(first) = &measured.first_time {
        row(first.size, "first encryption, offline", Some(first.rotation.done), &first.rotation.run);
    }
    for (size, errand) in measured.sizes.iter().filter_map(|rotated| Some((rotated.size, rotated.errand.as_ref()?))) {
        table.row([
            size.to_string(),
            "`corkboard keys rotate`".into(),
            grouped(errand.done.records as f64),
            seconds(errand.done.seconds),
            grouped(errand.done.records_per_s()),
            String::new(),
            String::new(),
            seconds(errand.spent.seconds),
            cores(errand.spent.taken_by_others),
        ]);
    }
    table
}

fn runs(rotated: &Rotated) -> [(&'static str, Option<Done>, &Run); 3] {
    let Rotated { offline, online, plain, .. } = rotated;
    [
        ("offline", Some(offline.done), &offline.run),
        ("online, with clients", Some(online.done), &online.run),
        ("plain start, nothing to do", None, plain),
    ]
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
    for rotated in &measured.sizes {
        let plain = rotated.plain.memory_peak_bytes as f64;
        for (way, done, run) in runs(rotated) {
            let ratio = |done: Done| floors::disk_ratio(done.seconds, run.written_bytes, measured.disk_mb_per_s);
            table.row([
                rotated.size.to_string(),
                way.into(),
                bytes(run.memory_peak_bytes as f64),
                format!("{:.2}x", run.memory_peak_bytes as f64 / plain.max(1.0)),
                bytes(run.written_bytes as f64),
                format!("{:.2}x", run.written_bytes as f64 / (rotated.store_bytes as f64).max(1.0)),
                done.map(|done| format!("{:.1}x", ratio(done))).unwrap_or_default(),
            ]);
        }
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
    if measured.sizes.iter().any(|rotated| rotated.errand.is_none()) {
        text.push_str("- The binary has no `corkboard keys rotate`, so the errand was not measured.\n");
    }
    let spread = measured.writes.spread(false, crowd_per_s).max(measured.writes.spread(true, crowd_per_s));
    if spread > WRITE_COST_MAX {
        let _ = writeln!(
            text,
            "- **Runs of one kind are {} apart, more than what is judged, so the cost of a write is not known to {}.**",
            percent(spread),
            percent(WRITE_COST_MAX),
        );
    }
    let rotations = measured.sizes.iter().flat_map(runs).map(|(_, _, run)| run.taken_by_others);
    let most = rotations.chain(measured.writes.trials.iter().map(|trial| trial.taken_by_others)).fold(0.0, f64::max);
    if most > OTHERS_CORES_MAX {
        let _ = writeln!(
            text,
            "- **Others used this machine meanwhile, up to {most:.1} cores, so times and latencies are worse than on a quiet one.**"
        );
    }
    for rotated in measured.sizes.iter().filter(|rotated| !rotated.clients.count()) {
        let (size, why) = (rotated.size, rotated.clients.first_failure());
        let _ = writeln!(text, "- **At {size} records calls failed, so their latencies mean nothing: {why}.**");
    }
    text
}

fn seconds(s: f64) -> String {
    milliseconds(s * 1e3)
}

fn cpu(ms: f64) -> String {
    format!("{ms:.3} ms")
}

fn cores(number: f64) -> String {
    format!("{number:.1} cores")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * PERCENT)
}

#[cfg(test)]
mod tests;
