//! How often a call is tried, what is waited for in between, and which calls may be tried twice.
//!
//! A round asks each address once, without waiting: a node that refuses is no reason to keep its neighbour waiting. Between two
//! rounds there is a pause that grows, drawn at random between nothing and its full length, so that clients which lost the same
//! server do not all come back in the same moment.
//!
//! What certainly changed nothing is tried again whatever the call is: a connection that was refused, a name without address, a
//! handshake that did not end, an answer that says so. A request that was sent and not answered may have been carried out. It is
//! sent again only if a second execution answers as the first did and changes nothing more, which is the table [`Nature::of`].

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::routes::Route;

/// How stubborn a client is. The time limit of a call ends all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How many times all addresses are asked. With one address this is the number of attempts.
    pub rounds_max: u32,
    /// The longest pause after the first round; it doubles from round to round.
    pub pause_first: Duration,
    /// What it does not grow beyond.
    pub pause_max: Duration,
    /// How many redirects are followed in one round. With 0 a redirect is an answer like any other.
    pub redirects_max: u32,
    pub repeat: Repeat,
}

/// What is done when a request was sent and no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Sent again only if a second execution changes nothing more. Otherwise the caller gets the error, and looks.
    IfHarmless,
    /// Sent again in any case. For callers that can take a second execution, and that understand an error such as
    /// `ResourceExists` as the trace of the first.
    Always,
}

impl Default for Retry {
    /// For programs: sits out a restart of the server, or another node taking over, for about a minute.
    fn default() -> Self {
        Self {
            rounds_max: 24,
            pause_first: Duration::from_millis(100),
            pause_max: Duration::from_secs(5),
            redirects_max: 5,
            repeat: Repeat::IfHarmless,
        }
    }
}

impl Retry {
    /// For people who wait in front of a terminal: each address is asked once, nothing is waited for, redirects are followed.
    pub fn once() -> Self {
        Self { rounds_max: 1, ..Self::default() }
    }

    /// For programs that have nothing better to do than to wait, within the time limit of the call.
    pub fn forever() -> Self {
        Self { rounds_max: u32::MAX, ..Self::default() }
    }

    /// The pause after so many rounds, at least one. `chance` is a random number; what the server asked for comes on top, so
    /// that it is kept and the clients are spread all the same.
    pub(super) fn pause(&self, rounds: u32, asked: Option<Duration>, chance: u64) -> Duration {
        let doublings = rounds.saturating_sub(1).min(31);
        let longest = self.pause_first.saturating_mul(1 << doublings).min(self.pause_max);
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        let drawn = nanos.checked_add(1).map_or(chance, |choices| chance % choices);
        Duration::from_nanos(drawn).saturating_add(asked.unwrap_or_default())
    }
}

/// A random number. Only pauses depend on it, so the seeds of hash maps are good enough.
pub(super) fn chance() -> u64 {
    RandomState::new().hash_one(())
}

/// What a second execution of a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    /// Nothing: it only looks.
    Read,
    /// The same answer, and nothing is changed that the first did not change.
    Harmless,
    /// Another answer, or another change.
    Once,
}

