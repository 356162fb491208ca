//! Somebody who asks all the time: every node on its health port, and the store with the configuration of every node.
//!
//! Promise: none of the answers may be wrong. Before and after each question etcd itself is asked for the data version, the
//! master and the keys that records are sealed with. What changed meanwhile excuses an answer; what did not, does not.

use std::collections::BTreeMap;
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
use crate::program::{Outcome, finish, program_at, utf8};
use crate::upgrade::site::Release;

/// Between two rounds, so that the machine has time for the nodes as well.
const BREATH: Duration = Duration::from_millis(150);
const TIMEOUT: Duration = Duration::from_secs(2);
/// After so many questions each was asked of each, twice. The health ports of all three may be closed for one of them.
const ASKED_MIN: usize = 36;
/// Done, under way, waits, blocked.
const ANSWERS: [i32; 4] = [0, 10, 11, 12];
/// Nobody is there, or it does not know.
const UNKNOWN: i32 = 5;
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
    asking: Option<JoinHandle<Asker>>,
}

impl Claims {
    pub(super) fn start(nodes: &Nodes) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asker = Asker {
            health: nodes.all().map(|at| nodes.health_url(at)).collect(),
            configurations: nodes.all().map(|at| nodes.configure(at)).collect(),
            endpoints: nodes.etcd.endpoints().join(","),
            asked: 0,
            heard: BTreeMap::new(),
            runtime: Handle::current(),
            stop: stop.clone(),
        };
        Self { asking: Some(tokio::task::spawn_blocking(|| asker.work())), stop }
    }

    /// Ends the questions. Panics if an answer was wrong, or some question was never answered.
    pub(super) async fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let asker = self.asking.take().unwrap().await.unwrap();
        say(&format!("{} questions: {:?}", asker.asked, asker.heard));
        for question in QUESTIONS {
            let is_answered = asker.heard.keys().any(|(what, of, _)| (*what, *of) == question);
            assert!(is_answered || asker.asked < ASKED_MIN, "{question:?} was never answered");
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Nodes,
    Migration,
    Keys,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    HealthPort,
    Store,
}

const QUESTIONS: [(What, Of); 6] = [
    (What::Nodes, Of::HealthPort),
    (What::Migration, Of::Store),
    (What::Keys, Of::HealthPort),
    (What::Nodes, Of::Store),
    (What::Migration, Of::HealthPort),
    (What::Keys, Of::Store),
];

impl What {
    fn command(self) -> &'static [&'static str] {
        match self {
            Self::Nodes => &["nodes", "--json"],
            Self::Migration => &["migrate", "status", "--json"],
            Self::Keys => &["keys", "status", "--json"],
        }
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
    asked: usize,
    /// How often each answer was given, in short.
    heard: BTreeMap<(What, Of, String), usize>,
    runtime: Handle,
    stop: Arc<AtomicBool>,
}

impl Asker {
    fn work(mut self) -> Self {
        let mut before = self.truth();
        while !self.stop.load(Ordering::SeqCst) {
            let nodes = self.health.len();
            let (turn, (what, of)) = (self.asked % nodes, QUESTIONS[self.asked / nodes % QUESTIONS.len()]);
            self.asked += 1;
            // Only the master knows everything, so it is asked more often than its turn comes.
            let serves = |at: &usize| self.phase(*at).as_deref() == Some("serving");
            let at = (0..nodes).find(serves).filter(|_| of == Of::HealthPort && turn == 0).unwrap_or(turn);
            let phase = self.phase(at);
            let outcome = self.ask(at, what, of);
            // It may have gone and come back.
            let was_met = !outcome.stderr.contains("cannot talk to the server");
            let was_there = was_met && phase.is_some() && self.phase(at) == phase;
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let after = self.truth();
            let of_whom = phase.filter(|_| was_there && of == Of::HealthPort);
            match answer(&outcome) {
                Some(answer) => {
                    let short = format!("{} {}", outcome.code, answer["state"].as_str().unwrap_or_default());
                    *self.heard.entry((what, of, short)).or_default() += 1;
                    check(what, of, &answer, (&before, &after));
                }
                // Nobody may be there, or somebody else may know.
                None if of == Of::HealthPort => {
                    assert_eq!(outcome.code, UNKNOWN, "{outcome:?}");
                    let phase = of_whom.as_deref().unwrap_or_default();
                    let knows = phase == "serving" || (what == What::Nodes && phase != "opening");
                    assert!(!was_there || !knows, "{what:?} of n{at}: {outcome:?}");
                    if phase == "waiting" {
                        assert!(outcome.stderr.contains("master"), "{outcome:?}");
                        *self.heard.entry((what, of, "ask the master".to_owned())).or_default() += 1;
                    }
                }
                None => {
                    assert_eq!(outcome.code, LACKS_A_KEY, "{what:?} of n{at}: {outcome:?}");
                    assert!(outcome.stderr.contains("sealed with key"), "{outcome:?}");
                }
            }
            before = after;
            std::thread::sleep(BREATH);
        }
        self
    }

