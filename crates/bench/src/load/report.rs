//! What a phase found, as data for the report and as a table for people.

use serde::{Deserialize, Serialize};

use super::Tally;
use crate::latency::Summary;
use crate::table::{Table, bytes, grouped, milliseconds};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseReport {
    pub phase: String,
    pub lrps: u64,
    pub measures: Vec<Measure>,
}

impl PhaseReport {
    /// A phase in which a call failed says nothing about speed.
    pub fn failed(&self) -> bool {
        self.measures.is_empty() || self.measures.iter().any(|measure| measure.failures > 0 || measure.calls == 0)
    }

    pub fn measure(&self, what: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.what == what)
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measure {
    pub what: String,
    /// Successful calls; for subscribers the events that arrived.
    pub calls: u64,
    pub failures: u64,
    pub first_failure: Option<String>,
    pub seconds: f64,
    pub per_second: f64,
    pub latency: Summary,
    /// Median time to the first byte of the body, where it is worth knowing.
    pub first_byte_ms: Option<f64>,
    /// Of one answer on average; for subscribers of all together.
    pub bytes: f64,
    pub records: f64,
    /// What the server spent, all its threads together, while this ran.
    pub server_cpu_s: Option<f64>,
    /// What this process spent meanwhile: it sits on the same cores.
    pub client_cpu_s: Option<f64>,
}

/// Processor time since the start of each process.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    pub server_s: Option<f64>,
    pub client_s: Option<f64>,
}

impl Measure {
    pub fn of(what: &str, tally: &Tally, seconds: f64) -> Self {
        let each = |sum: u64| if tally.calls == 0 { 0.0 } else { sum as f64 / tally.calls as f64 };
        Self {
            what: what.to_owned(),
            calls: tally.calls,
            failures: tally.failures,
            first_failure: tally.first_failure.clone(),
            seconds,
            per_second: if seconds > 0.0 { tally.calls as f64 / seconds } else { 0.0 },
            latency: tally.latencies.summary(),
            first_byte_ms: (tally.calls > 0).then(|| tally.first_bytes.summary().p50_ms),
            bytes: each(tally.bytes),
            records: each(tally.records),
            server_cpu_s: None,
            client_cpu_s: None,
        }
    }

    #[must_use]
    pub fn with_cpu(mut self, before: CpuTimes, after: CpuTimes) -> Self {
        let between = |before: Option<f64>, after: Option<f64>| before.zip(after).map(|(before, after)| after - before);
        self.server_cpu_s = between(before.server_s, after.server_s);
        self.client_cpu_s = between(before.client_s, after.client_s);
        self
    }

    /// Milliseconds of the server's processor per call.
    pub fn cpu_ms_per_call(&self) -> Option<f64> {
        (self.calls > 0).then_some(())?;
        self.server_cpu_s.map(|seconds| seconds * 1e3 / self.calls as f64)
    }
}

/// All phases as one table.
pub fn table(reports: &[PhaseReport]) -> String {
    let mut table = Table::new([
        "phase",
        "what",
        "calls",
        "/s",
        "p50",
        "p99",
        "max",
        "answer",
        "first byte",
        "server CPU",
        "failures",
    ]);
    let mut notes = String::new();
    for report in reports {
        for measure in &report.measures {
            let Measure { latency, .. } = measure;
            let spent = |cpu_s: Option<f64>| cpu_s.map_or_else(|| "-".into(), |cpu_s| format!("{cpu_s:.2} s"));
            let timed = |ms: f64| if latency.count > 0 { milliseconds(ms) } else { "-".into() };
            table.row([
                report.phase.clone(),
                measure.what.clone(),
                grouped(measure.calls as f64),
                grouped(measure.per_second),
                timed(latency.p50_ms),
                timed(latency.p99_ms),
                timed(latency.max_ms),
                bytes(measure.bytes),
                measure.first_byte_ms.map(timed).unwrap_or_else(|| "-".into()),
                spent(measure.server_cpu_s),
                spent(measure.client_cpu_s),
                grouped(measure.failures as f64),
            ]);
            if let Some(why) = &measure.first_failure {
                notes.push_str(&format!(
                    "FAILED {} / {}: the first of {} failures: {why}\n",
                    report.phase, measure.what, measure.failures
                ));
            }
        }
        if report.failed() {
            notes.push_str(&format!("The phase {} FAILED; its numbers mean nothing.\n", report.phase));
        }
    }
    format!("{table}{notes}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_phase_with_a_failure_or_without_a_call_has_failed() {
        let mut tally = Tally::default();
        let report = |tally: &Tally| PhaseReport {
            phase: "x".into(),
            lrps: 1,
            measures: vec![Measure::of("claim", tally, 2.0)],
        };
        assert!(report(&tally).failed(), "nothing was done");
        tally.success(Duration::from_millis(1));
        assert!(!report(&tally).failed());
        tally.failure("ResourceNotFound");
        let report = report(&tally);
        assert!(report.failed());
        let text = table(&[report]);
        assert!(text.contains("the first of 1 failures: ResourceNotFound"), "{text}");
        assert!(text.contains("The phase x FAILED"), "{text}");
    }

    #[test]
    fn cost_is_per_successful_call() {
        let cpu = |server_s| CpuTimes { server_s, client_s: None };
        let mut tally = Tally::default();
        for _ in 0..4 {
            tally.success(Duration::from_millis(1));
        }
        let measure = Measure::of("claim", &tally, 2.0).with_cpu(cpu(Some(1.0)), cpu(Some(1.01)));
        assert!((measure.per_second - 2.0).abs() < 1e-9);
        assert!((measure.cpu_ms_per_call().unwrap() - 2.5).abs() < 1e-9);
        assert_eq!(Measure::of("claim", &tally, 2.0).with_cpu(cpu(None), cpu(Some(1.0))).server_cpu_s, None);
    }
}
