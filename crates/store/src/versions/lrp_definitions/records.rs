//! The records as they lie on disk, as protobuf messages.
//!
//! Promise: a field number keeps its meaning for ever. The messages belong to this version alone; they are not those of
//! the wire, so that a change of the API changes no bytes at rest. The layout is frozen in `frozen.rs`.
//!
//! Messages that carry secrets (image passwords, environment values inside opaque parts) print as their name only.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use crate::versions::unknown::{CARRIED, Carried, Record};

/// The part of a DesiredLRP that updates change without touching a container, the numbers of its definitions, and how its
/// instances get from one to the other.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct Schedule {
    #[prost(string, tag = "1")]
    pub process_guid: String,
    #[prost(string, tag = "2")]
    pub domain: String,
    #[prost(string, tag = "3")]
    pub annotation: String,
    #[prost(int32, tag = "4")]
    pub instances: i32,
    #[prost(btree_map = "string, bytes", tag = "5")]
    pub routes: BTreeMap<String, Bytes>,
    #[prost(btree_map = "string, message", tag = "6")]
    pub metric_tags: BTreeMap<String, MetricTag>,
    #[prost(int32, tag = "7")]
    pub update_strategy: i32,
    #[prost(string, tag = "8")]
    pub image_username: String,
    #[prost(string, tag = "9")]
    pub image_password: String,
    #[prost(message, optional, tag = "10")]
    pub tag: Option<Tag>,
    /// The number of the definition that new instances get. Numbers begin with 1.
    #[prost(uint32, tag = "11")]
    pub definition: u32,
    /// The number of the definition that instances ran before, while some still do; 0 when none does.
    #[prost(uint32, tag = "12")]
    pub previous: u32,
    /// Absent as long as there was no other definition than the first.
    #[prost(message, optional, tag = "13")]
    pub history: Option<History>,
    #[prost(message, repeated, tag = "1000")]
    pub carried: Vec<Carried>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct History {
    /// How many definitions there have been.
    #[prost(uint32, tag = "1")]
    pub made: u32,
    /// The numbers of former definitions that are kept, the latest first. Neither the one in use nor the previous one.
    #[prost(uint32, repeated, tag = "2")]
    pub older: Vec<u32>,
    /// The one that is under way, or the last one.
    #[prost(message, optional, tag = "3")]
    pub rollout: Option<Rollout>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Rollout {
    #[prost(uint32, tag = "1")]
    pub from: u32,
    #[prost(uint32, tag = "2")]
    pub to: u32,
    #[prost(message, optional, tag = "3")]
    pub terms: Option<Terms>,
    #[prost(int64, tag = "4")]
    pub started_ns: i64,
    /// 1 rolling, 2 canary, 3 paused, 4 halted, 5 done. There is no 0, as there is no state 0.
    #[prost(uint32, tag = "5")]
    pub phase: u32,
    #[prost(int64, tag = "6")]
    pub phase_since_ns: i64,
    #[prost(int64, tag = "7")]
    pub held_ns: i64,
    #[prost(bool, tag = "8")]
    pub reverts: bool,
    #[prost(string, tag = "9")]
    pub why: String,
    #[prost(bool, tag = "10")]
    pub canaries_passed: bool,
    #[prost(message, repeated, tag = "11")]
    pub flights: Vec<Flight>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Flight {
    #[prost(int32, tag = "1")]
    pub index: i32,
    #[prost(int64, tag = "2")]
    pub begun_ns: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Terms {
    #[prost(uint32, tag = "1")]
    pub in_flight: u32,
    #[prost(uint32, tag = "2")]
    pub canaries: u32,
    #[prost(oneof = "CanaryPause", tags = "3, 4")]
    pub canary_pause: Option<CanaryPause>,
    #[prost(int64, tag = "5")]
    pub healthy_ns: i64,
    #[prost(int64, tag = "6")]
    pub instance_deadline_ns: i64,
    #[prost(int64, tag = "7")]
    pub deadline_ns: i64,
    #[prost(bool, tag = "8")]
    pub reverts: bool,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum CanaryPause {
    /// Also when it is 0: no pause is something else than one without an end.
    #[prost(int64, tag = "3")]
    ForNs(i64),
    #[prost(message, tag = "4")]
    UntilResumed(Nothing),
}

/// What an instance runs. An update adds another one; this one stays as it is, and notes the routes it had.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct Definition {
    #[prost(string, tag = "1")]
    pub process_guid: String,
    #[prost(uint32, tag = "2")]
    pub number: u32,
    /// What the client that set it calls it.
    #[prost(string, tag = "3")]
    pub identifier: String,
    #[prost(message, optional, tag = "4")]
    pub resources: Option<Resources>,
    #[prost(string, repeated, tag = "5")]
    pub placement_tags: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub volume_drivers: Vec<String>,
    #[prost(string, tag = "7")]
    pub log_guid: String,
    #[prost(string, tag = "8")]
    pub metrics_guid: String,
    /// What only a cell needs.
    #[prost(bytes = "bytes", tag = "9")]
    pub run_info: Bytes,
    /// The routes of its instances, if the update that replaced it changed the routes as well.
    #[prost(message, optional, tag = "10")]
    pub routes: Option<Routes>,
    #[prost(message, repeated, tag = "1000")]
    pub carried: Vec<Carried>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Routes {
    #[prost(btree_map = "string, bytes", tag = "1")]
    pub routes: BTreeMap<String, Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
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

#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricTag {
    #[prost(oneof = "MetricTagValue", tags = "1, 2, 3")]
    pub value: Option<MetricTagValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum MetricTagValue {
    #[prost(string, tag = "1")]
    Static(String),
    #[prost(message, tag = "2")]
    Index(Nothing),
    #[prost(message, tag = "3")]
    InstanceGuid(Nothing),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Nothing {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Tag {
    #[prost(string, tag = "1")]
    pub epoch: String,
    #[prost(uint32, tag = "2")]
    pub index: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Actual {
    #[prost(string, tag = "1")]
    pub process_guid: String,
    #[prost(int32, tag = "2")]
    pub index: i32,
    #[prost(string, tag = "3")]
    pub domain: String,
    #[prost(message, optional, tag = "4")]
    pub instance: Option<Instance>,
    #[prost(message, optional, tag = "5")]
    pub net_info: Option<NetInfo>,
    #[prost(int32, tag = "6")]
    pub crash_count: i32,
    #[prost(string, tag = "7")]
    pub crash_reason: String,
    /// 1 unclaimed, 2 claimed, 3 running, 4 crashed. There is no 0: a record that lost its state is unreadable.
    #[prost(uint32, tag = "8")]
    pub state: u32,
    #[prost(string, tag = "9")]
    pub placement_error: String,
    #[prost(int64, tag = "10")]
    pub since_ns: i64,
    #[prost(message, optional, tag = "11")]
    pub tag: Option<Tag>,
    /// 1 ordinary, 2 evacuating, 3 suspect.
    #[prost(uint32, tag = "12")]
    pub presence: u32,
    #[prost(string, repeated, tag = "13")]
    pub internal_routes: Vec<String>,
    /// Absent is something else than empty: an older cell never reported any.
    #[prost(message, optional, tag = "14")]
    pub metric_tags: Option<ReportedTags>,
    #[prost(bool, tag = "15")]
    pub routable: bool,
    #[prost(string, tag = "16")]
    pub availability_zone: String,
    /// The number of the definition that it runs.
    #[prost(uint32, tag = "17")]
    pub definition: u32,
    /// An update replaces it: it stays until its successor has proven itself.
    #[prost(bool, tag = "18")]
    pub leaving: bool,
    #[prost(message, repeated, tag = "1000")]
    pub carried: Vec<Carried>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Instance {
    #[prost(string, tag = "1")]
    pub instance_guid: String,
    #[prost(string, tag = "2")]
    pub cell_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportedTags {
    #[prost(btree_map = "string, string", tag = "1")]
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NetInfo {
    #[prost(string, tag = "1")]
    pub address: String,
    #[prost(message, repeated, tag = "2")]
    pub ports: Vec<Port>,
    #[prost(string, tag = "3")]
    pub instance_address: String,
    #[prost(int32, tag = "4")]
    pub preferred_address: i32,
    #[prost(string, tag = "5")]
    pub instance_ipv6_address: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Port {
    #[prost(uint32, tag = "1")]
    pub container_port: u32,
    #[prost(uint32, tag = "2")]
    pub host_port: u32,
    #[prost(uint32, tag = "3")]
    pub container_tls_proxy_port: u32,
    #[prost(uint32, tag = "4")]
    pub host_tls_proxy_port: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct Task {
    #[prost(string, tag = "1")]
    pub guid: String,
    #[prost(string, tag = "2")]
    pub domain: String,
    #[prost(message, optional, tag = "3")]
    pub definition: Option<TaskDefinition>,
    /// 1 pending, 2 running, 3 completed, 4 resolving.
    #[prost(uint32, tag = "4")]
    pub state: u32,
    /// Empty when the task is on no cell.
    #[prost(string, tag = "5")]
    pub cell_id: String,
    #[prost(int64, tag = "6")]
    pub created_ns: i64,
    #[prost(int64, tag = "7")]
    pub updated_ns: i64,
    #[prost(int64, tag = "8")]
    pub first_completed_ns: i64,
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
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct TaskDefinition {
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
    #[prost(bytes = "bytes", tag = "6")]
    pub encoded: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Domain {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, tag = "2")]
    pub expires_ns: i64,
    #[prost(message, repeated, tag = "1000")]
    pub carried: Vec<Carried>,
}

macro_rules! records {
    ($($name:ident $first:literal to $last:literal;)*) => {
        $(
            impl Record for $name {
                fn knows(tag: u32) -> bool {
                    matches!(tag, $first..=$last | CARRIED)
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

// The numbers of the fields of each record that has a key.
records! {
    Schedule 1 to 13;
    Definition 1 to 10;
    Actual 1 to 18;
    Task 1 to 13;
    Domain 1 to 2;
}

macro_rules! secretive {
    ($($name:ident),*) => {
        $(
            impl fmt::Debug for $name {
                fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                    out.write_str(stringify!($name))
                }
            }
        )*
    };
}

secretive!(Schedule, Definition, Task, TaskDefinition);
