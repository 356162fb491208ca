//! Waits until an app is there, showing how far it is, or until it is known that it cannot be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::cell::logs::{LogLine, LogMessage, LogQuery, LogsOf};
use api::client::Client;
use api::client::logs::CellLogs;
use api::models::{ActualLrPsRequest, ActualLrp, actual_lrp};
use tokio::time::{Instant, sleep, timeout};

use super::probe::{Answer, Router};
use crate::commands::logs::harmless::harmless;
use crate::console::Console;
use crate::failure::CommandError;

const LOOK_PAUSE: Duration = Duration::from_millis(200);
const STEADY: Duration = Duration::from_secs(1);
/// Between two reminders of an instance that should end.
const NUDGE_PAUSE: Duration = Duration::from_secs(2);
/// How often cells are asked for what an app has written until one knows something.
const LOGS_ATTEMPTS_MAX: usize = 5;
/// Of an app that crashed.
const LAST_LINES: usize = 10;
const LOGS_LIMIT: Duration = Duration::from_secs(3);
/// Back to the beginning of the line, and nothing is left on it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// What was wrong with instances before anything was asked for; it is not news.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    client: &'a Client,
    cells: &'a CellLogs,
    name: &'a str,
    instances: i32,
    /// How long all must have been healthy: nobody checks an app without a health check, so it must last a moment.
    steady: Duration,
    before: BTreeMap<i32, (i32, i64)>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    placed: usize,
    healthy: usize,
}

impl<'a> Wait<'a> {
    pub(super) async fn begin(
        client: &'a Client,
        cells: &'a CellLogs,
        name: &'a str,
        (instances, is_checked): (i32, bool),
    ) -> Result<Self, CommandError> {
        let rows = rows(client, name).await?;
        let before = rows.iter().filter_map(|row| Some((index(row)?, (row.crash_count, row.since)))).collect();
        let steady = if is_checked { Duration::ZERO } else { STEADY };
        Ok(Self { client, cells, name, instances, steady, before })
    }

