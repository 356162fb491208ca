//! A whole cluster of real processes: a state server that serves Locket, auctioneers, cells, a route emitter and a router, with
//! TLS on every line and a real NATS between them. Apps are processes too, and requests to them come through the router.

mod apps;
mod auctioneers;
mod cells;
mod configs;
mod daemon;
mod oci;
mod world;
