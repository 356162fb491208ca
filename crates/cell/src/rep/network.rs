//! The port at which the state server and the auctioneer call.

use std::sync::{Arc, PoisonError};

use api::cell::logs::LOGS_PATH;
use api::cell::{CONTAINER_METRICS_PATH, LrpUpdate, RESET_PATH};
use api::client::TRACE_HEADER;
use api::rep::{STATE_PATH, WORK_PATH, Work};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use model::{InstanceGuid, TaskGuid};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::accept::{Accepted, accept};
use super::clock::Clock;
use super::config::Config;
use super::door::{Answer, Room};
use super::evacuation::Evacuation;
use super::logs::Logs;
use super::metrics::Metrics;
use super::offer::{self, Moment};
use super::reconcile::Traces;
use crate::executor::{ContainerGuid, Executor, ExecutorError, Update};

/// A header longer than this is not a trace that anybody wants back.
const TRACE_BYTES_MAX: usize = 128;

/// Everything that a request can reach.
pub(super) struct Network {
    pub(super) config: Arc<Config>,
    pub(super) rep_url: String,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) evacuation: Arc<Evacuation>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) traces: Arc<Traces>,
    /// Full means that everything is looked at anyway.
    pub(super) nudges: mpsc::Sender<ContainerGuid>,
    pub(super) logs: Logs,
}

/// What a path means, once it is known to exist.
enum Wish<'a> {
    State,
    Work,
    Update { instance: &'a str },
    Stop { instance: &'a str },
    Cancel { task: &'a str },
    Usage,
    Logs,
    Reset,
}

impl Wish<'_> {
    fn method(&self) -> Method {
        match self {
            Self::State | Self::Usage | Self::Logs => Method::GET,
            Self::Update { .. } => Method::PUT,
            Self::Work | Self::Stop { .. } | Self::Cancel { .. } | Self::Reset => Method::POST,
        }
    }
}

fn wish(path: &str) -> Option<Wish<'_>> {
    match path {
        STATE_PATH => return Some(Wish::State),
        WORK_PATH => return Some(Wish::Work),
        CONTAINER_METRICS_PATH => return Some(Wish::Usage),
        LOGS_PATH => return Some(Wish::Logs),
        RESET_PATH => return Some(Wish::Reset),
        _ => {}
    }
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    match parts.as_slice() {
        ["v1" | "v2", "lrps", _, "instances", instance] => Some(Wish::Update { instance }),
        ["v1", "lrps", _, "instances", instance, "stop"] => Some(Wish::Stop { instance }),
        ["v1", "tasks", task, "cancel"] => Some(Wish::Cancel { task }),
        _ => None,
    }
}

