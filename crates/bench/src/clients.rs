//! What clients of a steady load noticed of something that happened to the server beneath them, and what they may notice.

use serde::Serialize;

use crate::goals::Goal;
use crate::load::steady::Seen;
use crate::sizes::Size;
use crate::table::{Table, grouped, milliseconds};

const STALL_MS_MAX: f64 = 250.0;
const WRITE_P99_RATIO_MAX: f64 = 2.0;

#[derive(Debug, Serialize)]
pub struct Clients {
    /// On a server on which nothing happens.
    pub before: Seen,
    pub during: Seen,
    pub after: Seen,
}

impl Clients {
    /// What is as it should be, for the tests of reports.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        let seen = |p99_ms: f64, max_ms: f64| {
            let summary = crate::latency::Summary { count: 100, p50_ms: 0.5, p99_ms, max_ms };
            Seen { writes: summary, reads: summary, ..Seen::default() }
        };
        Self { before: seen(2.0, 10.0), during: seen(3.0, 40.0), after: seen(2.0, 10.0) }
    }

    fn windows(&self) -> [&Seen; 3] {
        [&self.before, &self.during, &self.after]
    }

    /// Calls that failed make the latencies beside them worthless.
    pub fn count(&self) -> bool {
        self.windows().iter().all(|seen| seen.failures == 0 && seen.writes.count > 0)
    }

    /// Why they do not.
    pub fn first_failure(&self) -> String {
        let first = self.windows().into_iter().find_map(|seen| seen.first_failure.clone());
        first.unwrap_or_else(|| "no call was made".to_owned())
    }

    pub fn goals(&self) -> [Goal; 3] {
        let Self { before, during, after } = self;
        let slower = during.writes.p99_ms / before.writes.p99_ms.max(1e-9);
        let (unavailable, failures) = (during.unavailable + after.unavailable, during.failures + after.failures);
        [
            Goal {
                what: "online, 503 after the first success",
                reach: "0".into(),
                measured: format!("{unavailable}, other failures {}", failures - unavailable),
                met: Some(failures == 0 && during.writes.count > 0),
            },
            Goal {
                what: "online, longest stall of a request",
                reach: format!("{STALL_MS_MAX:.0} ms"),
                measured: milliseconds(during.longest_ms()),
                met: Some(during.longest_ms() < STALL_MS_MAX),
            },
            Goal {
                what: "online, p99 of writes",
                reach: format!("{WRITE_P99_RATIO_MAX:.0}x before"),
                measured: format!(
                    "{slower:.1}x: {} after {}",
                    milliseconds(during.writes.p99_ms),
                    milliseconds(before.writes.p99_ms)
                ),
                met: Some(slower < WRITE_P99_RATIO_MAX),
            },
        ]
    }
}

/// All windows of all sizes. `before` says what ran before.
pub fn table<'a>(before: &str, sizes: impl IntoIterator<Item = (Size, &'a Clients)>) -> Table {
    let mut table = Table::new([
        "records",
        "when",
        "writes",
        "p50",
        "p99",
        "longest",
        "lists of a cell",
        "p50",
        "p99",
        "longest",
        "503",
        "other failures",
    ]);
    for (size, clients) in sizes {
        for (when, seen) in [before, "during", "after"].into_iter().zip(clients.windows()) {
            let Seen { writes, reads, failures, unavailable, .. } = seen;
            let mut row = vec![size.to_string(), when.to_owned()];
            for summary in [writes, reads] {
                row.push(grouped(summary.count as f64));
                row.extend([summary.p50_ms, summary.p99_ms, summary.max_ms].map(milliseconds));
            }
            row.extend([grouped(*unavailable as f64), grouped((failures - unavailable) as f64)]);
            table.row(row);
        }
    }
    table
}
