//! Locket from both sides.
//!
//! As clients: two state servers that share a store directory, and a Locket that says which of them serves. Servers are processes
//! that are stopped, paused and killed; Locket runs here, over real TLS, and the lines to it can be cut. As servers: a state
//! server that serves Locket itself, and two processes that serve it from one etcd.

mod beside;
mod cells;
mod node;
mod turns;
mod two;
mod world;
