//! What the records of a picture add up to, for each app and each cell, in one pass.
//!
//! An index runs if any record of it does: while a cell is evacuated or suspected, the older record still serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::models::actual_lrp::Presence;
use api::models::task::State as TaskState;
use serde::Serialize;

use super::picture::{App, Cell, Instance, Picture, Place, State};

#[derive(Debug, Default)]
pub(super) struct Summary {
    /// By name.
    pub(super) apps: Vec<AppRow>,
    /// Into `apps`: those that lack something first, then by name.
    pub(super) by_trouble: Vec<usize>,
    /// By name; also those that are only spoken of.
    pub(super) cells: Vec<CellRow>,
    pub(super) totals: Counts,
    pub(super) pending_tasks: u32,
    pub(super) running_tasks: u32,
}

#[derive(Debug)]
pub(super) struct AppRow {
    pub(super) guid: Arc<str>,
    pub(super) domain: Box<str>,
    pub(super) counts: Counts,
    /// The first sentence that says why an instance is not there.
    pub(super) trouble: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// How many should run.
    pub(super) desired: u32,
    pub(super) running: u32,
    pub(super) claimed: u32,
    pub(super) unclaimed: u32,
    pub(super) crashed: u32,
    /// Unclaimed because nothing takes them.
    pub(super) placement_errors: u32,
}

#[derive(Debug)]
pub(super) struct CellRow {
    pub(super) id: Arc<str>,
    /// `None` when it is not there.
    pub(super) cell: Option<Cell>,
    pub(super) used: Used,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Used {
    pub(super) memory_mb: i64,
    pub(super) disk_mb: i64,
    pub(super) instances: u32,
    pub(super) tasks: u32,
    pub(super) evacuating: u32,
    pub(super) suspect: u32,
}

impl Summary {
    pub(super) fn of(picture: &Picture) -> Self {
        let mut summary = Self::default();
        let mut used: BTreeMap<Arc<str>, Used> = picture.cells.keys().map(|id| (id.clone(), Used::default())).collect();
        for (guid, app) in &picture.apps {
            let row = app_row(guid, app);
            summary.totals.add(&row.counts);
            summary.apps.push(row);
            for (place, instance) in app.instances.iter().filter(|(_, instance)| !instance.cell_id.is_empty()) {
                if !used.contains_key(&instance.cell_id) {
                    used.insert(instance.cell_id.clone(), Used::default());
                }
                if let Some(used) = used.get_mut(&instance.cell_id) {
                    used.take(app, *place, instance.is_leaving);
                }
            }
        }
        for task in picture.tasks.values() {
            match task.state {
                TaskState::Pending => summary.pending_tasks += 1,
                TaskState::Running => {
                    summary.running_tasks += 1;
                    let used = used.entry(task.cell_id.clone()).or_default();
                    used.tasks += 1;
                    used.memory_mb += i64::from(task.memory_mb);
                    used.disk_mb += i64::from(task.disk_mb);
                }
                _ => {}
            }
        }
        let row = |(id, used): (Arc<str>, Used)| CellRow { cell: picture.cells.get(&id).cloned(), id, used };
        summary.cells = used.into_iter().map(row).collect();
        summary.by_trouble = (0..summary.apps.len()).collect();
        let apps = &summary.apps;
        summary.by_trouble.sort_by_key(|at| std::cmp::Reverse(apps[*at].counts.trouble()));
        summary
    }

    pub(super) fn absent_cells(&self) -> usize {
        self.cells.iter().filter(|row| row.cell.is_none()).count()
    }
}

fn app_row(guid: &Arc<str>, app: &App) -> AppRow {
    let desired = app.desired.as_ref().map_or(0, |desired| desired.instances);
    let mut counts = Counts { desired: u32::try_from(desired).unwrap_or(0), ..Counts::default() };
    let (mut trouble, mut ran): (Option<&Instance>, Option<i32>) = (None, None);
    for (place, instance) in &app.instances {
        if instance.state == State::Running {
            counts.running += u32::from(ran != Some(place.index));
            ran = Some(place.index);
        } else if !place.is(Presence::Evacuating) {
            *match instance.state {
                State::Claimed => &mut counts.claimed,
                State::Crashed => &mut counts.crashed,
                _ => &mut counts.unclaimed,
            } += 1;
        }
        counts.placement_errors += u32::from(instance.is_placement_error);
        if instance.state != State::Running && !instance.trouble.is_empty() && trouble.is_none() {
            trouble = Some(instance);
        }
    }
    AppRow {
        guid: guid.clone(),
        domain: app.desired.as_ref().map(|desired| desired.domain.clone()).unwrap_or_default(),
        counts,
        trouble: trouble.map(|instance| instance.trouble.clone()),
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.desired += other.desired;
        self.running += other.running;
        self.claimed += other.claimed;
        self.unclaimed += other.unclaimed;
        self.crashed += other.crashed;
        self.placement_errors += other.placement_errors;
    }

    /// How many are wanted and do not run.
    pub(super) fn missing(&self) -> u32 {
        self.desired.saturating_sub(self.running)
    }

    /// More is worse.
    fn trouble(&self) -> u32 {
        self.missing() + self.crashed + self.placement_errors
    }

    /// Something that does not come right by waiting a moment.
    pub(super) fn is_bad(&self) -> bool {
        self.crashed > 0 || self.placement_errors > 0
    }
}

impl Used {
    /// A cell is not drained because an update replaces an instance on it.
    fn take(&mut self, app: &App, place: Place, is_leaving: bool) {
        self.instances += 1;
        self.evacuating += u32::from(place.is(Presence::Evacuating) && !is_leaving);
        self.suspect += u32::from(place.is(Presence::Suspect));
        if let Some(desired) = &app.desired {
            self.memory_mb += i64::from(desired.memory_mb);
            self.disk_mb += i64::from(desired.disk_mb);
        }
    }

    pub(super) fn containers(&self) -> u32 {
        self.instances + self.tasks
    }
}

impl CellRow {
    /// In one word, as an operator would say it.
    pub(super) fn condition(&self) -> &'static str {
        match (&self.cell, self.used) {
            (None, _) => "absent",
            (_, Used { evacuating: 1.., .. }) => "evacuating",
            (_, Used { suspect: 1.., .. }) => "suspect",
            _ => "there",
        }
    }
}
