//! A scripted day of a platform: every kind of command, in groups as they would meet in one commit.
//!
//! Each group is made from the board before it, because convergence plans on what it sees. What comes in from outside (the
//! time, fresh ids) depends only on the number of the group, so a group that is tried again does exactly the same again.

use api::convert::desired_lrp::internal_hostnames;
use bytes::Bytes;
use model::converge::{Cells, lrps, tasks};
use model::task::Ending;
use model::{
    ActualLrpKey, CellId, DesiredLrp, DesiredUpdate, DomainName, ImageCredentials, InstanceGuid, InstanceKey,
    MetricTag, ModificationTag, NANOS_PER_SECOND, Nanos, NetInfo, ProcessGuid, Refusal, Report, Resources,
    TaskDefinition, TaskGuid, TaskState, UpdateStrategy,
};

use crate::board::Board;
use crate::commands::{
    Claim, Command, ConvergeLrps, ConvergeTasks, Crash, DesireLrp, DesireTask, Done, Evacuate, Evacuated, Fail,
    MoveTask, Remove, RemoveEvacuating, RemoveLrp, RetireUnheld, Start, TaskCall, UpdateLrp, UpsertDomain,
};

/// Enough for a desire that needs several steps: a step takes some sixty records.
const INSTANCES: i32 = 200;
/// Groups are so far apart that tasks expire, crashes are forgiven and short domains end within the script.
pub(super) const GROUP_APART_NS: Nanos = 300 * NANOS_PER_SECOND;

/// What a command of the script must be answered when its group is stored.
pub(super) type Expected = Result<Done, Refusal>;
pub(super) type Scripted = (Command, Expected);
type Group = fn(&Board, Nanos) -> Vec<Scripted>;

pub(super) const GROUPS: &[Group] = &[
    wishes,
    containers,
    troubles,
    silent_cell,
    cell_returns,
    draining,
    scaling,
    first_tasks,
    tasks_end,
    tasks_are_cleared,
    expiries,
    farewells,
];

fn wishes(_: &Board, _: Nanos) -> Vec<Scripted> {
    vec![
        ok(upsert_domain("apps", 0)),
        ok(upsert_domain("short", 60)),
        ok(upsert_domain("brief", 60)),
        ok(desire("web", INSTANCES)),
        ok(desire("small", 1)),
        refused(desire("small", 2), Refusal::Exists),
    ]
}

fn containers(_: &Board, _: Nanos) -> Vec<Scripted> {
    let mut group = Vec::new();
    for index in 0..36 {
        group.push(ok(claim("web", index, "a")));
        group.push(ok(start("web", index, "a")));
    }
    group.push(ok(claim("web", 38, "b")));
    group.push(refused(claim("web", 0, "b"), Refusal::CannotBeClaimed));
    group.push(ok(start("small", 0, "b")));
    // A container of a process that nobody wants is recorded too; convergence stops it.
    group.push(ok(start("stray", 3, "b")));
    group
}

fn troubles(_: &Board, _: Nanos) -> Vec<Scripted> {
    let fail = Command::Fail(Fail { key: key("web", 40), reason: "insufficient resources".into() });
    let remove = |index| {
        let by = None;
        Command::Remove(Remove { process_guid: process("web"), index, by })
    };
    let unheld = Command::RetireUnheld(RetireUnheld { key: key("web", 42), gone: None });
    vec![
        ok(crash("web", 0, "a")),
        refused(crash("web", 1, "b"), Refusal::CannotBeCrashed),
        ok(fail),
        ok(remove(41)),
        refused(remove(41), Refusal::NotFound),
        ok(unheld),
        ok(remove(37)),
        // The crash is stored although the caller is told that there is nothing to restart.
        refused(crash("stray", 3, "b"), Refusal::NotFound),
    ]
}

/// Cell `a` falls silent: its instances become suspects, and what is missing is created.
///
/// Three single records come before them, so that the end of a step falls between the two rows of some slot, if it can.
fn silent_cell(board: &Board, now_ns: Nanos) -> Vec<Scripted> {
    converge_lrps(board, &["b"], now_ns)
}

fn cell_returns(board: &Board, now_ns: Nanos) -> Vec<Scripted> {
    let mut group = vec![
        // Replacements that run make their suspects go.
        ok(claim("web", 1, "b")),
        ok(start("web", 1, "b")),
        ok(start("web", 2, "c")),
        ok(crash("web", 3, "a")),
    ];
    group.extend(converge_lrps(board, &["a", "b", "c"], now_ns));
    group
}

