//! A server with an app of three instances, and a cell that does what the test says.

use std::net::TcpListener;
use std::time::Duration;

use api::client::{Client, ClientConfig};
use api::models::actual_lrp::Presence;
use api::models::{
    ActualLrPsRequest, ActualLrp, ActualLrpInstanceKey, ActualLrpKey, ActualLrpNetInfo, StartActualLrpRequest,
};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::program::{Background, CELL, LRP, Outcome, Server, program, utf8};

pub(crate) const INSTANCES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// So long that a watch asks in vain.
const AWAY: Duration = Duration::from_secs(1);

/// What the cell does with instances of a definition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Luck {
    Runs,
    Crashes,
}

pub(crate) struct World {
    pub(crate) server: Server,
    client: Client,
    runtime: Runtime,
}

impl World {
    /// All instances run the first definition.
    pub(crate) fn new() -> Self {
        Self::on(Server::plain())
    }

    /// The same on a server that can be started again where it was.
    pub(crate) fn that_comes_back() -> Self {
        let dir = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = format!(
            "listen = \"127.0.0.1:{port}\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n[cells]\nfile = \"cells.jsonl\"\n"
        );
        std::fs::write(dir.path().join("board.toml"), text).unwrap();
        std::fs::write(dir.path().join("cells.jsonl"), format!("{CELL}\n")).unwrap();
        Self::on(Server::start_as_configured(dir, "http", &[]))
    }

    /// It is killed, is away for a moment, and goes on.
    pub(crate) fn restart(&mut self) {
        self.server.process.signal(Signal::KILL);
        self.server.process.wait();
        std::thread::sleep(AWAY);
        let file = self.server.dir.path().join("board.toml");
        self.server.process = Background::start(&mut program(&["bbs", "--config", utf8(&file)]));
        self.server.process.lines_until(|line| line.starts_with("The API listens on "));
        // Connections of before are of no use.
        self.client = client(&self.server);
    }

