//! The cluster: three members of etcd, NATS, two state servers, two Lockets, two auctioneers, three cells, two emitters of
//! routes and one router, each a process of its own, TLS between all of them.
//!
//! Promise: addresses stay the same over all lives of a process and are nobody else's, because every suite that runs has a part
//! of loopback of its own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::client::{Client, ClientConfig, Question, Retry, TlsFiles};
use rig::etcd::Cluster;
use rig::nats::Server;
use rig::pki::Pki;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::configs::{Board, Ground, Identity};
use crate::fleet::{Binaries, Fleet, Release};
use crate::switch::Switch;

pub(crate) const BOARDS: [&str; 2] = ["board-1", "board-2"];
pub(crate) const LOCKETS: [&str; 2] = ["locket-1", "locket-2"];
pub(crate) const BRAINS: [&str; 2] = ["brain-1", "brain-2"];
pub(crate) const CELLS: [&str; 3] = ["cell-1", "cell-2", "cell-3"];
pub(crate) const EMITTERS: [&str; 2] = ["emitter-1", "emitter-2"];
pub(crate) const ROUTER: &str = "router";

/// Longer than anything takes, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);
/// A call of the suite itself may meet a change of masters.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const PORT_MIN: u16 = 8_000;

pub(crate) struct World {
    pub(crate) fleet: Arc<Fleet>,
    supervisor: JoinHandle<()>,
    pub(crate) etcd: Cluster,
    pub(crate) nats: Server,
    pki: Pki,
    ground: Ground,
    board: Mutex<Board>,
    /// The state servers' API and health, in the order of [`BOARDS`].
    doors: Vec<(SocketAddr, SocketAddr)>,
    /// Where each auctioneer listens while it holds the lock.
    brains: Vec<SocketAddr>,
    _switch: Switch,
    pub(crate) router: SocketAddr,
    router_health: SocketAddr,
    pub(crate) callbacks: SocketAddr,
    /// Where each of the other programs answers as soon as it is there.
    healths: Mutex<BTreeMap<String, SocketAddr>>,
    pub(crate) folder: PathBuf,
    /// Sits out a change of masters.
    pub(crate) client: Client,
}

impl World {
    /// Starts everything as the former release and waits until all of it takes part.
    pub(crate) async fn start(folder: &Path, binaries: &Binaries) -> anyhow::Result<Self> {
        let (etcd, nats) = tokio::task::spawn_blocking(|| {
            let etcd = Cluster::start(rig::etcd::Options { members: 3, tls: true, ..Default::default() });
            (etcd, Server::start(rig::nats::Options { tls: true, ..Default::default() }))
        })
        .await?;
        let fleet = Fleet::new(folder, binaries)?;
        let pki = Pki::new();
        pki.pair("node", &[&address().ip().to_string()]);
        let doors: Vec<_> = BOARDS.iter().map(|_| (address(), address())).collect();
        let boards: Vec<_> = doors.iter().map(|(api, _)| format!("https://{api}")).collect();
        let ground = Ground {
            ours: identity(&pki, "node"),
            etcd: identity(etcd.pki(), "client"),
            etcd_endpoints: etcd.endpoints(),
            nats: identity(nats.pki(), "client"),
            nats_url: nats.url(),
            boards: boards.clone(),
            lockets: LOCKETS.map(|_| address()).to_vec(),
            auctioneer: address(),
        };
        let brains: Vec<_> = BRAINS.iter().map(|_| address()).collect();
        let file = |name: &str| pki.path(name);
        let tls =
            TlsFiles { ca: file("ca.crt"), cert: file("client.crt"), key: file("client.key"), skip_verify: false };
        let config = ClientConfig {
            urls: boards,
            tls: Some(tls),
            name: "suite".into(),
            timeout: Some(CALL_TIMEOUT),
            ..ClientConfig::new("")
        };
        let world = Self {
            supervisor: fleet.supervise(),
            fleet,
            etcd,
            nats,
            pki,
            board: Mutex::new(Board { keys: "A", active_key: 'A' }),
            doors,
            _switch: Switch::open(ground.auctioneer, brains.clone()).await?,
            brains,
            ground,
            router: address(),
            router_health: address(),
            callbacks: address(),
            healths: Mutex::default(),
            folder: folder.to_owned(),
            client: Client::new(config)?,
        };
        world.launch().await?;
        Ok(world)
    }

