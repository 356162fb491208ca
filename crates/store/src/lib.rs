//! The bytes: an ordered, fenced key-value store, its implementations, and records with their data versions.
//!
//! Promise: what was acknowledged is durable, a step is there whole or not at all, and a record that cannot be read is
//! kept and named, never dropped. Start reading at [`kv`], the contract; [`contract`] is its test suite, [`embedded`],
//! [`etcd`] and [`memory`] implement it. Above it, [`record`] is the header of every value, [`root`] says which data version a
//! store has, [`seal`] encrypts what lies there, [`backup`] copies all of it into a file and back, and [`versions`] holds one
//! folder per data version.

pub mod backup;
pub mod claims;
pub mod contract;
pub mod embedded;
pub mod error;
pub mod etcd;
pub mod identity;
pub mod kv;
pub mod memory;
pub mod record;
pub mod root;
pub mod seal;
pub mod standing;
pub mod versions;

pub use claims::{Claim, Claimed, Held};
pub use error::StoreError;
pub use kv::{
    BoxFuture, Change, Following, GROUP_BYTES_MAX, KEY_BYTES_MAX, Mastership, Op, PAGE_BYTES_MAX, Page, STEP_BYTES_MAX,
    STEP_OPS_MAX, STORED_BYTES_MAX, STORED_OPS_MAX, Snapshot, Step, Store, campaign_at_once,
};
pub use root::RootError;
pub use standing::Standing;
pub use versions::{Entity, EntityRef, Forms, Loader, Lost, Quarantined, Rehearsal, Rehearsed, Subject, Version};
