//! One answer to "how is it?", for a tired human and for scripts.

use std::sync::{Arc, OnceLock};

use model::Nanos;
use serde::Serialize;
use store::Store;

use crate::census::{Census, ClientList};
use crate::clock::Clock;
use crate::keys::KeysStatus;
use crate::metrics::Metrics;
use crate::migrate::status::MigrationStatus;
use crate::nodes::{self, Card};
use crate::operations::GuardStatus;
use crate::phase::{Phase, StandbyStatus};
use crate::writer::UNCERTAIN;

/// How many quarantined records are named; the rest are counted.
const NAMED_MAX: usize = 100;

/// What the health port reads from.
#[derive(Debug)]
pub struct StatusSource {
    pub node: String,
    pub newest: store::Version,
    pub advertise_url: Option<String>,
    pub phase: Arc<Phase>,
    pub metrics: Arc<Metrics>,
    pub clock: Arc<dyn Clock>,
    pub started_ns: Nanos,
    pub store: OnceLock<Arc<dyn Store>>,
    pub cluster_id: OnceLock<String>,
    pub census: Arc<Census>,
}

#[derive(Serialize)]
struct Status<'a> {
    product: &'static str,
    version: &'static str,
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    advertise_url: Option<&'a str>,
    phase: &'static str,
    /// What it means and what to do.
    explanation: &'static str,
    uptime_s: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_id: Option<&'a str>,
    /// The newest data version that this release writes.
    data_version: u64,
    records_loaded: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    standby: Option<StandbyStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<MigrationStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption: Option<KeysStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_guard: Option<GuardStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    board: Option<BoardStatus>,
    /// Who uses the API; only a master knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<ClientList>,
}

#[derive(Serialize)]
struct BoardStatus {
    revision: u64,
    desired_lrps: usize,
    actual_lrps: u64,
    tasks: usize,
    domains: Vec<String>,
    cells: usize,
    event_subscribers: usize,
    quarantined: usize,
    quarantine: Vec<Quarantined>,
}

#[derive(Serialize)]
struct Quarantined {
    key: String,
    why: String,
    /// What to do about it.
    command: String,
}

impl StatusSource {
    pub fn status_json(&self) -> String {
        let now_ns = self.clock.now_ns();
        let operations = self.phase.operations();
        let status = Status {
            product: "corkboard",
            version: env!("CARGO_PKG_VERSION"),
            node: &self.node,
            advertise_url: self.advertise_url.as_deref(),
            phase: self.phase.name(),
            explanation: match self.phase.app() {
                Some(app) if !app.standing.is_certain() => UNCERTAIN,
                _ => self.phase.explain(),
            },
            uptime_s: now_ns.saturating_sub(self.started_ns) / model::NANOS_PER_SECOND,
            cluster_id: self.cluster_id.get().map(String::as_str),
            data_version: self.newest.number().0,
            records_loaded: self.phase.loaded_records(),
            standby: self.phase.standby_status(),
            migration: operations.map(|operations| operations.tracker.status()),
            encryption: self.phase.keys_status(),
            store_guard: operations.map(|operations| operations.guard_status()),
            store: self.store.get().map(|store| store.describe()),
            board: self.board(now_ns),
            clients: self.phase.app().map(|_| self.census.report()),
        };
        match serde_json::to_string_pretty(&status) {
            Ok(json) => json + "\n",
            Err(error) => serde_json::json!({ "error": error.to_string() }).to_string(),
        }
    }

    /// The document about all clients.
    pub fn clients_json(&self) -> String {
        serde_json::to_string_pretty(&self.census.report()).map_or_else(|error| error.to_string(), |json| json + "\n")
    }

    /// What this node says of itself to the others.
    pub fn card(&self, instance: &str, health: &str, since_ns: Nanos) -> Card {
        let standby = self.phase.standby_status();
        Card {
            node: self.node.clone(),
            instance: instance.to_owned(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            data_version: self.newest.number().0,
            data_version_name: self.newest.name().to_owned(),
            url: self.advertise_url.clone(),
            health: health.to_owned(),
            phase: self.phase.name().to_owned(),
            since_ns,
            started_ns: self.started_ns,
            is_warm: standby.as_ref().is_some_and(|standby| standby.warm),
            cannot_take_over: standby.and_then(|standby| standby.cannot_take_over),
        }
    }

    /// The document about all nodes, or why there is none.
    pub async fn nodes_json(&self) -> Result<String, String> {
        let store = self.store.get().ok_or_else(|| match self.phase.lock_waited_for() {
            Some(lock) => format!(
                "this node waits for the lock {} in Locket, which is with {}, and looks at the store only when it has it; ask \
                 the node that has it",
                lock.name,
                lock.owner.as_deref().unwrap_or("an owner that Locket has not named yet")
            ),
            None => "the store is not open yet".to_owned(),
        })?;
        let list = nodes::list(&**store).await.map_err(|error| error.to_string())?;
        serde_json::to_string_pretty(&list).map(|json| json + "\n").map_err(|error| error.to_string())
    }

    fn board(&self, now_ns: Nanos) -> Option<BoardStatus> {
        let app = self.phase.app()?;
        let board = app.board.load();
        Some(BoardStatus {
            revision: board.revision,
            desired_lrps: board.desired.len(),
            actual_lrps: board.totals().actual_rows,
            tasks: board.tasks.len(),
            domains: board.fresh_domains(now_ns).map(ToString::to_string).collect(),
            cells: app.registry.live(self.clock.uptime_ns()).len(),
            event_subscribers: app.hub.subscribers(),
            quarantined: board.quarantine.len(),
            quarantine: board
                .quarantine
                .iter()
                .take(NAMED_MAX)
                .map(|(key, kept)| Quarantined {
                    key: key.clone(),
                    why: kept.why.clone(),
                    command: format!("corkboard quarantine show '{key}'"),
                })
                .collect(),
        })
    }

    /// Gauges that are cheap to read are read when somebody asks.
    pub fn metrics_text(&self) -> String {
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            self.metrics.open_files.set(i64::try_from(open.count()).unwrap_or(i64::MAX));
        }
        if let Some(operations) = self.phase.operations() {
            operations.tracker.measure(&self.metrics.migration);
            self.metrics.encryption.measure(&operations.keys_status(), operations.keys.as_ref());
        }
        if let Some(app) = self.phase.app() {
            let board = app.board.load();
            let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
            self.metrics.quarantined.set(count(board.quarantine.len()));
            self.metrics.subscribers.set(count(app.hub.subscribers()));
            let convergence = &self.metrics.convergence;
            convergence.present_cells.set(count(app.registry.live(self.clock.uptime_ns()).len()));
        }
        self.metrics.render()
    }
}
