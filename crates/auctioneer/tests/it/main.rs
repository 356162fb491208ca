//! The program on real sockets, between cells and a state server that are played.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

// Other crates know this one as `auctioneer`; so do its tests.
extern crate corkboard_auctioneer as auctioneer;

mod auctions;
mod cell;
mod intake;
mod lifecycle;
mod peer;
mod state_server;
mod world;
