//! One program of a cluster, its file, and what it said.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::program::{program, utf8};

const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOG_LINES_SHOWN: usize = 30;

pub(crate) struct Daemon {
    name: String,
    command: String,
    dir: PathBuf,
    child: Option<Child>,
    out: Option<BufReader<ChildStdout>>,
    /// In this life, so far.
    said: Vec<String>,
}

impl Daemon {
    /// `name` is that of its configuration file too, without the ending.
    pub(crate) fn new(dir: &Path, name: &str, command: &str, config: &str) -> Self {
        std::fs::write(dir.join(format!("{name}.toml")), config).unwrap();
        let (name, command) = (name.to_owned(), command.to_owned());
        Self { name, command, dir: dir.to_owned(), child: None, out: None, said: Vec::new() }
    }

    pub(crate) fn start(&mut self) {
        let file = self.dir.join(format!("{}.toml", self.name));
        let log = OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = program(&[&self.command, "--config", utf8(&file)]);
        command.env("CORKBOARD_LOG", "info").stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        self.out = child.stdout.take().map(BufReader::new);
        self.child = Some(child);
        self.said.clear();
    }

    /// The address that stands after `words` in what it prints when it is open, in whatever order. Waits for as long as the program runs.
    pub(crate) fn address_after(&mut self, words: &str) -> String {
        let after = |line: &String| {
            let (_, rest) = line.split_once(words)?;
            Some(rest.split([',', ' ']).next()?.trim_end_matches('.').to_owned())
        };
        if let Some(address) = self.said.iter().find_map(after) {
            return address;
        }
        for line in self.out.as_mut().unwrap().lines().map(Result::unwrap) {
            self.said.push(line);
            if let Some(address) = self.said.last().and_then(after) {
                return address;
            }
        }
        panic!("{} ended without saying {words:?}; its log:\n{}", self.name, self.log());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.take().unwrap().wait().unwrap();
    }

    pub(crate) async fn ended(&mut self, patience: Duration) -> ExitStatus {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                self.child = None;
                return status;
            }
            assert!(Instant::now() < until, "{} does not end; its log:\n{}", self.name, self.log());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn log_file(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.name))
    }

    /// All of its log, of former lives too.
    pub(crate) fn whole_log(&self) -> String {
        let log = File::open(self.log_file()).map(|file| std::io::read_to_string(file).unwrap());
        log.unwrap_or_default()
    }

    pub(crate) fn log(&self) -> String {
        let text = self.whole_log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let text = format!("--- {}\n{}\n", self.name, self.log());
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        }
    }
}
