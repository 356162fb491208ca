//! Who is served: the version rule at the door, and what those hear that it turns away.
//!
//! An answer to a client of another major version has to be understood by a client that we do not know. Every answer of the
//! protocol has its error in field 1, in every release, so that is where it stands; the status says 400, for whoever looks at
//! that first. Ping and event streams have no such field and get plain text.

use std::net::IpAddr;

use api::Route;
use api::models::ActualLrpLifecycleResponse;
use hyper::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};

use super::{Body, Front, PROTOBUF};
use crate::census::{Caller, Turned};
use crate::migrate::ask::Refused;

const CLIENT: &str = "x-corkboard-client";

impl Front {
    /// Counts the request, and decides whether its sender is served.
    pub(super) fn admit<B>(&self, request: &Request<B>, from: IpAddr, route: Option<Route>) -> Result<(), Turned> {
        let header = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
        let caller = Caller { header: header(CLIENT), agent: header(USER_AGENT.as_str()), from: Some(from) };
        let admitted = self.status.census.admit(caller, route, self.status.clock.now_ns());
        match (&admitted, route) {
            (Err(turned), _) => {
                self.metrics.clients_refused.inc();
                tracing::debug!(%from, %turned, "a client was turned away");
            }
            (Ok(()), Some(route)) => self.metrics.asked_for(route),
            (Ok(()), None) => {}
        }
        admitted
    }
}

pub(super) fn refuse(route: Route, turned: &Turned) -> Response<Body> {
    let message = turned.to_string();
    let (kind, body) = if route == Route::Ping || route.stream() {
        (HeaderValue::from_static("text/plain; charset=utf-8"), (message + "\n").into())
    } else {
        // All answers have the same field for it; which message this is does not show in the bytes.
        let error = api::errors::invalid_request(message);
        (PROTOBUF, api::encode(<ActualLrpLifecycleResponse as api::Response>::failed(error)))
    };
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

pub(super) fn refuse_operator(turned: &Turned) -> Response<Body> {
    super::operator::refusal(Refused::new("client-version", turned.to_string(), None).into())
}