fn draining(_: &Board, _: Nanos) -> Vec<Scripted> {
    let evacuate = |index, what, by| {
        Command::Evacuate(Box::new(Evacuate { key: key("web", index), by: instance("web", index, by), what }))
    };
    let done = |keep, refusal| Done::Evacuated { keep, refusal };
    let drop_row = |by| RemoveEvacuating { key: key("web", 4), by: instance("web", 4, by) };
    vec![
        (evacuate(4, Evacuated::Running(report("web", 4)), "a"), Ok(done(true, None))),
        (evacuate(5, Evacuated::Running(report("web", 5)), "a"), Ok(done(true, None))),
        (evacuate(6, Evacuated::Crashed("drained".into()), "a"), Ok(done(false, None))),
        (evacuate(7, Evacuated::Stopped, "a"), Ok(done(false, None))),
        (evacuate(38, Evacuated::Claimed, "b"), Ok(done(false, None))),
        (evacuate(39, Evacuated::Stopped, "a"), Ok(done(false, Some(Refusal::NotFound)))),
        ok(start("web", 5, "c")),
        ok(Command::RemoveEvacuating(drop_row("a"))),
        refused(Command::RemoveEvacuating(drop_row("a")), Refusal::NotFound),
    ]
}

fn scaling(_: &Board, _: Nanos) -> Vec<Scripted> {
    let update = |update| Command::UpdateLrp(Box::new(UpdateLrp { process_guid: process("web"), update }));
    let to = |instances| DesiredUpdate { instances: Some(instances), ..DesiredUpdate::default() };
    let tags = [("source_id".to_owned(), MetricTag::Static("renamed".into()))].into_iter().collect();
    let credentials = ImageCredentials { username: "puller".into(), password: "secret".into() };
    let elsewhere = UpdateLrp { process_guid: process("nobody"), update: to(1) };
    vec![
        ok(update(to(INSTANCES + 80))),
        ok(update(DesiredUpdate { annotation: Some("new".into()), ..DesiredUpdate::default() })),
        ok(update(DesiredUpdate { metric_tags: Some(tags), ..DesiredUpdate::default() })),
        ok(update(DesiredUpdate { image_credentials: Some(credentials), ..DesiredUpdate::default() })),
        ok(update(to(10))),
        refused(Command::UpdateLrp(Box::new(elsewhere)), Refusal::NotFound),
    ]
}

fn first_tasks(_: &Board, _: Nanos) -> Vec<Scripted> {
    let mut group: Vec<Scripted> = (0..8).map(|number| ok(desire_task(number))).collect();
    group.push(refused(desire_task(0), Refusal::Exists));
    for number in 0..5 {
        group.push((run_task(number, "a"), Ok(Done::TaskStarted { should_start: true })));
    }
    group.push((run_task(0, "a"), Ok(Done::TaskStarted { should_start: false })));
    let elsewhere = Refusal::TaskTransition { from: TaskState::Running, to: TaskState::Running };
    group.push(refused(run_task(0, "b"), elsewhere));
    group
}

fn tasks_end(_: &Board, _: Nanos) -> Vec<Scripted> {
    let ending = || Ending { failed: false, failure_reason: String::new(), result: "42".into() };
    let complete = |number, by: &str| move_task(number, TaskCall::Complete { cell: cell(by), ending: ending() });
    let other = Refusal::RunningOnDifferentCell { actual: cell("a"), caller: cell("b") };
    vec![
        ok(complete(0, "a")),
        refused(complete(1, "b"), other),
        ok(move_task(1, TaskCall::Fail { reason: "out of disk".into() })),
        ok(move_task(2, TaskCall::Cancel)),
        ok(move_task(3, TaskCall::Reject { reason: "full".into() })),
        ok(move_task(0, TaskCall::Resolve)),
        ok(move_task(0, TaskCall::Delete)),
        refused(move_task(0, TaskCall::Delete), Refusal::NotFound),
        ok(move_task(1, TaskCall::Resolve)),
    ]
}

fn tasks_are_cleared(board: &Board, now_ns: Nanos) -> Vec<Scripted> {
    let second_ns = NANOS_PER_SECOND;
    let timing = tasks::Timing {
        expire_pending_ns: 400 * second_ns,
        expire_completed_ns: 200 * second_ns,
        kick_ns: second_ns,
        give_up_ns: 300 * second_ns,
    };
    let all = board.tasks.values().map(|entry| &*entry.task);
    let decisions = tasks::plan(all, &live(&["b"]), timing, now_ns).decisions;
    assert!(decisions.len() > 4, "the script leaves something to do for convergence: {decisions:?}");
    vec![ok(Command::ConvergeTasks(ConvergeTasks { decisions }))]
}

fn expiries(board: &Board, now_ns: Nanos) -> Vec<Scripted> {
    let mut group = converge_lrps(board, &["a", "c"], now_ns);
    group.push(ok(upsert_domain("short", 1)));
    group
}

fn farewells(_: &Board, _: Nanos) -> Vec<Scripted> {
    let remove = |guid| Command::RemoveLrp(RemoveLrp { process_guid: process(guid) });
    vec![ok(remove("web")), ok(remove("small")), refused(remove("small"), Refusal::NotFound), ok(desire("web", 3))]
}

