//! What the server counts, in Prometheus' text format on the health port.
//!
//! The names follow Diego's metrics (`LRPsRunning` becomes `corkboard_lrps_running`), so that an operator who knows those finds
//! these. Counters that belong to a request are updated without locks that a slow scrape could hold.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Route;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::keys::{KeysStatus, State};
use crate::operations::Keys;

/// Upper bounds of the latency buckets in seconds, from a tenth of a millisecond to a minute.
const LATENCY_BUCKETS_S: [f64; 15] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DomainLabel {
    domain: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CellLabel {
    cell_id: String,
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Vec<(Counter, Histogram)>,
    deprecated: Vec<Option<Counter>>,
    pub refused_connections: Counter,
    pub clients_refused: Counter,
    pub panics: Counter,
    pub events_cut_off: Counter,
    pub auction_failures: Counter,
    pub callback_attempts: Counter,
    pub callback_failures: Counter,
    pub callbacks_taken: Counter,
    pub callbacks_given_up: Counter,
    pub callbacks_waiting: Gauge,
    pub cell_call_failures: Counter,
    commits: Counter,
    steps: Counter,
    commands: Counter,
    effects_dropped: Counter,
    pub connections: Gauge,
    /// 1 while this node holds the lock of its store.
    pub lock_held: Gauge,
    pub elections: Counter,
    pub open_files: Gauge,
    pub subscribers: Gauge,
    pub quarantined: Gauge,
    pub tasks_started: CellCounter,
    pub tasks_failed: CellCounter,
    pub tasks_succeeded: CellCounter,
    pub convergence: Convergence,
    pub rollouts: Rollouts,
    pub migration: Migration,
    pub encryption: Encryption,
    domains: Family<DomainLabel, Gauge>,
    fresh_before: Mutex<Vec<String>>,
}

/// A counter per cell.
#[derive(Clone, Debug, Default)]
pub struct CellCounter(Family<CellLabel, Counter>);

impl CellCounter {
    pub fn inc(&self, cell: &model::CellId) {
        self.0.get_or_create(&CellLabel { cell_id: cell.to_string() }).inc();
    }
}

/// What the passes found; set after each pass.
#[derive(Debug, Default)]
pub struct Convergence {
    pub lrp_runs: Counter,
    pub lrp_duration_s: Gauge<f64, AtomicU64>,
    pub task_runs: Counter,
    pub task_duration_s: Gauge<f64, AtomicU64>,
    pub tasks_kicked: Counter,
    pub tasks_pruned: Counter,
    pub lrps_unclaimed: Gauge,
    pub lrps_claimed: Gauge,
    pub lrps_running: Gauge,
    pub lrps_crashed: Gauge,
    pub lrps_missing: Gauge,
    pub lrps_extra: Gauge,
    pub suspect_running: Gauge,
    pub suspect_claimed: Gauge,
    pub lrps_desired: Gauge,
    pub crashing_desired: Gauge,
    pub present_cells: Gauge,
    pub suspect_cells: Gauge,
    pub tasks_pending: Gauge,
    pub tasks_running: Gauge,
    pub tasks_completed: Gauge,
    pub tasks_resolving: Gauge,
}

/// Updates of definitions.
#[derive(Debug, Default)]
pub struct Rollouts {
    pub under_way: Gauge,
    pub begun: Counter,
    pub replaced: Counter,
    pub taken_back: Counter,
    pub completed: Counter,
    pub reverted: Counter,
    pub halted: Counter,
    pub not_honoured: Counter,
}

/// How far a migration is; read from its status when somebody asks.
#[derive(Debug, Default)]
pub struct Migration {
    pub current_version: Gauge,
    pub target_version: Gauge,
    pub under_way: Gauge,
    pub waits_for_operator: Gauge,
    pub blocked: Gauge,
    pub records_done: Gauge,
    pub records_total: Gauge,
    pub eta_s: Gauge,
    pub last_progress_s: Gauge,
    pub duration_s: Gauge<f64, AtomicU64>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KeyLabel {
    key: String,
}

/// Records and seals by key, and how far a rotation is; read from its status when somebody asks.
#[derive(Debug, Default)]
pub struct Encryption {
    records: Family<KeyLabel, Gauge>,
    writes: Family<KeyLabel, Gauge>,
    needed: Family<KeyLabel, Gauge>,
    plain_records: Gauge,
    rotating: Gauge,
    blocked: Gauge,
    records_done: Gauge,
    records_total: Gauge,
    eta_s: Gauge,
    duration_s: Gauge<f64, AtomicU64>,
}

impl Metrics {
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("corkboard");
        let (mut requests, mut deprecated) = (Vec::with_capacity(Route::ALL.len()), Vec::new());
        for route in Route::ALL {
            let (count, latency) = (Counter::default(), Histogram::new(LATENCY_BUCKETS_S));
            let by_route = registry.sub_registry_with_label(("route".into(), route.name().into()));
            by_route.register("requests", "Requests answered, by route", count.clone());
            by_route.register_with_unit("request_latency", "Time to answer", Unit::Seconds, latency.clone());
            requests.push((count, latency));
            deprecated.push(route.deprecated().then(|| {
                counter(by_route, "deprecated_requests", "Requests to routes that have a newer form, by route")
            }));
        }
        let metrics = Self {
            requests,
            deprecated,
            clients_refused: counter(
                &mut registry,
                "clients_refused",
                "Requests turned away because of the version of their client",
            ),
            refused_connections: counter(
                &mut registry,
                "refused_connections",
                "Connections closed because too many were open",
            ),
            panics: counter(&mut registry, "panics", "Requests that met a defect in the server"),
            events_cut_off: counter(
                &mut registry,
                "events_cut_off",
                "Subscribers that read too slowly and were cut off",
            ),
            auction_failures: counter(&mut registry, "auction_failures", "Requests to the auctioneer that failed"),
            callback_attempts: counter(&mut registry, "callback_attempts", "Calls to report the end of a task"),
            callback_failures: counter(&mut registry, "callback_failures", "Those that the receiver did not take"),
            callbacks_taken: counter(&mut registry, "callbacks_taken", "Those that the receiver took"),
            callbacks_given_up: counter(
                &mut registry,
                "callbacks_given_up",
                "Tasks deleted although nobody took the report of their end in time",
            ),
            callbacks_waiting: gauge(&mut registry, "callbacks_waiting", "Tasks that wait to be reported, or deleted"),
            cell_call_failures: counter(&mut registry, "cell_call_failures", "Calls to cells that failed"),
            commits: counter(&mut registry, "commits", "Groups of changes made durable"),
            steps: counter(&mut registry, "committed_steps", "Atomic steps made durable"),
            commands: counter(&mut registry, "commands", "Commands answered by the writer"),
            effects_dropped: counter(
                &mut registry,
                "effects_dropped",
                "Calls left to convergence because the queue was full",
            ),
            lock_held: gauge(&mut registry, "lock_held", "1 while this node is master"),
            elections: counter(&mut registry, "master_elected", "How often this process became master"),
            open_files: gauge(&mut registry, "open_file_descriptors", "Open files and sockets of this process"),
            connections: gauge(&mut registry, "connections", "Open API connections"),
            subscribers: gauge(&mut registry, "event_subscribers", "Open event streams"),
            quarantined: gauge(&mut registry, "quarantined_records", "Stored records that cannot be read and are kept"),
            tasks_started: cell_counter(&mut registry, "tasks_started", "Tasks started, by cell"),
            tasks_failed: cell_counter(&mut registry, "tasks_failed", "Tasks that failed, by cell"),
            tasks_succeeded: cell_counter(&mut registry, "tasks_succeeded", "Tasks that succeeded, by cell"),
            convergence: Convergence::default(),
            rollouts: Rollouts::default(),
            migration: Migration::default(),
            encryption: Encryption::default(),
            domains: Family::default(),
            fresh_before: Mutex::default(),
            registry: Registry::default(),
        };
        registry.register("domain", "1 while the domain is fresh", metrics.domains.clone());
        metrics.convergence.register(&mut registry);
        metrics.rollouts.register(&mut registry);
        metrics.migration.register(&mut registry);
        metrics.encryption.register(&mut registry);
        Arc::new(Self { registry, ..metrics })
    }

    /// Counts who still uses what has a newer form.
    pub fn asked_for(&self, route: Route) {
        if let Some(Some(count)) = self.deprecated.get(route as usize) {
            count.inc();
        }
    }

    pub fn answered(&self, route: Route, took: Duration) {
        if let Some((count, latency)) = self.requests.get(route as usize) {
            count.inc();
            latency.observe(took.as_secs_f64());
        }
    }

    pub fn committed(&self, steps: usize, commands: usize) {
        self.commits.inc();
        self.steps.inc_by(steps as u64);
        self.commands.inc_by(commands as u64);
    }

    pub fn effect_dropped(&self) {
        self.effects_dropped.inc();
    }

    /// Fresh domains are 1; one that is no longer fresh disappears.
    pub fn set_domains(&self, fresh: &[model::DomainName]) {
        let mut before = self.fresh_before.lock().unwrap_or_else(PoisonError::into_inner);
        for domain in before.drain(..) {
            if !fresh.iter().any(|name| name.as_str() == domain) {
                self.domains.remove(&DomainLabel { domain });
            }
        }
        for name in fresh {
            self.domains.get_or_create(&DomainLabel { domain: name.to_string() }).set(1);
            before.push(name.to_string());
        }
    }

    /// The text a scrape gets.
    pub fn render(&self) -> String {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing into a string cannot fail; if it ever does, a scrape that is empty is the honest answer.
            Err(std::fmt::Error) => String::new(),
        }
    }
}

