//! How an update is rolled out, and what may be asked of one.

use model::rollout::Terms;
use model::{NANOS_PER_SECOND, Nanos};

use super::{Findings, Validate};
use crate::models::{RollbackDesiredLrpRequest, RolloutTerms, SteerUpdateRequest};

/// More would replace everything at once, which is what a rollout is there to avoid.
const IN_FLIGHT_MAX: u32 = 1_000;
/// A week: whatever takes longer is not waited for.
const TIME_MS_MAX: i64 = 7 * 24 * 60 * 60 * 1000;
const UNTIL_RESUMED_MS: i64 = -1;
const NANOS_PER_MS: Nanos = NANOS_PER_SECOND / 1000;

impl Validate for RolloutTerms {
    fn findings(&self, found: &mut Findings) {
        if self.in_flight.is_some_and(|count| !(1..=IN_FLIGHT_MAX).contains(&count)) {
            found.field("in_flight");
        }
        if self.canaries.is_some_and(|count| count > super::desired_lrp::INSTANCES_MAX.cast_unsigned()) {
            found.field("canaries");
        }
        let pause = self.canary_pause_ms.filter(|ms| *ms != UNTIL_RESUMED_MS);
        for (name, ms, least) in [
            ("canary_pause_ms", pause, 0),
            ("healthy_ms", self.healthy_ms, 0),
            ("instance_deadline_ms", self.instance_deadline_ms, 1),
            ("deadline_ms", self.deadline_ms, 1),
        ] {
            if ms.is_some_and(|ms| !(least..=TIME_MS_MAX).contains(&ms)) {
                found.field(name);
            }
        }
        let usual = Terms::default();
        let or_usual = |ms: Option<i64>, usual_ns: Nanos| ms.unwrap_or(usual_ns / NANOS_PER_MS);
        let healthy = or_usual(self.healthy_ms, usual.healthy_ns);
        if healthy >= or_usual(self.instance_deadline_ms, usual.instance_deadline_ns) {
            // Whichever was chosen.
            found.field(if self.instance_deadline_ms.is_some() { "instance_deadline_ms" } else { "healthy_ms" });
        }
    }
}

impl Validate for SteerUpdateRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
    }
}

impl Validate for RollbackDesiredLrpRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
        if let Some(terms) = &self.rollout {
            found.under("rollout", |found| terms.findings(found));
        }
    }
}
