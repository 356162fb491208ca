//! A board that follows is compared with the board that a fresh load gives, whatever was committed in between.

mod acts;
mod driver;
mod recorder;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt;
use model::{CellId, DomainName};
use proptest::prelude::*;
use store::memory::Memory;
use store::root::{VersionRecord, put_version};
use store::seal::ledger::read_ledger;
use store::seal::{Count, Vault};
use store::{Change, Forms, Op, Step, Store, Version};

use self::acts::{Act, Master, Spoil, command, keys, packed, vandal};
use self::recorder::Recorder;
use super::followed::{Followed, Turn};
use crate::board::Board;
use crate::keys::open::Unlocked;
use crate::migrate::tests::seals;
use crate::phase::Phase;

/// A page that holds everything.
const WHOLE: usize = usize::MAX;

/// A node that waits, without the part of it that waits.
struct Standby {
    unlocked: Unlocked,
    followed: Followed,
}

impl Standby {
    async fn load(store: Arc<dyn Store>, version: Version, keys: &str) -> Self {
        let unlocked = unlocked(store, keys).await;
        let board = unlocked.load(version, &Phase::new()).await.unwrap();
        Self { unlocked, followed: Followed::new(board, version) }
    }

    async fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let turn = match &self.unlocked.vault {
                Some(vault) => {
                    let explain = |key: &str, value: &[u8]| vault.explain(key, value).map(|why| why.to_string());
                    self.followed.apply(&vault.heard(change), &explain)
                }
                None => self.followed.apply(change, &|_, _| None),
            };
            assert_eq!(turn, Turn::Applied);
            self.followed.board.check_indexes().unwrap();
            for key in self.followed.unsure().clone() {
                let bytes = self.unlocked.store.get(&key).await.unwrap();
                self.followed.settle(&key, bytes);
            }
        }
    }

    /// Whether all of it is what somebody finds who begins now.
    async fn compare(&self, store: &Memory, keys: &str, when: &str) {
        let fresh = Self::load(Arc::new(store.clone()), self.followed.version, keys).await;
        assert_same(&self.followed.board, &fresh.followed.board, when);
        if let (Some(mine), Some(other)) = (&self.unlocked.vault, &fresh.unlocked.vault) {
            assert_eq!(counts(mine), counts(other), "{when}");
            assert_eq!(mine.ledger(), read_ledger(store).await.unwrap(), "{when}");
        }
    }
}

async fn unlocked(store: Arc<dyn Store>, keys: &str) -> Unlocked {
    if keys.is_empty() {
        return Unlocked { store, vault: None };
    }
    let ledger = read_ledger(&*store).await.unwrap();
    let clock = crate::migrate::tests::world::ScriptClock::at(0);
    let stamps = Arc::new(crate::clock::ClockStamps(clock));
    let vault = Arc::new(Vault::new(store, seals::ring(keys), ledger, stamps));
    Unlocked { store: vault.clone(), vault: Some(vault) }
}

fn counts(vault: &Vault) -> Vec<Count> {
    let mut counts: Vec<Count> = vault.counts().into_iter().filter(|count| count.records > 0).collect();
    counts.sort_by(|a, b| a.key.cmp(&b.key));
    counts
}

/// Everything that a board says, line by line.
fn lines(board: &Board) -> Vec<String> {
    let mut lines = vec![format!("revision {}", board.revision), format!("{:?}", board.totals())];
    let cells = ["x", "y"].map(|name| CellId::parse(name).unwrap());
    let domains = ["apps", "more/apps"].map(|name| DomainName::parse(name).unwrap());
    for entry in board.desired.values() {
        lines.push(format!("{:?} {:?}", entry.lrp, entry.wire.scheduling().framed()));
    }
    for (key, entry) in &board.slots {
        let items: Vec<_> = entry.rows().map(|(_, item)| item.framed()).collect();
        lines.push(format!("{key:?} {:?} {items:?}", entry.slot));
    }
    lines.extend(board.tasks.values().map(|entry| format!("{:?} {:?}", entry.task, entry.item.framed())));
    lines.extend(board.domains.values().map(|domain| format!("{domain:?}")));
    for cell in &cells {
        lines.extend(board.slots_on(cell).map(|entry| format!("{cell} has {:?}", entry.slot)));
        lines.extend(board.tasks_on(cell).map(|entry| format!("{cell} has {:?}", entry.task.guid)));
    }
    for domain in &domains {
        lines.extend(board.slots_in(domain).map(|entry| format!("{domain} has {:?}", entry.slot)));
        lines.extend(board.desired_in(domain).map(|entry| format!("{domain} has {:?}", entry.lrp.process_guid)));
    }
    lines.extend(board.quarantine.iter().map(|(key, kept)| format!("{key}: {kept:?}")));
    lines
}

