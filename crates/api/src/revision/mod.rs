//! Older shapes of the newest messages: pure conversions, applied to what leaves.
//!
//! The server thinks in the newest shape only (V3). Paths that end in `.r2` deliver V2, which Cloud Controller reads
//! every day; the event streams without a revision deliver V0. What a revision does not know is turned into what it
//! does: image layers become cached dependencies and download actions, those become a setup action.
//!
//! V1 is not here: it equals V2, and no path delivers it. There is no way up either: requests come in the newest
//! shape, and the revisions that did not are no longer served.
//!
//! In one point we do not do as Diego does. On the way to V0, Diego's current code loses `try` and `emit_progress`
//! around an action, so that a step that may fail becomes one that may not. This changes what an app does and is
//! evidently not meant: the older code, for which V0 exists, kept them. So do we.

mod desired_lrp;
mod image_layers;
mod task;
mod timeouts;

pub use desired_lrp::{desired_lrp_v2_to_v0, desired_lrp_v3_to_v0, desired_lrp_v3_to_v2};
pub use task::task_v3_to_v2;

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
