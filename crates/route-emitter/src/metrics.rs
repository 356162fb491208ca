//! What the emitter counts, in Prometheus' text format.

use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub routes: Gauge,
    pub tcp_mappings: Gauge,
    pub registered: Counter,
    pub unregistered: Counter,
    pub publish_failures: Counter,
    pub syncs: Counter,
    pub sync_failures: Counter,
    pub syncs_refused: Counter,
    pub events: Counter,
    pub state_server_away: Gauge,
    pub router_starts: Counter,
    pub lock_held: Gauge,
    pub repeats_waiting: Gauge,
    pub bus_connected: Gauge,
    last_sync_age: Gauge,
    /// Of the last listing that was taken over, or the beginning.
    last_sync: Mutex<Instant>,
}

/// The page of an emitter that did nothing yet, for those who want to know what is on it.
pub fn metrics_page() -> String {
    Metrics::new().render()
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("corkboard_route_emitter");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let registered = counter("messages_registered", "Registrations sent");
        let unregistered = counter("messages_unregistered", "Unregistrations sent, repetitions included");
        let publish_failures =
            counter("publish_failures", "Messages that did not leave; they are sent when the bus is back");
        let syncs = counter("syncs", "Listings taken over");
        let sync_failures = counter("sync_failures", "Listings that failed; the table stayed");
        let syncs_refused = counter("syncs_refused", "Listings without anything, refused; the table stayed");
        let events = counter("events", "Events applied");
        let router_starts = counter("router_starts", "Times a router introduced itself");
        let last_sync_age = Gauge::default();
        let help = "Since the last listing that was taken over, or since the start";
        registry.register_with_unit("last_sync_age", help, Unit::Seconds, last_sync_age.clone());
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            routes: gauge("routes", "Endpoints under hostnames in the table"),
            tcp_mappings: gauge("tcp_mappings", "TCP routes to instances in the table; they are not sent"),
            state_server_away: gauge("state_server_away", "1 while the event stream is interrupted"),
            lock_held: gauge("lock_held", "1 while this emitter speaks"),
            bus_connected: gauge("bus_connected", "1 while there is a connection to NATS"),
            repeats_waiting: gauge("repeats_waiting", "Unregistrations that will be said again"),
            registered,
            unregistered,
            publish_failures,
            syncs,
            sync_failures,
            syncs_refused,
            events,
            router_starts,
            last_sync_age,
            last_sync: Mutex::new(Instant::now()),
            registry,
        }
    }

    /// A listing was taken over.
    pub fn synced(&self) {
        self.syncs.inc();
        *self.last_sync.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub fn render(&self) -> String {
        let age = self.last_sync.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        self.last_sync_age.set(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => format!("# metrics cannot be shown: {error}\n"),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
