//! Three nodes of two releases, the clients that call them, and records that stay as they are.
//!
//! Promise: a node that is replaced was told to stop or was killed, and then starts with what it was given; it is waited for
//! until it takes part again, so that there is always somebody who could take over.

use std::time::Duration;

use api::client::Question;
use api::models::{ActualLrPsRequest, DesiredLrPsRequest, TasksRequest};
use rig::etcd::Options;
use serde_json::Value;
use store::record::DataVersion;
use tokio::time::Instant;

use super::claims::Claims;
use crate::cluster::clients::Crowd;
use crate::cluster::nodes::{LEASE, Nodes, Plan};
use crate::cluster::{say, verdict};
use crate::durability::census::Census;
use crate::durability::dice::Dice;
use crate::durability::world::{Op, World};
use crate::program::{Outcome, finish, program_at, run, utf8};
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE, Release};

/// What makes a migration last for a moment.
const STOCK_LRPS: usize = 40;
const STOCK_TASKS: usize = 60;
/// Beside a lease, nobody needs longer to take over.
const TAKE_OVER: Duration = Duration::from_secs(4);
const VERSION: &str = "/corkboard/board/version";
/// In these phases nobody may be turned away by a server that migrates and rotates online.
const NEVER: [&str; 3] = ["migrating", "reencrypting", "rolled-back"];
/// No single question takes long, but the node that is asked may just go away.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// What a node is started with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) release: Release,
    /// Lines of the table about migrations.
    pub(super) migration: String,
    /// Named by one letter each; the last one is active.
    pub(super) keys: &'static str,
    /// Lines of the table about encryption.
    pub(super) encryption: String,
}

impl Setup {
    pub(super) fn former() -> Self {
        Self { release: Release::Former, migration: String::new(), keys: "A", encryption: String::new() }
    }

    /// `migration` are lines of its table.
    pub(super) fn newest(migration: impl Into<String>) -> Self {
        Self { release: Release::Newest, migration: migration.into(), ..Self::former() }
    }

    pub(super) fn with_keys(mut self, keys: &'static str, encryption: impl Into<String>) -> Self {
        (self.keys, self.encryption) = (keys, encryption.into());
        self
    }

