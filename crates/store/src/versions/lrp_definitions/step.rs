//! The step between the version before and this one.
//!
//! Promise: both directions are pure and total. Going up, the one definition that a DesiredLRP has becomes number 1, and
//! every ActualLRP runs it; coming down again gives what was there. Coming down, what the version before has no room for
//! is left out and named: definitions beside the one in use, all numbers but 1, rollouts, and that a row is leaving.

use super::records::{
    Actual, Definition, Domain, History, Instance, Port, ReportedTags, Resources, Schedule, Tag, Task, TaskDefinition,
};
use super::{Desired, Entity, FIRST, NUMBER, check, records};
use crate::versions::split_desired_lrp::{self as before, records as older};
use crate::versions::unknown::{Kept, Record};
use crate::versions::{Loss, StepError};

/// Never fails: every record of the version before has its place here.
pub fn up(older: before::Entity) -> Result<Entity, StepError> {
    Ok(match older {
        before::Entity::Desired(desired) => Entity::Desired(desired_up(*desired)),
        before::Entity::Actual(actual) => Entity::Actual(Box::new(raised(*actual, "actual"))),
        before::Entity::Task(task) => Entity::Task(Box::new(raised(*task, "task"))),
        before::Entity::Domain(domain) => Entity::Domain(raised(domain, "domain")),
    })
}

pub fn down(newer: Entity) -> (before::Entity, Vec<Loss>) {
    let mut losses = Vec::new();
    let older = match newer {
        Entity::Desired(desired) => before::Entity::Desired(Box::new(desired_down(desired, &mut losses))),
        Entity::Actual(actual) => {
            if actual.definition != FIRST {
                losses.push(Loss { what: format!("that it runs definition {}", actual.definition) });
            }
            if actual.leaving {
                losses.push(Loss { what: "that it is leaving because an update replaces it".to_owned() });
            }
            before::Entity::Actual(Box::new(lowered(*actual, "actual")))
        }
        Entity::Task(task) => before::Entity::Task(Box::new(lowered(*task, "task"))),
        Entity::Domain(domain) => before::Entity::Domain(lowered(domain, "domain")),
    };
    (older, losses)
}

