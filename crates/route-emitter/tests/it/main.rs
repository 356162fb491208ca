//! The emitter between a state server that fails in every way and routers that listen, in process and over a real NATS.

mod away;
mod board;
mod cell;
mod lock;
mod nats;
mod routers;
mod world;
