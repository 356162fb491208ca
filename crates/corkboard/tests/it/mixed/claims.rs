//! Somebody who asks all the time: every node on its health port, and the store with the configuration of every node.
//!
//! Promise: none of the answers may be wrong. Before and after each question etcd itself is asked for the data version, the
//! master and the keys that records are sealed with. What changed meanwhile excuses an answer; what did not, does not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::client::{Client, ClientConfig, Question};
use base64::Engine as _;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::cluster::nodes::Nodes;
use crate::cluster::say;
use crate::program::{finish, program_at, utf8};
use crate::upgrade::site::Release;

/// Between two rounds, so that the machine has time for the nodes as well.
const BREATH: Duration = Duration::from_millis(150);
const TIMEOUT: Duration = Duration::from_secs(2);
/// Of a status: done, under way, waits, blocked.
const ANSWERS: [i32; 4] = [0, 10, 11, 12];
/// A node without a key that the store needs says so instead.
const LACKS_A_KEY: i32 = 8;
const ROOT: &str = "/corkboard/";
/// What every record is below.
const BOARD: &str = "/corkboard/board";
const MASTER: &str = "/corkboard/master";
/// How the bytes of a sealed record begin, before the name of its key.
const SEALED: &[u8] = b"0007";

pub(super) struct Claims {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<Asker>,
}

impl Claims {
    pub(super) fn start(nodes: &Nodes) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asker = Asker {
            health: nodes.all().map(|at| nodes.health_url(at)).collect(),
            configurations: nodes.all().map(|at| nodes.configure(at)).collect(),
            endpoints: nodes.etcd.endpoints().join(","),
            answered: BTreeMap::new(),
        };
        let (runtime, until) = (Handle::current(), stop.clone());
        Self { asking: tokio::task::spawn_blocking(move || asker.work(&runtime, &until)), stop }
    }

    /// Ends the questions. Panics if an answer was wrong, or nobody ever answered.
    pub(super) async fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        let asker = self.asking.await.unwrap();
        say(&format!("answers: {:?}", asker.answered));
        let kinds: BTreeSet<&str> = asker.answered.keys().map(|(what, _)| *what).collect();
        assert_eq!(kinds, ["keys", "migration", "nodes", "status"].into(), "{:?}", asker.answered);
    }
}

/// What etcd says, whatever nodes say.
#[derive(Debug, PartialEq, Eq)]
struct Truth {
    current: u64,
    target: u64,
    /// The key that all records are under.
    marker: Option<String>,
    /// The election key: its value and when it was made.
    master: Option<(String, i64)>,
    /// How many records each key seals.
    sealed: BTreeMap<String, usize>,
}

struct Asker {
    health: Vec<String>,
    configurations: Vec<PathBuf>,
    endpoints: String,
    /// By what was asked, and of whom.
    answered: BTreeMap<(&'static str, usize), usize>,
}

impl Asker {
    fn work(mut self, runtime: &Handle, stop: &AtomicBool) -> Self {
        let mut before = self.truth();
        let questions = ["status", "nodes", "migration", "keys"];
        for (at, what) in (0..self.health.len()).flat_map(|at| questions.map(|what| (at, what))).cycle() {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let answer = match what {
                "status" | "nodes" => runtime.block_on(self.ask_health(at, what)),
                "migration" => self.ask_store(at, "migrate"),
                _ => self.ask_store(at, "keys"),
            };
            let after = self.truth();
            if let Some(answer) = answer {
                *self.answered.entry((what, at)).or_default() += 1;
                check(what, &answer, &before, &after);
            }
            before = after;
            std::thread::sleep(BREATH);
        }
        self
    }

    async fn ask_health(&self, at: usize, path: &str) -> Option<Value> {
        let config = ClientConfig { url: self.health[at].clone(), tls: None, timeout: Some(TIMEOUT), trace_id: None };
        let document = Client::new(config).unwrap().ask(&Question::get(&format!("/{path}"), &[])).await.ok()?;
        serde_json::from_slice(&document).ok()
    }

    /// By the newest release, which knows all data versions.
    fn ask_store(&self, at: usize, command: &str) -> Option<Value> {
        let args = [command, "status", "--json", "--config", utf8(&self.configurations[at])];
        let outcome = finish(&mut program_at(Release::Newest.binary(), &args));
        if outcome.code == LACKS_A_KEY {
            assert!(outcome.stderr.contains("sealed with key"), "{outcome:?}");
            return None;
        }
        assert!(ANSWERS.contains(&outcome.code), "{args:?}: {outcome:?}");
        Some(serde_json::from_str(&outcome.stdout).unwrap())
    }

