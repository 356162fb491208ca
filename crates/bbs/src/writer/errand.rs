//! What the migrator asks of the writer, beside the commands of clients.
//!
//! Two kinds. A [`Copy`] brings records that are on the board already into another form; it shares commits with commands, so
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
    /// Whether the board still holds the very entry. If it does not, whoever changed it stored it in all forms.
    fn is_present(&self, board: &Board) -> bool {
        match self {
            Self::Desired(seen) => {
                board.desired.get(&seen.lrp.process_guid).is_some_and(|entry| Arc::ptr_eq(entry, seen))
            }
            Self::Slot(key, seen) => board.slots.get(key).is_some_and(|entry| Arc::ptr_eq(entry, seen)),
            Self::Task(seen) => board.tasks.get(&seen.task.guid).is_some_and(|entry| Arc::ptr_eq(entry, seen)),
            Self::Domain(seen) => board.domains.get(&seen.name).is_some_and(|entry| Arc::ptr_eq(entry, seen)),
            Self::Nothing => true,
        }
    }
}

/// The records of one entry, encoded outside the writer. They are stored whole, or not at all if the entry has changed.
#[derive(Clone, Debug)]
pub struct Copy {
    pub seen: Seen,
    pub ops: Vec<Op>,
}

/// Packs copies into as few steps as possible; an entry is never split over two.
pub(super) fn steps_of(copies: Vec<Copy>, board: &Board) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = Step::default();
    let mut bytes = 0;
    for copy in copies.into_iter().filter(|copy| copy.seen.is_present(board)) {
        let more = copy.ops.iter().map(Op::bytes).sum::<usize>();
        let full = step.ops.len() + copy.ops.len() > store::STEP_OPS_MAX || bytes + more > store::STEP_BYTES_MAX;
        if full && !step.is_empty() {
            steps.push(std::mem::take(&mut step));
            bytes = 0;
        }
        step.ops.extend(copy.ops);
        bytes += more;
    }
    if !step.is_empty() {
        steps.push(step);
    }
    steps
}

type Edit = Box<dyn FnOnce(&mut Board) + Send>;

/// A change of the writer itself. What it names is done when `steps` are durable, and not if they are not.
#[derive(Default)]
pub struct Control {
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
        let Self { steps, forms, edit, close } = self;
        let edits = edit.is_some();
        write!(f, "Control {{ steps: {}, forms: {forms:?}, edits: {edits}, close: {close} }}", steps.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(ops: usize, bytes: usize) -> Copy {
        let put = |at: usize| Op::Put { key: format!("{at}"), value: vec![0u8; bytes].into() };
        Copy { seen: Seen::Nothing, ops: (0..ops).map(put).collect() }
    }

    #[test]
    fn copies_are_packed_into_steps_that_a_store_takes() {
        let check = |copies: Vec<Copy>, expected: &[usize]| {
            let steps = steps_of(copies, &Board::default());
            steps.iter().for_each(|step| step.check().unwrap());
            assert_eq!(steps.iter().map(|step| step.ops.len()).collect::<Vec<_>>(), expected);
        };
        check(vec![], &[]);
        check(vec![copy(2, 10); 64], &[128]);
        check(vec![copy(3, 10); 43], &[126, 3]);
        check(vec![copy(2, 500_000), copy(2, 100_000), copy(1, 400_000)], &[4, 1]);
    }

    #[test]
    fn an_entry_that_changed_is_left_out() {
        let name = model::DomainName::parse("d").unwrap();
        let mut board = Board::default();
        board.put_domain(Domain::upsert(name.clone(), 0, 0));
        let seen = Seen::Domain(board.domains[&name].clone());
        let copies = vec![Copy { seen, ops: vec![Op::Delete { key: "k".into() }] }];
        assert_eq!(steps_of(copies.clone(), &board).len(), 1);
        board.put_domain(Domain::upsert(name, 0, 0));
        assert!(steps_of(copies, &board).is_empty());
    }
}