impl Convergence {
    fn register(&self, registry: &mut Registry) {
        registry.register("convergence_lrp_runs", "LRP passes", self.lrp_runs.clone());
        registry.register(
            "convergence_lrp_duration_seconds",
            "Length of the last LRP pass",
            self.lrp_duration_s.clone(),
        );
        registry.register("convergence_task_runs", "Task passes", self.task_runs.clone());
        registry.register(
            "convergence_task_duration_seconds",
            "Length of the last task pass",
            self.task_duration_s.clone(),
        );
        registry.register("convergence_tasks_kicked", "Tasks that a pass moved on", self.tasks_kicked.clone());
        registry.register("convergence_tasks_pruned", "Tasks that a pass removed", self.tasks_pruned.clone());
        let gauges: [(&str, &str, &Gauge<i64, AtomicI64>); 16] = [
            ("lrps_unclaimed", "Instances that no cell has", &self.lrps_unclaimed),
            ("lrps_claimed", "Instances that a cell is starting", &self.lrps_claimed),
            ("lrps_running", "Instances that run", &self.lrps_running),
            ("lrps_crashed", "Instances that wait after a crash", &self.lrps_crashed),
            ("lrps_missing", "Wanted instances without a record, at the last pass", &self.lrps_missing),
            ("lrps_extra", "Unwanted instances, at the last pass", &self.lrps_extra),
            ("suspect_running_lrps", "Running instances on silent cells", &self.suspect_running),
            ("suspect_claimed_lrps", "Starting instances on silent cells", &self.suspect_claimed),
            ("lrps_desired", "Instances wanted", &self.lrps_desired),
            ("crashing_desired_lrps", "Processes with a crashed instance", &self.crashing_desired),
            ("present_cells", "Cells that are heard", &self.present_cells),
            ("suspect_cells", "Cells that hold instances and are not heard", &self.suspect_cells),
            ("tasks_pending", "Tasks that wait for a cell", &self.tasks_pending),
            ("tasks_running", "Tasks that run", &self.tasks_running),
            ("tasks_completed", "Tasks that ended", &self.tasks_completed),
            ("tasks_resolving", "Tasks whose end is being reported", &self.tasks_resolving),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }
}

impl Rollouts {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "rollouts_under_way",
            "Processes whose instances have two definitions",
            self.under_way.clone(),
        );
        for (name, help, counter) in [
            ("rollout_instances_begun", "Indices for which an instance of the other definition was asked", &self.begun),
            ("rollout_instances_replaced", "Indices whose new instance has proven itself", &self.replaced),
            ("rollout_instances_taken_back", "Indices whose old instance stayed after all", &self.taken_back),
            ("rollouts_completed", "Updates that ended, also those that were taken back", &self.completed),
            ("rollouts_reverted", "Updates that failed and took themselves back", &self.reverted),
            ("rollouts_halted", "Updates that failed and wait for somebody", &self.halted),
            (
                "rollout_instances_not_honoured",
                "Instances of the definition before that got the one in use, because their cell knows no definitions",
                &self.not_honoured,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}

impl Migration {
    fn register(&self, registry: &mut Registry) {
        let gauges = [
            ("data_version_current", "The data version that is served", &self.current_version),
            ("data_version_target", "The data version that a migration goes to", &self.target_version),
            ("migration_under_way", "1 while a migration, a rollback or a clean-up works", &self.under_way),
            ("migration_waits_for_operator", "1 while it is held, paused or ready", &self.waits_for_operator),
            ("migration_blocked", "1 while it is blocked or has failed", &self.blocked),
            ("migration_records_done", "How far the present stage is", &self.records_done),
            ("migration_records", "How much the present stage has to do", &self.records_total),
            ("migration_eta_seconds", "Time left of the present stage", &self.eta_s),
            ("migration_last_progress_seconds", "Time since it last moved", &self.last_progress_s),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        registry.register("migration_duration_seconds", "Length of the last migration", self.duration_s.clone());
    }
}

impl Encryption {
    fn register(&self, registry: &mut Registry) {
        registry.register("encryption_records", "Records that are sealed with the key", self.records.clone());
        registry.register("encryption_writes", "How often the key has sealed, ever", self.writes.clone());
        registry.register("encryption_key_needed", "1 while a record may need the key", self.needed.clone());
        let gauges = [
            ("encryption_plain_records", "Records that are not sealed", &self.plain_records),
            ("encryption_rotating", "1 while records are brought under the active key or verified", &self.rotating),
            ("encryption_blocked", "1 while records cannot be opened", &self.blocked),
            ("encryption_rotation_records_done", "How far the present stage is", &self.records_done),
            ("encryption_rotation_records", "How much the present stage has to do", &self.records_total),
            ("encryption_rotation_eta_seconds", "Time left of the present stage", &self.eta_s),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        registry.register("encryption_duration_seconds", "Length of the last rotation", self.duration_s.clone());
    }

    pub fn measure(&self, status: &KeysStatus, keys: Option<&Keys>) {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for key in &status.keys {
            let label = KeyLabel { key: key.name.clone() };
            self.records.get_or_create(&label).set(number(key.records));
            self.writes.get_or_create(&label).set(number(key.writes));
            self.needed.get_or_create(&label).set(i64::from(key.needed));
        }
        self.plain_records.set(number(status.plain_records));
        self.rotating.set(i64::from(matches!(status.state, State::Rotating | State::Verifying)));
        self.blocked.set(i64::from(status.state == State::Blocked));
        self.records_done.set(number(status.done));
        self.records_total.set(number(status.total));
        self.eta_s.set(number(status.eta_s.unwrap_or(0)));
        if let Some(took) = keys.and_then(|keys| keys.tracker.took()) {
            self.duration_s.set(took.as_secs_f64());
        }
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

fn cell_counter(registry: &mut Registry, name: &str, help: &str) -> CellCounter {
    let family = CellCounter::default();
    registry.register(name, help, family.0.clone());
    family
}
