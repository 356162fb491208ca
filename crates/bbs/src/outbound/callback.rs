//! Tells whoever asked for it that a task ended, until that is known to have arrived.
//!
//! Promise: at least once, for as long as the task lives, and it lives until its report was taken or `callback_give_up` has
//! passed. A task is `Resolving` from the moment its receiver is first called. What counts as taken depends on the body:
//!
//! - `guid` says which task ended. The receiver fetches the task and then deletes it; deleting is the acknowledgement. One that
//!   answered and has not deleted is told again, after pauses that grow.
//! - `full` says how it ended, as Diego does. Whoever answered has taken it, and the task is deleted here.
//!
//! What counts as an answer differs from Diego on purpose. Diego takes every status except 503 and 504 for success, so that a
//! receiver that fails with 500 never learns of the end. Here every 5xx, 408 and 429 is tried again; other statuses are the
//! receiver's last word. As in Go's client, 307 and 308 mean that the request belongs elsewhere, and it is sent there.
//!
//! Who waits, for how long and in whose turn is kept in the [book](book); a worker only ever makes a call. The book is in
//! memory and may be lost: convergence asks again and again for every task that ended and is still there, and the book ignores
//! what it has. A task that somebody else made `Resolving` is left to them until convergence asks for it.
//!
//! The URL may hold a password or a token, and the result is the user's: neither is ever logged. Logs name the task and host.

mod book;
mod pause;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::client::TransportKind;
use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use model::{Nanos, Task, TaskGuid, TaskState};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use url::Url;

use self::book::{Admission, Book, Limits, Line, Report};
use super::http::{Http, Request};
use super::{CallError, ConfigError, identity};
use crate::board::Board;
use crate::clock::Clock;
use crate::commands::{Command, MoveTask, TaskCall};
use crate::config::{self, CallbackBody};
use crate::metrics::Metrics;
use crate::writer::{WriteError, Writer};

/// How many redirects one attempt follows, as Go's client does.
const REDIRECTS_MAX: usize = 10;
/// How many tasks are kept track of at the same time. What happens beyond that is said in the header of the book.
const TASKS_MAX: usize = 100_000;
/// A host that answers has at most this part of the workers, so that hosts which are slow leave some to the others.
const HOST_SHARE: usize = 4;
/// How often tasks that are gone are looked for and forgotten.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// How many wishes are taken from the queue at once.
const WISHES_AT_ONCE: usize = 256;

