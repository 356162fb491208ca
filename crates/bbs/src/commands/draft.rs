//! What a command leaves behind: a changed board, the steps that store the change, and what follows once it is stored.

use std::sync::Arc;

use model::event::{self, DesiredEvent, Event, TaskEvent};
use model::rollout::OLDER_MAX;
use model::slot::{Cause, Known, Outcome, Stamp};
use model::{
    ActualLrpKey, CellId, DefinitionNumber, DesiredLrp, Domain, DomainName, InstanceKey, Nanos, Presence, ProcessGuid,
    Slot, Task, TaskGuid,
};
use store::{EntityRef, Forms, Lost, Step};

use crate::board::{Board, SlotKey};
use crate::clock::Clock;

/// Records of a DesiredLRP in one form: its schedule, the definitions that instances may have, and those that are kept.
const DESIRED_RECORDS_MAX: usize = 1 + 2 + OLDER_MAX;
/// Operations that the next change may need: three rows of a slot and a DesiredLRP with all its definitions, all of it in two
/// forms, and as many again for records that are in the way and have to be kept.
const CHANGE_OPS_MAX: usize = 2 * 2 * (3 + DESIRED_RECORDS_MAX);
const _: () = assert!(CHANGE_OPS_MAX <= store::STEP_OPS_MAX, "every change fits into a step");
/// From here on a step takes no further change.
const STEP_BYTES_FULL: usize = store::STEP_BYTES_MAX / 2;
/// What one change may store in one form. Two forms of it fit into a step, also when one of them is in base64: what was
/// accepted once can always be migrated.
pub const CHANGE_BYTES_MAX: usize = 600_000;

/// What the outside world contributes.
#[derive(Clone, Debug)]
pub struct Setting {
    pub now_ns: Nanos,
    pub clock: Arc<dyn Clock>,
    pub task_rejections_max: i32,
    /// How many former definitions of a process one can go back to.
    pub definitions_kept: usize,
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
    /// In which data versions changes are stored.
    forms: Arc<Forms>,
    /// What one of the forms has no room for. A command that leaves something here is refused.
    pub lost: Vec<Lost>,
    /// The size of a change that is too large, if there was one.
    pub oversized: Option<usize>,
    trace: Arc<str>,
    /// A new step begins with the next change.
    closed: bool,
}

