//! The emitter between a state server that fails in every way and routers that listen, in process and over a real NATS.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod away;
mod board;
mod cell;
mod lock;
mod nats;
mod routers;
mod world;
