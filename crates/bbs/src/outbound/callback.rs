//! Tells whoever asked for it that a task ended, and deletes the task once that is known to have arrived.
//!
//! Promise: at least once, for as long as the task lives. The move to `Resolving` decides who calls, so that two passes do not
//! call at the same time; a task that was told of is deleted; one that was not stays `Resolving`, and convergence gives it
//! another turn.
//!
//! What counts as told differs from Diego on purpose. Diego takes every status except 503 and 504 for success, so that a
//! receiver that fails with 500 never learns of the end. Here every 5xx, 408 and 429 is tried again; other statuses are the
//! receiver's last word. As in Go's client, 307 and 308 mean that the request belongs elsewhere, and it is sent there.
//!
//! The URL may hold a password or a token, and the result is the user's: neither is ever logged. Logs name the task and host.

use std::sync::Arc;

use api::client::TransportKind;
use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use model::{Task, TaskGuid, TaskState};
use serde::Serialize;
use url::Url;

use super::http::{Http, Request};
use super::{CallError, ConfigError, identity};
use crate::board::Board;
use crate::commands::{Command, MoveTask, TaskCall};
use crate::config;
use crate::metrics::Metrics;
use crate::writer::{WriteError, Writer};

/// How often a receiver is tried before convergence takes over. There is no pause: convergence is the pause.
const ATTEMPTS_MAX: usize = 3;
/// How many redirects one attempt follows, as Go's client does.
const REDIRECTS_MAX: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct Callbacks {
    http: Http,
    board: Arc<ArcSwap<Board>>,
    writer: Writer,
    metrics: Arc<Metrics>,
}

