//! One cell during an auction: what it has left, and how welcome the next start is.
//!
//! The score is the used share of memory, disk and containers after placing, on average, plus a weight for each container
//! that is still starting, plus a thousand for each instance of the same app (or, for a task, each task) that is there
//! already. The lowest wins.

use api::rep::{CellState, Needs};
use model::CellId;

use super::reason::Shortage;

/// Larger than any sum of the other parts: spreading beats packing.
const LOCALITY_OFFSET: f64 = 1000.0;

#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) id: &'a CellId,
    /// Cells of one profile welcome the same starts; see [`super::filter`].
    pub(super) profile: usize,
    left: Amounts,
    total: Amounts,
    proxy_memory_mb: i64,
    starting: i64,
    tasks: i64,
    /// The score's share for the place in the zone; 0 unless cells are to be filled in order.
    index_score: f64,
}

/// In 64 bits, so that no number that a peer sends can overflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amounts {
    pub(super) memory_mb: i64,
    pub(super) disk_mb: i64,
    pub(super) containers: i64,
}

impl From<&api::rep::Resources> for Amounts {
    fn from(resources: &api::rep::Resources) -> Self {
        Self {
            memory_mb: resources.memory_mb.into(),
            disk_mb: resources.disk_mb.into(),
            containers: resources.containers,
        }
    }
}

impl<'a> Candidate<'a> {
    pub(super) fn new(id: &'a CellId, state: &CellState, profile: usize, index_score: f64) -> Self {
        Self {
            id,
            profile,
            left: (&state.available).into(),
            total: (&state.total).into(),
            proxy_memory_mb: state.proxy_memory_allocation_mb.clamp(0, i32::MAX.into()),
            starting: state.starting_container_count.clamp(0, i32::MAX.into()),
            tasks: state.tasks.len() as i64,
            index_score,
        }
    }

    /// What an instance costs here.
    pub(super) fn lrp_cost(&self, needs: &Needs) -> Amounts {
        let mut cost = task_cost(needs);
        cost.memory_mb += self.proxy_memory_mb;
        cost
    }

    pub(super) fn shortage(&self, cost: &Amounts) -> Shortage {
        Shortage {
            containers: self.left.containers < cost.containers,
            disk: self.left.disk_mb < cost.disk_mb,
            memory: self.left.memory_mb < cost.memory_mb,
        }
    }

    /// `same` is how many instances of the app are here already.
    pub(super) fn lrp_score(&self, cost: &Amounts, same: u32, starting_weight: f64) -> f64 {
        self.resource_score(cost, starting_weight) + LOCALITY_OFFSET * f64::from(same) + self.index_score
    }

    pub(super) fn task_score(&self, cost: &Amounts, starting_weight: f64) -> f64 {
        self.resource_score(cost, starting_weight) + LOCALITY_OFFSET * self.tasks as f64
    }

    fn resource_score(&self, cost: &Amounts, starting_weight: f64) -> f64 {
        let memory = used(self.left.memory_mb - cost.memory_mb, self.total.memory_mb);
        let disk = used(self.left.disk_mb - cost.disk_mb, self.total.disk_mb);
        let containers = used(self.left.containers - cost.containers, self.total.containers);
        (memory + disk + containers) / 3.0 + self.starting as f64 * starting_weight
    }

    pub(super) fn take(&mut self, cost: &Amounts) {
        self.left.memory_mb -= cost.memory_mb;
        self.left.disk_mb -= cost.disk_mb;
        self.left.containers -= cost.containers;
        self.starting += 1;
    }

    pub(super) fn count_task(&mut self) {
        self.tasks += 1;
    }
}

pub(super) fn task_cost(needs: &Needs) -> Amounts {
    Amounts { memory_mb: needs.memory_mb.into(), disk_mb: needs.disk_mb.into(), containers: 1 }
}

fn used(left: i64, total: i64) -> f64 {
    if total <= 0 { 1.0 } else { 1.0 - left as f64 / total as f64 }
}
