//! What must hold after every single commit, whatever happens, and at the end.
//!
//! An index is served if a container runs that a row knows, on a cell that is there. No commit and no call to a cell may take
//! that from an index that is wanted: only what kills the container itself may. That a cell is gone is known to convergence
//! alone; whoever else believes that its containers run cannot know better.

use std::collections::{BTreeMap, BTreeSet};

use model::rollout::Rollout;
use model::{ActualState, DesiredLrp, InstanceKey, Nanos, Slot};

use super::cells::Cells;
use super::node::KEEP;
use super::stories::app;
use crate::board::Board;
use crate::commands::Effect;

#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    /// What each number stands for.
    names: BTreeMap<u32, String>,
    made: u32,
    /// How often a rollout was taken back.
    pub(super) turns: usize,
}

pub(super) fn lrp(board: &Board) -> Option<&DesiredLrp> {
    board.desired.get(&app()).map(|entry| &*entry.lrp)
}

pub(super) fn slots(board: &Board) -> impl Iterator<Item = (i32, &Slot)> {
    let mut found: Vec<(i32, &Slot)> = board
        .slots
        .iter()
        .filter(|(key, _)| key.process_guid == app())
        .map(|(key, entry)| (key.index, &entry.slot))
        .collect();
    found.sort_by_key(|(index, _)| *index);
    found.into_iter()
}

/// The indices that somebody is there for.
pub(super) fn served(board: &Board, cells: &Cells) -> BTreeSet<i32> {
    served_by(board, |by| cells.serves(by))
}

fn served_by(board: &Board, is_there: impl Fn(&InstanceKey) -> bool) -> BTreeSet<i32> {
    let serves = |slot: &Slot| {
        let mut running = slot.rows().filter(|row| row.state == ActualState::Running);
        running.any(|row| row.instance.as_ref().is_some_and(&is_there))
    };
    slots(board).filter(|(_, slot)| serves(slot)).map(|(index, _)| index).collect()
}

impl Book {
    /// After a commit.
    pub(super) fn check(&mut self, commit: &Commit<'_>, cells: &Cells) -> Result<(), String> {
        let &Commit { before, after, what, .. } = commit;
        let Some(lrp) = lrp(after).filter(|_| before.revision != after.revision) else { return Ok(()) };
        let knows_cells = what == "converge";
        let is_served = served_by(after, |by| cells.serves(by) || !knows_cells && !cells.is_heard(&by.cell_id));
        let lost: Vec<i32> =
            served(before, cells).into_iter().filter(|at| *at < lrp.instances && !is_served.contains(at)).collect();
        if !lost.is_empty() {
            return Err(format!("nobody serves {lost:?} any more"));
        }
        let rollout = lrp.history.as_ref().and_then(|history| history.rollout.as_ref());
        let in_flight = rollout.map_or(1, |rollout| rollout.terms.in_flight.max(1) as usize);
        let doubled = slots(after).filter(|(_, slot)| slot.leaving().is_some()).count();
        let flights = rollout.map_or(0, |rollout| rollout.flights.len());
        if doubled > in_flight || flights > in_flight {
            return Err(format!("{doubled} indices have two containers and {flights} are in flight"));
        }
        if let Some(rollout) = rollout.filter(|_| what == "roll") {
            commit.check_roll(rollout)?;
        }
        self.check_definitions(lrp, after)?;
        self.count_turns(before, rollout)
    }