    /// The command is the one of the newest release, which knows all data versions.
    fn ask(&self, at: usize, what: What, of: Of) -> Outcome {
        let place = match of {
            Of::HealthPort => ["--healthURL", &self.health[at]],
            Of::Store => ["--config", utf8(&self.configurations[at])],
        };
        finish(&mut program_at(Release::Newest.binary(), &[what.command(), &place].concat()))
    }

    /// In which phase a node is; nothing if it is not there.
    fn phase(&self, at: usize) -> Option<String> {
        let config = ClientConfig::once(&self.health[at], Some(TIMEOUT));
        let client = Client::new(config).unwrap();
        let document = self.runtime.block_on(client.ask(&Question::get("/status", &[]))).ok()?;
        let status: Value = serde_json::from_slice(&document).unwrap();
        let has_store = !status["store"].is_null();
        Some(if has_store { status["phase"].as_str().unwrap() } else { "opening" }.to_owned())
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

/// The document, if there is one.
fn answer(outcome: &Outcome) -> Option<Value> {
    ANSWERS.contains(&outcome.code).then(|| serde_json::from_str(&outcome.stdout).unwrap())
}

fn check(what: What, of: Of, answer: &Value, (before, after): (&Truth, &Truth)) {
    // Whoever is asked while another one becomes master speaks of another moment.
    let is_calm = before.master.is_some() && before.master == after.master;
    match (what, of) {
        (What::Nodes, _) => check_nodes(answer, before, after),
        (_, Of::HealthPort) if !is_calm => {}
        (What::Migration, _) => check_migration(answer, before, after),
        (What::Keys, _) => check_keys(answer, before, after),
    }
    if let (What::Migration, Of::Store, true, Some((name, _))) = (what, of, is_calm, &after.master) {
        assert!(answer["state"] != "held" || after.current == after.target, "{answer:#}\n{after:?}");
        let said = answer["explanation"].as_str().unwrap();
        assert!(said.contains(&format!("{name} is master on this store")), "{answer:#}\n{after:?}");
    }
}

fn check_nodes(answer: &Value, before: &Truth, after: &Truth) {
    if let (Some((name, _)), true) = (&after.master, before.master == after.master) {
        assert_eq!(answer["master"], name.as_str(), "{answer:#}\n{after:?}");
    }
    let masters = answer["nodes"].as_array().unwrap().iter().filter(|card| card["is_master"] == true);
    masters.for_each(|card| assert_eq!(card["node"], answer["master"], "{answer:#}"));
}

fn check_migration(answer: &Value, before: &Truth, after: &Truth) {
    let versions = |truth: &Truth| (truth.current, truth.target);
    if versions(before) != versions(after) {
        return;
    }
    assert_eq!(answer["current"]["number"], after.current, "{answer:#}\n{after:?}");
    // A rollback leaves no mark until it is prepared, what is held has none yet, and to a release that is done the target of a
    // newer one means nothing.
    if !["none", "held", "rolling_back"].contains(&answer["state"].as_str().unwrap()) {
        assert_eq!(answer["target"]["number"], after.target, "{answer:#}\n{after:?}");
    }
    if answer["state"] == "none" {
        assert_eq!(answer["newest"], answer["current"], "{answer:#}\n{after:?}");
    }
    let by_starting = answer["how_to_go_back"].as_str().is_some_and(|how| how.contains("start the release"));
    assert!(!by_starting || answer["newest"]["number"].as_u64().unwrap() > after.current, "{answer:#}\n{after:?}");
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
