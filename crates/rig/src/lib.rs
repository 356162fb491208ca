//! What tests and benchmarks stand on: real etcd clusters and NATS servers, lines that can be cut, and histories that are checked.
//!
//! Promise: whatever is started here is a real process on loopback with ports of its own, and is gone when its value is
//! dropped. Nothing that is shipped depends on it. A test that cannot get what it asked for panics with the reason and, for
//! a process, with the end of its log: there is nobody above a test who could do better.

pub mod etcd;
pub mod history;
pub mod load;
pub mod nats;
pub mod netns;
pub mod oci;
pub mod pki;
mod port;
pub mod proxy;
