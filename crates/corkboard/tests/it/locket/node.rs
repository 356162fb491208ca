//! One server as a process of its own, and what can be seen of it from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use api::client::TlsFiles;
use bbs::RunError;
use bbs::config::{Config, Limits, Locket, Migration, Outbound, Standby, Store, Timing};
use rustix::process::Signal;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::program::{Background, Outcome, run};

const ORDERS: &str = "CORKBOARD_TEST_LOCKET_NODE";
/// How long an answer may take before it is taken for none.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Node {
    pub(crate) process: Background,
    pub(crate) api: SocketAddr,
    health: SocketAddr,
}

/// Where a node is told to work.
pub(crate) struct Orders<'a> {
    pub(crate) name: &'a str,
    pub(crate) store: &'a Path,
    pub(crate) locket: SocketAddr,
    /// A folder with the authority and the pair of a client.
    pub(crate) certificates: &'a Path,
}

impl Node {
    pub(crate) fn start(orders: &Orders<'_>) -> Self {
        let (api, health) = (free_address(), free_address());
        let text = serde_json::json!({
            "name": orders.name, "store": orders.store, "locket": orders.locket, "certificates": orders.certificates,
            "api": api, "health": health,
        });
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "locket::node::the_other_process", "--nocapture", "--test-threads=1"]);
        Self { process: Background::start(command.env(ORDERS, text.to_string())), api, health }
    }

    /// Of the health port, or `None` while nobody listens there.
    pub(crate) fn health(&self, path: &str) -> Option<(u16, Value)> {
        let (status, body) = exchange(self.health, "GET", path)?;
        Some((status, serde_json::from_str(&body).unwrap()))
    }

    pub(crate) fn phase(&self) -> String {
        self.health("/status").map(|(_, status)| status["phase"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    /// The status of a read, or `None` if there is no answer.
    pub(crate) fn read(&self) -> Option<u16> {
        exchange(self.api, "POST", "/v1/domains/list").map(|(status, _)| status)
    }

    pub(crate) fn serves(&self) -> bool {
        self.read() == Some(200)
    }

    pub(crate) fn refuses_connections(&self) -> bool {
        TcpStream::connect(self.api).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Outcome {
        let url = format!("http://{}", self.api);
        run(&[args, &["--bbsURL", &url]].concat())
    }

    pub(crate) fn terminate(mut self) -> i32 {
        self.process.signal(Signal::TERM);
        self.end()
    }

    pub(crate) fn kill(mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait();
    }

    pub(crate) fn end(&mut self) -> i32 {
        self.process.wait().code().unwrap()
    }
}

/// An address that nobody has at the moment.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// One request over a connection of its own.
fn exchange(address: SocketAddr, method: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
    let head = format!("{method} {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    answer(&mut stream)
}

pub(crate) fn answer(stream: &mut TcpStream) -> Option<(u16, String)> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// The other half of these tests: a server with the orders that it finds in its environment, and none without.
#[test]
fn the_other_process() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let orders: Value = serde_json::from_str(&orders).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).unwrap();
        let stop = async move {
            terminate.recv().await;
        };
        Box::pin(bbs::run(config(&orders), stop, |_| {})).await
    });
    std::process::exit(match ended {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            if matches!(error, RunError::LockLost { .. }) { 1 } else { 5 }
        }
    });
}

fn config(orders: &Value) -> Config {
    let text = |name: &str| orders[name].as_str().unwrap();
    let certificate = |name: &str| PathBuf::from(text("certificates")).join(name);
    let tls = TlsFiles {
        ca: certificate("ca.crt"),
        cert: certificate("client.crt"),
        key: certificate("client.key"),
        skip_verify: false,
    };
    let dir = PathBuf::from(text("store"));
    Config {
        definitions_kept: 5,
        node: text("name").to_owned(),
        listen: text("api").parse().unwrap(),
        tls: None,
        health: text("health").parse().unwrap(),
        advertise_url: None,
        identity: dir.with_extension("identity"),
        store: Store::Embedded { dir },
        standby: Standby::Closed,
        timing: Timing::default(),
        limits: Limits::default(),
        task_rejections_max: 3,
        outbound: Outbound::default(),
        cells_file: None,
        migration: Migration::default(),
        encryption: None,
        newest: store::Version::LATEST,
        api_version: api::version::CURRENT,
        rollback_on_drain_to: None,
        locket: Some(Locket {
            address: text("locket").to_owned(),
            tls,
            owner: format!("owner-{}", text("name")),
            keepalive: None,
        }),
    }
}
