//! The leaves of a tree: a process, a download, an upload.
//!
//! A process that is cancelled is asked to end, and killed when its grace time is over. One that outlives even that for
//! [`EXIT_MS_MAX`] is given up: the container cannot wait for a process that hangs in the kernel.

use std::time::Duration;

use api::models;

use super::super::cancel::Cancel;
use super::super::logs::Output;
use super::{DownloadFailure, Exit, Failure, Outcome, Process, Purpose, Signal, Step, Tree, go_duration};

const EXIT_MS_MAX: u64 = 1_000;

/// The most of an error text that is written for the owner of an app.
const ERROR_BYTES_MAX: usize = 1_024;

impl Tree<'_> {
    pub(super) async fn run(self, step: &Step, run: &models::RunAction, output: Output, cancel: &Cancel) -> Outcome {
        if cancel.is_cancelled() && !self.ground.was_started(step) {
            return Err(Failure::Cancelled);
        }
        let is_quiet = run.suppress_log_output && self.purpose == Purpose::Work;
        let output = if is_quiet { output.silent() } else { output };
        // Not dropped when cancelled: a process that is being started must not be forgotten.
        let process = match self.ground.start(step, run, output.clone()).await {
            Ok(process) => process,
            Err(why) => {
                output.line(false, &format!("failed-creating-process: {why}"));
                return Err(Failure::Untold(why));
            }
        };
        let (exit, is_cancelled, is_killed) = match self.end(&*process, cancel).await {
            Some(ended) => ended,
            None => return Err(Failure::Untold("process did not exit".to_owned())),
        };
        let exit = exit.map_err(Failure::Untold)?;
        self.report(exit, is_killed, &output);
        match (is_killed, is_cancelled, exit.status) {
            (true, _, _) => Err(Failure::Killed),
            (false, true, _) => Err(Failure::Cancelled),
            (false, false, 0) => Ok(()),
            (false, false, _) => Err(Failure::Told(self.reason(exit, &output))),
        }
    }

    /// How the process ended, whether it was cancelled before, and whether it was killed; nothing if it never ended.
    async fn end(self, process: &dyn Process, cancel: &Cancel) -> Option<(Result<Exit, String>, bool, bool)> {
        let mut wait = process.wait();
        tokio::select! {
            // One that ended before it was cancelled was not cancelled.
            biased;
            exit = &mut wait => return Some((exit, false, false)),
            () = cancel.cancelled() => process.signal(Signal::Terminate),
        }
        if let Ok(exit) = tokio::time::timeout(self.ground.grace(), &mut wait).await {
            return Some((exit, true, false));
        }
        process.signal(Signal::Kill);
        let exit = tokio::time::timeout(Duration::from_millis(EXIT_MS_MAX), wait).await;
        exit.ok().map(|exit| (exit, true, true))
    }

    fn report(self, exit: Exit, is_killed: bool, output: &Output) {
        let mut text = match self.purpose {
            Purpose::Work => format!("Exit status {}", exit.status),
            Purpose::Check => String::new(),
        };
        if is_killed {
            text += &format!(" (exceeded {} graceful shutdown interval)", go_duration(self.ground.grace()));
        }
        if exit.out_of_memory {
            text += " (out of memory)";
        }
        if !text.is_empty() {
            output.line(false, text.trim_start());
        }
    }

    fn reason(self, exit: Exit, output: &Output) -> String {
        let memory = if exit.out_of_memory { " (out of memory)" } else { "" };
        match self.purpose {
            Purpose::Work => format!("{}: Exited with status {}{memory}", output.source(), exit.status),
            Purpose::Check => format!("Exited with status {}{memory}", exit.status),
        }
    }

    pub(super) async fn download(
        self,
        step: &Step,
        download: &models::DownloadAction,
        output: &Output,
        cancel: &Cancel,
    ) -> Outcome {
        if cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let artifact = &download.artifact;
        say(artifact, output, &format!("Downloading {artifact}..."));
        let fetched = tokio::select! {
            fetched = self.ground.download(step, download) => fetched,
            () = cancel.cancelled() => return Err(Failure::Cancelled),
        };
        let text = match fetched {
            Ok(0) => {
                say(artifact, output, &format!("Downloaded {artifact}"));
                return Ok(());
            }
            Ok(bytes) => {
                say(artifact, output, &format!("Downloaded {artifact} ({})", size(bytes)));
                return Ok(());
            }
            Err(DownloadFailure::Fetch(why)) => {
                tracing::warn!(%step, why, "a download failed");
                format!("Downloading {artifact} failed").replace("  ", " ")
            }
            Err(DownloadFailure::Copy(why)) => {
                format!("Copying {artifact} into the container failed: {why}").replace("  ", " ")
            }
        };
        output.line(true, cut(&text));
        Err(Failure::Told(text))
    }

    pub(super) async fn upload(
        self,
        step: &Step,
        upload: &models::UploadAction,
        output: &Output,
        cancel: &Cancel,
    ) -> Outcome {
        if cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let artifact = &upload.artifact;
        say(artifact, output, &format!("Uploading {artifact}..."));
        let sent = tokio::select! {
            sent = self.ground.upload(step, upload) => sent,
            () = cancel.cancelled() => return Err(Failure::Cancelled),
        };
        match sent {
            Ok(bytes) => {
                say(artifact, output, &format!("Uploaded {artifact} ({})", size(bytes)));
                Ok(())
            }
            Err(why) => {
                tracing::warn!(%step, why, "an upload failed");
                if !artifact.is_empty() {
                    output.line(true, &format!("Failed to upload payload for {artifact}"));
                }
                Err(Failure::Untold("Failed to upload payload".to_owned()))
            }
        }
    }
}

/// What has no name is not worth a line.
fn say(artifact: &str, output: &Output, text: &str) {
    if !artifact.is_empty() {
        output.line(false, text);
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(ERROR_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Bytes for people: `512B`, `1.5K`, `20M`.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes}B"),
        Some((unit, name)) => {
            let text = format!("{:.1}", bytes as f64 / *unit as f64);
            format!("{}{name}", text.strip_suffix(".0").unwrap_or(&text))
        }
    }
}
