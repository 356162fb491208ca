//! Why something was not placed. The texts are Diego's, word for word: Cloud Controller and its users read them.

use std::fmt;

use model::CellId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No cell takes part at all.
    NoCells,
    Rootfs,
    VolumeDrivers,
    /// The tags that were asked for.
    PlacementTags(Vec<String>),
    Resources(Shortage),
    /// As many containers are starting as may.
    InFlight,
    /// The cell that was chosen did not accept it. Diego's auctioneer gives no reason here, and the state server refuses
    /// to record a failure without one.
    Refused(CellId),
}

/// What every cell in question has too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub containers: bool,
    pub disk: bool,
    pub memory: bool,
}

impl Shortage {
    /// Before the first cell was looked at.
    pub(super) const ALL: Self = Self { containers: true, disk: true, memory: true };
    pub(super) const NONE: Self = Self { containers: false, disk: false, memory: false };

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            containers: self.containers && other.containers,
            disk: self.disk && other.disk,
            memory: self.memory && other.memory,
        }
    }
}

impl Reason {
    /// When you add a reason: metrics know its class, and its name is promised.
    pub(crate) const CLASSES: [&str; 7] =
        ["no_cells", "rootfs", "volume_drivers", "placement_tags", "resources", "in_flight_limit", "refused_by_cell"];

    pub(crate) fn class(&self) -> &'static str {
        let [no_cells, rootfs, volume_drivers, placement_tags, resources, in_flight_limit, refused_by_cell] =
            Self::CLASSES;
        match self {
            Self::NoCells => no_cells,
            Self::Rootfs => rootfs,
            Self::VolumeDrivers => volume_drivers,
            Self::PlacementTags(_) => placement_tags,
            Self::Resources(_) => resources,
            Self::InFlight => in_flight_limit,
            Self::Refused(_) => refused_by_cell,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCells => f.write_str("unable to communicate to compatible cells"),
            Self::Rootfs => f.write_str("found no compatible cell for required rootfs"),
            Self::VolumeDrivers => f.write_str("found no compatible cell with required volume drivers"),
            Self::PlacementTags(tags) => {
                f.write_str("found no compatible cell with ")?;
                tag_list(tags, f)
            }
            Self::Resources(shortage) => {
                let all = [("containers", shortage.containers), ("disk", shortage.disk), ("memory", shortage.memory)];
                let short: Vec<_> = all.into_iter().filter(|(_, short)| *short).map(|(name, _)| name).collect();
                let colon = if short.is_empty() { "" } else { ": " };
                write!(f, "insufficient resources{colon}{}", short.join(", "))
            }
            Self::InFlight => f.write_str("waiting to start instance: reached in-flight start limit"),
            Self::Refused(cell) => write!(f, "refused by cell {cell}, which may have become full or begun to evacuate"),
        }
    }
}

fn tag_list(tags: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match tags {
        [] => f.write_str("no placement tags"),
        [tag] => write!(f, "placement tag \"{tag}\""),
        [some @ .., last] => {
            let some: Vec<_> = some.iter().map(|tag| format!("\"{tag}\"")).collect();
            write!(f, "placement tags {} and \"{last}\"", some.join(", "))
        }
    }
}
