//! From the wire's definitions to what runs in a container, and from a container to what the state server is told of it.

use std::collections::BTreeMap;

use api::cell::internal_hostnames;
use api::models::{self, MetricTagValue, actual_lrp_net_info::PreferredAddress, metric_tag_value::DynamicValue};
use model::desired_lrp::INTERNAL_ROUTER;
use model::{ActualLrpKey, CellId, DefinitionNumber, InstanceGuid};

use crate::executor::{Container, LogConfig, RunSpec, Update};

/// Output without a limit.
const NO_LOG_LIMIT: i64 = -1;

pub(super) fn of_lrp(lrp: models::DesiredLrp, key: &ActualLrpKey, instance: &InstanceGuid) -> (RunSpec, Update) {
    let index = key.index;
    let tags = resolved(&lrp.metric_tags, Some((index, instance)));
    let routes = lrp.routes.as_ref().and_then(|routes| routes.routes.get(INTERNAL_ROUTER));
    let internal_routes = routes.map(|routes| internal_hostnames(routes)).unwrap_or_default();
    let log = log(lrp.log_guid, lrp.log_source, index, &tags, lrp.log_rate_limit);
    // The number of the first is not sent, and servers that know no numbers know no other.
    let definition = DefinitionNumber(lrp.definition_number).max(DefinitionNumber::FIRST);
    let spec = RunSpec {
        env: lrp.environment_variables,
        setup: lrp.setup,
        action: lrp.action,
        monitor: lrp.monitor,
        check_definition: lrp.check_definition,
        sidecars: lrp.sidecars,
        start_timeout_ms: lrp.start_timeout_ms,
        ports: lrp.ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect(),
        privileged: lrp.privileged,
        cpu_weight: lrp.cpu_weight,
        log,
        cached_dependencies: lrp.cached_dependencies,
        image_layers: lrp.image_layers,
        legacy_download_user: lrp.legacy_download_user,
        egress_rules: lrp.egress_rules,
        volume_mounts: lrp.volume_mounts,
        volume_mounted_files: lrp.volume_mounted_files,
        image_username: lrp.image_username,
        image_password: lrp.image_password,
        result_file: String::new(),
    };
    (spec, Update { internal_routes: Some(internal_routes), metric_tags: Some(tags), definition: Some(definition) })
}

pub(super) fn of_task(task: models::TaskDefinition) -> (RunSpec, Update) {
    let tags = resolved(&task.metric_tags, None);
    let log = log(task.log_guid, task.log_source, 0, &tags, task.log_rate_limit);
    let spec = RunSpec {
        env: task.environment_variables,
        setup: None,
        action: task.action,
        monitor: None,
        check_definition: None,
        sidecars: Vec::new(),
        start_timeout_ms: 0,
        ports: Vec::new(),
        privileged: task.privileged,
        cpu_weight: task.cpu_weight,
        log,
        cached_dependencies: task.cached_dependencies,
        image_layers: task.image_layers,
        legacy_download_user: task.legacy_download_user,
        egress_rules: task.egress_rules,
        volume_mounts: task.volume_mounts,
        volume_mounted_files: task.volume_mounted_files,
        image_username: task.image_username,
        image_password: task.image_password,
        result_file: task.result_file,
    };
    (spec, Update { metric_tags: Some(tags), ..Update::default() })
}

fn log(
    guid: String,
    source: String,
    index: i32,
    tags: &BTreeMap<String, String>,
    limit: Option<models::LogRateLimit>,
) -> LogConfig {
    let bytes_per_s_max = limit.map_or(NO_LOG_LIMIT, |limit| limit.bytes_per_second);
    LogConfig { guid, source, index, tags: tags.clone(), bytes_per_s_max }
}

/// Tags whose values depend on the instance get them here; a task has neither index nor instance.
fn resolved<'a>(
    tags: impl IntoIterator<Item = (&'a String, &'a MetricTagValue)>,
    instance: Option<(i32, &InstanceGuid)>,
) -> BTreeMap<String, String> {
    let value = |tag: &MetricTagValue| match (tag.dynamic(), instance) {
        (DynamicValue::Index, Some((index, _))) => index.to_string(),
        (DynamicValue::InstanceGuid, Some((_, guid))) => guid.as_str().to_owned(),
        _ => tag.r#static.clone(),
    };
    tags.into_iter().map(|(name, tag)| (name.clone(), value(tag))).collect()
}

pub(super) fn key(key: &ActualLrpKey) -> models::ActualLrpKey {
    models::ActualLrpKey {
        process_guid: key.process_guid.as_str().to_owned(),
        index: key.index,
        domain: key.domain.as_str().to_owned(),
    }
}

pub(super) fn instance_key(instance: &InstanceGuid, cell: &CellId) -> models::ActualLrpInstanceKey {
    models::ActualLrpInstanceKey { instance_guid: instance.as_str().to_owned(), cell_id: cell.as_str().to_owned() }
}

/// How a container is reached.
pub(super) fn net_info(container: &Container, prefer_instance_address: bool) -> models::ActualLrpNetInfo {
    let preferred = if prefer_instance_address { PreferredAddress::Instance } else { PreferredAddress::Host };
    let ports = container.ports.iter().map(|port| models::PortMapping {
        container_port: port.container.into(),
        host_port: port.host.into(),
        container_tls_proxy_port: port.container_tls.into(),
        host_tls_proxy_port: port.host_tls.into(),
    });
    models::ActualLrpNetInfo {
        address: container.address.clone(),
        ports: ports.collect(),
        instance_address: container.instance_address.clone(),
        preferred_address: preferred.into(),
        ..Default::default()
    }
}

pub(super) fn internal_routes(container: &Container) -> Vec<models::ActualLrpInternalRoute> {
    let route = |hostname: &String| models::ActualLrpInternalRoute { hostname: hostname.clone() };
    container.internal_routes.iter().map(route).collect()
}
