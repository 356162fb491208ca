//! Valid messages for the tests to send and to break.

use api::models::{
    Action, ActualLrpInstanceKey, ActualLrpInternalRoute, ActualLrpKey, ActualLrpNetInfo, DesiredLrp, DesiredLrpUpdate,
    EvacuateRunningActualLrpRequest, MetricTagValue, PortMapping, ProtoRoutes, RunAction, StartActualLrpRequest,
    TaskDefinition,
};

pub(crate) const DOMAIN: &str = "cf-apps";

pub(crate) fn run() -> Action {
    let run = RunAction { path: "/bin/server".into(), user: "vcap".into(), ..Default::default() };
    Action { run_action: Some(run), ..Default::default() }
}

pub(crate) fn tag(value: &str) -> MetricTagValue {
    MetricTagValue { r#static: value.into(), dynamic: 0 }
}

pub(crate) fn lrp(process_guid: &str, instances: i32) -> DesiredLrp {
    DesiredLrp {
        process_guid: process_guid.into(),
        domain: DOMAIN.into(),
        root_fs: "preloaded:cflinuxfs4".into(),
        instances,
        action: Some(run()),
        metric_tags: [("source_id".to_owned(), tag("app"))].into(),
        ..Default::default()
    }
}

/// A new definition for any process.
pub(crate) fn redefinition(identifier: &str) -> DesiredLrpUpdate {
    DesiredLrpUpdate {
        desired_lrp: Some(DesiredLrp {
            domain: String::new(),
            memory_mb: 64,
            log_guid: identifier.into(),
            ..lrp("", 0)
        }),
        update_identifier: Some(identifier.into()),
        ..Default::default()
    }
}

pub(crate) fn routes(entries: &[(&str, &str)]) -> ProtoRoutes {
    ProtoRoutes { routes: entries.iter().map(|(name, json)| ((*name).to_owned(), (*json).to_owned().into())).collect() }
}

pub(crate) fn task() -> TaskDefinition {
    TaskDefinition { root_fs: "docker:///busybox".into(), action: Some(run()), ..Default::default() }
}

pub(crate) fn key(process_guid: &str, index: i32) -> ActualLrpKey {
    ActualLrpKey { process_guid: process_guid.into(), index, domain: DOMAIN.into() }
}

/// `a` is the container `a` on the cell `cell-a`; `a@z` is on the cell `z`.
pub(crate) fn instance(name: &str) -> ActualLrpInstanceKey {
    let (guid, cell) = match name.split_once('@') {
        Some((guid, cell)) => (guid, cell.to_owned()),
        None => (name, format!("cell-{name}")),
    };
    ActualLrpInstanceKey { instance_guid: guid.into(), cell_id: cell }
}

pub(crate) fn net_info(address: &str) -> ActualLrpNetInfo {
    let port = PortMapping { container_port: 8080, host_port: 61001, ..Default::default() };
    ActualLrpNetInfo { address: address.into(), ports: vec![port], ..Default::default() }
}

pub(crate) fn start(process_guid: &str, index: i32, by: &str) -> StartActualLrpRequest {
    StartActualLrpRequest {
        definition_number: 0,
        actual_lrp_key: Some(key(process_guid, index)),
        actual_lrp_instance_key: Some(instance(by)),
        actual_lrp_net_info: Some(net_info("10.0.0.1")),
        actual_lrp_internal_routes: vec![ActualLrpInternalRoute { hostname: "a.internal".into() }],
        metric_tags: [("source_id".to_owned(), "app".to_owned())].into(),
        routable: None,
        availability_zone: "z1".into(),
    }
}

pub(crate) fn evacuate_running(process_guid: &str, index: i32, by: &str) -> EvacuateRunningActualLrpRequest {
    let start = start(process_guid, index, by);
    EvacuateRunningActualLrpRequest {
        actual_lrp_key: start.actual_lrp_key,
        actual_lrp_instance_key: start.actual_lrp_instance_key,
        actual_lrp_net_info: start.actual_lrp_net_info,
        actual_lrp_internal_routes: start.actual_lrp_internal_routes,
        metric_tags: start.metric_tags,
        routable: start.routable,
        availability_zone: start.availability_zone,
    }
}
