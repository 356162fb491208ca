//! The load generator against a server that answers from a script, the binary itself, and real servers, small: an upgrade,
//! another key, nodes on etcd, and a whole cluster.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod binaries;
mod encrypt;
mod etcd;
mod load;
mod migrate;
mod program;
mod scale;
mod scripted;
