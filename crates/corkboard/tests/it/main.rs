//! The binary as its users meet it: every test starts the real program and looks at what it prints and how it exits.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod backup;
mod clients;
mod cluster;
mod config;
mod corpus;
mod dev_certs;
mod diego;
mod durability;
mod events;
mod guide;
mod help;
mod keys;
mod locket;
mod logs;
mod mask;
mod metrics;
mod migrate;
mod mixed;
mod nodes;
mod operator;
mod program;
mod quarantine;
mod remote;
mod ring;
mod rollout;
mod rotation;
mod suite;
mod terminal;
mod top;
mod up;
mod upgrade;
mod usage;
