//! What happened, step by step, and whether it may have.
//!
//! Promise: every request that failed, every sight of too few instances and every process that ended by itself belongs to the step
//! that was going on, and is a breach unless that step has said before that it may be. Breaches are told with their time, their
//! cause and their step.

use std::fmt::Write as _;
use std::time::Duration;

use rig::load::Sample;
use tokio::time::Instant;

use crate::fleet::Incident;
use crate::watch::Dip;

/// Of one kind of breach in one step, no more than this are told in words.
const BREACHES_TOLD_MAX: usize = 10;

/// What a step may cost. Without it nothing may be lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowance {
    /// From this moment on requests may fail, for so long; instances may be missing until the end of the step.
    pub(crate) harm: Option<(Instant, Duration)>,
    /// Processes that may end by themselves, by the beginning of their names.
    pub(crate) may_end: Vec<&'static str>,
}

/// What was seen from outside, in all steps.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) samples: Vec<Sample>,
    pub(crate) dips: Vec<Dip>,
    pub(crate) incidents: Vec<Incident>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) allowance: Allowance,
    /// What the step itself has measured.
    pub(crate) notes: Vec<String>,
    pub(crate) reads_gap: Duration,
    pub(crate) writes_gap: Duration,
    pub(crate) fewest: Option<usize>,
}

/// The line of one step in the table, and its breaches.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) requests: usize,
    pub(crate) failed: usize,
    pub(crate) slowest: Duration,
    /// From the harm to the last request that failed.
    pub(crate) loss: Option<Duration>,
    pub(crate) breaches: Vec<String>,
}

impl Step {
    fn holds(&self, at: Instant) -> bool {
        self.began <= at && at < self.ended
    }

    pub(crate) fn judge(&self, all: &[Step], seen: &Seen, zero: Instant) -> Judged {
        let Seen { samples, dips, incidents } = seen;
        let own: Vec<&Sample> = samples.iter().filter(|sample| self.holds(sample.due)).collect();
        let failures: Vec<_> = own.iter().filter_map(|sample| Some((*sample, sample.failure.as_ref()?))).collect();
        let clock = |at: Instant| format!("{:7.1} s", (at - zero).as_secs_f64());
        let mut breaches = Vec::new();
        let mut tell = |kind: Vec<String>| {
            let more = kind.len().saturating_sub(BREACHES_TOLD_MAX);
            breaches.extend(kind.into_iter().take(BREACHES_TOLD_MAX));
            breaches.extend((more > 0).then(|| format!("… and {more} more of this kind")));
        };
        let refused = failures.iter().filter(|(sample, _)| !all.iter().any(|step| step.allows(sample)));
        tell(
            refused
                .map(|(sample, cause)| {
                    let took_ms = sample.took.as_millis();
                    format!("{}  a request failed after {took_ms} ms: {cause}", clock(sample.due))
                })
                .collect(),
        );
        if self.allowance.harm.is_none() {
            let own = dips.iter().filter(|dip| self.holds(dip.at));
            tell(own.map(|dip| format!("{}  {}", clock(dip.at), dip.what)).collect());
        }
        let ended = incidents.iter().filter(|incident| self.holds(incident.at) && !self.expects(incident));
        tell(
            ended
                .map(|incident| format!("{}  {} ended by itself: {}", clock(incident.at), incident.name, incident.how))
                .collect(),
        );
        let loss = self.allowance.harm.map(|(harm, _)| {
            let last = failures.iter().map(|(sample, _)| sample.due).filter(|due| *due > harm).max();
            last.map_or(Duration::ZERO, |last| last - harm)
        });
        Judged {
            requests: own.len(),
            failed: failures.len(),
            slowest: own.iter().map(|sample| sample.took).max().unwrap_or_default(),
            loss,
            breaches,
        }
    }

    /// A request that was under way when the harm was done may fail, too; it may have been due in the step before.
    fn allows(&self, sample: &Sample) -> bool {
        let Some((harm, limit)) = self.allowance.harm else { return false };
        sample.due + sample.took >= harm && sample.due <= harm + limit
    }

    fn expects(&self, incident: &Incident) -> bool {
        self.allowance.may_end.iter().any(|name| incident.name.starts_with(name))
    }

    /// One line of the table.
    pub(crate) fn line(&self, judged: &Judged) -> String {
        let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
        let mut line = format!(
            "{:<44} {:>6} {:>8} {:>6} {:>8} {:>7} {:>7} {:>7}",
            self.name,
            seconds(self.ended - self.began),
            judged.requests,
            judged.failed,
            seconds(judged.slowest),
            seconds(self.reads_gap),
            seconds(self.writes_gap),
            self.fewest.map_or("-".to_owned(), |fewest| fewest.to_string()),
        );
        if let (Some((_, limit)), Some(loss)) = (self.allowance.harm, judged.loss) {
            let _ = write!(line, "  loss ended after {} s, limit {} s", seconds(loss), seconds(limit));
        }
        for note in &self.notes {
            let _ = write!(line, "  {note}");
        }
        line
    }

    pub(crate) fn head() -> String {
        format!(
            "{:<44} {:>6} {:>8} {:>6} {:>8} {:>7} {:>7} {:>7}",
            "step", "s", "requests", "failed", "slowest", "no read", "no write", "fewest"
        )
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn check(allowance: impl FnOnce(Instant) -> Allowance, expected: &expect_test::Expect) {
        let zero = Instant::now();
        let at = |seconds: u64| zero + Duration::from_secs(seconds);
        let sample = |due: u64, failure: Option<&str>| Sample {
            due: at(due),
            took: Duration::from_millis(1_500),
            kept: false,
            failure: failure.map(str::to_owned),
        };
        let samples =
            vec![sample(0, Some("before")), sample(11, None), sample(12, Some("first")), sample(18, Some("last"))];
        let step = Step {
            name: "a step".into(),
            began: at(10),
            ended: at(20),
            allowance: allowance(zero),
            notes: Vec::new(),
            reads_gap: Duration::from_millis(300),
            writes_gap: Duration::from_secs(2),
            fewest: Some(3),
        };
        let dips = vec![Dip { at: at(13), what: "3 of 4 instances run".into() }];
        let incidents = vec![Incident { at: at(15), name: "board-1".into(), how: "exit status: 9".into() }];
        let judged = step.judge(std::slice::from_ref(&step), &Seen { samples, dips, incidents }, zero);
        let text = format!("{}\n{}\n{}\n", Step::head(), step.line(&judged), judged.breaches.join("\n"));
        expected.assert_eq(&text);
    }

    #[test]
    fn without_an_allowance_everything_is_a_breach() {
        check(
            |_| Allowance::default(),
            &expect![[r#"
            step                                              s requests failed  slowest no read no write  fewest
            a step                                         10.0        3      2      1.5     0.3     2.0       3
               12.0 s  a request failed after 1500 ms: first
               18.0 s  a request failed after 1500 ms: last
               13.0 s  3 of 4 instances run
               15.0 s  board-1 ended by itself: exit status: 9
        "#]],
        );
    }

    #[test]
    fn an_allowance_has_an_end() {
        let harm = |zero: Instant| Some((zero + Duration::from_secs(12), Duration::from_secs(5)));
        check(
            |zero| Allowance { harm: harm(zero), may_end: vec!["board"] },
            &expect![[r#"
            step                                              s requests failed  slowest no read no write  fewest
            a step                                         10.0        3      2      1.5     0.3     2.0       3  loss ended after 6.0 s, limit 5.0 s
               18.0 s  a request failed after 1500 ms: last
        "#]],
        );
    }
}
