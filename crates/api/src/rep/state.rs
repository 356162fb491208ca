//! What a cell says about itself when the auctioneer asks.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::{Unit, shape};
use super::{Lrp, Task};

shape! {
    CellState {
        rep_url: String => plain("rep_url"),
        cell_id: String => plain("cell_id"),
        /// The number of the cell's machine in its group.
        cell_index: i64 => plain("cell_index"),
        rootfs_providers: RootfsProviders => plain("RootFSProviders"),
        /// What is left after everything that was accepted.
        available: Resources => plain("AvailableResources"),
        total: Resources => plain("TotalResources"),
        lrps: Vec<Lrp> => plain("LRPs"),
        tasks: Vec<Task> => plain("Tasks"),
        /// Containers that were accepted and do not run yet.
        starting_container_count: i64 => plain("StartingContainerCount"),
        zone: String => plain("Zone"),
        evacuating: bool => plain("Evacuating"),
        volume_drivers: Vec<String> => plain("VolumeDrivers"),
        /// Only work that asks for all of these is welcome.
        placement_tags: Vec<String> => plain("PlacementTags"),
        /// Work may ask for these.
        optional_placement_tags: Vec<String> => plain("OptionalPlacementTags"),
        /// What the cell adds to the memory of every instance.
        proxy_memory_allocation_mb: i64 => plain("ProxyMemoryAllocationMB"),
    }
}

shape! {
    Resources {
        memory_mb: i32 => plain("MemoryMB"),
        disk_mb: i32 => plain("DiskMB"),
        containers: i64 => plain("Containers"),
    }
}

/// Root file systems that a cell has, by the scheme of their URLs.
///
/// Providers of a type that we do not know are forgotten when read: such a cell does not offer that scheme. Diego's
/// auctioneer would crash on them, so none must ever be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct RootfsProviders(pub BTreeMap<String, RootfsProvider>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RootfsProvider {
    /// Anything under this scheme.
    Arbitrary,
    /// These and no others.
    FixedSet(BTreeSet<String>),
}

const ARBITRARY: &str = "arbitrary";
const FIXED_SET: &str = "fixed_set";

impl Serialize for RootfsProvider {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let name = match self {
            Self::Arbitrary => ARBITRARY,
            Self::FixedSet(set) => {
                let set: BTreeMap<_, _> = set.iter().map(|member| (member, Unit)).collect();
                map.serialize_entry("set", &set)?;
                FIXED_SET
            }
        };
        map.serialize_entry("type", name)?;
        map.end()
    }
}

/// A provider of any type.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnyProvider {
    r#type: Option<String>,
    set: Option<BTreeMap<String, IgnoredAny>>,
}

impl<'de> Deserialize<'de> for RootfsProviders {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let all = BTreeMap::<String, Option<AnyProvider>>::deserialize(from)?;
        let known = all.into_iter().filter_map(|(scheme, provider)| {
            let AnyProvider { r#type, set } = provider?;
            match r#type?.as_str() {
                ARBITRARY => Some((scheme, RootfsProvider::Arbitrary)),
                FIXED_SET => Some((scheme, RootfsProvider::FixedSet(set.unwrap_or_default().into_keys().collect()))),
                _ => None,
            }
        });
        Ok(Self(known.collect()))
    }
}
