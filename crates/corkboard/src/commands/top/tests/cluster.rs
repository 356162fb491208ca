//! A cluster in which a little of everything goes wrong.

use api::models::actual_lrp::Presence;
use api::models::task::State as TaskState;
use api::models::{
    ActualLrp, ActualLrpInstanceKey, ActualLrpKey, ActualLrpNetInfo, CellCapacity, CellPresence, DesiredLrpKey,
    DesiredLrpResource, DesiredLrpSchedulingInfo, PortMapping, Task, TaskDefinition,
};
use bbs::nodes::{Card, Listed, NodeList};

use crate::commands::top::picture::{Everything, Picture, Server, Standing, Update};

pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const NOW: i64 = 1_794_700_800 * SECOND;

pub(super) fn desired(guid: &str, instances: i32) -> DesiredLrpSchedulingInfo {
    DesiredLrpSchedulingInfo {
        desired_lrp_key: Some(DesiredLrpKey {
            process_guid: guid.into(),
            domain: "cf-apps".into(),
            ..Default::default()
        }),
        instances,
        desired_lrp_resource: Some(DesiredLrpResource { memory_mb: 64, disk_mb: 128, ..Default::default() }),
        ..Default::default()
    }
}

pub(super) fn actual(guid: &str, index: i32, state: &str, cell: &str) -> ActualLrp {
    let net = ActualLrpNetInfo {
        address: "10.0.0.7".into(),
        ports: vec![PortMapping { container_port: 8080, host_port: 61_001, ..Default::default() }],
        ..Default::default()
    };
    ActualLrp {
        actual_lrp_key: Some(ActualLrpKey { process_guid: guid.into(), index, domain: "cf-apps".into() }),
        actual_lrp_instance_key: Some(ActualLrpInstanceKey {
            instance_guid: format!("i-{guid}-{index}"),
            cell_id: cell.into(),
        }),
        actual_lrp_net_info: (state == "RUNNING").then_some(net),
        state: state.into(),
        since: NOW - 75 * SECOND,
        ..Default::default()
    }
}

pub(super) fn cell(id: &str, zone: &str) -> CellPresence {
    CellPresence {
        cell_id: id.into(),
        zone: zone.into(),
        rep_url: format!("https://{id}.example.org:1801"),
        capacity: Some(CellCapacity { memory_mb: 4096, disk_mb: 20_480, containers: 256 }),
        ..Default::default()
    }
}

pub(super) fn node(name: &str, is_master: bool) -> Listed {
    let card = Card {
        node: name.into(),
        instance: format!("i-{name}"),
        release: "1.0.0".into(),
        data_version: 1_794_700_800,
        data_version_name: "lrp_definitions".into(),
        url: Some(format!("https://{name}.example.org:8889")),
        health: "127.0.0.1:1".into(),
        phase: if is_master { "serving" } else { "waiting" }.into(),
        since_ns: NOW - 90 * SECOND,
        started_ns: 0,
        is_warm: true,
        cannot_take_over: (name == "node-3").then(|| "this node has not key B. Add it to its configuration".into()),
    };
    Listed { is_master, card }
}

pub(super) fn server() -> Server {
    let nodes = vec![node("node-1", true), node("node-2", false), node("node-3", false)];
    let migration = Standing {
        state: "sweeping".into(),
        explanation: "Records are rewritten in the background; requests are answered as before.".into(),
        next: Some("corkboard migrate status --watch".into()),
        done: Some(4_200),
        total: Some(10_000),
        eta_s: Some(12.0),
    };
    let keys = Standing { state: "settled".into(), next: None, done: None, total: None, ..migration.clone() };
    Server {
        nodes: Some(Ok(NodeList { master: Some("node-1".into()), nodes, warnings: Vec::new() })),
        migration: Some(Ok(migration)),
        keys: Some(Ok(keys)),
    }
}

pub(super) fn everything() -> Everything {
    let mut crashed = actual("worker", 0, "CRASHED", "");
    (crashed.crash_count, crashed.crash_reason) = (3, "Exited with status 137 (out of memory)".into());
    let mut unplaced = actual("worker", 1, "UNCLAIMED", "");
    unplaced.placement_error = "found no compatible cell with volume driver \u{1b}[31mnfs".into();
    let mut evacuating = actual("hello", 1, "RUNNING", "cell-z2");
    evacuating.presence = Presence::Evacuating as i32;
    let mut suspect = actual("hello", 2, "RUNNING", "cell-z9");
    suspect.presence = Presence::Suspect as i32;
    let task = |guid: &str, state: TaskState, cell: &str| Task {
        task_guid: guid.into(),
        cell_id: cell.into(),
        state: state as i32,
        task_definition: Some(TaskDefinition { memory_mb: 512, disk_mb: 1024, ..Default::default() }),
        ..Default::default()
    };
    Everything {
        desired: vec![desired("hello", 3), desired("quiet", 1), desired("worker", 2)],
        actual: vec![
            actual("hello", 0, "RUNNING", "cell-z1"),
            actual("hello", 1, "UNCLAIMED", ""),
            evacuating,
            suspect,
            actual("quiet", 0, "RUNNING", "cell-z1"),
            crashed,
            unplaced,
            actual("gone", 0, "CLAIMED", "cell-z1"),
        ],
        tasks: vec![task("t-1", TaskState::Running, "cell-z1"), task("t-2", TaskState::Pending, "")],
    }
}

pub(super) fn picture() -> Picture {
    let mut picture = Picture::default();
    picture.take(Update::Cells(vec![cell("cell-z1", "z1"), cell("cell-z2", "z2")]), NOW);
    picture.take(Update::Everything(Box::new(everything())), NOW);
    picture.take(Update::Server(Box::new(server())), NOW);
    picture
}
