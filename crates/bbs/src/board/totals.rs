//! Sums that are asked for often and would otherwise need a walk over all records.

use model::TaskState;

use super::{DesiredEntry, SlotEntry, TaskEntry};

/// Counts of rows, and how long each full list is, so that its length can be announced before it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub desired_list_bytes: u64,
    pub routing_list_bytes: u64,
    pub scheduling_list_bytes: u64,
    pub actual_list_bytes: u64,
    pub actual_rows: u64,
    tasks_by_state: [u64; 4],
}

impl Totals {
    pub fn tasks(&self, state: TaskState) -> usize {
        let at = TaskState::ALL.iter().position(|known| *known == state).unwrap_or(0);
        usize::try_from(self.tasks_by_state[at]).unwrap_or(usize::MAX)
    }

    /// The sums of both, for boards that hold different records.
    pub(super) fn add(&mut self, other: &Self) {
        self.desired_list_bytes += other.desired_list_bytes;
        self.routing_list_bytes += other.routing_list_bytes;
        self.scheduling_list_bytes += other.scheduling_list_bytes;
        self.actual_list_bytes += other.actual_list_bytes;
        self.actual_rows += other.actual_rows;
        for (sum, more) in self.tasks_by_state.iter_mut().zip(other.tasks_by_state) {
            *sum += more;
        }
    }

    pub(super) fn add_slot(&mut self, entry: &SlotEntry) {
        for (_, item) in entry.rows() {
            self.actual_list_bytes += item.framed().len() as u64;
            self.actual_rows += 1;
        }
    }

    pub(super) fn remove_slot(&mut self, entry: &SlotEntry) {
        for (_, item) in entry.rows() {
            self.actual_list_bytes -= item.framed().len() as u64;
            self.actual_rows -= 1;
        }
    }

    pub(super) fn add_desired(&mut self, entry: &DesiredEntry) {
        self.desired_list_bytes += entry.wire.framed_len() as u64;
        self.routing_list_bytes += entry.wire.routing_framed_len() as u64;
        self.scheduling_list_bytes += entry.wire.scheduling().framed().len() as u64;
    }

    pub(super) fn remove_desired(&mut self, entry: &DesiredEntry) {
        self.desired_list_bytes -= entry.wire.framed_len() as u64;
        self.routing_list_bytes -= entry.wire.routing_framed_len() as u64;
        self.scheduling_list_bytes -= entry.wire.scheduling().framed().len() as u64;
    }

    pub(super) fn add_task(&mut self, entry: &TaskEntry) {
        self.tasks_by_state[Self::at(entry)] += 1;
    }

    pub(super) fn remove_task(&mut self, entry: &TaskEntry) {
        self.tasks_by_state[Self::at(entry)] -= 1;
    }

    fn at(entry: &TaskEntry) -> usize {
        TaskState::ALL.iter().position(|known| *known == entry.task.state).unwrap_or(0)
    }
}
