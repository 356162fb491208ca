//! Clusters of etcd, of one or three members, that tests can kill, pause and restart.
//!
//! Promise: the members are real `etcd` processes from `PATH` with data in a temporary folder and ports that stay theirs
//! while they are down. All of it is gone when the cluster is dropped, when the test panics, and when the test is killed
//! (see `leash.rs`). Every call blocks, most for milliseconds; all take `&self`, so threads and tasks can share a cluster.
//!
//! Heartbeats and elections are two times faster than etcd's own, so that a lost leader costs a test about a second.

mod ctl;
pub(crate) mod leash;

use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use self::leash::Leashed;
use crate::pki::Pki;
use crate::port::Port;

const START_WAIT: Duration = Duration::from_secs(60);
const LEADER_WAIT: Duration = Duration::from_secs(30);
const POLL_PAUSE: Duration = Duration::from_millis(20);
const LOG_LINES_SHOWN: usize = 30;

/// What kind of cluster; the rest is `..Options::default()`: one member, no TLS, no users.
#[derive(Clone, Debug)]
pub struct Options {
    /// One or three.
    pub members: usize,
    /// Mutual TLS between members and with clients.
    pub tls: bool,
    /// Users are asked for, and this one, with this password, may do everything. etcd insists on a `root`: it has the same
    /// password, whatever the name here.
    pub user: Option<(String, String)>,
    /// How large the database of a member may grow before etcd raises its alarm.
    pub quota_bytes: Option<u64>,
    /// How large a request may be, where that is not etcd's own 1.5 MiB.
    pub max_request_bytes: Option<u64>,
    pub heartbeat_ms: u64,
    pub election_timeout_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            members: 1,
            tls: false,
            user: None,
            quota_bytes: None,
            max_request_bytes: None,
            heartbeat_ms: 50,
            election_timeout_ms: 500,
        }
    }
}

#[derive(Debug)]
pub struct Cluster {
    // Before the folder, so that the processes are gone when their files go.
    members: Vec<Member>,
    options: Options,
    pki: Option<Pki>,
    dir: TempDir,
}

#[derive(Debug)]
struct Member {
    client: Port,
    peer: Port,
    process: Mutex<Process>,
}

#[derive(Debug, Default)]
struct Process {
    running: Option<Leashed>,
    /// Whether it should run: a member that has ended by itself is wanted and not running.
    wanted: bool,
    paused: bool,
}

impl Cluster {
    /// Starts the members and returns when each of them answers.
    pub fn start(options: Options) -> Self {
        assert!(matches!(options.members, 1 | 3), "a cluster has one or three members, not {}", options.members);
        let dir = TempDir::new().expect("a temporary folder can be made");
        let members = (0..options.members).map(|_| Member::new()).collect();
        let cluster = Self { members, pki: options.tls.then(Pki::new), options, dir };
        (0..cluster.members.len()).for_each(|member| cluster.launch(member));
        cluster.ready(None, START_WAIT);
        if let Some(user) = &cluster.options.user {
            cluster.ask_for_users(user);
            cluster.ready(Some(user), START_WAIT);
        }
        cluster
    }

    /// The URLs for clients, of members that are down too.
    pub fn endpoints(&self) -> Vec<String> {
        (0..self.members.len()).map(|member| self.endpoint(member)).collect()
    }

    pub fn endpoint(&self, member: usize) -> String {
        format!("{}://{}", self.scheme(), self.address(member))
    }

    /// Where a member listens for clients: what a proxy in front of it needs.
    pub fn address(&self, member: usize) -> SocketAddr {
        self.members[member].client.address()
    }

    /// The authority that clients should trust.
    pub fn ca(&self) -> PathBuf {
        self.pki().path("ca.crt")
    }

    /// A client's certificate.
    pub fn cert(&self) -> PathBuf {
        self.pki().path("client.crt")
    }

    /// The key of a client's certificate.
    pub fn key(&self) -> PathBuf {
        self.pki().path("client.key")
    }

    pub fn pki(&self) -> &Pki {
        self.pki.as_ref().expect("only a cluster started with `tls: true` has certificates")
    }

    /// The process of a member that runs.
    pub fn pid(&self, member: usize) -> Option<u32> {
        self.process(member).running.as_ref().map(Leashed::id)
    }

    /// Kills a member as a power cut would, and returns when it is gone. It may be paused, or down already.
    pub fn kill(&self, member: usize) {
        *self.process(member) = Process::default();
    }

    /// Starts a member again on its data and its ports, after killing it if it runs. Does not wait until it answers.
    pub fn restart(&self, member: usize) {
        self.kill(member);
        self.launch(member);
    }

    /// Freezes a member, and returns when it does nothing more: its connections stay open and say nothing.
    pub fn pause(&self, member: usize) {
        self.process(member).halt(true);
    }

    pub fn resume(&self, member: usize) {
        self.process(member).halt(false);
    }

    /// Whether the process of a member exists, paused or not.
    pub fn is_running(&self, member: usize) -> bool {
        self.process(member).running.is_some()
    }

    /// Returns when every member that is neither down nor paused reads through the leader.
    pub fn wait_until_ready(&self, limit: Duration) {
        self.ready(self.options.user.as_ref(), limit);
    }

    /// The member that is leader and knows it, waiting for an election to end. A paused leader is not counted.
    pub fn leader(&self) -> usize {
        let deadline = Instant::now() + LEADER_WAIT;
        loop {
            let claims = self.reachable().into_iter().filter_map(|member| Some((self.claimed_term(member)?, member)));
            if let Some((_, leader)) = claims.max() {
                return leader;
            }
            assert!(Instant::now() < deadline, "no leader within {LEADER_WAIT:?}\n{}", self.logs());
            thread::sleep(POLL_PAUSE);
        }
    }