fn converge_lrps(board: &Board, alive: &[&str], now_ns: Nanos) -> Vec<Scripted> {
    let decisions = lrps::plan(board, &live(alive), &internal_hostnames, now_ns).decisions;
    assert!(!decisions.is_empty(), "the script leaves something to do for convergence");
    let chunks = decisions.chunks(64);
    chunks.map(|chunk| ok(Command::ConvergeLrps(ConvergeLrps { decisions: chunk.to_vec() }))).collect()
}

fn ok(command: Command) -> Scripted {
    let expected = Done::Ok;
    (command, Ok(expected))
}

fn refused(command: Command, refusal: Refusal) -> Scripted {
    (command, Err(refusal))
}

fn live(names: &[&str]) -> Cells {
    Cells::Live(names.iter().map(|name| cell(name)).collect())
}

pub(super) fn process(guid: &str) -> ProcessGuid {
    ProcessGuid::parse(guid).unwrap()
}

fn cell(name: &str) -> CellId {
    CellId::parse(name).unwrap()
}

fn key(guid: &str, index: i32) -> ActualLrpKey {
    ActualLrpKey { process_guid: process(guid), index, domain: DomainName::parse("apps").unwrap() }
}

/// The container of an index on a cell.
fn instance(guid: &str, index: i32, on: &str) -> InstanceKey {
    let instance_guid = InstanceGuid::parse(&format!("{guid}-{index}-{on}")).unwrap();
    InstanceKey { instance_guid, cell_id: cell(on) }
}

fn report(guid: &str, index: i32) -> Report {
    Report {
        net_info: NetInfo { address: format!("10.0.0.{index}"), ..NetInfo::default() },
        internal_routes: vec![format!("{guid}.internal")],
        metric_tags: Some([("source_id".to_owned(), guid.to_owned())].into_iter().collect()),
        routable: true,
        availability_zone: "z1".into(),
    }
}

pub(super) fn upsert_domain(name: &str, ttl_s: u32) -> Command {
    Command::UpsertDomain(UpsertDomain { name: DomainName::parse(name).unwrap(), ttl_s })
}

pub(super) fn desire(guid: &str, instances: i32) -> Command {
    desire_with(guid, instances, Bytes::from_static(b"\x0a\x03run"))
}

pub(super) fn desire_with(guid: &str, instances: i32, run_info: Bytes) -> Command {
    let lrp = DesiredLrp {
        history: None,
        process_guid: process(guid),
        domain: DomainName::parse("apps").unwrap(),
        log_guid: guid.into(),
        annotation: "first".into(),
        instances,
        resources: Resources { memory_mb: 64, disk_mb: 64, max_pids: 8, root_fs: "preloaded:linux".into() },
        placement_tags: vec!["blue".into()],
        volume_drivers: vec![],
        routes: [("cf-router".to_owned(), Bytes::from_static(b"[]"))].into_iter().collect(),
        metric_tags: [("source_id".to_owned(), MetricTag::Static(guid.into()))].into_iter().collect(),
        metrics_guid: guid.into(),
        update_strategy: UpdateStrategy::ROLLING,
        image_credentials: ImageCredentials::default(),
        tag: ModificationTag::first(format!("epoch of {guid}").into()),
        run_info,
        definition: model::DefinitionNumber::FIRST,
        definition_identifier: String::new(),
        previous: None,
        unknown: model::Unknown::default(),
    };
    Command::DesireLrp(Box::new(DesireLrp { lrp }))
}

pub(super) fn claim(guid: &str, index: i32, on: &str) -> Command {
    Command::Claim(Claim { process_guid: process(guid), index, by: instance(guid, index, on) })
}

fn start(guid: &str, index: i32, on: &str) -> Command {
    let by = instance(guid, index, on);
    Command::Start(Box::new(Start { definition: None, key: key(guid, index), by, report: report(guid, index) }))
}

fn crash(guid: &str, index: i32, on: &str) -> Command {
    let by = instance(guid, index, on);
    Command::Crash(Crash { key: key(guid, index), by, reason: "exited with status 1".into() })
}

fn task_guid(number: u32) -> TaskGuid {
    TaskGuid::parse(&format!("task-{number}")).unwrap()
}

pub(super) fn desire_task(number: u32) -> Command {
    let definition = TaskDefinition {
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        completion_callback_url: "http://caller.example".into(),
        annotation: String::new(),
        encoded: Bytes::from_static(b"\x0a\x04task"),
    };
    let domain = DomainName::parse("apps").unwrap();
    Command::DesireTask(Box::new(DesireTask { guid: task_guid(number), domain, definition }))
}

fn run_task(number: u32, on: &str) -> Command {
    move_task(number, TaskCall::Start { cell: cell(on) })
}

fn move_task(number: u32, call: TaskCall) -> Command {
    Command::MoveTask(MoveTask { guid: task_guid(number), call })
}