impl Draft {
    pub fn new(board: Board, setting: Setting, forms: Arc<Forms>) -> Self {
        Self {
            board,
            setting,
            steps: vec![],
            events: vec![],
            effects: vec![],
            forms,
            lost: vec![],
            oversized: None,
            trace: Arc::from(""),
            closed: true,
        }
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

    /// Makes sure that there is a step with room for the next change, whose records stay together.
    fn make_room(&mut self) {
        let full = self
            .steps
            .last()
            .is_none_or(|step| step.ops.len() + CHANGE_OPS_MAX > store::STEP_OPS_MAX || step.bytes() > STEP_BYTES_FULL);
        if self.closed || full {
            self.steps.push(Step::default());
            self.closed = false;
        }
    }

    /// Adds what turns `before` into `after` to the step that [`Draft::make_room`] left.
    fn store(&mut self, before: Option<EntityRef<'_>>, after: Option<EntityRef<'_>>) {
        let Some(step) = self.steps.last_mut() else { return };
        let (ops, bytes) = (step.ops.len(), step.bytes());
        self.forms.change(step, before, after, &mut self.lost);
        let size = (step.bytes() - bytes) / self.forms.versions().len();
        if size > CHANGE_BYTES_MAX {
            self.oversized = Some(size);
        }
        self.board.keep_what_is_in_the_way(step, ops, self.setting.now_ns);
    }

    fn announce(&mut self, event: Event, traced: bool) {
        let trace = if traced { self.trace.clone() } else { Arc::from("") };
        let step = self.steps.len().saturating_sub(1);
        self.events.push(Staged { step, event, trace });
    }

    /// Adds steps that change nothing on the board.
    pub fn add_rewrites(&mut self, steps: Vec<Step>) {
        self.steps.extend(steps);
        self.closed = true;
    }

    /// Stores and announces what became of a slot. `traced`: whether the events name the request that caused them.
    pub fn change_slot(&mut self, key: SlotKey, before: &Slot, outcome: &Outcome, traced: bool) {
        let after = self.named(&key, before, outcome);
        if after != *before {
            // One step for all of them: half of a slot's change must not be found after a crash.
            self.make_room();
            self.replace_slot(key, before, after, (outcome.cause, traced));
        }
    }

    /// A record and the rows of one of its indices, which belong together: neither is found without the other after a crash.
    pub fn change_rolling(
        &mut self,
        (old, new): (Arc<DesiredLrp>, Arc<DesiredLrp>),
        index: i32,
        (before, outcome): (&Slot, &Outcome),
    ) {
        let key = SlotKey { process_guid: new.process_guid.clone(), index };
        let after = self.named(&key, before, outcome);
        self.make_room();
        self.replace_desired(Some(old), new);
        self.replace_slot(key, before, after, (outcome.cause, false));
    }

    /// Every row passes here before it is stored, so this is where it gets the definition it names.
    fn named(&self, key: &SlotKey, before: &Slot, outcome: &Outcome) -> Slot {
        let mut after = outcome.slot.clone();
        if outcome.cause != Cause::Named {
            after.name_definitions(before, self.desired(&key.process_guid).map(|lrp| Known::of(&lrp)));
        }
        after
    }

    /// Stays in the step of the change before.
    fn replace_slot(&mut self, key: SlotKey, before: &Slot, after: Slot, (cause, traced): (Cause, bool)) {
        for presence in [Presence::Ordinary, Presence::Evacuating, Presence::Suspect] {
            let (old, new) = (before.get(presence), after.get(presence));
            if old != new {
                self.store(old.map(|row| EntityRef::Actual(row)), new.map(|row| EntityRef::Actual(row)));
            }
        }
        let (group, instance) = event::of_slot(before, &after, cause);
        for event in group {
            self.announce(Event::Group(event), false);
        }
        for event in instance {
            self.announce(Event::Instance(event), traced);
        }
        self.board.put_slot(key, after);
    }

    /// The number for a process that is wanted again while containers from before are still known: they must not pass for
    /// instances of a later definition. The first is used again, because older data versions know no other.
    pub fn unused_definition(&self, process_guid: &ProcessGuid) -> DefinitionNumber {
        let rows = self.board.slots_of(process_guid).flat_map(|(_, entry)| entry.slot.rows());
        match rows.map(|row| row.definition).max() {
            Some(last) if last > DefinitionNumber::FIRST => last.next(),
            _ => DefinitionNumber::FIRST,
        }
    }

    pub fn put_desired(&mut self, before: Option<Arc<DesiredLrp>>, after: Arc<DesiredLrp>) {
        self.make_room();
        self.replace_desired(before, after);
    }

    /// Stays in the step of the change before.
    fn replace_desired(&mut self, before: Option<Arc<DesiredLrp>>, after: Arc<DesiredLrp>) {
        self.store(before.as_deref().map(EntityRef::Desired), Some(EntityRef::Desired(&after)));
        self.board.put_desired(after.clone());
        let event = match before {
            None => DesiredEvent::Created(after),
            Some(before) => DesiredEvent::Changed { before, after },
        };
        self.announce(Event::Desired(event), true);
    }

    pub fn remove_desired(&mut self, lrp: &Arc<DesiredLrp>) {
        self.make_room();
        self.store(Some(EntityRef::Desired(lrp)), None);
        self.board.remove_desired(&lrp.process_guid);
        self.announce(Event::Desired(DesiredEvent::Removed(lrp.clone())), true);
    }

    pub fn put_task(&mut self, before: Option<Arc<Task>>, after: Task) -> Arc<Task> {
        let after = Arc::new(after);
        self.make_room();
        self.store(before.as_deref().map(EntityRef::Task), Some(EntityRef::Task(&after)));
        self.board.put_task(after.clone());
        let event = match before {
            None => TaskEvent::Created(after.clone()),
            Some(before) => TaskEvent::Changed { before, after: after.clone() },
        };
        self.announce(Event::Task(event), false);
        after
    }

    pub fn remove_task(&mut self, task: &Arc<Task>) {
        self.make_room();
        self.store(Some(EntityRef::Task(task)), None);
        self.board.remove_task(&task.guid);
        self.announce(Event::Task(TaskEvent::Removed(task.clone())), false);
    }

    pub fn put_domain(&mut self, domain: Domain) {
        let before = self.board.domains.get(&domain.name).cloned();
        self.make_room();
        self.store(before.as_deref().map(EntityRef::Domain), Some(EntityRef::Domain(&domain)));
        self.board.put_domain(domain);
    }

    pub fn remove_domain(&mut self, name: &DomainName) {
        if let Some(domain) = self.board.domains.get(name).cloned() {
            self.make_room();
            self.store(Some(EntityRef::Domain(&domain)), None);
            self.board.remove_domain(name);
        }
    }

    pub fn desired(&self, guid: &ProcessGuid) -> Option<Arc<DesiredLrp>> {
        self.board.desired.get(guid).map(|entry| entry.lrp.clone())
    }

    pub fn task(&self, guid: &TaskGuid) -> Option<Arc<Task>> {
        self.board.tasks.get(guid).map(|entry| entry.task.clone())
    }

    /// Asks for one instance to be placed, as its definition says. `false` when nobody wants it any more.
    pub fn auction(&mut self, process_guid: &ProcessGuid, index: i32) -> bool {
        match self.desired(process_guid) {
            Some(desired) => {
                let row = self.board.slot(process_guid, index).ordinary;
                let desired = row.map_or(desired.clone(), |row| desired.as_defined(row.definition));
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

    /// Whatever the step before holds, the change goes whole into one step.
    fn check(board: &Board, key: &ActualLrpKey, slot: &Slot, outcome: &Outcome) -> Draft {
        let mut last = None;
        for filled in 0..=2 * store::STEP_OPS_MAX {
            let setting =
                Setting { now_ns: 0, clock: Arc::new(ManualClock::at(0)), task_rejections_max: 3, definitions_kept: 2 };
            let forms = Arc::new(Forms::only(store::Version::LATEST));
            let mut draft = Draft::new(board.clone(), setting, forms);
            for at in 0..filled {
                let name = DomainName::parse(&format!("d{at}")).unwrap();
                draft.put_domain(Domain::upsert(name, 0, 0));
            }
            let before: Vec<_> = draft.steps.iter().map(|step| step.ops.len()).collect();
            let place = SlotKey { process_guid: key.process_guid.clone(), index: key.index };
            draft.change_slot(place, slot, outcome, false);
            let after: Vec<_> = draft.steps.iter().map(|step| step.ops.len()).collect();
            let grown = after.iter().enumerate().filter(|(at, ops)| before.get(*at) != Some(*ops)).count();
            assert_eq!(grown, 1, "after {filled} others: {before:?} became {after:?}");
            assert!(after.iter().all(|ops| *ops <= store::STEP_OPS_MAX), "{after:?}");
            assert!(draft.events.iter().all(|staged| staged.step == after.len() - 1));
            last = Some(draft);
        }
        last.unwrap()
    }

    #[test]
    fn the_rows_of_one_slot_stay_in_one_step_however_full_it_is() {
        let (key, slot, outcome) = lost_cell();
        check(&Board::default(), &key, &slot, &outcome);
    }
}
