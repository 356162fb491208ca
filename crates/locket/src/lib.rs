//! Locket: who holds a lock, and who is there, each for a limited time.
//!
//! Diego's components know this service and rely on its rules to the letter: the state server, the auctioneer and the route
//! emitter take a lock, every cell keeps a presence. [`book`] holds the rules as a plain value without I/O, [`service`] speaks
//! them as gRPC, [`server`] listens.
//!
//! The book lives in memory. A Locket that was started again knows of nobody, and whoever asks first for a lock gets it, even if
//! somebody still holds it; with its next call that holder learns that it has lost. What protects data from two masters is
//! the store, never a lock service.

pub mod book;
pub mod server;
pub mod service;

pub use book::{Book, Kind, Refusal, Resource};
pub use server::{Config, ServeError, serve};
pub use service::Desk;
