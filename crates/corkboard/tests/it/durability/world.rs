//! What one writer knows: the records that it alone changes, as far as the server has acknowledged them.
//!
//! The model is smaller than the server's own: only what a client can see and predict. A writer sends nothing but calls
//! that must succeed, so an answer that refuses one is a lost write.

use std::collections::{BTreeMap, BTreeSet};

use api::client::{Client, ClientError};
use api::models::{
    Action, ActualLrp, ActualLrpInstanceKey, ActualLrpKey, ActualLrpNetInfo, CompleteTaskRequest, DesiredLrp,
    DesiredLrpUpdate, MetricTagValue, RunAction, StartActualLrpRequest, Task, TaskDefinition, task,
};

use super::dice::Dice;

pub(crate) const CELLS: u64 = 3;
const LRPS_MAX: usize = 3;
const TASKS_MAX: usize = 4;
const DOMAINS_MAX: u64 = 5;
/// Below this many crashes an instance is started again at once.
const CRASHES_UNTIL_WAIT: i32 = 3;
const DOMAIN: &str = "apps";
const OUTPUT: &str = "done";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lrp {
    pub(crate) instances: i32,
    pub(crate) annotation: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) state: String,
    /// Instance guid and cell, when a cell has it.
    pub(crate) holder: Option<(String, String)>,
    pub(crate) crash_count: i32,
}

impl Row {
    fn unclaimed() -> Self {
        Self { state: "UNCLAIMED".into(), holder: None, crash_count: 0 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) state: task::State,
    pub(crate) cell: String,
    pub(crate) result: String,
    pub(crate) failed: bool,
}

/// Records by id. The ids of a writer begin with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) lrps: BTreeMap<String, Lrp>,
    pub(crate) rows: BTreeMap<(String, i32), Row>,
    pub(crate) tasks: BTreeMap<String, Job>,
    pub(crate) domains: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Desire { guid: String, instances: i32, annotation: String },
    Update { guid: String, instances: i32, annotation: String },
    RemoveLrp { guid: String },
    Claim { guid: String, index: i32, holder: (String, String) },
    Start { guid: String, index: i32, holder: (String, String) },
    Crash { guid: String, index: i32, holder: (String, String) },
    RemoveRow { guid: String, index: i32, holder: (String, String) },
    DesireTask { guid: String },
    StartTask { guid: String, cell: String },
    CompleteTask { guid: String, cell: String },
    CancelTask { guid: String },
    ResolveTask { guid: String },
    DeleteTask { guid: String },
    UpsertDomain { name: String },
}

impl World {
    /// A call that must succeed in this world. Ids that are gone are never used again.
    pub(crate) fn choose(&self, writer: &str, dice: &mut Dice) -> Op {
        let fresh = format!("{writer}-{:016x}", dice.next());
        let annotation = format!("{:x}", dice.next());
        match dice.below(12) {
            0 if self.lrps.len() < LRPS_MAX => {
                // Now and then so many that the change is more than one step.
                let instances = if dice.below(8) == 0 { 90 } else { 1 + dice.below(4) as i32 };
                return Op::Desire { guid: fresh, instances, annotation };
            }
            1 if self.lrps.len() == LRPS_MAX && dice.below(2) == 0 => {
                return Op::RemoveLrp { guid: dice.pick(self.lrps.keys()).unwrap().clone() };
            }
            2 => {
                if let Some(guid) = dice.pick(self.lrps.keys()) {
                    return Op::Update { guid: guid.clone(), instances: dice.below(6) as i32, annotation };
                }
            }
            3 => return Op::UpsertDomain { name: format!("{writer}-{}", dice.below(DOMAINS_MAX)) },
            4 if self.tasks.len() < TASKS_MAX => return Op::DesireTask { guid: fresh },
            5..=7 => {
                if let Some((guid, task)) = dice.pick(self.tasks.iter()) {
                    return next_of_task(guid.clone(), task, dice);
                }
            }
            _ => {
                if let Some(((guid, index), row)) = dice.pick(self.rows.iter())
                    && let Some(op) = self.next_of_row(guid.clone(), *index, row, dice)
                {
                    return op;
                }
            }
        }
        Op::UpsertDomain { name: format!("{writer}-{}", dice.below(DOMAINS_MAX)) }
    }

    fn next_of_row(&self, guid: String, index: i32, row: &Row, dice: &mut Dice) -> Option<Op> {
        // The crash of an instance that nobody wants is stored, but answered with an error; so it is not sent.
        let wanted = self.lrps.contains_key(&guid);
        Some(match (row.state.as_str(), row.holder.clone()) {
            ("UNCLAIMED", _) => {
                let holder = (format!("{:x}", dice.next()), cell(dice.below(CELLS)));
                Op::Claim { guid, index, holder }
            }
            ("CLAIMED", Some(holder)) => Op::Start { guid, index, holder },
            ("RUNNING", Some(holder)) if wanted && dice.below(3) > 0 => Op::Crash { guid, index, holder },
            ("RUNNING", Some(holder)) => Op::RemoveRow { guid, index, holder },
            _ => return None,
        })
    }

