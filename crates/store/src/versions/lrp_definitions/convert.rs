//! Between the model and the records of this version.
//!
//! Promise: to a record and back gives the same entity. From a record there is one door, and it checks: an id that is
//! empty, a state nobody knows or a missing part is an error that says so, without showing a value.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    ActualLrp, ActualLrpKey, ActualState, CellId, Definition, DefinitionNumber, DesiredLrp, Domain, DomainName,
    IdError, ImageCredentials, InstanceGuid, InstanceKey, MetricTag, ModificationTag, NetInfo, Packed, PortMapping,
    Presence, ProcessGuid, Resources, Task, TaskDefinition, TaskGuid, TaskState, UpdateStrategy,
};
use thiserror::Error;

use super::extras::{Extras, ONLY, SCHEDULE};
use super::history::{history, model_history};
use super::keys::Place;
use super::{Desired, records};
use crate::versions::unknown::Kept;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConvertError {
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

pub(super) fn number_of<T: PartialEq>(table: &[(u32, T)], value: &T) -> u32 {
    // 0 means unknown when it is read. A test checks that every value has its row.
    table.iter().find(|(_, known)| known == value).map_or(0, |(number, _)| *number)
}

pub(super) fn presence_number(presence: Presence) -> u32 {
    number_of(&PRESENCES, &presence)
}

pub(super) fn value_of<T: Copy>(table: &[(u32, T)], number: u32, what: &'static str) -> Result<T, ConvertError> {
    let row = table.iter().find(|(known, _)| *known == number);
    row.map(|(_, value)| *value).ok_or(ConvertError::Unknown { what, number })
}

pub(super) fn schedule(lrp: &DesiredLrp, extras: &Extras) -> Kept<records::Schedule> {
    let metric_tags = lrp.metric_tags.iter().map(|(name, tag)| (name.to_owned(), metric_tag(tag))).collect();
    extras.added_to(SCHEDULE, records::Schedule {
        process_guid: lrp.process_guid.to_string(),
        domain: lrp.domain.to_string(),
        annotation: lrp.annotation.clone(),
        instances: lrp.instances,
        routes: stored_routes(&lrp.routes),
        metric_tags,
        update_strategy: lrp.update_strategy.0,
        image_username: lrp.image_credentials.username.clone(),
        image_password: lrp.image_credentials.password.clone(),
        tag: Some(tag(&lrp.tag)),
        definition: lrp.definition.0,
        previous: lrp.previous.as_ref().map_or(0, |previous| previous.number.0),
        history: lrp.history.as_deref().map(history),
        carried: Vec::new(),
    })
}

/// A definition of a DesiredLRP, in use, the one before or an older one, where it lies in the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct DefinitionRef<'a> {
    guid: &'a ProcessGuid,
    pub(super) number: DefinitionNumber,
    identifier: &'a str,
    resources: &'a Resources,
    placement_tags: &'a [String],
    volume_drivers: &'a [String],
    log_guid: &'a str,
    metrics_guid: &'a str,
    run_info: &'a Bytes,
    routes: Option<&'a Packed<Bytes>>,
}

/// The definition in use, the one before it if there is one, and the older ones that are kept. Their numbers differ.
pub(super) fn definitions(lrp: &DesiredLrp) -> impl Iterator<Item = DefinitionRef<'_>> + Clone {
    let current = DefinitionRef {
        guid: &lrp.process_guid,
        number: lrp.definition,
        identifier: &lrp.definition_identifier,
        resources: &lrp.resources,
        placement_tags: &lrp.placement_tags,
        volume_drivers: &lrp.volume_drivers,
        log_guid: &lrp.log_guid,
        metrics_guid: &lrp.metrics_guid,
        run_info: &lrp.run_info,
        routes: None,
    };
    let older = lrp.history.iter().flat_map(|history| &history.older);
    let others = lrp.previous.iter().chain(older).map(|definition| DefinitionRef {
        guid: &lrp.process_guid,
        number: definition.number,
        identifier: &definition.identifier,
        resources: &definition.resources,
        placement_tags: &definition.placement_tags,
        volume_drivers: &definition.volume_drivers,
        log_guid: &definition.log_guid,
        metrics_guid: &definition.metrics_guid,
        run_info: &definition.run_info,
        routes: definition.routes.as_ref(),
    });
    std::iter::once(current).chain(others)
}

