//! The domain: what tasks, LRPs, domains and cells are, and every move they may make.
//!
//! Everything here is pure. No function reads a clock, draws a random number or does I/O; time arrives as nanoseconds since
//! the Unix epoch and fresh modification-tag epochs arrive as arguments. That is what lets the server apply the same command
//! in production, in a replay and in a simulation with the same result.
//!
//! Where to start: [`actual_lrp::table`] and [`task::judge`] are the two tables of moves, [`slot`] applies them to all rows
//! of one instance index, [`event`] says what the world is told, and [`converge`] plans repairs.
//!
//! What is deliberately absent: the run information of an LRP and the definition of a task are opaque bytes. The state server
//! never needs to look inside them, and what it does not understand it cannot damage.

pub mod actual_lrp;
pub mod cell;
pub mod converge;
pub mod crash;
pub mod definition;
pub mod desired_lrp;
pub mod domain;
pub mod event;
mod ids;
mod packed;
mod reason;
mod refusal;
pub mod rollout;
pub mod slot;
mod tag;
pub mod task;
mod unknown;

pub use actual_lrp::{ActualLrp, ActualLrpKey, ActualState, InstanceKey, NetInfo, PortMapping, Presence, Report};
pub use cell::Cell;
pub use definition::{Definition, DefinitionNumber, NewDefinition};
pub use desired_lrp::{DesiredLrp, DesiredUpdate, ImageCredentials, MetricTag, Resources, UpdateStrategy};
pub use domain::Domain;
pub use ids::{CellId, DomainName, ID_BYTES_MAX, IdError, InstanceGuid, ProcessGuid, TaskGuid};
pub use packed::{Packed, PackedValue};
pub use reason::{REASON_BYTES_MAX, truncate_reason};
pub use refusal::Refusal;
pub use rollout::{History, Rollout};
pub use slot::Slot;
pub use tag::ModificationTag;
pub use task::{Task, TaskDefinition, TaskState};
pub use unknown::Unknown;

/// Nanoseconds since the Unix epoch.
pub type Nanos = i64;

pub const NANOS_PER_SECOND: Nanos = 1_000_000_000;
