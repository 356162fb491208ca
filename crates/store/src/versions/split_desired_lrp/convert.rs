//! Between the model and the records of this version.
//!
//! Promise: to a record and back gives the same entity. From a record there is one door, and it checks: an id that is
//! empty, a state nobody knows or a missing part is an error that says so, without showing a value.

use bytes::Bytes;
use model::{
    ActualLrp, ActualLrpKey, ActualState, CellId, DesiredLrp, Domain, DomainName, IdError, ImageCredentials,
    InstanceGuid, InstanceKey, MetricTag, ModificationTag, NetInfo, Packed, PortMapping, Presence, ProcessGuid,
    Resources, Task, TaskDefinition, TaskGuid, TaskState, UpdateStrategy,
};
use thiserror::Error;

use super::records;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ConvertError {
    #[error(transparent)]
    Id(#[from] IdError),
    #[error("the record has no {0}")]
    Missing(&'static str),
    #[error("the record has {what} {number}, which this version does not know")]
    Unknown { what: &'static str, number: u32 },
}

const ACTUAL_STATES: [(u32, ActualState); 4] =
    [(1, ActualState::Unclaimed), (2, ActualState::Claimed), (3, ActualState::Running), (4, ActualState::Crashed)];
const PRESENCES: [(u32, Presence); 3] = [(1, Presence::Ordinary), (2, Presence::Evacuating), (3, Presence::Suspect)];
const TASK_STATES: [(u32, TaskState); 4] =
    [(1, TaskState::Pending), (2, TaskState::Running), (3, TaskState::Completed), (4, TaskState::Resolving)];

fn number_of<T: PartialEq>(table: &[(u32, T)], value: &T) -> u32 {
    // 0 means unknown when it is read. A test checks that every value has its row.
    table.iter().find(|(_, known)| known == value).map_or(0, |(number, _)| *number)
}

fn value_of<T: Copy>(table: &[(u32, T)], number: u32, what: &'static str) -> Result<T, ConvertError> {
    let row = table.iter().find(|(known, _)| *known == number);
    row.map(|(_, value)| *value).ok_or(ConvertError::Unknown { what, number })
}

pub(super) fn schedule(lrp: &DesiredLrp) -> records::Schedule {
    let metric_tags = lrp.metric_tags.iter().map(|(name, tag)| (name.to_owned(), metric_tag(tag))).collect();
    records::Schedule {
        process_guid: lrp.process_guid.to_string(),
        domain: lrp.domain.to_string(),
        log_guid: lrp.log_guid.clone(),
        annotation: lrp.annotation.clone(),
        instances: lrp.instances,
        resources: Some(resources(&lrp.resources)),
        placement_tags: lrp.placement_tags.clone(),
        volume_drivers: lrp.volume_drivers.clone(),
        routes: lrp.routes.iter().map(|(name, json)| (name.to_owned(), Bytes::copy_from_slice(json))).collect(),
        metric_tags,
        metrics_guid: lrp.metrics_guid.clone(),
        update_strategy: lrp.update_strategy.0,
        image_username: lrp.image_credentials.username.clone(),
        image_password: lrp.image_credentials.password.clone(),
        tag: Some(tag(&lrp.tag)),
    }
}

pub(super) fn run(lrp: &DesiredLrp) -> records::Run {
    records::Run { process_guid: lrp.process_guid.to_string(), run_info: lrp.run_info.clone() }
}

/// The entity is there when both of its records are: `guid` is what both of them name.
pub(super) fn desired(
    guid: ProcessGuid,
    schedule: records::Schedule,
    run_info: Bytes,
) -> Result<DesiredLrp, ConvertError> {
    let metric_tags = schedule.metric_tags.into_iter().map(|(name, tag)| Ok((name, model_metric_tag(tag)?)));
    Ok(DesiredLrp {
        process_guid: guid,
        domain: DomainName::parse(&schedule.domain)?,
        log_guid: schedule.log_guid,
        annotation: schedule.annotation,
        instances: schedule.instances,
        resources: model_resources(schedule.resources)?,
        placement_tags: schedule.placement_tags,
        volume_drivers: schedule.volume_drivers,
        routes: schedule.routes.into(),
        metric_tags: Packed::try_from_sorted::<ConvertError>(metric_tags)?,
        metrics_guid: schedule.metrics_guid,
        update_strategy: UpdateStrategy(schedule.update_strategy),
        image_credentials: ImageCredentials { username: schedule.image_username, password: schedule.image_password },
        tag: model_tag(schedule.tag)?,
        run_info,
        definition: model::DefinitionNumber::FIRST,
        definition_identifier: String::new(),
        previous: None,
        unknown: model::Unknown::default(),
    })
}

fn resources(resources: &Resources) -> records::Resources {
    let Resources { memory_mb, disk_mb, max_pids, root_fs } = resources.clone();
    records::Resources { memory_mb, disk_mb, max_pids, root_fs }
}

fn model_resources(resources: Option<records::Resources>) -> Result<Resources, ConvertError> {
    let records::Resources { memory_mb, disk_mb, max_pids, root_fs } =
        resources.ok_or(ConvertError::Missing("resources"))?;
    Ok(Resources { memory_mb, disk_mb, max_pids, root_fs })
}

fn metric_tag(tag: MetricTag<&str>) -> records::MetricTag {
    let value = match tag {
        MetricTag::Static(text) => records::MetricTagValue::Static(text.to_owned()),
        MetricTag::Index => records::MetricTagValue::Index(records::Nothing {}),
        MetricTag::InstanceGuid => records::MetricTagValue::InstanceGuid(records::Nothing {}),
    };
    records::MetricTag { value: Some(value) }
}

fn model_metric_tag(tag: records::MetricTag) -> Result<MetricTag, ConvertError> {
    Ok(match tag.value.ok_or(ConvertError::Missing("value of a metric tag"))? {
        records::MetricTagValue::Static(text) => MetricTag::Static(text),
        records::MetricTagValue::Index(_) => MetricTag::Index,
        records::MetricTagValue::InstanceGuid(_) => MetricTag::InstanceGuid,
    })
}

fn tag(tag: &ModificationTag) -> records::Tag {
    records::Tag { epoch: tag.epoch.to_string(), index: tag.index }
}

fn model_tag(tag: Option<records::Tag>) -> Result<ModificationTag, ConvertError> {
    let tag = tag.ok_or(ConvertError::Missing("modification tag"))?;
    Ok(ModificationTag { epoch: tag.epoch.into(), index: tag.index })
}

pub(super) fn actual(lrp: &ActualLrp) -> records::Actual {
    let instance = lrp.instance.as_ref().map(|instance| records::Instance {
        instance_guid: instance.instance_guid.to_string(),
        cell_id: instance.cell_id.to_string(),
    });
    records::Actual {
        process_guid: lrp.key.process_guid.to_string(),
        index: lrp.key.index,
        domain: lrp.key.domain.to_string(),
        instance,
        net_info: Some(net_info(&lrp.net_info)),
        crash_count: lrp.crash_count,
        crash_reason: lrp.crash_reason.clone(),
        state: number_of(&ACTUAL_STATES, &lrp.state),
        placement_error: lrp.placement_error.clone(),
        since_ns: lrp.since_ns,
        tag: Some(tag(&lrp.tag)),
        presence: number_of(&PRESENCES, &lrp.presence),
        internal_routes: lrp.internal_routes.clone(),
        metric_tags: lrp.metric_tags.as_ref().map(|tags| records::ReportedTags {
            tags: tags.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }),
        routable: lrp.routable,
        availability_zone: lrp.availability_zone.clone(),
    }
}

pub(super) fn model_actual(record: records::Actual) -> Result<ActualLrp, ConvertError> {
    let instance = record.instance.map(|instance| -> Result<InstanceKey, IdError> {
        Ok(InstanceKey {
            instance_guid: InstanceGuid::parse(&instance.instance_guid)?,
            cell_id: CellId::parse(&instance.cell_id)?,
        })
    });
    Ok(ActualLrp {
        key: ActualLrpKey {
            process_guid: ProcessGuid::parse(&record.process_guid)?,
            index: record.index,
            domain: DomainName::parse(&record.domain)?,
        },
        instance: instance.transpose()?,
        net_info: model_net_info(record.net_info.ok_or(ConvertError::Missing("net info"))?),
        crash_count: record.crash_count,
        crash_reason: record.crash_reason,
        state: value_of(&ACTUAL_STATES, record.state, "state")?,
        placement_error: record.placement_error,
        since_ns: record.since_ns,
        tag: model_tag(record.tag)?,
        presence: value_of(&PRESENCES, record.presence, "presence")?,
        internal_routes: record.internal_routes,
        metric_tags: record.metric_tags.map(|reported| reported.tags.into()),
        routable: record.routable,
        availability_zone: record.availability_zone,
        definition: model::DefinitionNumber::FIRST,
        unknown: model::Unknown::default(),
    })
}

fn net_info(net: &NetInfo) -> records::NetInfo {
    let port = |port: &PortMapping| records::Port {
        container_port: port.container_port,
        host_port: port.host_port,
        container_tls_proxy_port: port.container_tls_proxy_port,
        host_tls_proxy_port: port.host_tls_proxy_port,
    };
    records::NetInfo {
        address: net.address.clone(),
        ports: net.ports.iter().map(port).collect(),
        instance_address: net.instance_address.clone(),
        preferred_address: net.preferred_address,
        instance_ipv6_address: net.instance_ipv6_address.clone(),
    }
}

fn model_net_info(net: records::NetInfo) -> NetInfo {
    let port = |port: records::Port| PortMapping {
        container_port: port.container_port,
        host_port: port.host_port,
        container_tls_proxy_port: port.container_tls_proxy_port,
        host_tls_proxy_port: port.host_tls_proxy_port,
    };
    NetInfo {
        address: net.address,
        ports: net.ports.into_iter().map(port).collect(),
        instance_address: net.instance_address,
        preferred_address: net.preferred_address,
        instance_ipv6_address: net.instance_ipv6_address,
    }
}

pub(super) fn task(task: &Task) -> records::Task {
    let definition = &task.definition;
    records::Task {
        guid: task.guid.to_string(),
        domain: task.domain.to_string(),
        definition: Some(records::TaskDefinition {
            resources: Some(resources(&definition.resources)),
            placement_tags: definition.placement_tags.clone(),
            volume_drivers: definition.volume_drivers.clone(),
            completion_callback_url: definition.completion_callback_url.clone(),
            annotation: definition.annotation.clone(),
            encoded: definition.encoded.clone(),
        }),
        state: number_of(&TASK_STATES, &task.state),
        cell_id: task.cell_id.as_ref().map(CellId::to_string).unwrap_or_default(),
        created_ns: task.created_ns,
        updated_ns: task.updated_ns,
        first_completed_ns: task.first_completed_ns,
        result: task.result.clone(),
        failed: task.failed,
        failure_reason: task.failure_reason.clone(),
        rejection_count: task.rejection_count,
        rejection_reason: task.rejection_reason.clone(),
    }
}

pub(super) fn model_task(record: records::Task) -> Result<Task, ConvertError> {
    let definition = record.definition.ok_or(ConvertError::Missing("definition"))?;
    let definition = TaskDefinition {
        resources: model_resources(definition.resources)?,
        placement_tags: definition.placement_tags,
        volume_drivers: definition.volume_drivers,
        completion_callback_url: definition.completion_callback_url,
        annotation: definition.annotation,
        encoded: definition.encoded,
    };
    let cell_id = match record.cell_id.as_str() {
        "" => None,
        id => Some(CellId::parse(id)?),
    };
    Ok(Task {
        guid: TaskGuid::parse(&record.guid)?,
        domain: DomainName::parse(&record.domain)?,
        definition: definition.into(),
        state: value_of(&TASK_STATES, record.state, "state")?,
        cell_id,
        created_ns: record.created_ns,
        updated_ns: record.updated_ns,
        first_completed_ns: record.first_completed_ns,
        result: record.result,
        failed: record.failed,
        failure_reason: record.failure_reason,
        rejection_count: record.rejection_count,
        rejection_reason: record.rejection_reason,
        unknown: model::Unknown::default(),
    })
}

pub(super) fn domain(domain: &Domain) -> records::Domain {
    records::Domain { name: domain.name.to_string(), expires_ns: domain.expires_ns }
}

pub(super) fn model_domain(record: &records::Domain) -> Result<Domain, ConvertError> {
    Ok(Domain {
        name: DomainName::parse(&record.name)?,
        expires_ns: record.expires_ns,
        unknown: model::Unknown::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_number() {
        for state in ActualState::ALL {
            assert_eq!(value_of(&ACTUAL_STATES, number_of(&ACTUAL_STATES, &state), "state"), Ok(state));
        }
        for state in TaskState::ALL {
            assert_eq!(value_of(&TASK_STATES, number_of(&TASK_STATES, &state), "state"), Ok(state));
        }
        for presence in [Presence::Ordinary, Presence::Evacuating, Presence::Suspect] {
            assert_eq!(value_of(&PRESENCES, number_of(&PRESENCES, &presence), "presence"), Ok(presence));
        }
        let unknown = value_of(&PRESENCES, 0, "presence");
        assert_eq!(unknown, Err(ConvertError::Unknown { what: "presence", number: 0 }));
    }
}
