//! Tasks.

use bytes::Bytes;
use model::{Resources, Task, TaskDefinition, TaskState};
use prost::Message;

use super::{Item, put_sub_message};
use crate::models;

/// Field 1 of `Task`.
const DEFINITION: u32 = 1;

/// A validated definition. The whole of it is kept encoded; placement and the callback use the typed part.
pub fn task_definition(wire: &models::TaskDefinition) -> TaskDefinition {
    TaskDefinition {
        resources: Resources {
            memory_mb: wire.memory_mb,
            disk_mb: wire.disk_mb,
            max_pids: wire.max_pids,
            root_fs: wire.root_fs.clone(),
        },
        placement_tags: wire.placement_tags.clone(),
        volume_drivers: wire.volume_mounts.iter().map(|mount| mount.driver.clone()).collect(),
        completion_callback_url: wire.completion_callback_url.clone(),
        annotation: wire.annotation.clone(),
        encoded: wire.encode_to_vec().into(),
    }
}

/// The record framed for a list.
pub fn task_item(task: &Task) -> Item {
    Item::frame(&encoded(task))
}

/// The record as one message.
pub fn task(task: &Task) -> models::Task {
    crate::decode(encoded(task)).unwrap_or_default()
}

pub(super) fn encoded(task: &Task) -> Bytes {
    let rest = models::Task {
        task_definition: None,
        task_guid: task.guid.to_string(),
        domain: task.domain.to_string(),
        created_at: task.created_ns,
        updated_at: task.updated_ns,
        first_completed_at: task.first_completed_ns,
        state: wire_state(task.state).into(),
        cell_id: task.cell_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        result: task.result.clone(),
        failed: task.failed,
        failure_reason: task.failure_reason.clone(),
        rejection_count: task.rejection_count,
        rejection_reason: task.rejection_reason.clone(),
    };
    let mut bytes = Vec::with_capacity(task.definition.encoded.len() + rest.encoded_len() + 8);
    put_sub_message(DEFINITION, &[&task.definition.encoded], &mut bytes);
    rest.encode_raw(&mut bytes);
    bytes.into()
}

fn wire_state(state: TaskState) -> models::task::State {
    match state {
        TaskState::Pending => models::task::State::Pending,
        TaskState::Running => models::task::State::Running,
        TaskState::Completed => models::task::State::Completed,
        TaskState::Resolving => models::task::State::Resolving,
    }
}
