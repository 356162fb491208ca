//! Tasks in the shapes of older revisions. A task's action takes the place that the setup has in an LRP.

use super::{cached_dependencies, image_layers, timeouts};
use crate::models::{Task, TaskDefinition};

/// For `tasks/*.r2` and `/v1/events/tasks`: without image layers. A task without a definition gets an empty one, which only
/// its JSON shows.
pub fn task_v3_to_v2(mut task: Task) -> Task {
    let definition = task.task_definition.get_or_insert_default();
    let layers = std::mem::take(&mut definition.image_layers);
    definition.cached_dependencies =
        image_layers::dependencies(&layers, std::mem::take(&mut definition.cached_dependencies));
    definition.action = image_layers::first_action(&layers, &definition.legacy_download_user, definition.action.take());
    task
}

/// For `tasks/*.r1`: also with the deprecated timeouts.
pub fn task_v3_to_v1(task: Task) -> Task {
    let mut task = task_v3_to_v2(task);
    if let Some(action) = task.task_definition.as_mut().and_then(|definition| definition.action.as_mut()) {
        timeouts::fill_deprecated(action);
    }
    task
}

/// For `tasks/*` without a revision: also without cached dependencies.
pub fn task_v3_to_v0(task: Task) -> Task {
    let mut task = task_v3_to_v1(task);
    let definition = task.task_definition.get_or_insert_default();
    let dependencies = std::mem::take(&mut definition.cached_dependencies);
    definition.action =
        cached_dependencies::first_action(dependencies, &definition.legacy_download_user, definition.action.take());
    task
}

/// The deprecated nanoseconds become the milliseconds of today.
pub(super) fn up_from_r0(definition: &mut TaskDefinition) {
    if let Some(action) = &mut definition.action {
        timeouts::take_deprecated(action);
    }
}
