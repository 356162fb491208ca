//! What may happen to a store that somebody follows: commands of clients, a migration, a rotation, and hands that reach in.

use std::sync::Arc;

use bytes::Bytes;
use model::task::Ending;
use model::{
    ActualLrpKey, CellId, DesiredLrp, DesiredUpdate, DomainName, ImageCredentials, InstanceGuid, InstanceKey,
    ModificationTag, NetInfo, NewDefinition, ProcessGuid, Report, Resources, TaskDefinition, TaskGuid, UpdateStrategy,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use store::memory::Memory;
use store::root::{CONTROL_KEY, HISTORY_ROOT, VersionRecord, displaced_key, put_version};
use store::seal::Vault;
use store::seal::ledger::read_ledger;
use store::{EntityRef, Forms, Mastership, Op, Step, Store, Version, versions};

use super::recorder::Recorder;
use crate::board::Board;
use crate::clock::ClockStamps;
use crate::commands::{
    Claim, Command, Crash, DesireLrp, DesireTask, Draft, Evacuate, Evacuated, MoveTask, Remove, RemoveLrp, Setting,
    Start, TaskCall, UpdateLrp, UpsertDomain,
};
use crate::migrate::tests::seals::ring;
use crate::migrate::tests::world::{ScriptClock, TASK_REJECTIONS_MAX, dump};

const PROCESSES: [&str; 3] = ["p", "q r", "ä/b%"];
const CELLS: [&str; 2] = ["x", "y"];
const DOMAINS: [&str; 2] = ["apps", "more/apps"];
const UNKNOWN_FIELD: &[u8] = &[0xA0, 0x38, 0x07];

#[derive(Clone, Debug)]
pub(super) enum Act {
    Command {
        kind: u8,
        process: usize,
        index: i32,
        other: usize,
    },
    /// Somebody puts something under the key of a record.
    Spoil {
        at: prop::sample::Index,
        how: Spoil,
    },
    /// Somebody deletes a record.
    Lose {
        at: prop::sample::Index,
    },
    /// A record of something that the master has on its board is written once more.
    Mend {
        at: prop::sample::Index,
    },
    /// A record under a key that names nothing, or another spelling of a name.
    Stray {
        key: usize,
        there: bool,
    },
    /// A record that was moved aside comes or goes.
    Aside {
        at: prop::sample::Index,
        there: bool,
    },
    /// What is no record of the version that is served.
    Elsewhere {
        which: usize,
    },
    Keys(Keys),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Spoil {
    Poison,
    Cut,
    /// With a field that nobody knows, where this release would not write it.
    Foreign,
    /// What lies under another key.
    Other(u8),
    /// Sealed with a key that nobody has.
    Sealed,
}

#[derive(Clone, Debug)]
pub(super) enum Keys {
    /// From here on records are sealed with this one.
    Begin(&'static str),
    Reseal(prop::sample::Index),
    Finish,
}

pub(super) fn command() -> impl Strategy<Value = Act> {
    (0..20u8, 0..PROCESSES.len(), 0..3i32, 0..2usize).prop_map(|(kind, process, index, other)| Act::Command {
        kind,
        process,
        index,
        other,
    })
}

/// What hands do that reach into the store.
pub(super) fn vandal() -> impl Strategy<Value = Act> {
    let at = any::<prop::sample::Index>;
    let how = prop_oneof![
        Just(Spoil::Poison),
        Just(Spoil::Cut),
        Just(Spoil::Foreign),
        (1..5u8).prop_map(Spoil::Other),
        Just(Spoil::Sealed)
    ];
    prop_oneof![
        3 => (at(), how).prop_map(|(at, how)| Act::Spoil { at, how }),
        2 => at().prop_map(|at| Act::Lose { at }),
        3 => at().prop_map(|at| Act::Mend { at }),
        1 => (0..6usize, any::<bool>()).prop_map(|(key, there)| Act::Stray { key, there }),
        1 => (at(), any::<bool>()).prop_map(|(at, there)| Act::Aside { at, there }),
        1 => (0..4usize).prop_map(|which| Act::Elsewhere { which }),
    ]
}

pub(super) fn keys() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => prop::sample::select(vec!["A", "BA"]).prop_map(Keys::Begin),
        4 => any::<prop::sample::Index>().prop_map(Keys::Reseal),
        1 => Just(Keys::Finish),
    ]
    .prop_map(Act::Keys)
}

/// Whoever commits, without anything that a server has beside it.
pub(super) struct Master {
    pub(super) store: Arc<Recorder>,
    vault: Option<Arc<Vault>>,
    held: Mastership,
    board: Board,
    version: Version,
    forms: Arc<Forms>,
    done: usize,
}

impl Master {
    /// A store with something in it.
    pub(super) async fn create(forms: Forms, page_records: usize) -> Self {
        let store = Arc::new(Recorder::over(Memory::new(), page_records));
        let held = store.campaign("master").await.unwrap();
        let version = forms.versions()[0];
        let forms = Arc::new(forms);
        let mut master = Self { store, vault: None, held, board: Board::default(), version, forms, done: 0 };
        let mut step = Step::default();
        put_version(&mut step, &VersionRecord::new(version.number(), version.number()));
        master.reach_in(step).await;
        for (kind, process, index) in [(0, 0, 2), (0, 1, 1), (5, 0, 0), (4, 0, 1), (10, 0, 0), (19, 0, 0)] {
            master.act(&Act::Command { kind, process, index, other: 0 }).await;
        }
        master
    }

    pub(super) async fn act(&mut self, act: &Act) {
        self.done += 1;
        let all: Vec<(String, Bytes)> = dump(&self.store.memory).await.into_iter().collect();
        let records: Vec<_> = all.iter().filter(|(key, _)| key.starts_with(self.version.root())).cloned().collect();
        let mut step = Step::default();
        match act {
            Act::Command { kind, process, index, other } => {
                return self.command(command_of(*kind, PROCESSES[*process], *index, *other)).await;
            }
            Act::Keys(keys) => return self.keys(keys, &records).await,
            Act::Spoil { at, how } if !records.is_empty() => {
                let (key, value) = at.get(&records);
                step.put(key.as_str(), spoilt(*how, at.index(records.len()), &records, value));
            }
            Act::Lose { at } if !records.is_empty() => step.delete(at.get(&records).0.as_str()),
            Act::Mend { at } => {
                let whole = self.written();
                if !whole.is_empty() {
                    let (key, value) = at.get(&whole);
                    step.put(key.as_str(), value.clone());
                }
            }
            Act::Stray { key, there } => {
                let below = ["task/%70", "actual/p/00/ordinary", "desired/p/x", "other/p", "domain/", "task/a/b"][*key];
                let key = format!("{}{below}", self.version.root());
                match records.first() {
                    Some((_, value)) if *there => step.put(key, value.clone()),
                    _ => step.delete(key),
                }
            }
            Act::Aside { at, there: true } if !records.is_empty() => {
                let (key, value) = at.get(&records);
                step.put(displaced_key(self.done as i64, key), value.clone());
            }
            Act::Aside { at, .. } => {
                let aside: Vec<_> = all.iter().filter(|(key, _)| key.starts_with("/quarantine/")).collect();
                if !aside.is_empty() {
                    step.delete(at.get(&aside).0.as_str());
                }
            }
            Act::Elsewhere { which } => match which {
                0 => step.put(CONTROL_KEY, "{}"),
                1 => step.put(format!("{HISTORY_ROOT}1"), "?"),
                2 => step.put("/v7/task/p", "?"),
                _ => put_version(&mut step, &VersionRecord::new(self.version.number(), Version::LATEST.number())),
            },
            Act::Spoil { .. } | Act::Lose { .. } => {}
        }
        self.reach_in(step).await;
    }

    /// Commits below everything that knows of keys.
    pub(super) async fn reach_in(&self, step: Step) {
        self.store.commit(&self.held, &[step]).await.unwrap();
    }

    /// All records of what is on the board, as the version that is served writes them.
    fn written(&self) -> Vec<(String, Bytes)> {
        let desired = self.board.desired.values().map(|entry| EntityRef::Desired(&entry.lrp));
        let rows = self.board.slots.values().flat_map(|entry| entry.slot.rows());
        let rows = rows.map(|row| EntityRef::Actual(row));
        let tasks = self.board.tasks.values().map(|entry| EntityRef::Task(&entry.task));
        let all = desired.chain(rows).chain(tasks);
        all.flat_map(|entity| versions::records(self.version, entity).0).collect()
    }

    async fn command(&mut self, command: Command) {
        let clock = ScriptClock::at(self.done);
        let now_ns = crate::clock::Clock::now_ns(&*clock);
        let setting = Setting { definitions_kept: 5, now_ns, clock, task_rejections_max: TASK_REJECTIONS_MAX };
        let mut draft = Draft::new(self.board.clone(), setting, self.forms.clone());
        let _ = command.apply(&mut draft);
        if !draft.lost.is_empty() || draft.steps.is_empty() {
            return;
        }
        let through: &dyn Store = match &self.vault {
            Some(vault) => &**vault,
            None => &*self.store,
        };
        through.commit(&self.held, &draft.steps).await.unwrap();
        self.board = draft.board;
    }

    async fn keys(&mut self, keys: &Keys, records: &[(String, Bytes)]) {
        let mut step = Step::default();
        match keys {
            Keys::Begin(active) => {
                let vault = match self.vault.take() {
                    Some(vault) => vault,
                    None => {
                        let ledger = read_ledger(&*self.store).await.unwrap();
                        let stamps = Arc::new(ClockStamps(ScriptClock::at(0)));
                        Arc::new(Vault::new(self.store.clone(), ring(active), ledger, stamps))
                    }
                };
                vault.begin(&mut step, &ring(active), 7);
                vault.commit(&self.held, &[step]).await.unwrap();
                vault.replace_keys(ring(active));
                self.vault = Some(vault);
            }
            Keys::Reseal(at) => {
                let Some(vault) = self.vault.as_ref().filter(|_| !records.is_empty()) else { return };
                let (key, value) = at.get(records);
                if let Ok(Some(resealed)) = vault.reseal(key, value) {
                    step.put(key.as_str(), resealed);
                    vault.commit(&self.held, &[step]).await.unwrap();
                }
            }
            Keys::Finish => {
                let Some(vault) = &self.vault else { return };
                vault.finish(&mut step);
                vault.commit(&self.held, &[step]).await.unwrap();
            }
        }
    }
}

/// What picks this one out of so many.
pub(super) fn index_of(at: usize, of: usize) -> prop::sample::Index {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let any_index = any::<prop::sample::Index>();
    let draw = || any_index.new_tree(&mut runner).unwrap().current();
    std::iter::repeat_with(draw).find(|index| index.index(of) == at).unwrap()
}

/// Changes that come as one: of several operations on a key only the last is told.
pub(super) fn packed(changes: &[store::Change]) -> store::Change {
    let mut ops: Vec<Op> = Vec::new();
    for op in changes.iter().flat_map(|change| &change.ops) {
        ops.retain(|earlier| earlier.key() != op.key());
        ops.push(op.clone());
    }
    store::Change { revision: changes.last().unwrap().revision, ops }
}

fn spoilt(how: Spoil, at: usize, records: &[(String, Bytes)], value: &Bytes) -> Bytes {
    match how {
        Spoil::Poison => Bytes::from_static(b"\xFFpoison"),
        Spoil::Cut => value.slice(..value.len() / 2),
        Spoil::Foreign => match value.iter().position(|byte| *byte == b':') {
            Some(colon) if value.starts_with(b"0003") => {
                [&value[..=colon], UNKNOWN_FIELD, &value[colon + 1..]].concat().into()
            }
            _ => value.clone(),
        },
        Spoil::Other(by) => records[(at + usize::from(by)) % records.len()].1.clone(),
        Spoil::Sealed => Bytes::from_static(b"0007Z:bytes that nobody opens, long enough for a stamp"),
    }
}

fn command_of(kind: u8, process: &str, index: i32, other: usize) -> Command {
    let process_guid = ProcessGuid::parse(process).unwrap();
    let domain = DomainName::parse(DOMAINS[other]).unwrap();
    let key = ActualLrpKey { process_guid: process_guid.clone(), index, domain: domain.clone() };
    let cell = CellId::parse(CELLS[other]).unwrap();
    let by =
        InstanceKey { instance_guid: InstanceGuid::parse(&format!("{index}-{other}")).unwrap(), cell_id: cell.clone() };
    let update = |update| Command::UpdateLrp(Box::new(UpdateLrp { process_guid: process_guid.clone(), update }));
    let moved = |call| Command::MoveTask(MoveTask { guid: TaskGuid::parse(process).unwrap(), call });
    match kind {
        0 | 1 => Command::DesireLrp(Box::new(DesireLrp { lrp: desired(process_guid, domain, index) })),
        2 => Command::RemoveLrp(RemoveLrp { process_guid }),
        3 => update(DesiredUpdate { annotation: Some(format!("{index}{other}")), ..DesiredUpdate::default() }),
        4 => Command::Claim(Claim { process_guid, index, by }),
        5 | 6 => Command::Start(Box::new(Start { definition: None, key, by, report: report() })),
        7 => Command::Crash(Crash { key, by, reason: "exited".into() }),
        8 => Command::Evacuate(Box::new(Evacuate { key, by, what: Evacuated::Running(report()) })),
        9 => Command::Remove(Remove { process_guid, index, by: None }),
        10 | 11 => {
            let guid = TaskGuid::parse(process).unwrap();
            Command::DesireTask(Box::new(DesireTask { guid, domain, definition: task_definition() }))
        }
        12 => moved(TaskCall::Start { cell }),
        13 => moved(TaskCall::Complete {
            cell,
            ending: Ending { failed: false, failure_reason: String::new(), result: "42".into() },
        }),
        14 => moved(TaskCall::Resolve),
        15 => moved(TaskCall::Delete),
        16 | 17 => update(DesiredUpdate { definition: Some(definition(index)), ..DesiredUpdate::default() }),
        18 => update(DesiredUpdate { instances: Some(index), ..DesiredUpdate::default() }),
        _ => Command::UpsertDomain(UpsertDomain { name: domain, ttl_s: 9 }),
    }
}

fn report() -> Report {
    Report {
        net_info: NetInfo { address: "10.0.0.1".into(), ..NetInfo::default() },
        internal_routes: vec!["app.internal".into()],
        metric_tags: None,
        routable: true,
        availability_zone: "z1".into(),
    }
}

fn desired(process_guid: ProcessGuid, domain: DomainName, instances: i32) -> DesiredLrp {
    DesiredLrp {
        history: None,
        process_guid,
        domain,
        log_guid: "log".into(),
        annotation: "first".into(),
        instances,
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        routes: model::Packed::default(),
        metric_tags: model::Packed::default(),
        metrics_guid: "metrics".into(),
        update_strategy: UpdateStrategy::ROLLING,
        image_credentials: ImageCredentials::default(),
        tag: ModificationTag::first("epoch".into()),
        run_info: Bytes::from_static(b"\x0a\x00"),
        definition: model::DefinitionNumber::FIRST,
        definition_identifier: String::new(),
        previous: None,
        unknown: model::Unknown::default(),
    }
}

fn definition(number: i32) -> NewDefinition {
    NewDefinition {
        identifier: format!("v{number}"),
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        log_guid: "log".into(),
        metrics_guid: "metrics".into(),
        run_info: Bytes::from_static(b"\x0a\x00"),
    }
}

fn task_definition() -> TaskDefinition {
    TaskDefinition {
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        completion_callback_url: "http://caller.example".into(),
        annotation: String::new(),
        encoded: Bytes::from_static(b"\x0a\x00"),
    }
}
