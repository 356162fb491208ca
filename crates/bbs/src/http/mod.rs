//! The API over HTTP: many routes, one answer shape.
//!
//! A request goes: head and route, body (bounded in size and time), decode, validate, command or snapshot, answer. Errors of
//! the protocol travel inside a 200, as Diego's clients expect; a plain 503 says that it is worth trying again and why. A panic
//! in one request is caught, counted and answered; it cannot take the server down or leave half a write, because nothing is
//! visible before the store has it.

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use api::Route;
use api::models::Error;
use api::models::error::Type;
use api::routes::Method;
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use store::Standing;
use tokio::time::Instant;

use crate::board::Board;
use crate::cells::Registry;
use crate::clock::Clock;
use crate::config::Limits;
use crate::events::Hub;
use crate::metrics::Metrics;
use crate::outbound;
use crate::phase::Phase;
use crate::status::StatusSource;
use crate::writer::{UNCERTAIN, WriteError, Writer};

mod actual_lrps;
mod admission;
mod body;
mod cells;
mod desired_lrps;
mod domains;
mod errors;
mod evacuation;
mod events;
mod groups;
pub mod health;
mod intake;
pub mod listener;
mod lists;
mod operator;
mod rollouts;
mod stall;
mod tasks;

pub use body::Body;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-vcap-request-id");
static SERVER: HeaderName = HeaderName::from_static("x-corkboard-server");
static PHASE: HeaderName = HeaderName::from_static("x-corkboard-phase");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// Everything a handler may use once the board is loaded.
#[derive(Debug)]
pub struct App {
    pub board: Arc<ArcSwap<Board>>,
    pub writer: Writer,
    pub hub: Arc<Hub>,
    pub registry: Arc<Registry>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub cells: outbound::Cells,
    pub standing: Standing,
}

impl App {
    /// Whether nobody else can be master, so that what is in memory here is what is true.
    fn certain(&self) -> Result<(), Failure> {
        if self.standing.is_certain() {
            return Ok(());
        }
        Err(Failure::Unavailable { code: "uncertain", message: UNCERTAIN.to_owned() })
    }

    /// An answer that was read from memory. The proof comes after the reading: whatever happens until the answer leaves, it
    /// was true at that moment, while the client waited.
    fn proven(&self, answer: Answer) -> Result<Answer, Failure> {
        self.certain().map(|()| answer)
    }
}

/// The part of the server that exists before the board is loaded and after it is closed.
#[derive(Debug)]
pub struct Front {
    pub phase: Arc<Phase>,
    pub metrics: Arc<Metrics>,
    pub limits: Limits,
    pub status: Arc<StatusSource>,
}

/// What a handler answers with.
pub(crate) enum Answer {
    /// A message, or a list that is streamed from the snapshot.
    Body(Body),
    Stream(Body),
    /// The event stream could not be opened.
    NoStream,
}

/// Why there is no answer of the protocol.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Worth trying again: nothing was changed.
    Unavailable { code: &'static str, message: String },
}

/// A request, read and ready to be handled.
pub(crate) struct Call {
    pub route: Route,
    pub body: Bytes,
    pub trace: Arc<str>,
    pub last_event_id: Option<String>,
}

impl Front {
    /// Answers one request. Never fails: whatever goes wrong becomes an answer.
    pub async fn serve(&self, request: Request<Incoming>, from: IpAddr) -> Result<Response<Body>, Infallible> {
        let mut response = self.respond(request, from).await;
        response.headers_mut().insert(SERVER.clone(), self.status.census.server_header());
        Ok(response)
    }

    async fn respond(&self, request: Request<Incoming>, from: IpAddr) -> Response<Body> {
        let started = Instant::now();
        if head_bytes(&request) > self.limits.header_bytes_max {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            return text(status, "the head of the request is larger than this server accepts\n");
        }
        if request.uri().path().starts_with(operator::PREFIX) {
            return match self.admit(&request, from, None) {
                Ok(()) => self.guarded("operator", self.operate(request)).await,
                Err(turned) => admission::refuse_operator(&turned),
            };
        }
        let path = request.uri().path();
        let Some(route) = Method::of(request.method()).and_then(|method| Route::find(method, path)) else {
            return no_route(path);
        };
        if let Err(turned) = self.admit(&request, from, Some(route)) {
            return admission::refuse(route, &turned);
        }
        let id = request.headers().get(&REQUEST_ID).cloned();
        let mut response = self.guarded(route.name(), self.answer(route, request)).await;
        if let Some(id) = id {
            response.headers_mut().insert(REQUEST_ID.clone(), id);
        }
        if !route.stream() {
            self.metrics.answered(route, started.elapsed());
        }
        response
    }

