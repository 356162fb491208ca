//! The processes of the cluster, and whoever keeps them running.
//!
//! Promise: a process has one name, one release at a time and one log for each of its lives. One that ends without having been
//! told to is started again, as a service manager would, and that is written down with the way it ended; one whose exit code says
//! that starting it again changes nothing is left where it is. Nothing outlives the fleet: neither a process nor what a cell has
//! started, and also not when the suite itself is killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Exit codes after which another start changes nothing; docs/how-to/upgrade.md has them.
const FINAL_CODES: [i32; 3] = [3, 6, 8];
const LOG_LINES_SHOWN: usize = 12;
/// Kills everything that names the folder, once its standard input ends; that is when nobody is left who could do it better.
const SWEEP: &str = r#"read -r word
for process in /proc/[0-9]*; do
  if tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -qF -- "$SWEPT/"; then kill -9 "${process#/proc/}" 2>/dev/null; fi
done"#;

/// Which of the two binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The one that is replaced.
    Former,
    /// The one that replaces it.
    Present,
}

impl Release {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Former => "former",
            Self::Present => "present",
        }
    }
}

/// Where the two binaries are.
#[derive(Clone, Debug)]
pub struct Binaries {
    pub former: PathBuf,
    pub present: PathBuf,
}

/// A process that ended without having been told to.
#[derive(Clone, Debug)]
pub(crate) struct Incident {
    pub(crate) at: Instant,
    pub(crate) name: String,
    pub(crate) how: String,
}

#[derive(Debug)]
pub(crate) struct Fleet {
    folder: PathBuf,
    slots: Mutex<BTreeMap<String, Slot>>,
    incidents: Mutex<Vec<Incident>>,
    sweeper: Mutex<Option<Child>>,
}

#[derive(Debug)]
struct Slot {
    arguments: Vec<String>,
    release: Release,
    child: Option<Child>,
    fate: Fate,
    life: usize,
}

/// What was done to a process last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Wanted,
    ToldToStop,
    Gone,
}

impl Fleet {
    /// In a folder of its own. The binaries get names in it, so that nobody replaces them meanwhile and everything that runs can
    /// be recognised.
    pub(crate) fn new(folder: &Path, binaries: &Binaries) -> anyhow::Result<Arc<Self>> {
        std::fs::create_dir_all(folder.join("logs"))?;
        for (release, from) in [(Release::Former, &binaries.former), (Release::Present, &binaries.present)] {
            let to = binary(folder, release);
            std::fs::create_dir_all(to.parent().context("a binary is in a folder")?)?;
            std::fs::copy(from, &to).with_context(|| format!("the {} release, {from:?}", release.name()))?;
        }
        let sweeper = Command::new("sh")
            .args(["-c", SWEEP, "sweep"])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("SWEPT", folder)
            .stdin(Stdio::piped())
            // Processes end while it looks at them.
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("no shell, to clean up after the suite")?;
        Ok(Arc::new(Self {
            folder: folder.to_owned(),
            slots: Mutex::default(),
            incidents: Mutex::default(),
            sweeper: Mutex::new(Some(sweeper)),
        }))
    }

