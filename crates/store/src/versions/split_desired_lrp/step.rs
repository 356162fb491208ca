//! The step between the version before and this one.
//!
//! Promise: both directions are pure. What comes up comes down again as it was, and what is read here survives going down
//! and up, without loss. What the version before calls by name (states, presences) has numbers here, which are the same
//! things; a metric tag that is both a text and a dynamic value, or neither, has no place here and is refused.
//!
//! The run record has a `carried` of its own. The version before has one record and one `carried`: there the run record's
//! lies packed up with its unknown fields.

use bytes::Bytes;

use super::records::{
    Actual, Domain, Instance, MetricTag, MetricTagValue, NetInfo, Nothing, Port, ReportedTags, Resources, Run,
    Schedule, Tag, Task, TaskDefinition,
};
use super::{Desired, Entity, NUMBER, check};
use crate::versions::protobuf::{self as before, records as older};
use crate::versions::unknown::{Carried, Kept, Owner};
use crate::versions::{Loss, StepError};

const OLDER_DESIRED: Owner = (before::NUMBER, "desired");
const OLDER_ACTUAL: Owner = (before::NUMBER, "actual");
const OLDER_TASK: Owner = (before::NUMBER, "task");
const OLDER_DOMAIN: Owner = (before::NUMBER, "domain");
const SCHEDULE: Owner = (NUMBER, "schedule");
const RUN: &str = "run";
const ACTUAL: Owner = (NUMBER, "actual");
const TASK: Owner = (NUMBER, "task");
const DOMAIN: Owner = (NUMBER, "domain");
/// Carried for a row that did not say whether it is routable. Then the running ones are.
const ROUTABLE_UNSAID: &str = "routable unsaid";

const RUNNING: u32 = 3;
const STATES: [(u32, &str); 4] = [(1, "UNCLAIMED"), (2, "CLAIMED"), (RUNNING, "RUNNING"), (4, "CRASHED")];
const INDEX: i32 = 1;
const INSTANCE_GUID: i32 = 2;

pub fn up(older: before::Entity) -> Result<Entity, StepError> {
    Ok(match older {
        before::Entity::Desired(lrp) => Entity::Desired(Box::new(desired_up(*lrp)?)),
        before::Entity::Actual(lrp) => {
            let Kept { message, unknown } = *lrp;
            let actual = actual_up(message)?;
            fit(check::actual(&actual))?;
            Entity::Actual(Box::new(Kept::stepped(actual, OLDER_ACTUAL, unknown, ACTUAL)))
        }
        before::Entity::Task(task) => {
            let Kept { message, unknown } = *task;
            let task = task_up(message)?;
            fit(check::task(&task))?;
            Entity::Task(Box::new(Kept::stepped(task, OLDER_TASK, unknown, TASK)))
        }
        before::Entity::Domain(Kept { message, unknown }) => {
            let older::Domain { name, expires_ns, carried } = message;
            let domain = Domain { name, expires_ns, carried };
            fit(check::domain(&domain))?;
            Entity::Domain(Kept::stepped(domain, OLDER_DOMAIN, unknown, DOMAIN))
        }
    })
}

/// Nothing is ever lost: what the version before lacks, it carries.
pub fn down(newer: Entity) -> (before::Entity, Vec<Loss>) {
    let older = match newer {
        Entity::Desired(desired) => before::Entity::Desired(Box::new(desired_down(*desired))),
        Entity::Actual(actual) => {
            let Kept { message, unknown } = *actual;
            before::Entity::Actual(Box::new(Kept::stepped(actual_down(message), ACTUAL, unknown, OLDER_ACTUAL)))
        }
        Entity::Task(task) => {
            let Kept { message, unknown } = *task;
            before::Entity::Task(Box::new(Kept::stepped(task_down(message), TASK, unknown, OLDER_TASK)))
        }
        Entity::Domain(Kept { message, unknown }) => {
            let Domain { name, expires_ns, carried } = message;
            let domain = older::Domain { name, expires_ns, carried };
            before::Entity::Domain(Kept::stepped(domain, DOMAIN, unknown, OLDER_DOMAIN))
        }
    };
    (older, Vec::new())
}

