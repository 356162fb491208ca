//! What each JSON key is in Diego's wire message: its field number and its kind. Frozen: these are facts about records
//! that lie in stores.
//!
//! Rows stand in the order in which Diego prints them. A key is printed always, or left out while it is empty, or only
//! read, because it is an older spelling. Keys that begin with `corkboard_` are ours: what a record holds and Diego's JSON
//! has no room for.

pub(in crate::versions) struct Shape {
    pub(super) rows: &'static [Row],
    /// Whether keys that are not in the table are kept inside the message. Only where the message is handed on unopened.
    pub(super) keeps_unknown: bool,
    pub(super) fill: Option<Fill>,
}

/// A field that replaced an older one in another unit. It is filled in when a record has only the older one.
pub(super) struct Fill {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) times: i64,
    pub(super) over: i64,
}

#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) tag: u32,
    pub(super) kind: Kind,
    pub(super) shown: Shown,
    pub(super) many: bool,
    /// Whether a zero is something else than nothing.
    pub(super) explicit: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Always,
    UnlessEmpty,
    Never,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// Base64 in JSON.
    Bytes,
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    /// A name in JSON. A number is read too, and written when it has no name.
    Enum(&'static [(&'static str, i32)]),
    Message(&'static Shape),
    /// The keys of the part stand among those of the whole. With `true` the part is there even if none of them is.
    Flattened(&'static Shape, bool),
    /// An object in JSON, whose fields stand among those of the whole.
    Inlined(&'static Shape),
    TextMap,
    MessageMap(&'static Shape),
    /// An object of JSON texts that nobody here looks into, in a message of its own that is left out when empty.
    Routes,
}

const fn row(key: &'static str, tag: u32, kind: Kind) -> Row {
    Row { key, tag, kind, shown: Shown::Always, many: false, explicit: false }
}

impl Row {
    const fn opt(self) -> Row {
        Row { shown: Shown::UnlessEmpty, ..self }
    }

    const fn older(self) -> Row {
        Row { shown: Shown::Never, ..self }
    }

    const fn many(self) -> Row {
        Row { many: true, ..self }
    }

    const fn explicit(self) -> Row {
        Row { explicit: true, ..self }
    }
}

const fn shape(rows: &'static [Row]) -> Shape {
    Shape { rows, keeps_unknown: true, fill: None }
}

/// For parts that are taken apart, so that there is no place for what is not in the table.
const fn typed(rows: &'static [Row]) -> Shape {
    Shape { rows, keeps_unknown: false, fill: None }
}

use Kind::{
    Bool, Bytes, Enum, Flattened, Inlined, Int32, Int64, Message, MessageMap, Routes, Text, TextMap, Uint32, Uint64,
};

/// The number that every record keeps for what other data versions left with it.
pub(super) const CARRIED_TAG: u32 = 1000;

pub(super) static CARRIED: Shape =
    typed(&[row("version", 1, Uint64), row("record", 2, Text).opt(), row("fields", 3, Bytes).opt()]);

const CARRIED_ROW: Row = row("corkboard_carried", CARRIED_TAG, Message(&CARRIED)).many().opt();

pub(in crate::versions) static DOMAIN: Shape = typed(&[row("name", 1, Text), row("expires_ns", 2, Int64), CARRIED_ROW]);

pub(in crate::versions) static DESIRED: Shape = Shape {
    rows: &[
        row("process_guid", 1, Text),
        row("domain", 2, Text),
        row("rootfs", 3, Text),
        row("instances", 4, Int32),
        row("env", 5, Message(&ENVIRONMENT_VARIABLE)).many(),
        row("setup", 6, Message(&ACTION)).opt(),
        row("action", 7, Message(&ACTION)).opt(),
        row("start_timeout_ms", 27, Int64),
        row("start_timeout", 8, Uint32).opt(),
        row("deprecated_timeout_ns", 8, Uint32).older(),
        row("monitor", 9, Message(&ACTION)).opt(),
        row("disk_mb", 10, Int32),
        row("memory_mb", 11, Int32),
        row("cpu_weight", 12, Uint32),
        row("privileged", 13, Bool),
        row("ports", 14, Uint32).many().opt(),
        row("routes", 15, Routes).opt(),
        row("log_source", 16, Text),
        row("log_guid", 17, Text),
        row("metrics_guid", 18, Text),
        row("annotation", 19, Text),
        row("egress_rules", 20, Message(&SECURITY_GROUP_RULE)).many().opt(),
        row("modification_tag", 21, Message(&MODIFICATION_TAG)).opt(),
        row("cached_dependencies", 22, Message(&CACHED_DEPENDENCY)).many().opt(),
        row("legacy_download_user", 23, Text).opt(),
        row("trusted_system_certificates_path", 24, Text).opt(),
        row("volume_mounts", 25, Message(&VOLUME_MOUNT)).many().opt(),
        row("network", 26, Message(&NETWORK)).opt(),
        row("placement_tags", 28, Text).many().opt(),
        row("max_pids", 29, Int32),
        row("certificate_properties", 30, Message(&CERTIFICATE_PROPERTIES)).opt(),
        row("image_username", 31, Text).opt(),
        row("image_password", 32, Text).opt(),
        row("check_definition", 33, Message(&CHECK_DEFINITION)).opt(),
        row("image_layers", 34, Message(&IMAGE_LAYER)).many().opt(),
        row("metric_tags", 35, MessageMap(&METRIC_TAG_VALUE)).opt(),
        row("sidecars", 36, Message(&SIDECAR)).many().opt(),
        row("log_rate_limit", 37, Message(&LOG_RATE_LIMIT)).opt(),
        row("volume_mounted_files", 38, Message(&FILE)).many().opt(),
        row("update_strategy", 39, Int32).opt(),
        CARRIED_ROW,
        row("corkboard_run_info", 1001, Bytes).opt().explicit(),
        row("corkboard_volume_placement", 1002, Message(&VOLUME_PLACEMENT)).opt(),
    ],
    keeps_unknown: false,
    fill: Some(Fill { from: 8, to: 27, times: 1000, over: 1 }),
};

pub(in crate::versions) static ACTUAL: Shape = typed(&[
    row("", 1, Flattened(&ACTUAL_KEY, true)),
    row("", 2, Flattened(&INSTANCE_KEY, true)),
    row("", 3, Flattened(&NET_INFO, true)),
    row("crash_count", 4, Int32),
    row("crash_reason", 5, Text).opt(),
    row("state", 6, Text),
    row("placement_error", 7, Text).opt(),
    row("since", 8, Int64),
    row("modification_tag", 9, Message(&MODIFICATION_TAG)),
    row("presence", 10, Enum(&[("ORDINARY", 0), ("EVACUATING", 1), ("SUSPECT", 2)])),
    row("actual_lrp_internal_routes", 11, Message(&INTERNAL_ROUTE)).many().opt(),
    row("metric_tags", 12, TextMap).opt(),
    row("OptionalRoutable", 13, Inlined(&ROUTABLE)).opt(),
    row("availability_zone", 14, Text).opt(),
    CARRIED_ROW,
    row("corkboard_metric_tags_reported", 1003, Bool).opt(),
]);

static ACTUAL_KEY: Shape = typed(&[row("process_guid", 1, Text), row("index", 2, Int32), row("domain", 3, Text)]);
static INSTANCE_KEY: Shape = typed(&[row("instance_guid", 1, Text), row("cell_id", 2, Text)]);
static NET_INFO: Shape = typed(&[
    row("address", 1, Text),
    row("ports", 2, Message(&PORT_MAPPING)).many(),
    row("instance_address", 3, Text).opt(),
    row("preferred_address", 4, Enum(&[("UNKNOWN", 0), ("INSTANCE", 1), ("HOST", 2)])).opt(),
    row("instance_ipv6_address", 5, Text).opt(),
]);
static PORT_MAPPING: Shape = typed(&[
    row("container_port", 1, Uint32),
    row("host_port", 2, Uint32),
    row("container_tls_proxy_port", 3, Uint32).opt(),
    row("host_tls_proxy_port", 4, Uint32).opt(),
]);
static INTERNAL_ROUTE: Shape = typed(&[row("hostname", 1, Text)]);
static ROUTABLE: Shape = typed(&[row("routable", 13, Bool).explicit()]);
static MODIFICATION_TAG: Shape = typed(&[row("epoch", 1, Text), row("index", 2, Uint32)]);
pub(super) static METRIC_TAG_VALUE: Shape =
    typed(&[row("static", 1, Text).opt(), row("dynamic", 2, Enum(&[("INDEX", 1), ("INSTANCE_GUID", 2)])).opt()]);
static VOLUME_PLACEMENT: Shape = typed(&[row("driver_names", 1, Text).many()]);

pub(in crate::versions) static TASK: Shape = typed(&[
    row("", 1, Flattened(&TASK_DEFINITION, false)),
    row("task_guid", 2, Text),
    row("domain", 3, Text),
    row("created_at", 4, Int64),
    row("updated_at", 5, Int64),
    row("first_completed_at", 6, Int64),
    row("state", 7, Enum(&[("Invalid", 0), ("Pending", 1), ("Running", 2), ("Completed", 3), ("Resolving", 4)])),
    row("cell_id", 8, Text),
    row("result", 9, Text),
    row("failed", 10, Bool),
    row("failure_reason", 11, Text),
    row("rejection_count", 12, Int32).opt(),
    row("rejection_reason", 13, Text).opt(),
    CARRIED_ROW,
    row("corkboard_definition", 1004, Bytes).opt().explicit(),
]);

static TASK_DEFINITION: Shape = typed(&[
    row("rootfs", 1, Text),
    row("env", 2, Message(&ENVIRONMENT_VARIABLE)).many().opt(),
    row("action", 3, Message(&ACTION)).opt(),
    row("disk_mb", 4, Int32),
    row("memory_mb", 5, Int32),
    row("cpu_weight", 6, Uint32),
    row("privileged", 7, Bool),
    row("log_source", 8, Text),
    row("log_guid", 9, Text),
    row("metrics_guid", 10, Text),
    row("result_file", 11, Text),
    row("completion_callback_url", 12, Text).opt(),
    row("annotation", 13, Text).opt(),
    row("egress_rules", 14, Message(&SECURITY_GROUP_RULE)).many().opt(),
    row("cached_dependencies", 15, Message(&CACHED_DEPENDENCY)).many().opt(),
    row("legacy_download_user", 16, Text).opt(),
    row("trusted_system_certificates_path", 17, Text).opt(),
    row("volume_mounts", 18, Message(&VOLUME_MOUNT)).many().opt(),
    row("network", 19, Message(&NETWORK)).opt(),
    row("placement_tags", 20, Text).many().opt(),
    row("max_pids", 21, Int32),
    row("certificate_properties", 22, Message(&CERTIFICATE_PROPERTIES)).opt(),
    row("image_username", 23, Text).opt(),
    row("image_password", 24, Text).opt(),
    row("image_layers", 25, Message(&IMAGE_LAYER)).many().opt(),
    row("log_rate_limit", 26, Message(&LOG_RATE_LIMIT)).opt(),
    row("metric_tags", 27, MessageMap(&METRIC_TAG_VALUE)).opt(),
    row("volume_mounted_files", 28, Message(&FILE)).many().opt(),
]);

static ACTION: Shape = shape(&[
    row("download", 1, Message(&DOWNLOAD)).opt(),
    row("upload", 2, Message(&UPLOAD)).opt(),
    row("run", 3, Message(&RUN)).opt(),
    row("timeout", 4, Message(&TIMEOUT)).opt(),
    row("emit_progress", 5, Message(&EMIT_PROGRESS)).opt(),
    row("try", 6, Message(&TRY)).opt(),
    row("parallel", 7, Message(&ACTIONS)).opt(),
    row("serial", 8, Message(&ACTIONS)).opt(),
    row("codependent", 9, Message(&ACTIONS)).opt(),
]);
static DOWNLOAD: Shape = shape(&[
    row("artifact", 1, Text).opt(),
    row("from", 2, Text),
    row("to", 3, Text),
    row("cache_key", 4, Text),
    row("log_source", 5, Text).opt(),
    row("user", 6, Text),
    row("checksum_algorithm", 7, Text).opt(),
    row("checksum_value", 8, Text).opt(),
]);
static UPLOAD: Shape = shape(&[
    row("artifact", 1, Text).opt(),
    row("from", 2, Text),
    row("to", 3, Text),
    row("log_source", 4, Text).opt(),
    row("user", 5, Text),
]);
static RUN: Shape = shape(&[
    row("path", 1, Text),
    row("args", 2, Text).many().opt(),
    row("dir", 3, Text).opt(),
    row("env", 4, Message(&ENVIRONMENT_VARIABLE)).many().opt(),
    row("resource_limits", 5, Message(&RESOURCE_LIMITS)).opt(),
    row("user", 6, Text),
    row("log_source", 7, Text).opt(),
    row("suppress_log_output", 8, Bool).opt(),
    row("volume_mounted_files", 9, Message(&FILE)).many().opt(),
]);
static TIMEOUT: Shape = Shape {
    rows: &[
        row("action", 1, Message(&ACTION)).opt(),
        row("timeout", 2, Int64).opt(),
        row("log_source", 3, Text).opt(),
        row("timeout_ms", 4, Int64),
    ],
    keeps_unknown: true,
    fill: Some(Fill { from: 2, to: 4, times: 1, over: 1_000_000 }),
};
static EMIT_PROGRESS: Shape = shape(&[
    row("action", 1, Message(&ACTION)).opt(),
    row("start_message", 2, Text),
    row("success_message", 3, Text),
    row("failure_message_prefix", 4, Text),
    row("log_source", 5, Text).opt(),
]);
static TRY: Shape = shape(&[row("action", 1, Message(&ACTION)).opt(), row("log_source", 2, Text).opt()]);
static ACTIONS: Shape = shape(&[row("actions", 1, Message(&ACTION)).many().opt(), row("log_source", 2, Text).opt()]);
static RESOURCE_LIMITS: Shape =
    shape(&[row("nofile", 1, Uint64).opt().explicit(), row("nproc", 2, Uint64).opt().explicit()]);
static ENVIRONMENT_VARIABLE: Shape = shape(&[row("name", 1, Text), row("value", 2, Text)]);
static FILE: Shape = shape(&[row("path", 1, Text), row("content", 2, Text)]);
static NETWORK: Shape = shape(&[row("properties", 1, TextMap).opt()]);
static LOG_RATE_LIMIT: Shape = shape(&[row("bytes_per_second", 1, Int64).opt()]);
static CERTIFICATE_PROPERTIES: Shape = shape(&[row("organizational_unit", 1, Text).many().opt()]);
static SIDECAR: Shape =
    shape(&[row("action", 1, Message(&ACTION)).opt(), row("disk_mb", 2, Int32), row("memory_mb", 3, Int32)]);
static SECURITY_GROUP_RULE: Shape = shape(&[
    row("protocol", 1, Text).opt(),
    row("destinations", 2, Text).many().opt(),
    row("ports", 3, Uint32).many().opt(),
    row("port_range", 4, Message(&PORT_RANGE)).opt(),
    row("icmp_info", 5, Message(&ICMP_INFO)).opt(),
    row("log", 6, Bool),
    row("annotations", 7, Text).many().opt(),
]);
static PORT_RANGE: Shape = shape(&[row("start", 1, Uint32), row("end", 2, Uint32)]);
static ICMP_INFO: Shape = shape(&[row("type", 1, Int32), row("code", 2, Int32)]);
static CACHED_DEPENDENCY: Shape = shape(&[
    row("name", 1, Text),
    row("from", 2, Text),
    row("to", 3, Text),
    row("cache_key", 4, Text),
    row("log_source", 5, Text),
    row("checksum_algorithm", 6, Text).opt(),
    row("checksum_value", 7, Text).opt(),
]);
static VOLUME_MOUNT: Shape = shape(&[
    row("driver", 1, Text),
    row("container_dir", 3, Text),
    row("mode", 6, Text),
    row("shared", 7, Message(&SHARED_DEVICE)),
    row("dedicated", 8, Message(&DEDICATED_DEVICE)).opt(),
]);
static SHARED_DEVICE: Shape = shape(&[row("volume_id", 1, Text), row("mount_config", 2, Text)]);
static DEDICATED_DEVICE: Shape =
    shape(&[row("mounter_id", 1, Text), row("mount_config", 2, Text), row("device_config", 3, Text)]);
static CHECK_DEFINITION: Shape = shape(&[
    row("checks", 1, Message(&CHECK)).many().opt(),
    row("log_source", 2, Text),
    row("readiness_checks", 3, Message(&CHECK)).many().opt(),
]);
static CHECK: Shape =
    shape(&[row("tcp_check", 1, Message(&TCP_CHECK)).opt(), row("http_check", 2, Message(&HTTP_CHECK)).opt()]);
static TCP_CHECK: Shape =
    shape(&[row("port", 1, Uint32), row("connect_timeout_ms", 2, Uint64).opt(), row("interval_ms", 3, Uint64).opt()]);
static HTTP_CHECK: Shape = shape(&[
    row("port", 1, Uint32),
    row("request_timeout_ms", 2, Uint64).opt(),
    row("path", 3, Text),
    row("interval_ms", 4, Uint64).opt(),
]);
static IMAGE_LAYER: Shape = shape(&[
    row("name", 1, Text).opt(),
    row("url", 2, Text),
    row("destination_path", 3, Text),
    row("layer_type", 4, Enum(&[("LayerTypeInvalid", 0), ("SHARED", 1), ("EXCLUSIVE", 2)])),
    row("media_type", 5, Enum(&[("MediaTypeInvalid", 0), ("TGZ", 1), ("TAR", 2), ("ZIP", 3)])),
    row("digest_algorithm", 6, Enum(&[("DigestAlgorithmInvalid", 0), ("SHA256", 1), ("SHA512", 2)])).opt(),
    row("digest_value", 7, Text).opt(),
]);
