//! Containers on this machine, for real: processes, signals, files, restarts.
//!
//! Everything here passes for root and for everybody else. What only root can do is asserted to be refused, with its reason,
//! where the tests run as somebody else.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod cell;
mod files;
mod limits;
mod oci;
mod processes;
mod restarts;
mod updates;
