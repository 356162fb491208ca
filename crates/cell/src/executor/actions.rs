//! The tree of actions that a container runs, as an interpreter over a small trait.
//!
//! What each kind of action does is Diego's, to the texts that end up in crash reasons:
//!
//! - `run` fails with `APP: Exited with status 1`. A cancelled one is asked to end, is killed after its grace time, and given
//!   up a moment later.
//! - `serial` stops at the first failure. `parallel` lets all end and fails with all failures. `codependent` cancels the others
//!   at the end of any, and an end without failure is a failure too. `try` never fails. `timeout` cancels what takes too long.
//! - Log sources are inherited; an action that names none writes under the name of the nearest action above that does,
//!   except that neither `serial` nor `emit_progress` passes its own on.
//!
//! An action is known by its place in the tree ([`Step`]), so that a cell that starts again walks the same tree: the
//! [`Ground`] gives what ended already as ended, and what still runs as running.

mod failure;
mod run;
#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::models;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};

pub(crate) use failure::{Failure, go_duration};

use super::Later;
use super::cancel::Cancel;
use super::logs::Output;

/// The place of an action in the trees of a container, such as `action.0.1`. It is a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Step(Arc<str>);

impl Step {
    pub(crate) fn root(name: &str) -> Self {
        Self(name.into())
    }

    fn child(&self, index: usize) -> Self {
        Self(format!("{}.{index}", self.0).into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Terminate,
    Kill,
}

/// How a process ended; one that a signal ended has 128 and the signal's number, as a shell says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) status: i32,
    pub(crate) out_of_memory: bool,
}

/// A process that was started, now or before the cell was.
pub(crate) trait Process: Send + Sync {
    /// Its end, after everything that it wrote was handed on. Fails when nobody can know how it ended.
    fn wait(&self) -> Later<'_, Result<Exit, String>>;
    fn signal(&self, signal: Signal);
}

/// A container, as far as actions see it.
pub(crate) trait Ground: Send + Sync {
    /// Starts a process, or finds the one that was started for this step before.
    fn start<'a>(
        &'a self,
        step: &'a Step,
        action: &'a models::RunAction,
        output: Output,
    ) -> Later<'a, Result<Box<dyn Process>, String>>;
    /// Puts an archive into the container, and gives the bytes that had to be fetched. Dropping it cancels it.
    fn download<'a>(
        &'a self,
        step: &'a Step,
        action: &'a models::DownloadAction,
    ) -> Later<'a, Result<u64, DownloadFailure>>;
    /// Sends a file of the container away, and gives its bytes. Dropping it cancels it.
    fn upload<'a>(&'a self, step: &'a Step, action: &'a models::UploadAction) -> Later<'a, Result<u64, String>>;
    /// Whether the process of this step was started before, by a cell that was here before this one.
    fn was_started(&self, step: &Step) -> bool;
    /// Notes that a step begins, and tells for how long it has been going on if it began before the cell did.
    fn begin(&self, step: &Step) -> Option<Duration>;
    fn grace(&self) -> Duration;
}

/// Which half of a download failed. Why is for the operator: an address may hold a secret.
#[derive(Debug)]
pub(crate) enum DownloadFailure {
    Fetch(String),
    Copy(String),
}

/// Whether a tree does the work of a container, or looks whether it is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Work,
    /// What its processes write is the reason of a failure, and not their exit status.
    Check,
}

/// An interpreter of one tree. Once it is cancelled it begins nothing; what a cell before this one has begun is still found, so
/// that it has the rest of its grace time.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) ground: &'a dyn Ground,
    pub(crate) purpose: Purpose,
}

type Outcome = Result<(), Failure>;

