//! Calls of the operator's API: a path, perhaps a JSON body, and bytes back, or a refusal that says what to do next.
//!
//! The same connections and the same identity as for routes. What the documents mean is the caller's to know; here is only
//! how they travel. A refusal is what the server says in words (`code`, `message`, `next`), whatever its status; an answer
//! that fails without them comes from somebody who does not know this API.

use std::error::Error as StdError;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::response::Parts;
use serde::Deserialize;
use url::form_urlencoded;

use super::error::Failure;
use super::{
    CLIENT_HEADER, CLIENT_NAME, Client, PHASE_HEADER, RESPONSE_BYTES_MAX, TRACE_HEADER, TransportKind, header_text,
    pool, read_body,
};

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

    fn shown(&self) -> String {
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
    #[error("the server answered {what} with status {status}{}", note(phase.as_deref()))]
    Status {
        what: String,
        status: u16,
        /// What the server is doing instead, from `X-Corkboard-Phase`.
        phase: Option<String>,
    },
    /// No complete answer came.
    #[error("{what} failed: {kind}")]
    Transport {
        what: String,
        kind: TransportKind,
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
}

fn note(phase: Option<&str>) -> String {
    match phase {
        Some(phase) => format!(" (phase: {phase}); nothing was changed, try again"),
        None => "; is it of an older release, or another program?".to_owned(),
    }
}

/// What came back, before it is understood.
pub(super) struct Answer {
    status: u16,
    phase: Option<String>,
    bytes: Bytes,
}

impl Answer {
    /// What an answer means that is not a good one.
    pub(super) fn refusal(self, question: &Question) -> OperatorError {
        let Answer { status, phase, bytes } = self;
        match serde_json::from_slice::<Refusal>(&bytes) {
            Ok(refusal) => {
                let document = String::from_utf8_lossy(&bytes).into_owned();
                OperatorError::Refused { status, refusal: Box::new(Refusal { document, ..refusal }) }
            }
            Err(_) => OperatorError::Status { what: question.shown(), status, phase },
        }
    }
}

impl Client {
    /// Asks once, within the time limit of calls, and gives the bytes of a good answer.
    pub async fn ask(&self, question: &Question) -> Result<Bytes, OperatorError> {
        let work = async {
            let (head, body, connection) = self.begin(question).await?;
            self.finish(head, body, connection).await
        };
        let answer = self.limited(question, work).await?;
        if (200..=299).contains(&answer.status) { Ok(answer.bytes) } else { Err(answer.refusal(question)) }
    }

    pub(super) async fn limited<T>(
        &self,
        question: &Question,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, OperatorError> {
        let done = match self.shared.timeout {
            None => work.await,
            Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(Failure::timeout())),
        };
        done.map_err(|Failure { kind, source }| OperatorError::Transport { what: question.shown(), kind, source })
    }

    pub(super) async fn begin(&self, question: &Question) -> Result<(Parts, Incoming, pool::Connection), Failure> {
        let (response, connection) = self.shared.pool.send(self.operator_request(question)?).await?;
        let (head, body) = response.into_parts();
        Ok((head, body, connection))
    }

    pub(super) async fn finish(
        &self,
        head: Parts,
        body: Incoming,
        connection: pool::Connection,
    ) -> Result<Answer, Failure> {
        let bytes_max = if head.status.is_success() { RESPONSE_BYTES_MAX } else { REFUSAL_BYTES_MAX };
        let bytes = read_body(body, bytes_max).await?;
        self.shared.pool.put(connection);
        Ok(Answer { status: head.status.as_u16(), phase: header_text(&head.headers, &PHASE_HEADER), bytes })
    }

    fn operator_request(&self, question: &Question) -> Result<pool::Request, Failure> {
        let mut request = hyper::Request::new(Full::new(question.body.clone()));
        *request.method_mut() = question.method.clone();
        let target = format!("{}{}", self.shared.path_prefix, question.target);
        *request.uri_mut() = hyper::Uri::try_from(target).map_err(Failure::from_error)?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.shared.authority.clone());
        headers.insert(CLIENT_HEADER, CLIENT_NAME);
        if let Some(id) = &self.trace_id {
            headers.insert(TRACE_HEADER, id.clone());
        }
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
