//! How a call of the protocol travels: one message out, one message back.
//!
//! The type of the answer decides how it is read, as in Diego's client: protobuf is read whatever the status is;
//! anything else is a failure above status 299 and counts as an empty answer below.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};

use super::address::Address;
use super::attempts::{Attempts, Plan, StatusAnswer, Trouble, travel};
use super::error::Failure;
use super::pool::{self, Connection};
use super::retry::Nature;
use super::{Client, ClientError, TransportKind};
use crate::models::TaskLifecycleResponse;
use crate::models::error::Type;
use crate::routes::{Method, Route};
use crate::version::Version;
use crate::wire::{Response, Wire};
use crate::{decode, encode};

/// The media type of requests and answers.
pub const PROTOBUF: &str = "application/x-protobuf";
/// Carries the id under which a request is logged on its whole way.
pub const TRACE_HEADER: HeaderName = HeaderName::from_static("x-vcap-request-id");
/// Tells the server who we are, for its census of clients.
pub const CLIENT_HEADER: HeaderName = HeaderName::from_static("x-corkboard-client");
/// The version of the server, on each of its answers.
pub const SERVER_HEADER: HeaderName = HeaderName::from_static("x-corkboard-server");
/// What a server that answers 503 is doing.
pub const PHASE_HEADER: HeaderName = HeaderName::from_static("x-corkboard-phase");
const ROUTER_ERROR_HEADER: HeaderName = HeaderName::from_static("x-cf-routererror");

/// Size of an answer. A list of a quarter million desired LRPs is about half of it.
pub const RESPONSE_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// How much of the body of a failure is kept for the error.
const FAILURE_BODY_BYTES_MAX: usize = 4096;
/// How a server answers a client whose version it does not serve.
const STATUS_VERSION: u16 = 400;

impl Client {
    /// Makes any call of the table of routes, and takes the error out of the answer.
    ///
    /// The methods for the single calls are made of it and are what a program wants. This one is for whoever needs a route
    /// that has no method: an older revision, to see what older clients see.
    pub async fn call<A: Response>(&self, route: Route, request: impl Wire) -> Result<A, ClientError> {
        self.call_with(route, encode(request)).await
    }

    /// For the routes whose body is not read.
    pub(super) async fn call_without_body<A: Response>(&self, route: Route) -> Result<A, ClientError> {
        self.call_with(route, Bytes::new()).await
    }

    async fn call_with<A: Response>(&self, route: Route, body: Bytes) -> Result<A, ClientError> {
        let (mut answer, attempts): (A, _) = self.exchange(route, body).await?;
        match answer.take_error() {
            Some(error) => Err(ClientError::Bbs { route, error, attempts: Box::new(attempts) }),
            None => Ok(answer),
        }
    }

    /// Sends one message and reads one, as often as it takes and is safe.
    pub(super) async fn exchange<A: Wire>(&self, route: Route, body: Bytes) -> Result<(A, Attempts), ClientError> {
        let plan = self.plan(Nature::of(route), route.path());
        let outcome = travel(&self.shared.addresses, &plan, |address, limit| {
            let body = body.clone();
            async move {
                let sent = AtomicBool::new(false);
                within(limit, &sent, self.attempt(&address, route, body, &sent)).await
            }
        });
        // Boxed, because whoever calls would otherwise carry all of it in each of his own futures.
        Box::pin(outcome).await.map_err(|lost| lost.on(route))
    }

    pub(super) fn plan<'a>(&self, nature: Nature, path: &'a str) -> Plan<'a> {
        Plan { nature, retry: self.retry, timeout: self.timeout, attempt_timeout: self.attempt_timeout, path }
    }

    async fn attempt<A: Wire>(
        &self,
        address: &Address,
        route: Route,
        body: Bytes,
        sent: &AtomicBool,
    ) -> Result<A, Trouble> {
        let mut request = self.request(address, route, body);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
        self.trace(request.headers_mut());
        let (response, connection) = send(address, request, sent).await?;
        let (head, body) = response.into_parts();
        let server = self.note_server(&head.headers);
        if let Some(text) = header_text(&head.headers, &ROUTER_ERROR_HEADER) {
            return Err(Trouble::Router(text));
        }
        if !is_protobuf(&head.headers) {
            let answer = refusal(address, head.status.as_u16(), &head.headers, body, connection).await;
            return if answer.status <= 299 { Ok(A::default()) } else { Err(version_or_status(server, answer)) };
        }
        let bytes = read_body(body, RESPONSE_BYTES_MAX).await;
        let bytes = bytes.map_err(|failure| Trouble::Transport { failure, sent: true })?;
        address.pool.put(connection);
        if let (STATUS_VERSION, Some(server), Some(message)) = (head.status.as_u16(), server, refused_request(&bytes)) {
            return Err(Trouble::Version { server, message });
        }
        decode(&bytes).map_err(Trouble::Decode)
    }

    /// The request of a call or a subscription, but for what only one of them has.
    pub(super) fn request(&self, address: &Address, route: Route, body: Bytes) -> pool::Request {
        let length = body.len();
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = route.method().into();
        let path = format!("{}{}", address.path_prefix, route.path());
        *request.uri_mut() = path.parse().expect("a parsed URL's path followed by a route's path is a valid target");
        self.sign(address, request.headers_mut());
        if route.method() == Method::Post {
            // hyper sends no length for an empty body, and some servers answer a POST without one with 411.
            request.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        request
    }

    /// The headers that every request has.
    pub(super) fn sign(&self, address: &Address, headers: &mut HeaderMap) {
        headers.insert(HOST, address.authority.clone());
        headers.insert(CLIENT_HEADER, self.shared.client_id.clone());
    }

    /// Streams go without, as Diego's do.
    pub(super) fn trace(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.trace_id {
            headers.insert(TRACE_HEADER, id.clone());
        }
    }
}

