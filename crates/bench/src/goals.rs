//! What a run set out to reach, and whether it did.

use crate::floors;
use crate::sizes::Size;
use crate::table::{Table, seconds};

/// Offline, 500,000 records should take 15 s, and more in proportion. Fewer are not judged: the start of a process counts most.
const OFFLINE_US_PER_RECORD_MAX: f64 = 30.0;
const OFFLINE_RECORDS_MIN: u64 = 500_000;
const DISK_FLOORS_MAX: f64 = 3.0;

#[derive(Debug)]
pub struct Goal {
    pub what: &'static str,
    pub reach: String,
    pub measured: String,
    /// `None` where the goal is for another size.
    pub met: Option<bool>,
}

impl Goal {
    /// Of work that rewrites a store of this size while nobody is served.
    pub fn offline(what: &'static str, size: Size, took_s: f64, written_bytes: u64, disk_mb_per_s: f64) -> Self {
        let limit_s = size.0 as f64 * OFFLINE_US_PER_RECORD_MAX / 1e6;
        let floors = floors::disk_ratio(took_s, written_bytes, disk_mb_per_s);
        Self {
            what,
            reach: format!("{} or {DISK_FLOORS_MAX:.0}x the disk floor", seconds(limit_s)),
            measured: format!("{}, {floors:.1}x the disk floor", seconds(took_s)),
            met: (size.0 >= OFFLINE_RECORDS_MIN).then_some(took_s <= limit_s || floors <= DISK_FLOORS_MAX),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not for this size",
        }
    }
}

/// The goals of every size; a goal without a size is for the whole run.
pub fn table(goals: impl IntoIterator<Item = (Option<Size>, Goal)>) -> Table {
    let mut table = Table::new(["records", "goal", "to reach", "measured", "met?"]);
    for (size, goal) in goals {
        let size = size.map(|size| size.to_string()).unwrap_or_default();
        let verdict = goal.verdict();
        table.row([size, goal.what.into(), goal.reach, goal.measured, verdict.into()]);
    }
    table
}

/// What was not reached, by name.
#[cfg(test)]
pub(crate) fn not_met(goals: Vec<Goal>) -> Vec<&'static str> {
    goals.into_iter().filter(|goal| goal.met == Some(false)).map(|goal| goal.what).collect()
}
