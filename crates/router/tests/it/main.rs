//! The router on real sockets: backends that live and die, a real NATS server, clients that never see it.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod backend;
mod client;
mod draining;
mod limits;
mod nats;
mod passing;
mod replacing;
mod secured;
mod world;
