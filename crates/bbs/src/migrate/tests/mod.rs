//! The crash matrix: every process of the engine, interrupted before and after every single write, and every way on from there.
//!
//! For each pair of data versions, each mode and each process the run is made once without a fault, to count its writes. Then
//! the machine dies before and after each of them, in a way that nobody can know whether the write is there. At every such
//! point, before anything is started again, the root that `/version` names holds every acknowledged change and nothing else
//! but the one that was in flight, whole. From there the same release, the one before and the newest are started, each on a
//! copy of its own, and do what the version table says; one that has to shut down has written nothing. Every way ends with
//! all changes served, in one data version, with nothing left over; if records cannot be read, they are kept and so is the
//! version before. A crash before a write finds the disk as the crash after the write before left it; what follows from such a
//! disk is tried once.
//!
//! The golden tables count the points, so that it shows when there are more or fewer of them.

mod data;
mod gate;
pub(crate) mod keyed;
pub(crate) mod node;
pub(crate) mod process;
pub(crate) mod seals;
pub(crate) mod world;

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use expect_test::{ExpectFile, expect, expect_file};
use store::memory::Memory;

use self::node::End;
use self::process::{Fault, Process, Row, Wreck, rows};
use self::world::{World, dump};
use crate::config::Mode;

/// As many as the engine has while nobody is served.
const BATCHES_IN_FLIGHT: usize = 4;
/// How many pairs of crashes are drawn.
const DOUBLE_FAULTS: u64 = 200;
const SEED: u64 = 0x2545_F491_4F6C_DD1D;

/// What a row of the matrix has seen.
#[derive(Default)]
struct Tally {
    writes: u64,
    crashes: u64,
    restarts: u64,
}

pub(crate) async fn crash<'a>(row: &'a Row, store: &Memory, world: &World, fault: Fault) -> Wreck<'a> {
    let (store, mut world) = (store.copy(), world.clone());
    fault.set(&store);
    let when = format!("{row} {:?}: crash {fault:?}", row.mode);
    assert_eq!(row.run(&store, &mut world).await, End::Crashed, "{when}");
    let root = world.examine(&store, &when).await;
    Wreck { row, store, world, root, when }
}

async fn every_crash_of(row: &Row) -> Tally {
    let (store, world) = row.beginning().await;
    let mut tally = Tally { writes: row.count(&store, &world).await, ..Tally::default() };
    let mut last: BTreeMap<String, Bytes> = BTreeMap::new();
    for fault in (1..=tally.writes).flat_map(|write| [Fault::Before(write), Fault::After(write)]) {
        let wreck = crash(row, &store, &world, fault).await;
        tally.crashes += 1;
        let disk = dump(&wreck.store).await;
        if disk == last {
            continue;
        }
        last = disk;
        for mine in row.binaries() {
            tally.restarts += wreck.recover(mine).await;
        }
    }
    tally
}

async fn check(rows: Vec<Row>, expected: &ExpectFile) {
    let mut table = format!("{:<40} {:<10} {:>6} {:>7} {:>8}\n", "span", "process", "writes", "crashes", "restarts");
    let mut all = Tally::default();
    for row in rows {
        let Tally { writes, crashes, restarts } = every_crash_of(&row).await;
        writeln!(table, "{row} {writes:>6} {crashes:>7} {restarts:>8}").unwrap();
        all.writes += writes;
        all.crashes += crashes;
        all.restarts += restarts;
    }
    writeln!(table, "{:<51} {:>6} {:>7} {:>8}", "all", all.writes, all.crashes, all.restarts).unwrap();
    expected.assert_eq(&table);
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_nothing_online() {
    Box::pin(check(rows(Mode::Online, false), &expect_file!["online.golden"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_nothing_while_only_reads_are_served() {
    Box::pin(check(rows(Mode::ReadOnly, false), &expect_file!["read_only.golden"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_nothing_while_nobody_is_served() {
    Box::pin(check(rows(Mode::Offline, false), &expect_file!["offline.golden"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_no_record_that_cannot_be_read() {
    Box::pin(check(rows(Mode::Online, true), &expect_file!["poisoned.golden"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_with_several_batches_under_way_loses_nothing() {
    let migrations = rows(Mode::Offline, false).into_iter().filter(|row| row.process == Process::Migration);
    for row in migrations.map(|row| Row { in_flight: BATCHES_IN_FLIGHT, ..row }) {
        let (store, world) = row.beginning().await;
        for write in 1..=row.count(&store, &world).await {
            let wreck = crash(&row, &store, &world, Fault::After(write)).await;
            wreck.recover(row.to).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deposed_master_writes_nothing_more() {
    let mut deposed = 0;
    for row in rows(Mode::Online, false).into_iter().chain(rows(Mode::Offline, false)) {
        let (store, world) = row.beginning().await;
        for after in 1..row.count(&store, &world).await {
            row.depose(&store, &world, after).await;
            deposed += 1;
        }
    }
    expect!["1357"].assert_eq(&deposed.to_string());
}

/// Numbers that depend on the seed and on nothing else.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub(crate) fn fault(&mut self, writes: u64) -> Fault {
        let write = 1 + self.below(writes);
        if self.below(2) == 0 { Fault::Before(write) } else { Fault::After(write) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_a_recovery_loses_nothing() {
    let mut draw = Draw(SEED);
    let all: Vec<Row> = [(Mode::Online, false), (Mode::ReadOnly, false), (Mode::Offline, false), (Mode::Online, true)]
        .into_iter()
        .flat_map(|(mode, poisoned)| rows(mode, poisoned))
        .collect();
    let (mut second, mut restarts) = (0, 0);
    for _ in 0..DOUBLE_FAULTS {
        let row = &all[draw.below(all.len() as u64) as usize];
        let (store, world) = row.beginning().await;
        let writes = row.count(&store, &world).await;
        let (one, other) = (draw.fault(writes), draw.fault(writes));
        let wreck = crash(row, &store, &world, one).await;
        let Some(wreck) = wreck.crash_again(other).await else { continue };
        second += 1;
        for mine in row.binaries() {
            restarts += wreck.recover(mine).await;
        }
    }
    expect!["116 second crashes, 361 restarts"].assert_eq(&format!("{second} second crashes, {restarts} restarts"));
}
