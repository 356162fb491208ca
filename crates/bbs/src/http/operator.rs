//! The operator's part of the API: JSON below `/corkboard/v1/`, in every phase of a master.
//!
//! It lies on the API port, so whoever uses it has shown a certificate. Answers are documents, refusals are
//! `{code, message, next}` with a status of their own, and nothing here is protobuf.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use model::{NANOS_PER_SECOND, Nanos};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::record::DataVersion;

use super::{Body, Front, intake};
use crate::backup;
use crate::census::{ClientList, WATCHED_MIN_S};
use crate::keys::KeyAsk;
use crate::migrate::ask::{Ask, NAMED_MAX, Refused};
use crate::operations::{OperationError, Operations};
use crate::status::StatusSource;

pub(super) const PREFIX: &str = "/corkboard/v1/";
/// How much of the history is shown if nobody says how much.
const HISTORY_LAST: usize = 50;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Finalize {
    version: u64,
    /// Only if no client was seen that would be left behind.
    #[serde(default)]
    require_clients: bool,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Rollback {
    to: u64,
    #[serde(default)]
    accept_loss: bool,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Retry {
    id: Option<String>,
    #[serde(default)]
    all: bool,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Discard {
    id: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotate {
    #[serde(default)]
    keep_missing: bool,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirm {
    cluster_id: String,
}

enum Reply {
    Json(String),
    Raw(Bytes),
}

impl Front {
    pub(super) async fn operate(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let path = head.uri.path()[PREFIX.len()..].to_owned();
        if head.method == Method::GET && path == "status" {
            return json(StatusCode::OK, self.status.status_json());
        }
        if head.method == Method::GET && path == "clients" {
            return json(StatusCode::OK, self.status.clients_json());
        }
        if head.method == Method::GET && path == "nodes" {
            return match self.status.nodes_json().await {
                Ok(nodes) => json(StatusCode::OK, nodes),
                Err(error) => refusal(Refused::new("not-master", error, None).into()),
            };
        }
        if let (&Method::GET, "keys", Some(status)) = (&head.method, &*path, self.phase.keys_status()) {
            return json(StatusCode::OK, serde_json::to_string(&status).unwrap_or_default());
        }
        let Some(operations) = self.phase.operations().cloned() else { return self.unavailable() };
        if head.method == Method::GET && path == "backup" {
            return match operations.backup(self.status.clock.now_ns()).await {
                Ok(taking) => raw(Body::events(Box::pin(backup::bytes(taking)))),
                Err(error) => refusal(error),
            };
        }
        let body = match intake::read_body(body, &self.limits).await {
            Ok(body) => body,
            Err(response) => return *response,
        };
        let query = head.uri.query().unwrap_or_default();
        let answered = match head.method {
            Method::GET => look(&operations, &path, query).await,
            Method::POST => act(&operations, &self.status, &path, &body).await,
            _ => Err(Refused::new("bad-request", "only GET and POST are understood here", None).into()),
        };
        match answered {
            Ok(Reply::Json(text)) => json(StatusCode::OK, text),
            Ok(Reply::Raw(bytes)) => raw(Body::full(bytes)),
            Err(error) => refusal(error),
        }
    }
}

async fn look(operations: &Operations, path: &str, query: &str) -> Result<Reply, OperationError> {
    match path {
        "migration" => document(&operations.tracker.status()),
        "migration/plan" => {
            let to = parameter(query, "to").map(|text| number("to", &text)).transpose()?.map(DataVersion);
            document(&operations.plan(to).await?)
        }
        "history" => {
            let last = parameter(query, "last").map(|text| number("last", &text)).transpose()?;
            let last = last.and_then(|last| usize::try_from(last).ok()).unwrap_or(HISTORY_LAST);
            document(&serde_json::json!({ "entries": operations.history(last).await? }))
        }
        "quarantine" => document(&serde_json::json!({ "records": operations.quarantine() })),
        "quarantine/record" => {
            let id = parameter(query, "id").ok_or_else(|| bad_request("the id of a record is missing"))?;
            operations.export(&id).map(Reply::Raw)
        }
        _ => Err(no_such_path(path)),
    }
}

async fn act(operations: &Operations, status: &StatusSource, path: &str, body: &[u8]) -> Result<Reply, OperationError> {
    if let Some(what) = path.strip_prefix("keys/") {
        let ask = match what {
            "rotate" => KeyAsk::Rotate { keep_missing: read::<Rotate>(body)?.keep_missing },
            "verify" => read::<Nothing>(body).map(|_| KeyAsk::Verify)?,
            _ => return Err(no_such_path(path)),
        };
        let did = operations.ask_about_keys(ask).await?;
        return document(&serde_json::json!({ "message": did.message, "keys": operations.keys_status() }));
    }
    let ask = match path {
        "migration/start" => read::<Nothing>(body).map(|_| Ask::Start)?,
        "migration/pause" => read::<Nothing>(body).map(|_| Ask::Pause)?,
        "migration/resume" => read::<Nothing>(body).map(|_| Ask::Resume)?,
        "migration/abort" => read::<Nothing>(body).map(|_| Ask::Abort)?,
        "migration/finalize" => {
            let Finalize { version, require_clients } = read(body)?;
            if require_clients {
                nobody_left_behind(&status.census.report(), status.clock.now_ns())?;
            }
            Ask::Finalize { version: DataVersion(version) }
        }
        "migration/rollback" => {
            let Rollback { to, accept_loss } = read(body)?;
            Ask::Rollback { to: DataVersion(to), accept_loss }
        }
        "quarantine/retry" => match read(body)? {
            Retry { id: Some(id), all: false } => Ask::Retry { id: Some(id) },
            Retry { id: None, all: true } => Ask::Retry { id: None },
            Retry { .. } => return Err(bad_request("either `id` or `all` is needed")),
        },
        "quarantine/discard" => Ask::Discard { id: read::<Discard>(body)?.id },
        "store/confirm" => Ask::ConfirmStore { cluster_id: read::<Confirm>(body)?.cluster_id },
        _ => return Err(no_such_path(path)),
    };
    let about_migration = path.starts_with("migration/");
    let did = operations.desk.ask(ask).await?;
    if about_migration {
        return document(&serde_json::json!({ "message": did.message, "migration": operations.tracker.status() }));
    }
    document(&did)
}

/// Finalizing closes the way back to the former release, and with it to whoever needs it.
fn nobody_left_behind(list: &ClientList, now_ns: Nanos) -> Result<(), OperationError> {
    let left: Vec<String> =
        list.left_behind().map(|(client, why)| format!("{}: {why}", client.shown())).take(NAMED_MAX).collect();
    if !left.is_empty() {
        let message = format!("clients were seen that would be left behind: {}. Nothing was changed", left.join("; "));
        return Err(Refused::new("clients-left-behind", message, Some("corkboard clients")).into());
    }
    let watched_s = now_ns.saturating_sub(list.since_ns) / NANOS_PER_SECOND;
    if watched_s < WATCHED_MIN_S {
        let message = format!(
            "this server has been master for {watched_s} s, which is too short to have seen every client: all of them are known \
             after {WATCHED_MIN_S} s. Nothing was changed. Ask again in {} s",
            WATCHED_MIN_S - watched_s.max(0)
        );
        return Err(Refused::new("clients-unknown", message, Some("corkboard clients")).into());
    }
    Ok(())
}

fn document(value: &impl Serialize) -> Result<Reply, OperationError> {
    serde_json::to_string(value)
        .map(Reply::Json)
        .map_err(|error| Refused::new("conflict", error.to_string(), None).into())
}

/// An empty body is an empty object.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, OperationError> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| bad_request(&format!("the body is not what it should be: {error}")))
}

fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = value.replace('+', " ");
        (key == name).then(|| percent_encoding::percent_decode_str(&value).decode_utf8_lossy()).map(Cow::into_owned)
    })
}

fn number(name: &str, text: &str) -> Result<u64, OperationError> {
    text.parse().map_err(|_| bad_request(&format!("`{name}` is {text:?}; expected a whole number")))
}

fn bad_request(message: &str) -> OperationError {
    Refused::new("bad-request", message, None).into()
}

fn no_such_path(path: &str) -> OperationError {
    Refused::new("no-such-path", format!("there is nothing at {PREFIX}{path}"), None).into()
}

pub(super) fn refusal(error: OperationError) -> Response<Body> {
    let refused = match error {
        OperationError::Refused(refused) => refused,
        OperationError::Store(error) => Refused::new("not-master", error.to_string(), None),
        OperationError::Root(error) => Refused::new("not-master", error.to_string(), None),
    };
    let status = match refused.code {
        "bad-request" | "unknown-version" | "client-version" => StatusCode::BAD_REQUEST,
        "no-such-record" | "no-such-path" => StatusCode::NOT_FOUND,
        "not-master" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    };
    json(status, serde_json::to_string(&refused).unwrap_or_default())
}

fn raw(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

fn json(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::full(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
