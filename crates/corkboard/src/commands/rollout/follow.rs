//! Following an update until it ends or needs somebody: redrawn in place on a terminal, one line per change otherwise.
//!
//! A server that does not answer for a moment, because it restarts or another node takes over, does not end it; one that stays
//! away does.

use std::time::Duration;

use api::client::{Client, ClientError, TransportKind};
use bbs::clock::{Clock as _, SystemClock};
use tokio::time::MissedTickBehavior;

use super::sight::{Look, Sight};
use super::{in_words, screen};
use crate::console::Console;
use crate::failure::CommandError;

const INTERVAL: Duration = Duration::from_millis(250);
/// Half a minute without an answer.
const SILENT_ANSWERS_MAX: u32 = 120;
/// On a terminal, so that what is redrawn stays on the screen.
const ROWS_MAX: usize = 10;

pub(crate) async fn follow(client: &Client, guid: &str, console: &mut Console) -> Result<Sight, CommandError> {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = Look::at(client, guid);
    let mut board = Board::default();
    let mut silent = 0;
    loop {
        ticks.tick().await;
        let sight = match look.now().await {
            Ok(sight) => sight,
            Err(error) if may_pass(&error) && silent < SILENT_ANSWERS_MAX => {
                silent += 1;
                continue;
            }
            Err(error) => return Err(in_words(guid, error)),
        };
        silent = 0;
        let now_ns = SystemClock.now_ns();
        let sight = board.show(console, sight, now_ns)?;
        if !sight.is_moving() {
            return Ok(sight);
        }
    }
}

/// Whether the next question may be answered.
fn may_pass(error: &ClientError) -> bool {
    const UNAVAILABLE: u16 = 500;
    match error {
        ClientError::Transport { kind, .. } => *kind != TransportKind::Tls,
        ClientError::Status { status, .. } => *status >= UNAVAILABLE,
        _ => false,
    }
}

/// What was shown so far.
#[derive(Default)]
struct Board {
    last: Option<Sight>,
    /// When the present phase was seen first, and how far it was then.
    began: Option<(i64, usize)>,
    /// How many lines are redrawn.
    lines: usize,
}

impl Board {
    fn show(&mut self, console: &mut Console, mut sight: Sight, now_ns: i64) -> Result<Sight, CommandError> {
        let is_next = self.last.as_ref().is_none_or(|last| last.phase_since != sight.phase_since);
        match self.began.filter(|_| !is_next) {
            Some((then_ns, done_then)) if sight.rate_per_s.is_none() => sight.pace(then_ns, done_then, now_ns),
            Some(_) => {}
            None => self.began = Some((now_ns, sight.done)),
        }
        let has_changed = self.last.as_ref().is_none_or(|last| last.lasting() != sight.lasting());
        if console.is_json() {
            if has_changed {
                console.line(&api::json::to_string(&sight))?;
            }
        } else if let Some(width) = console.width() {
            self.draw(console, &sight, now_ns, width)?;
        } else {
            let line = screen::line(&sight);
            if self.last.as_ref().is_none_or(|last| screen::line(last) != line) {
                console.line(&line)?;
            }
        }
        self.last = Some(sight.clone());
        Ok(sight)
    }

    /// What ended is left as a whole.
    fn draw(&mut self, console: &mut Console, sight: &Sight, now_ns: i64, width: usize) -> Result<(), CommandError> {
        let rows_max = if sight.is_moving() { ROWS_MAX } else { usize::MAX };
        let text = screen::screen(sight, now_ns, rows_max);
        let lines: Vec<String> = text.lines().map(|line| line.chars().take(width).collect()).collect();
        let up = if self.lines > 0 { format!("\x1b[{}F\x1b[J", self.lines) } else { String::new() };
        self.lines = lines.len();
        Ok(console.write(format!("{up}{}\n", lines.join("\n")).as_bytes())?)
    }
}
