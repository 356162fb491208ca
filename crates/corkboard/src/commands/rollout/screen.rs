//! How the update of an app looks: a screen for people, and one line for those who read a log.

use std::fmt::Write as _;

use super::sight::{NANOS_PER_S, Named, Phase, Role, Row, Sight};
use super::terms;
use crate::commands::logs::harmless::harmless;
use crate::commands::migrate::{moment, time};
use crate::output::{Tabular, laid_out, table};

const BAR_COLUMNS: usize = 30;
const SECONDS_PER_MINUTE: f64 = 60.0;
const MS_PER_S: f64 = 1e3;

/// Everything about it; `rows_max` is how many instances there is room for.
pub(super) fn screen(now: &Sight, now_ns: i64, rows_max: usize) -> String {
    let mut text = format!("{}\n", title(now, now_ns));
    let facts = facts(now, now_ns);
    if !facts.is_empty() {
        text.push('\n');
    }
    for (name, value) in facts {
        let _ = writeln!(text, "  {name:<9} {value}");
    }
    let (rows, left_out) = chosen(now, rows_max);
    if !rows.is_empty() {
        let rows: Vec<Shown<'_>> = rows.into_iter().map(|row| Shown { row, now_ns }).collect();
        let _ = write!(text, "\n{}\n", in_columns(&rows));
    }
    if left_out > 0 {
        let _ = writeln!(text, "and {left_out} more about which there is nothing to tell");
    }
    if let Some(next) = &now.next {
        let _ = write!(text, "\nNext: {next}\n");
    }
    text
}

/// The same for a log: it says the same again only when something has changed.
pub(super) fn line(now: &Sight) -> String {
    let Sight { process_guid, done, total, .. } = now;
    let to = now.to.shown();
    let (back, why) = (if now.reverts { " back" } else { "" }, why(now));
    let mut text = match now.phase {
        Phase::None => return format!("{process_guid}: no update"),
        Phase::Done if now.reverts => format!("{process_guid}: done, all have definition {to} again{why}"),
        Phase::Done => format!("{process_guid}: done, all have definition {to}"),
        Phase::Rolling | Phase::Unknown => {
            format!("{process_guid}: going{back} to definition {to}, {done} of {total}{why}")
        }
        Phase::Canary => format!("{process_guid}: canaries have definition {to}, {done} of {total}"),
        Phase::Paused => format!("{process_guid}: paused on the way{back} to definition {to}, {done} of {total}"),
        Phase::Halted => format!("{process_guid}: halted on the way{back} to definition {to}, {done} of {total}{why}"),
    };
    for row in now.instances.iter().filter(|row| row.role == Role::Successor) {
        let _ = write!(text, "; instance {} is {}", row.index, row.state);
        if !row.cell_id.is_empty() {
            let _ = write!(text, " on {}", harmless(&row.cell_id));
        }
        if !row.problem.is_empty() {
            let _ = write!(text, " ({})", harmless(&row.problem));
        }
    }
    text
}

fn why(now: &Sight) -> String {
    if now.why.is_empty() { String::new() } else { format!(", because: {}", harmless(&now.why)) }
}

fn title(now: &Sight, now_ns: i64) -> String {
    let (guid, to) = (&now.process_guid, now.to.shown());
    let Some(from) = now.from.as_ref().map(Named::shown) else {
        return format!("{guid} has definition {to}; no update is under way, and none is remembered.");
    };
    let since = age(now.phase_since, now_ns);
    let way = match now.reverts {
        true => format!("{guid} goes back from definition {from} to {to}"),
        false => format!("{guid} goes from definition {from} to {to}"),
    };
    match now.phase {
        Phase::Done if now.reverts => format!("{guid} has definition {to} again: the update to {from} was taken back."),
        Phase::Done | Phase::None => format!("{guid} has definition {to}: the update from {from} is complete."),
        Phase::Rolling => format!("{way}: rolling for {since}"),
        Phase::Unknown => format!("{way}: for {since} in a phase that this command does not know"),
        Phase::Canary => format!("{way}: its canaries run for {since}, {}", pause(now)),
        Phase::Paused => format!("{way}: paused for {since}"),
        Phase::Halted => format!("{way}: FAILED, and halted for {since}; what runs, runs on"),
    }
}