impl Room for Network {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let Some(wish) = wish(&path) else { return status(StatusCode::NOT_FOUND) };
        if wish.method() != head.method {
            return not_allowed(&wish.method());
        }
        let body = match self.read(body).await {
            Ok(body) => body,
            Err(refusal) => return status(refusal),
        };
        let trace = head.headers.get(TRACE_HEADER).and_then(|trace| trace.to_str().ok());
        let trace = trace.filter(|trace| !trace.is_empty() && trace.len() <= TRACE_BYTES_MAX);
        match wish {
            Wish::State => self.state(),
            Wish::Work => self.work(&body, trace),
            Wish::Update { instance } => self.update(instance, &body).await,
            Wish::Stop { instance } => self.stop(instance).await,
            Wish::Cancel { task } => self.cancel(task),
            Wish::Usage => {
                let usage = self.executor.usage().await;
                json(StatusCode::OK, &offer::usage(&self.config, &self.executor.list(), &usage))
            }
            Wish::Logs => self.logs.answer(head.uri.query().unwrap_or_default()),
            Wish::Reset => status(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

impl Network {
    async fn read(&self, body: Incoming) -> Result<Bytes, StatusCode> {
        let limits = self.config.limits;
        let read = timeout(limits.body_timeout, Limited::new(body, limits.body_bytes_max).collect()).await;
        match read {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
            Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
            Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
        }
    }

    fn state(&self) -> Answer {
        // Room first: a container that comes in between is then counted twice rather than not at all.
        let moment = Moment {
            rep_url: &self.rep_url,
            total: self.executor.total(),
            remaining: self.executor.remaining(),
            stacks: self.executor.stacks(),
            containers: &self.executor.list(),
            evacuating: self.evacuation.is_on(),
        };
        let health = self.executor.health();
        if let Err(why) = &health {
            tracing::debug!(why, "this cell cannot make containers at the moment, and says so to the auctioneer");
        }
        let code = if health.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        json(code, &offer::state(&self.config, moment))
    }

    fn work(&self, body: &Bytes, trace: Option<&str>) -> Answer {
        let Ok(work) = serde_json::from_slice::<Work>(body) else { return status(StatusCode::BAD_REQUEST) };
        if !work.cell_id.is_empty() && work.cell_id != self.config.cell_id.as_str() {
            tracing::warn!(meant_for = work.cell_id, "work for another cell was refused");
            return status(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let asked = work.lrps.len() + work.tasks.len();
        let Accepted { refused, containers } = match self.evacuation.is_on() {
            true => Accepted { refused: Work { cell_id: String::new(), ..work }, containers: Vec::new() },
            false => accept(&self.config, self.executor.as_ref(), self.clock.as_ref(), work),
        };
        tracing::debug!(asked, accepted = containers.len(), "work");
        self.metrics.work_accepted.inc_by(containers.len() as u64);
        self.metrics.work_refused.inc_by((asked - containers.len()) as u64);
        if let Some(trace) = trace {
            let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
            traces.extend(containers.iter().map(|guid| (guid.clone(), trace.to_owned())));
        }
        // They are looked at without a nudge, because to be reserved is an event; a second wish would be a second claim.
        json(StatusCode::OK, &refused)
    }

    async fn update(&self, instance: &str, body: &Bytes) -> Answer {
        let Ok(instance) = InstanceGuid::parse(instance) else { return status(StatusCode::BAD_REQUEST) };
        let Ok(update) = serde_json::from_slice::<LrpUpdate>(body) else { return status(StatusCode::BAD_REQUEST) };
        let routes = update.internal_routes;
        let update = Update {
            internal_routes: routes.map(|routes| routes.into_iter().map(|route| route.hostname).collect()),
            metric_tags: update.metric_tags,
            definition: None,
        };
        let guid = ContainerGuid::of_instance(&instance);
        let outcome = self.executor.update(&guid, update).await;
        self.begun(guid, outcome)
    }

    async fn stop(&self, instance: &str) -> Answer {
        let Ok(instance) = InstanceGuid::parse(instance) else { return status(StatusCode::BAD_REQUEST) };
        let guid = ContainerGuid::of_instance(&instance);
        let outcome = self.executor.stop(&guid).await;
        self.begun(guid, outcome)
    }

    fn begun(&self, guid: ContainerGuid, outcome: Result<(), ExecutorError>) -> Answer {
        match outcome {
            Ok(()) => {
                self.nudge(guid);
                status(StatusCode::ACCEPTED)
            }
            Err(error) => {
                tracing::info!(container = %guid, %error, "a request for a container was not carried out");
                status(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// The state server does not wait for it, and does not want to know.
    fn cancel(&self, task: &str) -> Answer {
        if let Ok(task) = TaskGuid::parse(task) {
            let executor = self.executor.clone();
            tokio::spawn(async move {
                let guid = ContainerGuid::of_task(&task);
                match executor.delete(&guid).await {
                    Ok(()) | Err(ExecutorError::Unknown { .. }) => {}
                    Err(error) => tracing::warn!(container = %guid, %error, "a cancelled task could not be deleted"),
                }
            });
        }
        status(StatusCode::ACCEPTED)
    }

    fn nudge(&self, guid: ContainerGuid) {
        // What does not fit is looked at with everything else, a little later.
        let _ = self.nudges.try_send(guid);
    }
}

pub(super) fn status(code: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default().boxed_unsync());
    *answer.status_mut() = code;
    answer
}

pub(super) fn not_allowed(allowed: &Method) -> Answer {
    let mut answer = status(StatusCode::METHOD_NOT_ALLOWED);
    if let Ok(value) = HeaderValue::from_str(allowed.as_str()) {
        answer.headers_mut().insert(hyper::header::ALLOW, value);
    }
    answer
}

pub(super) fn json(code: StatusCode, value: &impl serde::Serialize) -> Answer {
    body(code, "application/json", api::json::to_string(value))
}

pub(super) fn body(code: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
