//! What each tree of actions does, under a clock that the tests move, with processes that keep to a script.
//!
//! [`Scripted`] is also the ground of the tests of whole lives. A process is scripted by its path: `<ms>:<status>`, then perhaps
//! how it takes signals, such as `500:0:stubborn`. Its arguments are the lines that it writes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::models;
use expect_test::{Expect, expect};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::super::logs::{Kept, Output, Stream};
use super::super::{ContainerGuid, Later, LogConfig, LogLine};
use super::*;

pub(crate) struct Scripted {
    began: Instant,
    pub(crate) started: watch::Sender<bool>,
    steps: Mutex<HashMap<Step, Instant>>,
    pub(crate) story: Arc<Mutex<Vec<String>>>,
    /// What went on before the cell was started.
    pub(crate) before: Duration,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        let (began, started) = (Instant::now(), watch::Sender::new(false));
        Self { began, started, steps: Mutex::default(), story: Arc::default(), before: Duration::ZERO }
    }

    pub(crate) fn tell(&self, what: &str) {
        let at = self.began.elapsed().as_millis();
        self.story.lock().unwrap().push(format!("{at:>6} {what}"));
    }

    /// Output whose lines become part of the story, and who carries them there.
    pub(crate) fn output(&self) -> (Output, impl Future<Output = ()> + use<>) {
        let lines = broadcast::Sender::<LogLine>::new(64);
        let mut heard = lines.subscribe();
        let config = LogConfig { source: "APP".to_owned(), bytes_per_s_max: -1, ..LogConfig::default() };
        let nowhere = Kept::open(std::path::Path::new("/nonexistent"), &ContainerGuid("c".into()));
        let (story, began) = (self.story.clone(), self.began);
        let carry = async move {
            while let Ok(line) = heard.recv().await {
                let kind = if line.is_error { "ERR" } else { "OUT" };
                let at = began.elapsed().as_millis();
                story.lock().unwrap().push(format!("{at:>6} {} {kind} {}", line.source, line.text));
            }
        };
        (Output::new(Stream::new(ContainerGuid("c".into()), config, lines, nowhere)), carry)
    }
}

struct Script {
    ends: Instant,
    status: i32,
    manners: String,
    signals: watch::Sender<(Option<Signal>, u32)>,
}

