//! The decision: which cell gets what. A pure function, driven by a seed.
//!
//! Promise: nothing is placed where it does not fit or is not welcome; every start is either placed once or has failed with
//! a reason; the same cells, starts, settings and seed give the same placements.
//!
//! Starts are decided one by one, in the order of `order.rs`, and each choice is subtracted from what its cell has left, so
//! later choices see it. Choosing is Diego's: the lowest score wins (`candidate.rs`), and instances of one app go to the zone
//! that has fewest of them (`floor.rs`). Texts of failures are Diego's too ([`Reason`]).
//!
//! Different from Diego's, on purpose, while a test holds recorded decisions of Diego's scheduler against ours:
//!
//! - The memory that a cell adds to an instance for its proxy is subtracted with the instance. Diego's checks it and then
//!   forgets it, so that one auction can give a cell more than the cell will accept.
//! - A cell that says it has nothing of a resource in total counts as full in it; Diego's score is not a number then.
//! - Of the mismatches in several zones the most specific is told; Diego's depends on the zone that it meets last.
//! - Sorting is stable: starts that compare equal keep the order in which they arrived.
//!
//! Deciding one start looks at each cell of the zones in question once: the time is starts × cells, with some nanoseconds
//! for each. An index over cells would have to be kept per size, tag set and app, and 10,000 starts over 1,000 cells take a
//! fraction of a second without one: the example `place` measures it.

mod candidate;
mod filter;
mod floor;
mod order;
mod reason;
mod shuffle;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::rep::{CellState, Lrp, Task, Work};
use model::CellId;

use self::floor::Floor;
pub use self::reason::{Reason, Shortage};
pub use self::shuffle::Seeds;

/// How scores are made. The defaults are those of a Diego release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// What one container that is still starting adds to the score of its cell.
    pub starting_container_weight: f64,
    /// How many containers may be starting in the whole cluster; 0 is no limit.
    pub starting_container_count_max: u64,
    /// Above 0, instances fill the cells of a zone in the order of their index.
    pub bin_pack_first_fit_weight: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { starting_container_weight: 0.25, starting_container_count_max: 0, bin_pack_first_fit_weight: 0.0 }
    }
}

/// A cell that takes part, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub cell: CellId,
    pub state: CellState,
}

/// What is to be placed. Each instance and each task stands here once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub lrps: Vec<Lrp>,
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// At most one element per cell, ordered by cell; in each the starts in the order in which they were decided.
    pub placed: Vec<Placed>,
    /// In the order in which they were decided.
    pub failed: Vec<Failed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub cell: CellId,
    pub work: Work,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub start: Start,
    pub reason: Reason,
}

/// One thing to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    Lrp(Lrp),
    Task(Task),
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lrp(lrp) => write!(f, "{}/{}", lrp.process_guid, lrp.index),
            Self::Task(task) => write!(f, "task {}", task.task_guid),
        }
    }
}

/// Decides a whole batch.
pub fn place(offers: &[Offer], batch: Batch, settings: &Settings, seed: u64) -> Outcome {
    let starts = order::order(batch);
    let mut floor = Floor::open(offers, &starts, settings, seed);
    let decided: Vec<Result<&CellId, Reason>> = starts.iter().map(|start| floor.decide(start)).collect();

    let mut placed: BTreeMap<&CellId, Work> = BTreeMap::new();
    let mut failed = Vec::new();
    for (start, decision) in starts.into_iter().zip(decided) {
        match decision {
            Err(reason) => failed.push(Failed { start, reason }),
            Ok(cell) => {
                let work = placed.entry(cell).or_insert_with(|| Work { cell_id: cell.to_string(), ..Work::default() });
                match start {
                    Start::Lrp(lrp) => work.lrps.push(lrp),
                    Start::Task(task) => work.tasks.push(task),
                }
            }
        }
    }
    let placed = placed.into_iter().map(|(cell, work)| Placed { cell: cell.clone(), work }).collect();
    Outcome { placed, failed }
}
