//! What a run set out to reach, and whether it did.

use crate::sizes::Size;
use crate::table::Table;

#[derive(Debug)]
pub struct Goal {
    pub what: &'static str,
    pub reach: String,
    pub measured: String,
    /// `None` where the goal is for another size.
    pub met: Option<bool>,
}

impl Goal {
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
