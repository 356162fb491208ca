//! A small cluster of real processes: a state server that serves Locket, an auctioneer, and cells.

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rig::pki::Pki;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::program::{Background, Outcome, finish, program, utf8};

/// Longer than anything that a test waits for, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PORTS_PER_CELL: u32 = 20;

pub(crate) struct Site {
    pub(crate) pki: Pki,
    pub(crate) board: Daemon,
    pub(crate) auctioneer: Daemon,
    pub(crate) cells: Vec<Daemon>,
    flags: Vec<String>,
    /// What the files of cells have in common.
    shared: String,
    level: String,
}

/// A process of the cluster. Everything that it prints is in its log.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    fn start(dir: &Path, (command, name): (&str, &str), config: &str, level: &str) -> Self {
        let (file, log) = (dir.join(format!("{name}.toml")), dir.join(format!("{name}.log")));
        fs::write(&file, config).unwrap();
        let out = || Stdio::from(OpenOptions::new().create(true).append(true).open(&log).unwrap());
        let mut program = program(&[command, "--config", utf8(&file)]);
        program.env("CORKBOARD_LOG", level).stdout(out()).stderr(out());
        Self { child: program.spawn().unwrap(), log }
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// What stands behind `words` in its log, as soon as it does.
    pub(crate) fn told(&self, words: &str) -> String {
        let found = || {
            let log = self.log();
            let (_, rest) = log.split_once(words)?;
            let (word, _) = rest.split_once([' ', ',', '\n'])?;
            Some(word.trim_end_matches('.').to_owned())
        };
        eventually(&format!("{words:?} in {}", self.log.display()), || found().ok_or_else(|| self.log()))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(Instant::now() < until, "waited for {what}; {why}"),
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

impl Site {
    pub(crate) fn start(cells: usize, level: &str) -> Self {
        let pki = Pki::new();
        let dir = pki.dir.path();
        let auctioneer_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let files = "ca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n";
        let board = format!(
            "node = \"board\"\nlisten = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n[tls]\n{files}\
             [serve_locket]\nlisten = \"127.0.0.1:0\"\n[timing]\nconverge_interval = \"1s\"\n\
             [auctioneer]\nurl = \"https://127.0.0.1:{auctioneer_port}\"\n{files}[cells]\nrequire_tls = true\n{files}"
        );
        let board = Daemon::start(dir, ("bbs", "board"), &board, level);
        let (api, locket) = (board.told("The API listens on "), board.told("Locket listens on "));
        let shared = format!("[tls]\n{files}[bbs]\nurls = [\"https://{api}\"]\n[locket]\naddress = \"{locket}\"\n");
        let auctioneer =
            format!("node = \"brain\"\nlisten = \"127.0.0.1:{auctioneer_port}\"\nhealth = \"127.0.0.1:0\"\n{shared}");
        let auctioneer = Daemon::start(dir, ("auctioneer", "auctioneer"), &auctioneer, level);
        auctioneer.told("The auctioneer listens on ");
        let flags = [vec!["--bbsURL".to_owned(), format!("https://{api}")], pki.client_flags()].concat();
        let mut site = Self { pki, board, auctioneer, cells: Vec::new(), flags, shared, level: level.to_owned() };
        for at in 0..cells {
            let cell = site.cell(at);
            site.cells.push(cell);
        }
        eventually("all cells are known", || {
            let known = site.call(&["cells", "--json"]);
            if known.lines().count() == cells { Ok(()) } else { Err(known) }
        });
        site.call(&["set-domain", "d"]);
        site
    }

    fn cell(&self, at: usize) -> Daemon {
        let name = format!("cell-{at}");
        let log = self.pki.path(&format!("{name}.log"));
        let before = fs::read_to_string(&log).unwrap_or_default().matches(" listens on ").count();
        let cell = Daemon::start(self.pki.dir.path(), ("cell", &name), &cell(at, &self.shared), &self.level);
        eventually("the cell listens", || {
            let log = cell.log();
            if log.matches(" listens on ").count() > before { Ok(()) } else { Err(log) }
        });
        cell
    }

    /// Kills a cell and starts it again, at other ports.
    pub(crate) fn restart_cell(&mut self, at: usize) {
        self.cells[at].signal(Signal::KILL);
        let _ = self.cells[at].child.wait();
        self.cells[at] = self.cell(at);
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        finish(program(args).args(&self.flags))
    }

    pub(crate) fn call(&self, args: &[&str]) -> String {
        let outcome = self.run(args);
        assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
        outcome.stdout
    }

    pub(crate) fn follow(&self, args: &[&str]) -> Background {
        Background::start(program(args).args(&self.flags))
    }

    /// Desires an app that runs a script.
    pub(crate) fn app(&self, guid: &str, script: &str, more: &str) {
        let script = api::json::to_string(script);
        self.call(&[
            "create-desired-lrp",
            &format!(
                r#"{{"process_guid":"{guid}","domain":"d","rootfs":"preloaded:cflinuxfs4","instances":1,"memory_mb":32,
                "disk_mb":32,"log_guid":"{guid}","log_source":"APP","metric_tags":{{"source_id":{{"static":"{guid}"}}}},
                "action":{{"run":{{"path":"/bin/sh","args":["-c",{script}],"user":"root"{more}}}}}}}"#
            ),
        ]);
    }

    pub(crate) fn task(&self, guid: &str, script: &str) {
        let script = api::json::to_string(script);
        self.call(&[
            "create-task",
            &format!(
                r#"{{"task_guid":"{guid}","domain":"d","rootfs":"preloaded:cflinuxfs4","memory_mb":32,"disk_mb":32,
                "log_guid":"{guid}","log_source":"TASK",
                "action":{{"run":{{"path":"/bin/sh","args":["-c",{script}],"user":"root"}}}}}}"#
            ),
        ]);
    }

    /// Asks for logs until `text` is among them.
    pub(crate) fn logs_with(&self, args: &[&str], text: &str) -> String {
        eventually(&format!("{text:?} in the logs"), || {
            let outcome = self.run(args);
            if outcome.stdout.contains(text) { Ok(outcome.stdout) } else { Err(format!("{outcome:?}")) }
        })
    }
}

/// Apps outlive their cells, and are not to outlive the test.
impl Drop for Site {
    fn drop(&mut self) {
        self.cells.clear();
        let dir = self.pki.dir.path();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = process.file_name().to_string_lossy().parse::<i32>() else { continue };
            let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let folder = fs::read_link(process.path().join("cwd")).unwrap_or_default();
            if folder.starts_with(dir) || String::from_utf8_lossy(&command).contains(&format!("shim\0{}", utf8(dir))) {
                let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }
}

fn cell(at: usize, shared: &str) -> String {
    // Tests run beside each other, so that each has ports of its own.
    let first = 30_000 + (std::process::id() % 100) * 2 * PORTS_PER_CELL + u32::try_from(at).unwrap() * PORTS_PER_CELL;
    let user = if rustix::process::geteuid().is_root() { "user = \"root\"\n" } else { "" };
    format!(
        "cell_id = \"cell-{at}\"\nzone = \"z{at}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n{shared}\
         [capacity]\nmemory_mb = 256\ndisk_mb = 256\n[executor]\nhost_ports = \"{first}-{}\"\ngrace = \"1s\"\n{user}\
         [timing]\npolling = \"1s\"\npresence = \"1s\"\npresence_ttl = \"5s\"\nevacuation = \"30s\"\n",
        first + PORTS_PER_CELL - 1,
    )
}
