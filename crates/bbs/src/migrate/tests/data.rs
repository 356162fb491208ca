//! What lies in the store before anything happens, and what clients ask for meanwhile.
//!
//! There is one of every kind and state, one record that is much larger than the others, and one with fields that nobody knows. The
//! script is a list without an end: what follows its last line are small commands that always succeed.

use bytes::Bytes;
use model::task::Ending;
use model::{
    ActualLrp, ActualLrpKey, ActualState, CellId, DesiredLrp, DesiredUpdate, Domain, DomainName, ImageCredentials,
    InstanceGuid, InstanceKey, MetricTag, ModificationTag, NetInfo, NewDefinition, PortMapping, Presence, ProcessGuid,
    Report, Resources, Task, TaskDefinition, TaskGuid, TaskState, UpdateStrategy,
};
use store::{Entity, Loader, Version, versions};

use crate::commands::{
    Claim, Command, Crash, DesireLrp, DesireTask, Evacuate, Evacuated, MoveTask, Remove, RemoveLrp, Start, TaskCall,
    UpdateLrp, UpsertDomain,
};

const LARGE_BYTES: usize = 6_000;
const FILLERS: usize = 5;
/// A field of protobuf with a number that no record has: 900, of the value 7.
const UNKNOWN_FIELD: &[u8] = &[0xA0, 0x38, 0x07];

/// Two records that cannot be read. A command of the script takes the key of the first.
pub(super) const POISONED_TASKS: [&str; 2] = ["poisoned-and-in-the-way", "poisoned"];
pub(super) const POISON: &[u8] = b"\xFFnothing that was ever written";

/// Everything that is there at first. It has room in the older version, so that going there loses nothing.
pub(super) fn entities(older: Version) -> Vec<Entity> {
    let mut entities = vec![
        Entity::Desired(desired("plain", 2)),
        Entity::Desired(DesiredLrp { run_info: vec![7; LARGE_BYTES].into(), ..desired("large", 1) }),
        Entity::Desired(routed()),
        Entity::Domain(Domain::upsert(name("apps"), 0, 0)),
        Entity::Domain(Domain::upsert(name("brief"), 900, 0)),
        with_unknown_field(&Entity::Domain(Domain::upsert(name("later"), 0, 0))),
    ];
    entities.extend(rows().into_iter().map(Entity::Actual));
    entities.extend(TaskState::ALL.into_iter().map(|state| Entity::Task(task(&format!("task-{state:?}"), state))));
    for at in 0..FILLERS {
        entities.push(Entity::Desired(desired(&format!("filler-{at}"), 1)));
        entities.push(Entity::Actual(ActualLrp::unclaimed(key(&format!("filler-{at}"), 0), "e".into(), 1)));
        entities.push(Entity::Task(task(&format!("filler-{at}"), TaskState::Pending)));
    }
    entities.into_iter().map(|entity| versions::through(older, entity.as_ref())).collect()
}

/// Where a task lies that cannot be read.
pub(super) fn poisoned_key(version: Version, guid: &str) -> String {
    let task = Entity::Task(task(guid, TaskState::Pending));
    versions::records(version, task.as_ref()).0.remove(0).0
}

fn with_unknown_field(entity: &Entity) -> Entity {
    let (records, _) = versions::records(Version::LATEST, entity.as_ref());
    let mut loader = Loader::new(Version::LATEST);
    let mut found = None;
    for (key, value) in records {
        found = loader.feed(&key, &[&value, UNKNOWN_FIELD].concat().into()).or(found);
    }
    found.unwrap()
}

fn desired(guid: &str, instances: i32) -> DesiredLrp {
    DesiredLrp {
        history: None,
        process_guid: process(guid),
        domain: name("apps"),
        log_guid: guid.into(),
        annotation: "first".into(),
        instances,
        resources: Resources { memory_mb: 64, disk_mb: 64, max_pids: 8, root_fs: "preloaded:linux".into() },
        placement_tags: vec![],
        volume_drivers: vec![],
        routes: model::Packed::default(),
        metric_tags: model::Packed::default(),
        metrics_guid: guid.into(),
        update_strategy: UpdateStrategy::ROLLING,
        image_credentials: ImageCredentials::default(),
        tag: ModificationTag::first(format!("epoch of {guid}").into()),
        run_info: Bytes::from_static(b"\x0a\x00"),
        definition: model::DefinitionNumber::FIRST,
        definition_identifier: String::new(),
        previous: None,
        unknown: model::Unknown::default(),
    }
}

fn routed() -> DesiredLrp {
    DesiredLrp {
        routes: [("cf-router".to_owned(), Bytes::from_static(b"[{\"port\":8080}]"))].into(),
        metric_tags: [
            ("source_id".to_owned(), MetricTag::Static("routed".into())),
            ("index".to_owned(), MetricTag::Index),
        ]
        .into(),
        placement_tags: vec!["ssd".into()],
        volume_drivers: vec!["nfs".into()],
        image_credentials: ImageCredentials { username: "puller".into(), password: "secret".into() },
        ..desired("routed", 2)
    }
}

/// Every state and every presence.
fn rows() -> Vec<ActualLrp> {
    let fresh = |guid, index| ActualLrp::unclaimed(key(guid, index), "epoch".into(), 1);
    let running = |guid, index, on| fresh(guid, index).started(&instance(guid, index, on), report(), 2);
    let crashed = ActualLrp {
        state: ActualState::Crashed,
        crash_count: 4,
        crash_reason: "exited with status 1".into(),
        ..fresh("large", 0)
    };
    vec![
        fresh("plain", 0),
        fresh("plain", 1).claimed(&instance("plain", 1, "a"), 2),
        running("routed", 0, "a"),
        running("routed", 0, "b").with_presence(Presence::Evacuating),
        fresh("routed", 1),
        running("routed", 1, "c").with_presence(Presence::Suspect),
        crashed,
    ]
}

