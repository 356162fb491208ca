//! The load generator against a server that answers from a script, the binary itself, and real servers, small: an upgrade,
//! another key, and nodes on etcd.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod binaries;
mod encrypt;
mod etcd;
mod load;
mod migrate;
mod program;
mod scripted;
