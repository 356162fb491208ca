//! What a command leaves behind: a changed board, the steps that store the change, and what follows once it is stored.

use std::sync::Arc;

use model::event::{self, DesiredEvent, Event, TaskEvent};
use model::slot::{Outcome, Stamp};
use model::{
    ActualLrpKey, CellId, DesiredLrp, Domain, DomainName, InstanceKey, Nanos, Presence, ProcessGuid, Slot, Task,
    TaskGuid,
};
use store::Step;
use store::versions::latest;

use crate::board::{Board, SlotKey};
use crate::clock::Clock;

/// How full a step may get. Half of what a store takes in one transaction, because a migration writes every record twice.
const STEP_OPS_MAX: usize = store::STEP_OPS_MAX / 2;
const STEP_BYTES_MAX: usize = store::STEP_BYTES_MAX / 2;

/// What the outside world contributes.
#[derive(Clone, Debug)]
pub struct Setting {
    pub now_ns: Nanos,
    pub clock: Arc<dyn Clock>,
    pub task_rejections_max: i32,
}

/// Something to do once the change is durable. If it is lost, convergence notices.
#[derive(Clone, Debug)]
pub enum Effect {
    AuctionLrp {
        desired: Arc<DesiredLrp>,
        indices: Vec<i32>,
    },
    AuctionTask(Arc<Task>),
    StopInstance {
        key: ActualLrpKey,
        instance: InstanceKey,
    },
    /// Tell the cell about changed internal routes, metric tags, or both.
    UpdateInstance {
        desired: Arc<DesiredLrp>,
        key: ActualLrpKey,
        instance: InstanceKey,
        routes: bool,
        tags: bool,
    },
    CancelTask {
        guid: TaskGuid,
        cell: CellId,
    },
    CallBack(TaskGuid),
}

/// An effect and the request that caused it, which the call names in turn.
#[derive(Clone, Debug)]
pub struct TracedEffect {
    pub effect: Effect,
    /// Empty when nobody asked.
    pub trace: Arc<str>,
}

impl From<Effect> for TracedEffect {
    fn from(effect: Effect) -> Self {
        Self { effect, trace: Arc::from("") }
    }
}

/// An event and the step that makes it true.
#[derive(Clone, Debug)]
pub struct Staged {
    pub step: usize,
    pub event: Event,
    pub trace: Arc<str>,
}

#[derive(Debug)]
pub struct Draft {
    pub board: Board,
    pub setting: Setting,
    pub steps: Vec<Step>,
    pub events: Vec<Staged>,
    pub effects: Vec<TracedEffect>,
    trace: Arc<str>,
    /// A new step begins with the next change.
    closed: bool,
}

impl Draft {
    pub fn new(board: Board, setting: Setting) -> Self {
        let trace = Arc::from("");
        Self { board, setting, steps: vec![], events: vec![], effects: vec![], trace, closed: true }
    }

    /// Begins a command: its changes start a step of their own, and its events carry this trace id.
    pub fn begin(&mut self, trace: Arc<str>) {
        self.closed = true;
        self.trace = trace;
    }

    /// Has something done once the change is durable.
    pub fn follow_up(&mut self, effect: Effect) {
        self.effects.push(TracedEffect { effect, trace: self.trace.clone() });
    }

    pub fn now_ns(&self) -> Nanos {
        self.setting.now_ns
    }

    pub fn stamp(&self) -> Stamp {
        Stamp { now_ns: self.setting.now_ns, epoch: self.setting.clock.fresh_id() }
    }

