//! Each goal is judged by its own figure, failovers by their worst round, and the section says what spoilt its figures.

use super::*;
use crate::etcd::Round;
use crate::etcd::writes::MANY;
use crate::floors::Floors;
use crate::load::Measure;

const LATENCY: Summary = Summary { count: 100, p50_ms: 1.0, p99_ms: 4.0, max_ms: 9.0 };

fn direct_of(batch: u64, in_flight: u64, records_per_s: f64) -> Direct {
    Direct { batch, in_flight, records_per_s, latency: LATENCY, spent: Spent::default() }
}

/// Ten thousand records in a second by the most clients.
fn round(own_floor: f64, largest_floor: f64) -> WriteRound {
    let calls = Measure { calls: 10_000, seconds: 1.0, per_second: 10_000.0, latency: LATENCY, ..Measure::default() };
    let trial = Trial { clients: MANY, calls, records: 10_000, transactions: 400, spent: Spent::default() };
    WriteRound {
        shape: Shape { key_bytes: 100, value_bytes: 800 },
        trials: vec![trial],
        floor: vec![direct_of(64, 1, largest_floor), direct_of(64, 4, 1e9)],
        floor_of_server: direct_of(25, 1, own_floor),
    }
}

fn start(engine: Engine, p50_ms: f64) -> Start {
    let latency = Summary { p50_ms, ..LATENCY };
    Start { engine, start_s: 4.0, one_cell: latency, one_lrp: latency, memory_bytes: 1_000_000_000 }
}

fn failover(planned: bool, lease_s: u64, first_writes_s: &[f64]) -> Failover {
    let round = |first_write_s: &f64| Round { first_write_s: *first_write_s, longest_gap_s: first_write_s + 0.1 };
    Failover { planned, lease_s, rounds: first_writes_s.iter().map(round).collect() }
}

fn good() -> Measured {
    let rounds = || vec![round(12_000.0, 13_000.0), round(12_500.0, 13_500.0), round(90_000.0, 90_000.0)];
    let writes = |members| Writes { members, lrps: 20_000, rounds: rounds() };
    Measured {
        floors: Floors::example(),
        writes: vec![writes(3), writes(1)],
        full: Some(Full {
            lrps: 200_000,
            instances: 250_000,
            fill_etcd_s: 300.0,
            fill_embedded_s: 60.0,
            records: 650_000,
            record_bytes: 1_200_000_000,
            read_s: 2.0,
            starts: vec![start(Engine::Etcd, 0.5), start(Engine::Embedded, 0.5)],
        }),
        failovers: vec![
            failover(true, 10, &[0.2, 0.3, 0.9]),
            failover(false, 10, &[10.5, 11.5]),
            failover(false, 3, &[3.5, 4.5]),
        ],
        memory: Some(Memory { master_bytes: 1_000, standbys_bytes: vec![900, 1_100] }),
    }
}

/// The goals that are not met after `spoil` has changed one figure.
fn check(spoil: impl Fn(&mut Measured), expected: &[&str]) {
    let mut measured = good();
    spoil(&mut measured);
    assert_eq!(goals::not_met(judge(&measured)), expected);
}

#[test]
fn each_goal_is_judged_by_its_own_figure() {
    check(|_| {}, &[]);
    check(
        |measured| measured.writes[0].rounds[0].floor_of_server.records_per_s = 20_000.0,
        &["three members, records/s of 64 clients to the floor with the server's own batches"],
    );
    check(
        |measured| measured.writes[1].rounds[0].floor[0].records_per_s = 20_000.0,
        &["one member, records/s of 64 clients to the floor with batches of 64"],
    );
    check(
        |measured| measured.full.as_mut().unwrap().starts[0].one_cell.p50_ms = 0.6,
        &["p50 of the actual LRPs of a cell, etcd to embedded"],
    );
    check(
        |measured| measured.full.as_mut().unwrap().starts[0].one_lrp.p50_ms = 0.6,
        &["p50 of one desired LRP, etcd to embedded"],
    );
    check(
        |measured| measured.failovers[0].rounds[1].first_write_s = 1.1,
        &["master stopped, to the next write, worst round"],
    );
    check(
        |measured| measured.failovers[1].rounds[0].first_write_s = 12.1,
        &["master killed, to the next write, worst round"],
    );
    check(
        |measured| measured.failovers[2].rounds[0].first_write_s = 5.1,
        &["master killed with a short lease, to the next write, worst round"],
    );
}

#[test]
fn the_section_tells_of_all_parts_and_of_others_on_the_machine() {
    let machine = Machine { cores: 2, processor: "x".into(), memory_bytes: 8, kernel: "6".into() };
    let mut measured = good();
    let quiet = section(&machine, &measured);
    // How wide a column is depends on all of its rows.
    let narrow = quiet.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in [
        "| three members, records/s of 64 clients to the floor with batches of 64 | 70 % or more | 74 % (11 % to 77 %) | yes |",
        "| 3 | 64 | 10,000 | 10,000 | 10,000 | 1.0 ms | 4.0 ms | 25.0 |",
        "| 3 | 64 | 1 | 13,500 | 13,000 to 90,000 |",
        "| 1 | 25, as the server made | 1 | 12,500 |",
        "| start on etcd, to the first answer | 4.00 s | 4.00 s | 162,500 | 300 | 1.00 GB |",
        "| stopped (SIGTERM) | 10 s | 3 | signal to the first write at another node | 200 ms | 300 ms | 900 ms |",
        "| standby, warm | 1 KB | 1.10x |",
    ] {
        assert!(narrow.contains(row), "{row}\n{quiet}");
    }
    assert!(!quiet.contains("Others used this machine"));
    measured.writes[1].rounds[2].trials[0].spent.taken_by_others = 0.7;
    assert!(section(&machine, &measured).contains("Others used this machine meanwhile, up to 0.7 cores"));
}
