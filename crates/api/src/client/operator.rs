//! Calls of the operator's API: a path, perhaps a JSON body, and bytes back, or a refusal that says what to do next.
//!
//! The same addresses, connections, identity and attempts as for routes; a question that changes something counts as a call that
//! must not be carried out twice. What the documents mean is the caller's to know; here is only
//! how they travel. A refusal is what the server says in words (`code`, `message`, `next`), whatever its status; an answer
//! that fails without them comes from somebody who does not know this API.

use std::error::Error as StdError;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use url::form_urlencoded;

use super::address::Address;
use super::attempts::{Attempts, Lost, StatusAnswer, Trouble, travel};
use super::call::{read_body, send, status_answer, within};
use super::error::Failure;
use super::retry::Nature;
use super::{Client, RESPONSE_BYTES_MAX, TransportKind, pool};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Size of a refusal; one with a list of losses is the largest.
const REFUSAL_BYTES_MAX: usize = 1024 * 1024;

/// What is asked, and how it shows in messages: `GET /corkboard/v1/migration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    method: Method,
    target: String,
    body: Bytes,
}

impl Question {
    /// Something that changes nothing. The values of the query may hold any text.
    pub fn get(path: &str, query: &[(&str, &str)]) -> Self {
        let mut target = path.to_owned();
        if !query.is_empty() {
            target.push('?');
            target.push_str(&form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish());
        }
        Self { method: Method::GET, target, body: Bytes::new() }
    }

    /// Something to be done. `body` is JSON.
    pub fn post(path: &str, body: &serde_json::Value) -> Self {
        Self { method: Method::POST, target: path.to_owned(), body: body.to_string().into() }
    }

    pub(super) fn nature(&self) -> Nature {
        if self.method == Method::GET { Nature::Read } else { Nature::Once }
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }

    pub(super) fn shown(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

/// The server understood, did nothing, and says why.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// For programs, in kebab case.
    pub code: String,
    /// What happened, and what is safe.
    pub message: String,
    /// The command to give next.
    #[serde(default)]
    pub next: Option<String>,
    /// The whole refusal as JSON, since some codes come with more.
    #[serde(skip)]
    pub document: String,
}

/// A question that was not answered as hoped.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error("{}", refusal.message)]
    Refused { status: u16, refusal: Box<Refusal> },
    /// Not the words of a server that knows these questions.
    #[error("the server answered {what} with status {status}{}{}", note(phase.as_deref()), attempts.told())]
    Status {
        what: String,
        status: u16,
        /// What the server is doing instead, from `X-Corkboard-Phase`.
        phase: Option<String>,
        attempts: Box<Attempts>,
    },
    /// No complete answer came.
    #[error("{what} failed: {kind}{}", attempts.told())]
    Transport {
        what: String,
        kind: TransportKind,
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
        attempts: Box<Attempts>,
    },
}

fn note(phase: Option<&str>) -> String {
    match phase {
        Some(phase) => format!(" (phase: {phase}); nothing was changed, try again"),
        None => "; is it of an older release, or another program?".to_owned(),
    }
}

impl Lost {
    pub(super) fn to(self, question: &Question) -> OperatorError {
        let attempts = Box::new(self.attempts);
        let what = question.shown();
        match self.trouble {
            Trouble::Status(StatusAnswer { status, phase, body, .. }) => match serde_json::from_slice(&body) {
                Ok(refusal) => {
                    let document = String::from_utf8_lossy(&body).into_owned();
                    OperatorError::Refused { status, refusal: Box::new(Refusal { document, ..refusal }) }
                }
                Err(_) => OperatorError::Status { what, status, phase, attempts },
            },
            Trouble::Transport { failure: Failure { kind, source }, .. } => {
                OperatorError::Transport { what, kind, source, attempts }
            }
            // Questions have neither protobuf nor routers, and their refusals are told in words.
            Trouble::Router(_) | Trouble::Decode(_) | Trouble::Version { .. } => {
                OperatorError::Transport { what, kind: TransportKind::Other, source: None, attempts }
            }
        }
    }
}

impl Client {
    /// Asks, and gives the bytes of a good answer.
    pub async fn ask(&self, question: &Question) -> Result<Bytes, OperatorError> {
        let plan = self.plan(question.nature(), &question.target);
        let outcome = travel(&self.shared.addresses, &plan, |address, limit| async move {
            let sent = AtomicBool::new(false);
            let work = async {
                let (body, connection) = self.begin(&address, question, &sent).await?;
                let bytes = read_body(body, RESPONSE_BYTES_MAX).await;
                let bytes = bytes.map_err(|failure| Trouble::Transport { failure, sent: true })?;
                address.pool.put(connection);
                Ok(bytes)
            };
            within(limit, &sent, work).await
        });
        Box::pin(outcome).await.map(|(bytes, _)| bytes).map_err(|lost| lost.to(question))
    }

    /// A good answer up to its body; any other whole.
    pub(super) async fn begin(
        &self,
        address: &Address,
        question: &Question,
        sent: &AtomicBool,
    ) -> Result<(Incoming, pool::Connection), Trouble> {
        let request = self.operator_request(address, question).map_err(Trouble::unsent)?;
        let (response, connection) = send(address, request, sent).await?;
        let (head, body) = response.into_parts();
        self.note_server(&head.headers);
        if head.status.is_success() {
            return Ok((body, connection));
        }
        let bytes = read_body(body, REFUSAL_BYTES_MAX).await;
        let bytes = bytes.map_err(|failure| Trouble::Transport { failure, sent: true })?;
        address.pool.put(connection);
        let is_refusal = serde_json::from_slice::<Refusal>(&bytes).is_ok();
        let answer = status_answer(head.status.as_u16(), &head.headers, bytes);
        Err(Trouble::Status(StatusAnswer { is_refusal, ..answer }))
    }

    fn operator_request(&self, address: &Address, question: &Question) -> Result<pool::Request, Failure> {
        let mut request = hyper::Request::new(Full::new(question.body.clone()));
        *request.method_mut() = question.method.clone();
        let target = format!("{}{}", address.path_prefix, question.target);
        *request.uri_mut() = hyper::Uri::try_from(target).map_err(Failure::from_error)?;
        let headers = request.headers_mut();
        self.sign(address, headers);
        self.trace(headers);
        if question.method == Method::POST {
            headers.insert(CONTENT_TYPE, JSON);
            headers.insert(CONTENT_LENGTH, question.body.len().into());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_fits_into_a_query() {
        let question = Question::get("/corkboard/v1/quarantine/record", &[("id", "/v1/task/a%2Fb c&d=é")]);
        assert_eq!(question.shown(), "GET /corkboard/v1/quarantine/record?id=%2Fv1%2Ftask%2Fa%252Fb+c%26d%3D%C3%A9");
        assert_eq!(Question::get("/status", &[]).shown(), "GET /status");
        assert_eq!(Question::post("/a", &serde_json::json!({"all": true})).body, r#"{"all":true}"#);
    }

    #[test]
    fn a_refusal_may_have_no_next() {
        let read = |json: &str| serde_json::from_str::<Refusal>(json).ok().map(|it| (it.code, it.next));
        assert_eq!(read(r#"{"code":"busy","message":"m","next":null,"losses":[]}"#), Some(("busy".into(), None)));
        assert_eq!(read(r#"{"code":"busy","message":"m"}"#), Some(("busy".into(), None)));
        assert_eq!(read(r#"{"code":"not-serving","phase":"loading"}"#), None);
    }
}