impl Callbacks {
    pub(super) fn new(
        config: &config::Outbound,
        board: Arc<ArcSwap<Board>>,
        writer: Writer,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ConfigError> {
        let tls = identity(config.callback_tls.as_ref(), "task callbacks")?;
        Ok(Self { http: Http::new(tls, config.communication_timeout), board, writer, metrics })
    }

    /// The whole life of one callback.
    pub(super) async fn run(self, guid: TaskGuid) {
        match self.move_task(&guid, TaskCall::Resolve).await {
            Ok(()) => {}
            // Somebody else resolves it, or it is gone.
            Err(WriteError::Refused(_)) => return,
            Err(error) => {
                tracing::warn!(task = %guid, %error, "the end of a task could not be reported yet; convergence tries again");
                return;
            }
        }
        let Some(task) = self.board.load().tasks.get(&guid).map(|entry| entry.task.clone()) else { return };
        if task.state != TaskState::Resolving || task.definition.completion_callback_url.is_empty() {
            return;
        }
        if let Err(error) = self.deliver(&task).await {
            self.metrics.callback_failures.inc();
            let host = host_of(&task.definition.completion_callback_url);
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(task = %guid, host, %error, cause, "the end of a task was not reported; convergence tries again");
            return;
        }
        match self.move_task(&guid, TaskCall::Delete).await {
            Ok(()) | Err(WriteError::Refused(_)) => {}
            Err(error) => {
                tracing::warn!(task = %guid, %error, "a task was reported but not deleted; it will be reported once more");
            }
        }
    }

    async fn move_task(&self, guid: &TaskGuid, call: TaskCall) -> Result<(), WriteError> {
        let command = Command::MoveTask(MoveTask { guid: guid.clone(), call });
        self.writer.submit(command, Arc::from("")).await.map(|_| ())
    }

    async fn deliver(&self, task: &Task) -> Result<(), CallError> {
        let url = Url::parse(&task.definition.completion_callback_url).map_err(|_| CallError::Address)?;
        let body = body(task);
        let mut attempt = 1;
        loop {
            let outcome = self.attempt(url.clone(), &body).await;
            match outcome {
                Err(error) if attempt < ATTEMPTS_MAX && worth_another(&error) => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&self, mut url: Url, body: &Bytes) -> Result<(), CallError> {
        for _ in 0..=REDIRECTS_MAX {
            let request = Request { method: Method::POST, url: &url, body: body.clone(), trace: "" };
            let answer = self.http.send(request).await?;
            let elsewhere = answer.location.as_deref().and_then(|location| url.join(location).ok());
            match (answer.status, elsewhere) {
                (StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT, Some(next)) => url = next,
                (status, _) if refuses(status) => return Err(CallError::Status { status: status.as_u16() }),
                _ => return Ok(()),
            }
        }
        Err(CallError::Status { status: StatusCode::PERMANENT_REDIRECT.as_u16() })
    }
}

/// Whether the receiver says that it did not take the report.
fn refuses(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

/// Whether the next attempt may go better right away. Nobody listening, no such name or no agreement on TLS last longer.
fn worth_another(error: &CallError) -> bool {
    match error {
        CallError::Status { status } => StatusCode::from_u16(*status).is_ok_and(refuses),
        CallError::Transport { kind, .. } => matches!(kind, TransportKind::Timeout | TransportKind::Closed),
        CallError::TlsRequired | CallError::NoCertificates | CallError::Address => false,
    }
}

fn body(task: &Task) -> Bytes {
    #[derive(Serialize)]
    struct Wire<'a> {
        task_guid: &'a str,
        failed: bool,
        failure_reason: &'a str,
        result: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        annotation: &'a str,
        created_at: i64,
    }
    let wire = Wire {
        task_guid: task.guid.as_str(),
        failed: task.failed,
        failure_reason: &task.failure_reason,
        result: &task.result,
        annotation: &task.definition.annotation,
        created_at: task.created_ns,
    };
    api::json::to_string(&wire).into()
}

/// What of a callback URL may be shown.
fn host_of(url: &str) -> String {
    let parsed = Url::parse(url).ok();
    let host = parsed.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
    host.map_or_else(|| "none".to_owned(), |(host, port)| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use model::DomainName;

    use super::*;

    fn task(annotation: &str) -> Task {
        let definition = api::models::TaskDefinition { annotation: annotation.into(), ..Default::default() };
        Task {
            result: "the <result>".into(),
            ..Task::desire(
                TaskGuid::parse("task-1").unwrap(),
                DomainName::parse("d").unwrap(),
                api::convert::task_definition(&definition),
                1_794_765_206_638_233_334,
            )
        }
    }

    #[test]
    fn the_body_is_diegos() {
        let text = |task: &Task| String::from_utf8(body(task).to_vec()).unwrap();
        assert_eq!(
            text(&task("an&lt")),
            r#"{"task_guid":"task-1","failed":false,"failure_reason":"","result":"the \u003cresult\u003e","annotation":"an\u0026lt","created_at":1794765206638233334}"#
        );
        assert!(!text(&task("")).contains("annotation"));
    }

    #[test]
    fn nothing_secret_of_a_url_is_shown() {
        assert_eq!(host_of("https://user:secret@host/secret?token=secret#secret"), "host:443");
        assert_eq!(host_of("not a url with a secret"), "none");
    }

    #[test]
    fn which_statuses_are_tried_again() {
        let mut again = Vec::new();
        for status in 100..600_u16 {
            if worth_another(&CallError::Status { status }) {
                again.push(status);
            }
        }
        let server_errors: Vec<u16> = (500..600).collect();
        assert_eq!(again, [&[408, 429], server_errors.as_slice()].concat());
    }

    #[test]
    fn which_broken_connections_are_tried_again() {
        use TransportKind::{Closed, Other, Refused, Resolve, Timeout, Tls, TooLarge};
        let again = [Refused, Resolve, Timeout, Tls, Closed, TooLarge, Other]
            .into_iter()
            .filter(|kind| worth_another(&CallError::Transport { kind: *kind, source: None }))
            .collect::<Vec<_>>();
        expect!["[Timeout, Closed]"].assert_eq(&format!("{again:?}"));
    }
}
