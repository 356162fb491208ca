//! Cells that do what they are told, or not: starts, crashes, drains and deaths of containers by hand.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;

use crate::rollout::plan::{Decision, Plan, plan};
use crate::rollout::step::carry_out;
use crate::rollout::{Phase, Terms};
use crate::slot::{Cause, EvacuationPolicy, Known, Outcome, RunningEvacuation, Stamp};
use crate::{
    ActualLrp, ActualState, CellId, DefinitionNumber, DesiredLrp, DesiredUpdate, DomainName, ImageCredentials,
    InstanceGuid, InstanceKey, ModificationTag, NANOS_PER_SECOND, Nanos, NewDefinition, Packed, ProcessGuid, Report,
    Resources, Slot, Unknown, UpdateStrategy,
};

pub(super) const KEEP: usize = 2;

pub(super) struct World {
    pub(super) desired: DesiredLrp,
    pub(super) slots: BTreeMap<i32, Slot>,
    pub(super) now_ns: Nanos,
    pub(super) account: String,
    containers: u32,
}

pub(super) fn definition(identifier: &str) -> NewDefinition {
    NewDefinition {
        identifier: identifier.into(),
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        log_guid: String::new(),
        metrics_guid: String::new(),
        run_info: Bytes::copy_from_slice(identifier.as_bytes()),
    }
}

pub(super) fn update_to(identifier: &str, terms: Terms) -> DesiredUpdate {
    DesiredUpdate { definition: Some(definition(identifier)), terms, ..DesiredUpdate::default() }
}

impl World {
    /// An app whose instances all run.
    pub(super) fn new(instances: i32) -> Self {
        let desired = DesiredLrp {
            process_guid: ProcessGuid::parse("app").unwrap(),
            domain: DomainName::parse("domain").unwrap(),
            log_guid: String::new(),
            annotation: String::new(),
            instances,
            resources: Resources::default(),
            placement_tags: vec![],
            volume_drivers: vec![],
            routes: Packed::default(),
            metric_tags: Packed::default(),
            metrics_guid: String::new(),
            update_strategy: UpdateStrategy::ROLLING,
            image_credentials: ImageCredentials::default(),
            tag: ModificationTag::first("epoch".into()),
            run_info: Bytes::from_static(b"v1"),
            definition: DefinitionNumber::FIRST,
            definition_identifier: "v1".into(),
            previous: None,
            history: None,
            unknown: Unknown::default(),
        };
        let mut world =
            Self { desired, slots: BTreeMap::new(), now_ns: NANOS_PER_SECOND, account: String::new(), containers: 0 };
        world.fill();
        (0..instances).for_each(|index| world.place(index));
        (0..instances).for_each(|index| world.run(index));
        world.account.clear();
        world
    }

    pub(super) fn update(&mut self, identifier: &str, terms: Terms) {
        self.desired = self.desired.updated(update_to(identifier, terms), self.now_ns).unwrap();
    }

    fn stamp(&self) -> Stamp {
        Stamp { now_ns: self.now_ns, epoch: format!("epoch-{}", self.now_ns).into() }
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now_ns += seconds * NANOS_PER_SECOND;
    }

    /// What convergence does about indices without a row, and about those that nobody wants.
    pub(super) fn fill(&mut self) {
        for index in 0..self.desired.instances {
            let slot = self.slot(index);
            if let Ok(outcome) = slot.create_unclaimed(&self.desired.key(index), &self.stamp()) {
                self.put(index, &slot, outcome);
            }
        }
        let instances = self.desired.instances;
        self.slots.retain(|index, _| *index < instances);
    }

    pub(super) fn slot(&self, index: i32) -> Slot {
        self.slots.get(&index).cloned().unwrap_or_default()
    }

    fn put(&mut self, index: i32, before: &Slot, outcome: Outcome) {
        let mut after = outcome.slot;
        if outcome.cause != Cause::Named {
            after.name_definitions(before, Some(Known::of(&self.desired)));
        }
        self.slots.insert(index, after);
    }

    fn change(&mut self, index: i32, operation: impl FnOnce(&Slot, &Stamp) -> Option<Outcome>) {
        let slot = self.slot(index);
        if let Some(outcome) = operation(&slot, &self.stamp()) {
            self.put(index, &slot, outcome);
        }
    }

