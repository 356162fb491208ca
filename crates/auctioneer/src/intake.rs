//! Two requests: start instances, start tasks. Both are answered with 202 as soon as what they ask for waits.
//!
//! An element that is not valid is dropped and logged, and the rest counts, as in Diego. Beyond Diego: when too much waits,
//! or too many large bodies arrive at once, the answer is 503 and nothing of the request is kept.

use std::convert::Infallible;
use std::sync::Arc;

use api::client::TRACE_HEADER;
use api::rep::{LRP_STARTS_PATH, LrpStart, TASK_STARTS_PATH, TaskStart, read_starts};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::config::Limits;
use crate::metrics::Metrics;
use crate::place::Start;
use crate::queue::Queue;

/// Room for bodies is counted in pieces of this size, because a semaphore counts no further than some billions.
const PIECE_BYTES: usize = 1024;
/// When a request that was refused may be worth repeating.
const RETRY_AFTER_S: u32 = 1;

#[derive(Debug)]
pub(crate) struct Intake {
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    limits: Limits,
    bodies: Semaphore,
}

/// Why a request was not accepted.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the body of the request broke off: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
    #[error("the body of the request did not arrive in time")]
    Slow,
    #[error("the request is larger than {limit} {unit}; send it in parts")]
    TooLarge { limit: usize, unit: &'static str },
    #[error("{waiting} starts wait already; nothing of this request was kept, send it again later")]
    Full { waiting: usize },
    #[error("too many large requests arrive at once; nothing of this one was kept, send it again later")]
    Crowded,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Json(_) => StatusCode::BAD_REQUEST,
            // Diego's status for a body that cannot be read.
            Self::Broken(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Full { .. } | Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Intake {
    pub(crate) fn new(queue: Arc<Queue>, metrics: Arc<Metrics>, limits: Limits) -> Self {
        let bodies = Semaphore::new((limits.bodies_bytes_max / PIECE_BYTES).min(Semaphore::MAX_PERMITS));
        Self { queue, metrics, limits, bodies }
    }

    pub(crate) async fn serve(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let begun = Instant::now();
        let response = self.respond(request).await;
        self.metrics.answered(begun.elapsed());
        Ok(response)
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        if path != LRP_STARTS_PATH && path != TASK_STARTS_PATH {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        }
        if request.method() != Method::POST {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return response;
        }
        let trace = request.headers().get(TRACE_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let trace: Arc<str> = trace.into();
        let accepted = if path == LRP_STARTS_PATH {
            self.lrps(request.into_body(), &trace).await
        } else {
            self.tasks(request.into_body(), &trace).await
        };
        match accepted {
            Ok(()) => json(StatusCode::ACCEPTED, "{}".to_owned()),
            Err(refusal) => self.refuse(&path, &trace, &refusal),
        }
    }

    fn refuse(&self, path: &str, trace: &str, refusal: &Refusal) -> Response<Full<Bytes>> {
        let status = refusal.status();
        tracing::warn!(path, trace, status = status.as_u16(), error = %refusal, "a request was refused");
        let mut response = json(status, serde_json::json!({ "error": refusal.to_string() }).to_string());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            self.metrics.requests_refused.inc();
            response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S.into());
        }
        response
    }

    async fn lrps(&self, body: Incoming, trace: &Arc<str>) -> Result<(), Refusal> {
        let body = self.read(body).await?;
        let mut starts: Vec<LrpStart> = read_starts(&body)?;
        drop(body);
        starts.retain(|start| {
            let valid = start.check();
            let app = &start.process_guid;
            valid.inspect_err(|why| self.drop_one(format_args!("app {app:?}"), trace, why)).is_ok()
        });
        self.limited(starts.iter().map(|start| start.indices.len()).sum())?;
        let lrps = starts.iter().flat_map(LrpStart::lrps).map(Start::Lrp);
        self.queue.add(lrps, trace).map_err(|full| Refusal::Full { waiting: full.waiting })?;
        for start in &starts {
            tracing::debug!(app = start.process_guid, indices = ?start.indices, %trace, "instances wait for an auction");
        }
        Ok(())
    }

    async fn tasks(&self, body: Incoming, trace: &Arc<str>) -> Result<(), Refusal> {
        let body = self.read(body).await?;
        let mut starts: Vec<TaskStart> = read_starts(&body)?;
        drop(body);
        starts.retain(|start| {
            let task = &start.0.task_guid;
            start.check().inspect_err(|why| self.drop_one(format_args!("task {task:?}"), trace, why)).is_ok()
        });
        self.limited(starts.len())?;
        let guids: Vec<String> = starts.iter().map(|start| start.0.task_guid.clone()).collect();
        let tasks = starts.into_iter().map(|start| Start::Task(start.0));
        self.queue.add(tasks, trace).map_err(|full| Refusal::Full { waiting: full.waiting })?;
        tracing::debug!(tasks = ?guids, %trace, "tasks wait for an auction");
        Ok(())
    }

    fn drop_one(&self, what: std::fmt::Arguments<'_>, trace: &str, why: &api::rep::StartError) {
        self.metrics.invalid_starts.inc();
        tracing::warn!(trace, "a start of {what} was dropped: {why}");
    }

    fn limited(&self, starts: usize) -> Result<(), Refusal> {
        let limit = self.limits.starts_waiting_max;
        if starts > limit { Err(Refusal::TooLarge { limit, unit: "starts" }) } else { Ok(()) }
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, Refusal> {
        let limit = self.limits.body_bytes_max;
        let too_large = || Refusal::TooLarge { limit, unit: "bytes" };
        // A body of unknown length may become as large as any.
        let length = body.size_hint().upper().map_or(Ok(limit), usize::try_from).unwrap_or(usize::MAX);
        if length > limit {
            return Err(too_large());
        }
        let pieces = u32::try_from(length.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        let _room = self.bodies.try_acquire_many(pieces).map_err(|_| Refusal::Crowded)?;
        match timeout(self.limits.body_timeout, Limited::new(body, limit).collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(error)) => Err(Refusal::Broken(error)),
            Err(_) => Err(Refusal::Slow),
        }
    }
}

fn json(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    answer(status, "application/json", body)
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    answer(status, "text/plain; charset=utf-8", body.to_owned())
}

fn answer(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
