//! The fleet that is put on the board: who is wanted, where each instance runs, and the requests that say so.
//!
//! Promise: everything is a function of its number, so every phase, also in another process, builds the same requests
//! without asking the server. Sizes are those of a Cloud Foundry that runs buildpack applications: about 4.3 KB for a
//! DesiredLRP, 910 bytes for its scheduling info, 745 for a running ActualLRP and 2.8 KB for a task. A test holds them there.
//!
//! Every fourth LRP has two instances and the others one: 200,000 LRPs are 250,000 instances.

use api::models::{
    ActualLrPsRequest, ActualLrpInstanceKey, ActualLrpInternalRoute, ActualLrpKey, ActualLrpNetInfo,
    ClaimActualLrpRequest, CrashActualLrpRequest, DesireLrpRequest, DesireTaskRequest, DesiredLrPsRequest, DesiredLrp,
    DesiredLrpByProcessGuidRequest, PortMapping, StartActualLrpRequest, StartTaskRequest, TasksRequest,
    UpsertDomainRequest,
};
use bytes::Bytes;
use prost::Message;

use crate::noise::Noise;

mod desired;

pub const DOMAIN: &str = "cf-apps";
/// Crashes after which an instance is started again at once; with the third it has to wait.
pub const CRASHES_PER_INSTANCE_MAX: u64 = 2;
/// What a crash, a claim and a start say on the stream of instance events: crashed, created, removed; changed; changed.
pub const EVENTS_PER_CYCLE: u64 = 5;

const SEED_PROCESS: u64 = 0x0050_524f_4345_5353;
const SEED_INSTANCE: u64 = 0x494e_5354_414e_4345;
const SEED_TASK: u64 = 0x5441_534b;

#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    pub lrps: u64,
    pub cells: u64,
}

/// One instance of the fleet, by its number.
#[derive(Clone, Debug)]
pub struct Instance {
    number: u64,
    lrp: u64,
    index: i32,
    cell: u64,
}

impl Fleet {
    pub fn instances(&self) -> u64 {
        self.lrps + self.lrps / 4
    }

    /// Five instances belong to four LRPs; the fifth is the second one of the fourth.
    pub fn instance(&self, number: u64) -> Instance {
        let (group, member) = (number / 5, number % 5);
        let index = i32::from(member == 4);
        Instance { number, lrp: group * 4 + member.min(3), index, cell: number % self.cells }
    }

    /// How many instances run on a cell when all do.
    pub fn instances_on_cell(&self, cell: u64) -> u64 {
        (self.instances() + self.cells - 1 - cell) / self.cells
    }

    pub fn desire(&self, lrp: u64) -> Bytes {
        let instances = if lrp % 4 == 3 { 2 } else { 1 };
        encode(&DesireLrpRequest { desired_lrp: Some(desired(lrp, instances)) })
    }

    pub fn desire_task(&self, task: u64) -> Bytes {
        let task_definition = Some(desired::task(task));
        encode(&DesireTaskRequest { task_definition, task_guid: task_guid(task), domain: DOMAIN.into() })
    }

    pub fn start_task(&self, task: u64) -> Bytes {
        encode(&StartTaskRequest { task_guid: task_guid(task), cell_id: cell_id(task % self.cells) })
    }

    /// The process guids on a cell, as its route emitter asks for them.
    pub fn processes_on_cell(&self, cell: u64) -> Vec<String> {
        (0..self.instances_on_cell(cell)).map(|at| process_guid(self.instance(cell + at * self.cells).lrp)).collect()
    }
}

impl Instance {
    fn key(&self) -> Option<ActualLrpKey> {
        Some(ActualLrpKey { process_guid: process_guid(self.lrp), index: self.index, domain: DOMAIN.into() })
    }

    /// The same guid after a crash: the server does not mind, and another process can go on where this one stopped.
    fn instance_key(&self) -> Option<ActualLrpInstanceKey> {
        let instance_guid = Noise::new(SEED_INSTANCE ^ self.number).guid();
        Some(ActualLrpInstanceKey { instance_guid, cell_id: cell_id(self.cell) })
    }

    pub fn claim(&self) -> Bytes {
        encode(&ClaimActualLrpRequest {
            process_guid: process_guid(self.lrp),
            index: self.index,
            actual_lrp_instance_key: self.instance_key(),
        })
    }