    async fn launch(&self) -> anyhow::Result<()> {
        for key in ["key.A", "key.B"] {
            let path = self.folder.join(key);
            self.run(Release::Present, &["keys", "generate", "--out", &path.display().to_string()]).await?;
        }
        let (fleet, ground) = (&self.fleet, &self.ground);
        self.write_boards()?;
        let program = |word: &str, name: &str| vec![word.to_owned(), "--config".to_owned(), format!("{name}.toml")];
        for name in BOARDS {
            fleet.add(name, Release::Former, program("bbs", name))?;
        }
        for (locket, (listen, board)) in LOCKETS.iter().zip(ground.lockets.iter().zip(BOARDS)) {
            let mut arguments = program("locket", board);
            arguments.extend(["--listen".to_owned(), listen.to_string()]);
            self.set_health(locket, *listen);
            fleet.add(locket, Release::Former, arguments)?;
        }
        for (name, listen) in BRAINS.iter().zip(&self.brains) {
            self.write(name, &ground.auctioneer(name, *listen, self.health(name)))?;
            fleet.add(name, Release::Former, program("auctioneer", name))?;
        }
        for (name, index) in CELLS.iter().zip(0..) {
            self.write(name, &ground.cell(name, index, address(), self.health(name)))?;
            fleet.add(name, Release::Former, program("cell", name))?;
        }
        for name in EMITTERS {
            self.write(name, &ground.emitter(name, self.health(name)))?;
            fleet.add(name, Release::Former, program("route-emitter", name))?;
        }
        self.write(ROUTER, &ground.router(self.router, self.router_health))?;
        fleet.add(ROUTER, Release::Former, program("router", ROUTER))?;
        self.set_health(ROUTER, self.router_health);
        for name in BOARDS {
            self.until_board_takes_part(name).await?;
        }
        for name in LOCKETS.iter().chain(&BRAINS).chain(&CELLS).chain(&EMITTERS).chain(&[ROUTER]) {
            self.until_there(name).await?;
        }
        self.until_cells_are(&CELLS).await
    }

    /// A new address for a program's health.
    fn health(&self, name: &str) -> SocketAddr {
        let health = address();
        self.set_health(name, health);
        health
    }

