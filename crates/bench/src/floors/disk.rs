//! The price of one durable commit: append a record and wait for the disk.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::latency::{Latencies, Summary};
use crate::noise::Noise;
use crate::stopwatch::Stopwatch;

/// A claim with its record, as the store writes it.
pub const RECORD_BYTES: usize = 1_500;
const APPENDS: u64 = 2_000;

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
