//! The records as they lie on disk: Diego's wire messages, as far as they are opened here.
//!
//! Promise: a field number keeps its meaning for ever. What has no place in Diego's messages has a number of its own:
//!
//! | number | in | what |
//! |---|---|---|
//! | 1000 | all | fields that other data versions left with the record |
//! | 1001 | DesiredLRP | the part that only cells need, when it cannot stand among the other fields |
//! | 1002 | DesiredLRP | the volume drivers, when they are not those of the volume mounts |
//! | 1003 | ActualLRP | metric tags were reported, and there were none |
//! | 1004 | Task | the typed part of the definition, when it is not what the definition says |
//!
//! Messages that carry secrets (image passwords, environment values inside opaque parts) print as their name only.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use prost::Message;

use crate::versions::initial_json::fields::{self, Field};
use crate::versions::unknown::{CARRIED, Carried, Record};

/// Numbers below belong to Diego.
const OWN_TAGS: u32 = 1000;
const RUN_INFO: u32 = 1001;

const NOT_A_MESSAGE: &str = "its payload is not the message it should be";

/// In one order, so that what a step takes out and puts back is where it was.
pub(super) fn sort_carried(carried: &mut [Carried]) {
    carried.sort_by(|a, b| (a.version, &a.record).cmp(&(b.version, &b.record)));
}

fn raw<'f, 'a: 'f>(fields: impl Iterator<Item = &'f Field<'a>>) -> Bytes {
    fields.map(|field| field.raw).collect::<Vec<_>>().concat().into()
}

/// A DesiredLRP: the typed part, and what only cells need, opaque.
#[derive(Clone, PartialEq)]
pub struct Desired {
    pub message: DesiredLrp,
    pub run_info: Bytes,
    pub unknown: Bytes,
}

impl Desired {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let all = fields::split(bytes).ok_or(NOT_A_MESSAGE)?;
        let opaque = fields::last(&all, RUN_INFO).and_then(Field::bytes);
        let (run, rest): (Vec<_>, Vec<_>) = all.iter().partition(|field| is_run_info(field.tag));
        let run_info = match opaque {
            None => fields::join(run).into(),
            Some(opaque) if run.is_empty() => Bytes::copy_from_slice(opaque),
            Some(_) => return Err("it says twice what cells need".to_owned()),
        };
        let unknown = raw(rest.iter().filter(|field| !DesiredLrp::knows(field.tag) && field.tag != RUN_INFO));
        let typed = raw(rest.iter().filter(|field| DesiredLrp::knows(field.tag)));
        let mut message = DesiredLrp::decode(typed).map_err(|error| format!("{NOT_A_MESSAGE} ({error})"))?;
        sort_carried(&mut message.carried);
        message.routes = message.routes.filter(|routes| !routes.routes.is_empty());
        match message.volume_placement.take() {
            Some(placement) => Ok(Desired::new(message, placement.driver_names, run_info, unknown)),
            None => Ok(Desired { message, run_info, unknown }),
        }
    }

    /// The drivers are written only when the volume mounts in the run info do not say the same.
    pub fn new(mut message: DesiredLrp, driver_names: Vec<String>, run_info: Bytes, unknown: Bytes) -> Self {
        message.volume_placement = (driver_names != mounted(&run_info)).then_some(VolumePlacement { driver_names });
        Desired { message, run_info, unknown }
    }

    pub fn volume_drivers(&self) -> Vec<String> {
        match &self.message.volume_placement {
            Some(placement) => placement.driver_names.clone(),
            None => mounted(&self.run_info),
        }
    }

    /// Fields in the order of their numbers, then the unknown ones.
    pub(super) fn payload(&self) -> Vec<u8> {
        let typed = self.message.encode_to_vec();
        let mut all = fields::split(&typed).unwrap_or_default();
        let inline = fields::split(&self.run_info)
            .filter(|run| run.iter().all(|field| is_run_info(field.tag)) && run.is_sorted_by_key(|field| field.tag));
        let mut opaque = Vec::new();
        all.extend(inline.unwrap_or_else(|| {
            fields::put_bytes(RUN_INFO, &self.run_info, &mut opaque);
            fields::split(&opaque).unwrap_or_default()
        }));
        let mut bytes = fields::join(all);
        bytes.extend_from_slice(&self.unknown);
        bytes
    }
}

fn is_run_info(tag: u32) -> bool {
    tag < OWN_TAGS && !DesiredLrp::knows(tag)
}

