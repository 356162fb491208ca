//! Migrations of a real server: from one data version to another while clients are served, and back.

use api::client::{OperatorError, Question};
use api::models::{DesiredLrp, DesiredLrpUpdate};
use bbs::config::{Config, Finalization, Mode, Start};
use serde_json::{Value, json};
use store::Version;

use crate::harness::{Server, Shown, Stopped, shown, until, verdict};
use crate::{raw, samples};

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
pub(crate) async fn operator(server: &Server, question: Question) -> (u16, Value) {
    match server.client().ask(&question).await {
        Ok(document) => (200, serde_json::from_slice(&document).unwrap()),
        Err(OperatorError::Refused { status, refusal }) => (status, serde_json::from_str(&refusal.document).unwrap()),
        Err(error) => panic!("{error:?}"),
    }
}

pub(crate) async fn post(server: &Server, path: &str, body: Value) -> (u16, Value) {
    operator(server, Question::post(&format!("/corkboard/v1/{path}"), &body)).await
}

pub(crate) async fn state(server: &Server) -> Value {
    operator(server, Question::get("/corkboard/v1/migration", &[])).await.1
}

pub(crate) async fn in_state(server: &Server, wanted: &str) {
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
        // Comes and goes while the copies are being compared.
        client.desire_lrp(samples::lrp("guest", 2)).await.unwrap();
        client.remove_desired_lrp("guest").await.unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_older_version_has_no_room_for_is_refused_until_the_migration_ends_and_named_before_a_rollback() {
    let server = Server::with(former).await;
    server.client().desire_lrp(samples::lrp("app", 1)).await.unwrap();
    let server = start_with(server.stop().await, |config| {
        config.newest = Version::LATEST;
        config.migration.start = Start::Manual;
    })
    .await;
    let update = || DesiredLrpUpdate {
        desired_lrp: Some(DesiredLrp { memory_mb: 512, ..samples::lrp("app", 1) }),
        update_identifier: Some("v2".into()),
        ..Default::default()
    };
    let refused = verdict(server.client().update_desired_lrp("app", update()).await);
    for part in ["ResourceConflict", "1794700800 (lrp_definitions)", "corkboard migrate finalize"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(post(&server, "migration/start", json!({})).await.0, 200);
    in_state(&server, "none").await;
    server.client().update_desired_lrp("app", update()).await.unwrap();
    let back = json!({"to": FORMER.number().0});
    let (status, answer) = post(&server, "migration/rollback", back).await;
    assert_eq!((status, answer["code"].as_str()), (409, Some("loss-refused")), "{answer}");
    assert_eq!(answer["losses"][0]["id"], "DesiredLRP app", "{answer}");
    let accepted = json!({"to": FORMER.number().0, "accept_loss": true});
    assert_eq!(post(&server, "migration/rollback", accepted).await.0, 200);
    let server = start_with(server.ended().await, former).await;
    assert_eq!(server.client().desired_lrps(Default::default()).await.unwrap()[0].memory_mb, 512);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_closes_the_door_says_why_and_how_far_it_is() {
    for (mode, reads) in [(Mode::ReadOnly, true), (Mode::Offline, false)] {
        let server = Server::with(former).await;
        fill(&server).await;
        let server = start_with(server.stop().await, |config| {
            config.newest = Version::LATEST;
            config.migration.mode = mode;
            config.migration.finalization = Finalization::Manual;
        })
        .await;
        in_state(&server, "ready").await;
        assert_eq!(post(&server, "migration/abort", json!({})).await.0, 200);
        in_state(&server, "held").await;
        // Paused before it begins, so that it stays where it can be looked at.
        let server = start_with(server.stop().await, |config| config.migration.records_per_s_max = 40).await;
        assert_eq!(post(&server, "migration/start", json!({})).await.0, 200);
        let server = server.restart().await;
        let body = api::encode(api::models::UpsertDomainRequest { domain: "d".into(), ttl: 0 });
        let write = raw::post(server.ready.api, "/v1/domains/upsert", &body).await;
        assert_eq!(write.status, 503, "{mode:?}");
        assert_eq!(write.header("x-corkboard-phase"), Some("migrating"));
        assert_eq!(write.header("retry-after"), Some("1"));
        assert_eq!(write.header("content-type"), Some("application/json"));
        let said: Value = serde_json::from_slice(&write.body).unwrap();
        assert_eq!(said["phase"], "migrating", "{said}");
        assert!(said["total"].as_u64().unwrap() > 0 && said["eta_s"].is_u64() && said["done"].is_u64(), "{said}");
        let read = raw::post(server.ready.api, "/v1/domains/list", &[]).await;
        assert_eq!(read.status, if reads { 200 } else { 503 }, "{mode:?}");
        assert_eq!(post(&server, "migration/abort", json!({})).await.0, 200);
        until("writes are taken", || async { server.client().upsert_domain("d", 0).await.is_ok() }).await;
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_of_operators_are_refused_in_words_and_change_nothing() {
    let server = Server::start().await;
    let check = async |question: Question, status: u16, code: &str| {
        let (found, answer) = operator(&server, question).await;
        assert_eq!((found, answer["code"].as_str()), (status, Some(code)), "{answer}");
        assert!(!answer["message"].as_str().unwrap().is_empty());
    };
    let get = |path: &str| Question::get(&format!("/corkboard/v1/{path}"), &[]);
    let ask = |path: &str, body: Value| Question::post(&format!("/corkboard/v1/{path}"), &body);
    check(get("nothing"), 404, "no-such-path").await;
    check(ask("migration/frobnicate", json!({})), 404, "no-such-path").await;
    check(ask("migration/start", json!({"extra": 1})), 400, "bad-request").await;
    check(ask("migration/finalize", json!({"version": "seven"})), 400, "bad-request").await;
    check(ask("migration/finalize", json!({"version": 7})), 409, "nothing-to-do").await;
    check(ask("migration/rollback", json!({"to": 7})), 400, "unknown-version").await;
    check(ask("migration/rollback", json!({"to": Version::LATEST.number().0})), 409, "nothing-to-do").await;
    check(ask("quarantine/retry", json!({})), 400, "bad-request").await;
    check(Question::get("/corkboard/v1/migration/plan", &[("to", "x")]), 400, "bad-request").await;
    check(get("migration/plan"), 409, "nothing-to-do").await;
    check(ask("store/confirm", json!({"cluster_id": "x"})), 409, "nothing-to-do").await;
    assert_eq!(state(&server).await["state"], "none");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rehearsal_goes_over_every_record_and_writes_nothing() {
    for version in Version::ALL.iter().copied().filter(|version| *version < Version::LATEST) {
        let server = Server::with(|config| config.newest = version).await;
        fill(&server).await;
        let server = start_with(server.stop().await, |config| {
            config.newest = Version::LATEST;
            config.migration.start = Start::Manual;
        })
        .await;
        let before = server.revision().await;
        let (_, plan) = operator(&server, Question::get("/corkboard/v1/migration/plan", &[])).await;
        assert_eq!(plan["entities"], 20 + 40 + 20 + 1, "{plan}");
        assert_eq!((&plan["lossless"], &plan["failures"]), (&json!(true), &json!([])), "{plan}");
        assert!(plan["bytes_after"].as_u64().unwrap() > 1000, "{plan}");
        assert_eq!(server.revision().await, before, "nothing was written");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_goes_through_all_versions_in_one_pass_and_back() {
    let oldest = Version::EARLIEST;
    let server = Server::with(|config| config.newest = oldest).await;
    let before = fill(&server).await;
    let server = start_with(server.stop().await, |config| config.newest = Version::LATEST).await;
    in_state(&server, "none").await;
    assert_eq!(shown(&server.client()).await, before);
    assert_eq!(post(&server, "migration/rollback", json!({"to": oldest.number().0})).await.0, 200);
    let server = start_with(server.ended().await, |config| config.newest = oldest).await;
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_store_is_served_but_nothing_is_stopped_on_its_word_until_it_is_confirmed() {
    let interval = std::time::Duration::from_millis(20);
    let server = Server::with(|config| config.timing.converge_interval = interval).await;
    fill(&server).await;
    // A node notes at its start that its store holds data.
    let stopped = server.restart().await.stop().await;
    std::fs::remove_dir_all(stopped.store_dir()).unwrap();
    let server = stopped.start().await;
    let guard = async || operator(&server, Question::get("/corkboard/v1/status", &[])).await.1["store_guard"].clone();
    let found = guard().await;
    assert_eq!(found["state"], "wiped", "{found}");
    let client = server.client();
    // A cell reports what it runs; the domain is declared complete; nobody desires it in this store.
    client.start_actual_lrp(samples::start("app-1", 0, "a")).await.unwrap();
    client.upsert_domain(samples::DOMAIN, 0).await.unwrap();
    let passes = async || server.metric("convergence_lrp_runs_total").await;
    let (now, rows) = (passes().await, async || client.actual_lrps(Default::default()).await.unwrap().len());
    until("a few passes", || async { passes().await > now + 3.0 }).await;
    assert_eq!(rows().await, 1, "nothing was stopped");
    assert_eq!(post(&server, "store/confirm", json!({"cluster_id": "other"})).await.0, 409);
    let id = json!({"cluster_id": found["found_cluster_id"]});
    assert_eq!(post(&server, "store/confirm", id).await.0, 200);
    assert_eq!(guard().await["state"], "ok");
    server.stop().await;
}
