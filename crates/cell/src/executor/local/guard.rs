//! What containers use, and the end of those that use more than they may.
//!
//! Memory and processes are counted from `/proc`, which works for every user and in every sandbox. Control groups are faster to
//! stop an app, and this is what is left where there are none. A container that takes too much memory is killed and
//! its exit says so; one with too many processes or too much on its disk is ended with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::super::clock::wall_ns;
use super::super::process::end_tree;
use super::super::process::proc::{Snapshot, memory_bytes};
use super::super::{ContainerGuid, State, Usage};
use super::Inner;
use super::entry::Entry;

/// Disks are walked, so they are looked at less often.
const DISK_EVERY: u64 = 10;
const MB_BYTES: u64 = 1024 * 1024;
const DISK_BLOCK_BYTES: u64 = 512;

pub(crate) async fn watch(inner: Arc<Inner>) {
    let mut interval = tokio::time::interval(inner.config.guard_interval);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 0u64.. {
        interval.tick().await;
        let entries: Vec<Arc<Entry>> = inner.entries().values().cloned().collect();
        expire(&inner, &entries);
        if round % DISK_EVERY == 0 {
            disks(&entries).await;
        }
        let has_runtime = inner.sandbox.has_runtime();
        let judged = tokio::task::spawn_blocking(move || {
            let snapshot = Snapshot::take().unwrap_or_default();
            entries.iter().for_each(|entry| judge(entry, &snapshot, has_runtime));
        });
        let _ = judged.await;
    }
}

fn expire(inner: &Inner, entries: &[Arc<Entry>]) {
    let limit = i64::try_from(inner.config.reservation_max.as_nanos()).unwrap_or(i64::MAX);
    for entry in entries {
        let container = entry.container();
        if container.state == State::Reserved
            && wall_ns() - container.since_ns > limit
            && let Some(expired) = entry.expire()
        {
            inner.tell(expired);
        }
    }
}

fn judge(entry: &Entry, snapshot: &Snapshot, has_runtime: bool) {
    let counted = count(entry, snapshot, has_runtime);
    let reservation = &entry.container().reservation;
    let memory_max = quota_bytes(reservation.room.memory_mb);
    if memory_max > 0 && counted.memory_bytes > memory_max {
        tracing::info!(container = %entry.guid, bytes = counted.memory_bytes, "out of memory");
        entry.out_of_memory.store(true, Ordering::Relaxed);
        for identity in entry.processes.lock().unwrap_or_else(PoisonError::into_inner).values() {
            end_tree(identity);
        }
    }
    let pids_max = usize::try_from(reservation.max_pids).unwrap_or(0);
    if pids_max > 0 && counted.processes > pids_max {
        entry.condemn(format!("it had {} processes and may have {pids_max}", counted.processes));
    }
    let disk_max = quota_bytes(reservation.room.disk_mb);
    let disk = entry.disk_bytes.load(Ordering::Relaxed);
    if disk_max > 0 && disk > disk_max {
        let (used, may) = (disk / MB_BYTES, disk_max / MB_BYTES);
        entry.condemn(format!("it had {used} MB on its disk and may have {may} MB"));
    }
}

async fn disks(entries: &[Arc<Entry>]) {
    for entry in entries.iter().filter(|entry| entry.container().state > State::Reserved) {
        let walked = entry.clone();
        // An overlay keeps what the app wrote in a folder of its own.
        let walk = tokio::task::spawn_blocking(move || {
            let upper = walked.folder().join("upper");
            let folder = if upper.exists() { upper } else { walked.root() };
            walked.disk_bytes.store(folder_bytes(&folder), Ordering::Relaxed);
        });
        let _ = walk.await;
    }
}

fn folder_bytes(folder: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        bytes += meta.blocks() * DISK_BLOCK_BYTES;
        if meta.is_dir() {
            bytes += folder_bytes(&entry.path());
        }
    }
    bytes
}

#[derive(Debug, Default)]
struct Counted {
    memory_bytes: u64,
    processes: usize,
    cpu_ticks: u64,
}

/// A runtime that a shim calls is not counted: it is the cell's and not the app's, which stays below its first process.
fn count(entry: &Entry, snapshot: &Snapshot, has_runtime: bool) -> Counted {
    let mut counted = Counted::default();
    for identity in entry.processes.lock().unwrap_or_else(PoisonError::into_inner).values() {
        let mut all = snapshot.below(identity.shim.pid);
        if has_runtime {
            all.retain(|process| process.pid == identity.process.pid);
            all.extend(all.first().map(|first| snapshot.below(first.pid)).unwrap_or_default());
        }
        for process in all {
            counted.memory_bytes += memory_bytes(process.pid);
            counted.cpu_ticks += process.cpu_ticks;
            counted.processes += 1;
        }
    }
    counted
}

fn quota_bytes(mb: i32) -> u64 {
    u64::try_from(mb).unwrap_or(0) * MB_BYTES
}

pub(crate) fn usage(inner: &Inner) -> BTreeMap<ContainerGuid, Usage> {
    let entries: Vec<Arc<Entry>> = inner.entries().values().cloned().collect();
    let snapshot = Snapshot::take().unwrap_or_default();
    let now = Instant::now();
    let used = entries.iter().map(|entry| {
        let counted = count(entry, &snapshot, inner.sandbox.has_runtime());
        let room = entry.container().reservation.room;
        let usage = Usage {
            cpu_fraction: cpu_fraction(entry, counted.cpu_ticks, now),
            memory_bytes: counted.memory_bytes,
            memory_quota_bytes: quota_bytes(room.memory_mb),
            disk_bytes: entry.disk_bytes.load(Ordering::Relaxed),
            disk_quota_bytes: quota_bytes(room.disk_mb),
            // The network is the host's, so that nobody knows whose bytes they were.
            rx_bytes: None,
            tx_bytes: None,
        };
        (entry.guid.clone(), usage)
    });
    used.collect()
}

/// Of one core, since somebody asked last. Processes that ended meanwhile took their time with them.
fn cpu_fraction(entry: &Entry, ticks: u64, now: Instant) -> f64 {
    let mut last = entry.cpu.lock().unwrap_or_else(PoisonError::into_inner);
    let fraction = match *last {
        Some((then, before)) if now - then > Duration::ZERO => {
            let seconds = ticks.saturating_sub(before) as f64 / rustix::param::clock_ticks_per_second() as f64;
            seconds / (now - then).as_secs_f64()
        }
        _ => 0.0,
    };
    *last = Some((now, ticks));
    fraction
}