    fn container(&mut self) -> InstanceKey {
        self.containers += 1;
        InstanceKey {
            instance_guid: InstanceGuid::parse(&format!("i{}", self.containers)).unwrap(),
            cell_id: CellId::parse(&format!("cell-{}", self.containers)).unwrap(),
        }
    }

    /// A cell takes an index that waits.
    pub(super) fn place(&mut self, index: i32) {
        let by = self.container();
        self.change(index, |slot, stamp| slot.claim(&by, stamp).ok());
    }

    pub(super) fn run(&mut self, index: i32) {
        let Some(by) = self.claimed(index) else { return };
        let (key, report) = (self.desired.key(index), report());
        self.change(index, |slot, stamp| slot.start(&key, &by, report, stamp).ok());
    }

    fn claimed(&self, index: i32) -> Option<InstanceKey> {
        let row = self.slots.get(&index)?.ordinary.as_ref()?;
        row.instance.clone().filter(|_| row.state == ActualState::Claimed)
    }

    pub(super) fn crash(&mut self, index: i32) {
        let Some(by) = self.slot(index).ordinary.and_then(|row| row.instance.clone()) else { return };
        self.change(index, |slot, stamp| slot.crash(&by, "it broke", stamp).ok());
    }

    pub(super) fn restart(&mut self, index: i32) {
        self.change(index, Slot::restart_crashed);
    }

    /// The cell of the container that leaves reports it again, as it does all the time.
    pub(super) fn report_leaving(&mut self, index: i32) {
        let Some(by) = self.slot(index).leaving().and_then(|row| row.instance.clone()) else { return };
        let key = self.desired.key(index);
        self.change(index, |slot, stamp| slot.start(&key, &by, report(), stamp).ok());
    }

    pub(super) fn crash_leaving(&mut self, index: i32) {
        let Some(by) = self.slot(index).leaving().and_then(|row| row.instance.clone()) else { return };
        self.change(index, |slot, stamp| slot.crash(&by, "it broke", stamp).ok());
    }

    /// The cell of the instance drains and says so. Returns whether it has to keep the container.
    pub(super) fn drain(&mut self, index: i32, leaving: bool) -> Option<bool> {
        let slot = self.slot(index);
        let row = if leaving { slot.leaving().cloned() } else { slot.ordinary.clone() };
        let by = row.filter(|row| row.state == ActualState::Running)?.instance.clone()?;
        let policy = EvacuationPolicy { strategy: UpdateStrategy::ROLLING, all_running: true };
        let call = RunningEvacuation { key: self.desired.key(index), by, report: report(), policy: Some(policy) };
        let evacuation = slot.evacuate_running(call, &self.stamp());
        if let Ok(outcome) = evacuation.result {
            self.put(index, &slot, outcome);
        }
        Some(evacuation.keep)
    }

    /// The cell of a container is gone.
    pub(super) fn lose(&mut self, index: i32, leaving: bool) {
        let slot = self.slot(index);
        let row = if leaving { slot.leaving().cloned() } else { slot.ordinary.clone() };
        let Some(by) = row.and_then(|row| row.instance.clone()) else { return };
        self.change(index, |slot, stamp| match leaving {
            true => slot.drop_evacuating(&by),
            false => slot.lose_cell(&by, stamp),
        });
    }

    pub(super) fn plan(&self) -> Plan {
        let slots: Vec<(i32, &Slot)> = self.slots.iter().map(|(index, slot)| (*index, slot)).collect();
        plan(&self.desired, &slots, self.now_ns)
    }

    /// Plans and carries out until nothing is left to decide, and checks every decision. Returns how many there were.
    pub(super) fn roll(&mut self) -> usize {
        let mut count = 0;
        loop {
            let plan = self.plan();
            if plan.decisions.is_empty() {
                assert!(plan.look_ns.is_none_or(|at_ns| at_ns > self.now_ns), "it would look again at once, for ever");
                return count;
            }
            for decision in &plan.decisions {
                count += 1;
                assert!(count < 1_000, "it does not come to rest:\n{}", self.account);
                self.carry_out(decision);
            }
        }
    }