    fn truth(&self) -> Truth {
        let mut board = self.everything();
        let master = board.remove(MASTER);
        let text = |key: &str| Some(String::from_utf8(board.get(&format!("{BOARD}{key}"))?.0.clone()).unwrap());
        let version: Value = serde_json::from_str(&text("/version").unwrap()).unwrap();
        let mut sealed = BTreeMap::new();
        for (key, (value, _)) in &board {
            let is_record = key.starts_with(&format!("{BOARD}/v")) && !key.ends_with("/version");
            if let Some(rest) = value.strip_prefix(SEALED).filter(|_| is_record) {
                let name = rest.split(|byte| *byte == b':').next().unwrap();
                *sealed.entry(String::from_utf8_lossy(name).into_owned()).or_default() += 1;
            }
        }
        Truth {
            current: version["CurrentVersion"].as_u64().unwrap(),
            target: version["TargetVersion"].as_u64().unwrap(),
            marker: text("/encryption-key"),
            master: master.map(|(name, made)| (String::from_utf8(name).unwrap(), made)),
            sealed,
        }
    }

    /// All values, and when each was made.
    fn everything(&self) -> BTreeMap<String, (Vec<u8>, i64)> {
        let args = ["--endpoints", &self.endpoints, "get", "--prefix", ROOT, "-w", "json"];
        let output = Command::new("etcdctl").env("ETCDCTL_API", "3").args(args).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("etcdctl: {}", String::from_utf8_lossy(&output.stderr)));
        let decode = |text: &Value| base64::prelude::BASE64_STANDARD.decode(text.as_str().unwrap_or_default()).unwrap();
        let kvs = found["kvs"].as_array().cloned().unwrap_or_default();
        let read = |kv: &Value| {
            let key = String::from_utf8(decode(&kv["key"])).unwrap();
            (key, (decode(&kv["value"]), kv["create_revision"].as_i64().unwrap()))
        };
        kvs.iter().map(read).collect()
    }
}

fn check(what: &str, answer: &Value, before: &Truth, after: &Truth) {
    match what {
        "nodes" => check_nodes(answer, before, after),
        "migration" => check_migration(answer, before, after),
        "keys" => check_keys(answer, before, after),
        _ => check_status(answer, before, after),
    }
}

fn check_nodes(answer: &Value, before: &Truth, after: &Truth) {
    let masters = answer["nodes"].as_array().unwrap().iter().filter(|card| card["is_master"] == true);
    let names: BTreeSet<&str> = masters.map(|card| card["node"].as_str().unwrap()).collect();
    assert!(names.len() <= 1, "{answer:#}");
    if let (Some((name, _)), true) = (&after.master, before.master == after.master) {
        assert_eq!(answer["master"], name.as_str(), "{answer:#}\n{after:?}");
    }
}

fn check_status(answer: &Value, before: &Truth, after: &Truth) {
    let is_master = after.master.as_ref().is_some_and(|(name, _)| answer["node"] == name.as_str());
    // Somebody who was master, or is becoming it, speaks of another moment.
    if answer["phase"] != "serving" || !is_master || before.master != after.master {
        return;
    }
    check_migration(&answer["migration"], before, after);
    check_keys(&answer["encryption"], before, after);
}

fn check_migration(answer: &Value, before: &Truth, after: &Truth) {
    let versions = |truth: &Truth| (truth.current, truth.target);
    if versions(before) != versions(after) {
        return;
    }
    assert_eq!(answer["current"]["number"], after.current, "{answer:#}\n{after:?}");
    assert_eq!(answer["target"]["number"], after.target, "{answer:#}\n{after:?}");
    if answer["state"] == "none" {
        assert_eq!(answer["newest"], answer["current"], "{answer:#}\n{after:?}");
    }
    let by_starting = answer["how_to_go_back"].as_str().is_some_and(|how| how.contains("start the release"));
    assert!(!by_starting || after.current < after.target, "{answer:#}\n{after:?}");
}

/// A key that a record is sealed with is never called free, and the marker speaks of all records.
fn check_keys(answer: &Value, before: &Truth, after: &Truth) {
    let is_calm = before.master == after.master && before.marker == after.marker;
    for key in answer["keys"].as_array().unwrap().iter().filter(|key| key["safe_to_remove"] == true) {
        let name = key["name"].as_str().unwrap();
        assert!(!is_calm || !after.sealed.contains_key(name), "{answer:#}\n{after:?}");
    }
    if is_calm && let Some(marker) = &after.marker {
        assert_eq!(after.sealed.keys().collect::<Vec<_>>(), [marker], "{after:?}");
        assert_eq!(answer["marker"], marker.as_str(), "{answer:#}\n{after:?}");
    }
}
