//! What runs on the cluster: the app under load, guests that come and go, and tasks that report their end.

use anyhow::Context as _;
use api::models::{DesiredLrp, TaskDefinition};
use serde_json::json;

pub(crate) const DOMAIN: &str = "suite";
const PORT: u16 = 8080;

/// An app that answers at a host of its own.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) guid: String,
    pub(crate) instances: usize,
    /// How long it goes on answering when it is told to stop.
    pub(crate) linger: &'static str,
}

impl App {
    /// Has several instances and stops as an app should.
    pub(crate) fn front() -> Self {
        Self { guid: "front".into(), instances: INSTANCES, linger: "1s" }
    }

    /// Has one instance, which refuses connections from the moment on in which it is told to stop: whoever stops it before
    /// another one runs, or sends requests to it afterwards, is noticed.
    pub(crate) fn single() -> Self {
        Self { guid: "single".into(), instances: 1, linger: "0ms" }
    }

    pub(crate) fn guest(visit: usize, instances: usize) -> Self {
        Self { guid: format!("guest-{visit}"), instances, linger: "1s" }
    }

    pub(crate) fn host(&self) -> String {
        format!("{}.example", self.guid)
    }

    /// What each of its answers contains.
    pub(crate) fn message(&self) -> String {
        format!("hello from {}", self.guid)
    }
}

/// So many instances of the larger app under load are always desired, at least.
pub(crate) const INSTANCES: usize = 4;

pub(crate) fn definition(binary: &str, app: &App) -> anyhow::Result<DesiredLrp> {
    let (guid, host, App { instances, linger, .. }) = (&app.guid, app.host(), app);
    let definition = json!({
        "process_guid": guid, "domain": DOMAIN, "rootfs": "preloaded:cflinuxfs4", "instances": instances,
        "memory_mb": 64, "disk_mb": 64, "ports": [PORT], "log_guid": guid, "start_timeout_ms": 60_000,
        "env": [{ "name": "MESSAGE", "value": app.message() }, { "name": "LINGER", "value": linger }],
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