    fn carry_out(&mut self, decision: &Decision) {
        let slot = decision.index().map(|index| self.slot(index)).unwrap_or_default();
        let served = self.served();
        let Some(change) = carry_out(&self.desired, &slot, decision, KEEP, &self.stamp()) else {
            panic!("nothing has happened since {decision:?} was decided, and it does nothing");
        };
        writeln!(self.account, "{:>4} s  {}", self.now_ns / NANOS_PER_SECOND, told(decision)).unwrap();
        let before = self.desired.clone();
        self.desired = change.desired;
        if let Some((index, outcome)) = change.slot {
            for stopped in &change.stops {
                let still = outcome.slot.rows().any(|row| row.is_held_by(stopped));
                assert!(!still, "{decision:?} stops a container that a row still has");
            }
            self.put(index, &slot, outcome);
        }
        assert!(self.served().iter().zip(&served).all(|(now, was)| now >= was), "{decision:?} takes an index its last");
        assert_ne!(before.tag, self.desired.tag, "whoever watches the record is not told of {decision:?}");
        self.check();
    }

    /// For each wanted index, whether an instance runs.
    pub(super) fn served(&self) -> Vec<bool> {
        let runs = |row: &Arc<ActualLrp>| row.state == ActualState::Running;
        (0..self.desired.instances).map(|index| self.slot(index).rows().any(runs)).collect()
    }

    /// What holds at every moment.
    fn check(&self) {
        let known = [Some(self.desired.definition), self.desired.previous.as_ref().map(|previous| previous.number)];
        for (index, slot) in &self.slots {
            for row in slot.rows() {
                let number = row.definition;
                assert!(known.contains(&Some(number)), "index {index} has the definition {number}, which is gone");
            }
        }
        let rollout = self.desired.history.as_ref().and_then(|history| history.rollout.as_ref());
        let flights = rollout.map_or(0, |rollout| rollout.flights.len());
        let most = rollout.map_or(0, |rollout| rollout.terms.in_flight.max(1) as usize);
        assert!(flights <= most, "{flights} in flight");
        assert_eq!(self.desired.previous.is_some(), self.desired.rollout().is_some());
        assert!(self.desired.history.as_ref().is_none_or(|history| history.older.len() <= KEEP));
    }

    /// One line: each index with what it runs.
    pub(super) fn shows(&self) -> String {
        let row = |row: &Arc<ActualLrp>| {
            let state = &row.state.as_str()[..2];
            format!("{}{state}{}", row.definition, if row.leaving { "-" } else { "" })
        };
        let slot = |slot: &Slot| slot.rows().map(row).collect::<Vec<_>>().join("+");
        let slots: Vec<String> = self.slots.values().map(slot).collect();
        format!("{} | {}", self.phase(), slots.join(" "))
    }

    pub(super) fn phase(&self) -> String {
        let Some(rollout) = self.desired.history.as_ref().and_then(|history| history.rollout.as_ref()) else {
            return "none".to_owned();
        };
        let phase = match rollout.phase {
            Phase::Rolling => "rolling",
            Phase::Canary => "canary",
            Phase::Paused => "paused",
            Phase::Halted => "halted",
            Phase::Done => "done",
        };
        let way = if rollout.reverts { " back" } else { "" };
        format!("{phase}{way} {}->{}", rollout.from, rollout.to)
    }

    /// One round in which nothing gets in between: what waits is placed and starts, or crashes if it is not good, and the rollout
    /// goes on.
    pub(super) fn fair_round(&mut self, seconds: i64, good: impl Fn(DefinitionNumber) -> bool) {
        self.fill();
        self.roll();
        for index in 0..self.desired.instances {
            self.restart(index);
            self.place(index);
            let number = self.slot(index).ordinary.map(|row| row.definition);
            if number.is_some_and(&good) {
                self.run(index);
            } else if self.claimed(index).is_some() {
                self.crash(index);
            }
            self.report_leaving(index);
        }
        self.pass(seconds);
        self.roll();
    }
}

fn report() -> Report {
    Report {
        net_info: crate::NetInfo::default(),
        internal_routes: vec![],
        metric_tags: None,
        routable: true,
        availability_zone: String::new(),
    }
}

fn told(decision: &Decision) -> String {
    match decision {
        Decision::Begin { index, .. } => format!("begin {index}"),
        Decision::Finish { index, leaves } => {
            format!("finish {index}{}", if leaves.is_some() { "" } else { ", nobody has to leave" })
        }
        Decision::TakeBack { index, .. } => format!("take back {index}"),
        Decision::Turn { why, .. } => format!("Turn {{ why: {why:?} }}"),
        Decision::Halt { why, .. } => format!("Halt {{ why: {why:?} }}"),
        Decision::Complete { .. } => "Complete".to_owned(),
        other => format!("{other:?}"),
    }
}
