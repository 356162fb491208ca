//! The parts of `corkboard up`, each a task of its own, watched so that none of them is missing without a word.
//!
//! Promise: however a part ends, by an error, by a panic or because it was asked to, whoever waits here hears of it.

use std::collections::BTreeSet;

use tokio::sync::mpsc;

use crate::failure::Failure;

/// More than there can be parts: a part that ends never waits to say so.
const ENDS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) part: String,
    pub(super) outcome: Result<(), Failure>,
}

impl Ended {
    /// Of a part that nobody had asked to end, which is a failure however it ended.
    pub(super) fn unasked(self) -> Failure {
        let Self { part, outcome } = self;
        outcome.err().unwrap_or_else(|| Failure::Unfinished(format!("{part} has ended, and nobody had asked it to")))
    }
}

#[derive(Debug)]
pub(super) struct Parts {
    running: BTreeSet<String>,
    tell: mpsc::Sender<Ended>,
    told: mpsc::Receiver<Ended>,
}

impl Parts {
    pub(super) fn new() -> Self {
        let (tell, told) = mpsc::channel(ENDS_MAX);
        Self { running: BTreeSet::new(), tell, told }
    }

    pub(super) fn start(&mut self, part: &str, work: impl Future<Output = Result<(), Failure>> + Send + 'static) {
        let (part, tell) = (part.to_owned(), self.tell.clone());
        self.running.insert(part.clone());
        let work = tokio::spawn(work);
        tokio::spawn(async move {
            let outcome = match work.await {
                Ok(outcome) => outcome,
                Err(_) => Err(Failure::Unfinished(format!("{part} met a defect; the log says where"))),
            };
            let _ = tell.send(Ended { part, outcome }).await;
        });
    }

    /// Waits until any part ends.
    pub(super) async fn next_end(&mut self) -> Ended {
        match self.told.recv().await {
            Some(ended) => {
                self.running.remove(&ended.part);
                ended
            }
            // We hold a sender ourselves.
            None => std::future::pending().await,
        }
    }

    /// Waits until this part has ended. The failures are its own and those of others that ended meanwhile.
    pub(super) async fn until_ended(&mut self, part: &str) -> Vec<Failure> {
        let mut failures = Vec::new();
        while self.running.contains(part) {
            failures.extend(self.next_end().await.outcome.err());
        }
        failures
    }
}

/// An error and what is behind it, on one line. Some repeat their cause in their own text; once is enough.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_end_is_heard_of() {
        let check = |ended: Ended, expected: &str| assert_eq!(ended.unasked().to_string(), expected);
        let mut parts = Parts::new();
        parts.start("idle", std::future::pending());
        parts.start("broken", async { Err(Failure::Unfinished("no luck".to_owned())) });
        check(parts.next_end().await, "no luck");
        parts.start("panicked", async {
            assert!(std::hint::black_box(false), "this shows in the output of the test and is meant to");
            Ok(())
        });
        check(parts.next_end().await, "panicked met a defect; the log says where");
        parts.start("done", async { Ok(()) });
        check(parts.next_end().await, "done has ended, and nobody had asked it to");
        parts.start("asked", async { Ok(()) });
        assert!(parts.until_ended("asked").await.is_empty());
        assert!(parts.until_ended("never started").await.is_empty());
    }
}