    /// Looks after the processes until it is dropped.
    pub(crate) fn supervise(self: &Arc<Self>) -> JoinHandle<()> {
        let fleet = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                fleet.restart_the_fallen();
            }
        })
    }

    fn restart_the_fallen(&self) {
        let mut slots = self.slots();
        for (name, slot) in slots.iter_mut().filter(|(_, slot)| slot.fate == Fate::Wanted) {
            let Some(status) = slot.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) else { continue };
            slot.child = None;
            let is_final = status.code().is_some_and(|code| FINAL_CODES.contains(&code));
            let how = if is_final { format!("{status}, and stays down") } else { status.to_string() };
            lock(&self.incidents).push(Incident { at: Instant::now(), name: name.clone(), how });
            slot.fate = Fate::Gone;
            if !is_final && let Err(error) = self.launch(name, slot) {
                lock(&self.incidents).push(Incident { at: Instant::now(), name: name.clone(), how: error.to_string() });
            }
        }
    }

    pub(crate) fn binary(&self, release: Release) -> PathBuf {
        binary(&self.folder, release)
    }

    /// Adds a process and starts it.
    pub(crate) fn add(&self, name: &str, release: Release, arguments: Vec<String>) -> anyhow::Result<()> {
        let mut slot = Slot { arguments, release, child: None, fate: Fate::Gone, life: 0 };
        self.launch(name, &mut slot)?;
        self.slots().insert(name.to_owned(), slot);
        Ok(())
    }

    /// Starts a process that was stopped or killed, as this release.
    pub(crate) fn start(&self, name: &str, release: Release) -> anyhow::Result<()> {
        let mut slots = self.slots();
        let slot = slots.get_mut(name).with_context(|| format!("nobody is called {name}"))?;
        slot.release = release;
        self.launch(name, slot)
    }

    fn launch(&self, name: &str, slot: &mut Slot) -> anyhow::Result<()> {
        slot.life += 1;
        let log = File::create(self.log_path(name, slot.life))?;
        let child = Command::new(self.binary(slot.release))
            .args(&slot.arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("CORKBOARD_LOG", "info")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // An interrupt at the keyboard is for the suite alone.
            .process_group(0)
            .spawn();
        slot.child = Some(child.with_context(|| format!("{name} cannot be started"))?);
        slot.fate = Fate::Wanted;
        Ok(())
    }

    pub(crate) fn release(&self, name: &str) -> Release {
        self.slots().get(name).map_or(Release::Present, |slot| slot.release)
    }

    /// SIGTERM, and waits for an end in order.
    pub(crate) async fn stop(&self, name: &str, limit: Duration) -> anyhow::Result<Duration> {
        self.signal(name, Signal::TERM, Fate::ToldToStop)?;
        let began = Instant::now();
        loop {
            if let Some(status) = self.reap(name) {
                // A state server that is told to stop while it loses its mastership says so.
                if matches!(status.code(), Some(0 | 9)) {
                    return Ok(began.elapsed());
                }
                bail!("{name} was told to stop and ended with {status}\n{}", self.tail(name));
            }
            if began.elapsed() > limit {
                bail!("{name} did not stop within {limit:?}\n{}", self.tail(name));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// SIGKILL, and returns when the process is gone. What a cell has started runs on.
    pub(crate) fn kill(&self, name: &str) -> anyhow::Result<()> {
        self.signal(name, Signal::KILL, Fate::Gone)?;
        let child = self.slots().get_mut(name).and_then(|slot| slot.child.take());
        let status = child.with_context(|| format!("{name} does not run"))?.wait()?;
        if status.signal() != Some(Signal::KILL.as_raw()) {
            bail!("{name} had ended before it was killed: {status}\n{}", self.tail(name));
        }
        Ok(())
    }

    /// Sends a signal to everything that a cell has started, and says to how many processes.
    pub(crate) fn signal_containers(&self, cell: &str, signal: Signal) -> usize {
        let folder = self.folder.join(cell);
        let all = processes_in(&folder);
        // One that has ended meanwhile has what it was to get.
        all.iter().filter(|process| kill_process(**process, signal).is_ok()).count()
    }

    pub(crate) fn signal_only(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        self.signal(name, signal, Fate::Wanted)
    }

    fn signal(&self, name: &str, signal: Signal, fate: Fate) -> anyhow::Result<()> {
        let mut slots = self.slots();
        let slot = slots.get_mut(name).with_context(|| format!("nobody is called {name}"))?;
        let child = slot.child.as_ref().with_context(|| format!("{name} does not run"))?;
        kill_process(Pid::from_child(child), signal)?;
        slot.fate = fate;
        Ok(())
    }

    fn reap(&self, name: &str) -> Option<ExitStatus> {
        let mut slots = self.slots();
        let slot = slots.get_mut(name)?;
        let status = slot.child.as_mut()?.try_wait().ok()??;
        slot.child = None;
        slot.fate = Fate::Gone;
        Some(status)
    }

    pub(crate) fn incidents(&self) -> Vec<Incident> {
        lock(&self.incidents).clone()
    }

    /// What a process has written in its present life.
    pub(crate) fn log(&self, name: &str) -> String {
        let life = self.slots().get(name).map_or(0, |slot| slot.life);
        std::fs::read_to_string(self.log_path(name, life)).unwrap_or_default()
    }

    pub(crate) fn tail(&self, name: &str) -> String {
        let log = self.log(name);
        let lines: Vec<_> = log.lines().collect();
        format!("--- the last lines of {name}:\n{}", lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n"))
    }

    /// Lines of all logs that tell of a defect.
    pub(crate) fn panics(&self) -> Vec<String> {
        let logs = std::fs::read_dir(self.folder.join("logs")).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for log in logs {
            let text = std::fs::read_to_string(log.path()).unwrap_or_default();
            let lines = text.lines().filter(|line| line.contains("panicked at"));
            found.extend(lines.map(|line| format!("{}: {line}", log.file_name().display())));
        }
        found
    }

    fn log_path(&self, name: &str, life: usize) -> PathBuf {
        self.folder.join("logs").join(format!("{name}.{life}.log"))
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        lock(&self.slots)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for slot in self.slots().values_mut() {
            if let Some(mut child) = slot.child.take() {
                // It may have ended already.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if let Some(mut sweeper) = lock(&self.sweeper).take() {
            if let Some(mut word) = sweeper.stdin.take() {
                let _ = word.write_all(b"sweep\n");
            }
            let _ = sweeper.wait();
        }
    }
}

fn binary(folder: &Path, release: Release) -> PathBuf {
    folder.join(release.name()).join("corkboard")
}

/// Processes that work in a folder or were given it as an argument.
fn processes_in(folder: &Path) -> Vec<Pid> {
    let needle = format!("{}/", folder.display()).into_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let works_there = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        if works_there || words.windows(needle.len()).any(|window| window == needle) {
            found.push(pid);
        }
    }
    found
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
