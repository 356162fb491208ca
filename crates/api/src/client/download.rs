//! An answer of the operator's API that is too large to be held at once.
//!
//! The time limit of calls counts for each piece, from asking for it to having it: how long all of it takes is nobody's fault.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::Client;
use super::error::Failure;
use super::operator::{OperatorError, Question};
use super::pool::Connection;

/// An answer that is on its way. Dropping it closes the connection.
pub struct Download {
    client: Client,
    question: Question,
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
    /// Asks once, and gives a good answer piece by piece.
    pub async fn download(&self, question: &Question) -> Result<Download, OperatorError> {
        let (head, body, connection) = self.limited(question, self.begin(question)).await?;
        if head.status.is_success() {
            let (client, question) = (self.clone(), question.clone());
            return Ok(Download { client, question, body, _connection: connection });
        }
        let answer = self.limited(question, self.finish(head, body, connection)).await?;
        Err(answer.refusal(question))
    }
}

impl Download {
    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OperatorError> {
        loop {
            let Self { client, question, body, .. } = self;
            let frame = async { body.frame().await.transpose().map_err(Failure::from_error) };
            match client.limited(question, frame).await? {
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
