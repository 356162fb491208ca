//! Actual LRPs.

use model::{
    ActualLrp, ActualLrpKey, CellId, DefinitionNumber, DomainName, IdError, InstanceGuid, InstanceKey, ModificationTag,
    NetInfo, PortMapping, Presence, ProcessGuid, Report,
};

use super::Item;
use super::fields::{self, Fields};
use crate::models;

/// The row framed for a list: the bytes of [`actual_lrp`].
pub fn actual_item(row: &ActualLrp) -> Item {
    fields::item(|message| {
        message.sub(1, |key| {
            key.text(1, row.key.process_guid.as_str());
            key.number(2, row.key.index);
            key.text(3, row.key.domain.as_str());
        });
        message.sub(2, |key| {
            if let Some(instance) = &row.instance {
                key.text(1, instance.instance_guid.as_str());
                key.text(2, instance.cell_id.as_str());
            }
        });
        message.sub(3, |part| put_net_info(&row.net_info, part));
        message.number(4, row.crash_count);
        message.text(5, &row.crash_reason);
        message.text(6, row.state.as_str());
        message.text(7, &row.placement_error);
        message.number(8, row.since_ns);
        message.sub(9, |part| put_tag(&row.tag, part));
        message.number(10, i32::from(wire_presence(row.presence)));
        for hostname in &row.internal_routes {
            message.sub(11, |route| route.text(1, hostname));
        }
        for (name, value) in row.metric_tags.iter().flat_map(|tags| tags.iter()) {
            message.entry(12, name, |entry, at| entry.text(at, value));
        }
        message.always_bool(13, row.routable);
        message.text(14, &row.availability_zone);
        message.number(100, shown_number(row.definition));
        message.number(101, i32::from(row.leaving));
    })
}

/// The first is not sent: whoever has never updated anything sees what Diego would show.
pub(super) fn shown_number(number: DefinitionNumber) -> u32 {
    if number == DefinitionNumber::FIRST { 0 } else { number.0 }
}

pub(super) fn put_tag(tag: &ModificationTag, part: &mut Fields<'_>) {
    part.text(1, &tag.epoch);
    part.number(2, tag.index);
}

fn put_net_info(info: &NetInfo, part: &mut Fields<'_>) {
    part.text(1, &info.address);
    for port in &info.ports {
        part.sub(2, |part| {
            part.number(1, port.container_port);
            part.number(2, port.host_port);
            part.number(3, port.container_tls_proxy_port);
            part.number(4, port.host_tls_proxy_port);
        });
    }
    part.text(3, &info.instance_address);
    part.number(4, info.preferred_address);
    part.text(5, &info.instance_ipv6_address);
}

/// The row as a message, for answers and events that are built of messages.
pub fn actual_lrp(row: &ActualLrp) -> models::ActualLrp {
    models::ActualLrp {
        actual_lrp_key: Some(wire_key(&row.key)),
        actual_lrp_instance_key: Some(wire_instance_key(row.instance.as_ref())),
        actual_lrp_net_info: Some(wire_net_info(&row.net_info)),
        crash_count: row.crash_count,
        crash_reason: row.crash_reason.clone(),
        state: row.state.as_str().to_owned(),
        placement_error: row.placement_error.clone(),
        since: row.since_ns,
        modification_tag: Some(wire_tag(&row.tag)),
        presence: wire_presence(row.presence).into(),
        actual_lrp_internal_routes: row
            .internal_routes
            .iter()
            .map(|hostname| models::ActualLrpInternalRoute { hostname: hostname.clone() })
            .collect(),
        metric_tags: row
            .metric_tags
            .iter()
            .flat_map(|tags| tags.iter())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        routable: Some(row.routable),
        availability_zone: row.availability_zone.clone(),
        definition_number: shown_number(row.definition),
        leaving: row.leaving,
    }
}

/// What a change event carries of a row.
pub(super) fn info(row: &ActualLrp) -> models::ActualLrpInfo {
    models::ActualLrpInfo {
        actual_lrp_net_info: Some(wire_net_info(&row.net_info)),
        crash_count: row.crash_count,
        crash_reason: row.crash_reason.clone(),
        state: row.state.as_str().to_owned(),
        placement_error: row.placement_error.clone(),
        since: row.since_ns,
        modification_tag: Some(wire_tag(&row.tag)),
        presence: wire_presence(row.presence).into(),
        routable: Some(row.routable),
        availability_zone: row.availability_zone.clone(),
        definition_number: shown_number(row.definition),
        leaving: row.leaving,
    }
}

pub fn group(group: &model::event::Group) -> models::ActualLrpGroup {
    models::ActualLrpGroup {
        instance: group.instance.as_deref().map(actual_lrp),
        evacuating: group.evacuating.as_deref().map(actual_lrp),
    }
}

