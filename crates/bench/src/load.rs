//! The load generator: phases that can be run against any BBS, ours or another.
//!
//! Promise: every answer is checked; a call that failed is counted and its first reason shown; a phase with failures is
//! marked as failed. The phases build on each other: `populate`, then `claim-start`, then the rest in any order. The
//! state they need beyond the server's is a function of numbers (see [`crate::fleet`]), so they may be run one by one.
//!
//! A crashing instance is started again at once only twice, so the phases that crash instances share one cursor over
//! twice the fleet; when it is used up, they end early instead of measuring refusals.

mod claim_start;
mod cycle;
pub mod events;
mod fill;
mod mixed;
mod poll;
mod populate;
pub mod reads;
mod report;
pub mod steady;
mod worker;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::ValueEnum;

use crate::connection::Target;
use crate::fleet::Fleet;
use crate::process::Process;

pub use self::report::{CpuTimes, Measure, PhaseReport, table};
pub use self::worker::Tally;

/// When you add one: a module beside this file, and an arm in [`Load::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// Desire all LRPs
    Populate,
    /// Claim and start every instance: with all clients, and the last few with one client
    ClaimStart,
    /// Read the large lists, and small ones many times
    Reads,
    /// Crash, claim and start with all clients, while cells poll and somebody reads the large lists
    Mixed,
    /// Crash, claim and start without subscribers and with them; count what each of them gets
    Events,
    /// Ask what a thousand cells and their route emitters ask, as often as they do
    Poll,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Populate => "populate",
            Phase::ClaimStart => "claim-start",
            Phase::Reads => "reads",
            Phase::Mixed => "mixed",
            Phase::Events => "events",
            Phase::Poll => "poll",
        }
    }
}

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub clients: u64,
    /// Instances that a single client claims and starts, for the latency of an idle server.
    pub alone: u64,
    pub subscribers: u64,
    /// How long the phases last that have no end of their own.
    pub duration: Duration,
    /// How often each large list is read.
    pub bulk_rounds: u64,
    /// How often each small read is made.
    pub small_rounds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clients: 64,
            alone: 500,
            subscribers: 50,
            duration: Duration::from_secs(15),
            bulk_rounds: 3,
            small_rounds: 2_000,
        }
    }
}

/// A load on one server.
#[derive(Debug)]
pub struct Load {
    pub target: Target,
    pub fleet: Fleet,
    pub settings: Settings,
    /// Whose processor time is charged to the phases, when it runs on this machine.
    pub server: Option<Process>,
    /// The next crash; see the head of this module.
    crashes: AtomicU64,
}

impl Load {
    pub fn new(target: Target, fleet: Fleet, settings: Settings, server: Option<Process>) -> Self {
        Self { target, fleet, settings, server, crashes: AtomicU64::new(0) }
    }

    pub async fn run(&self, phase: Phase) -> PhaseReport {
        let measures = match phase {
            Phase::Populate => populate::run(self).await,
            Phase::ClaimStart => claim_start::run(self).await,
            Phase::Reads => reads::run(self).await,
            Phase::Mixed => mixed::run(self).await,
            Phase::Events => events::run(self).await,
            Phase::Poll => poll::run(self).await,
        };
        PhaseReport { phase: phase.name().to_owned(), lrps: self.fleet.lrps, measures }
    }

    /// The quickest way to a full board: everything desired, every instance running, and so many tasks on their cells.
    pub async fn fill(&self, tasks: u64) -> PhaseReport {
        let mut measures = populate::run(self).await;
        measures.extend(fill::run(self, tasks).await);
        PhaseReport { phase: "fill".to_owned(), lrps: self.fleet.lrps, measures }
    }

    /// Processor time so far, of the server if we may know it, and ours.
    fn cpu(&self) -> CpuTimes {
        let of = |process: Process| process.cpu_seconds().ok();
        CpuTimes { server_s: self.server.and_then(of), client_s: of(Process(std::process::id())) }
    }
}
