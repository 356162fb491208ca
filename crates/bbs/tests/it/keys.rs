//! Encryption at rest of a real server: from no key to the first, from one key to the next, and what operators and clients
//! notice of it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use api::client::Question;
use api::models::DesiredLrpUpdate;
use bbs::RunError;
use bbs::config::{Config, Encryption, KeySource, Rotation, RotationMode};
use bytes::Bytes;
use serde_json::{Value, json};
use store::embedded::{Embedded, Options};
use store::seal::envelope::key_name;
use store::seal::{KeyName, Keyring, Place, Secret, Stamp};
use store::{Step, Store};
use tokio::net::TcpStream;

use crate::harness::{Server, Shown, Stopped, shown, until};
use crate::migration::{operator, post};
use crate::{raw, samples};

/// One key per letter; the first is active.
fn ring(keys: &str) -> Arc<Keyring> {
    let name = |key: char| KeyName::parse(&key.to_string()).unwrap();
    let secret = |key: char| Secret::new(format!("the bytes of {key}").into_bytes());
    let active = name(keys.chars().next().unwrap());
    Arc::new(Keyring::new(keys.chars().map(|key| (name(key), secret(key))).collect(), &active).unwrap())
}

/// What is written in the configuration file, as a running server reads it again.
#[derive(Clone)]
struct File(Arc<Mutex<Result<&'static str, String>>>);

impl File {
    fn with(keys: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Ok(keys))))
    }

    fn write(&self, keys: Result<&'static str, String>) {
        *self.0.lock().unwrap() = keys;
    }

    fn encryption(&self, rotation: Rotation) -> Encryption {
        let file = self.0.clone();
        let source = KeySource::new(move || file.lock().unwrap().clone().map(ring));
        Encryption { keyring: source.read().unwrap(), rotation, source }
    }
}

fn encrypt(config: &mut Config, keys: &'static str) {
    config.encryption = Some(File::with(keys).encryption(Rotation::default()));
}

async fn keys(server: &Server) -> Value {
    operator(server, Question::get("/corkboard/v1/keys", &[])).await.1
}

async fn in_state(server: &Server, wanted: &str) {
    until(wanted, || async { keys(server).await["state"] == wanted }).await;
}

/// The line of one key in the document.
fn line<'a>(keys: &'a Value, name: &str) -> &'a Value {
    keys["keys"].as_array().unwrap().iter().find(|key| key["name"] == name).unwrap()
}

async fn fill(server: &Server, tasks: usize) -> Shown {
    let client = server.client();
    client.upsert_domain("d", 0).await.unwrap();
    for at in 0..3 {
        client.desire_lrp(samples::lrp(&format!("app-{at}"), 2)).await.unwrap();
    }
    for at in 0..tasks {
        client.desire_task(&format!("task-{at:04}"), "d", samples::task()).await.unwrap();
    }
    shown(&client).await
}