fn raised<A, B>(record: Kept<A>, name: &'static str) -> Kept<B>
where
    B: Record + From<A>,
{
    Kept::stepped(record.message.into(), (before::NUMBER, name), record.unknown, (NUMBER, name))
}

fn lowered<A, B>(record: Kept<A>, name: &'static str) -> Kept<B>
where
    B: Record + From<A>,
{
    Kept::stepped(record.message.into(), (NUMBER, name), record.unknown, (before::NUMBER, name))
}

fn desired_up(desired: before::Desired) -> Desired {
    let before::Desired { schedule: Kept { message: old, unknown: schedule_unknown }, run } = desired;
    let definition = Definition {
        process_guid: run.message.process_guid,
        number: FIRST,
        identifier: String::new(),
        resources: old.resources.map(Into::into),
        placement_tags: old.placement_tags,
        volume_drivers: old.volume_drivers,
        log_guid: old.log_guid,
        metrics_guid: old.metrics_guid,
        run_info: run.message.run_info,
        routes: None,
        carried: run.message.carried,
    };
    let schedule = Schedule {
        process_guid: old.process_guid,
        domain: old.domain,
        annotation: old.annotation,
        instances: old.instances,
        routes: old.routes,
        metric_tags: old.metric_tags.into_iter().map(|(name, tag)| (name, tag.into())).collect(),
        update_strategy: old.update_strategy,
        image_username: old.image_username,
        image_password: old.image_password,
        tag: old.tag.map(Into::into),
        definition: FIRST,
        previous: 0,
        history: None,
        carried: old.carried,
    };
    Desired {
        schedule: Box::new(Kept::stepped(
            schedule,
            (before::NUMBER, "schedule"),
            schedule_unknown,
            (NUMBER, "schedule"),
        )),
        definition: Box::new(Kept::stepped(
            definition,
            (before::NUMBER, "run"),
            run.unknown,
            (NUMBER, "definition"),
        )),
        previous: None,
        older: Vec::new(),
    }
}

fn desired_down(desired: Desired, losses: &mut Vec<Loss>) -> before::Desired {
    let Desired { schedule, definition, previous, older: _ } = desired;
    let Kept { message: new, unknown: schedule_unknown } = *schedule;
    let Kept { message: definition, unknown: definition_unknown } = *definition;
    if definition.number != FIRST || !definition.identifier.is_empty() {
        let named = match definition.identifier.as_str() {
            "" => String::new(),
            identifier => format!(", named {identifier:?}"),
        };
        losses.push(Loss { what: format!("that its definition is number {}{named}", definition.number) });
    }
    if let Some(previous) = previous {
        losses.push(Loss { what: format!("the previous definition, number {}", previous.number) });
    }
    if let Some(history) = &new.history {
        losses.extend(losses_of(history));
    }
    let schedule = older::Schedule {
        process_guid: new.process_guid,
        domain: new.domain,
        log_guid: definition.log_guid,
        annotation: new.annotation,
        instances: new.instances,
        resources: definition.resources.map(Into::into),
        placement_tags: definition.placement_tags,
        volume_drivers: definition.volume_drivers,
        routes: new.routes,
        metric_tags: new.metric_tags.into_iter().map(|(name, tag)| (name, tag.into())).collect(),
        metrics_guid: definition.metrics_guid,
        update_strategy: new.update_strategy,
        image_username: new.image_username,
        image_password: new.image_password,
        tag: new.tag.map(Into::into),
        carried: new.carried,
    };
    let run = older::Run {
        process_guid: definition.process_guid,
        run_info: definition.run_info,
        carried: definition.carried,
    };
    before::Desired {
        schedule: Kept::stepped(schedule, (NUMBER, "schedule"), schedule_unknown, (before::NUMBER, "schedule")),
        run: Kept::stepped(run, (NUMBER, "definition"), definition_unknown, (before::NUMBER, "run")),
    }
}

/// What a history is made of. It names the older definitions too.
fn losses_of(history: &History) -> Vec<Loss> {
    let History { made, older, rollout } = history;
    let kept = older.iter().map(|number| format!("the older definition, number {number}"));
    let rollout = rollout.iter().map(|rollout| {
        let which = if rollout.phase == check::DONE { "the account of the last rollout" } else { "the rollout" };
        format!("{which}, from definition {} to {}", rollout.from, rollout.to)
    });
    let count = format!("the count of its definitions, {made}");
    kept.chain(rollout).chain([count]).map(|what| Loss { what }).collect()
}

/// Messages with the same fields in both versions, and what stands in fields that are only here when it comes up.
macro_rules! alike {
    ($($name:ident {
        $($field:ident),* $(,)?
        $(; parts $($inner:ident),*)?
        $(; new $($new:ident = $value:expr),*)?
    })*) => {$(
        impl From<older::$name> for $name {
            fn from(older: older::$name) -> $name {
                $name {
                    $($field: older.$field,)*
                    $($($inner: older.$inner.map(Into::into),)*)?
                    $($($new: $value,)*)?
                }
            }
        }

        impl From<$name> for older::$name {
            fn from(newer: $name) -> older::$name {
                older::$name {
                    $($field: newer.$field,)*
                    $($($inner: newer.$inner.map(Into::into),)*)?
                }
            }
        }
    )*};
}

alike! {
    Resources { memory_mb, disk_mb, max_pids, root_fs }
    Tag { epoch, index }
    Instance { instance_guid, cell_id }
    Port { container_port, host_port, container_tls_proxy_port, host_tls_proxy_port }
    ReportedTags { tags }
    Actual {
        process_guid, index, domain, crash_count, crash_reason, state, placement_error, since_ns, presence,
        internal_routes, routable, availability_zone, carried;
        parts instance, net_info, tag, metric_tags;
        new definition = FIRST, leaving = false
    }
    TaskDefinition {
        placement_tags, volume_drivers, completion_callback_url, annotation, encoded;
        parts resources
    }
    Task {
        guid, domain, state, cell_id, created_ns, updated_ns, first_completed_ns, result, failed, failure_reason,
        rejection_count, rejection_reason, carried;
        parts definition
    }
    Domain { name, expires_ns, carried }
}

/// As [`alike`], for the two messages whose parts are no plain options.
macro_rules! nested_alike {
    ($from:ident, $to:ident) => {
        impl From<$from::NetInfo> for $to::NetInfo {
            fn from(net: $from::NetInfo) -> $to::NetInfo {
                $to::NetInfo {
                    address: net.address,
                    ports: net.ports.into_iter().map(Into::into).collect(),
                    instance_address: net.instance_address,
                    preferred_address: net.preferred_address,
                    instance_ipv6_address: net.instance_ipv6_address,
                }
            }
        }

        impl From<$from::MetricTag> for $to::MetricTag {
            fn from(tag: $from::MetricTag) -> $to::MetricTag {
                let value = tag.value.map(|value| match value {
                    $from::MetricTagValue::Static(text) => $to::MetricTagValue::Static(text),
                    $from::MetricTagValue::Index(_) => $to::MetricTagValue::Index($to::Nothing {}),
                    $from::MetricTagValue::InstanceGuid(_) => $to::MetricTagValue::InstanceGuid($to::Nothing {}),
                });
                $to::MetricTag { value }
            }
        }
    };
}

nested_alike!(older, records);
nested_alike!(records, older);
