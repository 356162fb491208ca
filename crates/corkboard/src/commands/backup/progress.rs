//! How far a backup is, on a terminal.

use std::time::Duration;

use tokio::time::Instant;

use crate::commands::migrate::watch::{self, Progress};
use crate::console::Console;
use crate::failure::CommandError;

const REDRAWN_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Bar {
    word: &'static str,
    started: Instant,
    drawn: Option<Instant>,
}

impl Bar {
    pub(super) fn new(word: &'static str) -> Self {
        Self { word, started: Instant::now(), drawn: None }
    }

    pub(super) fn show(&mut self, console: &mut Console, done: u64, total: u64) -> Result<(), CommandError> {
        let now = Instant::now();
        if !watch::draws(console) || self.drawn.is_some_and(|drawn| now - drawn < REDRAWN_EVERY && done < total) {
            return Ok(());
        }
        self.drawn = Some(now);
        let elapsed_s = (now - self.started).as_secs_f64();
        let rate_per_s = done as f64 / elapsed_s.max(f64::EPSILON);
        let left = total.saturating_sub(done) as f64;
        let progress = Progress {
            word: self.word,
            done: Some(done),
            total: Some(total),
            rate_per_s: Some(rate_per_s),
            eta_s: Some(left / rate_per_s).filter(|_| done > 0),
            ..Progress::default()
        };
        watch::draw(console, &progress, None)
    }

    /// What is said next begins on a line of its own.
    pub(super) fn end(self, console: &mut Console) -> Result<(), CommandError> {
        if self.drawn.is_some() {
            console.line("")?;
        }
        Ok(())
    }
}
