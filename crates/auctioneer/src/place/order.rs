//! In which order starts are decided: what an app needs first, and what is hardest to place, comes first.
//!
//! Instances with index 0 come before tasks, and tasks before the other instances, so that every app gets its first
//! instance while there is room. Within each, large ones come first. Diego's quirk is kept: in a batch without any instance
//! above index 0, tasks come first of all.

use super::{Batch, Start};

pub(super) fn order(batch: Batch) -> Vec<Start> {
    let Batch { mut lrps, mut tasks } = batch;
    lrps.sort_by(|a, b| a.index.cmp(&b.index).then(b.needs.memory_mb.cmp(&a.needs.memory_mb)));
    tasks.sort_by_key(|task| std::cmp::Reverse(task.needs.memory_mb));
    let before_tasks = lrps.iter().position(|lrp| lrp.index > 0).unwrap_or(0);
    let after_tasks = lrps.split_off(before_tasks);
    let lrps = lrps.into_iter().map(Start::Lrp);
    lrps.chain(tasks.into_iter().map(Start::Task)).chain(after_tasks.into_iter().map(Start::Lrp)).collect()
}
