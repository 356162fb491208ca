//! Follows a server from the start of its process until its records are of the newest data version, and notes when what began.
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
/// A migration that has not ended by then is broken.
const COURSE_MAX: Duration = Duration::from_secs(1_800);
const PROBE_TTL_S: u32 = 3_600;

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
    /// What the server said it has to copy.
    pub records: u64,
}

impl Course {
    pub fn total_s(&self) -> f64 {
        self.marks.last().map_or(0.0, |mark| mark.at_s)
    }

    /// How long a state lasted; 0 when it was over between two questions.
    pub fn lasted_s(&self, state: &str) -> f64 {
        let at = self.marks.iter().position(|mark| mark.state == state);
        let ends = at.and_then(|at| self.marks.get(at + 1));
        ends.zip(at).map_or(0.0, |(next, at)| next.at_s - self.marks[at].at_s)
    }

    /// Before the first state of a migration: opening the store and reading the records.
    pub fn load_s(&self) -> f64 {
        self.marks.iter().find(|mark| !is_start(&mark.state)).map_or(0.0, |mark| mark.at_s)
    }

    pub fn copied_per_s(&self) -> f64 {
        self.records as f64 / self.lasted_s("sweeping").max(1e-3)
    }

    fn note(&mut self, state: &str, at_s: f64) {
        if self.marks.last().is_none_or(|mark| mark.state != state) {
            self.marks.push(Mark { state: state.to_owned(), at_s });
        }
    }
}

/// Rests until it is time for the next question.
async fn rest(watch: Stopwatch) {
    tokio::time::sleep((watch.elapsed() / ASK_SHARE).max(ASK_EVERY_MIN)).await;
}

fn is_start(state: &str) -> bool {
    matches!(state, "waiting" | "loading" | "serving")
}

/// Follows until no migration is under way any more.
pub(super) async fn follow(server: &mut Server) -> anyhow::Result<Course> {
    let mut course = Course::default();
    let watch = server.started();
    while watch.elapsed() < COURSE_MAX {
        server.must_run()?;
        if let Ok(status) = server.status().await {
            let migration = &status["migration"];
            let state = migration["state"].as_str().or(status["phase"].as_str()).unwrap_or("unknown");
            course.note(state, watch.seconds());
            match state {
                "none" => return Ok(course),
                "sweeping" => course.records = course.records.max(migration["total"].as_u64().unwrap_or(0)),
                "held" | "failed" | "blocked" | "paused" | "ready" => {
                    anyhow::bail!("The migration is {state}: {}", explanation(migration))
                }
                _ => {}
            }
        }
        rest(watch).await;
    }
    anyhow::bail!("The migration has not ended after {COURSE_MAX:?}; it is at {:?}", course.marks.last())
}

fn explanation(migration: &Value) -> &str {
    migration["explanation"].as_str().unwrap_or("it does not say why")
}

/// From the start of the process to the first call that succeeded.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct First {
    pub read_s: f64,
    pub write_s: f64,
}

pub(super) async fn first_calls(target: &Target, watch: Stopwatch) -> First {
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
            ("none", 9.0),
        ] {
            course.note(state, at_s);
        }
        assert_eq!(course.marks.len(), 5);
        assert_eq!((course.load_s(), course.total_s()), (2.0, 9.0));
        assert_eq!(
            ["sweeping", "verifying", "cleaning", "none"].map(|state| course.lasted_s(state)),
            [2.0, 5.0, 0.0, 0.0]
        );
        assert!((course.copied_per_s() - 500.0).abs() < 1e-9);
        assert_eq!(Course::default().total_s(), 0.0);
    }
}