impl Process for Script {
    fn wait(&self) -> Later<'_, Result<Exit, String>> {
        Box::pin(async move {
            let mut signals = self.signals.subscribe();
            let exit = |status| Exit { status, out_of_memory: self.manners == "oom" };
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
            action.args.iter().for_each(|line| output.line(false, line));
            let ends = Instant::now() + Duration::from_millis(ms.parse().unwrap());
            let manners = manners.first().copied().unwrap_or_default().to_owned();
            let signals = watch::Sender::new((None, 0));
            Ok(Box::new(Script { ends, status: status.parse().unwrap(), manners, signals }) as Box<dyn Process>)
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

    fn begin(&self, step: &Step) -> Option<Duration> {
        self.steps.lock().unwrap().insert(step.clone(), Instant::now());
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

fn quiet(script: &str, line: &str) -> models::Action {
    let mut action = run_as(script, "", &[line]);
    action.run_action.as_mut().unwrap().suppress_log_output = true;
    action
}

fn download(from: &str, artifact: &str) -> models::Action {
    let download = models::DownloadAction { from: from.into(), artifact: artifact.into(), ..Default::default() };
    models::Action { download_action: Some(download), ..Default::default() }
}

fn upload(to: &str, artifact: &str) -> models::Action {
    let upload = models::UploadAction { to: to.into(), artifact: artifact.into(), ..Default::default() };
    models::Action { upload_action: Some(upload), ..Default::default() }
}

fn serial<const N: usize>(actions: [models::Action; N]) -> models::Action {
    let serial = models::SerialAction { actions: actions.into(), log_source: "IGNORED".into() };
    models::Action { serial_action: Some(serial), ..Default::default() }
}

fn parallel<const N: usize>(actions: [models::Action; N]) -> models::Action {
    let parallel = models::ParallelAction { actions: actions.into(), log_source: "PAR".into() };
    models::Action { parallel_action: Some(parallel), ..Default::default() }
}

fn codependent<const N: usize>(actions: [models::Action; N]) -> models::Action {
    let codependent = models::CodependentAction { actions: actions.into(), log_source: String::new() };
    models::Action { codependent_action: Some(codependent), ..Default::default() }
}

fn attempt(action: models::Action) -> models::Action {
    let attempt = models::TryAction { action: Some(Box::new(action)), log_source: "TRY".into() };
    models::Action { try_action: Some(Box::new(attempt)), ..Default::default() }
}

fn timeout(ms: i64, action: models::Action) -> models::Action {
    let timeout = models::TimeoutAction { action: Some(Box::new(action)), timeout_ms: ms, ..Default::default() };
    models::Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }
}

fn progress(action: models::Action) -> models::Action {
    let progress = models::EmitProgressAction {
        action: Some(Box::new(action)),
        start_message: "here we go".into(),
        success_message: "well done".into(),
        failure_message_prefix: "alas".into(),
        log_source: "NEWS".into(),
    };
    models::Action { emit_progress_action: Some(Box::new(progress)), ..Default::default() }
}

/// Plays a tree, cancels it after a while if asked to, and tells what happened when.
async fn play(purpose: Purpose, tree: &models::Action, cancel_after_ms: Option<u64>, before: Duration) -> String {
    let ground = Scripted { before, ..Scripted::new() };
    let (output, carry) = ground.output();
    let cancel = Cancel::new();
    let step = Step::root("a");
    let outcome = tokio::select! {
        biased;
        () = carry => unreachable!("the output lives as long as the tree"),
        () = async {
            tokio::time::sleep(Duration::from_millis(cancel_after_ms.unwrap_or(u64::MAX / 4_000_000))).await;
            cancel.cancel();
            std::future::pending::<()>().await;
        } => unreachable!("it never ends"),
        outcome = async {
            let outcome = Tree { ground: &ground, purpose }.perform(&step, tree, output.clone(), &cancel).await;
            // What was written last is carried on before the story ends.
            tokio::task::yield_now().await;
            outcome
        } => outcome,
    };
    let end = match outcome {
        Ok(()) => "succeeds".to_owned(),
        Err(failure) => format!("fails: {failure}"),
    };
    ground.tell(&end);
    let story = ground.story.lock().unwrap();
    story.iter().map(|line| format!("{line}\n")).collect()
}

async fn check(tree: &models::Action, expected: &Expect) {
    expected.assert_eq(&play(Purpose::Work, tree, None, Duration::ZERO).await);
}

async fn check_cancelled(tree: &models::Action, after_ms: u64, expected: &Expect) {
    expected.assert_eq(&play(Purpose::Work, tree, Some(after_ms), Duration::ZERO).await);
}

#[tokio::test(start_paused = true)]
async fn a_process_succeeds_or_fails_by_its_status() {
    check(&run_as("500:0", "", &["hello"]), &expect![[r#"
             0 a starts
             0 APP OUT hello
           500 APP OUT Exit status 0
           500 succeeds
    "#]]).await;
    check(&run_as("500:3", "SRC", &[]), &expect![[r#"
             0 a starts
           500 SRC OUT Exit status 3
           500 fails: SRC: Exited with status 3
    "#]]).await;
    check(&run("1:137:oom"), &expect![[r#"
             0 a starts
             1 APP OUT Exit status 137 (out of memory)
             1 fails: APP: Exited with status 137 (out of memory)
    "#]]).await;
    check(&run("nowhere"), &expect![[r#"
             0 APP OUT failed-creating-process: nowhere: no such file
             0 fails: nowhere: no such file
    "#]]).await;
    check(&quiet("1:1", "unheard"), &expect![[r#"
             0 a starts
             1 fails: APP: Exited with status 1
    "#]]).await;
    check(&models::Action::default(), &expect![[r#"
             0 fails: the action is empty
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_process_has_its_grace_time() {
    check_cancelled(&run("9000:0"), 1_000, &expect![[r#"
             0 a starts
          1000 APP OUT Exit status 143
          1000 fails: cancelled
    "#]]).await;
    check_cancelled(&run("60000:0:stubborn"), 1_000, &expect![[r#"
             0 a starts
         11000 APP OUT Exit status 137 (exceeded 10s graceful shutdown interval)
         11000 fails: exceeded graceful shutdown interval
    "#]]).await;
    check_cancelled(&run("5000:0:stubborn"), 1_000, &expect![[r#"
             0 a starts
          5000 APP OUT Exit status 0
          5000 fails: cancelled
    "#]]).await;
    check_cancelled(&run("60000:0:immortal"), 1_000, &expect![[r#"
             0 a starts
         12000 fails: process did not exit
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn serial_stops_at_the_first_failure() {
    check(&serial([run("100:0"), run("100:0")]), &expect![[r#"
             0 a.0 starts
           100 a.1 starts
           100 APP OUT Exit status 0
           200 APP OUT Exit status 0
           200 succeeds
    "#]]).await;
    check(&serial([run("100:0"), run("100:2"), run("100:0")]), &expect![[r#"
             0 a.0 starts
           100 a.1 starts
           100 APP OUT Exit status 0
           200 APP OUT Exit status 2
           200 fails: APP: Exited with status 2
    "#]]).await;
    check_cancelled(&serial([run("100:0"), run("9000:0"), run("100:0")]), 200, &expect![[r#"
             0 a.0 starts
           100 a.1 starts
           100 APP OUT Exit status 0
           200 APP OUT Exit status 143
           200 fails: cancelled
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn parallel_lets_all_end() {
    check(&parallel([run("100:0"), run("200:0")]), &expect![[r#"
             0 a.0 starts
             0 a.1 starts
           100 PAR OUT Exit status 0
           200 PAR OUT Exit status 0
           200 succeeds
    "#]]).await;
    check(&parallel([run("100:1"), run_as("200:2", "B", &[]), run("300:0")]), &expect![[r#"
             0 a.0 starts
             0 a.1 starts
             0 a.2 starts
           100 PAR OUT Exit status 1
           200 B OUT Exit status 2
           300 PAR OUT Exit status 0
           300 fails: PAR: Exited with status 1; B: Exited with status 2
    "#]]).await;
    check_cancelled(&parallel([run("100:1"), run("9000:0")]), 200, &expect![[r#"
             0 a.0 starts
             0 a.1 starts
           100 PAR OUT Exit status 1
           200 PAR OUT Exit status 143
           200 fails: PAR: Exited with status 1
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn codependent_ends_with_the_first() {
    check(&codependent([run("100:1"), run("9000:0")]), &expect![[r#"
             0 a.0 starts
             0 a.1 starts
           100 APP OUT Exit status 1
           100 APP OUT Exit status 143
           100 fails: APP: Exited with status 1
    "#]]).await;
    check(&codependent([run("100:0"), run("9000:0")]), &expect![[r#"
             0 a.0 starts
             0 a.1 starts
           100 APP OUT Exit status 0
           100 APP OUT Exit status 143
           100 fails: Codependent step exited
    "#]]).await;
    check(&codependent([run("100:1"), run("9000:0:stubborn")]), &expect![[r#"
             0 a.0 starts
             0 a.1 starts
           100 APP OUT Exit status 1
          9000 APP OUT Exit status 0
          9000 fails: APP: Exited with status 1
    "#]]).await;
    check_cancelled(&codependent([run("9000:0"), run("9000:0")]), 100, &expect![[r#"
             0 a.0 starts
             0 a.1 starts
           100 APP OUT Exit status 143
           100 APP OUT Exit status 143
           100 fails: 
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn try_never_fails() {
    check(&attempt(run("100:1")), &expect![[r#"
             0 a.0 starts
           100 TRY OUT Exit status 1
           100 succeeds
    "#]]).await;
    check_cancelled(&attempt(run("9000:0")), 100, &expect![[r#"
             0 a.0 starts
           100 TRY OUT Exit status 143
           100 succeeds
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn timeout_cancels_what_takes_too_long() {
    check(&timeout(1_000, run("100:0")), &expect![[r#"
             0 a.0 starts
           100 APP OUT Exit status 0
           100 succeeds
    "#]]).await;
    check(&timeout(1_000, run("100:1")), &expect![[r#"
             0 a.0 starts
           100 APP OUT Exit status 1
           100 fails: APP: Exited with status 1
    "#]]).await;
    check(&timeout(1_500, run("9000:0")), &expect![[r#"
             0 a.0 starts
          1500 APP OUT Exit status 143
          1500 fails: exceeded 1.5s timeout
    "#]]).await;
    check(&timeout(90_000, progress(run("100000:0:stubborn"))), &expect![[r#"
             0 a.0.0 starts
             0 NEWS OUT here we go
        100000 APP OUT Exit status 0
        100000 NEWS ERR alas
        100000 fails: exceeded 1m30s timeout
    "#]]).await;
    check(&timeout(500, timeout(100, run("9000:0"))), &expect![[r#"
             0 a.0.0 starts
           100 APP OUT Exit status 143
           100 fails: exceeded 100ms timeout
    "#]]).await;
    let resumed = play(Purpose::Work, &timeout(1_000, run("9000:0")), None, Duration::from_millis(700)).await;
    expect![[r#"
             0 a.0 starts
           300 APP OUT Exit status 143
           300 fails: exceeded 1s timeout
    "#]].assert_eq(&resumed);
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_under_its_own_source() {
    check(&progress(run("100:0")), &expect![[r#"
             0 a.0 starts
             0 NEWS OUT here we go
           100 APP OUT Exit status 0
           100 NEWS OUT well done
           100 succeeds
    "#]]).await;
    check(&progress(run("100:1")), &expect![[r#"
             0 a.0 starts
             0 NEWS OUT here we go
           100 APP OUT Exit status 1
           100 NEWS ERR alas: APP: Exited with status 1
           100 fails: APP: Exited with status 1
    "#]]).await;
    check(&progress(parallel([run("100:1")])), &expect![[r#"
             0 a.0.0 starts
             0 NEWS OUT here we go
           100 PAR OUT Exit status 1
           100 NEWS ERR alas
           100 fails: PAR: Exited with status 1
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn files_are_fetched_and_sent() {
    check(&download("there", "droplet"), &expect![[r#"
             0 a fetches
             0 APP OUT Downloading droplet...
           100 APP OUT Downloaded droplet (1.5K)
           100 succeeds
    "#]]).await;
    check(&download("cached", "droplet"), &expect![[r#"
             0 a fetches
             0 APP OUT Downloading droplet...
           100 APP OUT Downloaded droplet
           100 succeeds
    "#]]).await;
    check(&download("missing", "droplet"), &expect![[r#"
             0 a fetches
             0 APP OUT Downloading droplet...
           100 APP ERR Downloading droplet failed
           100 fails: Downloading droplet failed
    "#]]).await;
    check(&download("missing", ""), &expect![[r#"
             0 a fetches
           100 APP ERR Downloading failed
           100 fails: Downloading failed
    "#]]).await;
    check(&download("damaged", "droplet"), &expect![[r#"
             0 a fetches
             0 APP OUT Downloading droplet...
           100 APP ERR Copying droplet into the container failed: no space left
           100 fails: Copying droplet into the container failed: no space left
    "#]]).await;
    check_cancelled(&download("there", ""), 50, &expect![[r#"
             0 a fetches
            50 fails: cancelled
    "#]]).await;
    check(&upload("there", "result"), &expect![[r#"
             0 a sends
             0 APP OUT Uploading result...
           100 APP OUT Uploaded result (10B)
           100 succeeds
    "#]]).await;
    check(&upload("missing", "result"), &expect![[r#"
             0 a sends
             0 APP OUT Uploading result...
           100 APP ERR Failed to upload payload for result
           100 fails: Failed to upload payload
    "#]]).await;
    check_cancelled(&upload("there", ""), 50, &expect![[r#"
             0 a sends
            50 fails: cancelled
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn a_check_fails_with_what_was_written() {
    let tree = parallel([run_as("10:1", "", &["port is closed"]), run("10:2"), run_as("10:0", "", &["fine"])]);
    expect![[r#"
             0 a.0 starts
             0 a.1 starts
             0 a.2 starts
            10 fails: port is closed; Failed to invoke process: Exited with status 2
    "#]].assert_eq(&play(Purpose::Check, &tree, None, Duration::ZERO).await);
}
