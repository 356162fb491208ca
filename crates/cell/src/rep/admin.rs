//! The port at which the machine of the cell asks: whether it is there, how it is, and to evacuate.

use std::sync::Arc;

use api::cell::{EVACUATE_ANSWER, EVACUATE_PATH, EVACUATION_PATH, PING_PATH};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use super::clock::Clock;
use super::door::{Answer, Room};
use super::evacuation::Evacuation;
use super::metrics::Metrics;
use super::network::{body, json, not_allowed, status};
use crate::executor::Executor;

const METRICS_PATH: &str = "/metrics";
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) struct Admin {
    pub(super) executor: Arc<dyn Executor>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) evacuation: Arc<Evacuation>,
    pub(super) metrics: Arc<Metrics>,
}

impl Room for Admin {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let allowed = match request.uri().path() {
            PING_PATH | EVACUATION_PATH | METRICS_PATH => Method::GET,
            EVACUATE_PATH => Method::POST,
            _ => return status(StatusCode::NOT_FOUND),
        };
        if allowed != request.method() {
            return not_allowed(&allowed);
        }
        match request.uri().path() {
            EVACUATE_PATH => {
                self.evacuation.begin(self.clock.as_ref(), self.executor.list().len());
                body(StatusCode::ACCEPTED, "application/json", EVACUATE_ANSWER)
            }
            EVACUATION_PATH => json(StatusCode::OK, &self.evacuation.progress(&self.executor.list())),
            METRICS_PATH => {
                let text = self.metrics.text(self.executor.as_ref(), &self.evacuation);
                body(StatusCode::OK, METRICS_TYPE, text)
            }
            _ => status(StatusCode::OK),
        }
    }
}