impl<'a> Tree<'a> {
    /// Carries out a tree to its end, which is never before all its processes have ended.
    pub(crate) fn perform(
        self,
        step: &'a Step,
        action: &'a models::Action,
        output: Output,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Outcome> {
        async move {
            if let Some(run) = &action.run_action {
                return self.run(step, run, output.of(&run.log_source), cancel).await;
            }
            if let Some(download) = &action.download_action {
                return self.download(step, download, &output.of(&download.log_source), cancel).await;
            }
            if let Some(upload) = &action.upload_action {
                return self.upload(step, upload, &output.of(&upload.log_source), cancel).await;
            }
            if let Some(serial) = &action.serial_action {
                return self.serial(step, &serial.actions, output, cancel).await;
            }
            if let Some(parallel) = &action.parallel_action {
                return self.parallel(step, &parallel.actions, &output.of(&parallel.log_source), cancel).await;
            }
            if let Some(codependent) = &action.codependent_action {
                let output = output.of(&codependent.log_source);
                return self.codependent(step, &codependent.actions, &output, cancel).await;
            }
            if let Some(attempt) = &action.try_action {
                let (step, below) = (step.child(0), inner(attempt.action.as_deref())?);
                if let Err(failure) = self.perform(&step, below, output.of(&attempt.log_source), cancel).await {
                    tracing::info!(%step, %failure, "an action that may fail has failed");
                }
                return Ok(());
            }
            if let Some(timeout) = &action.timeout_action {
                return self.timeout(step, timeout, output.of(&timeout.log_source), cancel).await;
            }
            if let Some(progress) = &action.emit_progress_action {
                return self.emit_progress(step, progress, output, cancel).await;
            }
            Err(Failure::Untold("the action is empty".to_owned()))
        }
        .boxed()
    }

    async fn serial(self, step: &Step, actions: &[models::Action], output: Output, cancel: &Cancel) -> Outcome {
        for (index, action) in actions.iter().enumerate() {
            self.perform(&step.child(index), action, output.clone(), cancel).await?;
        }
        Ok(())
    }

    async fn parallel(self, step: &Step, actions: &[models::Action], output: &Output, cancel: &Cancel) -> Outcome {
        let all = actions.iter().enumerate().map(async |(index, action)| {
            self.member(&step.child(index), action, output, cancel).await //
        });
        Failure::all(join_all(all).await.into_iter().filter_map(Result::err))
    }

    async fn codependent(self, step: &Step, actions: &[models::Action], output: &Output, cancel: &Cancel) -> Outcome {
        let together = cancel.below();
        let all = actions.iter().enumerate().map(|(index, action)| {
            let (step, together) = (step.child(index), &together);
            async move { self.member(&step, action, output, together).await }
        });
        codependent(all, &together, true).await
    }

    /// One of several that run at the same time. Of a check, each has its own output, because that is the reason it fails for.
    async fn member(self, step: &Step, action: &models::Action, output: &Output, cancel: &Cancel) -> Outcome {
        match self.purpose {
            Purpose::Work => self.perform(step, action, output.clone(), cancel).await,
            Purpose::Check => self.explained(step, action, cancel).await,
        }
    }

    /// Fails with what was written, where something was.
    pub(crate) async fn explained(self, step: &Step, action: &models::Action, cancel: &Cancel) -> Outcome {
        let output = Output::buffer();
        let failure = match self.perform(step, action, output.clone(), cancel).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        let written = output.take_buffer();
        Err(Failure::Told(match written.trim() {
            "" => format!("Failed to invoke process: {failure}"),
            written => written.to_owned(),
        }))
    }

    async fn timeout(self, step: &Step, timeout: &models::TimeoutAction, output: Output, cancel: &Cancel) -> Outcome {
        let limit = Duration::from_millis(u64::try_from(timeout.timeout_ms).unwrap_or(0));
        let left = limit.saturating_sub(self.ground.begin(step).unwrap_or_default());
        let (below, token) = (step.child(0), cancel.below());
        let mut action = self.perform(&below, inner(timeout.action.as_deref())?, output, &token);
        tokio::select! {
            outcome = &mut action => return outcome,
            () = tokio::time::sleep(left) => token.cancel(),
        }
        let told = match action.await {
            Err(Failure::Told(told)) => format!("; {told}"),
            _ => String::new(),
        };
        Err(Failure::Told(format!("exceeded {} timeout{told}", go_duration(limit))))
    }

    async fn emit_progress(
        self,
        step: &Step,
        progress: &models::EmitProgressAction,
        output: Output,
        cancel: &Cancel,
    ) -> Outcome {
        let own = output.of(&progress.log_source);
        if self.ground.begin(step).is_none() && !progress.start_message.is_empty() {
            own.line(false, &progress.start_message);
        }
        let outcome = self.perform(&step.child(0), inner(progress.action.as_deref())?, output, cancel).await;
        match &outcome {
            Ok(()) if !progress.success_message.is_empty() => own.line(false, &progress.success_message),
            Err(failure) if !progress.failure_message_prefix.is_empty() => {
                let told = if let Failure::Told(told) = failure { format!(": {told}") } else { String::new() };
                own.line(true, &format!("{}{told}", progress.failure_message_prefix));
            }
            _ => {}
        }
        outcome
    }
}

/// Waits for all, and cancels the others at the end of any; when `must_last`, an end without failure is a failure as well.
pub(crate) async fn codependent<F: Future<Output = Outcome>>(
    all: impl IntoIterator<Item = F>,
    together: &Cancel,
    must_last: bool,
) -> Outcome {
    let mut all: FuturesUnordered<F> = all.into_iter().collect();
    let mut failures = Vec::new();
    while let Some(outcome) = all.next().await {
        together.cancel();
        match outcome {
            Err(failure) => failures.push(failure),
            Ok(()) if must_last => failures.push(Failure::Untold("Codependent step exited".to_owned())),
            Ok(()) => {}
        }
    }
    Failure::all(failures)
}

fn inner(action: Option<&models::Action>) -> Result<&models::Action, Failure> {
    action.ok_or_else(|| Failure::Untold("the action is empty".to_owned()))
}
