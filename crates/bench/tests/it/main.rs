//! The load generator against a server that answers from a script, the binary itself, and an upgrade of real servers.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod load;
mod migrate;
mod program;
mod scripted;
