//! A NATS server that tests can kill, pause and restart.
//!
//! Promise: it is a real `nats-server` process from `PATH`, on a port that stays its own while it is down. It is gone when
//! the value is dropped, when the test panics, and when the test is killed. Every call blocks, for milliseconds.

use std::fs::OpenOptions;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use crate::etcd::leash::Leashed;
use crate::pki::Pki;
use crate::port::Port;

const START_WAIT: Duration = Duration::from_secs(30);
const POLL_PAUSE: Duration = Duration::from_millis(10);
const LOG_LINES_SHOWN: usize = 30;
/// What a server says first.
const GREETING: &[u8] = b"INFO ";

/// What kind of server; the rest is `..Options::default()`: no TLS, no users.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Certificates on both sides.
    pub tls: bool,
    pub user: Option<(String, String)>,
}

#[derive(Debug)]
pub struct Server {
    // Before the folder, so that the process is gone when its files go.
    process: Mutex<Option<Leashed>>,
    port: Port,
    options: Options,
    pki: Option<Pki>,
    dir: TempDir,
}

impl Server {
    /// Returns when the server answers.
    pub fn start(options: Options) -> Self {
        let server = Self {
            process: Mutex::default(),
            port: Port::reserve().expect("loopback has a free port"),
            pki: options.tls.then(Pki::new),
            options,
            dir: TempDir::new().expect("a temporary folder can be made"),
        };
        server.restart();
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// For a client's configuration, with user and password if there are any.
    pub fn url(&self) -> String {
        let escaped = |text: &str| text.replace('%', "%25").replace('@', "%40");
        let user = self.options.user.as_ref();
        let user = user.map(|(name, password)| format!("{}:{}@", escaped(name), escaped(password))).unwrap_or_default();
        format!("nats://{user}{}", self.address())
    }

    pub fn pki(&self) -> &Pki {
        self.pki.as_ref().expect("only a server started with `tls: true` has certificates")
    }

    /// Kills the server as a power cut would, and returns when it is gone.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Starts the server again on its port, after killing it if it runs; returns when it answers.
    pub fn restart(&self) {
        self.kill();
        let log = OpenOptions::new().create(true).append(true).open(self.log_path());
        let log = log.expect("a log can be opened in our own folder");
        let spawned = Leashed::spawn("nats-server", &self.arguments(), &log);
        let spawned = spawned.unwrap_or_else(|error| panic!("cannot start nats-server: {error}"));
        *self.process() = Some(spawned);
        self.wait_until_ready();
    }

    /// Freezes the server: its connections stay open and say nothing.
    pub fn pause(&self) {
        self.process().as_mut().expect("a server that is down is not paused").freeze();
    }

    pub fn resume(&self) {
        self.process().as_mut().expect("a server that is down is not resumed").thaw();
    }

    /// Puts all that the server has logged into this folder.
    pub fn copy_log(&self, folder: &Path) {
        // A log that cannot be copied is missing there, and nothing else.
        let _ = std::fs::copy(self.log_path(), folder.join("nats.log"));
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + START_WAIT;
        while !self.greets() {
            let ended = self.process().as_mut().is_none_or(Leashed::has_ended);
            assert!(!ended, "nats-server ended by itself\n{}", self.log_tail());
            assert!(Instant::now() < deadline, "nats-server does not answer\n{}", self.log_tail());
            thread::sleep(POLL_PAUSE);
        }
    }

    fn greets(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.address()) else { return false };
        let mut greeting = [0; GREETING.len()];
        stream.set_read_timeout(Some(START_WAIT)).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
            && greeting == GREETING
    }

    fn arguments(&self) -> Vec<String> {
        let port = self.address().port().to_string();
        let mut arguments = vec!["--addr".to_owned(), "127.0.0.1".to_owned(), "--port".to_owned(), port];
        if let Some((user, password)) = &self.options.user {
            arguments.extend(["--user".to_owned(), user.clone(), "--pass".to_owned(), password.clone()]);
        }
        if let Some(pki) = &self.pki {
            let path = |name: &str| pki.path(name).display().to_string();
            arguments.push("--tlsverify".to_owned());
            for (flag, file) in [("--tlscacert", "ca.crt"), ("--tlscert", "server.crt"), ("--tlskey", "server.key")] {
                arguments.extend([flag.to_owned(), path(file)]);
            }
        }
        arguments
    }

    fn process(&self) -> MutexGuard<'_, Option<Leashed>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("nats.log")
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_comes_back_to_its_address_and_goes_with_its_value() {
        let server = Server::start(Options::default());
        let address = server.address();
        assert!(server.url().ends_with(&address.to_string()));
        server.kill();
        assert!(!server.greets());
        server.restart();
        assert!(server.greets());
        assert_eq!(server.address(), address);
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_url_holds_user_and_password_as_urls_do() {
        let user = Some(("me".to_owned(), "p@ss%".to_owned()));
        let server = Server::start(Options { user, ..Options::default() });
        assert!(server.url().starts_with("nats://me:p%40ss%25@127.0.0.1:"));
    }
}
