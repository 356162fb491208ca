//! One place where servers come and go: a store, two ports, a configuration, and who may expect an answer when.
//!
//! The addresses stay the same over all servers, as behind the name of a real one. Clients go on calling while there is none,
//! and the site keeps account of what they may meet: nothing but success while a server has answered and was not told to
//! leave.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use api::client::{Client, ClientConfig, OperatorError, Question};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use store::embedded::{Embedded, Options};
use store::record::DataVersion;
use store::root::read_root;
use tempfile::TempDir;
use tokio::sync::watch;

use super::former::{former, newest};
use crate::program::{Outcome, finish, program_at, utf8};

/// Below the ports that the system hands out, so that no outgoing connection takes one while no server has it.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Nothing here takes long, but the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Absent,
    /// It may answer 503, and says why.
    Starting,
    /// It has answered somebody.
    Serving,
    /// It was told to go, and may be gone at any moment.
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) number: usize,
    pub(crate) presence: Presence,
}

pub(crate) struct Site {
    pub(crate) dir: TempDir,
    api: SocketAddr,
    health: SocketAddr,
    pub(crate) lives: watch::Sender<Life>,
    child: Option<Child>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Former,
    Newest,
}

impl Release {
    pub(crate) fn binary(self) -> &'static Path {
        match self {
            Release::Former => former(),
            Release::Newest => newest(),
        }
    }
}

impl Site {
    pub(crate) fn new() -> Self {
        let (lives, _) = watch::channel(Life { number: 0, presence: Presence::Absent });
        Self { dir: TempDir::new().unwrap(), api: free_port(), health: free_port(), lives, child: None }
    }

    pub(crate) fn api(&self) -> SocketAddr {
        self.api
    }

    pub(crate) fn store_dir(&self) -> PathBuf {
        self.dir.path().join("board")
    }

    /// Writes the configuration. `more` are tables for it.
    pub(crate) fn configure(&self, more: &str) -> PathBuf {
        let file = self.dir.path().join("board.toml");
        let (api, health) = (self.api, self.health);
        let text = format!("listen = \"{api}\"\nhealth = \"{health}\"\n[store]\ndir = \"board\"\n{more}\n");
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Starts a release and returns once its process runs; clients may meet it before it serves.
    pub(crate) fn spawn(&mut self, release: Release, more: &str) {
        assert!(self.child.is_none(), "one server at a time");
        let file = self.configure(more);
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = program_at(release.binary(), &["bbs", "--config", utf8(&file)]);
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        self.lives.send_modify(|life| *life = Life { number: life.number + 1, presence: Presence::Starting });
    }

    /// Starts a release and waits until it serves.
    pub(crate) async fn start(&mut self, release: Release, more: &str) {
        self.spawn(release, more);
        let waiting = async {
            while self.client().ping().await.is_err() {
                assert!(self.child.as_mut().unwrap().try_wait().unwrap().is_none(), "it ended: {}", self.logged());
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "no server came up: {}", self.logged());
    }

    /// Runs a release that must not start.
    pub(crate) fn refused(&self, release: Release, more: &str) -> Outcome {
        assert!(self.child.is_none());
        finish(&mut program_at(release.binary(), &["bbs", "--config", utf8(&self.configure(more))]))
    }

    /// From here on nobody is promised an answer. Clients go on calling.
    pub(crate) fn leave(&self) {
        self.enter(Presence::Leaving);
    }

    fn enter(&self, presence: Presence) {
        self.lives.send_modify(|life| life.presence = presence);
    }

    /// SIGKILL: nothing is flushed, nothing is said.
    pub(crate) fn kill(&mut self) {
        self.leave();
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        self.enter(Presence::Absent);
    }

    /// SIGTERM, and the exit code.
    pub(crate) async fn terminate(&mut self) -> i32 {
        self.leave();
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), Signal::TERM).unwrap();
        self.ended().await
    }