/// The typed part of a DesiredLRP.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct DesiredLrp {
    #[prost(string, tag = "1")]
    pub process_guid: String,
    #[prost(string, tag = "2")]
    pub domain: String,
    #[prost(string, tag = "3")]
    pub root_fs: String,
    #[prost(int32, tag = "4")]
    pub instances: i32,
    #[prost(int32, tag = "10")]
    pub disk_mb: i32,
    #[prost(int32, tag = "11")]
    pub memory_mb: i32,
    /// Left out when there are none.
    #[prost(message, optional, tag = "15")]
    pub routes: Option<Routes>,
    #[prost(string, tag = "17")]
    pub log_guid: String,
    #[prost(string, tag = "18")]
    pub metrics_guid: String,
    #[prost(string, tag = "19")]
    pub annotation: String,
    #[prost(message, optional, tag = "21")]
    pub modification_tag: Option<ModificationTag>,
    #[prost(string, repeated, tag = "28")]
    pub placement_tags: Vec<String>,
    #[prost(int32, tag = "29")]
    pub max_pids: i32,
    #[prost(string, tag = "31")]
    pub image_username: String,
    #[prost(string, tag = "32")]
    pub image_password: String,
    #[prost(btree_map = "string, message", tag = "35")]
    pub metric_tags: BTreeMap<String, MetricTagValue>,
    #[prost(int32, tag = "39")]
    pub update_strategy: i32,
    #[prost(message, repeated, tag = "1000")]
    pub carried: Vec<Carried>,
    /// Only through [`Desired::new`], which decides whether it is needed.
    #[prost(message, optional, tag = "1002")]
    pub volume_placement: Option<VolumePlacement>,
}

