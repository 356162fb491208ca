//! Tells whoever asks at the network port what containers wrote: what is kept, and then what is written on.
//!
//! Each reader has an [`Outbox`] of its own. A reader that is too slow loses lines and is told how many; the app that writes
//! and the other readers do not notice. Who listens and falls behind the cell itself loses nothing: what it missed is kept, and
//! is looked up. At most [`READERS_MAX`] are served at once, so that they leave room for the auctioneer; when the cell ends,
//! they end.

mod outbox;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::cell::logs::{BEAT_INTERVAL_S, LogLine, LogMessage, LogQuery, LogsOf};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use model::{CellId, Nanos};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, interval_at};

use self::outbox::Outbox;
use super::door::Answer;
use super::metrics::Metrics;
use super::network::body;
use crate::executor::{self, ContainerGuid, Executor, LogsWanted, Owner};

const READERS_MAX: usize = 128;
/// Of each container, when nobody says how many.
const LINES_USUAL: usize = 1_000;
/// Of each container, whatever somebody says. More is not kept, unless lines are very short.
const LINES_MAX: usize = 20_000;
const BEAT_INTERVAL: Duration = Duration::from_secs(BEAT_INTERVAL_S);
const KIND: &str = "application/x-ndjson";
const TEXT: &str = "text/plain; charset=utf-8";

pub(super) struct Logs {
    cell_id: CellId,
    executor: Arc<dyn Executor>,
    metrics: Arc<Metrics>,
    places: Arc<Semaphore>,
    /// Becomes true when the cell ends.
    closed: watch::Receiver<bool>,
}

impl Logs {
    pub(super) fn new(
        cell_id: CellId,
        executor: Arc<dyn Executor>,
        metrics: Arc<Metrics>,
        closed: watch::Receiver<bool>,
    ) -> Self {
        Self { cell_id, executor, metrics, places: Arc::new(Semaphore::new(READERS_MAX)), closed }
    }

    pub(super) fn answer(&self, query: &str) -> Answer {
        let query = match LogQuery::parse(query) {
            Ok(query) => query,
            Err(error) => return body(StatusCode::BAD_REQUEST, TEXT, format!("{error}\n")),
        };
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            let why = format!("{READERS_MAX} others read logs of this cell already; try again later\n");
            return body(StatusCode::SERVICE_UNAVAILABLE, TEXT, why);
        };
        let outbox = Arc::new(Outbox::new(self.metrics.log_lines_lost.clone()));
        let reader = Reader::new(self.cell_id.clone(), self.executor.clone(), query, outbox.clone());
        let mut closed = self.closed.clone();
        let metrics = self.metrics.clone();
        metrics.log_readers.inc();
        tokio::spawn(async move {
            tokio::select! {
                () = reader.read() => {}
                () = reader.outbox.abandoned() => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
            reader.outbox.end();
            metrics.log_readers.dec();
            drop(place);
        });
        let given = outbox::Given(outbox);
        let pieces = stream::unfold(given, |given| async {
            let piece = given.0.take().await?;
            Some((Ok(Frame::data(piece)), given))
        });
        let mut answer = Response::new(StreamBody::new(pieces).boxed_unsync());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
        answer
    }
}

struct Reader {
    cell_id: CellId,
    executor: Arc<dyn Executor>,
    of: executor::LogsOf,
    query: LogQuery,
    outbox: Arc<Outbox>,
}

/// How far the lines of each container were told.
struct Told {
    last: HashMap<ContainerGuid, Nanos>,
    /// Of containers that were not heard of yet.
    floor_ns: Nanos,
}

impl Told {
    fn is_new(&mut self, line: &executor::LogLine) -> bool {
        let last = self.last.entry(line.container.clone()).or_insert(self.floor_ns);
        let is_new = line.at_ns > *last;
        *last = line.at_ns.max(*last);
        is_new
    }
}

impl Reader {
    fn new(cell_id: CellId, executor: Arc<dyn Executor>, query: LogQuery, outbox: Arc<Outbox>) -> Self {
        let of = match query.of.clone() {
            LogsOf::Process { guid, index } => executor::LogsOf::Process { guid, index },
            LogsOf::Task { guid } => executor::LogsOf::Task { guid },
        };
        Self { cell_id, executor, of, query, outbox }
    }

    async fn read(&self) {
        let mut told = Told { last: HashMap::new(), floor_ns: self.query.since_ns.unwrap_or(Nanos::MIN) };
        let mut lines_max = self.query.lines.unwrap_or(LINES_USUAL).min(LINES_MAX);
        let mut is_first = true;
        loop {
            // Listen first: what is written meanwhile comes twice, and is told once.
            let mut live = self.executor.logs();
            let wanted = LogsWanted { of: self.of.clone(), after_ns: told.floor_ns, lines_max };
            let kept = self.executor.kept_logs(wanted).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "logs that are kept cannot be read");
                executor::KeptLines::default()
            });
            if is_first {
                let hello = LogMessage::Hello { cell_id: self.cell_id.to_string(), now_ns: kept.now_ns };
                self.outbox.wait_and_put(&hello).await;
            }
            if kept.left_out > 0 {
                self.outbox.wait_and_put(&LogMessage::Lost { lines: kept.left_out }).await;
            }
            for line in kept.lines.iter().filter(|line| told.is_new(line)) {
                self.outbox.wait_and_put(&message(line)).await;
            }
            if !self.query.follow {
                return;
            }
            if is_first {
                told.floor_ns = kept.now_ns.max(told.floor_ns);
            }
            (is_first, lines_max) = (false, LINES_MAX);
            if !self.listen(&mut live, &mut told).await {
                return;
            }
        }
    }

    /// Whether something was missed, which is to be looked up.
    async fn listen(&self, live: &mut tokio::sync::broadcast::Receiver<executor::LogLine>, told: &mut Told) -> bool {
        let mut beats = interval_at(Instant::now() + BEAT_INTERVAL, BEAT_INTERVAL);
        loop {
            let line = tokio::select! {
                line = live.recv() => line,
                _ = beats.tick() => {
                    self.outbox.put(&LogMessage::Beat);
                    continue;
                }
            };
            match line {
                Ok(line) if self.of.is(&line.owner) && told.is_new(&line) => self.outbox.put(&message(&line)),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            }
        }
    }
}

fn message(line: &executor::LogLine) -> LogMessage {
    let mut told = LogLine {
        at_ns: line.at_ns,
        index: line.log.index,
        source: line.source.to_string(),
        error: line.is_error,
        text: line.text.clone(),
        ..LogLine::default()
    };
    match line.owner.as_ref() {
        Owner::Lrp { key, instance } => {
            told.process_guid = key.process_guid.to_string();
            told.instance_guid = instance.to_string();
            told.index = key.index;
        }
        Owner::Task { guid, .. } => told.task_guid = guid.to_string(),
    }
    LogMessage::Line(told)
}
