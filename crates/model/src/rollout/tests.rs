//! Rollouts against a small world of cells: whatever happens, no decision takes an index its last running instance.

mod scenes;
mod storms;
mod world;
