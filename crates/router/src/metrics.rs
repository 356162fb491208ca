//! What the router counts, in Prometheus' text format.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::table::Table;

/// Upper bounds of the latency buckets in seconds, up to the first byte of the answer.
const LATENCY_BUCKETS_S: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClassLabel {
    class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// When you add a reason: it is on the page from the start, and its name is promised.
const REASONS: [&str; 6] = ["connect", "connect timeout", "tls", "handshake", "timeout", "cut"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The page of a router that did nothing yet, for those who want to know what is on it.
pub fn metrics_page() -> String {
    Metrics::new().render()
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    responses: Family<ClassLabel, Counter>,
    backend_failures: Family<ReasonLabel, Counter>,
    latency: Histogram,
    pub routes: Gauge,
    pub endpoints: Gauge,
    pub prune_suspended: Gauge,
    pub bus_connected: Gauge,
    pub retries: Counter,
    pub upgrades: Counter,
    pub refused_connections: Counter,
    pub registered: Counter,
    pub unregistered: Counter,
    pub pruned: Counter,
    pub bad_messages: Counter,
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("corkboard_router");
        let (responses, backend_failures) = (Family::default(), Family::default());
        for class in CLASSES {
            drop(Family::<ClassLabel, Counter>::get_or_create(&responses, &ClassLabel { class }));
        }
        for reason in REASONS {
            drop(Family::<ReasonLabel, Counter>::get_or_create(&backend_failures, &ReasonLabel { reason }));
        }
        let latency = Histogram::new(LATENCY_BUCKETS_S);
        registry.register("responses", "Answers to requests, by the first digit of their status", responses.clone());
        registry.register(
            "backend_failures",
            "Instances that did not take or answer a request, by reason",
            backend_failures.clone(),
        );
        registry.register_with_unit("latency", "Time to the head of the answer", Unit::Seconds, latency.clone());
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let retries = counter("retries", "Requests sent to another instance");
        let upgrades = counter("upgrades", "Connections that changed their protocol");
        let refused_connections = counter("refused_connections", "Clients turned away because there were too many");
        let registered = counter("registrations", "Registrations heard");
        let unregistered = counter("unregistrations", "Unregistrations heard");
        let pruned = counter("pruned", "Endpoints forgotten because nobody registered them again");
        let bad_messages = counter("bad_messages", "Messages of emitters that could not be used");
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let routes = gauge("routes", "Hosts and paths that are known");
        let endpoints = gauge("endpoints", "Endpoints of all routes");
        let bus_connected = gauge("bus_connected", "1 while there is a connection to NATS");
        let prune_suspended = gauge("prune_suspended", "1 while nobody is heard and so nothing is forgotten");
        Self {
            registry,
            responses,
            backend_failures,
            latency,
            routes,
            endpoints,
            prune_suspended,
            bus_connected,
            retries,
            upgrades,
            refused_connections,
            registered,
            unregistered,
            pruned,
            bad_messages,
        }
    }

    pub(crate) fn answered(&self, status: u16, after: Duration) {
        // A backend may answer with what it wants; what is no status counts as its fault.
        let class = CLASSES.get(usize::from(status / 100).wrapping_sub(1)).unwrap_or(&CLASSES[4]);
        self.responses.get_or_create(&ClassLabel { class }).inc();
        self.latency.observe(after.as_secs_f64());
    }

    pub(crate) fn backend_failed(&self, reason: &'static str) {
        self.backend_failures.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn show(&self, table: &Table) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.routes.set(count(table.route_count()));
        self.endpoints.set(count(table.endpoint_count()));
    }

    pub fn render(&self) -> String {
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