/// The driver of each volume mount, in order.
fn mounted(run_info: &[u8]) -> Vec<String> {
    let mounts = RunInfo::decode(run_info).unwrap_or_default().volume_mounts;
    mounts.into_iter().map(|mount| mount.driver).collect()
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct RunInfo {
    #[prost(message, repeated, tag = "25")]
    volume_mounts: Vec<VolumeMount>,
}

#[derive(Clone, PartialEq, Message)]
struct VolumeMount {
    #[prost(string, tag = "1")]
    driver: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct VolumePlacement {
    #[prost(string, repeated, tag = "1")]
    pub driver_names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct Routes {
    #[prost(btree_map = "string, bytes", tag = "1")]
    pub routes: BTreeMap<String, Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MetricTagValue {
    #[prost(string, tag = "1")]
    pub r#static: String,
    /// 1 the index, 2 the instance guid.
    #[prost(int32, tag = "2")]
    pub dynamic: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModificationTag {
    #[prost(string, tag = "1")]
    pub epoch: String,
    #[prost(uint32, tag = "2")]
    pub index: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ActualLrp {
    #[prost(message, optional, tag = "1")]
    pub key: Option<ActualLrpKey>,
    /// Always written; empty when nobody holds the instance.
    #[prost(message, optional, tag = "2")]
    pub instance_key: Option<InstanceKey>,
    #[prost(message, optional, tag = "3")]
    pub net_info: Option<NetInfo>,
    #[prost(int32, tag = "4")]
    pub crash_count: i32,
    #[prost(string, tag = "5")]
    pub crash_reason: String,
    #[prost(string, tag = "6")]
    pub state: String,
    #[prost(string, tag = "7")]
    pub placement_error: String,
    #[prost(int64, tag = "8")]
    pub since: i64,
    #[prost(message, optional, tag = "9")]
    pub modification_tag: Option<ModificationTag>,
    /// 0 ordinary, 1 evacuating, 2 suspect.
    #[prost(int32, tag = "10")]
    pub presence: i32,
    #[prost(message, repeated, tag = "11")]
    pub internal_routes: Vec<InternalRoute>,
    #[prost(btree_map = "string, string", tag = "12")]
    pub metric_tags: BTreeMap<String, String>,
    #[prost(bool, optional, tag = "13")]
    pub routable: Option<bool>,
    #[prost(string, tag = "14")]
    pub availability_zone: String,
    #[prost(message, repeated, tag = "1000")]
    pub carried: Vec<Carried>,
    /// Only when there are no metric tags: none were reported, which differs from not having reported any.
    #[prost(bool, tag = "1003")]
    pub metric_tags_reported: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct ActualLrpKey {
    #[prost(string, tag = "1")]
    pub process_guid: String,
    #[prost(int32, tag = "2")]
    pub index: i32,
    #[prost(string, tag = "3")]
    pub domain: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct InstanceKey {
    #[prost(string, tag = "1")]
    pub instance_guid: String,
    #[prost(string, tag = "2")]
    pub cell_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NetInfo {
    #[prost(string, tag = "1")]
    pub address: String,
    #[prost(message, repeated, tag = "2")]
    pub ports: Vec<PortMapping>,
    #[prost(string, tag = "3")]
    pub instance_address: String,
    #[prost(int32, tag = "4")]
    pub preferred_address: i32,
    #[prost(string, tag = "5")]
    pub instance_ipv6_address: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct PortMapping {
    #[prost(uint32, tag = "1")]
    pub container_port: u32,
    #[prost(uint32, tag = "2")]
    pub host_port: u32,
    #[prost(uint32, tag = "3")]
    pub container_tls_proxy_port: u32,
    #[prost(uint32, tag = "4")]
    pub host_tls_proxy_port: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct InternalRoute {
    #[prost(string, tag = "1")]
    pub hostname: String,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct Task {
    /// Never opened, except to look for what [`Definition`] has.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub encoded: Option<Bytes>,
    #[prost(string, tag = "2")]
    pub task_guid: String,
    #[prost(string, tag = "3")]
    pub domain: String,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(int64, tag = "5")]
    pub updated_at: i64,
    #[prost(int64, tag = "6")]
    pub first_completed_at: i64,
    /// 1 pending, 2 running, 3 completed, 4 resolving.
    #[prost(uint32, tag = "7")]
    pub state: u32,
    #[prost(string, tag = "8")]
    pub cell_id: String,
    #[prost(string, tag = "9")]
    pub result: String,
    #[prost(bool, tag = "10")]
    pub failed: bool,
    #[prost(string, tag = "11")]
    pub failure_reason: String,
    #[prost(int32, tag = "12")]
    pub rejection_count: i32,
    #[prost(string, tag = "13")]
    pub rejection_reason: String,
    #[prost(message, repeated, tag = "1000")]
    pub carried: Vec<Carried>,
    /// Only through [`Task::set_definition`], which decides whether it is needed.
    #[prost(message, optional, tag = "1004")]
    pub definition: Option<Definition>,
}

impl Task {
    /// What placement and the callback need, or `None` when the definition cannot be read.
    pub fn definition(&self) -> Option<Definition> {
        self.definition.clone().or_else(|| Definition::of(self.encoded.as_ref()?))
    }

    /// It is written only when the encoded definition does not say the same.
    pub fn set_definition(&mut self, definition: Definition) {
        let said = self.encoded.as_ref().and_then(|encoded| Definition::of(encoded));
        self.definition = Some(definition).filter(|definition| said.as_ref() != Some(definition));
    }
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct Definition {
    #[prost(message, optional, tag = "1")]
    pub resources: Option<Resources>,
    #[prost(string, repeated, tag = "2")]
    pub placement_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub volume_drivers: Vec<String>,
    #[prost(string, tag = "4")]
    pub completion_callback_url: String,
    #[prost(string, tag = "5")]
    pub annotation: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Resources {
    #[prost(int32, tag = "1")]
    pub memory_mb: i32,
    #[prost(int32, tag = "2")]
    pub disk_mb: i32,
    #[prost(int32, tag = "3")]
    pub max_pids: i32,
    #[prost(string, tag = "4")]
    pub root_fs: String,
}

/// The fields of Diego's TaskDefinition that are looked at.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct TaskDefinition {
    #[prost(string, tag = "1")]
    root_fs: String,
    #[prost(int32, tag = "4")]
    disk_mb: i32,
    #[prost(int32, tag = "5")]
    memory_mb: i32,
    #[prost(string, tag = "12")]
    completion_callback_url: String,
    #[prost(string, tag = "13")]
    annotation: String,
    #[prost(message, repeated, tag = "18")]
    volume_mounts: Vec<VolumeMount>,
    #[prost(string, repeated, tag = "20")]
    placement_tags: Vec<String>,
    #[prost(int32, tag = "21")]
    max_pids: i32,
}

impl Definition {
    fn of(encoded: &[u8]) -> Option<Self> {
        let said = TaskDefinition::decode(encoded).ok()?;
        let TaskDefinition { root_fs, disk_mb, memory_mb, max_pids, .. } = said;
        Some(Definition {
            resources: Some(Resources { memory_mb, disk_mb, max_pids, root_fs }),
            placement_tags: said.placement_tags,
            volume_drivers: said.volume_mounts.into_iter().map(|mount| mount.driver).collect(),
            completion_callback_url: said.completion_callback_url,
            annotation: said.annotation,
        })
    }
}

/// Ours: Diego had no message for a domain.
#[derive(Clone, PartialEq, Message)]
pub struct Domain {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, tag = "2")]
    pub expires_ns: i64,
    #[prost(message, repeated, tag = "1000")]
    pub carried: Vec<Carried>,
}

macro_rules! records {
    ($($name:ident: $tags:pat,)*) => {
        $(
            impl Record for $name {
                fn knows(tag: u32) -> bool {
                    matches!(tag, $tags)
                }

                fn carried(&mut self) -> &mut Vec<Carried> {
                    &mut self.carried
                }
            }
        )*

        #[test]
        fn every_record_says_what_it_knows() {
            $(crate::versions::unknown::check_knows::<$name>();)*
        }
    };
}

records! {
    DesiredLrp: 1..=4 | 10 | 11 | 15 | 17..=19 | 21 | 28 | 29 | 31 | 32 | 35 | 39 | CARRIED | 1002,
    ActualLrp: 1..=14 | CARRIED | 1003,
    Task: 1..=13 | CARRIED | 1004,
    Domain: 1 | 2 | CARRIED,
}

macro_rules! secretive {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(stringify!($name))
            }
        }
    )*};
}

secretive!(Desired, DesiredLrp, RunInfo, Routes, Task, Definition, TaskDefinition);