fn desired_up(lrp: older::Desired) -> Result<Desired, StepError> {
    let volume_drivers = lrp.volume_drivers();
    let older::Desired { message: mut old, run_info, unknown } = lrp;
    let run = take(&mut old.carried, RUN).unwrap_or_default();
    let mut run = Kept::<Run>::read(run).map_err(|_| refused("what it carries for its run record is no message"))?;
    run.message.process_guid.clone_from(&old.process_guid);
    run.message.run_info = run_info;
    let metric_tags = old.metric_tags.into_iter().map(|(name, tag)| Ok((name, metric_tag_up(tag)?)));
    let schedule = Schedule {
        process_guid: old.process_guid,
        domain: old.domain,
        log_guid: old.log_guid,
        annotation: old.annotation,
        instances: old.instances,
        resources: Some(Resources {
            memory_mb: old.memory_mb,
            disk_mb: old.disk_mb,
            max_pids: old.max_pids,
            root_fs: old.root_fs,
        }),
        placement_tags: old.placement_tags,
        volume_drivers,
        routes: old.routes.unwrap_or_default().routes,
        metric_tags: metric_tags.collect::<Result<_, StepError>>()?,
        metrics_guid: old.metrics_guid,
        update_strategy: old.update_strategy,
        image_username: old.image_username,
        image_password: old.image_password,
        tag: old.modification_tag.map(tag_up),
        carried: old.carried,
    };
    fit(check::schedule(&schedule))?;
    Ok(Desired { schedule: Kept::stepped(schedule, OLDER_DESIRED, unknown, SCHEDULE), run })
}

fn desired_down(desired: Desired) -> older::Desired {
    let Desired { schedule: Kept { message: new, unknown: schedule_unknown }, mut run } = desired;
    let run_info = std::mem::take(&mut run.message.run_info);
    run.message.process_guid.clear();
    let resources = new.resources.unwrap_or_default();
    let mut message = older::DesiredLrp {
        process_guid: new.process_guid,
        domain: new.domain,
        root_fs: resources.root_fs,
        instances: new.instances,
        disk_mb: resources.disk_mb,
        memory_mb: resources.memory_mb,
        routes: Some(older::Routes { routes: new.routes }).filter(|routes| !routes.routes.is_empty()),
        log_guid: new.log_guid,
        metrics_guid: new.metrics_guid,
        annotation: new.annotation,
        modification_tag: new.tag.map(tag_down),
        placement_tags: new.placement_tags,
        max_pids: resources.max_pids,
        image_username: new.image_username,
        image_password: new.image_password,
        metric_tags: new.metric_tags.into_iter().map(|(name, tag)| (name, metric_tag_down(tag))).collect(),
        update_strategy: new.update_strategy,
        carried: new.carried,
        ..older::DesiredLrp::default()
    };
    let packed = run.payload();
    if !packed.is_empty() {
        give(&mut message.carried, NUMBER.0, RUN, packed.into());
    }
    let Kept { message, unknown } = Kept::stepped(message, SCHEDULE, schedule_unknown, OLDER_DESIRED);
    older::Desired::new(message, new.volume_drivers, run_info, unknown)
}

fn actual_up(mut old: older::ActualLrp) -> Result<Actual, StepError> {
    let key = old.key.ok_or_else(|| refused("the record has no key"))?;
    let instance = old.instance_key.filter(|key| !key.instance_guid.is_empty() || !key.cell_id.is_empty());
    let state = STATES.iter().find(|(_, name)| *name == old.state);
    let (state, _) = *state.ok_or_else(|| refused("the record is in a state that this version does not know"))?;
    if old.routable.is_none() {
        give(&mut old.carried, before::NUMBER.0, ROUTABLE_UNSAID, Bytes::new());
    }
    let reported = old.metric_tags_reported || !old.metric_tags.is_empty();
    Ok(Actual {
        process_guid: key.process_guid,
        index: key.index,
        domain: key.domain,
        instance: instance.map(|key| Instance { instance_guid: key.instance_guid, cell_id: key.cell_id }),
        net_info: Some(net_info_up(old.net_info.unwrap_or_default())),
        crash_count: old.crash_count,
        crash_reason: old.crash_reason,
        state,
        placement_error: old.placement_error,
        since_ns: old.since,
        tag: old.modification_tag.map(tag_up),
        presence: old.presence.cast_unsigned().wrapping_add(1),
        internal_routes: old.internal_routes.into_iter().map(|route| route.hostname).collect(),
        metric_tags: reported.then_some(ReportedTags { tags: old.metric_tags }),
        routable: old.routable.unwrap_or(state == RUNNING),
        availability_zone: old.availability_zone,
        carried: old.carried,
    })
}

