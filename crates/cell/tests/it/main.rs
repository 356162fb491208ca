//! A cell on real sockets, between a state server that is played and an executor that is simulated.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

// Other crates know this one as `cell`; so do its tests.
extern crate corkboard_cell as cell;

mod rep_board;
mod rep_evacuation;
mod rep_logs;
mod rep_lrps;
mod rep_ports;
mod rep_restart;
mod rep_rollouts;
mod rep_silence;
mod rep_slot;
mod rep_tasks;
mod rep_world;
