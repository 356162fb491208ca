//! A place for Diego's BBS: certificates, its file, a link with its name, and the process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

use api::client::TlsFiles;
use rig::pki::Pki;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::logs::lager;
use crate::program::{program_at, utf8};

const PASSPHRASE: &str = "correct-horse-battery-staple";
const PASSWORD: &str = "hunter2";
/// What nothing may show.
pub(super) const SECRETS: [&str; 2] = [PASSPHRASE, PASSWORD];

pub(super) struct Site {
    pub(super) pki: Pki,
    /// A Locket of its own runs in it.
    _runtime: Runtime,
}

impl Site {
    /// With the least that the Go BBS starts with, and `changes` to it; `null` takes a key out.
    pub(super) fn new(changes: &Value) -> Self {
        let pki = Pki::new();
        let (runtime, locket) = locket(&pki);
        let path = |name: &str| utf8(&pki.path(name)).to_owned();
        let mut file = json!({
            "session_name": "bbs", "log_level": "info", "uuid": "bbs-0",
            "listen_address": "127.0.0.1:0", "health_address": "127.0.0.1:0",
            "corkboard_store": path("board"),
            "database_driver": "postgres",
            "database_connection_string": format!("postgres://diego:{PASSWORD}@127.0.0.1:1/diego"),
            "active_key_label": "key-1", "encryption_keys": { "key-1": PASSPHRASE },
            "ca_file": path("ca.crt"), "cert_file": path("server.crt"), "key_file": path("server.key"),
            "locket_address": locket.to_string(), "locket_ca_cert_file": path("ca.crt"),
            "locket_client_cert_file": path("client.crt"), "locket_client_key_file": path("client.key"),
            "auctioneer_address": "http://127.0.0.1:1",
            "report_interval": "1m"
        });
        for (key, value) in changes.as_object().unwrap() {
            file[key] = value.clone();
        }
        let site = Self { pki, _runtime: runtime };
        std::fs::write(site.file(), serde_json::to_string_pretty(&file).unwrap()).unwrap();
        // As BOSH renders it.
        std::fs::set_permissions(site.file(), std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink(env!("CARGO_BIN_EXE_corkboard"), site.pki.path("bbs")).unwrap();
        site
    }

    pub(super) fn file(&self) -> PathBuf {
        self.pki.path("bbs.json")
    }

    /// The program under Diego's name.
    pub(super) fn start(&self, args: &[&str]) -> Bbs {
        let mut command = program_at(&self.pki.path("bbs"), args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Bbs { child, out }
    }

    pub(super) fn masked(&self, text: &str) -> String {
        text.replace(utf8(self.pki.dir.path()), "DIR")
    }
}

fn locket(pki: &Pki) -> (Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let path = |name: &str| pki.path(name);
    let tls = TlsFiles { ca: path("ca.crt"), cert: path("server.crt"), key: path("server.key"), skip_verify: false };
    let config = locket::Config { listen: "127.0.0.1:0".parse().unwrap(), tls };
    let (tell, told) = oneshot::channel();
    let ready = |address| tell.send(address).unwrap();
    runtime.spawn(locket::serve(config, std::sync::Arc::new(locket::Desk::default()), std::future::pending(), ready));
    (runtime, told.blocking_recv().unwrap())
}

/// A process that speaks lager. Dropping it kills it.
pub(super) struct Bbs {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Bbs {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        let bytes = self.out.read_line(&mut line).unwrap();
        (bytes > 0).then(|| lager(&line))
    }

    /// All lines up to the first with this message.
    pub(super) fn lines_until(&mut self, message: &str) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            let is_last = line["message"] == message;
            lines.push(line);
            if is_last {
                return lines;
            }
        }
        panic!("the log ended after {lines:#?}, and on stderr: {}", self.end().1);
    }

    /// All lines up to the end.
    pub(super) fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.line()).collect()
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The exit code, and everything on stderr.
    pub(super) fn end(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

impl Drop for Bbs {
    fn drop(&mut self) {
        // It may have ended already, and a test that panics must not panic again here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a server answers to the simplest of questions.
pub(super) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
