//! What is on its way to one reader of logs: at most [`BYTES_MAX`].
//!
//! What is written on does not fit when it is full, and is counted; the reader finds the count where the lines would have been.
//! What is kept waits until there is room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::cell::logs::LogMessage;
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

const BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Of all readers together.
    lost: Counter,
    inside: Mutex<Inside>,
    filled: Notify,
    emptied: Notify,
    gone: Notify,
}

#[derive(Debug, Default)]
struct Inside {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    /// Since the last piece.
    lost: u64,
    is_ended: bool,
    is_abandoned: bool,
}

/// The reader's end. Dropping it tells the other that nobody reads any more.
pub(super) struct Given(pub(super) Arc<Outbox>);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.inside().is_abandoned = true;
        self.0.gone.notify_one();
    }
}

impl Outbox {
    pub(super) fn new(lost: Counter) -> Self {
        Self { lost, ..Self::default() }
    }

    /// Lost, and counted, if it does not fit. A beat is not worth counting.
    pub(super) fn put(&self, message: &LogMessage) {
        let piece = piece(message);
        let mut inside = self.inside();
        if inside.fits(&piece) {
            inside.push(piece);
            self.filled.notify_one();
        } else if matches!(message, LogMessage::Line(_)) {
            inside.lost += 1;
            self.lost.inc();
        }
    }

    pub(super) async fn wait_and_put(&self, message: &LogMessage) {
        let piece = piece(message);
        loop {
            let emptied = self.emptied.notified();
            {
                let mut inside = self.inside();
                if inside.fits(&piece) {
                    inside.push(piece);
                    self.filled.notify_one();
                    return;
                }
            }
            emptied.await;
        }
    }

    /// The next piece; none when everything was taken and nothing more comes.
    pub(super) async fn take(&self) -> Option<Bytes> {
        loop {
            {
                let mut inside = self.inside();
                let piece = inside.pieces.pop_front().or_else(|| inside.told_loss());
                if let Some(piece) = piece {
                    inside.bytes = inside.bytes.saturating_sub(piece.len());
                    self.emptied.notify_one();
                    return Some(piece);
                }
                if inside.is_ended {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    pub(super) fn end(&self) {
        self.inside().is_ended = true;
        self.filled.notify_one();
    }

    pub(super) async fn abandoned(&self) {
        while !self.inside().is_abandoned {
            self.gone.notified().await;
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn fits(&self, piece: &Bytes) -> bool {
        self.pieces.is_empty() || self.bytes + piece.len() <= BYTES_MAX
    }

    fn push(&mut self, piece: Bytes) {
        let loss = self.told_loss();
        for piece in loss.into_iter().chain([piece]) {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    fn told_loss(&mut self) -> Option<Bytes> {
        let lines = std::mem::take(&mut self.lost);
        (lines > 0).then(|| piece(&LogMessage::Lost { lines }))
    }
}

fn piece(message: &LogMessage) -> Bytes {
    Bytes::from(api::json::to_string(message) + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> LogMessage {
        LogMessage::Line(api::cell::logs::LogLine { text: text.to_owned(), ..Default::default() })
    }

    #[tokio::test]
    async fn what_does_not_fit_is_counted_where_it_would_have_been() {
        let outbox = Outbox::default();
        let long = "x".repeat(BYTES_MAX / 4);
        for _ in 0..5 {
            outbox.put(&line(&long));
        }
        let mut told = Vec::new();
        for _ in 0..2 {
            told.push(outbox.take().await.unwrap());
        }
        outbox.put(&line("after"));
        outbox.end();
        while let Some(piece) = outbox.take().await {
            told.push(piece);
        }
        let short = |piece: &Bytes| match serde_json::from_slice(piece).unwrap() {
            LogMessage::Line(line) if line.text.len() > 5 => "long".to_owned(),
            LogMessage::Line(line) => line.text,
            other => format!("{other:?}"),
        };
        let told: Vec<String> = told.iter().map(short).collect();
        assert_eq!(told, ["long", "long", "long", "Lost { lines: 2 }", "after"]);
        assert_eq!(outbox.lost.get(), 2);
    }

    #[tokio::test]
    async fn a_loss_is_told_also_when_nothing_follows() {
        let outbox = Outbox::default();
        outbox.put(&line(&"x".repeat(BYTES_MAX)));
        outbox.put(&line("lost"));
        assert!(outbox.take().await.is_some());
        let told = String::from_utf8(outbox.take().await.unwrap().to_vec()).unwrap();
        assert_eq!(told, "{\"type\":\"lost\",\"lines\":1}\n");
    }
}
