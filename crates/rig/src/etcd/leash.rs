//! A process that does not outlive the one that started it, however that one ends.
//!
//! Dropping the value kills the process and reaps it; a panic drops it too. If the starter itself is killed, nothing of it
//! can run any more, so a second process watches a pipe that only the starter holds: when it closes without a word, the
//! watcher kills its charge. The charge waits for the watcher before it becomes what it should be, so there is no moment in
//! which it runs unwatched. Both have process groups of their own: an interrupt at the keyboard reaches the starter alone.
//!
//! The kernel's own signal at the death of a parent was not taken: it means the parent's *thread*, and threads of a test
//! come and go.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

const WAIT_FOR_WATCHER: &str = r#"read -r word && exec "$@" </dev/null"#;
const WATCH: &str = r#"read -r word || kill -9 "$1""#;

#[derive(Debug)]
pub(crate) struct Leashed {
    process: Child,
    watcher: Child,
    reaped: bool,
}

impl Leashed {
    /// Starts the program with this environment's `PATH` and nothing else of it, so that no variable of the developer's
    /// shell reaches it. All it says goes to the end of `log`.
    pub(crate) fn spawn(program: &str, arguments: &[String], log: &File) -> io::Result<Self> {
        let mut process = shell(WAIT_FOR_WATCHER, "leash")
            .arg(program)
            .args(arguments)
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()?;
        let watcher =
            shell(WATCH, "watch").arg(process.id().to_string()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => {
                process.kill()?;
                process.wait()?;
                return Err(error);
            }
        };
        let word = process.stdin.take();
        let leashed = Self { process, watcher, reaped: false };
        if let Some(mut word) = word {
            word.write_all(b"go\n")?;
        }
        Ok(leashed)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        if !self.reaped && matches!(self.process.try_wait(), Ok(Some(_))) {
            self.dismiss_watcher();
        }
        self.reaped
    }

    /// Returns when all threads of the process stand still, or it has ended.
    pub(crate) fn freeze(&mut self) {
        self.signal(Signal::STOP);
        if !self.has_ended() {
            // Nothing is taken from the kernel here, so a process that ends meanwhile is reaped where all are.
            let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(Pid::from_child(&self.process)), stopped).expect("our child can be waited for");
        }
    }

    pub(crate) fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Nothing happens to a process that has ended.
    fn signal(&mut self, signal: Signal) {
        if !self.has_ended() {
            kill_process(Pid::from_child(&self.process), signal).expect("our child, not yet reaped, takes signals");
        }
    }

    /// The number of a reaped process may be given to another one, so the watcher is dismissed before it could mistake it.
    fn dismiss_watcher(&mut self) {
        self.reaped = true;
        if let Some(mut word) = self.watcher.stdin.take() {
            // A watcher that was killed by somebody else reads nothing, and kills nothing either.
            let _ = word.write_all(b"done\n");
        }
        let _ = self.watcher.wait();
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // Both can fail only if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.dismiss_watcher();
    }
}

fn shell(script: &str, name: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, name]).env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::piped()).process_group(0);
    command
}
