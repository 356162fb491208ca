//! What runs on the cluster: the app under load, guests that come and go, and tasks that report their end.

use anyhow::Context as _;
use api::models::{DesiredLrp, TaskDefinition};
use serde_json::json;

pub(crate) const DOMAIN: &str = "suite";
/// The app under load.
pub(crate) const FRONT: &str = "front";
pub(crate) const FRONT_HOST: &str = "front.example";
/// What each of its answers contains.
pub(crate) const FRONT_MESSAGE: &str = "hello from the front";
const PORT: u16 = 8080;

/// An app of so many instances that answers at a host of its own.
pub(crate) fn app(binary: &str, guid: &str, host: &str, message: &str, instances: usize) -> anyhow::Result<DesiredLrp> {
    let definition = json!({
        "process_guid": guid, "domain": DOMAIN, "rootfs": "preloaded:cflinuxfs4", "instances": instances,
        "memory_mb": 64, "disk_mb": 64, "ports": [PORT], "log_guid": guid, "start_timeout_ms": 60_000,
        "env": [{ "name": "MESSAGE", "value": message }],
        "action": { "run": { "path": binary, "args": ["demo-app"], "user": "root" } },
        "check_definition": { "checks": [{ "http_check": { "port": PORT, "path": "/", "request_timeout_ms": 5_000 } }] },
        "routes": { "cf-router": [{ "hostnames": [host], "port": PORT }] },
        "metric_tags": { "source_id": { "static": guid } },
    });
    api::json::from_str(&definition.to_string()).context("the definition of an app")
}

/// Writes its result to a file and tells the URL.
pub(crate) fn task(callback: &str) -> anyhow::Result<TaskDefinition> {
    let definition = json!({
        "rootfs": "preloaded:cflinuxfs4", "memory_mb": 32, "disk_mb": 32, "log_guid": "task",
        "action": { "run": { "path": "/bin/sh", "args": ["-c", "printf done > result"], "user": "root" } },
        "result_file": "result", "completion_callback_url": callback,
    });
    api::json::from_str(&definition.to_string()).context("the definition of a task")
}
