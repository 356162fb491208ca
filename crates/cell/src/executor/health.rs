//! Whether a container is well: before it counts as running, while it runs, and whether requests may reach it.
//!
//! Either a check definition or a monitor action says so. Both are tried until they pass the first time, at short intervals and
//! for at most the start timeout; from then on at long intervals, and the first failure is the end of the container. Readiness
//! checks never end it: they only say whether requests may reach it at the moment. Texts and intervals are Diego's; unlike
//! there, checks are made by the cell itself and no process is started in the container for them.

mod probe;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::models;
use futures_util::future::join_all;
use tokio::time::Instant;

pub(crate) use probe::{Network, Probe, Prober};

use super::actions::{Failure, Purpose, Step, Tree, codependent, go_duration};
use super::cancel::Cancel;
use super::logs::Output;

/// The log source of checks that name none.
const SOURCE: &str = "HEALTH";

/// How often to look, and how long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub struct CheckTimes {
    /// Between checks of a container that is not well yet.
    pub unhealthy_interval: Duration,
    /// Between checks of one that is, where the check does not say.
    pub healthy_interval: Duration,
    /// For an answer, where the check does not say.
    pub timeout: Duration,
}

impl Default for CheckTimes {
    fn default() -> Self {
        Self {
            unhealthy_interval: Duration::from_millis(500),
            healthy_interval: Duration::from_secs(30),
            timeout: Duration::from_secs(1),
        }
    }
}

/// What says whether a container is well.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watch<'a> {
    Checks(&'a [models::Check]),
    Monitor(&'a models::Action),
}

pub(crate) struct Health<'a> {
    pub(crate) watch: Watch<'a>,
    /// The source of what checks say; of a monitor it is that of the container.
    pub(crate) source: &'a str,
    pub(crate) tree: Tree<'a>,
    pub(crate) prober: &'a dyn Prober,
    pub(crate) times: CheckTimes,
    /// Zero: for ever.
    pub(crate) start_timeout: Duration,
    pub(crate) output: Output,
    /// Counts the runs of the monitor, because each is a step of its own.
    pub(crate) runs: &'a AtomicU64,
}

