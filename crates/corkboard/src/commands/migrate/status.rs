//! `migrate status`: one screen for somebody who was just woken up, and an exit code for scripts.

use std::fmt::Write as _;

use super::document::{Migration, State};
use super::figures::{grouped, percent, time, whole};
use super::via::StoreFlag;
use super::{Ask, EXIT_DONE, Errand, Place, Via, watch};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

const EXIT_UNDER_WAY: u8 = 10;
const EXIT_WAITS: u8 = 11;
const EXIT_STUCK: u8 = 12;

/// When nothing moved for this long, the screen says so.
const QUIET_S: f64 = 10.0;

const RAIL: &[(State, &str)] = &[
    (State::Sweeping, "sweep"),
    (State::Verifying, "verify"),
    (State::Ready, "ready"),
    (State::Finalizing, "finalize"),
    (State::Cleaning, "clean up"),
];

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
        let ask = async || via.ask(&Ask::Status).await;
        let (last, _) = watch::watch(ask, console, watch::Tell::Changes, |now: &Migration| !is_moving(now)).await?;
        if watch::draws(console) {
            console.write(screen(&last).as_bytes())?;
        }
        return Ok(exit_code(&last));
    }
    let document = via.ask(&Ask::Status).await?;
    let migration: Migration = document.read()?;
    if console.is_json() {
        console.line(&document.one_line())?;
    } else {
        console.write(screen(&migration).as_bytes())?;
    }
    Ok(exit_code(&migration))
}

/// Something happens without the operator.
fn is_moving(now: &Migration) -> bool {
    exit_code(now) == EXIT_UNDER_WAY
}

fn exit_code(migration: &Migration) -> u8 {
    match migration.state {
        State::None | State::RolledBack => EXIT_DONE,
        State::Blocked | State::Failed => EXIT_STUCK,
        _ if migration.waits_for_operator() => EXIT_WAITS,
        State::Held
        | State::Paused
        | State::Ready
        | State::Sweeping
        | State::Verifying
        | State::Finalizing
        | State::Cleaning
        | State::RollingBack
        | State::Unknown => EXIT_UNDER_WAY,
    }
}

impl watch::Watched for Migration {
    fn progress(&self) -> watch::Progress {
        watch::Progress {
            word: word(self.state),
            done: self.done,
            total: self.total,
            rate_per_s: self.rate_per_s,
            eta_s: self.eta_s,
            elapsed_s: self.elapsed_s,
            quiet_s: quiet_s(self),
        }
    }

    fn lasting(&self) -> Self {
        Self { rate_per_s: None, eta_s: None, elapsed_s: None, last_progress_s: None, ..self.clone() }
    }

    fn ends_the_server(&self) -> bool {
        self.state == State::RollingBack
    }
}

/// Everything about a migration, with the next command last, where the eye ends.
fn screen(now: &Migration) -> String {
    let mut text = format!("{}\n", title(now));
    if now.state != State::None {
        let _ = write!(text, "\n  {}\n", rail(now.state));
    }
    if !now.explanation.is_empty() {
        let _ = write!(text, "\n  {}\n", now.explanation);
    }
    text.push('\n');
    for (name, value) in facts(now) {
        let _ = writeln!(text, "  {name:<9} {value}");
    }
    for blocker in &now.blockers {
        let _ = writeln!(text, "\n  blocked by: {}", blocker.what);
        if let Some(command) = &blocker.command {
            let _ = writeln!(text, "    {command}");
        }
    }
    if let Some(next) = &now.next {
        let _ = write!(text, "\nNext: {next}\n");
    }
    text
}

fn title(now: &Migration) -> String {
    // What has not begun has no target yet, but it is clear where it will lead.
    let to = if now.state == State::Held { now.newest.as_ref() } else { now.target.as_ref() };
    let to = to.map(|target| format!(" to {}", target.shown())).unwrap_or_default();
    match now.state {
        State::None => "No migration is under way.".to_owned(),
        State::RollingBack | State::RolledBack => format!("Rollback{to}: {}", word(now.state)),
        _ => format!("Migration{to}: {}", word(now.state)),
    }
}