impl DefinitionRef<'_> {
    pub(super) fn place(&self) -> Place<'_> {
        Place::Definition(self.guid.as_str(), self.number.0)
    }

    /// Whether both are written as the same record.
    pub(super) fn same_as(&self, other: &DefinitionRef<'_>) -> bool {
        let same_memory = self.run_info.as_ptr() == other.run_info.as_ptr();
        self.number == other.number
            && self.run_info.len() == other.run_info.len()
            && (same_memory || self.run_info == other.run_info)
            && self.identifier == other.identifier
            && self.resources == other.resources
            && self.placement_tags == other.placement_tags
            && self.volume_drivers == other.volume_drivers
            && self.log_guid == other.log_guid
            && self.metrics_guid == other.metrics_guid
            && self.routes == other.routes
            && self.guid == other.guid
    }

    pub(super) fn record(&self, extras: &Extras) -> Kept<records::Definition> {
        extras.added_to(self.number.0, records::Definition {
            process_guid: self.guid.to_string(),
            number: self.number.0,
            identifier: self.identifier.to_owned(),
            resources: Some(resources(self.resources)),
            placement_tags: self.placement_tags.to_vec(),
            volume_drivers: self.volume_drivers.to_vec(),
            log_guid: self.log_guid.to_owned(),
            metrics_guid: self.metrics_guid.to_owned(),
            run_info: self.run_info.clone(),
            routes: self.routes.map(|routes| records::Routes { routes: stored_routes(routes) }),
            carried: Vec::new(),
        })
    }
}

fn stored_routes(routes: &Packed<Bytes>) -> BTreeMap<String, Bytes> {
    routes.iter().map(|(name, json)| (name.to_owned(), Bytes::copy_from_slice(json))).collect()
}

pub(super) fn desired(lrp: &DesiredLrp) -> Desired {
    let extras = Extras::of(&lrp.unknown);
    let mut definitions = definitions(lrp).map(|definition| Box::new(definition.record(&extras)));
    Desired {
        schedule: Box::new(schedule(lrp, &extras)),
        definition: definitions.next().unwrap_or_default(),
        previous: lrp.previous.as_ref().and_then(|_| definitions.next()),
        older: definitions.collect(),
    }
}

pub(super) fn model_desired(mut desired: Desired) -> Result<DesiredLrp, ConvertError> {
    let mut extras = Extras::default();
    extras.take_from(SCHEDULE, &mut desired.schedule);
    let schedule = desired.schedule;
    let definition = model_definition(desired.definition, &mut extras)?;
    let previous = desired.previous.map(|previous| model_definition(previous, &mut extras)).transpose()?;
    let older = desired.older.into_iter().map(|kept| Ok(Arc::new(model_definition(kept, &mut extras)?)));
    let older = older.collect::<Result<Vec<_>, ConvertError>>()?;
    let history = schedule.message.history.map(|history| model_history(history, older)).transpose()?;
    let metric_tags = schedule.message.metric_tags.into_iter().map(|(name, tag)| Ok((name, model_metric_tag(tag)?)));
    Ok(DesiredLrp {
        process_guid: ProcessGuid::parse(&schedule.message.process_guid)?,
        domain: DomainName::parse(&schedule.message.domain)?,
        log_guid: definition.log_guid,
        annotation: schedule.message.annotation,
        instances: schedule.message.instances,
        resources: definition.resources,
        placement_tags: definition.placement_tags,
        volume_drivers: definition.volume_drivers,
        routes: schedule.message.routes.into(),
        metric_tags: Packed::try_from_sorted::<ConvertError>(metric_tags)?,
        metrics_guid: definition.metrics_guid,
        update_strategy: UpdateStrategy(schedule.message.update_strategy),
        image_credentials: ImageCredentials { username: schedule.message.image_username, password: schedule.message.image_password },
        tag: model_tag(schedule.message.tag)?,
        run_info: definition.run_info,
        definition: definition.number,
        definition_identifier: definition.identifier,
        previous: previous.map(Arc::new),
        history: history.map(Arc::new),
        unknown: extras.packed(),
    })
}

