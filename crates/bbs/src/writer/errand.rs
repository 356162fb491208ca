//! What the migrator asks of the writer, beside the commands of clients.
//!
//! Two kinds. A [`Rewrite`] brings records that are on the board already into another form; it shares commits with commands, so
//! that a sweep costs clients as little as possible. A [`Control`] changes what the writer itself does, in which forms it
//! stores and whether it goes on at all; it has a commit of its own, between two groups.

use std::fmt;
use std::sync::Arc;

use model::Domain;
use store::{Forms, Op, Step};

use crate::board::{Board, DesiredEntry, SlotEntry, SlotKey, TaskEntry};

/// An entry of the board as a sweep saw it.
#[derive(Clone, Debug)]
pub enum Seen {
    Desired(Arc<DesiredEntry>),
    Slot(SlotKey, Arc<SlotEntry>),
    Task(Arc<TaskEntry>),
    Domain(Arc<Domain>),
    /// Nothing of the board: operations on what lies in the store beside it.
    Nothing,
}

impl Seen {
    /// The entry of the same name that a board holds.
    #[must_use]
    pub fn on(&self, board: &Board) -> Option<Self> {
        match self {
            Self::Desired(seen) => board.desired.get(&seen.lrp.process_guid).cloned().map(Self::Desired),
            Self::Slot(key, _) => board.slots.get(key).cloned().map(|entry| Self::Slot(key.clone(), entry)),
            Self::Task(seen) => board.tasks.get(&seen.task.guid).cloned().map(Self::Task),
            Self::Domain(seen) => board.domains.get(&seen.name).cloned().map(Self::Domain),
            Self::Nothing => None,
        }
    }

    /// Whether two are the very same entry, not only equal ones.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Desired(one), Self::Desired(other)) => Arc::ptr_eq(one, other),
            (Self::Slot(_, one), Self::Slot(_, other)) => Arc::ptr_eq(one, other),
            (Self::Task(one), Self::Task(other)) => Arc::ptr_eq(one, other),
            (Self::Domain(one), Self::Domain(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Whether the board still holds the very entry. If it does not, whoever changed it stored it in all forms.
    fn is_present(&self, board: &Board) -> bool {
        matches!(self, Self::Nothing) || self.on(board).is_some_and(|present| present.is(self))
    }
}

/// The records of one entry, encoded outside the writer. They are stored whole, or not at all if the entry has changed.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub seen: Seen,
    pub ops: Vec<Op>,
}

/// Packs rewrites into as few steps as possible; an entry is never split over two.
pub(super) fn steps_of(rewrites: Vec<Rewrite>, board: &Board) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = Step::default();
    let mut bytes = 0;
    for rewrite in rewrites.into_iter().filter(|rewrite| rewrite.seen.is_present(board)) {
        let more = rewrite.ops.iter().map(Op::bytes).sum::<usize>();
        let full = step.ops.len() + rewrite.ops.len() > store::STEP_OPS_MAX || bytes + more > store::STEP_BYTES_MAX;
        if full && !step.is_empty() {
            steps.push(std::mem::take(&mut step));
            bytes = 0;
        }
        step.ops.extend(rewrite.ops);
        bytes += more;
    }
    if !step.is_empty() {
        steps.push(step);
    }
    steps
}

/// A change of the board. It may be tried again, if the store had no room.
pub type Edit = Arc<dyn Fn(&mut Board) + Send + Sync>;
/// A look at the board at the moment of the change.
pub type Check = Arc<dyn Fn(&Board) -> bool + Send + Sync>;

/// A change of the writer itself. What it names is done when `steps` are durable, and not if they are not.
#[derive(Clone, Default)]
pub struct Control {
    /// Nothing is done if this says no.
    pub check: Option<Check>,
    pub steps: Vec<Step>,
    /// From now on changes are stored in these forms.
    pub forms: Option<Forms>,
    /// A change of the board that clients do not see, such as of the quarantine.
    pub edit: Option<Edit>,
    /// From now on no command is taken any more.
    pub close: bool,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { check: _, steps, forms, edit, close } = self;
        let edits = edit.is_some();
        write!(f, "Control {{ steps: {}, forms: {forms:?}, edits: {edits}, close: {close} }}", steps.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(ops: usize, bytes: usize) -> Rewrite {
        let put = |at: usize| Op::Put { key: format!("{at}"), value: vec![0u8; bytes].into() };
        Rewrite { seen: Seen::Nothing, ops: (0..ops).map(put).collect() }
    }

    #[test]
    fn rewrites_are_packed_into_steps_that_a_store_takes() {
        let check = |rewrites: Vec<Rewrite>, expected: &[usize]| {
            let steps = steps_of(rewrites, &Board::default());
            steps.iter().for_each(|step| step.check().unwrap());
            assert_eq!(steps.iter().map(|step| step.ops.len()).collect::<Vec<_>>(), expected);
        };
        check(vec![], &[]);
        check(vec![rewrite(2, 10); 64], &[128]);
        check(vec![rewrite(3, 10); 43], &[126, 3]);
        check(vec![rewrite(2, 500_000), rewrite(2, 100_000), rewrite(1, 400_000)], &[4, 1]);
    }

    #[test]
    fn an_entry_that_changed_is_left_out() {
        let name = model::DomainName::parse("d").unwrap();
        let mut board = Board::default();
        board.put_domain(Domain::upsert(name.clone(), 0, 0));
        let seen = Seen::Domain(board.domains[&name].clone());
        let rewrites = vec![Rewrite { seen, ops: vec![Op::Delete { key: "k".into() }] }];
        assert_eq!(steps_of(rewrites.clone(), &board).len(), 1);
        board.put_domain(Domain::upsert(name, 0, 0));
        assert!(steps_of(rewrites, &board).is_empty());
    }
}
