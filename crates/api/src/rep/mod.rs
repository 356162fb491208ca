//! What cells and the auctioneer say to each other and to us, in JSON: starts, offers, work.
//!
//! The state server sends [`LrpStart`]s and [`TaskStart`]s to the auctioneer; the auctioneer asks every cell for its
//! [`CellState`], sends [`Work`] to some, and gets back the part of it that was refused. Keys, their order and their mixed
//! style are Diego's, and so is the choice between `null` and `[]` for a list that is empty: bytes were compared with what
//! Diego's programs were seen to send.
//!
//! On input the case of keys does not matter, unknown keys are ignored, and `null` is the zero value of anything, as in
//! Go. Where Go would crash later on, we are stricter or forget: see [`RootfsProviders`].

mod address;
mod shape;
mod start;
mod state;
#[cfg(test)]
mod tests;
mod work;

pub use address::{AddressError, address};
pub use start::{LrpStart, StartError, TaskStart, read_starts};
pub use state::{CellState, Resources, RootfsProvider, RootfsProviders};
pub use work::{Lrp, Needs, Task, TaskState, Work};

/// GET at a cell: its [`CellState`].
pub const STATE_PATH: &str = "/state";
/// POST of [`Work`] at a cell.
pub const WORK_PATH: &str = "/work";
/// POST of a list of [`LrpStart`]s at the auctioneer.
pub const LRP_STARTS_PATH: &str = "/v1/lrps";
/// POST of a list of [`TaskStart`]s at the auctioneer.
pub const TASK_STARTS_PATH: &str = "/v1/tasks";
