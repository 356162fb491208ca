//! Follows a server from the start of its process until its records are as they should be, of the newest data version or
//! under the active key, and notes when what began.
//!
//! The server is asked on its health port, which answers in every phase. So times are as fine as the questions are frequent.

use std::time::Duration;

use api::Route;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::connection::Target;
use crate::fleet;
use crate::server::Server;
use crate::stopwatch::Stopwatch;

/// The shortest time between two questions, and its share of the time so far. To be asked costs the server something, so a
/// long course is asked less often and is still known to one part in a hundred.
const ASK_EVERY_MIN: Duration = Duration::from_millis(10);
const ASK_SHARE: u32 = 100;
/// What has not ended by then is broken.
const COURSE_MAX: Duration = Duration::from_secs(1_800);
/// How often somebody who waits is told how far it is.
const WORD_EVERY: Duration = Duration::from_secs(5);
const PROBE_TTL_S: u32 = 3_600;

/// What is followed, as the status document tells it.
#[derive(Debug)]
pub struct Subject {
    /// The member of the document. Before it is there, the phase of the server is the state.
    part: &'static str,
    /// The state in which `total` is what has to be rewritten.
    rewriting: &'static str,
    over: &'static str,
    /// States from which it does not go on by itself.
    stuck: &'static [&'static str],
}

pub const MIGRATION: Subject = Subject {
    part: "migration",
    rewriting: "sweeping",
    over: "none",
    stuck: &["held", "failed", "blocked", "paused", "ready"],
};

pub const ROTATION: Subject =
    Subject { part: "encryption", rewriting: "rotating", over: "settled", stuck: &["off", "unfinished", "blocked"] };

/// When the server was first seen in a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    pub state: String,
    pub at_s: f64,
}

/// A way through the states, in seconds since the process was started. The last mark is the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
    pub marks: Vec<Mark>,
    /// What the server said it has to rewrite while it serves.
    pub records: u64,
}

impl Course {
    pub fn total_s(&self) -> f64 {
        self.marks.last().map_or(0.0, |mark| mark.at_s)
    }

    /// How long a state lasted, each time it was entered; 0 when it was over between two questions.
    pub fn lasted_s(&self, state: &str) -> f64 {
        let lasted = |pair: &[Mark]| if pair[0].state == state { pair[1].at_s - pair[0].at_s } else { 0.0 };
        self.marks.windows(2).map(lasted).sum()
    }

    /// Before the first state of a migration: opening the store and reading the records.
    pub fn load_s(&self) -> f64 {
        self.marks.iter().find(|mark| !is_start(&mark.state)).map_or(0.0, |mark| mark.at_s)
    }

    /// Records that were rewritten in a second of that state.
    pub fn records_per_s(&self, state: &str) -> f64 {
        self.records as f64 / self.lasted_s(state).max(1e-3)
    }

    /// Whether the state is a new one.
    fn note(&mut self, state: &str, at_s: f64) -> bool {
        let is_new = self.marks.last().is_none_or(|mark| mark.state != state);
        if is_new {
            self.marks.push(Mark { state: state.to_owned(), at_s });
        }
        is_new
    }
}

/// Rests until it is time for the next question.
async fn rest(watch: Stopwatch) {
    tokio::time::sleep((watch.elapsed() / ASK_SHARE).max(ASK_EVERY_MIN)).await;
}

fn is_start(state: &str) -> bool {
    matches!(state, "waiting" | "loading" | "serving")
}

/// Follows until it is over.
pub async fn follow(server: &mut Server, subject: &Subject, say: &dyn Fn(&str)) -> anyhow::Result<Course> {
    let Subject { part, rewriting, over, stuck } = subject;
    let mut course = Course::default();
    let (watch, mut last_word) = (server.started(), Stopwatch::start());
    while watch.elapsed() < COURSE_MAX {
        server.must_run()?;
        if let Ok(status) = server.status().await {
            let told = &status[part];
            let state = told["state"].as_str().or(status["phase"].as_str()).unwrap_or("unknown");
            if course.note(state, watch.seconds()) || last_word.elapsed() > WORD_EVERY {
                last_word = Stopwatch::start();
                say(&format!("  {:6.1} s: {state}{}", watch.seconds(), progress(told)));
            }
            if state == *rewriting {
                course.records = course.records.max(told["total"].as_u64().unwrap_or(0));
            }
            if state == *over {
                return Ok(course);
            }
            let why = told["explanation"].as_str().unwrap_or("it does not say why");
            anyhow::ensure!(!stuck.contains(&state), "The {part} is {state}: {why}");
        }
        rest(watch).await;
    }
    anyhow::bail!("The {part} has not ended after {COURSE_MAX:?}; it is at {:?}", course.marks.last())
}

/// Empty where nothing is counted.
fn progress(told: &Value) -> String {
    match (told["done"].as_u64(), told["total"].as_u64()) {
        (Some(done), Some(total)) if total > 0 => format!(", {done} of {total} records"),
        _ => String::new(),
    }
}

/// From the start of the process to the first call that succeeded.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct First {
    pub read_s: f64,
    pub write_s: f64,
}

pub async fn first_calls(target: &Target, watch: Stopwatch) -> First {
    let read = first_success(target, Route::DesiredLrpByProcessGuid, fleet::desired_lrp_by_guid(0), watch);
    let write = first_success(target, Route::UpsertDomain, fleet::refresh_probe_domain(PROBE_TTL_S), watch);
    let (read_s, write_s) = tokio::join!(read, write);
    First { read_s, write_s }
}

/// Whoever waits for both must also look whether the server still runs: this tries for ever.
async fn first_success(target: &Target, route: Route, body: Bytes, watch: Stopwatch) -> f64 {
    loop {
        if let Ok(mut connection) = target.connect().await
            && connection.call(route, body.clone()).await.is_ok()
        {
            return watch.seconds();
        }
        rest(watch).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_between_marks_and_what_was_missed_took_no_time() {
        let mut course = Course { records: 1_000, ..Course::default() };
        for (state, at_s) in [
            ("waiting", 0.1),
            ("loading", 0.5),
            ("sweeping", 2.0),
            ("sweeping", 3.0),
            ("verifying", 4.0),
            ("loading", 5.0),
            ("none", 9.0),
        ] {
            course.note(state, at_s);
        }
        assert_eq!(course.marks.len(), 6);
        assert_eq!((course.load_s(), course.total_s()), (2.0, 9.0));
        assert_eq!(
            ["loading", "sweeping", "verifying", "cleaning", "none"].map(|state| course.lasted_s(state)),
            [5.5, 2.0, 1.0, 0.0, 0.0],
            "a state that came twice lasted twice"
        );
        assert!((course.records_per_s("sweeping") - 500.0).abs() < 1e-9);
        assert_eq!(Course::default().total_s(), 0.0);
    }
}
