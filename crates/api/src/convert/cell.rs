//! Cell presences.

use model::cell::{Capacity, Provider};
use model::{Cell, CellId, IdError};

use crate::models;

pub fn cell_to_wire(cell: &Cell) -> models::CellPresence {
    models::CellPresence {
        cell_id: cell.id.to_string(),
        rep_address: cell.rep_address.clone(),
        zone: cell.zone.clone(),
        capacity: cell.capacity.map(|capacity| models::CellCapacity {
            memory_mb: capacity.memory_mb,
            disk_mb: capacity.disk_mb,
            containers: capacity.containers,
        }),
        rootfs_providers: cell
            .rootfs_providers
            .iter()
            .map(|provider| models::Provider { name: provider.name.clone(), properties: provider.properties.clone() })
            .collect(),
        placement_tags: cell.placement_tags.clone(),
        optional_placement_tags: cell.optional_placement_tags.clone(),
        rep_url: cell.rep_url.clone(),
        annotations: cell.annotations.clone(),
    }
}

pub fn cell_from_wire(wire: models::CellPresence) -> Result<Cell, IdError> {
    Ok(Cell {
        id: CellId::parse(&wire.cell_id)?,
        rep_address: wire.rep_address,
        rep_url: wire.rep_url,
        zone: wire.zone,
        capacity: wire.capacity.map(|capacity| Capacity {
            memory_mb: capacity.memory_mb,
            disk_mb: capacity.disk_mb,
            containers: capacity.containers,
        }),
        rootfs_providers: wire
            .rootfs_providers
            .into_iter()
            .map(|provider| Provider { name: provider.name, properties: provider.properties })
            .collect(),
        placement_tags: wire.placement_tags,
        optional_placement_tags: wire.optional_placement_tags,
        annotations: wire.annotations,
    })
}
