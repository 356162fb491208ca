//! Following a migration or a rotation of keys: a line redrawn in place on a terminal, one JSON object per change otherwise.
//!
//! A server that does not answer for a moment, because it restarts or another node takes over, does not end the watch; one
//! that stays away does. Status is asked for again and again: it is small, and served in every phase, which a stream of
//! events is not.

use std::time::Duration;

use api::client::{OperatorError, TransportKind};
use serde::de::DeserializeOwned;
use tokio::time::MissedTickBehavior;

use super::Document;
use super::figures::{grouped, percent, time, whole};
use crate::console::Console;
use crate::failure::CommandError;

pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// Half a minute without an answer.
const SILENT_ANSWERS_MAX: u32 = 60;

/// A server that rolls back stops at the end, which is no failure, but not the certainty of success either.
const STOPPED: &str = "the server does not answer any more, as it should at the end of a rollback; `corkboard migrate \
                       status --config FILE` says whether the store is ready for the former release";

const BAR_COLUMNS_MIN: usize = 10;
const BAR_COLUMNS_MAX: usize = 40;
/// The longest word for a state that moves.
const WORD_COLUMNS: usize = 12;
const CLEAR_LINE: &str = "\r\x1b[2K";

/// Something that a server does, as its document shows it at one moment.
pub(crate) trait Watched: DeserializeOwned + PartialEq {
    fn progress(&self) -> Progress;

    /// Without what changes by the mere passing of time.
    fn lasting(&self) -> Self;

    /// Whether the server goes away by itself when this has ended.
    fn ends_the_server(&self) -> bool {
        false
    }
}

/// How far it is. What is not known is left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// What is being done.
    pub(crate) word: &'static str,
    pub(crate) done: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) eta_s: Option<f64>,
    pub(crate) elapsed_s: Option<f64>,
    /// How long nothing has moved that should move.
    pub(crate) quiet_s: Option<f64>,
}

/// What a watch says off a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tell {
    Changes,
    Nothing,
}

/// Whether a watch draws for people.
pub(crate) fn draws(console: &Console) -> bool {
    console.width().is_some() && !console.is_json()
}

/// Follows until `is_over`, and gives the last state that was seen, with the document that showed it.
pub(crate) async fn watch<T: Watched>(
    ask: impl AsyncFn() -> Result<Document, CommandError>,
    console: &mut Console,
    tell: Tell,
    is_over: impl Fn(&T) -> bool,
) -> Result<(T, Document), CommandError> {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut shown, mut silent): (Option<T>, u32) = (None, 0);
    loop {
        ticks.tick().await;
        let document = match ask().await {
            Ok(document) => document,
            Err(error) => {
                silent += 1;
                let has_stopped = is_gone(&error) && shown.as_ref().is_some_and(Watched::ends_the_server);
                if has_stopped || !may_pass(&error) || silent > SILENT_ANSWERS_MAX {
                    if draws(console) {
                        console.line("")?;
                    }
                    return Err(if has_stopped { CommandError::Unfinished(STOPPED.to_owned()) } else { error });
                }
                if draws(console) {
                    console.write(format!("{CLEAR_LINE}no answer; trying again").as_bytes())?;
                }
                continue;
            }
        };
        silent = 0;
        let now: T = document.read()?;
        if draws(console) {
            draw(console, &now.progress(), shown.as_ref().map(|before| before.progress().word))?;
        } else if tell == Tell::Changes && shown.as_ref().is_none_or(|before| before.lasting() != now.lasting()) {
            console.line(&document.one_line())?;
        }
        if is_over(&now) {
            if draws(console) {
                console.line("\n")?;
            }
            return Ok((now, document));
        }
        shown = Some(now);
    }
}

/// A state that ended keeps its line, so that the way so far can be read afterwards.
pub(crate) fn draw(console: &mut Console, now: &Progress, word_before: Option<&str>) -> Result<(), CommandError> {
    let is_next = word_before.is_some_and(|before| before != now.word);
    let start = if is_next { "\n" } else { CLEAR_LINE };
    let line = progress_line(now, console.width().unwrap_or(usize::MAX));
    Ok(console.write(format!("{start}{line}").as_bytes())?)
}

/// Whether the next question may be answered.
fn may_pass(error: &CommandError) -> bool {
    match error {
        CommandError::Operator(OperatorError::Refused { status, .. } | OperatorError::Status { status, .. }) => {
            *status >= 500
        }
        CommandError::Operator(OperatorError::Transport { kind, .. }) => *kind != TransportKind::Tls,
        _ => false,
    }
}

