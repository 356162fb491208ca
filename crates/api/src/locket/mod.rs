//! Locket, the service in which Diego's components take locks and show that they are there.
//!
//! A *resource* has a key, one owner and a time after which it is forgotten unless its owner asks for it again. Locks and
//! presences differ in their type alone. [`client`] makes the four calls, to one server or to several; [`session`] keeps one lock
//! and says when it is lost.
//!
//! The messages are Diego's and may not change. The side that answers is in a crate of its own.

pub mod client;
mod dial;
pub mod error;
mod line;
pub mod session;

pub use client::{Client, Kind, Options, Resource};
pub use error::LocketError;
pub use session::{Holder, LockSession, Terms, Waiting};

/// The messages and the service of `proto/locket/frozen/locket.proto`.
pub mod proto {
    #![allow(missing_debug_implementations, unreachable_pub, clippy::all)]
    include!(concat!(env!("OUT_DIR"), "/locket/models.rs"));
}
