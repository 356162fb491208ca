//! The state server: one master, one writer, snapshots for everybody else.
//!
//! Where to start: [`server::run`] starts and stops everything. A request arrives in [`http`], becomes a command in
//! [`commands`], is applied and made durable by [`writer`], shows on the [`board`], and is announced by [`events`].
//! [`converge`] repairs what nobody asked for but somebody wants; [`rollouts`] brings instances to another definition; [`outbound`] talks to auctioneer, cells and callers.
//! Among Diego's own components `locket` knows who may serve and which cells there are.
//! [`follow`] keeps the board of a node that waits up to date; [`nodes`] tells which nodes there are.
//! [`migrate`] brings records to another data version, [`keys`] under another key, both while clients are served;
//! [`backup`] copies all of them into a file and back.

pub mod backup;
pub mod board;
pub mod cells;
pub mod cells_file;
pub mod census;
pub mod clock;
pub mod commands;
pub mod config;
pub mod converge;
pub mod errand;
pub mod events;
pub mod follow;
pub mod http;
pub mod keys;
pub mod load;
mod locket;
pub mod metrics;
pub mod migrate;
pub mod nodes;
pub mod operations;
pub mod outbound;
mod pace;
pub mod phase;
pub mod rollouts;
pub mod server;
pub mod shelf;
pub mod status;
pub mod writer;

pub use board::Board;
pub use config::Config;
pub use server::{Ready, RunError, run};
pub use writer::Writer;
