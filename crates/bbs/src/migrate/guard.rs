//! The guard against a wiped or exchanged store: what a node makes of a store that is not the one it knows.
//!
//! Promise: such a store is served, because cells and owners may refill it, but nothing is stopped on its word until an
//! operator says that it is meant.

use store::identity::Verdict;

/// Whether the store is the one this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub verdict: Verdict,
    pub found: String,
}

impl Guard {
    /// The guard of a store that is known.
    pub fn of_known(cluster_id: &str) -> Self {
        Self { verdict: Verdict::Known, found: cluster_id.to_owned() }
    }

    /// Whether convergence may stop what it does not know.
    pub fn trusts_the_store(&self) -> bool {
        matches!(self.verdict, Verdict::FirstBoot | Verdict::Known)
    }

    /// What was found, what is safe, and what to do next.
    pub fn explain(&self) -> String {
        let found = match &self.verdict {
            Verdict::FirstBoot | Verdict::Known => {
                return "the store is the one this node knows".to_owned();
            }
            Verdict::Wiped { expected } => {
                format!("the store was empty, but this node has worked with the data of cluster {expected}")
            }
            Verdict::OtherStore { expected, .. } => {
                format!("the store belongs to cluster {}, but this node has worked with {expected}", self.found)
            }
        };
        format!(
            "{found}. The API is served, but convergence stops no instance, because what is not in this store may well run. \
             Check that the right store is configured and mounted, or restore it. Only if this store is meant: \
             `corkboard store confirm --cluster-id {}`",
            self.found
        )
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn a_guard_says_what_is_safe_and_what_to_do() {
        let check = |verdict: Verdict, trusted: bool, expected: Expect| {
            let guard = Guard { verdict, found: "red".into() };
            assert_eq!(guard.trusts_the_store(), trusted);
            expected.assert_eq(&guard.explain());
        };
        let expected = || "blue".to_owned();
        check(Verdict::FirstBoot, true, expect!["the store is the one this node knows"]);
        check(Verdict::Known, true, expect!["the store is the one this node knows"]);
        check(
            Verdict::Wiped { expected: expected() },
            false,
            expect![
                "the store was empty, but this node has worked with the data of cluster blue. The API is served, but convergence stops no instance, because what is not in this store may well run. Check that the right store is configured and mounted, or restore it. Only if this store is meant: `corkboard store confirm --cluster-id red`"
            ],
        );
        check(
            Verdict::OtherStore { expected: expected(), found: Some("red".into()) },
            false,
            expect![
                "the store belongs to cluster red, but this node has worked with blue. The API is served, but convergence stops no instance, because what is not in this store may well run. Check that the right store is configured and mounted, or restore it. Only if this store is meant: `corkboard store confirm --cluster-id red`"
            ],
        );
        check(
            Verdict::OtherStore { expected: expected(), found: None },
            false,
            expect![
                "the store belongs to cluster red, but this node has worked with blue. The API is served, but convergence stops no instance, because what is not in this store may well run. Check that the right store is configured and mounted, or restore it. Only if this store is meant: `corkboard store confirm --cluster-id red`"
            ],
        );
    }
}
