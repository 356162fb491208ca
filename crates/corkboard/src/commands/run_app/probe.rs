//! Whether a router knows a route: asked as its users would.

use std::time::Duration;

use api::client::pool::{Pool, Target};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{HOST, HeaderValue};
use tokio::time::timeout;
use url::Url;

use crate::failure::CommandError;

/// Says that it was the router, and not the app, that answered.
const ROUTER_ERROR: &str = "x-cf-routererror";
/// A host that nobody has: it ends in what is reserved for that.
const NOBODY: &str = "corkboard-run-app.invalid";
/// An app may take its time for an answer; whether the router knows it shows in the first attempt that ends.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Router {
    url: String,
    pool: Pool,
    /// Somebody named it; otherwise it may not be there at all.
    is_named: bool,
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    App,
    /// With the reason that it gave.
    Router(String),
    /// With what happened.
    Nobody(String),
}

impl Router {
    pub(super) fn new(text: &str, is_named: bool) -> Result<Self, CommandError> {
        let wrong = || {
            CommandError::Usage(format!(
                "{text:?} is not the URL of a router; expected for instance http://127.0.0.1:8080"
            ))
        };
        let url = Url::parse(text).map_err(|_| wrong())?;
        let (Some(host), Some(port), "http") = (url.host_str(), url.port_or_known_default(), url.scheme()) else {
            return Err(wrong());
        };
        // A URL writes an IPv6 address in brackets, everything else does not.
        let target = Target { host: host.trim_matches(['[', ']']).to_owned(), port, tls: None };
        Ok(Self { url: text.trim_end_matches('/').to_owned(), pool: Pool::new(target), is_named })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Whether it is a router of ours, or one that speaks like it.
    pub(super) async fn is_router(&self) -> bool {
        matches!(self.ask(NOBODY).await, Answer::Router(_))
    }

    /// Asks for a route once.
    pub(super) async fn ask(&self, route: &str) -> Answer {
        let (host, path) = host_and_path(route);
        let path = if path.is_empty() { "/" } else { path };
        let mut request = Request::new(Full::new(Bytes::new()));
        let (Ok(uri), Ok(host)) = (path.parse(), HeaderValue::from_str(&host.replace('*', "any"))) else {
            return Answer::Nobody("the route cannot be asked for".to_owned());
        };
        *request.uri_mut() = uri;
        request.headers_mut().insert(HOST, host);
        match timeout(ANSWER_LIMIT, self.pool.send(request)).await {
            Ok(Ok((response, _))) => match response.headers().get(ROUTER_ERROR) {
                Some(why) => Answer::Router(String::from_utf8_lossy(why.as_bytes()).into_owned()),
                None => Answer::App,
            },
            Ok(Err(failure)) => Answer::Nobody(failure.kind.to_string()),
            Err(_) => Answer::Nobody("no answer came in time".to_owned()),
        }
    }
}

pub(super) fn host_and_path(route: &str) -> (&str, &str) {
    route.split_at(route.find('/').unwrap_or(route.len()))
}
