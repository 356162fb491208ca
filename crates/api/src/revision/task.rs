//! Tasks in the shape of older revisions. There is one step only: V0 and V1 of a task equal V2 since the paths that
//! told them apart are gone.

use super::image_layers;
use crate::models::Task;

/// For `tasks/*.r2` and `/v1/events/tasks`. The task's action takes the place of a setup. A task without a definition
/// gets an empty one, which only its JSON shows.
pub fn task_v3_to_v2(mut task: Task) -> Task {
    let definition = task.task_definition.get_or_insert_default();
    let layers = std::mem::take(&mut definition.image_layers);
    definition.cached_dependencies =
        image_layers::dependencies(&layers, std::mem::take(&mut definition.cached_dependencies));
    definition.action = image_layers::first_action(&layers, &definition.legacy_download_user, definition.action.take());
    task
}