impl Nature {
    /// When you add a route that changes something: it is `Once` unless you give the reason why not.
    pub(super) fn of(route: Route) -> Self {
        use Route as R;
        match route {
            R::Ping
            | R::Domains
            | R::Cells
            | R::ActualLrps
            | R::ActualLrpsByProcessGuids
            | R::ActualLrpGroups
            | R::ActualLrpGroupsByProcessGuid
            | R::ActualLrpGroupByProcessGuidAndIndex
            | R::DesiredLrpSchedulingInfos
            | R::DesiredLrpSchedulingInfoByProcessGuid
            | R::DesiredLrpRoutingInfos
            | R::DesiredLrps
            | R::DesiredLrpsR2
            | R::DesiredLrpByProcessGuid
            | R::DesiredLrpByProcessGuidR2
            | R::DesiredLrpDefinitions
            | R::Tasks
            | R::TasksR2
            | R::TaskByGuid
            | R::TaskByGuidR2 => Self::Read,
            route if route.stream() => Self::Read,
            // The time to live counts from the last execution, as it does for any client that keeps a domain fresh.
            R::UpsertDomain => Self::Harmless,
            // Cells repeat all of these at every poll, and the server takes them as the heartbeat of a container.
            R::ClaimActualLrp
            | R::StartActualLrp
            | R::StartActualLrpR0
            | R::EvacuateRunningActualLrp
            | R::EvacuateRunningActualLrpR0 => Self::Harmless,
            // ResourceExists.
            R::DesireDesiredLrp | R::DesireTask => Self::Once,
            // Another tag and event, and it may undo what somebody else did in between; ResourceConflict for a definition.
            R::UpdateDesiredLrp => Self::Once,
            // ResourceNotFound, or the successor of what was meant is removed, retired or evacuated.
            R::RemoveDesiredLrp
            | R::RemoveActualLrp
            | R::RetireActualLrp
            | R::RemoveEvacuatingActualLrp
            | R::EvacuateClaimedActualLrp
            | R::EvacuateCrashedActualLrp
            | R::EvacuateStoppedActualLrp
            | R::DeleteTask => Self::Once,
            // The second finds that the instance has moved on; a failure to place it is announced twice.
            R::CrashActualLrp | R::FailActualLrp => Self::Once,
            // The first answers that the cell should start the task, the second that it should not, and nobody would.
            R::StartTask => Self::Once,
            // InvalidStateTransition; a rejection is counted twice.
            R::CancelTask | R::FailTask | R::RejectTask | R::CompleteTask | R::ResolvingTask => Self::Once,
            _ => Self::Once,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn which_writes_may_be_carried_out_twice() {
        let mut table = String::new();
        for route in Route::ALL.iter().filter(|route| Nature::of(**route) == Nature::Harmless) {
            writeln!(table, "{}", route.path()).unwrap();
        }
        expect![[r#"
            /v1/domains/upsert
            /v1/actual_lrps/claim
            /v1/actual_lrps/start.r1
            /v1/actual_lrps/start
            /v1/actual_lrps/evacuate_running.r1
            /v1/actual_lrps/evacuate_running
        "#]]
        .assert_eq(&table);
        let changes =
            ["desire", "update", "remove", "retire", "crash", "fail", "cancel", "reject", "complete", "delete"];
        for route in Route::ALL.iter().filter(|route| changes.iter().any(|word| route.path().contains(word))) {
            // The paths of lists contain such words too: desired_lrps.
            let is_list =
                ["/list", "/get_by", "/definitions"].iter().any(|word| route.path().contains(word)) || route.stream();
            assert!(is_list || Nature::of(*route) == Nature::Once, "{route}");
        }
    }

    proptest! {
        #[test]
        fn a_pause_is_within_its_bounds(rounds in 1..2000_u32, asked in 0..100_u64, chance: u64) {
            let retry = Retry::default();
            let asked = Duration::from_secs(asked);
            let pause = retry.pause(rounds, Some(asked), chance);
            let longest = retry.pause_max.min(retry.pause_first * 2_u32.pow((rounds - 1).min(20)));
            prop_assert!(pause >= asked && pause <= asked + longest, "{pause:?}");
        }

        /// Full jitter: half of all pauses are in the lower half.
        #[test]
        fn pauses_are_spread_evenly(seed: u64) {
            let retry = Retry::default();
            let longest = Duration::from_millis(400);
            let low = (0..1000_u64)
                .map(|number| retry.pause(3, None, seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                .filter(|pause| *pause < longest / 2)
                .count();
            prop_assert!((350..650).contains(&low), "{low} of 1000");
        }
    }

    #[test]
    fn extreme_policies_do_not_overflow() {
        let retry = Retry { pause_first: Duration::MAX, pause_max: Duration::MAX, ..Retry::forever() };
        assert!(retry.pause(u32::MAX, Some(Duration::MAX), u64::MAX) == Duration::MAX);
        assert_eq!(Retry { pause_max: Duration::ZERO, ..Retry::default() }.pause(9, None, 7), Duration::ZERO);
    }

    #[test]
    fn chances_differ() {
        let drawn: std::collections::BTreeSet<u64> = (0..100).map(|_| chance()).collect();
        assert!(drawn.len() > 90, "{drawn:?}");
    }
}