    /// The step that takes the next few records, which stay together.
    fn step(&mut self) -> &mut Step {
        let full =
            self.steps.last().is_none_or(|step| step.ops.len() + 3 > STEP_OPS_MAX || step.bytes() > STEP_BYTES_MAX);
        if self.closed || full {
            self.steps.push(Step::default());
            self.closed = false;
        }
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    fn announce(&mut self, event: Event, traced: bool) {
        let trace = if traced { self.trace.clone() } else { Arc::from("") };
        let step = self.steps.len().saturating_sub(1);
        self.events.push(Staged { step, event, trace });
    }

    /// Stores and announces what became of a slot. `traced`: whether the events name the request that caused them.
    pub fn change_slot(&mut self, key: SlotKey, before: &Slot, outcome: &Outcome, traced: bool) {
        let rows: Vec<_> = [Presence::Ordinary, Presence::Evacuating, Presence::Suspect]
            .map(|presence| (before.get(presence), outcome.slot.get(presence)))
            .into_iter()
            .filter(|(old, new)| old != new)
            .collect();
        if rows.is_empty() {
            return;
        }
        // One step for all of them: half of a slot's change must not be found after a crash.
        let step = self.step();
        for (old, new) in rows {
            match (old, new) {
                (_, Some(new)) => latest::put_actual(step, new),
                (Some(old), None) => latest::delete_actual(step, old),
                (None, None) => {}
            }
        }
        let (group, instance) = event::of_slot(before, &outcome.slot, outcome.cause);
        for event in group {
            self.announce(Event::Group(event), false);
        }
        for event in instance {
            self.announce(Event::Instance(event), traced);
        }
        self.board.put_slot(key, outcome.slot.clone());
    }

    pub fn put_desired(&mut self, before: Option<Arc<DesiredLrp>>, after: Arc<DesiredLrp>) {
        let whole = before.as_ref().is_none_or(|before| {
            before.run_info != after.run_info || before.image_credentials != after.image_credentials
        });
        latest::put_desired(self.step(), &after, if whole { latest::Part::Both } else { latest::Part::ScheduleOnly });
        self.board.put_desired(after.clone());
        let event = match before {
            None => DesiredEvent::Created(after),
            Some(before) => DesiredEvent::Changed { before, after },
        };
        self.announce(Event::Desired(event), true);
    }

    pub fn remove_desired(&mut self, lrp: &Arc<DesiredLrp>) {
        latest::delete_desired(self.step(), &lrp.process_guid);
        self.board.remove_desired(&lrp.process_guid);
        self.announce(Event::Desired(DesiredEvent::Removed(lrp.clone())), true);
    }

    pub fn put_task(&mut self, before: Option<Arc<Task>>, after: Task) -> Arc<Task> {
        let after = Arc::new(after);
        latest::put_task(self.step(), &after);
        self.board.put_task(after.clone());
        let event = match before {
            None => TaskEvent::Created(after.clone()),
            Some(before) => TaskEvent::Changed { before, after: after.clone() },
        };
        self.announce(Event::Task(event), false);
        after
    }

    pub fn remove_task(&mut self, task: &Arc<Task>) {
        latest::delete_task(self.step(), &task.guid);
        self.board.remove_task(&task.guid);
        self.announce(Event::Task(TaskEvent::Removed(task.clone())), false);
    }

    pub fn put_domain(&mut self, domain: Domain) {
        latest::put_domain(self.step(), &domain);
        self.board.put_domain(domain);
    }

    pub fn remove_domain(&mut self, name: &DomainName) {
        latest::delete_domain(self.step(), name);
        self.board.remove_domain(name);
    }

    pub fn desired(&self, guid: &ProcessGuid) -> Option<Arc<DesiredLrp>> {
        self.board.desired.get(guid).map(|entry| entry.lrp.clone())
    }

    pub fn task(&self, guid: &TaskGuid) -> Option<Arc<Task>> {
        self.board.tasks.get(guid).map(|entry| entry.task.clone())
    }

    /// Asks for one instance to be placed. `false` when nobody wants it any more.
    pub fn auction(&mut self, process_guid: &ProcessGuid, index: i32) -> bool {
        match self.desired(process_guid) {
            Some(desired) => {
                self.follow_up(Effect::AuctionLrp { desired, indices: vec![index] });
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::InstanceGuid;

    use super::*;
    use crate::clock::ManualClock;

    /// A slot whose container runs on a cell that is then lost: the change rewrites two rows.
    fn lost_cell() -> (ActualLrpKey, Slot, Outcome) {
        let key = ActualLrpKey {
            process_guid: ProcessGuid::parse("p").unwrap(),
            index: 0,
            domain: DomainName::parse("d").unwrap(),
        };
        let by =
            InstanceKey { instance_guid: InstanceGuid::parse("i").unwrap(), cell_id: CellId::parse("cell").unwrap() };
        let stamp = Stamp { now_ns: 0, epoch: "epoch".into() };
        let report = api::convert::report_of_start(api::models::StartActualLrpRequest::default(), false);
        let slot = Slot::default().start(&key, &by, report, &stamp).unwrap().slot;
        let outcome = slot.lose_cell(&by, &stamp).unwrap();
        (key, slot, outcome)
    }

    #[test]
    fn the_rows_of_one_slot_stay_in_one_step_however_full_it_is() {
        for filled in 0..=2 * STEP_OPS_MAX {
            let setting = Setting { now_ns: 0, clock: Arc::new(ManualClock::at(0)), task_rejections_max: 3 };
            let mut draft = Draft::new(Board::default(), setting);
            for at in 0..filled {
                let name = DomainName::parse(&format!("d{at}")).unwrap();
                draft.put_domain(Domain::upsert(name, 0, 0));
            }
            let before: Vec<_> = draft.steps.iter().map(|step| step.ops.len()).collect();
            let (key, slot, outcome) = lost_cell();
            let place = SlotKey { process_guid: key.process_guid.clone(), index: key.index };
            draft.change_slot(place, &slot, &outcome, false);
            let after: Vec<_> = draft.steps.iter().map(|step| step.ops.len()).collect();
            let grown = after.iter().enumerate().filter(|(at, ops)| before.get(*at) != Some(*ops)).count();
            assert_eq!(grown, 1, "after {filled} others: {before:?} became {after:?}");
            assert!(after.iter().all(|ops| *ops <= STEP_OPS_MAX), "{after:?}");
            assert!(draft.events.iter().all(|staged| staged.step == after.len() - 1));
        }
    }
}