    /// A defect in one request is answered and counted.
    async fn guarded(&self, route: &'static str, answer: impl Future<Output = Response<Body>>) -> Response<Body> {
        match AssertUnwindSafe(answer).catch_unwind().await {
            Ok(response) => response,
            Err(_) => {
                self.metrics.panics.inc();
                tracing::error!(route, "a request panicked; the server goes on");
                text(StatusCode::INTERNAL_SERVER_ERROR, "the server met a defect while answering; it was logged\n")
            }
        }
    }

    async fn answer(&self, route: Route, request: Request<Incoming>) -> Response<Body> {
        let Some(app) = self.phase.app() else { return self.elsewhere(&request).unwrap_or_else(|| self.unavailable()) };
        let trace = trace_of(&request);
        let last_event_id =
            request.headers().get("last-event-id").and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
        let body = match intake::read_body(request.into_body(), &self.limits).await {
            Ok(body) => body,
            Err(response) => return *response,
        };
        let call = Call { route, body, trace, last_event_id };
        // What waits for a store that does not answer would wait for long; a client is better off with another node.
        let handled = match app.certain() {
            Ok(()) => handle(&app, call).await,
            Err(failure) => Err(failure),
        };
        match handled {
            Ok(Answer::Body(body)) => {
                let mut response = Response::new(body);
                response.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
                response
            }
            Ok(Answer::Stream(body)) => events::response(body),
            Ok(Answer::NoStream) => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
            Err(Failure::Unavailable { code, message }) => {
                let progress = self.phase.progress();
                retry_later(self.phase.name(), code, &message, Some(progress))
            }
        }
    }

    /// The answer of a node that waits and knows the master.
    fn elsewhere<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let master = self.phase.master_url()?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let mut response = text(StatusCode::TEMPORARY_REDIRECT, "this node waits; the master answers\n");
        response.headers_mut().insert(LOCATION, HeaderValue::try_from(format!("{master}{path}")).ok()?);
        response.headers_mut().insert(PHASE.clone(), HeaderValue::from_static(self.phase.name()));
        Some(response)
    }

    /// The answer while there is no board. Never protobuf: Diego's client would take it as final instead of trying again.
    fn unavailable(&self) -> Response<Body> {
        let progress = self.phase.progress();
        retry_later(self.phase.name(), "not-ready", self.phase.explain(), Some(progress))
    }
}

async fn handle(app: &App, call: Call) -> Result<Answer, Failure> {
    use Route as R;
    match call.route {
        R::Ping => Ok(message(api::models::PingResponse { available: true })),
        R::Domains | R::UpsertDomain => domains::handle(app, call).await,
        R::Cells | R::CellsByGet => app.proven(cells::handle(app)),
        R::ActualLrps | R::ActualLrpsByProcessGuids => app.proven(actual_lrps::read(app, &call)),
        R::ActualLrpGroups | R::ActualLrpGroupsByProcessGuid | R::ActualLrpGroupByProcessGuidAndIndex => {
            app.proven(groups::read(app, &call))
        }
        R::ClaimActualLrp
        | R::StartActualLrp
        | R::StartActualLrpR0
        | R::CrashActualLrp
        | R::FailActualLrp
        | R::RemoveActualLrp
        | R::RetireActualLrp => actual_lrps::change(app, call).await,
        R::RemoveEvacuatingActualLrp
        | R::EvacuateClaimedActualLrp
        | R::EvacuateCrashedActualLrp
        | R::EvacuateStoppedActualLrp
        | R::EvacuateRunningActualLrp
        | R::EvacuateRunningActualLrpR0 => evacuation::handle(app, call).await,
        R::DesiredLrpSchedulingInfos
        | R::DesiredLrpSchedulingInfoByProcessGuid
        | R::DesiredLrpRoutingInfos
        | R::DesiredLrps
        | R::DesiredLrpsR2
        | R::DesiredLrpsR1
        | R::DesiredLrpsR0
        | R::DesiredLrps09
        | R::MutableDesiredLrps
        | R::ImmutableDesiredLrps
        | R::DesiredLrpByProcessGuid
        | R::DesiredLrpByProcessGuidR2
        | R::DesiredLrpByProcessGuidR1
        | R::DesiredLrpByProcessGuidR0 => app.proven(desired_lrps::read(app, &call)),
        R::DesiredLrpDefinitions => app.proven(rollouts::definitions(app, &call)),
        R::CancelUpdate | R::PauseUpdate | R::ResumeUpdate | R::RollbackDesiredLrp => rollouts::steer(app, call).await,
        R::DesireDesiredLrp
        | R::DesireDesiredLrpR1
        | R::DesireDesiredLrpR0
        | R::CreateDesiredLrp
        | R::CreateDesiredLrp09
        | R::UpdateDesiredLrp
        | R::RemoveDesiredLrp => desired_lrps::change(app, call).await,
        R::Tasks
        | R::TasksR2
        | R::TasksR1
        | R::TasksR0
        | R::TaskByGuid
        | R::TaskByGuidR2
        | R::TaskByGuidR1
        | R::TaskByGuidR0 => app.proven(tasks::read(app, &call)),
        R::DesireTask
        | R::DesireTaskR1
        | R::DesireTaskR0
        | R::StartTask
        | R::CancelTask
        | R::FailTask
        | R::RejectTask
        | R::CompleteTask
        | R::ResolvingTask
        | R::DeleteTask => tasks::change(app, call).await,
        R::EventStream
        | R::EventStreamR0
        | R::LrpInstanceEventStream
        | R::LrpInstanceEventStreamR0
        | R::TaskEventStream
        | R::TaskEventStreamR0 => Ok(events::subscribe(app, &call)),
    }
}

