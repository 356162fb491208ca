//! The health port: up in every phase, for machines that probe and people who look.

use api::Route;

use crate::harness::{Server, until};
use crate::raw::{self, Reply};
use crate::samples;

async fn get(server: &Server, path: &str) -> Reply {
    raw::exchange(server.ready.health, &raw::request("GET", path, "", b"")).await.unwrap()
}

#[tokio::test]
async fn every_path_and_method_is_fine() {
    let server = Server::start().await;
    for path in ["/", "/ping", "/v1/ping", "/what/ever?x=y"] {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let reply = raw::exchange(server.ready.health, &raw::request(method, path, "", b"")).await.unwrap();
            assert_eq!((reply.status, reply.text()), (200, ""), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn status_tells_what_there_is() {
    let server = Server::start().await;
    let client = server.client();
    client.upsert_domain("d", 0).await.unwrap();
    client.desire_lrp(samples::lrp("p", 3)).await.unwrap();
    client.desire_task("t", "d", samples::task()).await.unwrap();
    let _stream = client.subscribe_to_task_events(Default::default()).await.unwrap();
    let reply = get(&server, "/status").await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let status: serde_json::Value = serde_json::from_str(reply.text()).unwrap();
    for (field, value) in [("product", "corkboard"), ("node", "node"), ("phase", "serving")] {
        assert_eq!(status[field], value, "{status}");
    }
    for field in ["version", "explanation", "cluster_id", "store"] {
        assert!(status[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {status}");
    }
    assert!(status["uptime_s"].is_i64() && status["data_version"].as_u64().unwrap() > 0, "{status}");
    let board = &status["board"];
    for (field, value) in [
        ("desired_lrps", 1),
        ("actual_lrps", 3),
        ("tasks", 1),
        ("cells", 0),
        ("event_subscribers", 1),
        ("quarantined", 0),
    ] {
        assert_eq!(board[field], value, "{field}: {status}");
    }
    assert_eq!(board["domains"], serde_json::json!(["d"]));
    let cluster = status["cluster_id"].clone();
    let server = server.restart().await;
    let status: serde_json::Value = serde_json::from_str(get(&server, "/status").await.text()).unwrap();
    assert_eq!(status["cluster_id"], cluster, "the store keeps its identity");
    assert!(status["records_loaded"].as_u64().unwrap() >= 6, "{status}");
}

/// The names of Diego's metrics, as ours.
const METRICS: &[&str] = &[
    "convergence_lrp_runs_total",
    "convergence_lrp_duration_seconds",
    "convergence_task_runs_total",
    "convergence_task_duration_seconds",
    "convergence_tasks_kicked_total",
    "convergence_tasks_pruned_total",
    "domain{domain=\"d\"}",
    "lrps_unclaimed",
    "lrps_claimed",
    "lrps_running",
    "lrps_crashed",
    "lrps_missing",
    "lrps_extra",
    "suspect_running_lrps",
    "suspect_claimed_lrps",
    "lrps_desired",
    "crashing_desired_lrps",
    "present_cells",
    "suspect_cells",
    "tasks_pending",
    "tasks_running",
    "tasks_completed",
    "tasks_resolving",
    "tasks_started_total{cell_id=\"c\"}",
    "tasks_failed_total{cell_id=\"c\"}",
    "tasks_succeeded_total{cell_id=\"c\"}",
    "connections",
    "event_subscribers",
    "quarantined_records",
    "data_version_current",
    "data_version_target",
    "migration_under_way",
    "migration_waits_for_operator",
    "migration_blocked",
    "migration_records_done",
    "migration_records",
    "migration_eta_seconds",
    "migration_last_progress_seconds",
    "migration_duration_seconds",
    "refused_connections_total",
    "panics_total",
];

fn value(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| {
        line.strip_prefix("corkboard_")
            .is_some_and(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))
    })?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test]
async fn metrics_have_the_names_that_operators_know() {
    let server = Server::with(|config| config.timing.converge_interval = std::time::Duration::from_millis(20)).await;
    let client = server.client();
    client.upsert_domain("d", 0).await.unwrap();
    client.desire_lrp(samples::lrp("p", 3)).await.unwrap();
    client.claim_actual_lrp("p", 0, samples::instance("a")).await.unwrap();
    client.start_actual_lrp(samples::start("p", 1, "b")).await.unwrap();
    for (guid, failed) in [("good", false), ("bad", true), ("runs", false)] {
        client.desire_task(guid, "d", samples::task()).await.unwrap();
        client.start_task(guid, "c").await.unwrap();
        let request = api::models::CompleteTaskRequest {
            task_guid: guid.into(),
            cell_id: "c".into(),
            failed,
            ..Default::default()
        };
        if guid != "runs" {
            client.complete_task(request).await.unwrap();
        }
    }
    let expected = [
        ("lrps_unclaimed", 1.0),
        ("lrps_claimed", 1.0),
        ("lrps_running", 1.0),
        ("lrps_desired", 3.0),
        ("tasks_running", 1.0),
        ("tasks_completed", 2.0),
        ("tasks_started_total{cell_id=\"c\"}", 3.0),
        ("tasks_failed_total{cell_id=\"c\"}", 1.0),
        ("tasks_succeeded_total{cell_id=\"c\"}", 1.0),
        ("domain{domain=\"d\"}", 1.0),
        ("requests_total{route=\"DesireDesiredLRP\"}", 1.0),
        ("requests_total{route=\"StartTask\"}", 3.0),
        ("request_latency_seconds_count{route=\"StartTask\"}", 3.0),
    ];
    // The passes count; their gauges follow what was written within an interval.
    until("the gauges show it", || async {
        let metrics = get(&server, "/metrics").await;
        expected.iter().all(|(name, number)| value(metrics.text(), name) == Some(*number))
    })
    .await;
    let reply = get(&server, "/metrics").await;
    assert_eq!(reply.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let metrics = reply.text();
    assert!(metrics.ends_with("# EOF\n"));
    for name in METRICS {
        assert!(value(metrics, name).is_some(), "{name} is missing in {metrics}");
    }
    for route in Route::ALL {
        let name = format!("request_latency_seconds_bucket{{le=\"0.001\",route=\"{}\"}}", route.name());
        let other = format!("request_latency_seconds_bucket{{route=\"{}\",le=\"0.001\"}}", route.name());
        assert!(value(metrics, &name).or(value(metrics, &other)).is_some(), "{route}");
    }
}
