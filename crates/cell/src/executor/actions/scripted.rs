//! A ground for tests, where processes keep to a script, and short words for trees.
//!
//! A process is scripted by its path: `<ms>:<status>`, then perhaps how it takes signals, such as `500:0:stubborn`. Its arguments
//! are the lines that it writes. The clock is for the tests to move.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::models;
use model::{DomainName, TaskGuid};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::super::logs::{Kept, Output, Stream};
use super::super::{Later, LogConfig, LogLine, Owner};
use super::{DownloadFailure, Exit, Ground, Process, Signal, Step};

pub(crate) struct Scripted {
    pub(crate) began: Instant,
    pub(crate) started: watch::Sender<bool>,
    /// How many processes run.
    pub(crate) alive: Arc<AtomicU32>,
    pub(crate) last_start: Mutex<Option<Instant>>,
    pub(crate) story: Arc<Mutex<Vec<String>>>,
    /// What went on before the cell was started.
    pub(crate) before: Duration,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            started: watch::Sender::new(false),
            alive: Arc::default(),
            last_start: Mutex::default(),
            story: Arc::default(),
            before: Duration::ZERO,
        }
    }

    pub(crate) fn tell(&self, what: &str) {
        let at = self.began.elapsed().as_millis();
        self.story.lock().unwrap().push(format!("{at:<6} {what}"));
    }

    /// Output whose lines become part of the story, and who carries them there.
    pub(crate) fn output(&self) -> (Output, impl Future<Output = ()> + use<>) {
        let lines = broadcast::Sender::<LogLine>::new(64);
        let mut heard = lines.subscribe();
        let config = LogConfig { source: "APP".to_owned(), bytes_per_s_max: -1, ..LogConfig::default() };
        let (guid, domain) = (TaskGuid::parse("c").unwrap(), DomainName::parse("d").unwrap());
        let owner = Owner::Task { guid, domain };
        let nowhere = Kept::open(std::path::Path::new("/nonexistent"), &owner);
        let (story, began) = (self.story.clone(), self.began);
        let carry = async move {
            while let Ok(line) = heard.recv().await {
                let kind = if line.is_error { "ERR" } else { "OUT" };
                let at = began.elapsed().as_millis();
                story.lock().unwrap().push(format!("{at:<6} {} {kind} {}", line.source, line.text));
            }
        };
        (Output::new(Stream::new(owner, config, lines, nowhere)), carry)
    }
}

struct Script {
    alive: Arc<AtomicU32>,
    ends: Instant,
    status: i32,
    manners: String,
    signals: watch::Sender<(Option<Signal>, u32)>,
}

impl Process for Script {
    fn wait(&self) -> Later<'_, Result<Exit, String>> {
        Box::pin(async move {
            let mut signals = self.signals.subscribe();
            let exit = |status| {
                self.alive.fetch_sub(1, Ordering::Relaxed);
                Exit { status, out_of_memory: self.manners == "oom" }
            };
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(self.ends) => return Ok(exit(self.status)),
                    _ = signals.changed() => match (signals.borrow().0, self.manners.as_str()) {
                        (Some(Signal::Terminate), "stubborn" | "immortal") | (_, "immortal") => {}
                        (Some(Signal::Terminate), _) => return Ok(exit(143)),
                        (Some(Signal::Kill), _) => return Ok(exit(137)),
                        (None, _) => {}
                    },
                }
            }
        })
    }

    fn signal(&self, signal: Signal) {
        self.signals.send_modify(|(last, count)| (*last, *count) = (Some(signal), *count + 1));
    }
}

