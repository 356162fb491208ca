//! Migrations of a real server: from one data version to another while clients are served, and back.

use api::client::{OperatorError, Question};
use api::models::DesiredLrpUpdate;
use bbs::config::{Config, Finalization, Mode, Start};
use serde_json::{Value, json};
use store::Version;

use crate::harness::{Server, Shown, Stopped, shown, until};
use crate::samples;

const FORMER: Version = Version::ALL[Version::ALL.len() - 2];

/// A server of an older release.
fn former(config: &mut Config) {
    config.newest = FORMER;
}

/// Some records of every kind.
async fn fill(server: &Server) -> Shown {
    let client = server.client();
    client.upsert_domain("apps", 0).await.unwrap();
    for at in 0..20 {
        client.desire_lrp(samples::lrp(&format!("app-{at}"), 2)).await.unwrap();
        client.desire_task(&format!("task-{at}"), "apps", samples::task()).await.unwrap();
    }
    shown(&client).await
}

/// The status and the document of an answer of the operator's API.
async fn operator(server: &Server, question: Question) -> (u16, Value) {
    match server.client().ask(&question).await {
        Ok(document) => (200, serde_json::from_slice(&document).unwrap()),
        Err(OperatorError::Refused { status, refusal }) => (status, serde_json::from_str(&refusal.document).unwrap()),
        Err(error) => panic!("{error:?}"),
    }
}

async fn post(server: &Server, path: &str, body: Value) -> (u16, Value) {
    operator(server, Question::post(&format!("/corkboard/v1/{path}"), &body)).await
}

async fn state(server: &Server) -> Value {
    operator(server, Question::get("/corkboard/v1/migration", &[])).await.1
}

async fn in_state(server: &Server, wanted: &str) {
    until(wanted, || async { state(server).await["state"] == wanted }).await;
}

async fn start_with(stopped: Stopped, change: impl FnOnce(&mut Config)) -> Server {
    stopped.changed(change).start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_store_is_served_at_once_and_migrated_behind_the_scenes() {
    for mode in [Mode::Online, Mode::ReadOnly, Mode::Offline] {
        let server = Server::with(former).await;
        let before = fill(&server).await;
        let server = start_with(server.stop().await, |config| {
            config.newest = Version::LATEST;
            config.migration.mode = mode;
        })
        .await;
        in_state(&server, "none").await;
        assert_eq!(shown(&server.client()).await, before, "{mode:?}");
        assert_eq!(state(&server).await["current"]["number"], Version::LATEST.number().0);
        assert_eq!(state(&server).await["leftover_roots"], json!([]));
        let server = server.restart().await;
        assert_eq!(shown(&server.client()).await, before, "{mode:?} after a restart");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_finalization_the_former_release_takes_over_with_nothing_lost() {
    let server = Server::with(former).await;
    fill(&server).await;
    let server = start_with(server.stop().await, |config| {
        config.newest = Version::LATEST;
        config.migration.finalization = Finalization::Manual;
    })
    .await;
    in_state(&server, "ready").await;
    let client = server.client();
    client.desire_lrp(samples::lrp("later", 3)).await.unwrap();
    client.remove_desired_lrp("app-3").await.unwrap();
    let before = shown(&client).await;
    let server = start_with(server.stop().await, former).await;
    assert_eq!(shown(&server.client()).await, before);
    let server = start_with(server.stop().await, |config| {
        config.newest = Version::LATEST;
        config.migration.finalization = Finalization::Auto;
    })
    .await;
    in_state(&server, "none").await;
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_rolls_back_and_stops_and_the_former_release_finds_everything() {
    let server = Server::start().await;
    let before = fill(&server).await;
    let (status, answer) = post(&server, "migration/rollback", json!({"to": FORMER.number().0})).await;
    assert_eq!(status, 200, "{answer}");
    let server = start_with(server.ended().await, former).await;
    assert_eq!(shown(&server.client()).await, before);
    assert_eq!(state(&server).await["state"], "none");
    // The newer release does not undo it by itself.
    let server = start_with(server.stop().await, |config| config.newest = Version::LATEST).await;
    assert_eq!(state(&server).await["state"], "held");
    assert_eq!(post(&server, "migration/start", json!({})).await.0, 200);
    in_state(&server, "none").await;
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_drains_rolls_back_first() {
    let server = Server::with(|config| config.rollback_on_drain_to = Some(FORMER.number().0)).await;
    let before = fill(&server).await;
    let server = start_with(server.stop().await, |config| {
        former(config);
        config.rollback_on_drain_to = None;
    })
    .await;
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_migration_waits_for_the_operator_and_an_aborted_one_leaves_nothing_behind() {
    let server = Server::with(former).await;
    let before = fill(&server).await;
    let server = start_with(server.stop().await, |config| {
        config.newest = Version::LATEST;
        config.migration.start = Start::Manual;
        config.migration.finalization = Finalization::Manual;
    })
    .await;
    assert_eq!(state(&server).await["state"], "held");
    assert_eq!(post(&server, "migration/abort", json!({})).await.0, 409);
    assert_eq!(post(&server, "migration/start", json!({})).await.0, 200);
    in_state(&server, "ready").await;
    assert_eq!(post(&server, "migration/finalize", json!({"version": 7})).await.1["code"], "wrong-version");
    assert_eq!(post(&server, "migration/abort", json!({})).await.0, 200);
    in_state(&server, "held").await;
    let server = server.restart().await;
    assert_eq!(state(&server).await["state"], "held", "an abort outlives a restart");
    assert_eq!(shown(&server.client()).await, before);
    assert_eq!(post(&server, "migration/start", json!({})).await.0, 200);
    in_state(&server, "ready").await;
    let version = json!({"version": Version::LATEST.number().0});
    assert_eq!(post(&server, "migration/finalize", version).await.0, 200);
    in_state(&server, "none").await;
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}

/// Clients change what the sweep has copied, what it is about to copy, and what it has yet to come to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_during_the_sweep_is_in_both_forms() {
    const APPS: usize = 600;
    let server = Server::with(former).await;
    let client = server.client();
    for at in 0..APPS {
        client.desire_lrp(samples::lrp(&format!("app-{at:04}"), 2)).await.unwrap();
    }
    let server = start_with(server.stop().await, |config| {
        config.newest = Version::LATEST;
        config.migration.finalization = Finalization::Manual;
        // Slow enough that every change meets the sweep somewhere.
        config.migration.records_per_s_max = 2000;
    })
    .await;
    let client = server.client();
    let mut changes = 0;
    while state(&server).await["state"] != "ready" {
        let guid = format!("app-{:04}", changes * 7 % APPS);
        let update = DesiredLrpUpdate { annotation: Some(format!("change {changes}")), ..Default::default() };
        let known = client.update_desired_lrp(&guid, update).await.is_ok();
        if known && changes % 3 == 0 {
            client.claim_actual_lrp(&guid, 0, samples::instance(&format!("i-{changes}"))).await.unwrap_or_default();
        }
        if changes % 11 == 0 {
            client.remove_desired_lrp(&guid).await.unwrap_or_default();
        }
        client.desire_lrp(samples::lrp(&format!("new-{changes}"), 1)).await.unwrap();
        changes += 1;
    }
    assert!(changes > 50, "the sweep met too few changes: {changes}");
    let before = shown(&client).await;
    assert_eq!(post(&server, "migration/finalize", json!({"version": Version::LATEST.number().0})).await.0, 200);
    in_state(&server, "none").await;
    let server = server.restart().await;
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}