    fn tables(&self) -> String {
        let Self { migration, keys, encryption, .. } = self;
        let active = keys.chars().last().unwrap();
        let files: String = keys.chars().map(|key| format!("keys.{key} = {{ file = \"key.{key}\" }}\n")).collect();
        format!(
            "[timing]\nconverge_interval = \"1h\"\n[migration]\n{migration}\n\
             [encryption]\nactive = \"{active}\"\n{encryption}\n{files}"
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Stopped,
    Killed,
}

impl Way {
    pub(super) fn any(dice: &mut Dice) -> Self {
        if dice.below(2) == 0 { Self::Stopped } else { Self::Killed }
    }
}

pub(super) struct Fleet {
    pub(super) nodes: Nodes,
    pub(super) crowd: Crowd,
    pub(super) dice: Dice,
    claims: Claims,
    stock: World,
}

impl Fleet {
    /// Three nodes alike, with clients that call.
    pub(super) async fn start(setup: &Setup) -> Self {
        let mut dice = Dice::from_environment();
        let etcd = Options { members: 3, ..Options::default() };
        let mut nodes = Nodes::prepare(Plan { etcd, ..Plan::default() });
        for key in ["key.A", "key.B"] {
            let made = run(&["keys", "generate", "--out", utf8(&nodes.dir.path().join(key))]);
            assert_eq!(made.code, 0, "{made:?}");
        }
        for at in nodes.all() {
            set(&mut nodes, at, setup);
        }
        nodes.start_all().await;
        let stock = stock(&mut nodes).await;
        let crowd = Crowd::start(&mut nodes, &mut dice).await;
        let claims = Claims::start(&nodes);
        let mut fleet = Self { nodes, crowd, dice, claims, stock };
        for at in fleet.nodes.all() {
            fleet.until_taking_part(at).await;
        }
        fleet
    }

    /// From its next start on.
    pub(super) fn set(&mut self, at: usize, setup: &Setup) {
        set(&mut self.nodes, at, setup);
    }

    /// Ends a node that runs and starts it as something else. Returns when it takes part.
    pub(super) async fn replace(&mut self, at: usize, way: Way, setup: &Setup) {
        self.end(at, way).await;
        self.set(at, setup);
        self.nodes.restart(at);
        self.until_taking_part(at).await;
    }

    pub(super) async fn end(&mut self, at: usize, way: Way) {
        match way {
            Way::Stopped => self.nodes.stop(at).await,
            Way::Killed => self.nodes.kill(at),
        }
    }

    /// Has a node of this kind take over while another one waits that is as all were. Gives the former master, which is down,
    /// the new one, and the one that waits.
    pub(super) async fn handed_over(&mut self, setup: &Setup) -> (usize, usize, usize) {
        let master = self.nodes.master().await;
        let mut waiting = self.nodes.all().filter(|at| *at != master);
        let (next, last) = (waiting.next().unwrap(), waiting.next().unwrap());
        self.replace(next, Way::Stopped, setup).await;
        // It would be its turn as well.
        self.nodes.pause(last);
        self.end(master, Way::Stopped).await;
        assert_eq!(self.nodes.master().await, next);
        self.nodes.resume(last);
        (master, next, last)
    }

    /// The same, and starts the former master as the new one. Gives the new master and the one that waits.
    pub(super) async fn master_is_of(&mut self, setup: &Setup) -> (usize, usize) {
        let (former, next, last) = self.handed_over(setup).await;
        self.set(former, setup);
        self.nodes.restart(former);
        self.until_taking_part(former).await;
        (next, last)
    }

    /// The master and the node that is neither the master nor this one.
    pub(super) async fn both_but(&mut self, third: usize) -> (usize, usize) {
        let master = self.nodes.master().await;
        (master, self.nodes.all().find(|at| *at != master && *at != third).unwrap())
    }

    /// Until this node serves, or waits with all records in memory.
    pub(super) async fn until_taking_part(&mut self, at: usize) {
        let since = Instant::now();
        loop {
            let status = self.nodes.ask_health(at, "/status").await.unwrap_or_default();
            if status["phase"] == "serving" || status["standby"]["warm"] == true {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "n{at} does not take part: {status:#}\n{}", self.nodes.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// What the master tells at a path of the operator's API.
    pub(super) async fn ask(&mut self, path: &str) -> Value {
        let since = Instant::now();
        loop {
            let master = self.nodes.master().await;
            let question = Question::get(&format!("/corkboard/v1/{path}"), &[]);
            match self.nodes.client(master, ASK_TIMEOUT).ask(&question).await {
                Ok(document) => return serde_json::from_slice(&document).unwrap(),
                // It may have gone since.
                Err(error) => assert!(since.elapsed() < PATIENCE, "{error}\n{}", self.nodes.logs()),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Until the master is in one of these states of a migration.
    pub(super) async fn until_state(&mut self, wanted: &[&str]) -> Value {
        self.until("migration", wanted).await
    }

    pub(super) async fn until(&mut self, path: &str, wanted: &[&str]) -> Value {
        let since = Instant::now();
        loop {
            let status = self.ask(path).await;
            if wanted.contains(&status["state"].as_str().unwrap()) {
                return status;
            }
            let logs = || self.nodes.logs();
            assert!(since.elapsed() < PATIENCE, "{wanted:?} did not come: {status:#}\n{}", logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// What happened to the data, by name.
    pub(super) async fn history(&mut self) -> Vec<String> {
        let history = self.ask("history").await;
        let entries = history["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["what"].as_str().unwrap().to_owned()).collect()
    }

    /// For longer than anybody needs to take over, this node waits.
    pub(super) async fn goes_on_waiting(&mut self, at: usize) {
        let since = Instant::now();
        while since.elapsed() < LEASE + TAKE_OVER {
            let status = self.nodes.ask_health(at, "/status").await.unwrap_or_default();
            assert_eq!(status["phase"], "waiting", "{status:#}\n{}", self.nodes.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// What a node says of itself to the others, as another one tells it, once it says what is hoped for.
    pub(super) async fn until_card(&mut self, at: usize, hoped: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let list = self.ask_nodes().await;
            let cards = list["nodes"].as_array().cloned().unwrap_or_default();
            if let Some(card) = cards.into_iter().find(|card| card["node"] == format!("n{at}") && hoped(card)) {
                return card;
            }
            assert!(since.elapsed() < PATIENCE, "not what n{at} should say: {list:#}\n{}", self.nodes.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn ask_nodes(&mut self) -> Value {
        let master = self.nodes.master().await;
        self.nodes.ask_health(master, "/nodes").await.unwrap_or_default()
    }

    /// Current and target version, as etcd has them.
    pub(super) fn versions(&self) -> (DataVersion, DataVersion) {
        let record = self.nodes.etcd.ctl(&["get", "--print-value-only", VERSION]);
        let record: Value = serde_json::from_str(record.trim()).unwrap();
        let number = |member: &str| DataVersion(record[member].as_u64().unwrap());
        (number("CurrentVersion"), number("TargetVersion"))
    }

    /// A command of the newest release to the master.
    pub(super) async fn run(&mut self, args: &[&str]) -> Outcome {
        let master = self.nodes.master().await;
        let url = self.nodes.url(master);
        finish(&mut program_at(Release::Newest.binary(), &[args, &["--bbsURL", &url]].concat()))
    }

    /// A command of the release of this node, with its configuration, on the store.
    pub(super) fn run_on_store(&mut self, at: usize, args: &[&str]) -> Outcome {
        let (file, release) = (self.nodes.configure(at), self.nodes.node(at).release);
        finish(&mut program_at(release.binary(), &[args, &["--config", utf8(&file)]].concat()))
    }

    /// What nobody has touched is as it was.
    pub(super) async fn check_stock(&mut self) {
        let master = self.nodes.master().await;
        let client = self.nodes.client(master, PATIENCE);
        let census = Census {
            lrps: client.desired_lrps(DesiredLrPsRequest::default()).await.unwrap(),
            rows: client.actual_lrps(ActualLrPsRequest::default()).await.unwrap(),
            tasks: client.tasks(TasksRequest::default()).await.unwrap(),
            domains: client.domains().await.unwrap(),
        };
        assert_eq!(census.world_of("stock"), self.stock, "{}", self.nodes.logs());
    }

    /// Ends everything, and looks at all of it.
    pub(super) async fn check(self) {
        self.check_but_for(&[]).await;
    }

    /// The same, where somebody may have been turned away in these phases.
    pub(super) async fn check_but_for(mut self, excused: &[&str]) {
        self.check_stock().await;
        self.claims.stop().await;
        let book = self.crowd.book.clone();
        verdict::check(self.nodes, self.crowd).await;
        let phases = book.phases();
        say(&format!("turned away: {phases:?}"));
        let mut never = NEVER.iter().filter(|phase| !excused.contains(phase));
        assert!(never.all(|phase| !phases.contains_key(*phase)), "{phases:?}");
    }
}

fn set(nodes: &mut Nodes, at: usize, setup: &Setup) {
    let node = nodes.node(at);
    (node.release, node.tables) = (setup.release, Some(setup.tables()));
}

async fn stock(nodes: &mut Nodes) -> World {
    let master = nodes.master().await;
    let (client, mut world) = (nodes.client(master, PATIENCE), World::default());
    let lrps = (0..STOCK_LRPS).map(|at| {
        let (guid, annotation) = (format!("stock-{at}"), "stays".to_owned());
        Op::Desire { guid, instances: 2, annotation }
    });
    for op in lrps.chain((0..STOCK_TASKS).map(|at| Op::DesireTask { guid: format!("stock-{at}") })) {
        op.clone().send(&client).await.unwrap();
        world = world.after(&op);
    }
    world
}
