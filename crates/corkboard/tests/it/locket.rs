//! Two state servers that share a store directory, and a Locket that says which of them serves.
//!
//! Servers are processes that are stopped, paused and killed; Locket runs here, over real TLS, and the lines to it can be cut.

mod cells;
mod node;
mod turns;
mod world;