#[derive(Clone, Debug)]
pub(super) struct Callbacks {
    http: Http,
    body: CallbackBody,
    workers: usize,
    board: Arc<ArcSwap<Board>>,
    writer: Writer,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// How one call ended.
#[derive(Debug)]
struct Ended {
    report: Report,
    line: Line,
    /// Why the report was not taken, and by whom.
    failure: Option<(CallError, String)>,
}

impl Ended {
    const NOTHING_TO_DO: Self = Self { report: Report::Settled, line: Line::Unused, failure: None };
}

impl Callbacks {
    pub(super) fn new(
        config: &config::Outbound,
        board: Arc<ArcSwap<Board>>,
        writer: Writer,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ConfigError> {
        let tls = identity(config.callback_tls.as_ref(), "task callbacks")?;
        let http = Http::new(tls, config.communication_timeout);
        let workers = config.callback_workers.max(1);
        Ok(Self { http, body: config.callback_body, workers, board, writer, clock, metrics })
    }

    /// Reports what it is asked to until the queue closes; then ends what is under way. What waits is left to convergence.
    pub(super) async fn run(self, mut queue: mpsc::Receiver<TaskGuid>) {
        let host_calls_max = (self.workers / HOST_SHARE).max(1);
        let mut book = Book::new(Limits { tasks_max: TASKS_MAX, host_calls_max });
        let mut running = JoinSet::new();
        let mut calls: HashMap<Id, TaskGuid> = HashMap::new();
        let mut wishes = Vec::with_capacity(WISHES_AT_ONCE);
        let mut sweep_ns = self.in_future(SWEEP_INTERVAL);
        loop {
            let now_ns = self.clock.uptime_ns();
            if now_ns >= sweep_ns {
                let board = self.board.load();
                book.retain(|guid| wants_report(&board, guid).is_some());
                sweep_ns = self.in_future(SWEEP_INTERVAL);
            }
            while running.len() < self.workers
                && let Some(guid) = book.next(now_ns)
            {
                let handle = running.spawn(self.clone().call(guid.clone()));
                calls.insert(handle.id(), guid);
            }
            self.metrics.callbacks_waiting.set((book.len() - calls.len()) as i64);
            let due_ns = book.due_ns().filter(|_| running.len() < self.workers);
            tokio::select! {
                count = queue.recv_many(&mut wishes, WISHES_AT_ONCE) => match count {
                    0 => break,
                    _ => self.admit(&mut book, wishes.drain(..)),
                },
                Some(ended) = running.join_next_with_id() => self.take_note(&mut book, &mut calls, ended),
                () = self.clock.reaches(due_ns.map_or(sweep_ns, |due_ns| due_ns.min(sweep_ns))) => {}
            }
        }
        self.metrics.callbacks_waiting.set(0);
        while running.join_next().await.is_some() {}
    }

    fn in_future(&self, duration: Duration) -> Nanos {
        self.clock.uptime_ns().saturating_add(pause::nanos(duration))
    }

    fn admit(&self, book: &mut Book, wishes: impl Iterator<Item = TaskGuid>) {
        let (board, now_ns) = (self.board.load(), self.clock.uptime_ns());
        for guid in wishes {
            let Some(task) = wants_report(&board, &guid) else { continue };
            let host = || host_of(&task.definition.completion_callback_url);
            if book.admit(guid, task.first_completed_ns, host, now_ns) == Admission::Full {
                self.metrics.effect_dropped();
            }
        }
    }

    fn take_note(&self, book: &mut Book, calls: &mut HashMap<Id, TaskGuid>, ended: Result<(Id, Ended), JoinError>) {
        let (id, ended) = match ended {
            Ok((id, ended)) => (id, ended),
            Err(error) => {
                tracing::error!("a task callback met a defect in the server; others go on");
                let report = Report::NotTaken { retry_after: None };
                (error.id(), Ended { report, line: Line::Unused, failure: None })
            }
        };
        let Some(guid) = calls.remove(&id) else { return };
        let next = book.ended(&guid, ended.report, ended.line, self.clock.uptime_ns());
        let (Some(next), Some((error, host))) = (next, ended.failure) else { return };
        // One that fails for hours is logged ever more rarely.
        if next.failures.is_power_of_two() {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let pause = Duration::from_nanos(next.pause_ns.unsigned_abs());
            let attempts = next.failures;
            tracing::warn!(task = %guid, host, %error, cause, attempts, ?pause, "the end of a task was not reported; it is tried again");
        }
    }

    /// One call, from what the board says now to what it should say next.
    async fn call(self, guid: TaskGuid) -> Ended {
        let Some(task) = wants_report(&self.board.load(), &guid) else { return Ended::NOTHING_TO_DO };
        if task.state == TaskState::Completed {
            match self.move_task(&guid, TaskCall::Resolve).await {
                Ok(()) => {}
                // Somebody else resolves it, or it is gone.
                Err(WriteError::Refused(_)) => return Ended::NOTHING_TO_DO,
                Err(error) => {
                    tracing::warn!(task = %guid, %error, "the end of a task could not be reported yet; it is tried again");
                    return Ended { report: Report::NotTaken { retry_after: None }, ..Ended::NOTHING_TO_DO };
                }
            }
        }
        self.metrics.callback_attempts.inc();
        let outcome = self.attempt(&task).await;
        let line = line(&outcome);
        match outcome {
            Ok(Answer::Taken) => {
                self.metrics.callbacks_taken.inc();
                Ended { report: self.after_taken(&guid).await, line, failure: None }
            }
            Ok(Answer::Refused { status, retry_after }) => {
                self.metrics.callback_failures.inc();
                let failure = (CallError::Status { status }, host_of(&task.definition.completion_callback_url));
                Ended { report: Report::NotTaken { retry_after }, line, failure: Some(failure) }
            }
            Err(error) => {
                self.metrics.callback_failures.inc();
                let failure = (error, host_of(&task.definition.completion_callback_url));
                Ended { report: Report::NotTaken { retry_after: None }, line, failure: Some(failure) }
            }
        }
    }

    async fn after_taken(&self, guid: &TaskGuid) -> Report {
        match self.body {
            CallbackBody::Guid if wants_report(&self.board.load(), guid).is_some() => Report::Taken,
            CallbackBody::Guid => Report::Settled,
            CallbackBody::Full => match self.move_task(guid, TaskCall::Delete).await {
                Ok(()) | Err(WriteError::Refused(_)) => Report::Settled,
                Err(error) => {
                    tracing::warn!(task = %guid, %error, "a task was reported but not deleted; it will be reported once more");
                    Report::Taken
                }
            },
        }
    }

    async fn move_task(&self, guid: &TaskGuid, call: TaskCall) -> Result<(), WriteError> {
        let command = Command::MoveTask(MoveTask { guid: guid.clone(), call });
        self.writer.submit(command, Arc::from("")).await.map(|_| ())
    }

    async fn attempt(&self, task: &Task) -> Result<Answer, CallError> {
        let mut url = Url::parse(&task.definition.completion_callback_url).map_err(|_| CallError::Address)?;
        let body = body(task, self.body);
        for _ in 0..=REDIRECTS_MAX {
            let request = Request { method: Method::POST, url: &url, body: body.clone(), trace: "" };
            let answer = self.http.send(request).await?;
            let elsewhere = answer.location.as_deref().and_then(|location| url.join(location).ok());
            match (answer.status, elsewhere) {
                (StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT, Some(next)) => url = next,
                (status, _) if refuses(status) => {
                    return Ok(Answer::Refused { status: status.as_u16(), retry_after: answer.retry_after });
                }
                _ => return Ok(Answer::Taken),
            }
        }
        Ok(Answer::Refused { status: StatusCode::PERMANENT_REDIRECT.as_u16(), retry_after: None })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Taken,
    Refused { status: u16, retry_after: Option<Duration> },
}

/// The task, if it ended, is still there and somebody wants to know.
fn wants_report(board: &Board, guid: &TaskGuid) -> Option<Arc<Task>> {
    let task = &board.tasks.get(guid)?.task;
    let ended = matches!(task.state, TaskState::Completed | TaskState::Resolving);
    (ended && !task.definition.completion_callback_url.is_empty()).then(|| task.clone())
}

/// Whether the receiver says that it did not take the report.
fn refuses(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

/// Whether others need to be spared from the host. A connection that ended in between says little: perhaps it was an old one.
fn line(outcome: &Result<Answer, CallError>) -> Line {
    use TransportKind::{Closed, Other, Refused, Resolve, Timeout, Tls, TooLarge};
    match outcome {
        Ok(_) => Line::Answered,
        Err(CallError::Transport { kind: Refused | Resolve | Timeout | Tls, .. }) => Line::Silent,
        Err(CallError::Transport { kind: Closed | TooLarge | Other, .. }) => Line::Unused,
        Err(CallError::TlsRequired | CallError::NoCertificates | CallError::Address) => Line::Unused,
        Err(CallError::Status { .. }) => Line::Answered,
    }
}

fn body(task: &Task, which: CallbackBody) -> Bytes {
    #[derive(Serialize)]
    struct Guid<'a> {
        task_guid: &'a str,
    }
    #[derive(Serialize)]
    struct Full<'a> {
        task_guid: &'a str,
        failed: bool,
        failure_reason: &'a str,
        result: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        annotation: &'a str,
        created_at: i64,
    }
    let task_guid = task.guid.as_str();
    let text = match which {
        CallbackBody::Guid => api::json::to_string(&Guid { task_guid }),
        CallbackBody::Full => api::json::to_string(&Full {
            task_guid,
            failed: task.failed,
            failure_reason: &task.failure_reason,
            result: &task.result,
            annotation: &task.definition.annotation,
            created_at: task.created_ns,
        }),
    };
    text.into()
}

/// What of a callback URL may be shown, and by which it takes turns.
pub(crate) fn host_of(url: &str) -> String {
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

    fn text(task: &Task, which: CallbackBody) -> String {
        String::from_utf8(body(task, which).to_vec()).unwrap()
    }

    #[test]
    fn the_full_body_is_diegos() {
        assert_eq!(
            text(&task("an&lt"), CallbackBody::Full),
            r#"{"task_guid":"task-1","failed":false,"failure_reason":"","result":"the \u003cresult\u003e","annotation":"an\u0026lt","created_at":1794765206638233334}"#
        );
        assert!(!text(&task(""), CallbackBody::Full).contains("annotation"));
    }

    #[test]
    fn the_other_body_says_which_task_and_nothing_else() {
        assert_eq!(text(&task("an&lt"), CallbackBody::Guid), r#"{"task_guid":"task-1"}"#);
    }

    #[test]
    fn nothing_secret_of_a_url_is_shown() {
        assert_eq!(host_of("https://user:secret@host/secret?token=secret#secret"), "host:443");
        assert_eq!(host_of("not a url with a secret"), "none");
    }

    #[test]
    fn which_statuses_are_tried_again() {
        let again: Vec<u16> = (100..600).filter(|status| StatusCode::from_u16(*status).is_ok_and(refuses)).collect();
        let server_errors: Vec<u16> = (500..600).collect();
        assert_eq!(again, [&[408, 429], server_errors.as_slice()].concat());
    }

    #[test]
    fn which_failures_say_that_a_host_is_down() {
        use TransportKind::{Closed, Other, Refused, Resolve, Timeout, Tls, TooLarge};
        let down = [Refused, Resolve, Timeout, Tls, Closed, TooLarge, Other]
            .into_iter()
            .filter(|kind| line(&Err(CallError::Transport { kind: *kind, source: None })) == Line::Silent)
            .collect::<Vec<_>>();
        expect!["[Refused, Resolve, Timeout, Tls]"].assert_eq(&format!("{down:?}"));
    }
}