    fn check_definitions(&mut self, lrp: &DesiredLrp, board: &Board) -> Result<(), String> {
        let history = lrp.history.as_deref();
        let older = history.iter().flat_map(|history| &history.older).map(|kept| (kept.number, &kept.identifier));
        let previous = lrp.previous.iter().map(|previous| (previous.number, &previous.identifier));
        let known: Vec<_> = std::iter::once((lrp.definition, &lrp.definition_identifier)).chain(previous).collect();
        for row in slots(board).flat_map(|(_, slot)| slot.rows()) {
            if !known.iter().any(|(number, _)| *number == row.definition) {
                return Err(format!("index {} has definition {}, which is gone", row.key.index, row.definition));
            }
        }
        let all: Vec<_> = known.into_iter().chain(older).collect();
        let numbers: BTreeSet<u32> = all.iter().map(|(number, _)| number.0).collect();
        if numbers.len() < all.len() || all.len() > 1 + KEEP + lrp.previous.iter().count() {
            return Err(format!("these definitions are kept: {all:?}"));
        }
        for (number, name) in all {
            let known = self.names.entry(number.0).or_insert_with(|| name.clone());
            if known != name {
                return Err(format!("number {number} was {known:?} and is {name:?}"));
            }
        }
        let made = history.map_or(0, |history| history.made);
        if made < self.made || numbers.last().is_some_and(|last| history.is_some() && made < *last) {
            return Err(format!("{made} definitions were made after {}; there are {numbers:?}", self.made));
        }
        self.made = made;
        Ok(())
    }

    fn count_turns(&mut self, before: &Board, rollout: Option<&Rollout>) -> Result<(), String> {
        let was = lrp(before).and_then(|lrp| lrp.history.as_ref()?.rollout.as_ref()).is_some_and(|was| was.reverts);
        self.turns += usize::from(!was && rollout.is_some_and(|rollout| rollout.reverts));
        if self.turns > 1 { Err("it was taken back twice".to_owned()) } else { Ok(()) }
    }
}

/// One commit, and what was asked of others because of it.
pub(super) struct Commit<'a> {
    pub(super) before: &'a Board,
    pub(super) after: &'a Board,
    pub(super) asked: &'a [Effect],
    pub(super) what: &'a str,
    pub(super) now_ns: Nanos,
}

impl Commit<'_> {
    /// A container that a rollout forgets is asked to stop, and one that leaves goes when its successor has proven itself.
    fn check_roll(&self, rollout: &Rollout) -> Result<(), String> {
        for (index, was) in slots(self.before) {
            let is = self.after.slot(&app(), index);
            let is_forgotten = |by: &InstanceKey| !is.rows().any(|row| row.is_held_by(by));
            for by in was.rows().filter_map(|row| row.instance.as_ref()).filter(|by| is_forgotten(by)) {
                let is_asked =
                    |effect: &Effect| matches!(effect, Effect::StopInstance { instance, .. } if instance == by);
                if !self.asked.iter().any(is_asked) {
                    return Err(format!("{by:?} of {index} is forgotten, and not asked to stop"));
                }
            }
            let left = was.leaving().and_then(|row| row.instance.as_ref()).filter(|by| is_forgotten(by));
            let successor = is.ordinary.as_ref().filter(|row| row.state == ActualState::Running);
            let is_proven = successor.is_some_and(|row| {
                row.definition == rollout.to && row.since_ns + rollout.terms.healthy_ns <= self.now_ns
            });
            if left.is_some() && !is_proven {
                return Err(format!("{left:?} of {index} had to leave for one that is not healthy"));
            }
        }
        Ok(())
    }
}

/// Two boards that hold the same.
pub(super) fn differences(one: &Board, other: &Board) -> Vec<String> {
    let mut found = Vec::new();
    if lrp(one) != lrp(other) {
        found.push(format!("the record: {:?} and {:?}", lrp(one), lrp(other)));
    }
    let (ones, others): (BTreeMap<_, _>, BTreeMap<_, _>) = (slots(one).collect(), slots(other).collect());
    let indices: BTreeSet<i32> = ones.keys().chain(others.keys()).copied().collect();
    for index in indices.into_iter().filter(|index| ones.get(index) != others.get(index)) {
        found.push(format!("index {index}: {:?} and {:?}", ones.get(&index), others.get(&index)));
    }
    if one.domains != other.domains {
        found.push("the domains".to_owned());
    }
    found
}
