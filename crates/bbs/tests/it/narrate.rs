//! Records and events in a few words, for transcripts.

use api::event::EventPayload;
use api::models::actual_lrp::Presence;
use api::models::{ActualLrp, ActualLrpGroup, ActualLrpInfo, ActualLrpInstanceKey, ActualLrpKey, Task};

pub(crate) fn place(key: Option<&ActualLrpKey>) -> String {
    key.map_or("?".into(), |key| format!("{}/{}", key.process_guid, key.index))
}

fn holder(key: Option<&ActualLrpInstanceKey>) -> String {
    match key {
        Some(key) if !key.instance_guid.is_empty() => format!(" {}@{}", key.instance_guid, key.cell_id),
        _ => String::new(),
    }
}

fn presence(number: i32) -> &'static str {
    match Presence::try_from(number) {
        Ok(Presence::Ordinary) => "",
        Ok(Presence::Evacuating) => " evacuating",
        Ok(Presence::Suspect) => " suspect",
        Err(_) => " of an unknown presence",
    }
}

/// Place, state, holder, presence.
pub(crate) fn row(row: &ActualLrp) -> String {
    let holder = holder(row.actual_lrp_instance_key.as_ref());
    format!("{} {}{holder}{}", place(row.actual_lrp_key.as_ref()), row.state, presence(row.presence))
}

/// The row with whatever else is unusual about it, and its tag.
pub(crate) fn row_in_full(actual: &ActualLrp) -> String {
    let mut text = row(actual);
    if actual.crash_count > 0 {
        text += &format!(" crashed {} times: {}", actual.crash_count, actual.crash_reason);
    }
    if !actual.placement_error.is_empty() {
        text += &format!(" placement error: {}", actual.placement_error);
    }
    if let Some(net_info) = actual.actual_lrp_net_info.as_ref().filter(|info| !info.address.is_empty()) {
        text += &format!(" at {}", net_info.address);
    }
    if !actual.actual_lrp_internal_routes.is_empty() {
        let names: Vec<_> = actual.actual_lrp_internal_routes.iter().map(|route| route.hostname.as_str()).collect();
        text += &format!(" known as {}", names.join(","));
    }
    if actual.routable == Some(true) {
        text += " routable";
    }
    text + &format!(" tag {}", actual.modification_tag.as_ref().map_or(0, |tag| tag.index))
}

pub(crate) fn task(task: &Task) -> String {
    let mut text = format!("{} {}", task.task_guid, task.state().as_str_name());
    if !task.cell_id.is_empty() {
        text += &format!(" on {}", task.cell_id);
    }
    if task.failed {
        text += &format!(" failed: {}", task.failure_reason);
    }
    if !task.result.is_empty() {
        text += &format!(" result: {}", task.result);
    }
    if task.rejection_count > 0 {
        text += &format!(" rejected {} times: {}", task.rejection_count, task.rejection_reason);
    }
    text
}

fn group(group: Option<&ActualLrpGroup>) -> String {
    let Some(group) = group else { return "nothing".into() };
    match (&group.instance, &group.evacuating) {
        (Some(instance), Some(evacuating)) => format!("[{} | {}]", row(instance), row(evacuating)),
        (Some(instance), None) => row(instance),
        (None, Some(evacuating)) => format!("[- | {}]", row(evacuating)),
        (None, None) => "empty".into(),
    }
}

fn info(info: Option<&ActualLrpInfo>) -> String {
    let Some(info) = info else { return "nothing".into() };
    format!("{}{}", info.state, presence(info.presence))
}

fn traced(text: String, trace_id: &str) -> String {
    if trace_id.is_empty() { text } else { format!("{text} (trace {trace_id})") }
}

fn process(lrp: Option<&api::models::DesiredLrp>) -> String {
    lrp.map_or("?".into(), |lrp| format!("{} x{}", lrp.process_guid, lrp.instances))
}

pub(crate) fn event(payload: &EventPayload) -> String {
    use EventPayload as P;
    let name = payload.name();
    match payload {
        P::DesiredLrpCreated(event) => {
            traced(format!("{name} {}", process(event.desired_lrp.as_ref())), &event.trace_id)
        }
        P::DesiredLrpRemoved(event) => {
            traced(format!("{name} {}", process(event.desired_lrp.as_ref())), &event.trace_id)
        }
        P::DesiredLrpChanged(event) => traced(
            format!("{name} {} -> {}", process(event.before.as_ref()), process(event.after.as_ref())),
            &event.trace_id,
        ),
        P::ActualLrpCreated(event) => format!("{name} {}", group(event.actual_lrp_group.as_ref())),
        P::ActualLrpRemoved(event) => format!("{name} {}", group(event.actual_lrp_group.as_ref())),
        P::ActualLrpChanged(event) => {
            format!("{name} {} -> {}", group(event.before.as_ref()), group(event.after.as_ref()))
        }
        P::ActualLrpCrashed(event) => format!(
            "{name} {}{} for the {}. time: {}",
            place(event.actual_lrp_key.as_ref()),
            holder(event.actual_lrp_instance_key.as_ref()),
            event.crash_count,
            event.crash_reason
        ),
        P::ActualLrpInstanceCreated(event) => {
            traced(format!("{name} {}", event.actual_lrp.as_ref().map_or("?".into(), row)), &event.trace_id)
        }
        P::ActualLrpInstanceRemoved(event) => {
            traced(format!("{name} {}", event.actual_lrp.as_ref().map_or("?".into(), row)), &event.trace_id)
        }
        P::ActualLrpInstanceChanged(event) => traced(
            format!(
                "{name} {}{}: {} -> {}",
                place(event.actual_lrp_key.as_ref()),
                holder(event.actual_lrp_instance_key.as_ref()),
                info(event.before.as_ref()),
                info(event.after.as_ref())
            ),
            &event.trace_id,
        ),
        P::TaskCreated(event) => format!("{name} {}", event.task.as_ref().map_or("?".into(), task)),
        P::TaskRemoved(event) => format!("{name} {}", event.task.as_ref().map_or("?".into(), task)),
        P::TaskChanged(event) => format!(
            "{name} {} -> {}",
            event.before.as_ref().map_or("?".into(), task),
            event.after.as_ref().map_or("?".into(), task)
        ),
        P::Gap(gap) => format!("{name} {gap:?}"),
    }
}
