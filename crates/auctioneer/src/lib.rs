//! The auctioneer: decides which cell gets which instance and which task.
//!
//! The state server says what should start; the auctioneer asks all cells what they have left, chooses, and sends each cell
//! its share. It keeps nothing: a cell that accepts work claims it at the state server, and what found no place is reported
//! there and asked for again. It speaks the protocol of Diego's auctioneer on all sides, so that either can take the
//! other's place.
//!
//! Start with [`place`], the decision itself, which is a pure function. `auction.rs` brings cells, wishes and decision
//! together; `intake.rs` receives the wishes; [`run`] is the program.

mod auction;
mod cells;
mod config;
mod door;
mod health;
mod intake;
mod lock;
mod metrics;
pub mod place;
mod queue;
mod report;
mod server;

pub use config::{Config, ConfigError, Limits, ServerTls};
pub use lock::{AlwaysMine, Lock};
pub use metrics::metrics_page;
pub use server::{Ready, RunError, run};
