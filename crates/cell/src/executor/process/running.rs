//! A process that a shim watches over, as the cell sees it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, WaitOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

use super::super::Later;
use super::super::actions::{Exit, Process, Signal};
use super::super::logs::Output;
use super::files::{Identity, StepFiles};
use super::proc;
use super::tail::Tail;

/// How often the output of a process is looked for.
const OUTPUT_INTERVAL_MS: u64 = 100;

/// Set by whoever kills a container because it took more memory than it may.
pub(crate) type Guarded = Arc<AtomicBool>;

pub(crate) struct Running {
    files: StepFiles,
    identity: Option<Identity>,
    /// Of the shim, while it runs.
    pidfd: Option<AsyncFd<OwnedFd>>,
    tail: Mutex<Tail>,
    output: Output,
    out_of_memory: Guarded,
}

impl Running {
    /// Finds the process of a step that was started, also when it has ended since.
    pub(super) fn find(files: StepFiles, output: Output, out_of_memory: Guarded) -> io::Result<Self> {
        let identity = files.identity()?.filter(|identity| identity.boot == proc::boot());
        let pidfd = match identity.as_ref().and_then(|identity| Pid::from_raw(identity.shim.pid)) {
            Some(shim) => match rustix::process::pidfd_open(shim, PidfdFlags::NONBLOCK) {
                Ok(fd) => Some(listen(fd)?),
                Err(rustix::io::Errno::SRCH) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        // Only now it is certain that the descriptor is of the shim, and not of another that got its number.
        let is_there = identity.as_ref().is_some_and(|identity| identity.shim.is_there());
        let tail = Mutex::new(Tail::new(files.clone()));
        Ok(Self { files, identity, pidfd: pidfd.filter(|_| is_there), tail, output, out_of_memory })
    }

    /// Asks for its end, and gives it when it is there.
    async fn end(&self) -> Result<Exit, String> {
        let mut tail = self.tail.lock().await;
        let mut drain = || {
            if let Err(error) = tail.drain(&self.output) {
                tracing::warn!(%error, folder = %self.files.folder().display(), "output cannot be read");
            }
        };
        if let Some(pidfd) = &self.pidfd {
            let mut interval = tokio::time::interval(Duration::from_millis(OUTPUT_INTERVAL_MS));
            loop {
                tokio::select! {
                    _ = pidfd.readable() => break,
                    _ = interval.tick() => drain(),
                }
            }
        }
        drain();
        self.reap();
        let ended = self.files.exit().map_err(|error| format!("how the process ended cannot be read: {error}"))?;
        match ended {
            Some(ended) => {
                let is_guilty = ended.out_of_memory || self.out_of_memory.load(Ordering::Relaxed);
                let out_of_memory = ended.status != 0 && is_guilty;
                ended.error.map_or(Ok(Exit { status: ended.status, out_of_memory }), Err)
            }
            None => {
                self.signal(Signal::Kill);
                Err("the process is gone and nobody knows how it ended: its shim was killed, or the machine was \
                     started again"
                    .to_owned())
            }
        }
    }

    /// A shim that this very process started stays a zombie until somebody asks for its end.
    fn reap(&self) {
        if let Some(shim) = self.identity.as_ref().and_then(|identity| Pid::from_raw(identity.shim.pid)) {
            let _ = rustix::process::waitpid(Some(shim), WaitOptions::NOHANG);
        }
    }
}

#[expect(
    deprecated,
    reason = "what replaces it is unsafe, for types that may change their descriptor; this one cannot"
)]
fn listen(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

impl Process for Running {
    fn wait(&self) -> Later<'_, Result<Exit, String>> {
        Box::pin(self.end())
    }

    fn signal(&self, signal: Signal) {
        let Some(identity) = &self.identity else { return };
        match signal {
            Signal::Terminate => signal_group(identity, rustix::process::Signal::TERM),
            Signal::Kill => end_tree(identity),
        }
    }
}

fn signal_group(identity: &Identity, signal: rustix::process::Signal) {
    if let Some(group) = Pid::from_raw(identity.process.pid).filter(|_| identity.process.is_there()) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Kills a process with everything that came of it. The shim lives on to note the end; it kills what is born meanwhile.
pub(crate) fn end_tree(identity: &Identity) {
    if identity.boot != proc::boot() {
        return;
    }
    signal_group(identity, rustix::process::Signal::KILL);
    if !identity.shim.is_there() {
        return;
    }
    for left in proc::Snapshot::take().unwrap_or_default().below(identity.shim.pid) {
        if let Some(left) = Pid::from_raw(left.pid) {
            let _ = rustix::process::kill_process(left, rustix::process::Signal::KILL);
        }
    }
}
