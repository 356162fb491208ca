//! Data version 1442529338: a DesiredLRP is two records.
//!
//! What changed: the part that scheduling and routing read, and that updates change, became a record of its own beside
//! the large part that only a cell needs and that never changes. Scaling an app then writes a few hundred bytes instead
//! of the whole definition.
//!
//! Promise: writing ([`put_desired`] and its siblings) and [`Loader`] are inverse, and what cannot be read is
//! quarantined, never dropped. [`keys`] is the layout of the keys; the record types in `records` are frozen by tests on their bytes.

mod convert;
#[cfg(test)]
mod frozen;
pub mod keys;
mod load;
mod records;
mod write;

pub use load::Loader;
pub use write::{
    Part, delete_actual, delete_desired, delete_domain, delete_task, put_actual, put_desired, put_domain, put_task,
};

use crate::record::DataVersion;

pub const VERSION: DataVersion = DataVersion(1_442_529_338);
/// All records of this version are below this key.
pub const ROOT: &str = "/v1442529338/";
