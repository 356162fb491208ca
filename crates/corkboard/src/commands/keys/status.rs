//! `keys status`: one screen that says which key can be removed and what stands in the way, and an exit code for scripts.

use std::fmt::Write as _;

use bbs::clock::{Clock as _, SystemClock};

use super::ask;
use super::document::{Broken, Key, Keys, State, quoted};
use crate::commands::migrate::{
    EXIT_DONE, Errand, Place, StoreFlag, Via, grouped, moment, percent, time, watch, whole,
};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;
use crate::output::{laid_out, table};

const EXIT_UNDER_WAY: u8 = 10;
const EXIT_WAITS: u8 = 11;
const EXIT_STUCK: u8 = 12;

/// More than this nobody reads; `--json` has them all.
const BLOCKED_SHOWN_MAX: usize = 10;
const NANOS_PER_S: f64 = 1e9;

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Follow it until it ends or needs you: a progress bar on a terminal, else one JSON object per change
    #[arg(long, conflicts_with = "config")]
    watch: bool,
    /// Ask the health port at this URL instead, on any node and in any phase [env: CORKBOARD_HEALTH_URL]
    #[arg(long = "healthURL", alias = "health-url", value_name = "URL", conflicts_with_all = ["bbs_url", "config"])]
    health_url: Option<String>,
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Status {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.store.or(Place::AnyNode(self.health_url.as_deref()))
    }
}

pub(crate) async fn status(via: &Via, args: Status, console: &mut Console) -> Result<u8, CommandError> {
    if args.watch {
        return follow(via, console).await;
    }
    let document = ask::status(via).await?;
    let keys: Keys = document.read()?;
    if console.is_json() {
        console.line(&document.one_line())?;
    } else {
        show(&keys, console)?;
    }
    Ok(exit_code(keys.state))
}

/// Until nothing moves any more.
pub(super) async fn follow(via: &Via, console: &mut Console) -> Result<u8, CommandError> {
    let is_over = |now: &Keys| !now.state.is_moving();
    let (last, _) = watch::watch(async || ask::status(via).await, console, watch::Tell::Changes, is_over).await?;
    if watch::draws(console) {
        show(&last, console)?;
    }
    Ok(exit_code(last.state))
}

pub(super) fn show(keys: &Keys, console: &mut Console) -> Result<(), CommandError> {
    Ok(console.write(screen(keys, SystemClock.now_ns()).as_bytes())?)
}

pub(super) fn exit_code(state: State) -> u8 {
    match state {
        State::Off | State::Settled => EXIT_DONE,
        State::Rotating | State::Verifying | State::Checking | State::Unknown => EXIT_UNDER_WAY,
        State::Unfinished => EXIT_WAITS,
        State::Blocked => EXIT_STUCK,
    }
}

/// Everything about the keys, with the next command last, where the eye ends.
fn screen(now: &Keys, now_ns: i64) -> String {
    let mut text = format!("Encryption at rest: {}\n", now.state.word());
    if !now.explanation.is_empty() {
        let _ = write!(text, "\n  {}\n", now.explanation);
    }
    let facts = facts(now);
    if !facts.is_empty() {
        text.push('\n');
    }
    for (name, value) in facts {
        let _ = writeln!(text, "  {name:<9} {value}");
    }
    keys(&mut text, &now.keys, now_ns);
    blocked(&mut text, &now.blocked);
    if !now.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &now.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    if let Some(next) = &now.next {
        let _ = write!(text, "\nNext: {next}\n");
    }
    text
}

fn facts(now: &Keys) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(records) = now.records.filter(|_| now.state != State::Off) {
        let plain = match now.plain_records {
            0 => String::new(),
            plain => format!(", {} of them not encrypted", grouped(plain)),
        };
        facts.push(("records", format!("{}{plain}", grouped(records))));
    }
    if now.active.is_some() {
        let marker = match &now.marker {
            Some(marker) => format!("the store says that all records are under key {marker}"),
            None => "the store does not say that all records are under one key".to_owned(),
        };
        facts.push(("marker", marker));
    }
    facts.extend(now.mode.clone().filter(|_| now.state.is_moving()).map(|mode| ("mode", mode)));
    facts.extend(progress(now).map(|progress| ("progress", progress)));
    let left = now.eta_s.map(|s| format!("about {} left", time(s)));
    let so_far = now.elapsed_s.map(|s| format!("{} so far", time(s)));
    let times: Vec<String> = [left, so_far].into_iter().flatten().collect();
    if !times.is_empty() {
        facts.push(("time", times.join(", ")));
    }
    facts
}

fn progress(now: &Keys) -> Option<String> {
    let (done, total) = (now.done?, now.total.filter(|total| *total > 0 && now.state.is_moving())?);
    let mut text = format!("{} of {} records ({} %)", grouped(done), grouped(total), percent(done, total));
    if let Some(rate) = now.rate_per_s.filter(|rate| *rate > 0.0) {
        let _ = write!(text, ", {}/s", grouped(whole(rate)));
    }
    Some(text)
}

/// The verdicts stand below the table, so that no terminal is too narrow for their sentences.
fn keys(text: &mut String, keys: &[Key], now_ns: i64) {
    if keys.is_empty() {
        return;
    }
    let mut rows = table();
    rows.set_header(["KEY", "ROLE", "RECORDS", "WRITES (OF WHAT IS SAFE)", "OLDEST RECORD (UTC)"]);
    rows.add_rows(keys.iter().map(|key| {
        [
            key.name.clone(),
            role(key).to_owned(),
            grouped(key.records),
            format!("{} ({})", grouped(key.writes), share(key.writes, key.writes_max)),
            key.oldest_record_ns.map(|ns| oldest(ns, now_ns)).unwrap_or_default(),
        ]
    }));
    text.push('\n');
    for line in laid_out(rows).lines() {
        let _ = writeln!(text, "  {line}");
    }
    text.push('\n');
    for key in keys {
        let _ = writeln!(text, "  {}", key.verdict);
    }
}

fn role(key: &Key) -> &'static str {
    match (key.active, key.configured) {
        (true, _) => "seals",
        (false, true) => "opens",
        (false, false) => "not here",
    }
}

fn share(writes: u64, writes_max: u64) -> String {
    match percent(writes, writes_max) {
        0 if writes > 0 => "< 1 %".to_owned(),
        share => format!("{share} %"),
    }
}

fn oldest(sealed_ns: i64, now_ns: i64) -> String {
    let age_s = now_ns.saturating_sub(sealed_ns).max(0) as f64 / NANOS_PER_S;
    format!("{} ({} ago)", moment(sealed_ns), time(age_s))
}

pub(super) fn blocked(text: &mut String, blocked: &[Broken]) {
    for Broken { id, why } in blocked.iter().take(BLOCKED_SHOWN_MAX) {
        let id_quoted = quoted(id);
        let _ = write!(text, "\n  blocked by: {id}\n    {why}\n    corkboard quarantine show {id_quoted}\n");
        let _ = writeln!(text, "    corkboard quarantine discard {id_quoted}");
    }
    let more = blocked.len().saturating_sub(BLOCKED_SHOWN_MAX);
    if more > 0 {
        let _ = write!(text, "\n  and {more} more; --json names them\n");
    }
}

#[cfg(test)]
mod tests;
