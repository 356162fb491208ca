//! What this cell says of itself: its state for the auctioneer, and what its containers use.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cell::{ContainerMetrics, LrpMetrics, Metrics, TaskMetrics};
use api::rep::{CellState, Lrp, Needs, Resources, RootfsProvider, RootfsProviders, Task, TaskState};

use super::config::Config;
use crate::executor::{Container, ContainerGuid, Owner, Room, State, Usage};
use crate::presence::STOCK_SCHEMES;

/// The tag that names whose metrics they are.
const SOURCE_ID_TAG: &str = "source_id";

/// A cell at one moment.
pub(super) struct Moment<'a> {
    pub(super) rep_url: &'a str,
    pub(super) total: Room,
    pub(super) remaining: Room,
    pub(super) stacks: Vec<String>,
    pub(super) containers: &'a [Arc<Container>],
    pub(super) evacuating: bool,
}

pub(super) fn state(config: &Config, moment: Moment<'_>) -> CellState {
    let (mut lrps, mut tasks) = (Vec::new(), Vec::new());
    for container in moment.containers {
        match &container.owner {
            Owner::Lrp { key, instance } => lrps.push(Lrp {
                instance_guid: instance.as_str().to_owned(),
                process_guid: key.process_guid.as_str().to_owned(),
                index: key.index,
                domain: key.domain.as_str().to_owned(),
                needs: needs(container),
                state: lrp_state(container).to_owned(),
            }),
            Owner::Task { guid, domain } => tasks.push(Task {
                task_guid: guid.as_str().to_owned(),
                domain: domain.as_str().to_owned(),
                needs: needs(container),
                state: if container.state == State::Completed { TaskState::Completed } else { TaskState::Running },
                failed: failed(container),
            }),
        }
    }
    let starting = moment.containers.iter().filter(|container| container.state < State::Running).count();
    CellState {
        rep_url: moment.rep_url.to_owned(),
        cell_id: config.cell_id.as_str().to_owned(),
        cell_index: config.cell_index,
        rootfs_providers: providers(config, moment.stacks),
        available: resources(moment.remaining),
        total: resources(moment.total),
        lrps,
        tasks,
        starting_container_count: i64::try_from(starting).unwrap_or(i64::MAX),
        zone: config.zone.clone(),
        evacuating: moment.evacuating,
        volume_drivers: config.volume_drivers.clone(),
        placement_tags: config.placement_tags.clone(),
        optional_placement_tags: config.optional_placement_tags.clone(),
        proxy_memory_allocation_mb: config.proxy_memory_mb.into(),
    }
}

pub(super) fn providers(config: &Config, stacks: Vec<String>) -> RootfsProviders {
    let stock = RootfsProvider::FixedSet(stacks.into_iter().collect());
    let stock = STOCK_SCHEMES.map(|scheme| (scheme.to_owned(), stock.clone()));
    let others = config.rootfs_schemes.iter().map(|scheme| (scheme.clone(), RootfsProvider::Arbitrary));
    RootfsProviders(stock.into_iter().chain(others).collect())
}

fn resources(room: Room) -> Resources {
    Resources { memory_mb: room.memory_mb, disk_mb: room.disk_mb, containers: room.containers.into() }
}

fn needs(container: &Container) -> Needs {
    let reservation = &container.reservation;
    Needs {
        placement_tags: reservation.placement_tags.clone(),
        volume_drivers: reservation.volume_drivers.clone(),
        rootfs: reservation.rootfs.clone(),
        memory_mb: reservation.room.memory_mb,
        disk_mb: reservation.room.disk_mb,
        max_pids: reservation.max_pids,
    }
}

fn failed(container: &Container) -> bool {
    container.ending.as_ref().is_some_and(|ending| ending.failed)
}

fn lrp_state(container: &Container) -> &'static str {
    match container.state {
        State::Reserved | State::Initializing | State::Created => "CLAIMED",
        State::Running => "RUNNING",
        State::Completed if failed(container) => "CRASHED",
        State::Completed => "SHUTDOWN",
    }
}

pub(super) fn usage(
    config: &Config,
    containers: &[Arc<Container>],
    usage: &BTreeMap<ContainerGuid, Usage>,
) -> ContainerMetrics {
    let mut all = ContainerMetrics { cell_id: config.cell_id.as_str().to_owned(), ..Default::default() };
    for container in containers {
        let Some(used) = usage.get(&container.guid) else { continue };
        let metrics = Metrics {
            metric_guid: container.metric_tags.get(SOURCE_ID_TAG).cloned().unwrap_or_default(),
            cpu_usage_fraction: used.cpu_fraction,
            disk_usage_bytes: used.disk_bytes,
            disk_quota_bytes: used.disk_quota_bytes,
            memory_usage_bytes: used.memory_bytes,
            memory_quota_bytes: used.memory_quota_bytes,
            rx_bytes: used.rx_bytes,
            tx_bytes: used.tx_bytes,
        };
        match &container.owner {
            Owner::Lrp { key, instance } => all.lrps.push(LrpMetrics {
                instance_guid: instance.as_str().to_owned(),
                process_guid: key.process_guid.as_str().to_owned(),
                index: key.index,
                metrics,
            }),
            Owner::Task { guid, .. } => {
                all.tasks.push(TaskMetrics { task_guid: guid.as_str().to_owned(), metrics });
            }
        }
    }
    all
}
