//! Older shapes of the newest messages: pure conversions, down for what leaves and up for what comes in.
//!
//! The server thinks in the newest shape only (V3). What an older revision does not know is turned into what it does, one
//! step at a time:
//!
//! ```text
//! V3   reads *.r3, writes *.r2     image layers
//! V2   reads *.r2                  layers are cached dependencies and download actions
//! V1   reads *.r1                  timeouts also in the deprecated units
//! V0   reads without a revision    cached dependencies are download actions too
//! ```
//!
//! Cloud Controller reads V2 every day, and the LRP event streams without a revision deliver V0; the task stream without a
//! revision delivers V2, as Diego's does. Diego removed the other reads and the older two of each desire in its v2.1.0, and its
//! V1 became equal to V2. For those paths we do what it did when it still served them.
//!
//! Upwards there are two steps, named after the calls: `desire` has its timeouts in the deprecated units, and `desire.r1` an
//! older kind of volume mount. Three points are not as Diego had them, because an old client would get hurt:
//!
//! - It converted a timeout only where that was the outermost action, and then refused the request for any other. We convert
//!   all of them. A timeout below a millisecond becomes one millisecond instead of none, and start timeouts do not wrap
//!   around at 49 days. Where the deprecated field is not filled, the newer one counts.
//! - `desire.r1` rebuilt every mount from the deprecated fields, and `desire` refused the mounts of its own time. We rebuild, in
//!   both, the mounts that are in the older form.
//! - Clients of before 2019 do not name the source of their metrics as it is demanded today; see [`name_metrics_source`].
//!
//! Downwards there is one such point. On the way to V0, Diego's current code loses `try` and `emit_progress` around an action,
//! so that a step that may fail becomes one that may not. This changes what an app does and is evidently not meant: the older
//! code, for which V0 exists, kept them. So do we.

mod cached_dependencies;
mod desire;
mod desired_lrp;
mod halves;
mod image_layers;
mod metrics_source;
mod task;
mod timeouts;
mod volume_mounts;

pub use desire::{desire_lrp_r0, desire_lrp_r1, desire_task_r0, desire_task_r1};
pub use desired_lrp::{desired_lrp_v3_to_v0, desired_lrp_v3_to_v1, desired_lrp_v3_to_v2};
pub use halves::{immutable_half, joined, mutable_half};
pub use metrics_source::name_metrics_source;
pub use task::{task_v3_to_v0, task_v3_to_v1, task_v3_to_v2};

use crate::models::{Action, DownloadAction, ParallelAction, SerialAction};

fn parallel(downloads: Vec<DownloadAction>) -> Action {
    let actions = downloads.into_iter().map(|download| Action { download_action: Some(download), ..Action::default() });
    let parallel = ParallelAction { actions: actions.collect(), ..ParallelAction::default() };
    Action { parallel_action: Some(parallel), ..Action::default() }
}

fn serial(actions: Vec<Action>) -> Action {
    Action { serial_action: Some(SerialAction { actions, ..SerialAction::default() }), ..Action::default() }
}

#[cfg(test)]
mod tests;
