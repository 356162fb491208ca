//! The state server from outside, one module per subject.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

// Other crates know this one as `bbs`; so do its tests.
extern crate corkboard_bbs as bbs;

mod assembled;
mod bad_input;
mod clients;
mod convergence;
mod definitions;
mod desired;
mod end_to_end;
mod evacuation;
mod harness;
mod health;
mod keys;
mod lifecycle;
mod lists;
mod migration;
mod narrate;
mod outbound;
mod passes;
mod quarantine;
mod raw;
mod readiness;
mod revisions;
mod rollouts;
mod routes;
mod samples;
mod script;
mod starts;
mod stopping;
mod streams;
mod tasks;
mod tls;
