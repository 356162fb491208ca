//! How instances get to another definition, as it is said on the command line. What is not said is as usual, which the server
//! knows.

use std::time::Duration;

use api::models::RolloutTerms;
use model::rollout::Terms;

use crate::duration;
use crate::failure::CommandError;

/// Instead of the length of a pause.
const UNTIL_RESUMED: &str = "until-resumed";
const UNTIL_RESUMED_MS: i64 = -1;
const HEADING: &str = "How instances are replaced";

#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct TermsFlags {
    /// So many instances are replaced at a time [default: 1]
    #[arg(long, value_name = "NUMBER", help_heading = HEADING, value_parser = clap::value_parser!(u32).range(1..=1000))]
    in_flight: Option<u32>,
    /// So many instances go first and have to prove themselves [default: 0]
    #[arg(long, value_name = "NUMBER", help_heading = HEADING)]
    canaries: Option<u32>,
    /// How long to wait after the canaries, or `until-resumed` [default: 0s]
    #[arg(long, value_name = "DURATION", help_heading = HEADING, value_parser = pause_ms)]
    canary_pause: Option<i64>,
    /// How long a new instance has to run before the old one is stopped [default: 10s]
    #[arg(long, value_name = "DURATION", help_heading = HEADING, value_parser = duration::parse)]
    healthy: Option<Duration>,
    /// How long one instance may take to get there [default: 5m]
    #[arg(long, value_name = "DURATION", help_heading = HEADING, value_parser = duration::parse)]
    instance_deadline: Option<Duration>,
    /// How long all of it may take, pauses not counted [default: 1h]
    #[arg(long, value_name = "DURATION", help_heading = HEADING, value_parser = duration::parse)]
    deadline: Option<Duration>,
    /// If it fails, stop there instead of taking it back
    #[arg(long, help_heading = HEADING)]
    no_revert: bool,
}

impl TermsFlags {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is said here counts; the rest is as in `others`.
    pub(crate) fn over(&self, others: Option<RolloutTerms>) -> Result<Option<RolloutTerms>, CommandError> {
        if self.is_empty() {
            return Ok(others);
        }
        let others = others.unwrap_or_default();
        let ms = |ours: Option<Duration>, other: Option<i64>| ours.map(milliseconds).or(other);
        let terms = RolloutTerms {
            in_flight: self.in_flight.or(others.in_flight),
            canaries: self.canaries.or(others.canaries),
            canary_pause_ms: self.canary_pause.or(others.canary_pause_ms),
            healthy_ms: ms(self.healthy, others.healthy_ms),
            instance_deadline_ms: ms(self.instance_deadline, others.instance_deadline_ms),
            deadline_ms: ms(self.deadline, others.deadline_ms),
            revert: if self.no_revert { Some(false) } else { others.revert },
        };
        let usual = api::convert::rollout::terms(terms);
        if usual.healthy_ns >= usual.instance_deadline_ns {
            let (healthy, deadline) = (shown_ns(usual.healthy_ns), shown_ns(usual.instance_deadline_ns));
            return Err(CommandError::Usage(format!(
                "an instance has to be healthy for {healthy} and may take {deadline} in all, so that none would ever succeed. \
                 Nothing was changed. Give a longer --instance-deadline"
            )));
        }
        Ok(Some(terms))
    }
}

fn pause_ms(text: &str) -> Result<i64, String> {
    match text {
        UNTIL_RESUMED => Ok(UNTIL_RESUMED_MS),
        text => duration::parse(text).map(milliseconds).map_err(|error| format!("{error}, or {UNTIL_RESUMED:?}")),
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn shown_ns(ns: i64) -> String {
    duration::show(Duration::from_nanos(u64::try_from(ns).unwrap_or(0)))
}

/// One line for people.
pub(super) fn in_one_line(wire: &RolloutTerms) -> String {
    use model::rollout::Pause;
    let terms: Terms = api::convert::rollout::terms(*wire);
    let mut parts = vec![format!("{} at a time", terms.in_flight)];
    if terms.canaries > 0 {
        parts.push(match terms.canary_pause {
            Pause::For(ns) => format!("{} first, then a pause of {}", terms.canaries, shown_ns(ns)),
            Pause::UntilResumed => format!("{} first, then until somebody resumes it", terms.canaries),
        });
    }
    parts.push(format!("each healthy for {}", shown_ns(terms.healthy_ns)));
    let (each, all) = (shown_ns(terms.instance_deadline_ns), shown_ns(terms.deadline_ns));
    parts.push(format!("within {each} each and {all} in all"));
    parts.push(if terms.reverts { "taken back if it fails" } else { "stays as it is if it fails" }.to_owned());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use expect_test::expect;

    use super::*;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        terms: TermsFlags,
    }

    fn of(flags: &str, others: Option<RolloutTerms>) -> String {
        let words = std::iter::once("x").chain(flags.split_whitespace());
        let Alone { terms } = match Alone::try_parse_from(words) {
            Ok(alone) => alone,
            Err(error) => return error.to_string().lines().next().unwrap_or_default().to_owned(),
        };
        match terms.over(others) {
            Ok(Some(terms)) => in_one_line(&terms),
            Ok(None) => "nothing is said".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_said_counts_and_the_rest_is_as_usual() {
        let others = RolloutTerms { in_flight: Some(7), canaries: Some(3), ..RolloutTerms::default() };
        let lines = [
            of("", None),
            of("", Some(others)),
            of("--in-flight 2", Some(others)),
            of("--canaries 1 --canary-pause until-resumed --healthy 1m --deadline 2h --no-revert", None),
            of("--canaries 1 --canary-pause 90s --instance-deadline 30s", None),
            of("--healthy 5m", None),
            of("--in-flight 0", None),
            of("--canary-pause soon", None),
        ];
        expect![[r#"
            nothing is said
            7 at a time, 3 first, then a pause of 0s, each healthy for 10s, within 5m each and 1h in all, taken back if it fails
            2 at a time, 3 first, then a pause of 0s, each healthy for 10s, within 5m each and 1h in all, taken back if it fails
            1 at a time, 1 first, then until somebody resumes it, each healthy for 1m, within 5m each and 2h in all, stays as it is if it fails
            1 at a time, 1 first, then a pause of 90s, each healthy for 10s, within 30s each and 1h in all, taken back if it fails
            an instance has to be healthy for 5m and may take 5m in all, so that none would ever succeed. Nothing was changed. Give a longer --instance-deadline
            error: invalid value '0' for '--in-flight <NUMBER>': 0 is not in 1..=1000
            error: invalid value 'soon' for '--canary-pause <DURATION>': is not a duration; expected a number and a unit, such as "500ms", "30s", "5m" or "2h", or "until-resumed""#]].assert_eq(&lines.join("\n"));
    }
}
