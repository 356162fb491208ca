//! A cell as its presence describes it.

use std::collections::BTreeMap;

use crate::CellId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub id: CellId,
    /// The legacy plain address of the cell's API, may be empty.
    pub rep_address: String,
    /// The address to prefer, may be empty.
    pub rep_url: String,
    pub zone: String,
    pub capacity: Option<Capacity>,
    pub rootfs_providers: Vec<Provider>,
    pub placement_tags: Vec<String>,
    pub optional_placement_tags: Vec<String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub memory_mb: i32,
    pub disk_mb: i32,
    pub containers: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    pub name: String,
    pub properties: Vec<String>,
}