/// Everything that lies in the store of a server that is stopped, as it lies there.
async fn bytes_of(stopped: &Stopped) -> BTreeMap<String, Bytes> {
    let store = Embedded::open(stopped.store_dir(), Options::default()).unwrap();
    let mut found = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.scan("", after.as_deref(), 1000).await.unwrap();
        found.extend(page.records);
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

/// Under which keys the records are.
fn census(bytes: &BTreeMap<String, Bytes>) -> BTreeMap<&str, usize> {
    let mut counted = BTreeMap::new();
    for (_, value) in bytes.iter().filter(|(key, _)| Place::of(key).is_some()) {
        *counted.entry(key_name(value).unwrap_or("none")).or_default() += 1;
    }
    counted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_key_says_so_everywhere() {
    let server = Server::start().await;
    let document = keys(&server).await;
    assert_eq!((&document["state"], &document["active"]), (&json!("off"), &Value::Null), "{document}");
    assert_eq!(document["warnings"], json!(["records are not encrypted at rest"]));
    let (_, status) = operator(&server, Question::get("/corkboard/v1/status", &[])).await;
    assert_eq!(status["encryption"]["state"], "off", "{status}");
    for what in ["rotate", "verify"] {
        let (status, answer) = post(&server, &format!("keys/{what}"), json!({})).await;
        assert_eq!((status, answer["code"].as_str()), (409, Some("encryption-off")), "{answer}");
    }
    assert_eq!(post(&server, "keys/forget", json!({})).await.0, 404);
    assert_eq!(post(&server, "keys/rotate", json!({"extra": 1})).await.0, 400);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_store_is_encrypted_and_nothing_of_it_is_left_to_read() {
    let server = Server::start().await;
    let before = fill(&server, 50).await;
    let stopped = server.stop().await;
    let plain = bytes_of(&stopped).await;
    let records = census(&plain)["none"];
    let server = stopped.changed(|config| encrypt(config, "A")).start().await;
    in_state(&server, "settled").await;
    assert_eq!(shown(&server.client()).await, before);
    let document = keys(&server).await;
    assert_eq!((&document["active"], &document["marker"]), (&json!("A"), &json!("A")), "{document}");
    assert_eq!((&document["records"], &document["plain_records"]), (&json!(records), &json!(0)), "{document}");
    let line = line(&document, "A");
    let told = (&line["records"], &line["writes"], &line["needed"], &line["safe_to_remove"]);
    assert_eq!(told, (&json!(records), &json!(records), &json!(true), &json!(false)), "{document}");
    for (name, value) in [
        ("encryption_records{key=\"A\"}", records as f64),
        ("encryption_writes{key=\"A\"}", records as f64),
        ("encryption_key_needed{key=\"A\"}", 1.0),
        ("encryption_plain_records", 0.0),
        ("encryption_rotating", 0.0),
        ("encryption_blocked", 0.0),
    ] {
        assert_eq!(server.metric(name).await, value, "{name}");
    }
    let stopped = server.stop().await;
    let sealed = bytes_of(&stopped).await;
    assert_eq!(census(&sealed), [("A", records)].into());
    let shows = |value: &Bytes| value.windows(b"/bin/server".len()).any(|window| window == b"/bin/server");
    assert!(plain.values().any(shows) && !sealed.values().any(shows), "what a record holds shows in its bytes");
    let server = stopped.start().await;
    assert_eq!(keys(&server).await["state"], "settled", "a restart has nothing to do");
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}

/// Slow enough that clients meet the sweep everywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_server_goes_to_another_key_while_clients_write() {
    const TASKS: usize = 900;
    let file = File::with("A");
    let rotation = Rotation { records_per_s_max: 900, ..Rotation::default() };
    let server = Server::with(|config| config.encryption = Some(file.encryption(rotation))).await;
    fill(&server, TASKS).await;
    let (_, answer) = post(&server, "keys/rotate", json!({})).await;
    assert_eq!(answer["message"], "all records are under key A already; there is nothing to do", "{answer}");

    file.write(Err("line 3: that is no key".into()));
    let (status, answer) = post(&server, "keys/rotate", json!({})).await;
    assert_eq!((status, answer["code"].as_str()), (409, Some("bad-keys")), "{answer}");
    file.write(Ok("B"));
    let (status, answer) = post(&server, "keys/rotate", json!({})).await;
    assert_eq!((status, answer["code"].as_str()), (409, Some("key-missing")), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("sealed with key A"), "{answer}");
    assert_eq!(keys(&server).await["state"], "settled");

    file.write(Ok("BA"));
    let (status, answer) = post(&server, "keys/rotate", json!({})).await;
    assert_eq!((status, answer["keys"]["active"].as_str()), (200, Some("B")), "{answer}");
    let (status, answer) = post(&server, "keys/verify", json!({})).await;
    assert_eq!((status, answer["code"].as_str()), (409, Some("rotating")), "{answer}");
    let client = server.client();
    let mut changes = 0;
    loop {
        let document = keys(&server).await;
        if document["state"] == "settled" {
            break;
        }
        assert_eq!(document["marker"], Value::Null, "{document}");
        assert_eq!(line(&document, "A")["safe_to_remove"], false, "{document}");
        // Nothing is refused meanwhile, and no answer is a 503.
        let annotation = Some(format!("change {changes}"));
        client.update_desired_lrp("app-1", DesiredLrpUpdate { annotation, ..Default::default() }).await.unwrap();
        client.desire_task(&format!("guest-{changes}"), "d", samples::task()).await.unwrap();
        if changes < TASKS {
            // Spread over all of them, and none twice.
            client.cancel_task(&format!("task-{:04}", changes * 7 % TASKS)).await.unwrap();
        }
        changes += 1;
    }
    assert!(changes > 10, "the sweep met too few changes: {changes}");
    let document = keys(&server).await;
    assert_eq!((&document["marker"], &document["blocked"]), (&json!("B"), &json!([])), "{document}");
    assert_eq!(line(&document, "A")["verdict"], "A: 0 records, safe to remove");
    assert_eq!(server.metric("encryption_key_needed{key=\"A\"}").await, 0.0);
    assert!(server.metric("encryption_duration_seconds").await > 0.0);

    assert_eq!(post(&server, "keys/verify", json!({})).await.0, 200);
    until("every record is opened", || async { !keys(&server).await["verification"].is_null() }).await;
    let document = keys(&server).await;
    let found = &document["verification"];
    assert_eq!((&found["broken_total"], &found["records"]), (&json!(0), &document["records"]), "{document}");

    let (_, history) = operator(&server, Question::get("/corkboard/v1/history", &[])).await;
    let told: Vec<&Value> = history["entries"].as_array().unwrap().iter().map(|entry| &entry["detail"]).collect();
    assert!(told.contains(&&json!("to key B, at the word of an operator")), "{history}");

    let before = shown(&client).await;
    let stopped = server.stop().await;
    assert_eq!(census(&bytes_of(&stopped).await).keys().collect::<Vec<_>>(), [&"B"]);
    let server = stopped.changed(|config| encrypt(config, "B")).start().await;
    assert_eq!(shown(&server.client()).await, before, "without the key that was called safe to remove");
    server.stop().await;
}

/// An address that nobody listens on at the moment.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_that_lets_nobody_in_says_why_and_how_far_it_is() {
    let server = Server::with(|config| encrypt(config, "A")).await;
    let before = fill(&server, 500).await;
    let address = free_address();
    let stopped = server.stop().await.changed(|config| {
        let rotation = Rotation { mode: RotationMode::Offline, records_per_s_max: 300 };
        config.encryption = Some(File::with("BA").encryption(rotation));
        config.listen = address;
    });
    let starting = tokio::spawn(stopped.start());
    until("the port is open", || async { TcpStream::connect(address).await.is_ok() }).await;
    let mut said = Value::Null;
    while said["done"].as_u64().is_none_or(|done| done == 0) {
        let reply = raw::post(address, "/v1/domains/list", &[]).await;
        assert_eq!(reply.status, 503, "nobody is let in before it is done");
        assert_eq!(reply.header("retry-after"), Some("1"));
        if reply.header("x-corkboard-phase") == Some("reencrypting") {
            said = serde_json::from_slice(&reply.body).unwrap();
        }
    }
    assert_eq!(said["phase"], "reencrypting", "{said}");
    assert!(said["total"].as_u64() > said["done"].as_u64() && said["eta_s"].is_u64(), "{said}");
    let server = starting.await.unwrap();
    let document = keys(&server).await;
    assert_eq!((&document["state"], &document["marker"]), (&json!("settled"), &json!("B")), "{document}");
    assert_eq!(document["mode"], "offline");
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}

/// Runs a server that must not start, on the store of one that is stopped.
async fn refused(stopped: Stopped, change: impl FnOnce(&mut Config)) -> (String, Stopped) {
    let mut found = None;
    let stopped = stopped.changed(|config| found = Some(config.clone()));
    let mut config = found.unwrap();
    change(&mut config);
    match Box::pin(bbs::run(config, std::future::pending(), |_| {})).await {
        Err(RunError::Keys(error)) => (error.to_string(), stopped),
        other => panic!("it was not refused for its keys: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lacks_a_key_is_refused_by_name_and_changes_no_record() {
    let server = Server::with(|config| encrypt(config, "A")).await;
    let before = fill(&server, 20).await;
    let stopped = server.stop().await;
    let bytes = bytes_of(&stopped).await;
    let (why, stopped) = refused(stopped, |config| encrypt(config, "B")).await;
    assert!(why.contains("sealed with key A, and this node has only B"), "{why}");
    let (why, stopped) = refused(stopped, |config| config.encryption = None).await;
    assert!(why.contains("sealed with key A, and this node has no key at all"), "{why}");
    let (why, stopped) = refused(stopped, |config| {
        let name = KeyName::parse("A").unwrap();
        let other = Keyring::new(vec![(name.clone(), Secret::new(b"other bytes".to_vec()))], &name).unwrap();
        encrypt(config, "A");
        config.encryption.as_mut().unwrap().keyring = Arc::new(other);
    })
    .await;
    assert!(why.contains("the bytes differ") && !why.contains("other bytes"), "{why}");
    assert!(bytes == bytes_of(&stopped).await, "a node that was refused has changed something");
    let server = stopped.start().await;
    assert_eq!(shown(&server.client()).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_whose_key_was_missing_comes_back_when_the_key_does() {
    let file = File::with("A");
    let server = Server::with(|config| config.encryption = Some(file.encryption(Rotation::default()))).await;
    fill(&server, 10).await;
    let stopped = server.stop().await;
    let bytes = bytes_of(&stopped).await;
    let (key, value) = bytes.iter().find(|(key, _)| key.ends_with("/task/task-0003")).unwrap();
    let place = Place::of(key).unwrap();
    let plain = ring("A").open(place, value).unwrap();
    {
        let store = Embedded::open(stopped.store_dir(), Options::default()).unwrap();
        let held = store.campaign("vandal").await.unwrap();
        let mut step = Step::default();
        let stamp = Stamp { sealed_ns: 7, nonce: *b"twelve bytes" };
        step.put(key.clone(), ring("D").seal(place, stamp, &plain));
        store.commit(&held, &[step]).await.unwrap();
        store.resign(held).await.unwrap();
    }
    let server = stopped.start().await;
    in_state(&server, "blocked").await;
    let document = keys(&server).await;
    assert_eq!(document["marker"], Value::Null, "{document}");
    assert_eq!(
        (&document["blocked"][0]["id"], &document["blocked"][0]["key"]),
        (&json!(key), &json!("D")),
        "{document}"
    );
    assert_eq!(line(&document, "D")["blocked_by"], json!([key]), "{document}");
    assert_eq!(server.metric("encryption_blocked").await, 1.0);
    let (_, list) = operator(&server, Question::get("/corkboard/v1/quarantine", &[])).await;
    assert!(list["records"][0]["why"].as_str().unwrap().contains("sealed with key D"), "{list}");
    assert!(server.client().task_by_guid("task-0003").await.is_err());
    let (_, answer) = post(&server, "quarantine/retry", json!({"all": true})).await;
    assert_eq!(answer["still"][0]["id"], json!(key), "{answer}");

    file.write(Ok("AD"));
    assert_eq!(post(&server, "keys/rotate", json!({})).await.0, 200);
    let (_, answer) = post(&server, "quarantine/retry", json!({"all": true})).await;
    assert_eq!(answer["recovered"], json!([key]), "{answer}");
    assert_eq!(server.client().task_by_guid("task-0003").await.unwrap().task_guid, "task-0003");
    in_state(&server, "settled").await;
    assert_eq!(line(&keys(&server).await, "D")["safe_to_remove"], true);
    let server = server.restart().await;
    assert_eq!(server.client().tasks(Default::default()).await.unwrap().len(), 10);
    server.stop().await;
}