fn model_definition(mut record: Box<Kept<records::Definition>>, extras: &mut Extras) -> Result<Definition, ConvertError> {
    extras.take_from(record.number, &mut record);
    Ok(Definition {
        number: DefinitionNumber(record.number),
        identifier: record.message.identifier,
        resources: model_resources(record.message.resources)?,
        placement_tags: record.message.placement_tags,
        volume_drivers: record.message.volume_drivers,
        log_guid: record.message.log_guid,
        metrics_guid: record.message.metrics_guid,
        run_info: record.message.run_info,
        routes: record.message.routes.map(|kept| kept.routes.into()),
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

pub(super) fn actual(lrp: &ActualLrp) -> Kept<records::Actual> {
    let instance = lrp.instance.as_ref().map(|instance| records::Instance {
        instance_guid: instance.instance_guid.to_string(),
        cell_id: instance.cell_id.to_string(),
    });
    Extras::of(&lrp.unknown).added_to(ONLY, records::Actual {
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
        presence: presence_number(lrp.presence),
        internal_routes: lrp.internal_routes.clone(),
        metric_tags: lrp.metric_tags.as_ref().map(|tags| records::ReportedTags {
            tags: tags.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }),
        routable: lrp.routable,
        availability_zone: lrp.availability_zone.clone(),
        definition: lrp.definition.0,
        leaving: lrp.leaving,
        carried: Vec::new(),
    })
}

pub(super) fn model_actual(mut record: Box<Kept<records::Actual>>) -> Result<ActualLrp, ConvertError> {
    let mut extras = Extras::default();
    extras.take_from(ONLY, &mut record);
    let instance = record.message.instance.map(|instance| -> Result<InstanceKey, IdError> {
        Ok(InstanceKey {
            instance_guid: InstanceGuid::parse(&instance.instance_guid)?,
            cell_id: CellId::parse(&instance.cell_id)?,
        })
    });
    Ok(ActualLrp {
        key: ActualLrpKey {
            process_guid: ProcessGuid::parse(&record.message.process_guid)?,
            index: record.message.index,
            domain: DomainName::parse(&record.message.domain)?,
        },
        instance: instance.transpose()?,
        net_info: model_net_info(record.message.net_info.ok_or(ConvertError::Missing("net info"))?),
        crash_count: record.message.crash_count,
        crash_reason: record.message.crash_reason,
        state: value_of(&ACTUAL_STATES, record.message.state, "state")?,
        placement_error: record.message.placement_error,
        since_ns: record.message.since_ns,
        tag: model_tag(record.message.tag)?,
        presence: value_of(&PRESENCES, record.message.presence, "presence")?,
        internal_routes: record.message.internal_routes,
        metric_tags: record.message.metric_tags.map(|reported| reported.tags.into()),
        routable: record.message.routable,
        availability_zone: record.message.availability_zone,
        definition: DefinitionNumber(record.message.definition),
        leaving: record.message.leaving,
        unknown: extras.packed(),
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

pub(super) fn task(task: &Task) -> Kept<records::Task> {
    let definition = &task.definition;
    Extras::of(&task.unknown).added_to(ONLY, records::Task {
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
        carried: Vec::new(),
    })
}

pub(super) fn model_task(mut record: Box<Kept<records::Task>>) -> Result<Task, ConvertError> {
    let mut extras = Extras::default();
    extras.take_from(ONLY, &mut record);
    let definition = record.message.definition.ok_or(ConvertError::Missing("definition"))?;
    let definition = TaskDefinition {
        resources: model_resources(definition.resources)?,
        placement_tags: definition.placement_tags,
        volume_drivers: definition.volume_drivers,
        completion_callback_url: definition.completion_callback_url,
        annotation: definition.annotation,
        encoded: definition.encoded,
    };
    let cell_id = match record.message.cell_id.as_str() {
        "" => None,
        id => Some(CellId::parse(id)?),
    };
    Ok(Task {
        guid: TaskGuid::parse(&record.message.guid)?,
        domain: DomainName::parse(&record.message.domain)?,
        definition: definition.into(),
        state: value_of(&TASK_STATES, record.message.state, "state")?,
        cell_id,
        created_ns: record.message.created_ns,
        updated_ns: record.message.updated_ns,
        first_completed_ns: record.message.first_completed_ns,
        result: record.message.result,
        failed: record.message.failed,
        failure_reason: record.message.failure_reason,
        rejection_count: record.message.rejection_count,
        rejection_reason: record.message.rejection_reason,
        unknown: extras.packed(),
    })
}

pub(super) fn domain(domain: &Domain) -> Kept<records::Domain> {
    let record =
        records::Domain { name: domain.name.to_string(), expires_ns: domain.expires_ns, carried: Vec::new() };
    Extras::of(&domain.unknown).added_to(ONLY, record)
}

pub(super) fn model_domain(mut record: Kept<records::Domain>) -> Result<Domain, ConvertError> {
    let mut extras = Extras::default();
    extras.take_from(ONLY, &mut record);
    let name = DomainName::parse(&record.name)?;
    Ok(Domain { name, expires_ns: record.expires_ns, unknown: extras.packed() })
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
