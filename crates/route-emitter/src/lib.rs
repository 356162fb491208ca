//! The route emitter: tells routers where the instances of routes are.
//!
//! It knows the state server by its API only, and routers by registry messages, so each of the three can be Diego's. Start
//! reading in [`table`], which decides everything and does nothing; [`emitter`] is the program around it. TCP routes are in
//! the table and counted, but not sent: that takes a routing API, which there is none of here.

pub mod config;
pub mod emitter;
pub mod endpoint;
pub mod events;
mod greet;
pub mod health;
mod listing;
pub mod lock;
pub mod metrics;
pub mod process;
mod repeats;
pub mod row;
pub mod table;

pub use config::Config;
pub use emitter::{Parts, run};