impl Health<'_> {
    /// Waits until it is well for the first time.
    pub(crate) async fn until_healthy(&self, cancel: &Cancel) -> Result<(), Failure> {
        self.output.line(false, "Starting health monitoring of container");
        let began = Instant::now();
        let outcome = match self.watch {
            Watch::Checks(checks) => {
                let all = self.probes(checks).map(|(probe, _)| self.startup(probe, cancel));
                Failure::all(join_all(all).await.into_iter().filter_map(Result::err))
            }
            Watch::Monitor(action) => self.monitor_startup(action, began, cancel).await,
        };
        match outcome {
            Ok(()) => {
                self.output.line(false, "Container became healthy");
                Ok(())
            }
            Err(_) if cancel.is_cancelled() => Err(Failure::Cancelled),
            Err(failure) => {
                let took = go_duration(Duration::from_millis(began.elapsed().as_millis() as u64));
                self.checks_output().line(true, &failure.to_string());
                self.output.line(true, &format!("Failed after {took}: startup health check never passed."));
                Err(Failure::Told(format!("Instance never healthy after {took}: {failure}")))
            }
        }
    }

    /// Waits until it is not well any more, which is how this ends unless it is cancelled.
    pub(crate) async fn until_unhealthy(&self, cancel: &Cancel) -> Result<(), Failure> {
        let together = cancel.below();
        let outcome = match self.watch {
            Watch::Checks(checks) => {
                let all = self.probes(checks).map(|(probe, interval)| self.liveness(probe, interval, &together));
                codependent(all, &together, false).await
            }
            Watch::Monitor(action) => self.monitor_liveness(action, cancel).await,
        };
        match outcome {
            _ if cancel.is_cancelled() => Err(Failure::Cancelled),
            Ok(()) => Ok(()),
            Err(failure) => {
                self.checks_output().line(true, &failure.to_string());
                self.output.line(true, "Container became unhealthy");
                Err(Failure::Told(format!("Instance became unhealthy: {failure}")))
            }
        }
    }

    /// Follows readiness checks and tells every change, until it is cancelled.
    pub(crate) async fn readiness(
        &self,
        checks: &[models::Check],
        tell: &(dyn Fn(bool) + Sync),
        cancel: &Cancel,
    ) -> Result<(), Failure> {
        let output = self.checks_output();
        output.line(false, "Starting readiness health monitoring of container");
        loop {
            let interval = self.times.unhealthy_interval;
            let all = self.probes(checks).map(|(probe, _)| self.until(probe, true, interval, cancel));
            Failure::all(join_all(all).await.into_iter().filter_map(Result::err)).map_err(|_| Failure::Cancelled)?;
            tell(true);
            output.line(false, "Container passed the readiness health check and receives requests");
            let together = cancel.below();
            let all = self.probes(checks).map(|(probe, interval)| self.liveness(probe, interval, &together));
            // The others were cancelled by the first that failed, so that how this ended says nothing.
            let _ = codependent(all, &together, false).await;
            if cancel.is_cancelled() {
                return Err(Failure::Cancelled);
            }
            tell(false);
            output.line(false, "Container failed the readiness health check and receives no requests");
        }
    }

    fn checks_output(&self) -> Output {
        match self.watch {
            Watch::Checks(_) if self.source.is_empty() => self.output.of(SOURCE),
            Watch::Checks(_) => self.output.of(self.source),
            Watch::Monitor(_) => self.output.clone(),
        }
    }

    /// What to probe, and how often when it is well. A check that says nothing is none.
    fn probes<'c>(&'c self, checks: &'c [models::Check]) -> impl Iterator<Item = (Probe, Duration)> + 'c {
        let or = |ms: u64, default: Duration| if ms == 0 { default } else { Duration::from_millis(ms) };
        checks.iter().filter_map(move |check| {
            let times = self.times;
            if let Some(http) = &check.http_check {
                let path = if http.path.is_empty() { "/".to_owned() } else { http.path.clone() };
                let timeout = or(http.request_timeout_ms, times.timeout);
                let probe = Probe { port: u16::try_from(http.port).ok()?, path: Some(path), timeout };
                return Some((probe, or(http.interval_ms, times.healthy_interval)));
            }
            let tcp = check.tcp_check.as_ref()?;
            let timeout = or(tcp.connect_timeout_ms, times.timeout);
            let probe = Probe { port: u16::try_from(tcp.port).ok()?, path: None, timeout };
            Some((probe, or(tcp.interval_ms, times.healthy_interval)))
        })
    }

    async fn startup(&self, probe: Probe, cancel: &Cancel) -> Result<(), Failure> {
        let deadline = self.deadline(Instant::now());
        let mut attempts = 1;
        let mut last = String::new();
        loop {
            let attempt = async {
                let begun = Instant::now();
                let outcome = self.prober.probe(&probe).await;
                (outcome, begun + self.times.unhealthy_interval)
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Failure::Cancelled),
                (outcome, next) = attempt => match outcome {
                    Ok(()) => return Ok(()),
                    Err(why) => {
                        last = why;
                        tokio::select! {
                            biased;
                            () = cancel.cancelled() => return Err(Failure::Cancelled),
                            () = until(deadline) => return Err(self.timed_out(attempts, &last)),
                            () = tokio::time::sleep_until(next) => {}
                        }
                    }
                },
                () = until(deadline) => return Err(self.timed_out(attempts, &last)),
            }
            attempts += 1;
        }
    }

    fn timed_out(&self, attempts: u32, last: &str) -> Failure {
        let limit = go_duration(self.start_timeout);
        Failure::Told(format!(
            "Timed out after {limit} ({attempts} attempts) waiting for startup check to succeed: {last}"
        ))
    }

    fn deadline(&self, began: Instant) -> Option<Instant> {
        (!self.start_timeout.is_zero()).then(|| began + self.start_timeout)
    }

    async fn liveness(&self, probe: Probe, interval: Duration, cancel: &Cancel) -> Result<(), Failure> {
        let why = self.until(probe, false, interval, cancel).await?;
        Err(Failure::Told(format!("Liveness check unsuccessful: {why}")))
    }

    /// Probes until it passes, or until it fails; gives the reason of the failure.
    async fn until(&self, probe: Probe, passes: bool, interval: Duration, cancel: &Cancel) -> Result<String, Failure> {
        loop {
            let outcome = tokio::select! {
                outcome = self.prober.probe(&probe) => outcome,
                () = cancel.cancelled() => return Err(Failure::Cancelled),
            };
            if outcome.is_ok() == passes {
                return Ok(outcome.err().unwrap_or_default());
            }
            self.pause(interval, cancel).await?;
        }
    }

    async fn monitor_startup(&self, action: &models::Action, began: Instant, cancel: &Cancel) -> Result<(), Failure> {
        loop {
            self.pause(self.times.unhealthy_interval, cancel).await?;
            let Err(failure) = self.monitor(action, cancel).await else { return Ok(()) };
            if cancel.is_cancelled() || self.deadline(began).is_some_and(|deadline| Instant::now() > deadline) {
                return Err(failure);
            }
        }
    }

    async fn monitor_liveness(&self, action: &models::Action, cancel: &Cancel) -> Result<(), Failure> {
        loop {
            self.pause(self.times.healthy_interval, cancel).await?;
            self.monitor(action, cancel).await?;
        }
    }

    async fn monitor(&self, action: &models::Action, cancel: &Cancel) -> Result<(), Failure> {
        let step = Step::root(&format!("{MONITOR}-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        let tree = Tree { purpose: Purpose::Check, ..self.tree };
        tree.explained(&step, action, cancel).await
    }

    async fn pause(&self, interval: Duration, cancel: &Cancel) -> Result<(), Failure> {
        tokio::select! {
            () = tokio::time::sleep(interval) => Ok(()),
            () = cancel.cancelled() => Err(Failure::Cancelled),
        }
    }
}

/// How the steps of monitors begin. They are not found again by a cell that starts again: it looks anew.
pub(crate) const MONITOR: &str = "monitor";

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
