//! Several real servers on one etcd cluster, and whoever keeps them running.
//!
//! Promise: addresses and names stay the same over all lives of a node. How every process ended is looked at: with 0 when it
//! was told to stop, with 9 when it lost its mastership, by the signal that the test sent, and in no other way but those that the
//! test has announced. When a test
//! fails, the ends of all logs are shown.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use api::client::{Client, ClientConfig, Question, Retry, TlsFiles};
use rig::etcd::{Cluster, Options};
use rig::proxy::Proxy;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use super::say;
use crate::program::{program_at, run, utf8};
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE, Release};

const NODES: usize = 3;
/// The shortest that a server takes.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How long a health port may take to answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// What a server ends with that lost its mastership.
const EXIT_DEPOSED: i32 = 9;
const PORT_MIN: u16 = 8_000;
const LOG_LINES_SHOWN: usize = 25;

/// What the nodes stand on.
#[derive(Default)]
pub(crate) struct Plan {
    /// With `tls`, the API has it too.
    pub(crate) etcd: Options,
    /// Every node reaches every member over a line of its own that can be cut.
    pub(crate) has_lines: bool,
    /// At the top of each configuration.
    pub(crate) keys: &'static str,
    /// At the end of each configuration.
    pub(crate) tables: &'static str,
}

pub(crate) struct Nodes {
    // Before the cluster, so that nobody is left without a store.
    nodes: Vec<Node>,
    lives: Arc<[AtomicUsize]>,
    pub(crate) etcd: Cluster,
    plan: Plan,
    pub(crate) dir: TempDir,
}

pub(crate) struct Node {
    /// What it calls itself.
    pub(crate) name: String,
    api: SocketAddr,
    health: SocketAddr,
    /// To the members of the cluster, if there are any.
    pub(crate) lines: Vec<Proxy>,
    child: Option<Child>,
    fate: Fate,
    /// What is put before the program, such as variables of its environment.
    pub(crate) environment: Vec<(String, String)>,
    /// What runs from its next start on.
    pub(crate) release: Release,
    /// The end of its configuration from its next start on, where it has another one than the rest.
    pub(crate) tables: Option<String>,
    /// With which codes it may end beside the usual ones.
    pub(crate) may_end_with: Vec<i32>,
}

/// What the test has done to a process last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    LeftAlone,
    Paused,
    ToldToStop,
    Killed,
}

impl Nodes {
    /// Starts all of them and waits until one serves.
    pub(crate) async fn start(plan: Plan) -> Self {
        let mut nodes = Self::prepare(plan);
        nodes.start_all().await;
        nodes
    }

    pub(crate) async fn start_all(&mut self) {
        self.all().for_each(|at| self.restart(at));
        self.master().await;
    }

    /// Everything but the processes.
    pub(crate) fn prepare(plan: Plan) -> Self {
        let dir = TempDir::new().unwrap();
        let etcd = Cluster::start(plan.etcd.clone());
        if plan.etcd.tls {
            etcd.pki().pair("node", &[&own_address().ip().to_string()]);
        }
        let made = run(&["keys", "generate", "--out", utf8(&dir.path().join("key"))]);
        assert_eq!(made.code, 0, "{made:?}");
        let members = if plan.has_lines { plan.etcd.members } else { 0 };
        let node = |at: usize| Node {
            name: format!("n{at}"),
            api: own_address(),
            health: own_address(),
            lines: (0..members).map(|member| Proxy::to(etcd.address(member))).collect(),
            child: None,
            fate: Fate::Killed,
            environment: Vec::new(),
            release: Release::Newest,
            tables: None,
            may_end_with: Vec::new(),
        };
        let nodes: Vec<Node> = (0..NODES).map(node).collect();
        let lives = (0..NODES).map(|_| AtomicUsize::new(0)).collect();
        Self { nodes, lives, etcd, plan, dir }
    }

    pub(crate) fn all(&self) -> std::ops::Range<usize> {
        0..self.nodes.len()
    }

    pub(crate) fn node(&mut self, at: usize) -> &mut Node {
        &mut self.nodes[at]
    }