    pub fn start(&self) -> Bytes {
        let octet = |shift: u32| (self.number >> shift) & 0xFF;
        let port = |at: u64| u32::try_from(61_000 + (self.number * 4 + at) % 4_000).unwrap_or(61_000);
        let mapping = |container_port, tls, at| PortMapping {
            container_port,
            host_port: port(at),
            container_tls_proxy_port: tls,
            host_tls_proxy_port: port(at + 1),
        };
        encode(&StartActualLrpRequest {
            definition_number: 0,
            actual_lrp_key: self.key(),
            actual_lrp_instance_key: self.instance_key(),
            actual_lrp_net_info: Some(ActualLrpNetInfo {
                address: format!("10.0.{}.{}", self.cell / 250, self.cell % 250 + 2),
                ports: vec![mapping(8080, 61_001, 0), mapping(2222, 61_002, 2)],
                instance_address: format!("10.255.{}.{}", octet(8), octet(0)),
                preferred_address: 2,
                instance_ipv6_address: String::new(),
            }),
            actual_lrp_internal_routes: vec![ActualLrpInternalRoute {
                hostname: format!("app-{}.apps.internal", self.lrp),
            }],
            metric_tags: desired::resolved_tags(self.lrp, self.index, &Noise::new(SEED_INSTANCE ^ self.number).guid()),
            routable: Some(true),
            availability_zone: format!("z{}", self.cell % 3 + 1),
        })
    }

    pub fn crash(&self) -> Bytes {
        encode(&CrashActualLrpRequest {
            actual_lrp_key: self.key(),
            actual_lrp_instance_key: self.instance_key(),
            error_message: "APP/PROC/WEB: Exited with status 137 (out of memory)".into(),
        })
    }
}

/// An LRP of the fleet with as many instances as somebody else wants.
pub fn desired(lrp: u64, instances: i32) -> DesiredLrp {
    desired::lrp(lrp, &process_guid(lrp), instances)
}

/// An application guid and a version guid, as Cloud Controller joins them.
pub fn process_guid(lrp: u64) -> String {
    let mut noise = Noise::new(SEED_PROCESS ^ lrp);
    format!("{}-{}", noise.guid(), noise.guid())
}

fn task_guid(task: u64) -> String {
    Noise::new(SEED_TASK ^ task << 16).guid()
}

pub fn cell_id(cell: u64) -> String {
    format!("cell-{cell}")
}

/// One presence a line, as the server's file of cells wants them.
pub fn cells_file(cells: u64) -> String {
    let mut text = String::new();
    for cell in 0..cells {
        let (id, zone) = (cell_id(cell), cell % 3 + 1);
        let presence = serde_json::json!({
            "cell_id": id,
            "rep_address": format!("http://{id}.invalid:1800"),
            "zone": format!("z{zone}"),
            "capacity": { "memory_mb": 65_536, "disk_mb": 524_288, "containers": 500 },
            "rootfs_provider_list": [{ "name": "preloaded", "properties": ["cflinuxfs4"] }],
            "rep_url": "",
            "annotations": {},
        });
        text.push_str(&presence.to_string());
        text.push('\n');
    }
    text
}

pub fn upsert_domain() -> Bytes {
    encode(&UpsertDomainRequest { domain: DOMAIN.into(), ttl: 0 })
}

/// A write that any board takes at any time, and that changes nothing else: the domain counts as fresh for so long.
pub fn refresh_probe_domain(ttl_s: u32) -> Bytes {
    encode(&UpsertDomainRequest { domain: "bench-probe".into(), ttl: ttl_s })
}

pub fn actual_lrps_of_cell(cell: u64) -> Bytes {
    encode(&ActualLrPsRequest { cell_id: cell_id(cell), ..Default::default() })
}

pub fn tasks_of_cell(cell: u64) -> Bytes {
    encode(&TasksRequest { cell_id: cell_id(cell), ..Default::default() })
}

pub fn desired_lrp_by_guid(lrp: u64) -> Bytes {
    encode(&DesiredLrpByProcessGuidRequest { actual_lrp_instance_key: None, process_guid: process_guid(lrp) })
}

pub fn routing_infos(process_guids: Vec<String>) -> Bytes {
    encode(&DesiredLrPsRequest { process_guids, ..Default::default() })
}