    /// Waits for a server that was told to go, and gives its exit code.
    pub(crate) async fn ended(&mut self) -> i32 {
        let mut child = self.child.take().unwrap();
        let waiting = async {
            loop {
                match child.try_wait().unwrap() {
                    Some(status) => break status,
                    None => tokio::time::sleep(LOOK_AGAIN).await,
                }
            }
        };
        let Ok(status) = tokio::time::timeout(PATIENCE, waiting).await else {
            self.child = Some(child);
            panic!("it did not end: {}", self.logged());
        };
        self.enter(Presence::Absent);
        status.code().expect("it was not killed")
    }

    pub(crate) fn client(&self) -> Client {
        let url = format!("http://{}", self.api);
        Client::new(ClientConfig::once(url, Some(CALL_TIMEOUT))).unwrap()
    }

    /// A command of the newest release, about this server.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        let url = format!("http://{}", self.api);
        finish(&mut program_at(newest(), &[args, &["--bbsURL", &url]].concat()))
    }

    /// The same without a server, on the store.
    pub(crate) fn run_on_store(&self, args: &[&str]) -> Outcome {
        let file = self.configure("");
        finish(&mut program_at(newest(), &[args, &["--config", utf8(&file)]].concat()))
    }

    /// A document of the operator's API.
    pub(crate) async fn ask(&self, path: &str) -> Result<Value, OperatorError> {
        let document = self.client().ask(&Question::get(&format!("/corkboard/v1/{path}"), &[])).await?;
        Ok(serde_json::from_slice(&document).unwrap())
    }

    pub(crate) async fn state(&self) -> String {
        self.ask("migration").await.unwrap()["state"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn until_state(&self, wanted: &str) {
        let looking = async {
            while self.state().await != wanted {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, looking).await;
        assert!(found.is_ok(), "{wanted} did not come: {:?}\n{}", self.ask("migration").await, self.logged());
    }

    /// What happened, by name.
    pub(crate) async fn history(&self) -> Vec<String> {
        let history = self.ask("history").await.unwrap();
        let entries = history["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["what"].as_str().unwrap().to_owned()).collect()
    }

    /// The store itself, while no server has it.
    pub(crate) fn store(&self) -> Embedded {
        assert!(self.child.is_none());
        Embedded::open(self.store_dir(), Options::default()).unwrap()
    }

    /// Current and target version of the store, while no server has it.
    pub(crate) async fn versions(&self) -> (DataVersion, DataVersion) {
        let record = read_root(&self.store()).await.unwrap().version.unwrap();
        (record.current, record.target)
    }

    /// Until convergence has looked so many times more.
    pub(crate) async fn passes(&self, more: u64) {
        let until = self.passed().await + more;
        while self.passed().await < until {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn passed(&self) -> u64 {
        let url = format!("http://{}", self.health);
        let config = ClientConfig::once(url, Some(CALL_TIMEOUT));
        let metrics = Client::new(config).unwrap().ask(&Question::get("/metrics", &[])).await.unwrap();
        let metrics = String::from_utf8(metrics.to_vec()).unwrap();
        let line = metrics.lines().find(|line| line.contains("convergence_lrp_runs_total ")).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }
}

/// What a command that succeeded has printed.
pub(crate) fn done(outcome: &Outcome) -> &str {
    assert_eq!(outcome.code, 0, "{outcome:?}");
    &outcome.stdout
}

impl Drop for Site {
    fn drop(&mut self) {
        // A test that panics must not panic again here, and its clients need not either.
        self.leave();
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if !std::thread::panicking() {
            assert!(!self.logged().contains("panicked"), "{}", self.logged());
        }
    }
}

/// Processes that test at the same time begin at different places.
pub(crate) fn free_port() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id().wrapping_mul(16) as u16;
    for _ in PORTS {
        let at = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        let address = SocketAddr::from(([127, 0, 0, 1], PORTS.start + at));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port is free")
}
