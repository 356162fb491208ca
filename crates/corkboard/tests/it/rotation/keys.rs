//! Keys in files, and what servers say about them.
//!
//! A key is named by one letter, so that `"AB"` is a configuration with two of them.

use std::os::unix::fs::OpenOptionsExt;

use api::client::{OperatorError, Question};
use serde_json::{Value, json};
use store::seal::{KeyName, Keyring, Secret};

use crate::upgrade::site::{LOOK_AGAIN, PATIENCE, Site};

const NAMES: &str = "ABC";

/// A place to start servers at, with a file for each key.
pub(super) fn site() -> Site {
    let site = Site::new();
    std::fs::create_dir(site.dir.path().join("keys")).unwrap();
    NAMES.chars().for_each(|name| put_key(&site, name, &bytes_of(name)));
    site
}

/// Whatever the file held before is gone.
pub(super) fn put_key(site: &Site, name: char, bytes: &str) {
    use std::io::Write;
    let path = site.dir.path().join("keys").join(name.to_string());
    let mut options = std::fs::File::options();
    let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(path).unwrap();
    writeln!(file, "{bytes}").unwrap();
}

pub(super) fn bytes_of(name: char) -> String {
    format!("key {name} of the tests, too long to be guessed")
}

/// All keys that any server of these tests has.
pub(super) fn ring() -> Keyring {
    let name = |name: char| KeyName::parse(&name.to_string()).unwrap();
    let keys = NAMES.chars().map(|key| (name(key), Secret::new(bytes_of(key).into_bytes()))).collect();
    Keyring::new(keys, &name('A')).unwrap()
}

/// The table for a configuration that has the keys `names`, and seals with `active`.
pub(super) fn table(active: &str, names: &str, records_per_s_max: u32) -> String {
    let line = |name: char| format!("{name} = {{ file = \"keys/{name}\" }}\n");
    let keys: String = names.chars().map(line).collect();
    format!("[encryption]\nactive = \"{active}\"\nrecords_per_s_max = {records_per_s_max}\n[encryption.keys]\n{keys}")
}

/// What the server knows about its keys. A key that a record may need is never called free in it.
pub(super) async fn status(site: &Site) -> Value {
    let status = site.ask("keys").await.unwrap();
    for key in status["keys"].as_array().unwrap() {
        let is_free = status["marker"] == status["active"]
            && key["name"] != status["active"]
            && key["records"] == 0
            && key["blocked_by"] == json!([]);
        assert!(is_free || key["safe_to_remove"] == false, "{status:#}");
    }
    status
}

pub(super) async fn until(site: &Site, wanted: &str) -> Value {
    let looking = async {
        loop {
            let status = status(site).await;
            if status["state"] == wanted {
                break status;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(status) => status,
        Err(_) => panic!("{wanted} did not come: {:#}\n{}", status(site).await, site.logged()),
    }
}

/// Until all records are under `key`, and every other key that the server knows is called free.
pub(super) async fn until_settled(site: &Site, key: &str) {
    let status = until(site, "settled").await;
    assert_eq!((&status["active"], &status["marker"]), (&json!(key), &json!(key)), "{status:#}");
    for line in status["keys"].as_array().unwrap() {
        assert_eq!(line["safe_to_remove"], line["name"] != key, "{status:#}");
    }
    assert_eq!(status["plain_records"], 0, "{status:#}");
}

/// Until a rotation has begun to bring records under the active key.
pub(super) async fn until_under_way(site: &Site) {
    let looking = async {
        loop {
            let status = status(site).await;
            assert_eq!(status["state"], "rotating", "{status:#}");
            if status["done"].as_u64().unwrap() > 0 {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "nothing is brought anywhere: {}", site.logged());
}

/// Has the server read its configuration again, and bring everything under the key that is active there.
pub(super) async fn rotate(site: &Site) -> Result<Value, OperatorError> {
    let answer = site.client().ask(&Question::post("/corkboard/v1/keys/rotate", &json!({}))).await?;
    Ok(serde_json::from_slice(&answer).unwrap())
}