fn assert_same(found: &Board, fresh: &Board, when: &str) {
    found.check_indexes().unwrap();
    let (found, fresh) = (lines(found), lines(fresh));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    assert_eq!(only(&found, &fresh), only(&fresh, &found), "{when}");
    assert_eq!(found, fresh, "{when}");
}

/// Which versions are written, and what happens.
#[derive(Clone, Debug)]
struct Story {
    forms: Forms,
    /// The keys of the node that waits. Empty: it knows of none.
    keys: &'static str,
    acts: Vec<Act>,
    /// When the node begins to hear of changes, and when it loads.
    hears: prop::sample::Index,
    loads: prop::sample::Index,
    /// How many changes come as one, over and over.
    packs: Vec<usize>,
}

fn forms() -> impl Strategy<Value = Forms> {
    let version = || prop::sample::select(Version::ALL.to_vec());
    (version(), prop::option::of(version())).prop_map(|(current, target)| match target {
        Some(target) if target != current => Forms::both(current, target),
        _ => Forms::only(current),
    })
}

fn story(act: BoxedStrategy<Act>, keys: &'static [&'static str]) -> impl Strategy<Value = Story> {
    let (forms, keys) = (forms(), prop::sample::select(keys));
    let acts = prop::collection::vec(act, 1..40);
    let moments = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let packs = prop::collection::vec(1..5usize, 1..4);
    (forms, keys, acts, moments, packs).prop_map(|(forms, keys, acts, (hears, loads), packs)| Story {
        forms,
        keys,
        acts,
        hears,
        loads,
        packs,
    })
}

async fn tell(story: Story) {
    let version = story.forms.versions()[0];
    let (hears, loads) = (story.hears.index(story.acts.len()), story.loads.index(story.acts.len()));
    let (hears, loads) = (hears.min(loads), hears.max(loads));
    let mut master = Master::create(story.forms, WHOLE).await;
    let mut heard = 0;
    let mut nodes = Vec::new();
    for (at, act) in story.acts.iter().enumerate() {
        if at == hears {
            heard = master.store.told().len();
        }
        if at == loads {
            for _ in 0..2 {
                nodes.push(Standby::load(master.store.clone(), version, story.keys).await);
            }
        }
        master.act(act).await;
    }
    let changes = &master.store.told()[heard..];
    nodes[0].apply(changes).await;
    nodes[0].compare(&master.store.memory, story.keys, "one by one").await;
    let mut sizes = story.packs.iter().cycle();
    let mut rest = changes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
        nodes[1].apply(&[packed(now)]).await;
        rest = later;
    }
    nodes[1].compare(&master.store.memory, story.keys, "several in one").await;
}

/// The same acts, but the node reads a page, then some of them happen, then it reads the next.
async fn tell_while_it_reads(story: Story) {
    let version = story.forms.versions()[0];
    let mut master = Master::create(story.forms, WHOLE).await;
    let before = master.store.memory.copy();
    let first = master.store.told().len();
    for act in &story.acts {
        master.act(act).await;
    }
    let changes = master.store.told().split_off(first);
    let beside = Arc::new(Recorder::over(before.clone(), 1));
    let held = before.campaign("master").await.unwrap();
    let mut steps: VecDeque<Step> = changes.iter().map(|change| Step { ops: change.ops.clone() }).collect();
    let stage = before.clone();
    let go_on = Arc::new(Mutex::new(move |number: usize| {
        for step in steps.drain(..number.min(steps.len())) {
            stage.commit(&held, &[step]).now_or_never().unwrap().unwrap();
        }
    }));
    let (each_page, mut sizes) = (go_on.clone(), story.packs.into_iter().cycle());
    beside.on_read(move || each_page.lock().unwrap()(sizes.next().unwrap() - 1));
    let mut node = Standby::load(beside.clone(), version, story.keys).await;
    go_on.lock().unwrap()(usize::MAX);
    node.apply(&changes).await;
    node.compare(&before, story.keys, "as the store is").await;
    node.compare(&master.store.memory, story.keys, "beside somebody who writes").await;
}

fn run(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(story);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_clients_do_shows_as_a_load_shows_it(story in story(command().boxed(), &[""])) {
        run(tell(story));
    }

    #[test]
    fn what_cannot_be_read_comes_and_goes_as_a_load_says(
        story in story(prop_oneof![command(), vandal()].boxed(), &[""])
    ) {
        run(tell(story));
    }

    #[test]
    fn sealed_records_show_as_a_load_shows_them_and_are_counted(
        story in story(prop_oneof![4 => command(), 2 => vandal(), 3 => keys()].boxed(), &["AB", "A", "B"])
    ) {
        run(tell(story));
    }

    #[test]
    fn a_load_beside_a_writer_ends_where_a_load_alone_does(
        story in story(prop_oneof![6 => command(), 1 => vandal(), 2 => keys()].boxed(), &["AB", "A"])
    ) {
        run(tell_while_it_reads(story));
    }
}

