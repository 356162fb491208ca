//! What the auctioneer counts, in Prometheus' text format on the health port.
//!
//! The names follow Diego's (`AuctioneerLRPAuctionsStarted` becomes `corkboard_auctioneer_lrp_auctions_started_total`), so that
//! an operator who knows those finds these.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::place::Reason;

/// Upper bounds of the buckets in seconds, from a millisecond to a minute.
const DURATION_BUCKETS_S: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) lock_held: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) requests: Counter,
    pub(crate) requests_refused: Counter,
    pub(crate) invalid_starts: Counter,
    pub(crate) auctions: Counter,
    pub(crate) lrps_started: Counter,
    pub(crate) lrps_failed: Counter,
    pub(crate) tasks_started: Counter,
    pub(crate) tasks_failed: Counter,
    failures: Family<ReasonLabel, Counter>,
    pub(crate) cells: Gauge,
    pub(crate) cells_left_out: Gauge,
    pub(crate) state_failures: Counter,
    pub(crate) refused_by_cells: Counter,
    pub(crate) unconfirmed: Counter,
    pub(crate) unreported: Counter,
    request_latency: Histogram,
    fetch_states: Histogram,
    placing: Histogram,
    auction: Histogram,
}

/// The page of an auctioneer that did nothing yet, for those who want to know what is on it.
pub fn metrics_page() -> String {
    Metrics::new().text()
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("corkboard_auctioneer");
        let to = &mut registry;
        let failures: Family<ReasonLabel, Counter> = Family::default();
        to.register("placement_failures", "Starts that found no place, by reason", failures.clone());
        for reason in Reason::CLASSES {
            drop(failures.get_or_create(&ReasonLabel { reason }));
        }
        let metrics = Self {
            lock_held: gauge(to, "lock_held", "1 while this auctioneer is the active one"),
            waiting: gauge(to, "starts_waiting", "Starts that wait for the next auction"),
            requests: counter(to, "requests", "Requests answered"),
            requests_refused: counter(to, "requests_refused", "Requests refused because too much was waiting"),
            invalid_starts: counter(to, "invalid_starts", "Elements of requests that were dropped"),
            auctions: counter(to, "auctions", "Auctions held"),
            lrps_started: counter(to, "lrp_auctions_started", "Instances given to a cell"),
            lrps_failed: counter(to, "lrp_auctions_failed", "Instances that no cell took"),
            tasks_started: counter(to, "task_auctions_started", "Tasks given to a cell"),
            tasks_failed: counter(to, "task_auctions_failed", "Tasks that no cell took"),
            failures,
            cells: gauge(to, "cells", "Cells that took part in the last auction"),
            cells_left_out: gauge(
                to,
                "cells_left_out",
                "Cells without a part in it: they gave no answer, or take no work",
            ),
            state_failures: counter(to, "cell_state_failures", "Calls for the state of a cell that failed"),
            refused_by_cells: counter(to, "refused_by_cells", "Starts that the chosen cell did not accept"),
            unconfirmed: counter(to, "unconfirmed_starts", "Starts that were sent to a cell that did not answer"),
            unreported: counter(to, "unreported_failures", "Failures that the state server was not told of"),
            request_latency: duration(to, "request_latency", "Time to answer a request"),
            fetch_states: duration(to, "fetch_states_duration", "Time to ask all cells for their state"),
            placing: duration(to, "placing_duration", "Time to decide one batch"),
            auction: duration(
                to,
                "auction_duration",
                "Time of an auction from asking the cells to the last of their answers",
            ),
            registry: Registry::default(),
        };
        Arc::new(Self { registry, ..metrics })
    }

    pub(crate) fn answered(&self, took: Duration) {
        self.requests.inc();
        self.request_latency.observe(took.as_secs_f64());
    }

    pub(crate) fn fetched_states(&self, took: Duration) {
        self.fetch_states.observe(took.as_secs_f64());
    }

    pub(crate) fn placed(&self, took: Duration) {
        self.placing.observe(took.as_secs_f64());
    }

    pub(crate) fn auctioned(&self, took: Duration) {
        self.auctions.inc();
        self.auction.observe(took.as_secs_f64());
    }

    pub(crate) fn failed(&self, reason: &Reason) {
        self.failures.get_or_create(&ReasonLabel { reason: reason.class() }).inc();
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String fails only when a metric cannot be written, and all of ours can.
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

fn duration(registry: &mut Registry, name: &str, help: &str) -> Histogram {
    let histogram = Histogram::new(DURATION_BUCKETS_S);
    registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
    histogram
}