fn actual_down(mut new: Actual) -> older::ActualLrp {
    let instance = new.instance.unwrap_or_default();
    let state = STATES.iter().find(|(number, _)| *number == new.state).map_or("", |(_, name)| name);
    // A row that came up without saying it goes down without saying it, unless somebody has said something else since.
    let unsaid = |one: &Carried| one.version == before::NUMBER.0 && one.record == ROUTABLE_UNSAID;
    let unsaid = new.routable == (new.state == RUNNING) && new.carried.extract_if(.., |one| unsaid(one)).count() > 0;
    let tags = new.metric_tags.map(|reported| reported.tags);
    older::ActualLrp {
        key: Some(older::ActualLrpKey { process_guid: new.process_guid, index: new.index, domain: new.domain }),
        instance_key: Some(older::InstanceKey { instance_guid: instance.instance_guid, cell_id: instance.cell_id }),
        net_info: Some(net_info_down(new.net_info.unwrap_or_default())),
        crash_count: new.crash_count,
        crash_reason: new.crash_reason,
        state: state.to_owned(),
        placement_error: new.placement_error,
        since: new.since_ns,
        modification_tag: new.tag.map(tag_down),
        presence: new.presence.wrapping_sub(1).cast_signed(),
        internal_routes: new.internal_routes.into_iter().map(|hostname| older::InternalRoute { hostname }).collect(),
        metric_tags_reported: tags.as_ref().is_some_and(|tags| tags.is_empty()),
        metric_tags: tags.unwrap_or_default(),
        routable: (!unsaid).then_some(new.routable),
        availability_zone: new.availability_zone,
        carried: new.carried,
    }
}

fn task_up(old: older::Task) -> Result<Task, StepError> {
    let definition = old.definition().ok_or_else(|| refused("the record has no definition that can be read"))?;
    let resources = definition.resources.map(|resources| {
        let older::Resources { memory_mb, disk_mb, max_pids, root_fs } = resources;
        Resources { memory_mb, disk_mb, max_pids, root_fs }
    });
    let definition = TaskDefinition {
        resources,
        placement_tags: definition.placement_tags,
        volume_drivers: definition.volume_drivers,
        completion_callback_url: definition.completion_callback_url,
        annotation: definition.annotation,
        encoded: old.encoded.unwrap_or_default(),
    };
    Ok(Task {
        guid: old.task_guid,
        domain: old.domain,
        definition: Some(definition),
        state: old.state,
        cell_id: old.cell_id,
        created_ns: old.created_at,
        updated_ns: old.updated_at,
        first_completed_ns: old.first_completed_at,
        result: old.result,
        failed: old.failed,
        failure_reason: old.failure_reason,
        rejection_count: old.rejection_count,
        rejection_reason: old.rejection_reason,
        carried: old.carried,
    })
}

fn task_down(new: Task) -> older::Task {
    let definition = new.definition.unwrap_or_default();
    let resources = definition.resources.map(|resources| {
        let Resources { memory_mb, disk_mb, max_pids, root_fs } = resources;
        older::Resources { memory_mb, disk_mb, max_pids, root_fs }
    });
    let mut task = older::Task {
        encoded: Some(definition.encoded),
        task_guid: new.guid,
        domain: new.domain,
        created_at: new.created_ns,
        updated_at: new.updated_ns,
        first_completed_at: new.first_completed_ns,
        state: new.state,
        cell_id: new.cell_id,
        result: new.result,
        failed: new.failed,
        failure_reason: new.failure_reason,
        rejection_count: new.rejection_count,
        rejection_reason: new.rejection_reason,
        carried: new.carried,
        ..older::Task::default()
    };
    task.set_definition(older::Definition {
        resources,
        placement_tags: definition.placement_tags,
        volume_drivers: definition.volume_drivers,
        completion_callback_url: definition.completion_callback_url,
        annotation: definition.annotation,
    });
    task
}

fn tag_up(older::ModificationTag { epoch, index }: older::ModificationTag) -> Tag {
    Tag { epoch, index }
}

