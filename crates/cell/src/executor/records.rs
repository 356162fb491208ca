//! What of a container is on the disk, so that a cell that starts again finds it.
//!
//! One folder for each container, under the folder `containers`: the record, the root folder, and a folder for each step. The
//! record is replaced as a whole at every change of state. It holds environments, and so is readable by its owner alone.
//! It is not forced to the disk: what a loss of power takes with it, it takes from containers that are gone as well.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use model::{ActualLrpKey, DefinitionNumber, DomainName, InstanceGuid, Nanos, ProcessGuid, TaskGuid};
use serde::{Deserialize, Serialize};

use super::process::files::{read, write};
use super::{Container, ContainerGuid, Ending, Owner, Port, Reservation, Room, RunSpec, State};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    owner: OwnerRecord,
    room: Room,
    max_pids: i32,
    rootfs: String,
    placement_tags: Vec<String>,
    volume_drivers: Vec<String>,
    state: State,
    ending: Option<Ending>,
    ports: Vec<Port>,
    address: String,
    is_routable: bool,
    internal_routes: Vec<String>,
    metric_tags: BTreeMap<String, String>,
    /// Absent in what older cells wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<u32>,
    since_ns: Nanos,
    pub(crate) spec: Option<RunSpec>,
    /// Somebody asked for its end, or for its removal.
    pub(crate) is_stopping: bool,
    pub(crate) is_deleting: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OwnerRecord {
    Lrp { process_guid: String, index: i32, domain: String, instance_guid: String },
    Task { guid: String, domain: String },
}

impl Record {
    pub(crate) fn new(container: &Container, spec: Option<&RunSpec>, is_stopping: bool, is_deleting: bool) -> Self {
        let container = container.clone();
        Self {
            owner: OwnerRecord::of(&container.owner),
            room: container.reservation.room,
            max_pids: container.reservation.max_pids,
            rootfs: container.reservation.rootfs,
            placement_tags: container.reservation.placement_tags,
            volume_drivers: container.reservation.volume_drivers,
            state: container.state,
            ending: container.ending,
            ports: container.ports,
            address: container.address,
            is_routable: container.is_routable,
            internal_routes: container.internal_routes,
            metric_tags: container.metric_tags,
            definition: container.definition.map(|number| number.0),
            since_ns: container.since_ns,
            spec: spec.cloned(),
            is_stopping,
            is_deleting,
        }
    }

    pub(crate) fn container(&self) -> Result<Container, model::IdError> {
        let owner = self.owner.parse()?;
        let this = self.clone();
        let reservation = Reservation {
            owner: owner.clone(),
            room: this.room,
            max_pids: this.max_pids,
            rootfs: this.rootfs,
            placement_tags: this.placement_tags,
            volume_drivers: this.volume_drivers,
        };
        Ok(Container {
            guid: owner.container(),
            owner,
            reservation,
            state: this.state,
            ending: this.ending,
            ports: this.ports,
            instance_address: this.address.clone(),
            address: this.address,
            is_routable: this.is_routable,
            internal_routes: this.internal_routes,
            metric_tags: this.metric_tags,
            definition: this.definition.map(DefinitionNumber),
            since_ns: this.since_ns,
        })
    }

    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        write(&folder.join("record.json"), self)
    }

    pub(crate) fn read(folder: &Path) -> io::Result<Option<Self>> {
        read(&folder.join("record.json"))
    }
}

impl OwnerRecord {
    pub(crate) fn of(owner: &Owner) -> Self {
        match owner {
            Owner::Lrp { key, instance } => Self::Lrp {
                process_guid: key.process_guid.to_string(),
                index: key.index,
                domain: key.domain.to_string(),
                instance_guid: instance.to_string(),
            },
            Owner::Task { guid, domain } => Self::Task { guid: guid.to_string(), domain: domain.to_string() },
        }
    }

    pub(crate) fn parse(&self) -> Result<Owner, model::IdError> {
        Ok(match self {
            Self::Lrp { process_guid, index, domain, instance_guid } => Owner::Lrp {
                key: ActualLrpKey {
                    process_guid: ProcessGuid::parse(process_guid)?,
                    index: *index,
                    domain: DomainName::parse(domain)?,
                },
                instance: InstanceGuid::parse(instance_guid)?,
            },
            Self::Task { guid, domain } => {
                Owner::Task { guid: TaskGuid::parse(guid)?, domain: DomainName::parse(domain)? }
            }
        })
    }
}

/// The longest guid that is a file name as it is; others get a name of their own.
const PLAIN_BYTES_MAX: usize = 100;

/// The name of everything that belongs to a container. Guids come from outside and may hold slashes.
pub(crate) fn folder_name(guid: &ContainerGuid) -> String {
    let guid = guid.as_str();
    let is_plain = guid.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_plain && (1..=PLAIN_BYTES_MAX).contains(&guid.len()) {
        return guid.to_owned();
    }
    // A dot keeps these apart from all plain names.
    let sum = digest::digest(&digest::SHA256, guid.as_bytes());
    format!("sum.{}", sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// A short name for a folder of a cell, so that several cells on one machine do not take each other's for their own.
pub(crate) fn cell_name(root: &Path) -> String {
    let sum = digest::digest(&digest::SHA256, root.as_os_str().as_encoded_bytes());
    sum.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn containers_folder(root: &Path) -> PathBuf {
    root.join("containers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_make_safe_names() {
        let name = |guid: &str| folder_name(&ContainerGuid(guid.into()));
        assert_eq!(name("a-b_9"), "a-b_9");
        for odd in ["..", "a/b", "", "a b", ".hidden", &"x".repeat(255)] {
            assert!(name(odd).starts_with("sum.") && name(odd).len() == 68, "{odd}");
        }
        assert_ne!(name("a/b"), name("a/c"));
    }
}
