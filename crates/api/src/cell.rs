//! What a cell is asked and answers beyond state and work, in JSON: new routes for an instance, and what containers use.
//!
//! Keys are Diego's. As in [`crate::rep`], `null` is the zero value of anything and unknown keys are ignored.

pub mod logs;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// GET of [`ContainerMetrics`].
pub const CONTAINER_METRICS_PATH: &str = "/container_metrics";
/// POST at a cell that is only played; a real one refuses it.
pub const RESET_PATH: &str = "/sim/reset";
/// GET at the admin port: whether the cell is there.
pub const PING_PATH: &str = "/ping";
/// POST at the admin port: hand everything over, then end.
pub const EVACUATE_PATH: &str = "/evacuate";
/// GET at the admin port: how far that is. Ours; Diego's cells do not have it.
pub const EVACUATION_PATH: &str = "/evacuation";
/// The answer to [`EVACUATE_PATH`]: where to ask until nobody answers.
pub const EVACUATE_ANSWER: &str = r#"{"ping_path":"/ping"}"#;

/// New internal routes or metric tags of an instance that runs. A part that is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LrpUpdate {
    pub instance_guid: Option<String>,
    pub process_guid: Option<String>,
    pub internal_routes: Option<Vec<InternalRoute>>,
    pub metric_tags: Option<BTreeMap<String, String>>,
}

/// A name under which other containers reach an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InternalRoute {
    pub hostname: String,
}

/// The host names in the `internal-router` routes of a desired LRP. What is not a list of them has none.
pub fn internal_hostnames(routes: &[u8]) -> Vec<String> {
    let routes: Option<Vec<InternalRoute>> = serde_json::from_slice(routes).unwrap_or_default();
    routes.unwrap_or_default().into_iter().map(|route| route.hostname).collect()
}

/// What all containers of a cell use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ContainerMetrics {
    pub cell_id: String,
    pub lrps: Vec<LrpMetrics>,
    pub tasks: Vec<TaskMetrics>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LrpMetrics {
    pub instance_guid: String,
    pub process_guid: String,
    pub index: i32,
    #[serde(flatten)]
    pub metrics: Metrics,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskMetrics {
    pub task_guid: String,
    #[serde(flatten)]
    pub metrics: Metrics,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    pub metric_guid: String,
    pub cpu_usage_fraction: f64,
    pub disk_usage_bytes: u64,
    pub disk_quota_bytes: u64,
    pub memory_usage_bytes: u64,
    pub memory_quota_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_bytes: Option<u64>,
}

/// How far an evacuation is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvacuationProgress {
    pub evacuating: bool,
    /// Nanoseconds since the Unix epoch; `null` while there is no evacuation.
    pub since_ns: Option<i64>,
    /// Until the cell ends whatever is left.
    pub seconds_left: Option<u64>,
    /// Instances by state: `starting`, `running`, `completed`.
    pub lrps: BTreeMap<String, usize>,
    pub tasks: BTreeMap<String, usize>,
    /// Since when the state server does not answer, if it does not. Nothing that runs is ended meanwhile.
    pub state_server_silent_since_ns: Option<i64>,
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn an_update_tells_what_stays_from_what_is_taken_away() {
        let read = |text: &str| -> LrpUpdate { serde_json::from_str(text).unwrap() };
        let update = read(
            r#"{"instance_guid":"ig-0","process_guid":"pg-1","index":0,"internal_routes":[{"hostname":"a.internal"}],"metric_tags":null}"#,
        );
        assert_eq!(update.internal_routes, Some(vec![InternalRoute { hostname: "a.internal".into() }]));
        assert_eq!(update.metric_tags, None);
        assert_eq!(read(r#"{"internal_routes":[]}"#).internal_routes, Some(Vec::new()));
        assert!(serde_json::from_str::<LrpUpdate>("[1").is_err());
    }

    #[test]
    fn routes_that_are_no_routes_are_none() {
        assert_eq!(internal_hostnames(br#"[{"hostname":"a"},{"hostname":"b","x":1}]"#), ["a", "b"]);
        for text in ["null", "", "7", r#"{"hostname":"a"}"#] {
            assert!(internal_hostnames(text.as_bytes()).is_empty(), "{text}");
        }
    }

    #[test]
    fn metrics_are_flat() {
        let metrics = Metrics { metric_guid: "g".into(), cpu_usage_fraction: 0.5, ..Default::default() };
        let lrps = vec![LrpMetrics { instance_guid: "ig".into(), process_guid: "pg".into(), index: 1, metrics }];
        let all = ContainerMetrics { cell_id: "cell".into(), lrps, tasks: Vec::new() };
        expect![[r#"{"cell_id":"cell","lrps":[{"instance_guid":"ig","process_guid":"pg","index":1,"metric_guid":"g","cpu_usage_fraction":0.5,"disk_usage_bytes":0,"disk_quota_bytes":0,"memory_usage_bytes":0,"memory_quota_bytes":0}],"tasks":[]}"#]]
            .assert_eq(&serde_json::to_string(&all).unwrap());
    }
}
