//! The state server from outside, one module per subject.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

// Other crates know this one as `bbs`; so do its tests.
extern crate corkboard_bbs as bbs;

mod assembled;
mod convergence;
mod evacuation;
mod harness;
mod lifecycle;
mod lists;
mod narrate;
mod outbound;
mod raw;
mod samples;
mod script;
mod tasks;
