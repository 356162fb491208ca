//! Several nodes on one etcd under faults: nobody loses anything, nobody reads what is no longer true, and somebody serves.
//!
//! Three real servers stand on a real etcd cluster while clients that know all of them call without a pause; see [`clients`]
//! for what they record and [`verdict`] for what must hold in the end of every test. Every file is one kind of fault.

mod cells;
mod clients;
mod clocks;
mod deaths;
mod doors;
mod handover;
mod instances;
mod members;
mod nodes;
mod partition;
mod quota;
mod verdict;

#[expect(clippy::print_stdout, reason = "whoever sees a failure needs to know what went before, and how long it took")]
fn say(text: &str) {
    println!("{text}");
}
