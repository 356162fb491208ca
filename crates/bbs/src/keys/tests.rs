//! What the rotation engine promises, tried over the memory store.
//!
//! [`course`] is what it does from one key to the next, [`races`] what happens beside it, [`blocked`] what it makes of records
//! that cannot be opened, [`alone`] what it does while nobody is served, and [`matrix`] lets it die at every write.

mod alone;
mod bench;
mod blocked;
mod course;
mod matrix;
mod races;