    /// Returns the router through which it was reached, if there is one.
    pub(super) async fn until_there<'r>(
        &self,
        console: &mut Console,
        router: Option<&'r Router>,
        routes: &[String],
        limit: Duration,
    ) -> Result<Option<&'r Router>, CommandError> {
        let mut shown = Shown::default();
        let deadline = Instant::now() + limit;
        let healthy = self.until_healthy(console, &mut shown, limit).await;
        let router = match router.filter(|_| !routes.is_empty()) {
            Some(router) if healthy.is_ok() && (router.is_named() || router.is_router().await) => Some(router),
            _ => None,
        };
        let outcome = match (healthy, router) {
            (Ok(()), Some(router)) => self.until_routed(router, routes, deadline).await,
            (healthy, _) => healthy,
        };
        if outcome.is_ok() && router.is_some() {
            let text = format!("{}, routed", shown.last);
            shown.show(console, &text)?;
        }
        shown.end(console);
        outcome.map(|()| router)
    }

    async fn until_healthy(
        &self,
        console: &mut Console,
        shown: &mut Shown,
        limit: Duration,
    ) -> Result<(), CommandError> {
        let (mut last, mut since) = (None, Instant::now());
        let healthy = timeout(limit, async {
            loop {
                let rows = rows(self.client, self.name).await?;
                self.check(&rows).await?;
                let progress = self.progress(&rows);
                last = Some(progress);
                shown.show(console, &self.text(progress))?;
                if progress.healthy < usize::try_from(self.instances).unwrap_or(0) {
                    since = Instant::now();
                } else if self.instances == 0 || since.elapsed() >= self.steady {
                    return Ok::<(), CommandError>(());
                }
                sleep(LOOK_PAUSE).await;
            }
        });
        healthy.await.unwrap_or_else(|_| Err(self.not_there(limit, last)))
    }

    async fn until_routed(&self, router: &Router, routes: &[String], deadline: Instant) -> Result<(), CommandError> {
        for route in routes {
            loop {
                let why = match router.ask(route).await {
                    Answer::App => break,
                    Answer::Router(reason) => format!("the router says {reason}"),
                    Answer::Nobody(reason) => reason,
                };
                if Instant::now() >= deadline {
                    return Err(self.not_routed(route, router, &why));
                }
                sleep(LOOK_PAUSE).await;
            }
        }
        Ok(())
    }

    fn progress(&self, rows: &[ActualLrp]) -> Progress {
        let mut progress = Progress::default();
        let wanted = rows.iter().filter(|row| {
            row.presence() == actual_lrp::Presence::Ordinary && index(row).is_some_and(|index| index < self.instances)
        });
        for row in wanted {
            progress.placed += usize::from(matches!(row.state.as_str(), "CLAIMED" | "RUNNING"));
            progress.healthy += usize::from(row.state == "RUNNING" && row.routable.unwrap_or(true));
        }
        progress
    }

    fn text(&self, progress: Progress) -> String {
        let (name, wanted, Progress { placed, healthy }) = (self.name, self.instances, progress);
        format!("{name}: {placed} of {wanted} placed, {healthy} healthy")
    }

    /// What went wrong since this began ends the wait: the reason will hardly be another one the next time.
    async fn check(&self, rows: &[ActualLrp]) -> Result<(), CommandError> {
        for row in rows {
            let Some(index) = index(row).filter(|index| *index < self.instances) else { continue };
            let (crashes, since) = self.before.get(&index).copied().unwrap_or_default();
            if row.crash_count > crashes {
                return Err(self.crashed(index, &row.crash_reason).await);
            }
            if !row.placement_error.is_empty() && row.since != since {
                return Err(self.unplaced(index, &row.placement_error));
            }
        }
        Ok(())
    }

    async fn crashed(&self, index: i32, reason: &str) -> CommandError {
        let name = self.name;
        let mut lines = Vec::new();
        for _ in 0..LOGS_ATTEMPTS_MAX {
            lines = timeout(LOGS_LIMIT, self.last_lines(index)).await.unwrap_or_default();
            if !lines.is_empty() {
                break;
            }
            sleep(LOOK_PAUSE).await;
        }
        let said = if lines.is_empty() {
            "It has written nothing that is known here.".to_owned()
        } else {
            format!("The last that was written:\n  {}", lines.join("\n  "))
        };
        CommandError::Unfinished(format!(
            "instance {index} of {name} crashed: {}\n{said}\nIt stays desired and is started again. See `corkboard logs {name}`; \
             stop it with `corkboard stop-app {name}`",
            harmless(reason)
        ))
    }

    fn unplaced(&self, index: i32, error: &str) -> CommandError {
        let name = self.name;
        CommandError::Unfinished(format!(
            "instance {index} of {name} cannot be placed: {}\nIt stays desired and is tried again. See which cells there are with \
             `corkboard cells`; stop it with `corkboard stop-app {name}`",
            harmless(error)
        ))
    }

    fn not_there(&self, limit: Duration, last: Option<Progress>) -> CommandError {
        let name = self.name;
        CommandError::Unfinished(format!(
            "after {limit:?} {name} is not there; the last that was seen: {}. It stays desired. See `corkboard actual-lrps -p {name}` \
             and `corkboard logs {name}`, and wait longer with --wait-timeout",
            last.map_or_else(|| "nothing".to_owned(), |last| self.text(last))
        ))
    }

    fn not_routed(&self, route: &str, router: &Router, why: &str) -> CommandError {
        let (name, url) = (self.name, router.url());
        CommandError::Unfinished(format!(
            "{name} runs, but is not reached as {route} through {url}: {why}. It stays desired. Is that the router of this \
             cluster? Name it with --router"
        ))
    }

    /// From whichever cell it was on, which nobody remembers.
    async fn last_lines(&self, index: i32) -> Vec<String> {
        let of = LogsOf::Process { guid: self.name.to_owned(), index: Some(index) };
        let query = LogQuery { of, lines: Some(LAST_LINES), since_ns: None, follow: false };
        self.lines(&query, |_| true).await
    }

    /// What instances wrote since then that are gone by now, as those of an update that was taken back.
    pub(super) async fn last_lines_of_the_gone(&self, since_ns: i64) -> Vec<String> {
        let there = rows(self.client, self.name).await.unwrap_or_default();
        let there: BTreeSet<String> =
            there.into_iter().filter_map(|row| Some(row.actual_lrp_instance_key?.instance_guid)).collect();
        let of = LogsOf::Process { guid: self.name.to_owned(), index: None };
        let query = LogQuery { of, lines: Some(usize::MAX), since_ns: Some(since_ns), follow: false };
        let lines = self.lines(&query, |line| !there.contains(&line.instance_guid));
        timeout(LOGS_LIMIT, lines).await.unwrap_or_default()
    }

    async fn lines(&self, query: &LogQuery, is_wanted: impl Fn(&LogLine) -> bool) -> Vec<String> {
        let mut lines: Vec<LogLine> = Vec::new();
        for cell in self.client.cells().await.unwrap_or_default() {
            let Ok(cell) = api::convert::cell_from_wire(cell) else { continue };
            let Ok(mut stream) = self.cells.open(&cell, query).await else { continue };
            while let Ok(Some(message)) = stream.next().await {
                if let LogMessage::Line(line) = message
                    && is_wanted(&line)
                {
                    lines.push(line);
                }
            }
        }
        lines.sort_by_key(|line| line.at_ns);
        let last = lines.split_off(lines.len().saturating_sub(LAST_LINES));
        last.iter().map(|line| format!("[{}] {}", line.source, harmless(&line.text))).collect()
    }
}

