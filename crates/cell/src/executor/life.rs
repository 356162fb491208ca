//! The life of a container, from its setup to its end: what runs, when it counts as running, and what ends it.
//!
//! After the setup, the action, the sidecars, the checks and the readiness checks run side by side, and the end of any is the
//! end of all. With checks, a container counts as running when they pass for the first time; without, when its first process
//! was started. Diego lets a container without sidecars go on when its action ended well and its checks still pass; here the end
//! of the action is the end of the container, because nothing is left of it that could be well.

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

use super::RunSpec;
use super::actions::{Failure, Ground, Purpose, Step, Tree, codependent};
use super::cancel::Cancel;
use super::health::{CheckTimes, Health, Prober, Watch};
use super::logs::Output;

/// Who hears how a life goes.
pub(crate) trait Witness: Send + Sync {
    /// It counts as running now. Told once, and not to a container that ran before the cell did.
    fn running(&self);
    fn routable(&self, is_routable: bool);
}

pub(crate) struct Life<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) ground: &'a dyn Ground,
    pub(crate) prober: &'a dyn Prober,
    pub(crate) witness: &'a dyn Witness,
    pub(crate) times: CheckTimes,
    pub(crate) output: Output,
    /// It was running already when the cell started.
    pub(crate) is_running: bool,
    /// Becomes true when the first process of the action was started.
    pub(crate) started: watch::Receiver<bool>,
}

impl Life<'_> {
    /// Runs to the end. Nothing is left running then, unless a process could not even be killed.
    pub(crate) async fn live(&self, cancel: &Cancel) -> Result<(), Failure> {
        let spec = self.spec;
        let tree = Tree { ground: self.ground, purpose: Purpose::Work };
        if let Some(setup) = &spec.setup {
            tree.perform(&Step::root("setup"), setup, self.output.clone(), cancel).await?;
        }
        let Some(action) = &spec.action else {
            return Err(Failure::Untold("container cannot have empty action".to_owned()));
        };
        let definition = spec.check_definition.as_ref();
        let watched = match (definition, &spec.monitor) {
            (Some(definition), _) if !definition.checks.is_empty() => Some(Watch::Checks(&definition.checks)),
            (None, Some(monitor)) => Some(Watch::Monitor(monitor)),
            _ => None,
        };
        let together = cancel.below();
        let running = watch::Sender::new(self.is_running);
        let runs = AtomicU64::new(0);
        let health = |watch| Health {
            watch,
            source: definition.map_or("", |definition| &definition.log_source),
            tree,
            prober: self.prober,
            times: self.times,
            start_timeout: Duration::from_millis(u64::try_from(spec.start_timeout_ms).unwrap_or(0)),
            output: self.output.clone(),
            runs: &runs,
        };

        let root = Step::root("action");
        let sidecars: Vec<_> = spec.sidecars.iter().filter_map(|sidecar| sidecar.action.as_ref()).collect();
        let steps: Vec<Step> = (0..sidecars.len()).map(|index| Step::root(&format!("sidecar-{index}"))).collect();
        let action = tree.perform(&root, action, self.output.clone(), &together);
        let is_watched = watched.is_some();
        let mut all: Vec<BoxFuture<'_, Result<(), Failure>>> =
            vec![self.action(action, (!is_watched).then_some(&running)).boxed()];
        for (step, sidecar) in steps.iter().zip(sidecars) {
            all.push(tree.perform(step, sidecar, self.output.clone(), &together));
        }
        if let Some(watched) = watched {
            let (health, running, together) = (health(watched), &running, &together);
            all.push(async move { self.watch(&health, running, together).await }.boxed());
        }
        if let Some(definition) = definition.filter(|definition| !definition.readiness_checks.is_empty()) {
            let checks = definition.readiness_checks.as_slice();
            let (health, together, mut running) = (health(Watch::Checks(checks)), &together, running.subscribe());
            all.push(
                async move {
                    tokio::select! {
                        _ = running.wait_for(|running| *running) => {}
                        () = together.cancelled() => return Err(Failure::Cancelled),
                    }
                    let tell = |is_routable| self.witness.routable(is_routable);
                    health.readiness(checks, &tell, together).await
                }
                .boxed(),
            );
        }
        match all.len() {
            // A single action is not one of several: what it fails with is said even when it was cancelled.
            1 => all.remove(0).await,
            _ => codependent(all, &together, false).await,
        }
    }

    async fn action(
        &self,
        mut action: BoxFuture<'_, Result<(), Failure>>,
        running: Option<&watch::Sender<bool>>,
    ) -> Result<(), Failure> {
        let Some(running) = running else { return action.await };
        let mut started = self.started.clone();
        tokio::select! {
            biased;
            Ok(_) = started.wait_for(|started| *started) => self.run(running),
            outcome = &mut action => return outcome,
        }
        action.await
    }

    async fn watch(&self, health: &Health<'_>, running: &watch::Sender<bool>, cancel: &Cancel) -> Result<(), Failure> {
        if !self.is_running {
            health.until_healthy(cancel).await?;
            self.run(running);
        }
        health.until_unhealthy(cancel).await
    }

    fn run(&self, running: &watch::Sender<bool>) {
        if !running.send_replace(true) {
            self.witness.running();
        }
    }
}