    /// The world once the call has been carried out.
    pub(crate) fn after(&self, op: &Op) -> Self {
        let mut world = self.clone();
        match op.clone() {
            Op::Desire { guid, instances, annotation } => {
                world.create_rows(&guid, instances);
                world.lrps.insert(guid, Lrp { instances, annotation });
            }
            Op::Update { guid, instances, annotation } => {
                world.create_rows(&guid, instances);
                // Only shrinking removes rows: what crashed beyond the end before is left to convergence.
                if instances < world.lrps[&guid].instances {
                    world.drop_unheld(&guid, instances);
                }
                world.lrps.insert(guid, Lrp { instances, annotation });
            }
            Op::RemoveLrp { guid } => {
                world.drop_unheld(&guid, 0);
                world.lrps.remove(&guid);
            }
            Op::Claim { guid, index, holder } => {
                let row = world.rows.get_mut(&(guid, index)).unwrap();
                *row = Row { state: "CLAIMED".into(), holder: Some(holder), ..row.clone() };
            }
            Op::Start { guid, index, holder } => {
                let row = world.rows.get_mut(&(guid, index)).unwrap();
                *row = Row { state: "RUNNING".into(), holder: Some(holder), ..row.clone() };
            }
            Op::Crash { guid, index, .. } => {
                let row = world.rows.get_mut(&(guid, index)).unwrap();
                let crash_count = row.crash_count + 1;
                let state = if crash_count < CRASHES_UNTIL_WAIT { "UNCLAIMED" } else { "CRASHED" };
                *row = Row { state: state.into(), holder: None, crash_count };
            }
            Op::RemoveRow { guid, index, .. } => {
                world.rows.remove(&(guid, index));
            }
            Op::DesireTask { guid } => {
                world.tasks.insert(guid, Job::in_state(task::State::Pending));
            }
            Op::StartTask { guid, cell } => {
                world.tasks.insert(guid, Job { cell, ..Job::in_state(task::State::Running) });
            }
            Op::CompleteTask { guid, .. } => {
                let done = Job { result: OUTPUT.into(), ..Job::in_state(task::State::Completed) };
                world.tasks.insert(guid, done);
            }
            Op::CancelTask { guid } => {
                world.tasks.insert(guid, Job { failed: true, ..Job::in_state(task::State::Completed) });
            }
            Op::ResolveTask { guid } => world.tasks.get_mut(&guid).unwrap().state = task::State::Resolving,
            Op::DeleteTask { guid } => {
                world.tasks.remove(&guid);
            }
            Op::UpsertDomain { name } => {
                world.domains.insert(name);
            }
        }
        world
    }

    fn create_rows(&mut self, guid: &str, instances: i32) {
        // Growing fills only the indices that are new; a row that was removed by hand is left to convergence.
        let had = self.lrps.get(guid).map_or(0, |lrp| lrp.instances);
        for index in had..instances {
            self.rows.entry((guid.to_owned(), index)).or_insert_with(Row::unclaimed);
        }
    }

    fn drop_unheld(&mut self, guid: &str, from_index: i32) {
        self.rows.retain(|(of, index), row| of != guid || *index < from_index || row.holder.is_some());
    }

    /// Whether each record of this world is as in one of the two, and none is missing from it.
    pub(crate) fn is_between(&self, before: &World, after: &World) -> bool {
        fn between<K: Ord, V: PartialEq>(is: &BTreeMap<K, V>, was: &BTreeMap<K, V>, becomes: &BTreeMap<K, V>) -> bool {
            let mut keys = is.keys().chain(was.keys()).chain(becomes.keys());
            keys.all(|key| is.get(key) == was.get(key) || is.get(key) == becomes.get(key))
        }
        between(&self.lrps, &before.lrps, &after.lrps)
            && between(&self.rows, &before.rows, &after.rows)
            && between(&self.tasks, &before.tasks, &after.tasks)
            && (self.domains == before.domains || self.domains == after.domains)
    }

    pub(crate) fn put_lrp(&mut self, lrp: &DesiredLrp) {
        let known = Lrp { instances: lrp.instances, annotation: lrp.annotation.clone() };
        assert!(self.lrps.insert(lrp.process_guid.clone(), known).is_none(), "listed twice: {lrp:?}");
    }

    pub(crate) fn put_row(&mut self, row: &ActualLrp) {
        let key = row.actual_lrp_key.clone().unwrap();
        let holder = row.actual_lrp_instance_key.clone().unwrap_or_default();
        let known = Row {
            state: row.state.clone(),
            holder: (!holder.cell_id.is_empty()).then_some((holder.instance_guid, holder.cell_id)),
            crash_count: row.crash_count,
        };
        assert!(self.rows.insert((key.process_guid, key.index), known).is_none(), "listed twice: {row:?}");
    }

