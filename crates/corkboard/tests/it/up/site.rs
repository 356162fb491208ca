//! A cluster in one process, in a folder of its own, and what can be done with it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::program::{Background, Outcome, finish, program_at, utf8};

/// Ports of apps, a range for each test: tests run at the same time, and an app takes its port a moment after it was found free.
const PORTS_FIRST: u16 = 20_000;
const PORTS_EACH: u16 = 40;
/// How long anything here may take that takes a few seconds at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Site {
    pub(crate) dir: TempDir,
    pub(crate) process: Background,
    /// The text that it printed when it was up.
    pub(crate) welcome: Vec<String>,
    pub(crate) api: String,
    pub(crate) router: String,
    binary: PathBuf,
    slot: u16,
    /// As whom everything is started, if not as ourselves.
    user: Option<u32>,
}

impl Site {
    /// Every test has a slot of its own.
    pub(crate) fn start(slot: u16) -> Self {
        Self::start_as(slot, Path::new(env!("CARGO_BIN_EXE_corkboard")), TempDir::new().unwrap(), None)
    }

    pub(crate) fn start_as(slot: u16, binary: &Path, dir: TempDir, user: Option<u32>) -> Self {
        let (process, welcome) = launch(slot, binary, &dir, user, &[]);
        let mut site = Self {
            dir,
            process,
            welcome,
            api: String::new(),
            router: String::new(),
            binary: binary.to_owned(),
            slot,
            user,
        };
        site.read_places();
        site
    }

    /// After a stop of whatever kind.
    pub(crate) fn start_again(&mut self, flags: &[&str]) {
        assert!(self.process.has_ended(), "the former one runs on");
        (self.process, self.welcome) = launch(self.slot, &self.binary, &self.dir, self.user, flags);
        self.read_places();
    }

    fn read_places(&mut self) {
        let find = |name: &str| self.welcome.iter().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        (self.api, self.router) = (find("  API      "), find("  router   "));
    }

    /// A command for this cluster.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program_at(&self.binary, args);
        command.env("BBS_URL", &self.api).env("CORKBOARD_ROUTER_URL", &self.router).current_dir(self.dir.path());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Outcome {
        finish(&mut self.command(args))
    }

    /// Runs the demo app as `hello`, with more flags.
    pub(crate) fn run_hello(&self, flags: &[&str]) -> Outcome {
        let mut args = vec!["run-app", "--route", "hello.local"];
        args.extend_from_slice(flags);
        args.extend(["--", utf8(&self.binary), "demo-app"]);
        self.call(&args)
    }

    /// Asks through the router, as `curl` would.
    pub(crate) fn get(&self, host: &str, path: &str) -> Option<(u16, String)> {
        get(self.router.strip_prefix("http://").unwrap(), host, path)
    }

    /// The guids of the instances that answer, by index. Waits until there are so many, and no other answer in between.
    pub(crate) fn until_answered_by(&self, instances: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            let mut guids = vec![None; instances];
            for _ in 0..4 * instances {
                let Some((200, text)) = self.get("hello.local", "/") else { continue };
                let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
                let index: usize = field("index: ").parse().unwrap();
                if index < instances {
                    guids[index] = Some(field("guid: "));
                }
            }
            if let Some(guids) = guids.into_iter().collect::<Option<Vec<_>>>() {
                return guids;
            }
            assert!(began.elapsed() < PATIENCE, "not all of {instances} instances answer");
            std::thread::sleep(PAUSE);
        }
    }

    /// Processes of apps and their parents, whoever started them.
    pub(crate) fn app_processes(&self) -> Vec<Pid> {
        processes_in(self.dir.path())
    }

    pub(crate) fn stop_in_order(&mut self) {
        self.process.signal(Signal::INT);
        assert_eq!(self.process.wait().code(), Some(0));
        assert_eq!(self.app_processes(), [], "something of the apps runs on");
    }

    pub(crate) fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !self.process.has_ended() {
            self.process.signal(Signal::KILL);
            self.process.wait();
        }
        // What a test that fails leaves behind.
        for process in processes_in(self.dir.path()) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

fn launch(slot: u16, binary: &Path, dir: &TempDir, user: Option<u32>, flags: &[&str]) -> (Background, Vec<String>) {
    let first = PORTS_FIRST + slot * PORTS_EACH;
    let ports = format!("{first}-{}", first + PORTS_EACH - 1);
    let anywhere = "127.0.0.1:0";
    let args = ["up", "--listen", anywhere, "--health", anywhere, "--router", anywhere, "--app-ports", &ports];
    let mut command = program_at(binary, &args);
    command.args(flags).current_dir(dir.path());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let mut process = Background::start(&mut command);
    let welcome = process.lines_until(|line| line.contains("lrp-events"));
    (process, welcome)
}

/// Those that work in a folder, or were told of it; not the cluster itself, which works in the folder and not below it.
fn processes_in(dir: &Path) -> Vec<Pid> {
    let cells = dir.canonicalize().unwrap().join("data/board.cells");
    let is_there = |folder: &Path| {
        let words = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        let below = std::fs::read_link(folder.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&cells));
        below || String::from_utf8_lossy(&words).contains(utf8(&cells))
    };
    let number = |folder: &Path| folder.file_name()?.to_str()?.parse::<i32>().ok();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    all.filter(|folder| is_there(folder)).filter_map(|folder| Pid::from_raw(number(&folder)?)).collect()
}

pub(crate) fn get(address: &str, host: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
