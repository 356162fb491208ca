//! Cells that are played: they take what is auctioned, run it with the definition that they are given, report it again and
//! again, drain, fall silent and die.

use std::collections::BTreeMap;

use model::{Cell, CellId, DefinitionNumber, InstanceGuid, InstanceKey, NetInfo, Report};

use crate::commands::Effect;

const CELLS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Serves,
    Drains,
    /// It goes on, and nobody hears it.
    Silent,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Reserved,
    /// With the definition that it was given, since this round.
    Claimed(DefinitionNumber, u32),
    Running(DefinitionNumber),
}

#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) index: i32,
    pub(super) by: InstanceKey,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug)]
pub(super) struct Cells {
    states: BTreeMap<CellId, State>,
    pub(super) containers: Vec<Container>,
    /// What cells and auctioneer were asked, and have yet to hear.
    pub(super) asked: Vec<Effect>,
    placed: u32,
}

impl Cells {
    pub(super) fn new() -> Self {
        let states = (0..CELLS).map(|at| (CellId::parse(&format!("cell-{at}")).unwrap(), State::Serves)).collect();
        Self { states, containers: Vec::new(), asked: Vec::new(), placed: 0 }
    }

    pub(super) fn state(&self, cell: &CellId) -> State {
        self.states[cell]
    }

    /// The containers of a cell that dies die with it.
    pub(super) fn turn(&mut self, cell: &CellId, state: State) {
        self.states.insert(cell.clone(), state);
        if state == State::Dead {
            self.containers.retain(|container| container.by.cell_id != *cell);
        }
    }

    pub(super) fn end_of_silence(&mut self) {
        self.states.values_mut().filter(|state| **state == State::Silent).for_each(|state| *state = State::Serves);
    }

    /// Whom the presence source knows.
    pub(super) fn heard(&self) -> Vec<Cell> {
        let heard = self.states.iter().filter(|(_, state)| matches!(state, State::Serves | State::Drains));
        heard.map(|(id, _)| cell(id)).collect()
    }

    pub(super) fn is_heard(&self, cell: &CellId) -> bool {
        matches!(self.state(cell), State::Serves | State::Drains)
    }

    /// A cell takes an instance.
    pub(super) fn reserve(&mut self, index: i32) {
        let free: Vec<&CellId> =
            self.states.iter().filter(|(_, state)| **state == State::Serves).map(|(id, _)| id).collect();
        self.placed += 1;
        let cell_id = free[self.placed as usize % free.len()].clone();
        let instance_guid = InstanceGuid::parse(&format!("i{}", self.placed)).unwrap();
        let by = InstanceKey { instance_guid, cell_id };
        self.containers.push(Container { index, by, stage: Stage::Reserved });
    }

    pub(super) fn get(&self, by: &InstanceKey) -> Option<&Container> {
        self.containers.iter().find(|container| container.by == *by)
    }

    pub(super) fn set(&mut self, by: &InstanceKey, stage: Stage) {
        self.containers.iter_mut().filter(|container| container.by == *by).for_each(|found| found.stage = stage);
    }

    pub(super) fn delete(&mut self, by: &InstanceKey) {
        self.containers.retain(|container| container.by != *by);
    }

    /// Whether it runs, on a cell that is there for everybody.
    pub(super) fn serves(&self, by: &InstanceKey) -> bool {
        let runs = |container: &Container| matches!(container.stage, Stage::Running(_));
        self.get(by).is_some_and(runs) && self.is_heard(&by.cell_id)
    }
}

fn cell(id: &CellId) -> Cell {
    api::convert::cell_from_wire(api::models::CellPresence { cell_id: id.to_string(), ..Default::default() }).unwrap()
}

pub(super) fn report() -> Report {
    Report {
        net_info: NetInfo { address: "10.0.0.1".into(), ..NetInfo::default() },
        internal_routes: vec![],
        metric_tags: None,
        routable: true,
        availability_zone: "z1".into(),
    }
}
