//! What subscribers are told when records change.
//!
//! Actual LRPs are announced twice: per instance, and per group (the older view, in which an index has one visible instance
//! and perhaps an evacuating one). Both are derived from the slot before and after one atomic change, so an event never shows
//! a state that did not exist.
//!
//! Within one change crashes come first, then what is running now, then the rest: a consumer that applies events in order
//! never drops a route before it has learnt the replacement.

use std::sync::Arc;

use crate::slot::Cause;
use crate::{ActualLrp, ActualState, CellId, DesiredLrp, Presence, Slot, Task};

#[derive(Clone, Debug)]
pub enum Event {
    Desired(DesiredEvent),
    Group(GroupEvent),
    Instance(InstanceEvent),
    Task(TaskEvent),
}

#[derive(Clone, Debug)]
pub enum DesiredEvent {
    Created(Arc<DesiredLrp>),
    Changed { before: Arc<DesiredLrp>, after: Arc<DesiredLrp> },
    Removed(Arc<DesiredLrp>),
}

#[derive(Clone, Debug)]
pub enum TaskEvent {
    Created(Arc<Task>),
    Changed { before: Arc<Task>, after: Arc<Task> },
    Removed(Arc<Task>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceEvent {
    Created(Arc<ActualLrp>),
    Changed { before: Arc<ActualLrp>, after: Arc<ActualLrp> },
    Removed(Arc<ActualLrp>),
    Crashed { before: Arc<ActualLrp>, after: Arc<ActualLrp> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    Created(Group),
    Changed { before: Group, after: Group },
    Removed(Group),
    Crashed { before: Arc<ActualLrp>, after: Arc<ActualLrp> },
}

/// The older view of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub instance: Option<Arc<ActualLrp>>,
    pub evacuating: Option<Arc<ActualLrp>>,
}

impl Group {
    /// A running ordinary row is visible; otherwise a suspect masks whatever else there is.
    pub fn of(slot: &Slot) -> Self {
        let running = slot.ordinary.as_ref().filter(|row| row.state == ActualState::Running);
        let instance = running.or(slot.suspect.as_ref()).or(slot.ordinary.as_ref()).cloned();
        Self { instance, evacuating: slot.evacuating.clone() }
    }

    fn only_instance(row: &Arc<ActualLrp>) -> Self {
        Self { instance: Some(row.clone()), evacuating: None }
    }

    fn only(row: &Arc<ActualLrp>) -> Self {
        match row.presence {
            Presence::Evacuating => Self { instance: None, evacuating: Some(row.clone()) },
            Presence::Ordinary | Presence::Suspect => Self::only_instance(row),
        }
    }

    /// The one row that stands for the index.
    pub fn resolve(&self) -> Option<&Arc<ActualLrp>> {
        match (&self.instance, &self.evacuating) {
            (Some(instance), Some(evacuating)) => match instance.state {
                ActualState::Running | ActualState::Crashed => Some(instance),
                ActualState::Unclaimed | ActualState::Claimed => Some(evacuating),
            },
            (instance, evacuating) => instance.as_ref().or(evacuating.as_ref()),
        }
    }

    fn cell(&self) -> Option<&CellId> {
        self.resolve().and_then(|row| row.cell_id())
    }
}

impl GroupEvent {
    /// The cells that it is about, each once.
    pub fn cells(&self) -> impl Iterator<Item = &CellId> {
        let (first, second) = match self {
            Self::Created(group) | Self::Removed(group) => (group.cell(), None),
            Self::Changed { before, after } => (before.cell(), after.cell()),
            Self::Crashed { before, .. } => (before.cell_id(), None),
        };
        first.into_iter().chain(second.filter(|second| first != Some(second)))
    }

    pub fn concerns(&self, cell: &CellId) -> bool {
        self.cells().any(|it| it == cell)
    }
}

impl InstanceEvent {
    /// The cell that it is about, if any has the instance.
    pub fn cell(&self) -> Option<&CellId> {
        match self {
            Self::Created(row) | Self::Removed(row) => row.cell_id(),
            Self::Changed { before, after } => after.cell_id().or(before.cell_id()),
            Self::Crashed { before, .. } => before.cell_id(),
        }
    }

    pub fn concerns(&self, cell: &CellId) -> bool {
        self.cell() == Some(cell)
    }
}

/// The events of one change of one slot, in the order in which they are to be sent.
pub fn of_slot(before: &Slot, after: &Slot, cause: Cause) -> (Vec<GroupEvent>, Vec<InstanceEvent>) {
    let mut group = group_events(before, after, cause);
    let mut instance = instance_events(before, after, cause);
    group.sort_by_key(|event| match event {
        GroupEvent::Crashed { .. } => 0,
        GroupEvent::Created(shown) | GroupEvent::Changed { after: shown, .. } if runs(shown.resolve()) => 1,
        _ => 2,
    });
    // It takes the place of its successor, which has to be free for whoever counts by places.
    let stays = instance
        .iter()
        .any(|event| matches!(event, InstanceEvent::Changed { before, after } if before.leaving && !after.leaving));
    instance.sort_by_key(|event| match event {
        InstanceEvent::Crashed { .. } => 0,
        InstanceEvent::Removed(_) if stays => 0,
        InstanceEvent::Created(row) | InstanceEvent::Changed { after: row, .. } if runs(Some(row)) => 1,
        _ => 2,
    });
    (group, instance)
}

fn runs(row: Option<&Arc<ActualLrp>>) -> bool {
    row.is_some_and(|row| row.state == ActualState::Running)
}

fn instance_events(before: &Slot, after: &Slot, cause: Cause) -> Vec<InstanceEvent> {
    let mut events = Vec::new();
    let mut unmatched: Vec<&Arc<ActualLrp>> = after.rows().collect();
    let mut matched = [None; 3];
    // A row has at most one successor and succeeds at most one row, so that a consumer never holds a row twice. The
    // surest sign is tried first on every row, before a weaker one may take the successor away.
    for is_successor in [is_same_container, has_moved, is_same_row] {
        for (old, new) in before.rows().zip(&mut matched).filter(|(_, new)| new.is_none()) {
            if let Some(at) = unmatched.iter().position(|row| is_successor(old, row)) {
                *new = Some(unmatched.remove(at));
            }
        }
    }
    for (old, new) in before.rows().zip(matched) {
        match new {
            Some(new) => compare_rows(old, new, cause, &mut events),
            None => events.push(InstanceEvent::Removed(old.clone())),
        }
    }
    events.extend(unmatched.into_iter().map(|row| InstanceEvent::Created(row.clone())));
    events
}

fn is_same_container(old: &ActualLrp, new: &ActualLrp) -> bool {
    is_same_row(old, new) && old.instance == new.instance
}

/// A container that changed its presence is still the same container. One that was evacuating never comes back, its row only
/// goes; but one that was to leave may stay after all.
fn has_moved(old: &ActualLrp, new: &ActualLrp) -> bool {
    (old.presence != Presence::Evacuating || old.leaving)
        && old.presence != new.presence
        && old.instance.as_ref().is_some_and(|key| new.is_held_by(key))
}

/// A fresh epoch means that the row was made anew and the old one was dropped.
fn is_same_row(old: &ActualLrp, new: &ActualLrp) -> bool {
    old.presence == new.presence && old.tag.epoch == new.tag.epoch
}

fn compare_rows(old: &Arc<ActualLrp>, new: &Arc<ActualLrp>, cause: Cause, events: &mut Vec<InstanceEvent>) {
    if old == new {
        return;
    }
    let changed = InstanceEvent::Changed { before: old.clone(), after: new.clone() };
    let crashed = InstanceEvent::Crashed { before: old.clone(), after: new.clone() };
    match (old.state, new.state) {
        (ActualState::Unclaimed, ActualState::Unclaimed) => events.push(changed),
        (_, ActualState::Unclaimed) => {
            if cause == Cause::Crash {
                events.push(crashed);
            }
            events.push(InstanceEvent::Created(new.clone()));
            events.push(InstanceEvent::Removed(old.clone()));
        }
        (_, ActualState::Claimed | ActualState::Running) => events.push(changed),
        (_, ActualState::Crashed) => events.extend([crashed, changed]),
    }
}

fn group_events(before: &Slot, after: &Slot, cause: Cause) -> Vec<GroupEvent> {
    let (old, new) = (Group::of(before), Group::of(after));
    let mut events = Vec::new();
    compare_shown(old.evacuating.as_ref(), new.evacuating.as_ref(), &mut events);
    match (cause, &old.instance, &new.instance) {
        (Cause::Crash, Some(was), Some(is)) if was != is => {
            let crashed = after.ordinary.as_ref().unwrap_or(is);
            events.push(GroupEvent::Crashed { before: was.clone(), after: crashed.clone() });
            events.push(GroupEvent::Changed { before: old.clone(), after: new.clone() });
        }
        // Convergence announces that the suspect goes, and nothing else, whether it was visible or masked.
        (Cause::SuspectRetired, ..) => {
            events.extend(before.suspect.iter().map(|row| GroupEvent::Removed(Group::only_instance(row))));
        }
        (_, was, is) => compare_shown(was.as_ref(), is.as_ref(), &mut events),
    }
    // The replacement that goes was masked by the suspect; Diego announces its end all the same.
    if let (Cause::Promotion, Some(row)) = (cause, &before.ordinary) {
        let removed = GroupEvent::Removed(Group::only_instance(row));
        if !events.contains(&removed) {
            events.push(removed);
        }
    }
    events
}

fn compare_shown(old: Option<&Arc<ActualLrp>>, new: Option<&Arc<ActualLrp>>, events: &mut Vec<GroupEvent>) {
    match (old, new) {
        (None, None) => {}
        (None, Some(new)) => events.push(GroupEvent::Created(Group::only(new))),
        (Some(old), None) => events.push(GroupEvent::Removed(Group::only(old))),
        (Some(old), Some(new)) if is_same_but_for_presence(old, new) => {}
        (Some(old), Some(new)) => {
            let replaced = old.instance.is_some() && old.instance != new.instance;
            match new.state {
                ActualState::Claimed | ActualState::Running if replaced => {
                    events.push(GroupEvent::Created(Group::only(new)));
                    events.push(GroupEvent::Removed(Group::only(old)));
                    return;
                }
                // The crash was masked when it happened, so this view learns of it now.
                ActualState::Crashed => {
                    events.push(GroupEvent::Crashed { before: old.clone(), after: new.clone() });
                }
                _ => {}
            }
            events.push(GroupEvent::Changed { before: Group::only(old), after: Group::only(new) });
        }
    }
}

fn is_same_but_for_presence(old: &ActualLrp, new: &ActualLrp) -> bool {
    old == new
        || (old.presence != new.presence
            && *old == ActualLrp { presence: old.presence, tag: old.tag.clone(), ..new.clone() })
}

#[cfg(test)]
mod tests;
