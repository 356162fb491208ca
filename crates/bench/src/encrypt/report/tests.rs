//! Each goal is judged by its own figure, and the section says what spoilt its figures.

use super::*;
use crate::clients::Clients;
use crate::course::{Course, First, Mark};
use crate::encrypt::Rotation;
use crate::floors::Floors;
use crate::latency::Summary;
use crate::load::Measure;
use crate::quiet::Spent;

fn trial(sealed: bool, per_second: f64) -> Trial {
    let latency = Summary { count: 100, p50_ms: 1.0, p99_ms: 4.0, max_ms: 9.0 };
    let measure = Measure { calls: 100, per_second, latency, server_cpu_s: Some(0.01), ..Measure::default() };
    Trial { sealed, desire: measure.clone(), crowd: measure.clone(), alone: measure, taken_by_others: 0.0 }
}

fn writes(plain: [f64; 3], sealed: [f64; 3]) -> Writes {
    let pair = |(plain, sealed)| [trial(false, plain), trial(true, sealed)];
    let trials = plain.into_iter().zip(sealed).flat_map(pair);
    Writes { lrps: 20_000, clients: 64, trials: trials.collect() }
}

fn run(total_s: f64) -> Run {
    let marks = [("reencrypting", 0.1), ("loading", 9.0), ("settled", total_s)];
    let marks = marks.map(|(state, at_s)| Mark { state: state.into(), at_s }).to_vec();
    Run {
        course: Course { marks, records: 0 },
        first: First { read_s: total_s, write_s: total_s },
        memory_peak_bytes: 2_500_000_000,
        written_bytes: 2_000_000_000,
        taken_by_others: 0.0,
    }
}

fn rotation(rotation_s: f64, total_s: f64) -> Rotation {
    Rotation { run: run(total_s), done: Done { seconds: rotation_s, records: 700_000 } }
}

fn good() -> Measured {
    let size = Size(500_000);
    let errand = Errand {
        spent: Spent { seconds: 9.0, written_bytes: 2_000_000_000, taken_by_others: 0.0 },
        done: Done { seconds: 8.0, records: 700_000 },
    };
    let rotated = Rotated {
        size,
        store_bytes: 1_500_000_000,
        fill_s: 60.0,
        offline: rotation(8.0, 14.0),
        plain: run(6.0),
        errand: Some(errand),
        online: rotation(30.0, 40.0),
        clients: Clients::example(),
    };
    let cipher = vec![Cipher { record_bytes: 1_700, seal_ns: 850.0, open_ns: 850.0 }];
    Measured {
        floors: Floors::example(),
        disk_mb_per_s: 1_000.0,
        cipher: cipher.clone(),
        sealing: cipher,
        writes: writes([20_000.0, 20_100.0, 20_200.0], [19_800.0, 19_900.0, 19_700.0]),
        sizes: vec![rotated],
        first_time: Some(FirstTime { size, store_bytes: 1_500_000_000, rotation: rotation(8.0, 14.0) }),
    }
}

#[test]
fn each_goal_is_judged_by_its_own_figure() {
    let check = |spoil: &dyn Fn(&mut Measured), expected: &[&str]| {
        let mut measured = good();
        spoil(&mut measured);
        let goals = judge(&measured).into_iter().map(|(_, goal)| goal).collect();
        assert_eq!(goals::not_met(goals), expected);
    };
    check(&|_| {}, &[]);
    check(
        &|measured| measured.writes = writes([20_000.0; 3], [25_000.0, 19_000.0, 1.0]),
        &["claim/start, what sealing takes of the throughput"],
    );
    check(&|measured| measured.writes = writes([20_000.0; 3], [1.0, 19_001.0, 25_000.0]), &[]);
    let start = "offline, from the start of the process to the first write";
    check(&|measured| measured.sizes[0].offline = rotation(8.0, 15.5), &[start]);
    check(&|measured| measured.sizes[0].offline = rotation(15.5, 15.6), &["offline, the rotation alone", start]);
    let near_the_disk = |measured: &mut Measured| {
        measured.sizes[0].offline = rotation(15.5, 15.6);
        measured.sizes[0].offline.run.written_bytes = 6_000_000_000;
    };
    check(&near_the_disk, &[]);
    let small = |measured: &mut Measured| {
        (measured.sizes[0].size, measured.sizes[0].offline) = (Size(10_000), rotation(15.5, 15.6));
    };
    check(&small, &[]);
    let errand = |measured: &mut Measured| {
        measured.sizes[0].errand.as_mut().unwrap().spent.seconds = 16.0;
    };
    check(&errand, &["the errand, from start to end"]);
    check(&|measured| measured.sizes[0].errand = None, &[]);
    let refused = |measured: &mut Measured| {
        let after = &mut measured.sizes[0].clients.after;
        (after.failures, after.unavailable) = (1, 1);
    };
    check(&refused, &["online, 503 after the first success"]);
    let first = |measured: &mut Measured| measured.first_time.as_mut().unwrap().rotation = rotation(16.0, 20.0);
    check(&first, &["first encryption, offline, the rotation alone"]);
}

#[test]
fn trials_are_compared_by_their_medians_and_their_spread_is_told() {
    let writes = writes([1.0, 2.0, 31.0], [4.0; 3]);
    assert_eq!((writes.median(false, crowd_per_s), writes.median(true, crowd_per_s)), (2.0, 4.0));
    assert_eq!((writes.spread(false, crowd_per_s), writes.spread(true, crowd_per_s)), (15.0, 0.0));
    assert_eq!(writes.cost(crowd_per_s), -1.0, "twice as fast costs less than nothing");
    let (least, most) = writes.costs_of_pairs(crowd_per_s);
    assert!((least + 3.0).abs() < 1e-9 && (most - 27.0 / 31.0).abs() < 1e-9, "{least} {most}");
}

#[test]
fn the_section_says_what_spoilt_its_figures() {
    let machine = Machine { cores: 2, processor: "x".into(), memory_bytes: 1, kernel: "6".into() };
    let quiet = section(&machine, &good());
    assert!(quiet.starts_with("## Encryption\n") && !quiet.contains("\n## "), "{quiet}");
    assert!(!quiet.contains("**"), "{quiet}");
    assert!(quiet.contains("700,000") && quiet.contains("`corkboard keys rotate`"), "{quiet}");

    let mut spoilt = good();
    spoilt.writes = writes([20_000.0, 18_000.0, 20_000.0], [18_000.0; 3]);
    let rotated = &mut spoilt.sizes[0];
    (rotated.errand, rotated.online.run.taken_by_others) = (None, 1.5);
    (rotated.clients.during.failures, rotated.clients.during.first_failure) = (2, Some("status 503".into()));
    let text = section(&machine, &spoilt);
    for said in [
        "One pair of runs says that sealing takes 0.0 % of the throughput, another 10.0 %",
        "Others used this machine meanwhile, up to 1.5 cores",
        "At 500,000 records calls failed, so their latencies mean nothing: status 503.",
        "so the errand was not measured",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}