    fn on(server: Server) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = client(&server);
        let world = Self { server, client, runtime };
        world.must(&["create-desired-lrp", &lrp(64, "one").replace("\"instances\":2", "\"instances\":3")]);
        world.play(1, Luck::Runs);
        assert_eq!(world.running(), INSTANCES);
        world
    }

    pub(crate) fn call(&self, args: &[&str]) -> Outcome {
        self.server.call(args)
    }

    pub(crate) fn must(&self, args: &[&str]) -> String {
        let outcome = self.call(args);
        assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
        outcome.stdout
    }

    /// An update to a definition with so much memory.
    pub(crate) fn update(&self, identifier: &str, memory_mb: i32, flags: &[&str]) -> Outcome {
        let file = self.definition(memory_mb);
        let args = ["update-desired-lrp", "hello", "--definition", &file, "--identifier", identifier];
        self.call(&[&args, flags].concat())
    }

    fn definition(&self, memory_mb: i32) -> String {
        let path = self.server.dir.path().join(format!("lrp-{memory_mb}.json"));
        std::fs::write(&path, lrp(memory_mb, "two")).unwrap();
        utf8(&path).to_owned()
    }

    pub(crate) fn begin(&self, args: &[&str]) -> Background {
        Background::start(&mut self.server.command(args))
    }

    pub(crate) fn begin_update(&self, identifier: &str, memory_mb: i32, flags: &[&str]) -> Background {
        let file = self.definition(memory_mb);
        let args = ["update-desired-lrp", "hello", "--definition", &file, "--identifier", identifier];
        self.begin(&[&args, flags].concat())
    }

    pub(crate) fn rows(&self) -> Vec<ActualLrp> {
        let filter = ActualLrPsRequest { process_guid: "hello".into(), ..ActualLrPsRequest::default() };
        self.runtime.block_on(self.client.actual_lrps(filter)).unwrap()
    }

    /// How many indices have an instance that answers.
    pub(crate) fn running(&self) -> usize {
        let running = self.rows().into_iter().filter(|row| row.state == "RUNNING");
        running.filter_map(|row| Some(row.actual_lrp_key?.index)).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// One look of the cell: instances of this definition that wait are started, and have what luck is theirs.
    pub(crate) fn play(&self, definition: u32, luck: Luck) {
        for row in self.rows() {
            let is_mine = row.definition_number.max(1) == definition && row.presence() == Presence::Ordinary;
            let key = row.actual_lrp_key.clone().unwrap();
            if !is_mine {
                continue;
            }
            match row.state.as_str() {
                "UNCLAIMED" => self.start(&key, definition),
                "RUNNING" if luck == Luck::Crashes => {
                    let holder = row.actual_lrp_instance_key.clone().unwrap();
                    // It may have been replaced in between.
                    let _ = self.runtime.block_on(self.client.crash_actual_lrp(key, holder, "exited with 3"));
                }
                _ => {}
            }
        }
    }

    fn start(&self, key: &ActualLrpKey, definition: u32) {
        let instance_guid = format!("i{}-d{definition}", key.index);
        let holder = ActualLrpInstanceKey { instance_guid, cell_id: "cell-1".into() };
        let request = StartActualLrpRequest {
            actual_lrp_key: Some(key.clone()),
            actual_lrp_instance_key: Some(holder.clone()),
            actual_lrp_net_info: Some(ActualLrpNetInfo { address: "10.0.0.1".into(), ..ActualLrpNetInfo::default() }),
            routable: Some(true),
            definition_number: definition,
            ..StartActualLrpRequest::default()
        };
        // As above.
        let _ = self.runtime.block_on(async {
            self.client.claim_actual_lrp(&key.process_guid, key.index, holder).await?;
            self.client.start_actual_lrp(request).await
        });
    }

    /// Plays until the command ends; no index is ever without an instance that runs. Returns its output and its exit code.
    pub(crate) fn play_through(&self, command: &mut Background, luck: impl Fn(u32) -> Luck) -> (Vec<String>, i32) {
        let began = Instant::now();
        while !command.has_ended() {
            for definition in 1..10 {
                self.play(definition, luck(definition));
            }
            assert_eq!(self.running(), INSTANCES, "{:#?}", self.rows());
            assert!(began.elapsed() < PATIENCE, "it does not end: {:#?}", self.rows());
            std::thread::sleep(PAUSE);
        }
        let lines = std::iter::from_fn(|| command.line()).collect();
        (lines, command.wait().code().unwrap())
    }

    /// Waits until the status has this text.
    pub(crate) fn until_status(&self, text: &str) -> Outcome {
        let began = Instant::now();
        loop {
            let outcome = self.call(&["rollout", "status", "hello"]);
            if outcome.stdout.contains(text) {
                return outcome;
            }
            assert!(began.elapsed() < PATIENCE, "{text:?} never came: {outcome:?}");
            std::thread::sleep(PAUSE);
        }
    }

    /// The same while the cell starts whatever waits.
    pub(crate) fn play_until_status(&self, text: &str) -> Outcome {
        let began = Instant::now();
        loop {
            (1..10).for_each(|definition| self.play(definition, Luck::Runs));
            let outcome = self.call(&["rollout", "status", "hello"]);
            if outcome.stdout.contains(text) {
                return outcome;
            }
            assert!(began.elapsed() < PATIENCE, "{text:?} never came: {outcome:?}");
        }
    }
}

fn client(server: &Server) -> Client {
    Client::new(ClientConfig::once(server.flags[1].clone(), Some(PATIENCE))).unwrap()
}

fn lrp(memory_mb: i32, message: &str) -> String {
    let env = format!("\"env\":[{{\"name\":\"MESSAGE\",\"value\":\"{message}\"}}],\"memory_mb\":{memory_mb}");
    LRP.replace("\"memory_mb\":64", &env)
}

/// Times and what they push aside are hidden.
pub(crate) fn steady(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.replace("less than 1 s", "AGE");
        let words: Vec<&str> = line.split(' ').collect();
        let mut kept: Vec<String> = Vec::new();
        for word in words {
            let is_time = |word: &str| {
                word.contains(|c: char| c.is_ascii_digit())
                    && word.chars().all(|c| c.is_ascii_digit() || "-:".contains(c))
            };
            let is_last_a_number = kept.last().is_some_and(|last| last.parse::<u64>().is_ok());
            match word {
                "s" | "s," | "min" if is_last_a_number => {
                    let end = if word.ends_with(',') { "AGE," } else { "AGE" };
                    *kept.last_mut().unwrap() = end.to_owned();
                }
                word if is_time(word) && word.len() >= 8 => kept.push("TIME".to_owned()),
                word => kept.push(word.to_owned()),
            }
        }
        let indent = line.len() - line.trim_start().len();
        let text = kept.join(" ");
        let parts: Vec<&str> = text.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect();
        lines.push(format!("{}{}\n", " ".repeat(indent), parts.join("  ")));
    }
    lines.concat()
}
