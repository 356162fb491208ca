//! Work from the auctioneer: room is reserved for what fits, and the rest goes back.
//!
//! Accepting is all that happens here. The reservation is an event, and the loop claims and runs what was reserved. Work that is
//! sent again, because its answer was lost, does no harm: a task has one container, and of two instances with the same index
//! the state server lets one claim.

use api::rep::{Lrp, Needs, RootfsProvider, RootfsProviders, Task, Work};
use model::{ActualLrpKey, DomainName, IdError, ProcessGuid, TaskGuid};

use super::clock::{Clock, instance_guid};
use super::config::Config;
use super::offer::providers;
use crate::executor::{ContainerGuid, Executor, ExecutorError, Owner, Reservation, Room, State};

/// Why something goes back to the auctioneer, which is told only that it does.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Id(#[from] IdError),
    #[error("there is no root file system {0} here")]
    Rootfs(String),
    #[error(transparent)]
    Executor(#[from] ExecutorError),
}

/// What of the work was not accepted, and the containers of what was.
pub(super) struct Accepted {
    pub(super) refused: Work,
    pub(super) containers: Vec<ContainerGuid>,
}

pub(super) fn accept(config: &Config, executor: &dyn Executor, clock: &dyn Clock, work: Work) -> Accepted {
    let offered = providers(config, executor.stacks());
    let mut accepted = Accepted { refused: Work::default(), containers: Vec::new() };
    let Work { mut lrps, tasks, cell_id: _ } = work;
    // The largest first, because the small ones fit into what is left.
    lrps.sort_by_key(|lrp| std::cmp::Reverse(lrp.needs.memory_mb));
    for lrp in lrps {
        match accept_lrp(config, executor, clock, &offered, &lrp) {
            Ok(guid) => accepted.containers.push(guid),
            Err(why) => {
                tracing::info!(app = lrp.process_guid, index = lrp.index, %why, "an instance was not accepted");
                accepted.refused.lrps.push(lrp);
            }
        }
    }
    for task in tasks {
        match accept_task(executor, &offered, &task) {
            Ok(guid) => accepted.containers.push(guid),
            Err(why) => {
                tracing::info!(task = task.task_guid, %why, "a task was not accepted");
                accepted.refused.tasks.push(task);
            }
        }
    }
    accepted
}

fn accept_lrp(
    config: &Config,
    executor: &dyn Executor,
    clock: &dyn Clock,
    offered: &RootfsProviders,
    lrp: &Lrp,
) -> Result<ContainerGuid, Refusal> {
    let key = ActualLrpKey {
        process_guid: ProcessGuid::parse(&lrp.process_guid)?,
        index: lrp.index,
        domain: DomainName::parse(&lrp.domain)?,
    };
    let owner = Owner::Lrp { key, instance: instance_guid(clock) };
    reserve(executor, offered, owner, &lrp.needs, config.proxy_memory_mb)
}

fn accept_task(executor: &dyn Executor, offered: &RootfsProviders, task: &Task) -> Result<ContainerGuid, Refusal> {
    let guid = TaskGuid::parse(&task.task_guid)?;
    let container = ContainerGuid::of_task(&guid);
    if executor.get(&container).is_some_and(|container| container.state != State::Completed) {
        return Ok(container);
    }
    let owner = Owner::Task { guid, domain: DomainName::parse(&task.domain)? };
    reserve(executor, offered, owner, &task.needs, 0)
}

fn reserve(
    executor: &dyn Executor,
    offered: &RootfsProviders,
    owner: Owner,
    needs: &Needs,
    proxy_memory_mb: i32,
) -> Result<ContainerGuid, Refusal> {
    if !offers(offered, &needs.rootfs) {
        return Err(Refusal::Rootfs(needs.rootfs.clone()));
    }
    let guid = owner.container();
    executor.reserve(Reservation {
        owner,
        room: Room {
            memory_mb: needs.memory_mb.saturating_add(proxy_memory_mb),
            disk_mb: needs.disk_mb,
            containers: 1,
        },
        max_pids: needs.max_pids,
        rootfs: needs.rootfs.clone(),
        placement_tags: needs.placement_tags.clone(),
        volume_drivers: needs.volume_drivers.clone(),
    })?;
    Ok(guid)
}

/// `scheme:rest`, where the rest of what is in stock is its name, up to a query.
fn offers(offered: &RootfsProviders, rootfs: &str) -> bool {
    let Some((scheme, rest)) = rootfs.split_once(':') else { return false };
    match offered.0.get(scheme) {
        None => false,
        Some(RootfsProvider::Arbitrary) => true,
        Some(RootfsProvider::FixedSet(stacks)) => stacks.contains(rest.split('?').next().unwrap_or(rest)),
    }
}

#[cfg(test)]
mod tests {
    use model::CellId;

    use super::*;

    #[test]
    fn root_file_systems_are_offered_by_scheme_and_name() {
        let mut config = Config::new(CellId::parse("cell").unwrap());
        config.rootfs_schemes = vec!["docker".into()];
        let offered = providers(&config, vec!["cflinuxfs4".into()]);
        for (rootfs, is_offered) in [
            ("preloaded:cflinuxfs4", true),
            ("preloaded+layer:cflinuxfs4?layer=http://x&layer_digest=y", true),
            ("docker:///busybox", true),
            ("preloaded:windows", false),
            ("oci:///x", false),
            ("cflinuxfs4", false),
            ("", false),
        ] {
            assert_eq!(offers(&offered, rootfs), is_offered, "{rootfs}");
        }
    }
}
