//! The records as they lie on disk, as protobuf messages.
//!
//! Promise: a field number keeps its meaning for ever. The messages belong to this version alone; they are not those of
//! the wire, so that a change of the API changes no bytes at rest. The layout is frozen in `frozen.rs`.
//!
//! Messages that carry secrets (image passwords, environment values inside opaque parts) print as their name only.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// The part of a DesiredLRP that updates change.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Schedule {
    #[prost(string, tag = "1")]
    pub(super) process_guid: String,
    #[prost(string, tag = "2")]
    pub(super) domain: String,
    #[prost(string, tag = "3")]
    pub(super) log_guid: String,
    #[prost(string, tag = "4")]
    pub(super) annotation: String,
    #[prost(int32, tag = "5")]
    pub(super) instances: i32,
    #[prost(message, optional, tag = "6")]
    pub(super) resources: Option<Resources>,
    #[prost(string, repeated, tag = "7")]
    pub(super) placement_tags: Vec<String>,
    #[prost(string, repeated, tag = "8")]
    pub(super) volume_drivers: Vec<String>,
    #[prost(btree_map = "string, bytes", tag = "9")]
    pub(super) routes: BTreeMap<String, Bytes>,
    #[prost(btree_map = "string, message", tag = "10")]
    pub(super) metric_tags: BTreeMap<String, MetricTag>,
    #[prost(string, tag = "11")]
    pub(super) metrics_guid: String,
    #[prost(int32, tag = "12")]
    pub(super) update_strategy: i32,
    #[prost(string, tag = "13")]
    pub(super) image_username: String,
    #[prost(string, tag = "14")]
    pub(super) image_password: String,
    #[prost(message, optional, tag = "15")]
    pub(super) tag: Option<Tag>,
}

/// The part of a DesiredLRP that only a cell needs.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Run {
    #[prost(string, tag = "1")]
    pub(super) process_guid: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) run_info: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Resources {
    #[prost(int32, tag = "1")]
    pub(super) memory_mb: i32,
    #[prost(int32, tag = "2")]
    pub(super) disk_mb: i32,
    #[prost(int32, tag = "3")]
    pub(super) max_pids: i32,
    #[prost(string, tag = "4")]
    pub(super) root_fs: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetricTag {
    #[prost(oneof = "MetricTagValue", tags = "1, 2, 3")]
    pub(super) value: Option<MetricTagValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum MetricTagValue {
    #[prost(string, tag = "1")]
    Static(String),
    #[prost(message, tag = "2")]
    Index(Nothing),
    #[prost(message, tag = "3")]
    InstanceGuid(Nothing),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Nothing {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Tag {
    #[prost(string, tag = "1")]
    pub(super) epoch: String,
    #[prost(uint32, tag = "2")]
    pub(super) index: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Actual {
    #[prost(string, tag = "1")]
    pub(super) process_guid: String,
    #[prost(int32, tag = "2")]
    pub(super) index: i32,
    #[prost(string, tag = "3")]
    pub(super) domain: String,
    #[prost(message, optional, tag = "4")]
    pub(super) instance: Option<Instance>,
    #[prost(message, optional, tag = "5")]
    pub(super) net_info: Option<NetInfo>,
    #[prost(int32, tag = "6")]
    pub(super) crash_count: i32,
    #[prost(string, tag = "7")]
    pub(super) crash_reason: String,
    /// 1 unclaimed, 2 claimed, 3 running, 4 crashed. There is no 0: a record that lost its state is unreadable.
    #[prost(uint32, tag = "8")]
    pub(super) state: u32,
    #[prost(string, tag = "9")]
    pub(super) placement_error: String,
    #[prost(int64, tag = "10")]
    pub(super) since_ns: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) tag: Option<Tag>,
    /// 1 ordinary, 2 evacuating, 3 suspect.
    #[prost(uint32, tag = "12")]
    pub(super) presence: u32,
    #[prost(string, repeated, tag = "13")]
    pub(super) internal_routes: Vec<String>,
    /// Absent is something else than empty: an older cell never reported any.
    #[prost(message, optional, tag = "14")]
    pub(super) metric_tags: Option<ReportedTags>,
    #[prost(bool, tag = "15")]
    pub(super) routable: bool,
    #[prost(string, tag = "16")]
    pub(super) availability_zone: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Instance {
    #[prost(string, tag = "1")]
    pub(super) instance_guid: String,
    #[prost(string, tag = "2")]
    pub(super) cell_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReportedTags {
    #[prost(btree_map = "string, string", tag = "1")]
    pub(super) tags: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NetInfo {
    #[prost(string, tag = "1")]
    pub(super) address: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) ports: Vec<Port>,
    #[prost(string, tag = "3")]
    pub(super) instance_address: String,
    #[prost(int32, tag = "4")]
    pub(super) preferred_address: i32,
    #[prost(string, tag = "5")]
    pub(super) instance_ipv6_address: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Port {
    #[prost(uint32, tag = "1")]
    pub(super) container_port: u32,
    #[prost(uint32, tag = "2")]
    pub(super) host_port: u32,
    #[prost(uint32, tag = "3")]
    pub(super) container_tls_proxy_port: u32,
    #[prost(uint32, tag = "4")]
    pub(super) host_tls_proxy_port: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Task {
    #[prost(string, tag = "1")]
    pub(super) guid: String,
    #[prost(string, tag = "2")]
    pub(super) domain: String,
    #[prost(message, optional, tag = "3")]
    pub(super) definition: Option<TaskDefinition>,
    /// 1 pending, 2 running, 3 completed, 4 resolving.
    #[prost(uint32, tag = "4")]
    pub(super) state: u32,
    /// Empty when the task is on no cell.
    #[prost(string, tag = "5")]
    pub(super) cell_id: String,
    #[prost(int64, tag = "6")]
    pub(super) created_ns: i64,
    #[prost(int64, tag = "7")]
    pub(super) updated_ns: i64,
    #[prost(int64, tag = "8")]
    pub(super) first_completed_ns: i64,
    #[prost(string, tag = "9")]
    pub(super) result: String,
    #[prost(bool, tag = "10")]
    pub(super) failed: bool,
    #[prost(string, tag = "11")]
    pub(super) failure_reason: String,
    #[prost(int32, tag = "12")]
    pub(super) rejection_count: i32,
    #[prost(string, tag = "13")]
    pub(super) rejection_reason: String,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct TaskDefinition {
    #[prost(message, optional, tag = "1")]
    pub(super) resources: Option<Resources>,
    #[prost(string, repeated, tag = "2")]
    pub(super) placement_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) volume_drivers: Vec<String>,
    #[prost(string, tag = "4")]
    pub(super) completion_callback_url: String,
    #[prost(string, tag = "5")]
    pub(super) annotation: String,
    #[prost(bytes = "bytes", tag = "6")]
    pub(super) encoded: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Domain {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int64, tag = "2")]
    pub(super) expires_ns: i64,
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

secretive!(Schedule, Run, Task, TaskDefinition);
