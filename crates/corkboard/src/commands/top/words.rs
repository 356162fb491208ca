//! Events as rows: a kind, what it is about, and one detail that a tired reader wants to know.

use api::event::EventPayload;
use api::models::actual_lrp::Presence;
use api::models::task::State as TaskState;
use api::models::{ActualLrp, ActualLrpInfo, ActualLrpKey, DesiredLrp, Task};

use super::picture::{Happening, printable};

/// `None` for what says nothing to people.
pub(super) fn of(event: &EventPayload, at_ns: i64) -> Option<Happening> {
    let (kind, what, detail, is_bad) = match event {
        EventPayload::DesiredLrpCreated(event) => {
            ("desired", app(&event.desired_lrp), wanted(&event.desired_lrp), false)
        }
        EventPayload::DesiredLrpChanged(event) => {
            ("changed", app(&event.after), change(&event.before, &event.after), false)
        }
        EventPayload::DesiredLrpRemoved(event) => {
            ("removed", app(&event.desired_lrp), "not wanted any more".to_owned(), false)
        }
        EventPayload::ActualLrpInstanceCreated(event) => {
            let lrp = event.actual_lrp.as_ref()?;
            ("instance", name(&lrp.actual_lrp_key), state(lrp), false)
        }
        EventPayload::ActualLrpInstanceChanged(event) => {
            let cell = event.actual_lrp_instance_key.as_ref().map_or("", |key| &key.cell_id);
            let (detail, is_bad) = step(event.before.as_ref()?, event.after.as_ref()?, cell)?;
            ("instance", name(&event.actual_lrp_key), detail, is_bad)
        }
        EventPayload::ActualLrpInstanceRemoved(event) => {
            let lrp = event.actual_lrp.as_ref()?;
            ("instance", name(&lrp.actual_lrp_key), format!("removed (was {})", state(lrp)), false)
        }
        EventPayload::ActualLrpCrashed(event) => {
            let detail = format!("crashed, {}: {}", times(event.crash_count), event.crash_reason);
            ("crash", name(&event.actual_lrp_key), detail, true)
        }
        EventPayload::TaskCreated(event) => ("task", task(&event.task), "created".to_owned(), false),
        EventPayload::TaskChanged(event) => {
            let after = event.after.as_ref()?;
            ("task", task(&event.after), progress(after), after.failed)
        }
        EventPayload::TaskRemoved(event) => ("task", task(&event.task), "deleted".to_owned(), false),
        EventPayload::ActualLrpCreated(_)
        | EventPayload::ActualLrpChanged(_)
        | EventPayload::ActualLrpRemoved(_)
        | EventPayload::Gap(_) => return None,
    };
    Some(Happening { at_ns, kind, what: printable(&what), detail: printable(&detail), is_bad })
}

fn app(lrp: &Option<DesiredLrp>) -> String {
    lrp.as_ref().map(|lrp| lrp.process_guid.clone()).unwrap_or_default()
}

fn name(key: &Option<ActualLrpKey>) -> String {
    key.as_ref().map(|key| format!("{}/{}", key.process_guid, key.index)).unwrap_or_default()
}

fn task(task: &Option<Task>) -> String {
    task.as_ref().map(|task| task.task_guid.clone()).unwrap_or_default()
}

fn wanted(lrp: &Option<DesiredLrp>) -> String {
    instances(lrp.as_ref().map_or(0, |lrp| lrp.instances))
}

fn change(before: &Option<DesiredLrp>, after: &Option<DesiredLrp>) -> String {
    let count = |lrp: &Option<DesiredLrp>| lrp.as_ref().map_or(0, |lrp| lrp.instances);
    match (count(before), count(after)) {
        (old, new) if old == new => rollout(before, after).unwrap_or_else(|| "updated".to_owned()),
        (old, new) => format!("{old} -> {}", instances(new)),
    }
}

/// `None` when the change has nothing to do with an update of the definition.
fn rollout(before: &Option<DesiredLrp>, after: &Option<DesiredLrp>) -> Option<String> {
    let (before, after) = (before.as_ref()?, after.as_ref()?);
    let (old, new) = (before.rollout.as_ref(), after.rollout.as_ref()?);
    let to = new.to_definition;
    if old.is_none_or(|old| old.started_at != new.started_at) {
        let (way, why) = if new.reverts { ("back", format!(": {}", new.why)) } else { ("on the way", String::new()) };
        return Some(format!("{way} to definition {to}{why}"));
    }
    match new.phase.as_str() {
        "done" if old.is_some_and(|old| old.phase == "done") => None,
        phase if old.is_some_and(|old| old.phase == phase) => Some(format!("on the way to definition {to}")),
        "done" => Some(format!("has definition {to}")),
        "halted" => Some(format!("halted on the way to definition {to}: {}", new.why)),
        phase => Some(format!("{phase}, to definition {to}")),
    }
}

fn instances(count: i32) -> String {
    format!("{count} instance{}", if count == 1 { "" } else { "s" })
}

fn times(count: i32) -> String {
    format!("{count} time{}", if count == 1 { "" } else { "s" })
}

fn state(lrp: &ActualLrp) -> String {
    let cell = lrp.actual_lrp_instance_key.as_ref().map_or("", |key| &key.cell_id);
    format!("{}{}{}", lrp.state.to_lowercase(), on(cell), role(lrp.presence, lrp.leaving))
}

fn on(cell: &str) -> String {
    if cell.is_empty() { String::new() } else { format!(" on {cell}") }
}

fn role(presence: i32, is_leaving: bool) -> &'static str {
    match Presence::try_from(presence) {
        Ok(Presence::Evacuating) if is_leaving => ", leaving",
        Ok(Presence::Evacuating) => ", evacuating",
        Ok(Presence::Suspect) => ", suspect",
        _ => "",
    }
}

/// `None` for a change that shows nowhere, such as other ports.
fn step(before: &ActualLrpInfo, after: &ActualLrpInfo, cell: &str) -> Option<(String, bool)> {
    if !after.placement_error.is_empty() && before.placement_error != after.placement_error {
        return Some((format!("not placed: {}", after.placement_error), true));
    }
    if before.state == after.state && before.presence == after.presence {
        return None;
    }
    let states = if before.state == after.state {
        after.state.to_lowercase()
    } else {
        format!("{} -> {}", before.state.to_lowercase(), after.state.to_lowercase())
    };
    Some((format!("{states}{}{}", on(cell), role(after.presence, after.leaving)), after.state == "CRASHED"))
}

fn progress(task: &Task) -> String {
    let state = match task.state() {
        TaskState::Completed if task.failed => return format!("failed: {}", task.failure_reason),
        state => state.as_str_name().to_lowercase(),
    };
    format!("{state}{}", on(&task.cell_id))
}
