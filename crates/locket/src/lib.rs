//! Locket: who holds a lock, and who is there, each for a limited time.
//!
//! Diego's components know this service and rely on its rules to the letter: the state server, the auctioneer and the route
//! emitter take a lock, every cell keeps a presence. [`book`] holds the rules as a plain value without I/O, a [`keeper`] knows
//! who holds what, [`desk`] is the one in memory, [`server`] listens and speaks gRPC,
//! [`metrics`] counts.
//!
//! What protects data from two masters is the store, never a lock service.

pub mod book;
pub mod desk;
pub mod keeper;
pub mod metrics;
pub mod server;
mod service;

pub use book::{Book, Kind, Refusal, Resource};
pub use desk::Desk;
pub use keeper::Keeper;
pub use metrics::{Metered, metrics_page};
pub use server::{Config, ServeError, serve, serve_at_most};
