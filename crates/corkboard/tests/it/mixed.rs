//! Two releases, two keys and several masters on one etcd: an upgrade that goes node by node loses nothing, whoever is killed.
//!
//! Three real servers stand on three members of etcd. Each of them is of the former release or of the newest one (see
//! [`crate::upgrade`] for how the two are made), and has one key or two. Clients that know all of them call without a pause;
//! in the end of every test [`crate::cluster::verdict`] holds, the records that nobody touched are untouched, and nobody was ever
//! turned away because of a migration or a rotation. Meanwhile [`claims`] asks every node and the store how things are, and
//! none of the answers may be wrong.

mod claims;
mod drain;
mod fire;
mod fleet;
mod keys;
mod manual;
mod rolling;
