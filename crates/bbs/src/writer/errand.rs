//! What the migrator asks of the writer, beside the commands of clients.
//!
//! Three kinds. A [`Rewrite`] brings records that are on the board already into another form; it shares commits with commands, so
//! that a sweep costs clients as little as possible; so does storing records under another key. A [`Control`] changes what the writer itself does, in which forms it
//! stores and whether it goes on at all; it has a commit of its own, between two groups.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use model::Domain;
use store::seal::Vault;
use store::{EntityRef, Forms, Op, Step, Version, versions};

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

    /// What the entry is made of. The rows of a slot are entities of their own.
    pub fn entities(&self) -> Vec<EntityRef<'_>> {
        match self {
            Self::Desired(entry) => vec![EntityRef::Desired(&entry.lrp)],
            Self::Slot(_, entry) => entry.slot.rows().map(|row| EntityRef::Actual(row)).collect(),
            Self::Task(entry) => vec![EntityRef::Task(&entry.task)],
            Self::Domain(domain) => vec![EntityRef::Domain(domain)],
            Self::Nothing => Vec::new(),
        }
    }
}

/// The records of one entry in one form, encoded outside the writer. They are stored whole.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub seen: Seen,
    pub form: Version,
    pub ops: Vec<Op>,
}

impl Rewrite {
    /// What is to be stored, now that the writer looks at it. A change since then has stored only what it changed, on top of
    /// nothing if the sweep had not come by; so an entry that changed is encoded again, whole, and one that is gone is left.
    fn settle(self, board: &Board) -> Vec<Op> {
        if matches!(self.seen, Seen::Nothing) {
            return self.ops;
        }
        match self.seen.on(board) {
            Some(present) if present.is(&self.seen) => self.ops,
            Some(present) => encode(self.form, &present),
            None => Vec::new(),
        }
    }
}

fn encode(form: Version, seen: &Seen) -> Vec<Op> {
    let records = seen.entities().into_iter().flat_map(|entity| versions::records(form, entity).0);
    records.map(|(key, value)| Op::Put { key, value }).collect()
}

/// Packs rewrites into as few steps as possible; an entry is never split over two.
pub(super) fn steps_of(rewrites: Vec<Rewrite>, board: &Board) -> Vec<Step> {
    packed(rewrites.into_iter().map(|rewrite| rewrite.settle(board)))
}

/// What is still to be stored under another key. A record that the census knows under that key has changed since it was read;
/// one that it does not know is gone; and one that a step of the same group names is about to be either.
pub(super) fn reseal(sealed: Vec<Op>, vault: Option<&Vault>, group: &[Step]) -> Vec<Step> {
    let Some(vault) = vault else { return Vec::new() };
    let touched: HashSet<&str> = group.iter().flat_map(|step| &step.ops).map(Op::key).collect();
    let is_still_stale = |op: &Op| !touched.contains(op.key()) && vault.is_stale(op.key());
    packed(sealed.into_iter().filter(is_still_stale).map(|op| vec![op]))
}

fn packed(parts: impl Iterator<Item = Vec<Op>>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = Step::default();
    let mut bytes = 0;
    for ops in parts {
        let more = ops.iter().map(Op::bytes).sum::<usize>();
        let full = step.ops.len() + ops.len() > store::STEP_OPS_MAX || bytes + more > store::STEP_BYTES_MAX;
        if full && !step.is_empty() {
            steps.push(std::mem::take(&mut step));
            bytes = 0;
        }
        step.ops.extend(ops);
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
        Rewrite { seen: Seen::Nothing, form: Version::LATEST, ops: (0..ops).map(put).collect() }
    }

    #[test]
    fn rewrites_are_packed_into_steps_that_a_store_takes() {
        let check = |rewrites: Vec<Rewrite>, expected: &[usize]| {
            let steps = steps_of(rewrites, &Board::default());
            steps.iter().for_each(|step| step.check().unwrap());
            assert_eq!(steps.iter().map(|step| step.ops.len()).collect::<Vec<_>>(), expected);
        };
        check(vec![], &[]);
        check(vec![rewrite(1, 10); 128], &[126, 2]);
        check(vec![rewrite(3, 10); 43], &[126, 3]);
        check(vec![rewrite(2, 500_000), rewrite(2, 100_000), rewrite(1, 400_000)], &[4, 1]);
    }

    #[test]
    fn an_entry_that_changed_is_encoded_again_and_one_that_is_gone_is_left_out() {
        let name = model::DomainName::parse("d").unwrap();
        let mut board = Board::default();
        board.put_domain(Domain::upsert(name.clone(), 0, 0));
        let seen = Seen::Domain(board.domains[&name].clone());
        let rewrite = || Rewrite {
            seen: seen.clone(),
            form: Version::LATEST,
            ops: vec![Op::Put { key: "k".into(), value: "as it was seen".into() }],
        };
        assert_eq!(steps_of(vec![rewrite()], &board)[0].ops, rewrite().ops);
        board.put_domain(Domain::upsert(name.clone(), 7, 0));
        let now = EntityRef::Domain(&board.domains[&name]);
        let (key, value) = versions::records(Version::LATEST, now).0.remove(0);
        assert_eq!(steps_of(vec![rewrite()], &board)[0].ops, [Op::Put { key, value }]);
        board.remove_domain(&name);
        assert!(steps_of(vec![rewrite()], &board).is_empty());
    }
}