fn tag_down(Tag { epoch, index }: Tag) -> older::ModificationTag {
    older::ModificationTag { epoch, index }
}

fn metric_tag_up(tag: older::MetricTagValue) -> Result<MetricTag, StepError> {
    let value = match tag.dynamic {
        0 => MetricTagValue::Static(tag.r#static),
        INDEX if tag.r#static.is_empty() => MetricTagValue::Index(Nothing {}),
        INSTANCE_GUID if tag.r#static.is_empty() => MetricTagValue::InstanceGuid(Nothing {}),
        _ => return Err(refused("one of its metric tags is not exactly one of a text, the index, the instance guid")),
    };
    Ok(MetricTag { value: Some(value) })
}

fn metric_tag_down(tag: MetricTag) -> older::MetricTagValue {
    let (text, dynamic) = match tag.value {
        None => (String::new(), 0),
        Some(MetricTagValue::Static(text)) => (text, 0),
        Some(MetricTagValue::Index(_)) => (String::new(), INDEX),
        Some(MetricTagValue::InstanceGuid(_)) => (String::new(), INSTANCE_GUID),
    };
    older::MetricTagValue { r#static: text, dynamic }
}

fn net_info_up(net: older::NetInfo) -> NetInfo {
    let port = |port: older::PortMapping| {
        let older::PortMapping { container_port, host_port, container_tls_proxy_port, host_tls_proxy_port } = port;
        Port { container_port, host_port, container_tls_proxy_port, host_tls_proxy_port }
    };
    let ports = net.ports.into_iter().map(port).collect();
    let older::NetInfo { address, instance_address, preferred_address, instance_ipv6_address, .. } = net;
    NetInfo { address, ports, instance_address, preferred_address, instance_ipv6_address }
}

fn net_info_down(net: NetInfo) -> older::NetInfo {
    let port = |port: Port| {
        let Port { container_port, host_port, container_tls_proxy_port, host_tls_proxy_port } = port;
        older::PortMapping { container_port, host_port, container_tls_proxy_port, host_tls_proxy_port }
    };
    let ports = net.ports.into_iter().map(port).collect();
    let NetInfo { address, instance_address, preferred_address, instance_ipv6_address, .. } = net;
    older::NetInfo { address, ports, instance_address, preferred_address, instance_ipv6_address }
}

fn take(carried: &mut Vec<Carried>, record: &str) -> Option<Bytes> {
    let at = carried.iter().position(|one| one.version == NUMBER.0 && one.record == record)?;
    Some(carried.remove(at).fields)
}

/// Keeps the one order of what is carried.
fn give(carried: &mut Vec<Carried>, version: u64, record: &str, fields: Bytes) {
    let at = carried.partition_point(|one| (one.version, one.record.as_str()) < (version, record));
    carried.insert(at, Carried { version, record: record.to_owned(), fields });
}

/// What would be refused when it is read again does not come up in the first place.
fn fit(checked: Result<(), check::Unfit>) -> Result<(), StepError> {
    checked.map_err(|unfit| StepError(unfit.to_string()))
}

fn refused(why: &str) -> StepError {
    StepError(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::generated::{all_kinds, any_entity};
    use super::super::{Loader, Run};
    use super::*;
    use crate::versions::initial_json::{frozen as json, generated::any_record};
    use crate::versions::protobuf::frozen as pb;

    fn loaded(entity: &Entity) -> Option<Entity> {
        let mut records = BTreeMap::new();
        entity.write(&mut |key, value| assert!(records.insert(key, value).is_none()));
        let mut loader = Loader::default();
        let loaded = records.iter().filter_map(|(key, value)| loader.feed(key, value)).last();
        assert_eq!(loader.finish(), vec![]);
        loaded
    }

    #[test]
    fn frozen_records_go_up_and_come_down_as_they_were() {
        for (record, older) in pb::frozen() {
            let newer = up(older.clone()).unwrap();
            assert_eq!(older.label(), newer.label());
            assert_eq!(loaded(&newer).as_ref(), Some(&newer));
            let (back, losses) = down(newer.clone());
            assert_eq!((&back, losses), (&older, vec![]));
            assert_eq!(pb::written(&back), record);
            assert_eq!(up(back), Ok(newer));
        }
    }

    #[test]
    fn frozen_records_of_this_version_go_down_and_come_up() {
        for newer in all_kinds() {
            let (older, losses) = down(newer.clone());
            assert_eq!(losses, vec![]);
            assert_eq!(up(older), Ok(newer));
        }
    }

    fn actual(change: impl Fn(&mut older::ActualLrp)) -> before::Entity {
        let (_, entity) = pb::frozen().swap_remove(2);
        let before::Entity::Actual(mut lrp) = entity else { panic!("an ActualLRP") };
        change(&mut lrp.message);
        before::Entity::Actual(lrp)
    }

    #[test]
    fn what_a_row_did_not_say_is_said_again_only_when_it_changed() {
        for (state, routable) in [("CLAIMED", false), ("RUNNING", true)] {
            let older = actual(|lrp| (lrp.state, lrp.routable) = (state.to_owned(), None));
            let newer = up(older.clone()).unwrap();
            let Entity::Actual(row) = &newer else { panic!("an ActualLRP") };
            assert_eq!(row.routable, routable);
            assert_eq!(down(newer.clone()).0, older);
            let mut changed = row.clone();
            changed.routable = !routable;
            let (before::Entity::Actual(said), _) = down(Entity::Actual(changed.clone())) else {
                panic!("an ActualLRP")
            };
            assert_eq!(said.routable, Some(!routable));
            assert_eq!(up(before::Entity::Actual(said)), Ok(Entity::Actual(changed)));
        }
    }

    #[test]
    fn what_has_no_place_here_is_refused() {
        let refused = |older| up(older).unwrap_err().0;
        assert_eq!(refused(actual(|lrp| lrp.key = None)), "the record has no key");
        assert_eq!(
            refused(actual(|lrp| lrp.state = "DREAMING".into())),
            "the record is in a state that this version does not know"
        );
        assert_eq!(refused(actual(|lrp| lrp.modification_tag = None)), "the record has no modification tag");
        for (text, dynamic) in [("x", INDEX), ("x", INSTANCE_GUID), ("", 3)] {
            let (_, entity) = pb::frozen().swap_remove(0);
            let before::Entity::Desired(mut lrp) = entity else { panic!("a DesiredLRP") };
            lrp.message.metric_tags.insert("a".into(), older::MetricTagValue { r#static: text.into(), dynamic });
            let why = refused(before::Entity::Desired(lrp));
            assert_eq!(why, "one of its metric tags is not exactly one of a text, the index, the instance guid");
        }
    }

    #[test]
    fn the_run_record_keeps_what_it_carries() {
        let Entity::Desired(mut desired) = all_kinds().swap_remove(1) else { panic!("a DesiredLRP") };
        let carried = |version| Carried { version, record: "x".into(), fields: Bytes::from_static(b"\x10\x01") };
        desired.schedule.carried.push(carried(5));
        desired.run = Kept {
            message: Run { carried: vec![carried(6)], ..desired.run.message },
            unknown: Bytes::from_static(b"\x18\x01"),
        };
        let newer = Entity::Desired(desired);
        assert_eq!(up(down(newer.clone()).0), Ok(newer));
    }

    proptest! {
        #[test]
        fn json_comes_all_the_way_up_and_down_again(record in any_record()) {
            let oldest = json::load(&record).unwrap();
            let older = before::up(oldest.clone()).unwrap();
            let newer = up(older.clone()).unwrap();
            prop_assert_eq!(loaded(&newer), Some(newer.clone()));
            let (back, losses) = down(newer.clone());
            prop_assert_eq!((&back, losses), (&older, vec![]));
            prop_assert_eq!(up(back.clone()), Ok(newer));
            prop_assert_eq!(before::down(back).0, oldest);
        }

        #[test]
        fn every_entity_goes_all_the_way_down_and_up_again(newer in any_entity()) {
            let (older, losses) = down(newer.clone());
            prop_assert_eq!(losses, vec![]);
            prop_assert_eq!(pb::load(&pb::written(&older)), Ok(older.clone()));
            let (oldest, losses) = before::down(older.clone());
            prop_assert_eq!(losses, vec![]);
            prop_assert_eq!(json::load(&json::written(&oldest)), Ok(oldest.clone()));
            prop_assert_eq!(before::up(oldest), Ok(older.clone()));
            prop_assert_eq!(up(older), Ok(newer));
        }
    }
}
