//! The load generator against a server that answers from a script, and the binary itself.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod load;
mod program;
mod scripted;