fn encode(message: &impl Message) -> Bytes {
    Bytes::from(message.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use api::models::{
        ActualLrp, DesiredLrpKey, DesiredLrpResource, DesiredLrpSchedulingInfo, ModificationTag, VolumePlacement,
    };
    use api::validate::check;

    use super::*;

    const FLEET: Fleet = Fleet { lrps: 200_000, cells: 1_000 };

    fn tag() -> Option<ModificationTag> {
        Some(ModificationTag { epoch: Noise::new(1).guid(), index: 0 })
    }

    #[test]
    fn every_instance_of_every_lrp_is_there_once() {
        for lrps in [1, 3, 4, 5, 6, 7, 8, 1_001] {
            let fleet = Fleet { lrps, cells: 7 };
            let mut found: BTreeMap<u64, i32> = BTreeMap::new();
            for number in 0..fleet.instances() {
                let instance = fleet.instance(number);
                let next = found.entry(instance.lrp).or_default();
                assert_eq!(instance.index, *next, "instance {number} of {lrps} LRPs");
                *next += 1;
            }
            let wanted = (0..lrps).map(|lrp| {
                let request = DesireLrpRequest::decode(fleet.desire(lrp)).unwrap();
                (lrp, request.desired_lrp.unwrap().instances)
            });
            assert_eq!(found, wanted.collect(), "{lrps} LRPs");
        }
        assert_eq!(FLEET.instances(), 250_000);
    }

    #[test]
    fn cells_have_the_instances_they_are_said_to_have() {
        let fleet = Fleet { lrps: 1_003, cells: 10 };
        let mut on_cell = BTreeMap::<u64, u64>::new();
        for number in 0..fleet.instances() {
            *on_cell.entry(fleet.instance(number).cell).or_default() += 1;
        }
        for cell in 0..10 {
            assert_eq!(fleet.instances_on_cell(cell), on_cell[&cell], "cell {cell}");
            assert_eq!(fleet.processes_on_cell(cell).len() as u64, on_cell[&cell]);
        }
        assert_eq!(cells_file(1_000).lines().count(), 1_000);
    }

    #[test]
    fn requests_are_valid_and_names_do_not_repeat() {
        let mut guids = BTreeSet::new();
        for number in 0..2_000 {
            let lrp = DesireLrpRequest::decode(FLEET.desire(number)).unwrap();
            assert_eq!(check(&lrp).map_err(|invalid| invalid.to_string()), Ok(()));
            assert!(guids.insert(lrp.desired_lrp.unwrap().process_guid));
            let start = StartActualLrpRequest::decode(FLEET.instance(number).start()).unwrap();
            assert_eq!(check(&start).map_err(|invalid| invalid.to_string()), Ok(()));
            assert!(guids.insert(start.actual_lrp_instance_key.unwrap().instance_guid));
            let task = DesireTaskRequest::decode(FLEET.desire_task(number)).unwrap();
            assert_eq!(check(&task).map_err(|invalid| invalid.to_string()), Ok(()));
            assert!(guids.insert(task.task_guid));
        }
    }

    /// The sizes for which the figures of other servers were measured.
    #[test]
    fn sizes_are_realistic() {
        let (mut desired, mut scheduling, mut actual, mut task) = (0, 0, 0, 0);
        for number in 0..1_000 {
            let lrp = DesireLrpRequest::decode(FLEET.desire(number)).unwrap().desired_lrp.unwrap();
            let info = DesiredLrpSchedulingInfo {
                desired_lrp_key: Some(DesiredLrpKey {
                    process_guid: lrp.process_guid.clone(),
                    domain: lrp.domain.clone(),
                    log_guid: lrp.log_guid.clone(),
                }),
                annotation: lrp.annotation.clone(),
                instances: lrp.instances,
                desired_lrp_resource: Some(DesiredLrpResource {
                    memory_mb: lrp.memory_mb,
                    disk_mb: lrp.disk_mb,
                    root_fs: lrp.root_fs.clone(),
                    max_pids: lrp.max_pids,
                }),
                routes: lrp.routes.clone(),
                modification_tag: tag(),
                volume_placement: Some(VolumePlacement::default()),
                placement_tags: lrp.placement_tags.clone(),
            };
            let start = StartActualLrpRequest::decode(FLEET.instance(number).start()).unwrap();
            let running = ActualLrp {
                actual_lrp_key: start.actual_lrp_key,
                actual_lrp_instance_key: start.actual_lrp_instance_key,
                actual_lrp_net_info: start.actual_lrp_net_info,
                state: "RUNNING".into(),
                since: 1_700_000_000_000_000_000,
                modification_tag: tag(),
                actual_lrp_internal_routes: start.actual_lrp_internal_routes,
                metric_tags: start.metric_tags,
                routable: start.routable,
                availability_zone: start.availability_zone,
                ..Default::default()
            };
            desired += DesireLrpRequest { desired_lrp: Some(lrp) }.encoded_len() + 42;
            scheduling += info.encoded_len();
            task += FLEET.desire_task(number).len();
            actual += running.encoded_len();
        }
        let sizes = [desired / 1_000, scheduling / 1_000, actual / 1_000, task / 1_000];
        let wanted = [4_285, 910, 745, 2_770];
        assert!(sizes.iter().zip(wanted).all(|(size, wanted)| size.abs_diff(wanted) <= wanted / 50), "{sizes:?}");
    }
}
