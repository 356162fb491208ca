//! What a cell counts, in Prometheus' text format on the admin port.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::evacuation::Evacuation;
use crate::executor::{Container, Executor, Owner, Room, State};

const BYTES_PER_MB: i64 = 1024 * 1024;
const CAPACITY: [&str; 3] =
    ["Memory that containers may have", "Disk that containers may have", "Containers that may be here at once"];
const REMAINING: [&str; 3] =
    ["Memory that is not reserved", "Disk that is not reserved", "Containers that there still is room for"];

/// When you add a state: it is shown, and its name is promised.
const STATES: [(State, &str); 5] = [
    (State::Reserved, "reserved"),
    (State::Initializing, "initializing"),
    (State::Created, "created"),
    (State::Running, "running"),
    (State::Completed, "completed"),
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    pub(super) calls: Counter,
    pub(super) call_failures: Counter,
    pub(super) crashes: Counter,
    pub(super) work_accepted: Counter,
    pub(super) work_refused: Counter,
    pub(super) syncs: Counter,
    pub(super) sync_failures: Counter,
    pub(super) presence_failures: Counter,
    pub(super) log_readers: Gauge,
    pub(super) log_lines_lost: Counter,
    pub(super) state_server_away: Gauge,
    evacuating: Gauge,
    evacuation_left: Gauge,
    healthy: Gauge,
    capacity: Rooms,
    remaining: Rooms,
    containers: Family<StateLabel, Gauge>,
    lrps: Gauge,
    tasks: Gauge,
}

#[derive(Debug)]
struct Rooms {
    memory: Gauge,
    disk: Gauge,
    containers: Gauge,
}

/// The page of a cell on which nothing happened yet, for those who want to know what is on it.
pub fn metrics_page() -> String {
    Metrics::new().encode()
}

impl Metrics {
    pub(super) fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("corkboard_cell");
        let to = &mut registry;
        let containers: Family<StateLabel, Gauge> = Family::default();
        to.register("containers", "Containers, by state", containers.clone());
        for (_, state) in STATES {
            containers.get_or_create(&StateLabel { state }).set(0);
        }
        let metrics = Self {
            lrps: gauge(to, "lrps", "Containers of instances, in any state"),
            tasks: gauge(to, "tasks", "Containers of tasks, in any state"),
            capacity: Rooms::new(to, "capacity", CAPACITY),
            remaining: Rooms::new(to, "remaining", REMAINING),
            healthy: gauge(to, "healthy", "1 while containers can be made here"),
            evacuating: gauge(to, "evacuating", "1 while this cell hands over its instances"),
            evacuation_left: seconds(to, "evacuation_left", "Until an evacuation ends whatever is left; 0 without one"),
            work_accepted: counter(to, "work_accepted", "Instances and tasks that were accepted"),
            work_refused: counter(to, "work_refused", "Instances and tasks that were not accepted"),
            crashes: counter(to, "crashes", "Instances that ended although nobody asked for it"),
            state_server_away: gauge(to, "state_server_away", "1 while the state server does not answer"),
            calls: counter(to, "state_server_calls", "Calls to the state server about one container"),
            call_failures: counter(
                to,
                "state_server_call_failures",
                "Calls to it without an answer that counts; they are made again",
            ),
            syncs: counter(to, "syncs", "Comparisons of all containers with all records of this cell"),
            sync_failures: counter(to, "sync_failures", "Comparisons that failed; the containers stayed as they are"),
            presence_failures: counter(to, "presence_failures", "Announcements of this cell in Locket that failed"),
            log_readers: gauge(to, "log_readers", "Requests that read the logs of containers right now"),
            log_lines_lost: counter(to, "log_lines_lost", "Lines that readers of logs lost because they were too slow"),
            containers,
            registry: Registry::default(),
        };
        Arc::new(Self { registry, ..metrics })
    }

    /// The text, with the cell as it is now.
    pub(super) fn text(&self, executor: &dyn Executor, evacuation: &Evacuation) -> String {
        let containers = executor.list();
        self.capacity.set(executor.total());
        self.remaining.set(executor.remaining());
        self.healthy.set(executor.health().is_ok().into());
        let progress = evacuation.progress(&containers);
        self.evacuating.set(progress.evacuating.into());
        self.evacuation_left.set(progress.seconds_left.and_then(|left| i64::try_from(left).ok()).unwrap_or(0));
        let count = |is: &dyn Fn(&Container) -> bool| {
            i64::try_from(containers.iter().filter(|container| is(container)).count()).unwrap_or(i64::MAX)
        };
        for (state, name) in STATES {
            let gauge = self.containers.get_or_create(&StateLabel { state: name });
            gauge.set(count(&|container| container.state == state));
        }
        self.lrps.set(count(&|container| matches!(container.owner, Owner::Lrp { .. })));
        self.tasks.set(count(&|container| matches!(container.owner, Owner::Task { .. })));
        self.encode()
    }

    fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

impl Rooms {
    fn new(registry: &mut Registry, of: &str, [memory, disk, containers]: [&str; 3]) -> Self {
        let mut bytes = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register_with_unit(format!("{of}_{name}"), help, Unit::Bytes, gauge.clone());
            gauge
        };
        let (memory, disk) = (bytes("memory", memory), bytes("disk", disk));
        Self { memory, disk, containers: gauge(registry, &format!("{of}_containers"), containers) }
    }

    fn set(&self, room: Room) {
        self.memory.set(i64::from(room.memory_mb) * BYTES_PER_MB);
        self.disk.set(i64::from(room.disk_mb) * BYTES_PER_MB);
        self.containers.set(room.containers.into());
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

fn seconds(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register_with_unit(name, help, Unit::Seconds, gauge.clone());
    gauge
}
