//! Records that cannot be read, in every data version: the server goes on, and nothing but an operator makes them disappear.

use api::client::Question;
use serde_json::json;
use store::embedded::{Embedded, Options};
use store::{EntityRef, Step, Store, Version, versions};

use crate::harness::{Server, Stopped, until};
use crate::migration::{in_state, operator, post, state};
use crate::samples;

const POISON: &[u8] = b"0003not a record";

/// The key of the (first) record of a task, in one version.
fn key_of_task(version: Version, guid: &str) -> String {
    let task = model::Task::desire(
        model::TaskGuid::parse(guid).unwrap(),
        model::DomainName::parse("d").unwrap(),
        api::convert::task_definition(&samples::task()),
        0,
    );
    versions::records(version, EntityRef::Task(&task)).0.remove(0).0
}

/// Changes the store while no server runs on it.
async fn tamper(stopped: &Stopped, change: impl FnOnce(&mut Step)) {
    let store = Embedded::open(stopped.store_dir(), Options::default()).unwrap();
    let held = store.campaign("vandal").await.unwrap();
    let mut step = Step::default();
    change(&mut step);
    store.commit(&held, &[step]).await.unwrap();
    store.resign(held).await.unwrap();
}

async fn ids(server: &Server) -> Vec<String> {
    let (_, list) = operator(server, Question::get("/corkboard/v1/quarantine", &[])).await;
    list["records"].as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poisoned_record_of_any_version_is_kept_through_a_migration_and_blocks_cleaning_up() {
    for version in Version::ALL.iter().copied().filter(|version| *version < Version::LATEST) {
        let server = Server::with(|config| config.newest = version).await;
        for at in 0..3 {
            server.client().desire_task(&format!("t{at}"), "d", samples::task()).await.unwrap();
        }
        let (stopped, key) = (server.stop().await, key_of_task(version, "t1"));
        tamper(&stopped, |step| step.put(key.clone(), POISON)).await;

        let server = stopped.changed(|config| config.newest = Version::LATEST).start().await;
        in_state(&server, "blocked").await;
        let found = ids(&server).await;
        assert!(matches!(&found[..], [id] if id.starts_with("/quarantine/") && id.ends_with(&key)), "{found:?}");
        let status = state(&server).await;
        assert_eq!(status["blockers"][0]["command"], "corkboard quarantine list", "{status}");
        assert_eq!(status["leftover_roots"][0]["number"], version.number().0);
        let tasks = server.client().tasks(Default::default()).await.unwrap();
        assert_eq!(tasks.len(), 2, "{}: the others are served", version.name());

        let server = server.restart().await;
        assert_eq!(ids(&server).await, found, "it outlives a restart");
        let export = Question::get("/corkboard/v1/quarantine/record", &[("id", &found[0])]);
        assert_eq!(server.client().ask(&export).await.unwrap(), POISON);
        let (status, answer) = post(&server, "quarantine/retry", json!({"all": true})).await;
        assert_eq!((status, answer["still"][0]["id"].as_str()), (200, Some(&*found[0])), "{answer}");
        assert_eq!(post(&server, "quarantine/discard", json!({"id": "/v1/task/other"})).await.0, 404);
        assert_eq!(post(&server, "quarantine/discard", json!({"id": found[0]})).await.0, 200);
        in_state(&server, "none").await;
        assert_eq!(ids(&server).await, Vec::<String>::new());
        assert_eq!(state(&server).await["leftover_roots"], json!([]));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_the_place_of_a_poisoned_record_does_not_destroy_it() {
    let server = Server::start().await;
    server.client().desire_task("t", "d", samples::task()).await.unwrap();
    let (stopped, key) = (server.stop().await, key_of_task(Version::LATEST, "t"));
    tamper(&stopped, |step| step.put(key.clone(), POISON)).await;
    let server = stopped.start().await;
    assert_eq!(ids(&server).await, [&*key]);
    server.client().desire_task("t", "d", samples::task()).await.unwrap();
    let found = ids(&server).await;
    assert!(matches!(&found[..], [id] if id.starts_with("/quarantine/") && id.ends_with(&key)), "{found:?}");
    let server = server.restart().await;
    assert_eq!(server.client().task_by_guid("t").await.unwrap().task_guid, "t");
    let export = Question::get("/corkboard/v1/quarantine/record", &[("id", &found[0])]);
    assert_eq!(server.client().ask(&export).await.unwrap(), POISON);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_can_be_read_again_comes_back() {
    let server = Server::start().await;
    server.client().desire_task("t", "d", samples::task()).await.unwrap();
    let (stopped, key) = (server.stop().await, key_of_task(Version::LATEST, "t"));
    let good = {
        let store = Embedded::open(stopped.store_dir(), Options::default()).unwrap();
        store.get(&key).await.unwrap().unwrap()
    };
    // As a release would leave it that could not read it.
    let aside = format!("/quarantine/{:020}{key}", 7);
    tamper(&stopped, |step| {
        step.delete(key.clone());
        step.put(aside.clone(), good);
    })
    .await;
    let server = stopped.start().await;
    assert!(server.client().task_by_guid("t").await.is_err());
    let (status, answer) = post(&server, "quarantine/retry", json!({"id": aside})).await;
    assert_eq!((status, &answer["recovered"]), (200, &json!([aside])), "{answer}");
    assert_eq!(server.client().task_by_guid("t").await.unwrap().task_guid, "t");
    let server = server.restart().await;
    assert_eq!(server.client().task_by_guid("t").await.unwrap().task_guid, "t");
    assert_eq!(ids(&server).await, Vec::<String>::new());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_of_a_process_that_cannot_be_read_are_not_stopped() {
    let server = Server::start().await;
    let client = server.client();
    client.desire_lrp(samples::lrp("poisoned", 2)).await.unwrap();
    client.desire_lrp(samples::lrp("gone", 2)).await.unwrap();
    let stopped = server.stop().await;
    let root = Version::LATEST.root();
    tamper(&stopped, |step| {
        step.put(format!("{root}desired/schedule/poisoned"), POISON);
        step.delete(format!("{root}desired/schedule/gone"));
        step.delete(format!("{root}desired/definition/gone/0000000001"));
    })
    .await;
    let interval = std::time::Duration::from_millis(20);
    let server = stopped.changed(|config| config.timing.converge_interval = interval).start().await;
    let client = server.client();
    client.upsert_domain(samples::DOMAIN, 0).await.unwrap();
    let rows = async |guid: &str| {
        let all = client.actual_lrps(Default::default()).await.unwrap();
        all.iter().filter(|row| row.actual_lrp_key.as_ref().unwrap().process_guid == guid).count()
    };
    until("what is not wanted goes", || async { rows("gone").await == 0 }).await;
    assert_eq!(rows("poisoned").await, 2, "what cannot be read may be wanted");
    server.stop().await;
}
