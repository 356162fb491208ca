//! The wire: everything that knows protobuf, JSON shapes and paths.
//!
//! Corkboard speaks the protocol of Diego's BBS, byte for byte, because programs we do not control speak it: Cloud
//! Controller, the cells, the route emitters, `cfdot`. The promise of this crate is that what leaves it is what Diego
//! would have sent, and that what Diego would have accepted is accepted. Where we do otherwise, the module says so.
//!
//! Start with [`routes`] for the list of calls, then [`mod@decode`] for how bytes come in and out. [`revision`] holds
//! the older shapes of the newest messages, [`json`] the shapes that operators see, [`client`] the calls themselves.
//! [`locket`] is the other protocol of the platform: who holds a lock, and which cells are there.
//! [`registry`] is what route emitters and routers say to each other.
//! What the fields mean is in `docs/formats/api.md`; what a value must satisfy is in [`validate`].

pub mod cell;
pub mod client;
pub mod convert;
pub mod decode;
pub mod errors;
pub mod event;
pub mod json;
pub mod locket;
pub mod registry;
pub mod rep;
pub mod revision;
pub mod routes;
pub mod sse;
pub mod validate;
pub mod version;
pub mod wire;

pub use decode::{DecodeError, decode, encode};
pub use routes::Route;
pub use wire::{Response, Wire};

/// The messages of `proto/*.proto`, one Rust type each, and their shapes as written by the build script.
pub mod models {
    #![allow(missing_debug_implementations, unreachable_pub, clippy::all)]
    include!(concat!(env!("OUT_DIR"), "/models.rs"));
    include!(concat!(env!("OUT_DIR"), "/shapes.rs"));
}
