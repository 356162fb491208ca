//! What a cell counts, in Prometheus' text format on the admin port.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::executor::{Container, Owner, Room, State};

#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    pub(super) calls: Counter,
    pub(super) crashes: Counter,
    pub(super) work_accepted: Counter,
    pub(super) work_refused: Counter,
    pub(super) looks: Counter,
    pub(super) looks_failed: Counter,
    pub(super) presence_failures: Counter,
    pub(super) log_readers: Gauge,
    pub(super) log_lines_lost: Counter,
    pub(super) evacuating: Gauge,
    pub(super) state_server_silent: Gauge,
    total: [Gauge; 3],
    remaining: [Gauge; 3],
    containers: Gauge,
    starting: Gauge,
    lrps: Gauge,
    tasks: Gauge,
}

impl Metrics {
    pub(super) fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("corkboard_cell");
        let to = &mut registry;
        let metrics = Self {
            calls: counter(to, "settled", "Looks at a container that called the state server"),
            crashes: counter(to, "crashes", "Instances that ended although nobody asked for it"),
            work_accepted: counter(to, "work_accepted", "Instances and tasks that were accepted"),
            work_refused: counter(to, "work_refused", "Instances and tasks that were not accepted"),
            looks: counter(to, "syncs", "Comparisons of all containers with all records of this cell"),
            looks_failed: counter(
                to,
                "syncs_failed",
                "Comparisons that failed, because the state server did not answer",
            ),
            presence_failures: counter(to, "presence_failures", "Announcements of this cell that failed"),
            log_readers: gauge(to, "log_readers", "Requests that read the logs of containers right now"),
            log_lines_lost: counter(to, "log_lines_lost", "Lines that readers of logs lost because they were too slow"),
            evacuating: gauge(to, "evacuating", "1 while this cell hands over its instances"),
            state_server_silent: gauge(to, "state_server_silent", "1 while the state server does not answer"),
            total: rooms(to, "total", "Everything that the cell has"),
            remaining: rooms(to, "remaining", "What is not reserved"),
            containers: gauge(to, "containers", "Containers in any state"),
            starting: gauge(to, "starting_containers", "Containers that do not run yet"),
            lrps: gauge(to, "lrps", "Containers of instances"),
            tasks: gauge(to, "tasks", "Containers of tasks"),
            registry: Registry::default(),
        };
        Arc::new(Self { registry, ..metrics })
    }

    /// The text, with the cell as it is now.
    pub(super) fn text(&self, total: Room, remaining: Room, containers: &[Arc<Container>]) -> String {
        for (gauges, room) in [(&self.total, total), (&self.remaining, remaining)] {
            for (gauge, value) in gauges.iter().zip([room.memory_mb, room.disk_mb, room.containers]) {
                gauge.set(value.into());
            }
        }
        let count = |is: fn(&Container) -> bool| {
            i64::try_from(containers.iter().filter(|container| is(container)).count()).unwrap_or(i64::MAX)
        };
        self.containers.set(count(|_| true));
        self.starting.set(count(|container| container.state < State::Running));
        self.lrps.set(count(|container| matches!(container.owner, Owner::Lrp { .. })));
        self.tasks.set(count(|container| matches!(container.owner, Owner::Task { .. })));
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

fn rooms(registry: &mut Registry, of: &str, help: &str) -> [Gauge; 3] {
    ["memory_mb", "disk_mb", "containers"].map(|what| gauge(registry, &format!("{of}_{what}"), help))
}