impl Ground for Scripted {
    fn start<'a>(
        &'a self,
        step: &'a Step,
        action: &'a models::RunAction,
        output: Output,
    ) -> Later<'a, Result<Box<dyn Process>, String>> {
        Box::pin(async move {
            let parts: Vec<&str> = action.path.split(':').collect();
            let [ms, status, manners @ ..] = &parts[..] else { return Err(format!("{}: no such file", action.path)) };
            self.tell(&format!("{step} starts"));
            self.started.send_replace(true);
            self.alive.fetch_add(1, Ordering::Relaxed);
            *self.last_start.lock().unwrap() = Some(Instant::now());
            action.args.iter().for_each(|line| output.line(false, line));
            let ends = Instant::now() + Duration::from_millis(ms.parse().unwrap());
            let manners = manners.first().copied().unwrap_or_default().to_owned();
            let signals = watch::Sender::new((None, 0));
            Ok(Box::new(Script { alive: self.alive.clone(), ends, status: status.parse().unwrap(), manners, signals })
                as Box<dyn Process>)
        })
    }

    fn download<'a>(
        &'a self,
        step: &'a Step,
        action: &'a models::DownloadAction,
    ) -> Later<'a, Result<u64, DownloadFailure>> {
        Box::pin(async move {
            self.tell(&format!("{step} fetches"));
            tokio::time::sleep(Duration::from_millis(100)).await;
            match action.from.as_str() {
                "missing" => Err(DownloadFailure::Fetch("404, with a secret".to_owned())),
                "damaged" => Err(DownloadFailure::Copy("no space left".to_owned())),
                "cached" => Ok(0),
                _ => Ok(1_536),
            }
        })
    }

    fn upload<'a>(&'a self, step: &'a Step, action: &'a models::UploadAction) -> Later<'a, Result<u64, String>> {
        Box::pin(async move {
            self.tell(&format!("{step} sends"));
            tokio::time::sleep(Duration::from_millis(100)).await;
            if action.to == "missing" { Err("404, with a secret".to_owned()) } else { Ok(10) }
        })
    }

    fn was_started(&self, _step: &Step) -> bool {
        !self.before.is_zero()
    }

    fn begin(&self, _step: &Step) -> Option<Duration> {
        (!self.before.is_zero()).then_some(self.before)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(10)
    }
}

pub(crate) fn run(script: &str) -> models::Action {
    run_as(script, "", &[])
}

pub(crate) fn run_as(script: &str, source: &str, lines: &[&str]) -> models::Action {
    let args = lines.iter().map(ToString::to_string).collect();
    let run_action = models::RunAction { path: script.into(), args, log_source: source.into(), ..Default::default() };
    models::Action { run_action: Some(run_action), ..Default::default() }
}

pub(crate) fn quiet(script: &str, line: &str) -> models::Action {
    let mut action = run_as(script, "", &[line]);
    action.run_action.as_mut().unwrap().suppress_log_output = true;
    action
}

pub(crate) fn download(from: &str, artifact: &str) -> models::Action {
    let download = models::DownloadAction { from: from.into(), artifact: artifact.into(), ..Default::default() };
    models::Action { download_action: Some(download), ..Default::default() }
}

pub(crate) fn upload(to: &str, artifact: &str) -> models::Action {
    let upload = models::UploadAction { to: to.into(), artifact: artifact.into(), ..Default::default() };
    models::Action { upload_action: Some(upload), ..Default::default() }
}

pub(crate) fn serial(actions: impl Into<Vec<models::Action>>) -> models::Action {
    let serial = models::SerialAction { actions: actions.into(), log_source: "IGNORED".into() };
    models::Action { serial_action: Some(serial), ..Default::default() }
}

pub(crate) fn parallel(actions: impl Into<Vec<models::Action>>) -> models::Action {
    let parallel = models::ParallelAction { actions: actions.into(), log_source: "PAR".into() };
    models::Action { parallel_action: Some(parallel), ..Default::default() }
}

pub(crate) fn codependent(actions: impl Into<Vec<models::Action>>) -> models::Action {
    let codependent = models::CodependentAction { actions: actions.into(), log_source: String::new() };
    models::Action { codependent_action: Some(codependent), ..Default::default() }
}

pub(crate) fn attempt(action: models::Action) -> models::Action {
    let attempt = models::TryAction { action: Some(Box::new(action)), log_source: "TRY".into() };
    models::Action { try_action: Some(Box::new(attempt)), ..Default::default() }
}

pub(crate) fn timeout(ms: i64, action: models::Action) -> models::Action {
    let timeout = models::TimeoutAction { action: Some(Box::new(action)), timeout_ms: ms, ..Default::default() };
    models::Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }
}

pub(crate) fn progress(action: models::Action) -> models::Action {
    let progress = models::EmitProgressAction {
        action: Some(Box::new(action)),
        start_message: "here we go".into(),
        success_message: "well done".into(),
        failure_message_prefix: "alas".into(),
        log_source: "NEWS".into(),
    };
    models::Action { emit_progress_action: Some(Box::new(progress)), ..Default::default() }
}
