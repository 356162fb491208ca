//! What a durable commit costs, alone and in groups.

use std::path::Path;
use std::time::Duration;

use super::{Kind, Record};
use crate::floors::RECORD_BYTES;
use crate::latency::Latencies;
use crate::median::median;
use crate::noise::Noise;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, grouped, milliseconds};

const GROUPS: [usize; 4] = [1, 16, 64, 256];
/// Keys are drawn from so many, so that records are replaced as on a board and not only added.
const KEYS: u64 = 100_000;
/// Values differ from commit to commit, but they are made before the clock starts.
const VALUES: usize = 512;

/// What one engine did with one group size, over all rounds.
#[derive(Default)]
struct Found {
    records_per_s: Vec<f64>,
    latencies: Latencies,
}

pub(super) fn run(dir: &Path, rounds: u32, length: Duration) -> anyhow::Result<Table> {
    let mut engines = Vec::new();
    for kind in Kind::ALL {
        let home = dir.join(format!("commits-{}", kind.word()));
        std::fs::create_dir(&home)?;
        engines.push((kind, kind.open(&home)?, GROUPS.map(|_| Found::default())));
    }
    let values: Vec<Vec<u8>> = (0..VALUES).map(|seed| Noise::new(seed as u64).bytes(RECORD_BYTES)).collect();
    let mut noise = Noise::new(42);
    for _ in 0..rounds {
        for (at, size) in GROUPS.iter().enumerate() {
            for (_, engine, found) in &mut engines {
                let (round, mut records) = (Stopwatch::start(), 0);
                let mut busy = Duration::ZERO;
                while round.elapsed() < length {
                    let group: Vec<Record> = (0..*size).map(|_| draw(&mut noise, &values)).collect();
                    let commit = Stopwatch::start();
                    engine.commit(&group)?;
                    let took = commit.elapsed();
                    found[at].latencies.record(took);
                    busy += took;
                    records += group.len();
                }
                found[at].records_per_s.push(records as f64 / busy.as_secs_f64());
            }
        }
    }
    let mut table = Table::new(["engine", "group", "records/s (median)", "p50", "p99", "longest"]);
    for (kind, _, found) in &mut engines {
        for (size, found) in GROUPS.iter().zip(found) {
            let latency = found.latencies.summary();
            table.row([
                kind.title().to_owned(),
                size.to_string(),
                grouped(median(std::mem::take(&mut found.records_per_s))),
                milliseconds(latency.p50_ms),
                milliseconds(latency.p99_ms),
                milliseconds(latency.max_ms),
            ]);
        }
    }
    Ok(table)
}

fn draw(noise: &mut Noise, values: &[Vec<u8>]) -> Record {
    let key = format!("actual/{:08}", noise.word() % KEYS);
    let at = usize::try_from(noise.word() % VALUES as u64).unwrap_or(0);
    (key, values[at].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_has_a_row_for_every_engine_and_group() {
        let dir = tempfile::tempdir().unwrap();
        let table = run(dir.path(), 1, Duration::from_millis(5)).unwrap().to_string();
        assert_eq!(table.lines().count(), 2 + Kind::ALL.len() * GROUPS.len(), "{table}");
    }
}