pub(super) fn word(state: State) -> &'static str {
    match state {
        State::None => "none",
        State::Held => "held",
        State::Sweeping => "sweeping",
        State::Paused => "paused",
        State::Verifying => "verifying",
        State::Ready => "ready",
        State::Finalizing => "finalizing",
        State::Cleaning => "cleaning up",
        State::Blocked => "BLOCKED",
        State::RollingBack => "rolling back",
        State::RolledBack => "rolled back",
        State::Failed => "FAILED",
        State::Unknown => "in a state that this command does not know",
    }
}

/// The way from left to right, with brackets around where we are, as far as the state alone says it.
fn rail(state: State) -> String {
    let way = |here: Option<State>| {
        let stops =
            RAIL.iter().map(|(at, name)| if Some(*at) == here { format!("[{name}]") } else { (*name).to_owned() });
        stops.collect::<Vec<_>>().join(" > ")
    };
    match state {
        State::Held => format!("[held] > {}", way(None)),
        State::Paused => way(Some(State::Sweeping)).replace("[sweep]", "[sweep: paused]"),
        State::RollingBack => "[roll back] > stopped".to_owned(),
        State::RolledBack => "roll back > [stopped]".to_owned(),
        State::Blocked | State::Failed => format!("{}   ({})", way(None), word(state)),
        other => way(Some(other)),
    }
}

fn facts(now: &Migration) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let version = match (&now.current, &now.target) {
        (Some(current), Some(target)) if current != target => {
            Some(format!("{} -> {}", current.shown(), target.shown()))
        }
        (Some(version), _) | (None, Some(version)) => Some(version.shown()),
        (None, None) => None,
    };
    facts.extend(version.map(|version| ("version", version)));
    if let Some(newest) = &now.newest
        && now.target.as_ref().or(now.current.as_ref()) != Some(newest)
    {
        facts.push(("newest", format!("{} is what this release can write", newest.shown())));
    }
    if let Some(mode) = now.mode.as_ref().filter(|_| now.state != State::None) {
        let end = now.finalization.as_ref().map(|end| format!(", finalization {end}")).unwrap_or_default();
        facts.push(("mode", format!("{mode}{end}")));
    }
    facts.extend(progress(now).map(|progress| ("progress", progress)));
    facts.extend(times(now).map(|times| ("time", times)));
    if let Some(can) = now.can_go_back {
        let how = now.how_to_go_back.as_ref().map(|how| format!(": {how}")).unwrap_or_default();
        facts.push(("go back", format!("{}{how}", if can { "yes" } else { "no" })));
    }
    if now.point_of_no_return_passed {
        facts.push(("", "the point of no return is passed: the older data is being removed, or is gone".to_owned()));
    }
    if !now.leftover_roots.is_empty() {
        let roots: Vec<String> = now.leftover_roots.iter().map(super::document::Version::shown).collect();
        facts.push(("leftover", format!("records of {} are still there", roots.join(", "))));
    }
    facts
}

fn progress(now: &Migration) -> Option<String> {
    let (done, total) = (now.done?, now.total.filter(|total| *total > 0)?);
    let mut text = format!("{} of {} records ({} %)", grouped(done), grouped(total), percent(done, total));
    if let Some(rate) = now.rate_per_s.filter(|rate| *rate > 0.0) {
        let _ = write!(text, ", {}/s", grouped(whole(rate)));
    }
    Some(text)
}

fn times(now: &Migration) -> Option<String> {
    let left = now.eta_s.map(|s| format!("about {} left", time(s)));
    let so_far = now.elapsed_s.map(|s| format!("{} so far", time(s)));
    let quiet = quiet_s(now).map(|s| format!("nothing moved for {}", time(s)));
    let parts: Vec<String> = [left, so_far, quiet].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How long nothing has moved that should move.
fn quiet_s(now: &Migration) -> Option<f64> {
    now.last_progress_s.filter(|s| is_moving(now) && *s >= QUIET_S)
}

#[cfg(test)]
mod tests;
