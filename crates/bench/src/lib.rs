//! Measurements: a load generator for any BBS, the benchmark of the whole server, and the comparison of storage engines.
//!
//! Promise: a number is only reported together with what it cost to get it right. Every answer is checked, failures are
//! counted and shown, and a phase with failures is marked as failed instead of being fast. Never shipped.
//!
//! Start with [`fleet`] for what the data looks like, [`load`] for what is done with it, and [`board`] for how the
//! report is written; [`migrate`] measures what an upgrade costs, [`encrypt`] what encryption does and another key, [`etcd`]
//! what several nodes on etcd do, [`scale`] what a whole cluster with a thousand cells does. [`floors`] measures what the machine itself can do, in the same run: without them a number
//! says nothing. [`engines`] stands alone.

pub mod answer;
pub mod board;
pub mod certificates;
pub mod clients;
pub mod connection;
pub mod course;
pub mod document;
pub mod encrypt;
pub mod engines;
pub mod etcd;
pub mod fleet;
pub mod floors;
pub mod goals;
pub mod latency;
pub mod load;
pub mod median;
pub mod migrate;
pub mod noise;
pub mod process;
pub mod quiet;
pub mod runs;
pub mod scale;
pub mod server;
pub mod sizes;
pub mod stopwatch;
pub mod stores;
pub mod table;