pub(super) fn wire_key(key: &ActualLrpKey) -> models::ActualLrpKey {
    models::ActualLrpKey {
        process_guid: key.process_guid.to_string(),
        index: key.index,
        domain: key.domain.to_string(),
    }
}

pub(super) fn wire_instance_key(key: Option<&InstanceKey>) -> models::ActualLrpInstanceKey {
    key.map_or_else(Default::default, |key| models::ActualLrpInstanceKey {
        instance_guid: key.instance_guid.to_string(),
        cell_id: key.cell_id.to_string(),
    })
}

fn wire_tag(tag: &ModificationTag) -> models::ModificationTag {
    models::ModificationTag { epoch: tag.epoch.to_string(), index: tag.index }
}

fn wire_presence(presence: Presence) -> models::actual_lrp::Presence {
    match presence {
        Presence::Ordinary => models::actual_lrp::Presence::Ordinary,
        Presence::Evacuating => models::actual_lrp::Presence::Evacuating,
        Presence::Suspect => models::actual_lrp::Presence::Suspect,
    }
}

fn wire_net_info(info: &NetInfo) -> models::ActualLrpNetInfo {
    models::ActualLrpNetInfo {
        address: info.address.clone(),
        ports: info
            .ports
            .iter()
            .map(|port| models::PortMapping {
                container_port: port.container_port,
                host_port: port.host_port,
                container_tls_proxy_port: port.container_tls_proxy_port,
                host_tls_proxy_port: port.host_tls_proxy_port,
            })
            .collect(),
        instance_address: info.instance_address.clone(),
        preferred_address: info.preferred_address,
        instance_ipv6_address: info.instance_ipv6_address.clone(),
    }
}

/// A validated key; an absent one is reported by validation before this is called and fails here as empty.
pub fn lrp_key(key: Option<models::ActualLrpKey>) -> Result<ActualLrpKey, IdError> {
    let key = key.unwrap_or_default();
    Ok(ActualLrpKey {
        process_guid: ProcessGuid::parse(&key.process_guid)?,
        index: key.index,
        domain: DomainName::parse(&key.domain)?,
    })
}

pub fn instance_key(key: Option<models::ActualLrpInstanceKey>) -> Result<InstanceKey, IdError> {
    let key = key.unwrap_or_default();
    Ok(InstanceKey { instance_guid: InstanceGuid::parse(&key.instance_guid)?, cell_id: CellId::parse(&key.cell_id)? })
}

/// `None` when the request names no instance at all.
pub fn opt_instance_key(key: Option<models::ActualLrpInstanceKey>) -> Result<Option<InstanceKey>, IdError> {
    match key {
        None => Ok(None),
        some => instance_key(some).map(Some),
    }
}

/// What a start request reports. The oldest revision of the call knows neither internal routes nor tags.
pub fn report_of_start(request: models::StartActualLrpRequest, oldest: bool) -> Report {
    report(
        request.actual_lrp_net_info,
        if oldest { Vec::new() } else { request.actual_lrp_internal_routes },
        if oldest { Default::default() } else { request.metric_tags },
        request.routable,
        request.availability_zone,
    )
}

/// As [`report_of_start`], for a container on a draining cell.
pub fn report_of_evacuation(request: models::EvacuateRunningActualLrpRequest, oldest: bool) -> Report {
    report(
        request.actual_lrp_net_info,
        if oldest { Vec::new() } else { request.actual_lrp_internal_routes },
        if oldest { Default::default() } else { request.metric_tags },
        request.routable,
        request.availability_zone,
    )
}

fn report(
    net_info: Option<models::ActualLrpNetInfo>,
    routes: Vec<models::ActualLrpInternalRoute>,
    tags: std::collections::BTreeMap<String, String>,
    routable: Option<bool>,
    availability_zone: String,
) -> Report {
    let info = net_info.unwrap_or_default();
    Report {
        net_info: NetInfo {
            address: info.address,
            ports: info
                .ports
                .into_iter()
                .map(|port| PortMapping {
                    container_port: port.container_port,
                    host_port: port.host_port,
                    container_tls_proxy_port: port.container_tls_proxy_port,
                    host_tls_proxy_port: port.host_tls_proxy_port,
                })
                .collect(),
            instance_address: info.instance_address,
            preferred_address: info.preferred_address,
            instance_ipv6_address: info.instance_ipv6_address,
        },
        internal_routes: routes.into_iter().map(|route| route.hostname).collect(),
        metric_tags: Some(tags).filter(|tags| !tags.is_empty()).map(Into::into),
        routable: routable.unwrap_or(true),
        availability_zone,
    }
}