/// Waits until nothing of an app is left.
pub(super) async fn until_gone(client: &Client, name: &str, limit: Duration) -> Result<(), CommandError> {
    let gone = timeout(limit, async {
        let mut nudged = Instant::now();
        loop {
            let left = rows(client, name).await?;
            if left.is_empty() {
                return Ok(());
            }
            // What was on its way to a cell when the app was forgotten would wait for the next convergence.
            if nudged.elapsed() >= NUDGE_PAUSE {
                nudged = Instant::now();
                for key in left.into_iter().filter_map(|row| row.actual_lrp_key) {
                    // It may be gone by now; the next look shows.
                    let _ = client.retire_actual_lrp(key).await;
                }
            }
            sleep(LOOK_PAUSE).await;
        }
    });
    gone.await.unwrap_or_else(|_| {
        Err(CommandError::Unfinished(format!(
            "{name} is not desired any more, but after {limit:?} some of it still runs. See `corkboard actual-lrps -p {name}`"
        )))
    })
}

async fn rows(client: &Client, name: &str) -> Result<Vec<ActualLrp>, CommandError> {
    let filter = ActualLrPsRequest { process_guid: name.to_owned(), ..ActualLrPsRequest::default() };
    Ok(client.actual_lrps(filter).await?)
}

fn index(row: &ActualLrp) -> Option<i32> {
    row.actual_lrp_key.as_ref().map(|key| key.index)
}

/// On a terminal one line that changes, elsewhere one line for each change.
#[derive(Debug, Default)]
struct Shown {
    last: String,
}

impl Shown {
    fn show(&mut self, console: &mut Console, text: &str) -> Result<(), CommandError> {
        if self.last == text {
            return Ok(());
        }
        text.clone_into(&mut self.last);
        match console.width() {
            Some(_) => console.write(format!("{CLEAR_LINE}{text}").as_bytes())?,
            None => console.line(text)?,
        }
        Ok(())
    }

    /// What comes next begins on a line of its own.
    fn end(&mut self, console: &mut Console) {
        if console.width().is_some() && !self.last.is_empty() {
            // Whoever closed our output does not see the next line either.
            let _ = console.write(b"\n");
        }
        self.last.clear();
    }
}