fn no_route(path: &str) -> Response<Body> {
    let Some(allowed) = Route::allow(path) else { return text(StatusCode::NOT_FOUND, "404 page not found\n") };
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// hyper bounds a head only by its read buffer, which is larger because bodies pass through it too.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    request.uri().path().len() + headers.sum::<usize>()
}

/// The trace id of the caller, as it gave it. Absent and empty are the same.
fn trace_of<B>(request: &Request<B>) -> Arc<str> {
    request.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default().into()
}

pub(crate) fn message<M: api::Wire>(message: M) -> Answer {
    Answer::Body(Body::full(api::encode(message)))
}

pub(crate) fn failed<M: api::Response>(error: Error) -> Answer {
    message(M::failed(error))
}

/// What a write that did not succeed means to the caller.
pub(crate) fn write_failure(error: &WriteError) -> Result<Error, Failure> {
    match error {
        WriteError::Refused(refusal) => Ok(errors::of_refusal(refusal)),
        WriteError::NeedsVersion { .. } => Ok(Error::new(Type::ResourceConflict, error.to_string())),
        WriteError::ReadOnly => Err(Failure::Unavailable { code: "read-only", message: error.to_string() }),
        WriteError::Uncertain => Err(Failure::Unavailable { code: "uncertain", message: error.to_string() }),
        WriteError::Unanswered => Ok(api::errors::unrecoverable(&error.to_string())),
        WriteError::Panicked => Ok(api::errors::unknown(error.to_string())),
        WriteError::Stopping => Err(Failure::Unavailable { code: "stopping", message: error.to_string() }),
        WriteError::Store(cause) => match &**cause {
            store::StoreError::NotMaster => {
                Err(Failure::Unavailable { code: "not-master", message: cause.to_string() })
            }
            store::StoreError::TooLarge { .. } => Ok(api::errors::invalid_request(cause.to_string())),
            cause if cause.outcome_unknown() || !cause.retryable() => {
                Ok(api::errors::unrecoverable(&cause.to_string()))
            }
            cause => Err(Failure::Unavailable { code: "store", message: cause.to_string() }),
        },
    }
}

fn text(status: StatusCode, body: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Seconds after which a client should try again.
const RETRY_AFTER_S: Duration = Duration::from_secs(1);

fn retry_later(
    phase: &'static str,
    code: &str,
    message: &str,
    progress: Option<crate::phase::Progress>,
) -> Response<Body> {
    let progress = progress.unwrap_or_default();
    let json = serde_json::json!({
        "code": code,
        "phase": phase,
        "message": message,
        "done": progress.done,
        "total": progress.total,
        "eta_s": progress.eta_s,
    });
    let mut response = Response::new(Body::full(json.to_string().into()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S.as_secs()));
    headers.insert(PHASE.clone(), HeaderValue::from_static(phase));
    response
}