fn put(key: &str, value: impl Into<Bytes>) -> Op {
    Op::Put { key: key.into(), value: value.into() }
}

#[test]
fn another_current_version_is_loaded_anew() {
    let version_of = |current: Version, target: Version| {
        let mut step = Step::default();
        put_version(&mut step, &VersionRecord::new(current.number(), target.number()));
        step.ops.remove(0)
    };
    let check = |op: Op, expected: Turn| {
        let mut followed = Followed::new(Board::default(), Version::Protobuf);
        let change = Change { revision: 4, ops: vec![put("/v1441411196/task/t", "?"), op.clone()] };
        assert_eq!(followed.apply(&change, &|_, _| None), expected, "{op:?}");
        let after = if expected == Turn::Applied { (4, 1) } else { (0, 0) };
        assert_eq!((followed.board.revision, followed.board.quarantine.len()), after, "{op:?}");
    };
    check(version_of(Version::Protobuf, Version::Protobuf), Turn::Applied);
    check(version_of(Version::Protobuf, Version::LATEST), Turn::Applied);
    check(version_of(Version::LATEST, Version::LATEST), Turn::Reload);
    check(version_of(Version::InitialJson, Version::Protobuf), Turn::Reload);
    check(put("/version", "?"), Turn::Reload);
    check(Op::Delete { key: "/version".into() }, Turn::Reload);
    check(put("/versions", "?"), Turn::Applied);
}

#[test]
fn a_panic_leaves_the_board_as_it_was() {
    let mut followed = Followed::new(Board::default(), Version::LATEST);
    let root = Version::LATEST.root();
    let change = |revision, key: &str| Change { revision, ops: vec![put(&format!("{root}task/{key}"), "?")] };
    assert_eq!(followed.apply(&change(4, "a"), &|_, _| None), Turn::Applied);
    let both = packed(&[change(5, "b"), change(6, "c")]);
    let defect = |key: &str, _: &[u8]| if key.ends_with('c') { panic!("a defect, on purpose") } else { None };
    assert_eq!(followed.apply(&both, &defect), Turn::Reload);
    assert_eq!((followed.board.revision, followed.board.quarantine.len()), (4, 1));
}

/// Of what was removed and desired again, one change tells only the end.
#[tokio::test]
async fn what_comes_back_in_another_domain_is_found_there() {
    let mut master = Master::create(Forms::only(Version::LATEST), WHOLE).await;
    let mut node = Standby::load(master.store.clone(), Version::LATEST, "").await;
    let told = master.store.told().len();
    for (kind, other) in [(2, 0), (0, 1)] {
        master.act(&Act::Command { kind, process: 1, index: 1, other }).await;
    }
    node.apply(&[packed(&master.store.told()[told..])]).await;
    let elsewhere = DomainName::parse("more/apps").unwrap();
    assert_eq!(node.followed.board.desired_in(&elsewhere).count(), 1);
    node.compare(&master.store.memory, "", "in another domain").await;
}

/// A DesiredLRP that another release wrote is torn apart: what is kept of it are the bytes of that release.
#[tokio::test]
async fn what_is_torn_is_kept_byte_for_byte() {
    for version in [Version::SplitDesiredLrp, Version::LrpDefinitions] {
        let mut master = Master::create(Forms::only(version), WHOLE).await;
        let records = crate::migrate::tests::world::dump(&master.store.memory).await;
        let schedule = records.keys().position(|key| key.contains("desired/schedule/p")).unwrap();
        let of_version = records.keys().position(|key| key.starts_with(version.root())).unwrap();
        let total = records.keys().filter(|key| key.starts_with(version.root())).count();
        let at = acts::index_of(schedule - of_version, total);
        master.act(&Act::Spoil { at, how: Spoil::Foreign }).await;
        let mut node = Standby::load(master.store.clone(), version, "").await;
        assert_eq!(node.followed.board.desired.len(), 2);
        let told = master.store.told().len();
        let other =
            records.keys().find(|key| key.contains("desired/") && key.contains("/p") && !key.contains("schedule"));
        let mut step = Step::default();
        step.delete(other.unwrap().as_str());
        master.reach_in(step).await;
        let change = &master.store.told()[told];
        let mut unsettled = node.followed.clone();
        assert_eq!(unsettled.apply(change, &|_, _| None), Turn::Applied);
        let key = records.keys().nth(schedule).unwrap();
        assert_eq!(unsettled.unsure().iter().collect::<Vec<_>>(), [key]);
        let raw = master.store.get(key).await.unwrap().unwrap();
        assert_ne!(unsettled.board.quarantine[key].bytes, raw, "this release writes it otherwise");
        node.apply(std::slice::from_ref(change)).await;
        node.compare(&master.store.memory, "", version.name()).await;
    }
}