/// One attempt within its time limit. When that passes, `sent` tells how far it was.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    sent: &AtomicBool,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    match limit {
        None => work.await,
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(Trouble::Transport { failure: Failure::timeout(), sent: sent.load(Ordering::Relaxed) })
        }),
    }
}

pub(super) async fn send(
    address: &Address,
    request: pool::Request,
    sent: &AtomicBool,
) -> Result<(hyper::Response<Incoming>, Connection), Trouble> {
    let sending = address.pool.send_marked(request, sent).await;
    sending.map_err(|failure| Trouble::Transport { failure, sent: sent.load(Ordering::Relaxed) })
}

/// An answer that is none of the protocol, with the beginning of its body.
pub(super) async fn refusal(
    address: &Address,
    status: u16,
    headers: &HeaderMap,
    body: Incoming,
    connection: Connection,
) -> StatusAnswer {
    let (body, ended) = beginning(body).await;
    if ended == Ended::Whole {
        address.pool.put(connection);
    }
    status_answer(status, headers, body)
}

pub(super) fn status_answer(status: u16, headers: &HeaderMap, body: Bytes) -> StatusAnswer {
    StatusAnswer {
        status,
        phase: header_text(headers, &PHASE_HEADER),
        retry_after_s: header_text(headers, &RETRY_AFTER).and_then(|text| text.parse().ok()),
        location: header_text(headers, &LOCATION),
        is_refusal: false,
        body,
    }
}

/// The only answer of this status that is not about versions tells of a body that broke off, which this client does not send.
pub(super) fn version_or_status(server: Option<Version>, answer: StatusAnswer) -> Trouble {
    match server {
        Some(server) if answer.status == STATUS_VERSION => {
            Trouble::Version { server, message: String::from_utf8_lossy(&answer.body).trim_end().to_owned() }
        }
        _ => Trouble::Status(answer),
    }
}

/// The error of type InvalidRequest in field 1, which is where every answer has its error.
fn refused_request(bytes: &[u8]) -> Option<String> {
    let error = decode::<TaskLifecycleResponse>(bytes).ok()?.error?;
    (error.kind() == Type::InvalidRequest).then_some(error.message)
}

fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Parameters and case do not matter.
fn is_protobuf(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    value.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(PROTOBUF))
}

pub(super) async fn read_body(body: Incoming, bytes_max: usize) -> Result<Bytes, Failure> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(source) => Err(match source.downcast::<hyper::Error>() {
            Ok(source) => Failure::from_error(*source),
            Err(source) => Failure { kind: TransportKind::TooLarge, source: Some(source) },
        }),
    }
}

#[derive(PartialEq, Eq)]
enum Ended {
    Whole,
    Cut,
}

/// The beginning of a body, for an error text. A body that cannot be read must not hide the status before it.
async fn beginning(mut body: Incoming) -> (Bytes, Ended) {
    let mut bytes = Vec::new();
    let ended = loop {
        match body.frame().await {
            None => break Ended::Whole,
            Some(Err(_)) => break Ended::Cut,
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref)),
        }
        if bytes.len() > FAILURE_BODY_BYTES_MAX {
            bytes.truncate(FAILURE_BODY_BYTES_MAX);
            break Ended::Cut;
        }
    };
    (bytes.into(), ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_type_is_compared_without_case_and_parameters() {
        let is =
            |value: &'static str| is_protobuf(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]));
        assert!(is("application/x-protobuf") && is("Application/X-Protobuf; charset=utf-8"));
        assert!(!is("application/json") && !is("") && !is_protobuf(&HeaderMap::new()));
    }
}