fn pause(now: &Sight) -> String {
    match now.canary_pause_ms() {
        ms @ 0.. => format!("and it goes on after {}", time(ms as f64 / MS_PER_S)),
        _ => "and it waits for somebody".to_owned(),
    }
}

fn facts(now: &Sight, now_ns: i64) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if now.is_under_way() {
        facts.push(("progress", progress(now)));
        facts.push(("began", format!("{} UTC, {} ago", moment(now.started_at), age(now.started_at, now_ns))));
        facts.extend(now.terms.as_ref().map(|terms| ("terms", terms::in_one_line(terms))));
    } else if now.phase == Phase::Done {
        facts.push(("ended", format!("{} UTC, {} ago", moment(now.phase_since), age(now.phase_since, now_ns))));
    }
    if !now.why.is_empty() {
        facts.push(("why", harmless(&now.why).into_owned()));
    }
    facts
}

fn progress(now: &Sight) -> String {
    let filled = (now.done.min(now.total) * BAR_COLUMNS).checked_div(now.total).unwrap_or(BAR_COLUMNS);
    let mut text =
        format!("[{}{}] {} of {}", "=".repeat(filled), " ".repeat(BAR_COLUMNS - filled), now.done, now.total);
    if let (Some(rate), Some(left)) = (now.rate_per_s, now.eta_s) {
        let _ = write!(text, ", {:.1} a minute, about {} left", rate * SECONDS_PER_MINUTE, time(left));
    }
    text
}

fn age(since_ns: i64, now_ns: i64) -> String {
    time(now_ns.saturating_sub(since_ns).max(0) as f64 / NANOS_PER_S)
}

/// All in their order if they fit, else those first of which there is something to tell.
fn chosen(now: &Sight, rows_max: usize) -> (Vec<&Row>, usize) {
    let mut rows: Vec<&Row> = now.instances.iter().collect();
    if rows.len() > rows_max {
        let is_dull = |row: &&Row| row.role == Role::Ordinary && row.problem.is_empty() && row.state == "RUNNING";
        rows.sort_by_key(is_dull);
        rows.truncate(rows_max);
        rows.sort_by_key(|row| (row.index, row.role == Role::Leaving));
    }
    let left_out = now.instances.len() - rows.len();
    (rows, left_out)
}

struct Shown<'a> {
    row: &'a Row,
    now_ns: i64,
}

fn in_columns(rows: &[Shown<'_>]) -> String {
    let mut table = table();
    table.set_header(Shown::COLUMNS.iter().copied());
    table.add_rows(rows.iter().map(Tabular::row));
    laid_out(table)
}

impl Tabular for Shown<'_> {
    const PLURAL: &'static str = "instances";
    const COLUMNS: &'static [&'static str] = &["INDEX", "DEFINITION", "STATE", "CELL", "AGE", "NOTE"];

    fn row(&self) -> Vec<String> {
        let Shown { row, now_ns } = self;
        let role = match row.role {
            Role::Ordinary => "",
            Role::Leaving => "leaving",
            Role::Successor => "successor",
            Role::Evacuating => "evacuating",
            Role::Suspect => "suspect",
        };
        let notes: Vec<String> = [role.to_owned(), harmless(&row.problem).into_owned()]
            .into_iter()
            .filter(|note| !note.is_empty())
            .collect();
        vec![
            row.index.to_string(),
            row.definition.shown(),
            harmless(&row.state).into_owned(),
            harmless(&row.cell_id).into_owned(),
            age(row.since, *now_ns),
            notes.join(": "),
        ]
    }
}

#[cfg(test)]
mod tests;