    /// What `etcdctl` prints when it talks to all members that are neither down nor paused. Panics when it fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        self.ctl_to(&self.reachable(), arguments)
    }

    /// What `etcdctl` prints when it talks to this member only. Panics when it fails.
    pub fn ctl_on(&self, member: usize, arguments: &[&str]) -> String {
        self.ctl_to(&[member], arguments)
    }

    /// The end of what each member wrote about itself.
    pub fn logs(&self) -> String {
        (0..self.members.len()).map(|member| self.log_tail(member)).collect()
    }

    /// Puts all that the members have logged into this folder.
    pub fn copy_logs(&self, folder: &Path) {
        for member in 0..self.members.len() {
            // A log that cannot be copied is missing there, and nothing else.
            let _ = std::fs::copy(self.log_path(member), folder.join(format!("etcd-m{member}.log")));
        }
    }

    fn ready(&self, user: Option<&(String, String)>, limit: Duration) {
        let deadline = Instant::now() + limit;
        let expected = self.members_where(|process| process.wanted && !process.paused);
        loop {
            let Err(reason) = self.health(&expected, user) else { return };
            for member in &expected {
                assert!(self.is_running(*member), "etcd member {member} ended by itself\n{}", self.log_tail(*member));
            }
            assert!(Instant::now() < deadline, "etcd is not ready after {limit:?}: {reason}\n{}", self.logs());
            thread::sleep(POLL_PAUSE);
        }
    }

    fn launch(&self, member: usize) {
        let log = self.log_path(member);
        let log =
            OpenOptions::new().create(true).append(true).open(&log).expect("a log can be opened in our own folder");
        *self.process(member) = Process { running: Some(self.spawn(member, &log)), wanted: true, paused: false };
    }

    fn spawn(&self, member: usize, log: &File) -> Leashed {
        Leashed::spawn("etcd", &self.arguments(member), log)
            .unwrap_or_else(|error| panic!("cannot start etcd member {member}: {error}"))
    }

    fn arguments(&self, member: usize) -> Vec<String> {
        let url = |port: &Port| format!("{}://{}", self.scheme(), port.address());
        let Member { client, peer, .. } = &self.members[member];
        let all: Vec<_> =
            self.members.iter().enumerate().map(|(at, other)| format!("m{at}={}", url(&other.peer))).collect();
        let mut flags = vec![
            ("name", format!("m{member}")),
            ("data-dir", self.dir.path().join(format!("m{member}")).display().to_string()),
            ("listen-client-urls", url(client)),
            ("advertise-client-urls", url(client)),
            ("listen-peer-urls", url(peer)),
            ("initial-advertise-peer-urls", url(peer)),
            ("initial-cluster", all.join(",")),
            ("heartbeat-interval", self.options.heartbeat_ms.to_string()),
            ("election-timeout", self.options.election_timeout_ms.to_string()),
            ("logger", "zap".to_owned()),
            ("log-outputs", "stderr".to_owned()),
        ];
        if let Some(quota) = self.options.quota_bytes {
            flags.push(("quota-backend-bytes", quota.to_string()));
        }
        if let Some(max) = self.options.max_request_bytes {
            flags.push(("max-request-bytes", max.to_string()));
        }
        if let Some(pki) = &self.pki {
            let path = |name: &str| pki.path(name).display().to_string();
            flags.extend([
                ("cert-file", path("server.crt")),
                ("key-file", path("server.key")),
                ("trusted-ca-file", path("ca.crt")),
                ("client-cert-auth", "true".to_owned()),
                ("peer-cert-file", path("server.crt")),
                ("peer-key-file", path("server.key")),
                ("peer-trusted-ca-file", path("ca.crt")),
                ("peer-client-cert-auth", "true".to_owned()),
            ]);
        }
        flags.into_iter().map(|(flag, value)| format!("--{flag}={value}")).collect()
    }

    fn scheme(&self) -> &'static str {
        if self.options.tls { "https" } else { "http" }
    }

    /// The members that can answer.
    fn reachable(&self) -> Vec<usize> {
        self.members_where(|process| process.running.is_some() && !process.paused)
    }

    fn members_where(&self, holds: impl Fn(&Process) -> bool) -> Vec<usize> {
        (0..self.members.len()).filter(|member| holds(&self.process(*member))).collect()
    }

    /// A member that has ended by itself is down from here on.
    fn process(&self, member: usize) -> MutexGuard<'_, Process> {
        let mut process = self.members[member].process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.running.as_mut().is_some_and(Leashed::has_ended) {
            process.running = None;
            process.paused = false;
        }
        process
    }

    fn log_path(&self, member: usize) -> PathBuf {
        self.dir.path().join(format!("m{member}.log"))
    }

    fn log_tail(&self, member: usize) -> String {
        let log = std::fs::read(self.log_path(member)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        format!("--- the last lines of etcd member {member}:\n{}\n", shown.join("\n"))
    }
}

impl Member {
    fn new() -> Self {
        let port = || Port::reserve().expect("loopback has a free port");
        Self { client: port(), peer: port(), process: Mutex::default() }
    }
}

impl Process {
    fn halt(&mut self, paused: bool) {
        let running = self.running.as_mut().expect("a member that is down is neither paused nor resumed");
        if paused {
            running.freeze();
        } else {
            running.thaw();
        }
        self.paused = paused;
    }
}
