//! A cell: takes work from the auctioneer, runs it in containers, and tells the state server what became of it.
//!
//! Two halves meet at one trait. [`executor`] knows containers: it reserves room, runs an action tree, watches its health, and
//! reports what happened, without ever having heard of a state server. The other half, [`rep`], knows the protocol: it accepts
//! work, claims and starts instances on the board, reconciles what runs here with what the board says, and evacuates. Neither
//! can tell which implementation of the other it has, which is what lets a thousand simulated cells speak the real protocol.
//! [`presence`] is how others learn that the cell is there.

pub mod executor;
pub mod presence;
pub mod rep;
