//! One folder per data version, named for what changed in it.
//!
//! Promise: a folder holds all that there is to know about its version: the record types, the keys, the way to and from
//! the model, and frozen bytes. It never speaks of later versions. [`latest`] is the one that servers write.
//!
//! When you add one: make a folder, point `latest` to it, and leave the older folders as they are.

pub mod split_desired_lrp;

pub use split_desired_lrp as latest;