    fn set_health(&self, name: &str, health: SocketAddr) {
        self.healths.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), health);
    }

    /// Until a program that is no state server accepts connections.
    pub(crate) async fn until_there(&self, name: &str) -> anyhow::Result<()> {
        let health = self.healths.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        let health = health.with_context(|| format!("nobody is called {name}"))?;
        let there = async || tokio::net::TcpStream::connect(health).await.is_ok();
        let waited = until(&format!("{name} is there"), PATIENCE, there).await;
        waited.with_context(|| self.fleet.tail(name)).map(drop)
    }

    /// From their next start on.
    pub(crate) fn set_board(&self, change: impl FnOnce(&mut Board)) -> anyhow::Result<()> {
        change(&mut self.board.lock().unwrap_or_else(PoisonError::into_inner));
        self.write_boards()
    }

    fn write_boards(&self) -> anyhow::Result<()> {
        let board = self.board.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, (api, health)) in BOARDS.iter().zip(&self.doors) {
            self.write(name, &self.ground.board(name, *api, *health, &board))?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(self.folder.join(format!("{name}.toml")), text)?)
    }

    /// A command of the operator, which must end well. Gives what it printed.
    pub(crate) async fn run(&self, release: Release, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(self.fleet.binary(release));
        command.args(arguments).env_clear().env("CORKBOARD_LOG", "warn").stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let trouble = String::from_utf8_lossy(&output.stderr);
            bail!("corkboard {} ended with {}: {trouble}{said}", arguments.join(" "), output.status);
        }
        Ok(said)
    }

    /// The same, to the state server that is master.
    pub(crate) async fn tell_master(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let master = self.master().await?;
        let mut all: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        all.extend(["--bbsURL".to_owned(), format!("https://{}", self.doors_of(master)?.0)]);
        all.extend(self.pki.client_flags());
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        self.run(Release::Present, &all).await
    }

    fn doors_of(&self, board: &str) -> anyhow::Result<(SocketAddr, SocketAddr)> {
        let at =
            BOARDS.iter().position(|name| *name == board).with_context(|| format!("{board} is no state server"))?;
        Ok(self.doors[at])
    }

    /// What a state server says about itself, whatever its phase; nothing if it does not answer.
    pub(crate) async fn status(&self, board: &str) -> Option<Value> {
        ask(self.doors_of(board).ok()?.1, "/status").await
    }

    /// The state server that serves, waiting for one.
    pub(crate) async fn master(&self) -> anyhow::Result<&'static str> {
        let mut serving = None;
        until("a state server serves", PATIENCE, async || {
            for name in BOARDS {
                if self.status(name).await.is_some_and(|status| status["phase"] == "serving") {
                    serving = Some(name);
                }
            }
            serving.is_some()
        })
        .await?;
        serving.context("it was there just now")
    }

    pub(crate) async fn standby(&self) -> anyhow::Result<&'static str> {
        let master = self.master().await?;
        BOARDS.into_iter().find(|name| *name != master).context("there are two")
    }

    /// Until this one serves, or waits with all records in memory.
    pub(crate) async fn until_board_takes_part(&self, name: &str) -> anyhow::Result<()> {
        let taking_part = async || {
            let status = self.status(name).await.unwrap_or_default();
            status["phase"] == "serving" || status["standby"]["warm"] == true
        };
        let waited = until(&format!("{name} takes part"), PATIENCE, taking_part).await;
        waited.with_context(|| self.fleet.tail(name)).map(drop)
    }

    /// Until the state server lists exactly these cells.
    pub(crate) async fn until_cells_are(&self, wanted: &[&str]) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        let so = async || {
            let cells = self.client.cells().await.unwrap_or_default();
            seen = cells.into_iter().map(|cell| cell.cell_id).collect();
            seen.sort();
            seen == wanted
        };
        let waited = until(&format!("the cells are {wanted:?}"), PATIENCE, so).await.map(drop);
        waited.with_context(|| format!("they are {seen:?}"))
    }

    /// What the master tells at a path of the operator's API.
    pub(crate) async fn ask_master(&self, path: &str) -> anyhow::Result<Value> {
        let question = Question::get(&format!("/corkboard/v1/{path}"), &[]);
        Ok(serde_json::from_slice(&self.client.ask(&question).await?)?)
    }

    /// Until what the master tells there is in this state.
    pub(crate) async fn until_state(&self, path: &str, wanted: &str) -> anyhow::Result<()> {
        let mut seen = Value::Null;
        let so = async || {
            seen = self.ask_master(path).await.unwrap_or_default();
            seen["state"] == wanted
        };
        let waited = until(&format!("{path} is {wanted}"), PATIENCE, so).await.map(drop);
        waited.with_context(|| format!("it is {seen:#}"))
    }

    /// The router's table.
    pub(crate) async fn routes(&self) -> Value {
        ask(self.router_health, "/routes").await.unwrap_or_default()
    }

    /// A client that tries each state server once and gives up soon, to measure how long nobody answers.
    pub(crate) fn impatient(&self, timeout: Duration) -> Client {
        self.client.with_retry(Retry::once()).with_timeout(Some(timeout))
    }

    /// Keeps what etcd and NATS have logged, beside the logs of the rest.
    pub(crate) fn keep_logs(&self) {
        let logs = self.folder.join("logs");
        self.etcd.copy_logs(&logs);
        self.nats.copy_log(&logs);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

/// Looks until it is so, and says how long that took.
pub(crate) async fn until(what: &str, limit: Duration, mut so: impl AsyncFnMut() -> bool) -> anyhow::Result<Duration> {
    let began = Instant::now();
    while !so().await {
        if began.elapsed() > limit {
            bail!("not so within {limit:?}: {what}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(began.elapsed())
}

async fn ask(health: SocketAddr, path: &str) -> Option<Value> {
    let client = Client::new(ClientConfig::once(format!("http://{health}"), Some(HEALTH_TIMEOUT))).ok()?;
    serde_json::from_slice(&client.ask(&Question::get(path, &[])).await.ok()?).ok()
}

fn identity(pki: &Pki, name: &str) -> Identity {
    let path = |file: &str| pki.path(file).display().to_string();
    Identity { ca: path("ca.crt"), cert: path(&format!("{name}.crt")), key: path(&format!("{name}.key")) }
}

/// An address that is nobody else's, also while nobody listens there. Asking the system for a free port would not do, because
/// the port of a server that waits or is down looks free.
fn address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(PORT_MIN);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, high + 1, middle, low);
    SocketAddr::from((ip, NEXT.fetch_add(1, Ordering::Relaxed)))
}