fn task(guid: &str, state: TaskState) -> Task {
    let definition = TaskDefinition {
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        completion_callback_url: "http://caller.example".into(),
        annotation: String::new(),
        encoded: Bytes::from_static(b"\x0a\x00"),
    };
    let pending = Task::desire(task_guid(guid), name("apps"), definition, 1);
    let running = pending.start(&cell("a"), 2).unwrap().unwrap();
    let ending = Ending { failed: false, failure_reason: String::new(), result: "42".into() };
    let completed = running.complete(&cell("a"), &ending, 3).unwrap();
    match state {
        TaskState::Pending => pending,
        TaskState::Running => running,
        TaskState::Completed => completed,
        TaskState::Resolving => completed.resolve(4).unwrap(),
    }
}

/// What the clients ask for, one thing after the other.
pub(super) fn script(number: usize) -> Command {
    let update = |guid, update| Command::UpdateLrp(Box::new(UpdateLrp { process_guid: process(guid), update }));
    let scaled = |to| DesiredUpdate { instances: Some(to), ..DesiredUpdate::default() };
    let annotated = |text: &str| DesiredUpdate { annotation: Some(text.into()), ..DesiredUpdate::default() };
    let moved = |guid, call| Command::MoveTask(MoveTask { guid: task_guid(guid), call });
    match number {
        0 => update("routed", annotated("second")),
        1 => claim("filler-4", 0, "a"),
        2 => desire("new", 3),
        3 => start("filler-4", 0, "a"),
        4 => Command::RemoveLrp(RemoveLrp { process_guid: process("filler-0") }),
        5 => desire_task(POISONED_TASKS[0]),
        6 => moved("filler-3", TaskCall::Start { cell: cell("b") }),
        7 => crash("plain", 1, "a"),
        8 => moved("task-Resolving", TaskCall::Delete),
        9 => Command::UpsertDomain(UpsertDomain { name: name("fresh"), ttl_s: 0 }),
        10 => update("plain", scaled(4)),
        11 => evacuate("routed", 0, "a"),
        12 => update("new", DesiredUpdate { definition: Some(definition()), ..DesiredUpdate::default() }),
        13 => Command::Remove(Remove { process_guid: process("filler-1"), index: 0, by: None }),
        14 => update("nobody", scaled(1)),
        15 => update("large", scaled(0)),
        16 => moved("filler-2", TaskCall::Cancel),
        more if more.is_multiple_of(2) => update("routed", annotated(&format!("annotation {more}"))),
        more => desire_task(&format!("more-{more}")),
    }
}

fn definition() -> NewDefinition {
    NewDefinition {
        identifier: "v2".into(),
        resources: Resources { memory_mb: 128, ..Resources::default() },
        placement_tags: vec![],
        volume_drivers: vec![],
        log_guid: "new".into(),
        metrics_guid: "new".into(),
        run_info: Bytes::from_static(b"\x0a\x00"),
    }
}

fn desire(guid: &str, instances: i32) -> Command {
    Command::DesireLrp(Box::new(DesireLrp { lrp: desired(guid, instances) }))
}

fn desire_task(guid: &str) -> Command {
    let Task { guid, domain, definition, .. } = task(guid, TaskState::Pending);
    Command::DesireTask(Box::new(DesireTask { guid, domain, definition: TaskDefinition::clone(&definition) }))
}

fn claim(guid: &str, index: i32, on: &str) -> Command {
    Command::Claim(Claim { process_guid: process(guid), index, by: instance(guid, index, on) })
}

fn start(guid: &str, index: i32, on: &str) -> Command {
    let by = instance(guid, index, on);
    Command::Start(Box::new(Start { definition: None, key: key(guid, index), by, report: report() }))
}

fn crash(guid: &str, index: i32, on: &str) -> Command {
    Command::Crash(Crash { key: key(guid, index), by: instance(guid, index, on), reason: "exited".into() })
}

/// One step that changes two rows of a slot.
fn evacuate(guid: &str, index: i32, on: &str) -> Command {
    let what = Evacuated::Running(report());
    Command::Evacuate(Box::new(Evacuate { key: key(guid, index), by: instance(guid, index, on), what }))
}

fn report() -> Report {
    let ports = vec![PortMapping { container_port: 8080, host_port: 61001, ..PortMapping::default() }];
    Report {
        net_info: NetInfo { address: "10.0.0.1".into(), ports, ..NetInfo::default() },
        internal_routes: vec!["app.internal".into()],
        metric_tags: Some([("source_id".to_owned(), "app".to_owned())].into()),
        routable: true,
        availability_zone: "z1".into(),
    }
}

fn key(guid: &str, index: i32) -> ActualLrpKey {
    ActualLrpKey { process_guid: process(guid), index, domain: name("apps") }
}

fn instance(guid: &str, index: i32, on: &str) -> InstanceKey {
    let instance_guid = InstanceGuid::parse(&format!("{guid}-{index}-{on}")).unwrap();
    InstanceKey { instance_guid, cell_id: cell(on) }
}

fn process(guid: &str) -> ProcessGuid {
    ProcessGuid::parse(guid).unwrap()
}

fn task_guid(guid: &str) -> TaskGuid {
    TaskGuid::parse(guid).unwrap()
}

fn cell(on: &str) -> CellId {
    CellId::parse(on).unwrap()
}

fn name(domain: &str) -> DomainName {
    DomainName::parse(domain).unwrap()
}
