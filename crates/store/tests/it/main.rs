//! The integration tests of the store, one binary.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

// Other crates know this one as `store`; so do its tests.
extern crate corkboard_store as store;

mod backup;
mod contract;
mod crash;
mod directory;
mod etcd;
mod files;
mod full_disk;
mod model;
mod tutorial;
mod vectors;
