//! Sums that are asked for often and would otherwise need a walk over all records.

use super::{DesiredEntry, SlotEntry};

/// Counts of rows, and how long each full list is, so that its length can be announced before it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub desired_list_bytes: u64,
    pub routing_list_bytes: u64,
    pub scheduling_list_bytes: u64,
    pub actual_list_bytes: u64,
    pub actual_rows: u64,
}

impl Totals {
    /// The sums of both, for boards that hold different records.
    pub(super) fn add(&mut self, other: &Self) {
        self.desired_list_bytes += other.desired_list_bytes;
        self.routing_list_bytes += other.routing_list_bytes;
        self.scheduling_list_bytes += other.scheduling_list_bytes;
        self.actual_list_bytes += other.actual_list_bytes;
        self.actual_rows += other.actual_rows;
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
}
