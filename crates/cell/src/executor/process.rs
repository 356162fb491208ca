//! Processes that outlive the cell.
//!
//! Every process has a parent of its own, the [`shim`]: a small program that starts it, reads what it writes, and notes how it
//! ended. A cell that dies takes neither the process nor its output with it, and one that starts again finds everything it needs
//! in the folder of the step: who runs ([`files::Identity`]), how it ended, what it wrote. The cell itself as the parent would
//! have lost exit codes and broken pipes at every restart; a shell as the parent could not have kept the output bounded, nor
//! the grandchildren together.
//!
//! What belongs to the cell as a service must not be ended with it: a service manager has to end the cell alone (systemd:
//! `KillMode=process`). A newer cell reads what an older shim wrote, so that fields of these files are added and never changed.
//!
//! Process ids are used again by the kernel, so a process is known by its id and the time it was started, in this boot.

pub(crate) mod cgroup;
pub(crate) mod files;
pub(crate) mod proc;
mod running;
pub(crate) mod runtime;
pub(crate) mod shim;
mod tail;

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

pub(crate) use files::{Launch, Made, StepFiles};
pub(crate) use running::{Guarded, Running, end_tree};

use super::logs::Output;

/// How the shim is started; the folder of the step is added as the last argument.
pub type ShimCommand = Vec<String>;

/// How long a shim may take to start a process or to say why it cannot.
const START_MS_MAX: u64 = 30_000;
const START_INTERVAL_MS: u64 = 10;

/// Starts a process, or finds the one that was started for this step before.
pub(crate) async fn start(
    shim: &ShimCommand,
    files: StepFiles,
    launch: &Launch,
    output: Output,
    guarded: Guarded,
) -> Result<Running, String> {
    let shown = |error: io::Error| format!("the process cannot be started: {error}");
    if !files.was_started() {
        files.create(launch).map_err(shown)?;
        let started = spawn(shim, files.folder()).await;
        if let Err(why) = until_started(&files).await {
            let why = started.err().unwrap_or(why);
            return Err(format!("the shim `{}` cannot be started: {why}", shim.join(" ")));
        }
    }
    if let Some(why) = files.exit().map_err(shown)?.and_then(|exit| exit.error) {
        return Err(why);
    }
    Running::find(files, output, guarded).map_err(shown)
}

/// Waits for as long as there is a shim that may still start the process: one that a cell before this one has started did not
/// make way for ours.
pub(crate) async fn until_started(files: &StepFiles) -> io::Result<()> {
    while !files.was_started() {
        if files.lock().is_ok() && !files.was_started() {
            return Err(io::Error::other("it ended at once"));
        }
        tokio::time::sleep(Duration::from_millis(START_INTERVAL_MS)).await;
    }
    Ok(())
}

/// Starts a shim and waits until it says that it has started its process; it closes the pipe when it has failed.
async fn spawn(shim: &ShimCommand, folder: &Path) -> io::Result<()> {
    let (program, arguments) = shim.split_first().ok_or_else(|| io::Error::other("no command is configured"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .arg(folder)
        .current_dir("/")
        // What the cell was told is nobody else's business.
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let Some(said) = child.stdout.take() else { return Ok(()) };
    let mut said = pipe::Receiver::from_owned_fd(said.into())?;
    let mut word = [0; 16];
    match tokio::time::timeout(Duration::from_millis(START_MS_MAX), said.read(&mut word)).await {
        Ok(Ok(1..)) => return Ok(()),
        // It has ended or is about to, and is asked for its end, or it would stay a zombie.
        Ok(_) => {}
        Err(_) => child.kill()?,
    }
    let status = tokio::task::spawn_blocking(move || child.wait()).await.map_err(io::Error::other)??;
    Err(io::Error::other(format!("it ended with {status}")))
}
