//! What the router answers when it is the router that fails: gorouter's statuses, words and header, so that whoever tells
//! them from an app's own errors today can do so here.

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::body::Body;

pub(crate) static ROUTER_ERROR: HeaderName = HeaderName::from_static("x-cf-routererror");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A request without a host cannot be routed.
    EmptyHost,
    /// `X-Cf-App-Instance` is not `GUID:INDEX`.
    BadInstanceWish,
    /// CONNECT is for proxies of another kind.
    Connect,
    UnknownRoute {
        uri: String,
    },
    NoEndpoints {
        uri: String,
    },
    /// An instance was found, and it did not answer.
    Endpoint {
        reason: &'static str,
    },
    /// An instance took the request, and was silent for too long.
    Timeout,
    /// The client stopped sending its request.
    Client,
}

impl Failure {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Failure::EmptyHost | Failure::BadInstanceWish | Failure::Client => StatusCode::BAD_REQUEST,
            Failure::Connect => StatusCode::METHOD_NOT_ALLOWED,
            Failure::UnknownRoute { .. } => StatusCode::NOT_FOUND,
            Failure::NoEndpoints { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Failure::Endpoint { .. } => StatusCode::BAD_GATEWAY,
            Failure::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn header(&self) -> String {
        match self {
            Failure::EmptyHost => "empty_host".to_owned(),
            Failure::BadInstanceWish => "invalid_cf_app_instance_header".to_owned(),
            Failure::Connect => "connect_unsupported".to_owned(),
            Failure::UnknownRoute { .. } => "unknown_route".to_owned(),
            Failure::NoEndpoints { .. } => "no_endpoints".to_owned(),
            Failure::Endpoint { reason } => format!("endpoint_failure ({reason})"),
            Failure::Timeout => "endpoint_failure (timeout)".to_owned(),
            Failure::Client => "client_failure".to_owned(),
        }
    }

    fn text(&self) -> String {
        match self {
            Failure::EmptyHost => "Request had empty Host header".to_owned(),
            Failure::BadInstanceWish => "X-Cf-App-Instance must be GUID:INDEX".to_owned(),
            Failure::Connect => "CONNECT is not supported".to_owned(),
            Failure::UnknownRoute { uri } => format!("Requested route ('{uri}') does not exist."),
            Failure::NoEndpoints { uri } => format!("Requested route ('{uri}') has no available endpoints."),
            Failure::Endpoint { .. } => "Registered endpoint failed to handle the request.".to_owned(),
            Failure::Timeout => "Registered endpoint did not answer in time.".to_owned(),
            Failure::Client => "The request ended before it was whole.".to_owned(),
        }
    }

    pub(crate) fn response(&self) -> Response<Body> {
        let status = self.status();
        let mut response = Response::new(Body::text(format!("{status}: {}\n", self.text())));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::try_from(self.header()) {
            headers.insert(ROUTER_ERROR.clone(), value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
        response
    }
}