fn is_gone(error: &CommandError) -> bool {
    matches!(error, CommandError::Operator(OperatorError::Transport { kind: TransportKind::Refused, .. }))
}

/// One line of at most `width` columns. What fits least is left out first: rate, count, time left.
fn progress_line(now: &Progress, width: usize) -> String {
    let label = format!("{:<WORD_COLUMNS$}", now.word);
    let line = match (now.done, now.total) {
        (Some(done), Some(total)) => {
            let mut facts = facts(now, done, total);
            let columns = loop {
                let taken = label.len() + 1 + 2 + facts.iter().map(|fact| 2 + fact.len()).sum::<usize>();
                let columns = width.saturating_sub(taken);
                if columns >= BAR_COLUMNS_MIN || facts.len() == 1 {
                    break columns.min(BAR_COLUMNS_MAX);
                }
                facts.pop();
            };
            format!("{label} [{}]  {}", bar(done, total, columns), facts.join("  "))
        }
        _ => match now.elapsed_s {
            Some(elapsed) => format!("{label} {}", time(elapsed)),
            None => label,
        },
    };
    line.chars().take(width).collect::<String>().trim_end().to_owned()
}

/// The most important first.
fn facts(now: &Progress, done: u64, total: u64) -> Vec<String> {
    let percent = format!("{:>3} %", percent(done, total));
    let quiet = now.quiet_s.map(|s| format!("nothing moved for {}", time(s)));
    let left = now.eta_s.filter(|_| quiet.is_none()).map(|s| format!("{} left", time(s)));
    let rate = now.rate_per_s.filter(|rate| *rate > 0.0).map(|rate| format!("{}/s", grouped(whole(rate))));
    // As wide as it will get, so that the bar does not shrink while it fills.
    let total = grouped(total);
    let count = format!("{:>columns$} of {total}", grouped(done), columns = total.len());
    [Some(percent), quiet, left, Some(count), rate].into_iter().flatten().collect()
}

fn bar(done: u64, total: u64, columns: usize) -> String {
    let done = u128::from(done.min(total)) * columns as u128;
    let filled = done.checked_div(u128::from(total)).unwrap_or(columns as u128);
    let filled = usize::try_from(filled).unwrap_or(columns);
    format!("{}{}", "=".repeat(filled), " ".repeat(columns - filled))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use expect_test::expect;

    use super::super::document::Migration;
    use super::*;

    fn line(rest: &str, width: usize) -> String {
        let json = format!(r#"{{"state":"sweeping","rate_per_s":21000.4,"eta_s":18,"elapsed_s":6{rest}}}"#);
        let now: Migration = Document::of(&Bytes::from(json)).unwrap().read().unwrap();
        let line = progress_line(&now.progress(), width);
        assert!(line.chars().count() <= width, "{line}");
        line
    }

    #[test]
    fn what_fits_is_drawn() {
        let half = r#","done":120000,"total":500000,"last_progress_s":0"#;
        let lines = [120, 80, 60, 50, 36, 30, 14, 3].map(|width| format!("{width:>3}|{}|", line(half, width)));
        expect![[r#"
            120|sweeping     [=========                               ]   24 %  18 s left  120,000 of 500,000  21,000/s|
             80|sweeping     [====             ]   24 %  18 s left  120,000 of 500,000  21,000/s|
             60|sweeping     [======                     ]   24 %  18 s left|
             50|sweeping     [====             ]   24 %  18 s left|
             36|sweeping     [===           ]   24 %|
             30|sweeping     [=       ]   24 %|
             14|sweeping     [|
              3|swe|"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn the_bar_is_full_only_at_the_end() {
        let of = |done: u64, total: u64| line(&format!(r#","done":{done},"total":{total}"#), 60);
        let lines =
            [of(0, 500), of(1, 500), of(499, 500), of(500, 500), of(501, 500), of(0, 0), of(u64::MAX, u64::MAX)];
        expect![[r#"
            sweeping     [               ]    0 %  18 s left    0 of 500
            sweeping     [               ]    0 %  18 s left    1 of 500
            sweeping     [============== ]   99 %  18 s left  499 of 500
            sweeping     [===============]  100 %  18 s left  500 of 500
            sweeping     [===============]  100 %  18 s left  501 of 500
            sweeping     [===================]  100 %  18 s left  0 of 0
            sweeping     [===========================]  100 %  18 s left"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_sweep_that_stands_still_is_noticed() {
        expect!["sweeping     [===============               ]   50 %  nothing moved for 1 min 15 s  1 of 2  21,000/s"]
            .assert_eq(&line(r#","done":1,"total":2,"last_progress_s":75"#, 100));
        expect!["sweeping     6 s"].assert_eq(&line("", 100));
    }
}