    /// How often each node was started. A process is master once at most, so this tells whose answer it was.
    pub(crate) fn lives(&self) -> Arc<[AtomicUsize]> {
        self.lives.clone()
    }

    pub(crate) fn api(&self, at: usize) -> SocketAddr {
        self.nodes[at].api
    }

    fn scheme(&self) -> &'static str {
        if self.plan.etcd.tls { "https" } else { "http" }
    }

    pub(crate) fn url(&self, at: usize) -> String {
        format!("{}://{}", self.scheme(), self.nodes[at].api)
    }

    pub(crate) fn health_url(&self, at: usize) -> String {
        format!("http://{}", self.nodes[at].health)
    }

    pub(crate) fn client(&self, at: usize, timeout: Duration) -> Client {
        let file = |name: &str| self.etcd.pki().path(name);
        let tls = self.plan.etcd.tls.then(|| TlsFiles {
            ca: file("ca.crt"),
            cert: file("client.crt"),
            key: file("client.key"),
            skip_verify: false,
        });
        // A redirect is an answer here: what a node says is held against that node.
        let retry = Retry { redirects_max: 0, ..Retry::once() };
        Client::new(ClientConfig { tls, retry, ..ClientConfig::once(self.url(at), Some(timeout)) }).unwrap()
    }

    /// One for each node.
    pub(crate) fn clients(&self, timeout: Duration) -> Vec<Client> {
        self.all().map(|at| self.client(at, timeout)).collect()
    }

    /// Writes the configuration with which this node would start.
    pub(crate) fn configure(&self, at: usize) -> PathBuf {
        let Plan { etcd, keys, .. } = &self.plan;
        let Node { name, api, health, lines, tables, .. } = &self.nodes[at];
        let usual = || format!("[encryption]\nactive = \"A\"\nkeys.A = {{ file = \"key\" }}\n{}", self.plan.tables);
        let tables = tables.clone().unwrap_or_else(usual);
        let endpoints = if lines.is_empty() {
            self.etcd.endpoints()
        } else {
            lines.iter().map(|line| line.url(self.scheme())).collect()
        };
        let tls_of = |table: &str, cert: &str| {
            let path = |file: &str| self.etcd.pki().path(file).display().to_string();
            let (ca, cert, key) = (path("ca.crt"), path(&format!("{cert}.crt")), path(&format!("{cert}.key")));
            format!("{table}ca = {ca:?}\ncert = {cert:?}\nkey = {key:?}\n")
        };
        let (to_etcd, to_clients) =
            if etcd.tls { (tls_of("", "client"), tls_of("[tls]\n", "node")) } else { Default::default() };
        let text = format!(
            "node = \"{name}\"\nlisten = \"{api}\"\nhealth = \"{health}\"\nadvertise = \"{}\"\nidentity = \"n{at}.identity\"\n\
             {keys}\n[store]\nengine = \"etcd\"\nlease = \"{}s\"\nendpoints = {endpoints:?}\n{to_etcd}{to_clients}\
             {tables}\n",
            self.url(at),
            LEASE.as_secs(),
        );
        let file = self.dir.path().join(format!("n{at}.toml"));
        // Somebody may be reading it.
        let new = file.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &file).unwrap();
        file
    }

    /// What would run as this node.
    pub(crate) fn command(&self, at: usize) -> Command {
        let binary = self.nodes[at].release.binary();
        let mut command = program_at(binary, &["bbs", "--config", utf8(&self.configure(at))]);
        command.env("CORKBOARD_LOG", "info").envs(self.nodes[at].environment.iter().cloned());
        command
    }

    /// Starts a node that does not run. It waits for its turn.
    pub(crate) fn restart(&mut self, at: usize) {
        assert!(self.nodes[at].child.is_none(), "n{at} runs already");
        let life = self.lives[at].fetch_add(1, Ordering::SeqCst) + 1;
        let log = File::create(self.log_path(at, life)).unwrap();
        let child = self.command(at).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let node = &mut self.nodes[at];
        (node.child, node.fate) = (Some(child), Fate::LeftAlone);
    }

    /// SIGKILL: nothing is flushed, nothing is said.
    pub(crate) fn kill(&mut self, at: usize) {
        self.signal(at, Signal::KILL, Fate::Killed);
        let status = self.nodes[at].child.take().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "n{at} had ended before: {status}\n{}", self.logs());
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(&mut self, at: usize) {
        self.tell_to_stop(at);
        self.ended(at).await;
    }

    pub(crate) fn tell_to_stop(&mut self, at: usize) {
        self.signal(at, Signal::TERM, Fate::ToldToStop);
    }

    /// SIGSTOP, and returns when nothing of it runs any more.
    pub(crate) fn pause(&mut self, at: usize) {
        self.signal(at, Signal::STOP, Fate::Paused);
        let child = self.nodes[at].child.as_ref().unwrap();
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(child)), stopped).unwrap();
    }

    pub(crate) fn resume(&mut self, at: usize) {
        self.signal(at, Signal::CONT, Fate::LeftAlone);
    }

    fn signal(&mut self, at: usize, signal: Signal, fate: Fate) {
        let node = &mut self.nodes[at];
        kill_process(Pid::from_child(node.child.as_ref().unwrap()), signal).unwrap();
        node.fate = fate;
    }

    /// Waits for a process that ends by itself or because it was told to, and gives its exit code.
    pub(crate) async fn ended(&mut self, at: usize) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(code) = self.reap(at) {
                return code;
            }
            assert!(Instant::now() < deadline, "n{at} did not end\n{}", self.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits for an ex-master that was left alone: it ends with 9, and says so in one sentence.
    pub(crate) async fn deposed(&mut self, at: usize) {
        assert_eq!(self.ended(at).await, EXIT_DEPOSED, "{}", self.logs());
        let log = self.log(at);
        let sentences =
            log.lines().filter(|line| line.contains("this server is no longer master, so it stopped at once"));
        assert_eq!(sentences.count(), 1, "{log}");
    }

    /// The exit code, if the process has ended, in a way that may be.
    fn reap(&mut self, at: usize) -> Option<i32> {
        let status = self.nodes[at].child.as_mut()?.try_wait().unwrap()?;
        self.nodes[at].child = None;
        Some(self.judge(at, status))
    }

    fn judge(&self, at: usize, status: ExitStatus) -> i32 {
        let fate = self.nodes[at].fate;
        let allowed: &[i32] = match fate {
            Fate::ToldToStop => &[0, EXIT_DEPOSED],
            _ => &[EXIT_DEPOSED],
        };
        match status.code() {
            Some(code) if allowed.contains(&code) || self.nodes[at].may_end_with.contains(&code) => code,
            // Told to stop before it was there to hear it.
            None if fate == Fate::ToldToStop && self.log(at).is_empty() => 0,
            _ => panic!("n{at} ended with {status} ({fate:?})\n{}", self.logs()),
        }
    }

    /// The node that serves, waiting for one.
    pub(crate) async fn master(&mut self) -> usize {
        self.master_after(0).await
    }

    /// The next master after the one with this epoch, waiting until it serves. Nodes that ended by themselves are started
    /// again meanwhile, as they would be.
    pub(crate) async fn master_after(&mut self, epoch: u64) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for at in self.all() {
                if self.nodes[at].fate == Fate::LeftAlone && self.reap(at) == Some(EXIT_DEPOSED) {
                    say(&format!("n{at} lost its mastership and is started again"));
                    self.restart(at);
                }
            }
            let mut newest = None;
            for at in self.all() {
                if self.phase(at).await.as_deref() == Some("serving") {
                    newest = newest.max(self.epoch(at, self.life(at)).map(|epoch| (epoch, at)));
                }
            }
            if let Some((_, at)) = newest.filter(|(newest, _)| *newest > epoch) {
                return at;
            }
            assert!(Instant::now() < deadline, "nobody serves\n{}", self.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// The epoch of this master.
    pub(crate) fn epoch_now(&self, at: usize) -> u64 {
        self.epoch(at, self.life(at)).expect("a node that serves was elected")
    }

    /// Some node that is not the master.
    pub(crate) async fn standby(&mut self) -> usize {
        let master = self.master().await;
        self.all().find(|at| *at != master && self.nodes[*at].child.is_some()).unwrap()
    }

    async fn phase(&self, at: usize) -> Option<String> {
        let status = self.ask_health(at, "/status").await?;
        Some(status["phase"].as_str()?.to_owned())
    }

    /// A document of the health port; nothing if the node does not answer.
    pub(crate) async fn ask_health(&self, at: usize, path: &str) -> Option<Value> {
        serde_json::from_str(&self.health_text(at, path).await?).ok()
    }

    async fn health_text(&self, at: usize, path: &str) -> Option<String> {
        let node = &self.nodes[at];
        if node.child.is_none() || node.fate == Fate::Paused {
            return None;
        }
        let url = self.health_url(at);
        let config = ClientConfig::once(url, Some(STATUS_TIMEOUT));
        let document = Client::new(config).unwrap().ask(&Question::get(path, &[])).await.ok()?;
        String::from_utf8(document.to_vec()).ok()
    }

    /// Until convergence has looked so many times more on this master.
    pub(crate) async fn passes(&self, at: usize, more: u64) {
        let mut until = None;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let metrics = self.health_text(at, "/metrics").await.unwrap_or_default();
            let line = metrics.lines().find_map(|line| line.split_once("convergence_lrp_runs_total "));
            let passed = line.map_or(0, |(_, count)| count.parse::<u64>().unwrap());
            if passed >= *until.get_or_insert(passed + more) {
                return;
            }
            assert!(Instant::now() < deadline, "convergence stands still\n{}", self.logs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Stops everybody who runs, in order.
    pub(crate) async fn finish(mut self) {
        for at in self.all() {
            if self.nodes[at].child.is_some() {
                self.stop(at).await;
            }
        }
        let logs = self.lines_where(|line| line.contains("panicked"));
        assert!(logs.is_empty(), "{logs:?}");
    }

    pub(crate) fn life(&self, at: usize) -> usize {
        self.lives[at].load(Ordering::SeqCst)
    }

    /// The fencing epoch under which this life of a node was master, if it was.
    pub(crate) fn epoch(&self, at: usize, life: usize) -> Option<u64> {
        let log = std::fs::read_to_string(self.log_path(at, life)).unwrap_or_default();
        let elected: Vec<u64> = log.lines().filter_map(epoch_of).collect();
        assert!(elected.len() <= 1, "n{at} was master twice in one life: {elected:?}");
        elected.first().copied()
    }

    /// What this node logged in its present life.
    pub(crate) fn log(&self, at: usize) -> String {
        std::fs::read_to_string(self.log_path(at, self.life(at))).unwrap_or_default()
    }

    fn log_path(&self, at: usize, life: usize) -> PathBuf {
        self.dir.path().join(format!("n{at}.{life}.log"))
    }

    fn lines_where(&self, holds: impl Fn(&str) -> bool) -> Vec<String> {
        let logs = self.all().flat_map(|at| (1..=self.life(at)).map(move |life| (at, life)));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let mut lines = Vec::new();
        for (at, life) in logs {
            let text = read(&self.log_path(at, life));
            lines.extend(text.lines().filter(|line| holds(line)).map(|line| format!("n{at}.{life}: {line}")));
        }
        lines
    }

    /// The ends of the logs of all nodes.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        for at in self.all() {
            for life in self.life(at).saturating_sub(1).max(1)..=self.life(at) {
                let log = std::fs::read_to_string(self.log_path(at, life)).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
                text.push_str(&format!("--- n{at}, life {life}:\n{}\n", shown.join("\n")));
            }
        }
        text
    }
}

/// An address that is nobody else's, also while nobody listens there: every process that tests has a part of loopback of its
/// own. Asking the system for a free port would not do, because the port of a server that waits or is down looks free.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(PORT_MIN);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, high + 1, middle, low);
    SocketAddr::from((ip, NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn epoch_of(line: &str) -> Option<u64> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line["message"] == "this server is master").then(|| line["epoch"].as_u64().unwrap())
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut child) = node.child.take() {
                // It may have ended already, and a test that panics must not panic again here.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if std::thread::panicking() {
            say(&self.logs());
            say(&self.etcd.logs());
        }
    }
}
