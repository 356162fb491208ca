//! What runs on the cluster: the app under load, guests that come and go, and tasks that report their end.

use anyhow::Context as _;
use api::models::{DesiredLrp, TaskDefinition};
use serde_json::json;

pub(crate) const DOMAIN: &str = "suite";

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

/// What an update of an app changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Make {
    /// Stands at the end of each answer.
    pub(crate) mark: &'static str,
    pub(crate) port: u16,
    pub(crate) memory_mb: u32,
    /// What a shell runs; `$0` is the program of the app.
    pub(crate) command: &'static str,
}

impl Make {
    pub(crate) const FIRST: Self = Self { mark: "v1", port: 8080, memory_mb: 64, command: r#"exec "$0" demo-app"# };
    /// Everything differs.
    pub(crate) const SECOND: Self = Self {
        mark: "v2",
        port: 9090,
        memory_mb: 96,
        command: r#"GREETING=other; export GREETING; exec "$0" demo-app --port "$PORT""#,
    };
    pub(crate) const THIRD: Self = Self { mark: "v3", ..Self::FIRST };
    pub(crate) const FOURTH: Self = Self { mark: "v4", ..Self::SECOND };
    pub(crate) const CRASHING: Self = Self { mark: "crashing", port: 7070, memory_mb: 48, command: "exit 3" };
    /// Runs, and never answers.
    pub(crate) const SILENT: Self = Self { mark: "silent", command: "exec sleep 600", ..Self::CRASHING };
}

pub(crate) fn definition(binary: &str, app: &App, make: Make) -> anyhow::Result<DesiredLrp> {
    let (guid, host, App { instances, linger, .. }) = (&app.guid, app.host(), app);
    let Make { mark, port, memory_mb, command } = make;
    let message = format!("{} {mark}", app.message());
    let definition = json!({
        "process_guid": guid, "domain": DOMAIN, "rootfs": "preloaded:cflinuxfs4", "instances": instances,
        "memory_mb": memory_mb, "disk_mb": 64, "ports": [port], "log_guid": guid, "start_timeout_ms": 60_000,
        "env": [{ "name": "MESSAGE", "value": message }, { "name": "LINGER", "value": linger }],
        "action": { "run": { "path": "/bin/sh", "args": ["-c", command, binary], "user": "root" } },
        "check_definition": { "checks": [{ "http_check": { "port": port, "path": "/", "request_timeout_ms": 5_000 } }] },
        "routes": { "cf-router": [{ "hostnames": [host], "port": port }] },
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
