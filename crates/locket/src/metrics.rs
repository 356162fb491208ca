//! What a Locket counts, and the port where that is seen, in Prometheus' text format.
//!
//! [`Metered`] stands before a keeper and changes nothing of what it answers. How many locks and presences there are is asked
//! of the keeper when somebody looks.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::book::{Asked, Kind, Refusal, Resource};
use crate::desk::Desk;
use crate::keeper::{Keeper, Later};

/// Upper bounds of the buckets in seconds, from a millisecond to what clients wait for.
const DURATION_BUCKETS_S: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0];
/// Scrapers and probes are few; more than this many connections at once are closed.
const CONNECTIONS_MAX: usize = 64;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// When you add one: both are on the page from the start, and their names are promised.
const CALLS: [&str; 4] = ["lock", "release", "fetch", "fetch_all"];
const OUTCOMES: [&str; 6] = ["done", "held_by_another", "not_found", "invalid", "full", "unavailable"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabel {
    call: &'static str,
    outcome: &'static str,
}

/// A keeper whose calls are counted.
pub struct Metered {
    keeper: Arc<dyn Keeper>,
    registry: Registry,
    calls: Family<CallLabel, Counter>,
    duration: Histogram,
    locks: Gauge,
    presences: Gauge,
    store_away: Gauge,
}

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metered").field(&self.keeper).finish()
    }
}

/// The page of a Locket that did nothing yet, for those who want to know what is on it.
pub fn metrics_page() -> String {
    Metered::new(Arc::new(Desk::default())).encode()
}

impl Metered {
    pub fn new(keeper: Arc<dyn Keeper>) -> Self {
        let mut registry = Registry::with_prefix("corkboard_locket");
        let calls: Family<CallLabel, Counter> = Family::default();
        for (call, outcome) in CALLS.iter().flat_map(|call| OUTCOMES.map(|outcome| (*call, outcome))) {
            drop(calls.get_or_create(&CallLabel { call, outcome }));
        }
        registry.register("requests", "Calls answered, by what they came to", calls.clone());
        let duration = Histogram::new(DURATION_BUCKETS_S);
        registry.register_with_unit("request_duration", "Time to answer a call", Unit::Seconds, duration.clone());
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let locks = gauge("locks", "Locks that somebody holds");
        let presences = gauge("presences", "Presences that somebody keeps, such as those of cells");
        let store_away = gauge("store_away", "1 while the store does not tell who holds what");
        Self { keeper, registry, calls, duration, locks, presences, store_away }
    }

    /// The text, with what is held now.
    pub async fn text(&self) -> String {
        let mut is_away = false;
        for (kind, gauge) in [(Kind::Lock, &self.locks), (Kind::Presence, &self.presences)] {
            match self.keeper.fetch_all(kind.code().into()).await {
                Ok(all) => drop(gauge.set(i64::try_from(all.len()).unwrap_or(i64::MAX))),
                Err(_) => is_away = true,
            }
        }
        self.store_away.set(is_away.into());
        self.encode()
    }

    fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    fn counted<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        answer: Later<'a, Result<T, Refusal>>,
    ) -> Later<'a, Result<T, Refusal>> {
        Box::pin(async move {
            let begun = Instant::now();
            let answer = answer.await;
            self.duration.observe(begun.elapsed().as_secs_f64());
            let outcome = answer.as_ref().map_or_else(outcome, |_| "done");
            self.calls.get_or_create(&CallLabel { call, outcome }).inc();
            answer
        })
    }
}

fn outcome(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Collision => "held_by_another",
        Refusal::NotFound => "not_found",
        Refusal::NoResource | Refusal::Type | Refusal::Ttl | Refusal::Owner | Refusal::TooLong { .. } => "invalid",
        Refusal::Full => "full",
        Refusal::Unavailable(_) => "unavailable",
    }
}

impl Keeper for Metered {
    fn lock(&self, asked: Option<Asked>, ttl_s: i64) -> Later<'_, Result<(), Refusal>> {
        self.counted("lock", self.keeper.lock(asked, ttl_s))
    }

    fn release(&self, asked: Option<Asked>) -> Later<'_, Result<(), Refusal>> {
        self.counted("release", self.keeper.release(asked))
    }

    fn fetch(&self, key: String) -> Later<'_, Result<Resource, Refusal>> {
        self.counted("fetch", self.keeper.fetch(key))
    }

    fn fetch_all(&self, type_code: i32) -> Later<'_, Result<Vec<Resource>, Refusal>> {
        self.counted("fetch_all", self.keeper.fetch_all(type_code))
    }

    fn look_after(&self) -> Later<'_, ()> {
        self.keeper.look_after()
    }
}

/// Serves `/metrics` until it is dropped; every other path answers 200, as health checks expect. Plain HTTP, meant for the
/// platform's own network.
pub async fn health(listener: TcpListener, metered: Arc<Metered>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if connections.len() >= CONNECTIONS_MAX {
            continue;
        }
        let metered = metered.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(&metered, request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a health connection ended badly");
            }
        });
    }
}

async fn answer(metered: &Metered, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (kind, text) = match request.uri().path() {
        "/metrics" => ("application/openmetrics-text; version=1.0.0; charset=utf-8", metered.text().await),
        _ => ("text/plain; charset=utf-8", "ok\n".to_owned()),
    };
    let mut response = Response::new(Full::new(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_are_counted_by_what_they_came_to() {
        let metered = Metered::new(Arc::new(Desk::default()));
        let asked = |owner: &str| {
            Some(Asked {
                key: "k".into(),
                owner: owner.into(),
                value: String::new(),
                r#type: "lock".into(),
                type_code: Kind::Lock.code().into(),
            })
        };
        metered.lock(asked("a"), 10).await.unwrap();
        metered.lock(asked("b"), 10).await.unwrap_err();
        metered.fetch("other".into()).await.unwrap_err();
        let text = metered.text().await;
        for line in [
            "corkboard_locket_requests_total{call=\"lock\",outcome=\"done\"} 1",
            "corkboard_locket_requests_total{call=\"lock\",outcome=\"held_by_another\"} 1",
            "corkboard_locket_requests_total{call=\"fetch\",outcome=\"not_found\"} 1",
            "corkboard_locket_request_duration_seconds_count 3",
            "corkboard_locket_locks 1",
            "corkboard_locket_presences 0",
            "corkboard_locket_store_away 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
        }
    }
}
