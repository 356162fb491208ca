//! Work for a cell: instances and tasks, each with what it needs.

use serde::{Deserialize, Serialize};

use super::shape::shape;

shape! {
    /// What is to be started on a cell, and, in the answer, what of it was not accepted.
    Work {
        lrps: Vec<Lrp> => list_or_null("LRPs"),
        tasks: Vec<Task> => list_or_null("Tasks"),
        /// Whom the work is meant for: a cell that bears another name refuses it whole. Empty in answers.
        cell_id: String => unless_empty("cell_id"),
    }
}

shape! {
    /// One instance of an app.
    Lrp {
        /// Empty in work: the cell that takes it makes one up.
        instance_guid: String => plain("instance_guid"),
        process_guid: String => plain("process_guid"),
        index: i32 => plain("index"),
        domain: String => plain("domain"),
        needs: Needs => flat,
        /// `RUNNING`, `CLAIMED`, `CRASHED` or `SHUTDOWN` on a cell; empty in work.
        state: String => plain("state"),
    }
}

shape! {
    Task {
        task_guid: String => plain("TaskGuid"),
        domain: String => plain("Domain"),
        needs: Needs => flat,
        state: TaskState => plain("state"),
        failed: bool => plain("failed"),
    }
}

shape! {
    /// What a place must offer, flat in its element.
    Needs {
        placement_tags: Vec<String> => list_or_null("PlacementTags"),
        volume_drivers: Vec<String> => plain("VolumeDrivers"),
        /// A URL such as `preloaded:cflinuxfs4` or `docker:///busybox`.
        rootfs: String => plain("RootFs"),
        memory_mb: i32 => plain("MemoryMB"),
        disk_mb: i32 => plain("DiskMB"),
        max_pids: i32 => plain("MaxPids"),
    }
}

/// A task's state by its name; a number or another name is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// In work, and whenever nobody looks at it.
    #[default]
    Invalid,
    Pending,
    Running,
    Completed,
    Resolving,
}
