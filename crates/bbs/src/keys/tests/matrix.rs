//! The crash matrix of key rotation, alone and beside a migration, with clients that go on changing records.
//!
//! Each scene is run once without a fault, to count its writes. Then the machine dies before and after each of them. At every
//! such point, before anything is started again, all roots and the quarantine are looked at from below: if the marker is there
//! every record is under its key, and every key that a record names is needed by the ledger; and every acknowledged change is
//! there, whole. A node that lacks a needed key is refused by name and changes no byte. From there nodes are started, with the
//! same keys, with the former one active again or with a third one, of the same release and of the one before; every way ends
//! with all changes served, all records under the active key, and a marker that says so.
//!
//! The golden table counts the points, so that it shows when there are more or fewer of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use expect_test::{ExpectFile, expect, expect_file};
use store::Version;
use store::memory::Memory;
use store::seal::LedgerEntry;
use store::seal::ledger::{LEDGER_ROOT, read_ledger};

use crate::config::Mode;
use crate::migrate::tests::keyed::Keys;
use crate::migrate::tests::node::{Birth, End, Node};
use crate::migrate::tests::process::{Fault, Process, Row, Wreck};
use crate::migrate::tests::world::{World, dump};
use crate::migrate::tests::{Draw, crash};

const LATEST: Version = Version::LATEST;
const FORMER: Version = Version::ALL[Version::ALL.len() - 2];
/// How many pairs of crashes are drawn.
const DOUBLE_FAULTS: u64 = 120;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// A rotation, what else goes on meanwhile, and with which keys nodes are started after a crash.
#[derive(Clone, Copy)]
struct Scene {
    name: &'static str,
    row: Row,
    /// The rotation before this one, and how far it came.
    before: Option<(Keys, Came)>,
    then: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Came {
    Halfway,
    ToItsEnd,
}

impl Scene {
    const fn of(name: &'static str, row: Row, then: &'static [&'static str]) -> Self {
        Self { name, row, before: None, then }
    }

    async fn beginning(&self) -> (Memory, World) {
        let (store, world) = self.row.beginning().await;
        let Some((keys, came)) = self.before else { return (store, world) };
        let first = Row { keys, ..self.row };
        let writes = first.count(&store, &world).await;
        let last = match came {
            Came::Halfway => writes / 2,
            Came::ToItsEnd => writes,
        };
        let Wreck { store, world, .. } = crash(&first, &store, &world, Fault::After(last)).await;
        (store.copy(), world)
    }
}

/// Only keys change.
fn rotation(sealed: &'static str, keys: Keys) -> Row {
    Row { keys, sealed: Some(sealed), ..Row::of(LATEST, LATEST, Process::Migration, Mode::Online, false) }
}

/// The data version changes as well.
fn overlap(process: Process, keys: Keys) -> Row {
    Row { keys, sealed: Some("A"), ..Row::of(FORMER, LATEST, process, Mode::Online, false) }
}

fn rotations() -> Vec<Scene> {
    let alone = Keys { alone: true, ..Keys::of("BA") };
    let told = Keys { later: Some("CBA"), ..Keys::of("BA") };
    let poisoned = Row { poisoned: true, ..rotation("A", Keys::of("BA")) };
    let after = |came, name, mine, then| Scene {
        before: Some((Keys::of("BA"), came)),
        ..Scene::of(name, rotation("A", Keys::of(mine)), then)
    };
    vec![
        Scene::of("plain to A", rotation("", Keys::of("A")), &["A", "BA"]),
        Scene::of("A to B", rotation("A", Keys::of("BA")), &["BA", "AB", "CBA"]),
        Scene::of("A to B, nobody served", rotation("A", alone), &["BA"]),
        Scene::of("A to B, with records that nobody can read", poisoned, &["BA"]),
        after(Came::Halfway, "A to B halfway, then to C", "CBA", &["CBA", "BAC"]),
        after(Came::Halfway, "A to B halfway, then back to A", "AB", &["AB", "BA"]),
        after(Came::ToItsEnd, "A to B and back to A", "AB", &["AB", "BA"]),
        Scene::of("A to B halfway, then to C by a word", rotation("A", told), &["CBA"]),
    ]
}

fn overlaps() -> Vec<Scene> {
    let of = |name, process, then| Scene::of(name, overlap(process, Keys::of("BA")), then);
    let first = Row { sealed: Some(""), ..overlap(Process::Migration, Keys::of("A")) };
    let poisoned = Row { poisoned: true, ..overlap(Process::Migration, Keys::of("BA")) };
    vec![
        of("A to B during a migration", Process::Migration, &["BA", "AB"]),
        of("A to B, finalized by an operator", Process::Manual, &["BA", "CBA"]),
        of("A to B during a rollback", Process::Rollback, &["BA"]),
        of("A to B while the old root goes", Process::Cleanup, &["BA"]),
        of("A to B during an abort", Process::Abort, &["BA"]),
        Scene::of("plain to A during a migration", first, &["A"]),
        Scene::of("A to B, with records left behind unread", poisoned, &["BA"]),
    ]
}

/// What a scene has seen.
#[derive(Default)]
struct Tally {
    writes: u64,
    crashes: u64,
    refusals: u64,
    restarts: u64,
}

async fn every_crash_of(scene: &Scene) -> Tally {
    let (store, world) = scene.beginning().await;
    let mut tally = Tally { writes: scene.row.count(&store, &world).await, ..Tally::default() };
    let mut last: BTreeMap<String, Bytes> = BTreeMap::new();
    for fault in (1..=tally.writes).flat_map(|write| [Fault::Before(write), Fault::After(write)]) {
        let wreck = crash(&scene.row, &store, &world, fault).await;
        tally.crashes += 1;
        let disk = without_counts(dump(&wreck.store).await);
        if disk == last {
            continue;
        }
        last = disk;
        tally.refusals += refuse_who_lacks_a_key(&wreck).await;
        tally.restarts += recover(scene, wreck).await;
    }
    tally
}

/// Disks that differ only in how often a key has sealed are the same for what follows.
fn without_counts(mut disk: BTreeMap<String, Bytes>) -> BTreeMap<String, Bytes> {
    for (_, value) in disk.iter_mut().filter(|(key, _)| key.starts_with(LEDGER_ROOT)) {
        let entry: LedgerEntry = serde_json::from_slice(value).unwrap();
        *value = serde_json::to_vec(&LedgerEntry { writes: 0, ..entry }).unwrap().into();
    }
    disk
}

/// With every set of keys, every release.
async fn recover(scene: &Scene, wreck: Wreck<'_>) -> u64 {
    let mut restarts = 0;
    for mine in scene.then {
        let row = Row { keys: Keys { alone: scene.row.keys.alone, ..Keys::of(mine) }, ..scene.row };
        let when = format!("{}, {}, then with keys {mine}", scene.name, wreck.when);
        let wreck = Wreck { row: &row, when, ..wreck.clone() };
        for release in row.binaries() {
            restarts += wreck.recover(release).await;
        }
    }
    restarts
}

/// Returns how many sets of keys were not enough.
async fn refuse_who_lacks_a_key(wreck: &Wreck<'_>) -> u64 {
    let (store, before) = (wreck.store.copy(), dump(&wreck.store).await);
    let ledger = read_ledger(&store).await.unwrap();
    let needed: Vec<_> = ledger.entries.iter().filter(|(_, entry)| entry.needed).map(|(name, _)| name).collect();
    let mut refused = 0;
    for mine in ["", "A", "B", "C"] {
        let Some(missing) = needed.iter().find(|name| !mine.contains(name.as_str())) else { continue };
        let row = Row { keys: Keys::of(mine), ..*wreck.row };
        let when = format!("{}, then with keys {mine:?}", wreck.when);
        let Birth::KeysRefused(why) = Node::start(&store, row.binary(row.to), &wreck.world).await else {
            panic!("{when}: it starts without key {missing}");
        };
        assert!(why.contains(&format!("key {missing}")), "{when}: {why}");
        assert!(before == dump(&store).await, "{when}: it was refused, but wrote");
        refused += 1;
    }
    refused
}

async fn check(scenes: Vec<Scene>, expected: &ExpectFile) {
    let mut table = format!("{:<42} {:>6} {:>7} {:>8} {:>8}\n", "scene", "writes", "crashes", "refusals", "restarts");
    for scene in scenes {
        let Tally { writes, crashes, refusals, restarts } = every_crash_of(&scene).await;
        writeln!(table, "{:<42} {writes:>6} {crashes:>7} {refusals:>8} {restarts:>8}", scene.name).unwrap();
    }
    expected.assert_eq(&table);
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_a_rotation_loses_nothing_and_no_key_that_is_needed() {
    Box::pin(check(rotations(), &expect_file!["rotations.golden"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_a_rotation_and_a_migration_loses_nothing_and_no_key_that_is_needed() {
    Box::pin(check(overlaps(), &expect_file!["overlaps.golden"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_deposed_master_seals_nothing_more() {
    let mut deposed = 0;
    for scene in rotations().into_iter().chain(overlaps()).filter(|scene| !scene.row.keys.alone) {
        let (store, world) = scene.beginning().await;
        for after in 1..scene.row.count(&store, &world).await {
            scene.row.depose(&store, &world, after).await;
            deposed += 1;
        }
    }
    expect!["464"].assert_eq(&deposed.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_a_recovery_loses_nothing_and_no_key_that_is_needed() {
    let mut draw = Draw(SEED);
    let all: Vec<Scene> = rotations().into_iter().chain(overlaps()).collect();
    let (mut second, mut restarts) = (0, 0);
    for _ in 0..DOUBLE_FAULTS {
        let scene = &all[draw.below(all.len() as u64) as usize];
        let (store, world) = scene.beginning().await;
        let writes = scene.row.count(&store, &world).await;
        let (one, other) = (draw.fault(writes), draw.fault(writes));
        let Keys { mine, later, alone } = scene.row.keys;
        let row = Row { keys: Keys { alone, ..Keys::of(later.unwrap_or(mine)) }, ..scene.row };
        let wreck = crash(&scene.row, &store, &world, one).await;
        let wreck = Wreck { row: &row, ..wreck };
        let Some(wreck) = wreck.crash_again(other).await else { continue };
        second += 1;
        refuse_who_lacks_a_key(&wreck).await;
        restarts += recover(scene, wreck).await;
    }
    expect!["62 second crashes, 177 restarts"].assert_eq(&format!("{second} second crashes, {restarts} restarts"));
}

/// A scene that ends without a fault ends with the promise fulfilled, so the matrix does not look at nothing.
#[tokio::test(start_paused = true)]
async fn a_rotation_ends_with_every_record_under_the_active_key() {
    for scene in rotations() {
        let (store, mut world) = scene.beginning().await;
        assert_eq!(scene.row.run(&store, &mut world).await, End::Rests(crate::migrate::status::State::None));
        let active = &scene.row.keys.later.unwrap_or(scene.row.keys.mine)[..1];
        let ledger = read_ledger(&store).await.unwrap();
        assert_eq!(ledger.marker.as_deref(), Some(active), "{}", scene.name);
        let needed: Vec<_> = ledger.entries.iter().filter(|(_, entry)| entry.needed).map(|(name, _)| name).collect();
        assert_eq!(needed, [active], "{}", scene.name);
        let under = crate::migrate::tests::seals::census(&store).await;
        assert_eq!(under.keys().collect::<Vec<_>>(), [active], "{}", scene.name);
    }
}
