//! Keys change under real servers that are killed, replaced and rolled back, on one store, under load: nothing is lost, and
//! the store never says more about its keys than is true.
//!
//! Clients call without a pause; see [`crate::upgrade::load`] for what each of them checks, and that none is turned away by a
//! server that has answered. Each time a server is gone the store itself is opened and every record in it is looked at; see
//! [`audit`]. There are three keys, and [`keys`] says how servers get them.

mod alone;
mod audit;
mod fire;
mod keys;
mod refusal;
mod releases;
mod spoiled;

/// So slow that a rotation of the stock does not end before the server is told to go.
const CRAWLING_PER_S: u32 = 20;
/// A rotation takes a second or two, so that a kill within that time hits any part of it, the end included.
const WALKING_PER_S: u32 = 400;
const UNLIMITED: u32 = 0;
