//! A store with a configuration file that changes, and servers that come and go on it.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use store::embedded::{Embedded, Options};
use tempfile::TempDir;

use crate::program::{Outcome, finish, program, run, utf8};

pub(super) struct Site {
    pub(super) dir: TempDir,
}

/// Dropping it kills it.
pub(super) struct Server {
    child: Child,
    url: String,
    pub(super) health: String,
}

impl Site {
    pub(super) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("keys")).unwrap();
        Self { dir }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the configuration, with these tables at its end.
    pub(super) fn configure(&self, tables: &str) {
        let text = format!("listen = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n{tables}\n");
        std::fs::write(self.path("board.toml"), text).unwrap();
        std::fs::set_permissions(self.path("board.toml"), Permissions::from_mode(0o600)).unwrap();
    }

    /// With these keys in files, the first of them active.
    pub(super) fn use_keys(&self, names: &[&str]) {
        for name in names.iter().filter(|name| !self.path(&format!("keys/{name}")).exists()) {
            let made = run(&["keys", "generate", "--out", utf8(&self.path(&format!("keys/{name}")))]);
            assert_eq!(made.code, 0, "{made:?}");
        }
        let keys: String = names.iter().map(|name| format!("{name} = {{ file = \"keys/{name}\" }}\n")).collect();
        self.configure(&format!("[encryption]\nactive = \"{}\"\n[encryption.keys]\n{keys}", names[0]));
    }

    /// A command that works on the store without a server.
    pub(super) fn alone(&self, args: &[&str]) -> Outcome {
        finish(program(args).args(["--config", utf8(&self.path("board.toml"))]))
    }

    pub(super) fn server(&self) -> Command {
        program(&["bbs", "--config", utf8(&self.path("board.toml"))])
    }

    pub(super) fn start(&self) -> Server {
        self.run(self.server())
    }

    /// Waits until it says where it listens. What it logs is kept in the file `log`.
    pub(super) fn run(&self, mut command: Command) -> Server {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.trim_end().trim_end_matches('.').split_whitespace().collect();
        let ["The", "API", "listens", "on", api, "health", "on", health] = words[..] else {
            let _ = child.wait();
            panic!("{line}{}", std::fs::read_to_string(self.path("log")).unwrap());
        };
        Server { child, url: format!("http://{}", api.trim_end_matches(',')), health: health.to_owned() }
    }

    /// A server that must not start.
    pub(super) fn refused(&self) -> Outcome {
        finish(&mut self.server())
    }

    pub(super) fn store(&self) -> Embedded {
        Embedded::open(self.path("board"), Options::default()).unwrap()
    }
}

impl Server {
    pub(super) fn call(&self, args: &[&str]) -> Outcome {
        finish(program(args).env("BBS_URL", &self.url))
    }

    /// Calls and must succeed; gives what was printed.
    pub(super) fn done(&self, args: &[&str]) -> String {
        let outcome = self.call(args);
        assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
        outcome.stdout
    }

    /// Waits for the rotation to end well.
    pub(super) fn settled(&self) {
        self.done(&["keys", "status", "--watch"]);
    }

    /// The body of what a port answers to a GET.
    pub(super) fn get(&self, is_health: bool, path: &str) -> String {
        let address = if is_health { &self.health } else { self.url.trim_start_matches("http://") };
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer
    }

    pub(super) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already, and a test that panics must not panic again here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
