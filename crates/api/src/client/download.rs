//! An answer of the operator's API that is too large to be held at once.
//!
//! The time limit of calls counts for each piece, from asking for it to having it: how long all of it takes is nobody's fault.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::Client;
use super::attempts::{Attempts, Lost, Trouble, travel};
use super::call::within;
use super::error::Failure;
use super::operator::{OperatorError, Question};
use super::pool::Connection;

/// An answer that is on its way. Dropping it closes the connection.
pub struct Download {
    question: Question,
    /// For each piece.
    limit: Option<Duration>,
    attempts: Attempts,
    body: Incoming,
    /// hyper closes the connection when its sender is gone, so the sender lives as long as the answer.
    _connection: Connection,
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("question", &self.question).finish_non_exhaustive()
    }
}

impl Client {
    /// Asks, and gives a good answer piece by piece. Once it has begun it is not asked for again.
    pub async fn download(&self, question: &Question) -> Result<Download, OperatorError> {
        let plan = self.plan(question.nature(), question.target());
        let outcome = travel(&self.shared.addresses, &plan, |address, limit| async move {
            let sent = AtomicBool::new(false);
            within(limit, &sent, self.begin(&address, question, &sent)).await
        });
        let ((body, connection), attempts) = Box::pin(outcome).await.map_err(|lost| lost.to(question))?;
        let limit = self.timeout.into_iter().chain(self.attempt_timeout).min();
        Ok(Download { question: question.clone(), limit, attempts, body, _connection: connection })
    }
}

impl Download {
    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OperatorError> {
        loop {
            let body = &mut self.body;
            let frame = async {
                let frame = body.frame().await.transpose().map_err(Failure::from_error);
                frame.map_err(|failure| Trouble::Transport { failure, sent: true })
            };
            let frame = within(self.limit, &AtomicBool::new(true), frame).await;
            match frame.map_err(|trouble| Lost { trouble, attempts: self.attempts.clone() }.to(&self.question))? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}