    pub(crate) fn put_task(&mut self, task: &Task) {
        let known =
            Job { state: task.state(), cell: task.cell_id.clone(), result: task.result.clone(), failed: task.failed };
        assert!(self.tasks.insert(task.task_guid.clone(), known).is_none(), "listed twice: {task:?}");
    }
}

impl Job {
    fn in_state(state: task::State) -> Self {
        Self { state, cell: String::new(), result: String::new(), failed: false }
    }
}

pub(crate) fn cell(number: u64) -> String {
    format!("cell-{number}")
}

fn next_of_task(guid: String, task: &Job, dice: &mut Dice) -> Op {
    match task.state {
        task::State::Pending if dice.below(4) > 0 => Op::StartTask { guid, cell: cell(dice.below(CELLS)) },
        task::State::Running if dice.below(4) > 0 => Op::CompleteTask { guid, cell: task.cell.clone() },
        task::State::Pending | task::State::Running => Op::CancelTask { guid },
        task::State::Completed => Op::ResolveTask { guid },
        _ => Op::DeleteTask { guid },
    }
}

pub(crate) fn lrp(guid: &str, instances: i32, annotation: &str) -> DesiredLrp {
    let source = MetricTagValue { r#static: guid.to_owned(), dynamic: 0 };
    DesiredLrp {
        process_guid: guid.to_owned(),
        domain: DOMAIN.into(),
        root_fs: "preloaded:cflinuxfs4".into(),
        instances,
        annotation: annotation.to_owned(),
        action: Some(action()),
        metric_tags: [("source_id".to_owned(), source)].into(),
        // Lists fill it in from the tag and events do not, so it is given.
        metrics_guid: guid.to_owned(),
        ..DesiredLrp::default()
    }
}

pub(crate) fn task_definition() -> TaskDefinition {
    TaskDefinition { root_fs: "preloaded:cflinuxfs4".into(), action: Some(action()), ..TaskDefinition::default() }
}

fn action() -> Action {
    let run = RunAction { path: "/bin/true".into(), user: "vcap".into(), ..RunAction::default() };
    Action { run_action: Some(run), ..Action::default() }
}

fn key(process_guid: String, index: i32) -> ActualLrpKey {
    ActualLrpKey { process_guid, index, domain: DOMAIN.into() }
}

fn instance((instance_guid, cell_id): (String, String)) -> ActualLrpInstanceKey {
    ActualLrpInstanceKey { instance_guid, cell_id }
}

impl Op {
    pub(crate) async fn send(self, client: &Client) -> Result<(), ClientError> {
        match self {
            Op::Desire { guid, instances, annotation } => client.desire_lrp(lrp(&guid, instances, &annotation)).await,
            Op::Update { guid, instances, annotation } => {
                let update = DesiredLrpUpdate {
                    instances: Some(instances),
                    annotation: Some(annotation),
                    ..DesiredLrpUpdate::default()
                };
                client.update_desired_lrp(&guid, update).await
            }
            Op::RemoveLrp { guid } => client.remove_desired_lrp(&guid).await,
            Op::Claim { guid, index, holder } => client.claim_actual_lrp(&guid, index, instance(holder)).await,
            Op::Start { guid, index, holder } => {
                let net_info = ActualLrpNetInfo { address: "10.0.0.1".into(), ..ActualLrpNetInfo::default() };
                let request = StartActualLrpRequest {
                    actual_lrp_key: Some(key(guid, index)),
                    actual_lrp_instance_key: Some(instance(holder)),
                    actual_lrp_net_info: Some(net_info),
                    ..StartActualLrpRequest::default()
                };
                client.start_actual_lrp(request).await
            }
            Op::Crash { guid, index, holder } => {
                client.crash_actual_lrp(key(guid, index), instance(holder), "exited").await
            }
            Op::RemoveRow { guid, index, holder } => {
                client.remove_actual_lrp(&guid, index, Some(instance(holder))).await
            }
            Op::DesireTask { guid } => client.desire_task(&guid, DOMAIN, task_definition()).await,
            Op::StartTask { guid, cell } => client.start_task(&guid, &cell).await.map(|_| ()),
            Op::CompleteTask { guid, cell } => {
                let request = CompleteTaskRequest {
                    task_guid: guid,
                    cell_id: cell,
                    result: OUTPUT.into(),
                    ..CompleteTaskRequest::default()
                };
                client.complete_task(request).await
            }
            Op::CancelTask { guid } => client.cancel_task(&guid).await,
            Op::ResolveTask { guid } => client.resolving_task(&guid).await,
            Op::DeleteTask { guid } => client.delete_task(&guid).await,
            Op::UpsertDomain { name } => client.upsert_domain(&name, 0).await,
        }
    }

    /// Whether the change fits into one atomic step.
    pub(crate) fn is_one_step(&self, before: &World) -> bool {
        let of = |guid: &str| before.rows.keys().filter(|(of, _)| of == guid).count();
        match self {
            Op::Desire { instances, .. } => *instances < 30,
            Op::Update { guid, .. } | Op::RemoveLrp { guid } => of(guid) < 30,
            _ => true,
        }
    }
}
