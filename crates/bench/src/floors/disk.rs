//! The price of one durable commit, append a record and wait for the disk, and how fast the disk takes many bytes at once.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::latency::{Latencies, Summary};
use crate::noise::Noise;
use crate::sizes::Size;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, grouped};

/// A claim with its record, as the store writes it.
pub const RECORD_BYTES: usize = 1_500;
const APPENDS: u64 = 2_000;
/// What is written at a time when only the bytes count.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;
/// How much is written to know how fast the disk is: too little would end in a cache.
const SEQUENTIAL_BYTES_MIN: u64 = 256_000_000;
const SEQUENTIAL_BYTES_MAX: u64 = 1_000_000_000;

/// Leaves nothing behind.
pub fn synced_appends(path: &Path) -> anyhow::Result<Summary> {
    let mut file = File::create(path)?;
    let record = Noise::new(1).bytes(RECORD_BYTES);
    let mut latencies = Latencies::default();
    for _ in 0..APPENDS {
        let watch = Stopwatch::start();
        file.write_all(&record)?;
        file.sync_data()?;
        latencies.record(watch.elapsed());
    }
    drop(file);
    fs::remove_file(path)?;
    Ok(latencies.summary())
}

/// The same as below, with about as many bytes as the largest store will have.
pub fn disk_mb_per_s(dir: &Path, sizes: &[Size]) -> anyhow::Result<f64> {
    let largest = sizes.iter().map(Size::bytes).max().unwrap_or(0);
    sequential_mb_per_s(&dir.join("floor"), largest.clamp(SEQUENTIAL_BYTES_MIN, SEQUENTIAL_BYTES_MAX))
}

/// How often the disk could have written the same bytes meanwhile.
pub fn disk_ratio(seconds: f64, written_bytes: u64, disk_mb_per_s: f64) -> f64 {
    let floor_s = written_bytes as f64 / 1e6 / disk_mb_per_s.max(1e-9);
    seconds / floor_s.max(1e-9)
}

pub fn disk_table(disk_mb_per_s: f64) -> Table {
    let mut table = Table::new(["floor of the disk", "measured"]);
    table.row(["one long write, synced at its end", &format!("{} MB/s", grouped(disk_mb_per_s))]);
    table
}

/// Megabytes a second of one long write, with the sync at its end. Leaves nothing behind.
fn sequential_mb_per_s(path: &Path, bytes: u64) -> anyhow::Result<f64> {
    let mut file = File::create(path)?;
    let chunk = Noise::new(2).bytes(CHUNK_BYTES);
    let chunks = bytes.div_ceil(CHUNK_BYTES as u64).max(1);
    let watch = Stopwatch::start();
    for _ in 0..chunks {
        file.write_all(&chunk)?;
    }
    file.sync_data()?;
    let seconds = watch.seconds();
    drop(file);
    fs::remove_file(path)?;
    Ok(chunks as f64 * CHUNK_BYTES as f64 / 1e6 / seconds)
}
