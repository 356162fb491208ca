//! One request: find an instance, hand it over, hand the answer back.
//!
//! An instance that cannot be reached is no reason to fail while there is another: nothing was sent, so the request goes to
//! the next one. Once something was sent, a request is repeated only if that does no harm: it has no body, and its method
//! promises to change nothing. All others are answered with 502, because the instance may have carried them out.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use hyper::body::{Body as _, Incoming};
use hyper::header::{EXPECT, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};

use crate::body::{Body, Upload};
use crate::config::Config;
use crate::endpoint::{Endpoint, InFlight};
use crate::failure::Failure;
use crate::headers::{self, Origin};
use crate::metrics::Metrics;
use crate::table::{Choice, Table, Wish};
use crate::tunnel;
use crate::upstream::{self, Sender};

const REQUEST_ID_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) config: Config,
    pub(crate) table: Arc<RwLock<Table>>,
    pub(crate) metrics: Arc<Metrics>,
}

/// What a connection knows about its requests.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) from: IpAddr,
    pub(crate) tls: bool,
    /// Held until the last of the connection is gone, upgraded or not.
    pub(crate) place: Arc<OwnedSemaphorePermit>,
}

/// A request that waits to be handed over.
struct Errand {
    head: Parts,
    host: String,
    wish: Option<Wish>,
    upload: Option<Upload>,
    /// Sending it twice does no harm.
    repeatable: bool,
    upgrade: Option<(HeaderValue, OnUpgrade)>,
}

/// How an attempt ended.
enum Attempt {
    Answered(Box<Response<Body>>),
    /// Nothing was done; another instance may be tried.
    Again(Failure),
    Failed(Failure),
}

impl Proxy {
    /// Never fails: whatever goes wrong becomes an answer.
    pub(crate) async fn serve(&self, request: Request<Incoming>, client: &Client) -> Response<Body> {
        let started = Instant::now();
        let request_id = request_id(&request);
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let host = host_of(&request).unwrap_or_default();
        let mut backend = None;
        let mut response = match self.forward(request, &host, client, &request_id, &mut backend).await {
            Ok(response) => response,
            Err(failure) => failure.response(),
        };
        response.headers_mut().entry(&headers::REQUEST_ID).or_insert(request_id);
        let status = response.status().as_u16();
        self.metrics.answered(status, started.elapsed());
        let backend = backend.map(|endpoint: Arc<Endpoint>| endpoint.identity.instance_id.clone()).unwrap_or_default();
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(%method, host, path, status, backend, ms, client = %client.from, "answered");
        response
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        host: &str,
        client: &Client,
        request_id: &HeaderValue,
        backend: &mut Option<Arc<Endpoint>>,
    ) -> Result<Response<Body>, Failure> {
        let mut errand = self.errand(request, host.to_owned())?;
        headers::forward(&mut errand.head.headers, Origin { from: client.from, tls: client.tls }, request_id);
        let mut tried: Vec<Arc<Endpoint>> = Vec::new();
        let mut last = None;
        while tried.len() < self.config.limits.attempts_max.max(1) {
            let chosen = self.choose(&errand, &tried);
            let endpoint = match chosen {
                Choice::Endpoint(endpoint) => endpoint,
                Choice::UnknownRoute if last.is_none() => return Err(Failure::UnknownRoute { uri: errand.uri() }),
                Choice::NoEndpoints if last.is_none() => return Err(Failure::NoEndpoints { uri: errand.uri() }),
                Choice::UnknownRoute | Choice::NoEndpoints => break,
            };
            if last.is_some() {
                self.metrics.retries.inc();
            }
            *backend = Some(Arc::clone(&endpoint));
            match self.attempt(&mut errand, &endpoint, client).await {
                Attempt::Answered(response) => {
                    endpoint.recover();
                    return Ok(*response);
                }
                Attempt::Failed(failure) => return Err(failure),
                Attempt::Again(failure) => {
                    endpoint.fail(Instant::now());
                    last = Some(failure);
                    tried.push(endpoint);
                }
            }
        }
        Err(last.unwrap_or(Failure::Endpoint { reason: "none tried" }))
    }

    fn errand(&self, request: Request<Incoming>, host: String) -> Result<Errand, Failure> {
        if request.method() == Method::CONNECT {
            return Err(Failure::Connect);
        }
        if host.is_empty() {
            return Err(Failure::EmptyHost);
        }
        let mut request = request;
        let wish = wish_of(&request)?;
        let protocol = headers::strip(request.headers_mut());
        let upgrade = protocol.map(|protocol| (protocol, hyper::upgrade::on(&mut request)));
        let (mut head, body) = request.into_parts();
        // The client was told to go on when its body was first asked for.
        head.headers.remove(EXPECT);
        let harmless = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let repeatable = harmless && body.is_end_stream() && upgrade.is_none();
        let upload = Some(Upload::new(body, self.config.limits.client_stall_timeout));
        Ok(Errand { head, host, wish, upload, repeatable, upgrade })
    }

    fn choose(&self, errand: &Errand, tried: &[Arc<Endpoint>]) -> Choice {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.choose(&errand.host, errand.head.uri.path(), errand.wish.as_ref(), tried, Instant::now())
    }

    async fn attempt(&self, errand: &mut Errand, endpoint: &Arc<Endpoint>, client: &Client) -> Attempt {
        let in_flight = InFlight::new(Arc::clone(endpoint));
        loop {
            let (sender, reused) = match self.connection(errand, endpoint).await {
                Ok(connection) => connection,
                Err(failure) => return Attempt::Again(failure),
            };
            let Some(upload) = errand.upload.take() else {
                return Attempt::Failed(Failure::Endpoint { reason: "the request was consumed" });
            };
            let sent = upstream::send(sender, errand.request(upload, endpoint));
            let Ok((sent, sender)) = timeout(self.config.limits.backend_timeout, sent).await else {
                self.metrics.backend_failed("timeout");
                return Attempt::Failed(Failure::Timeout);
            };
            let mut error = match sent {
                Ok(response) => {
                    return Attempt::Answered(Box::new(self.answer(errand, response, sender, in_flight, client)));
                }
                Err(error) => error,
            };
            if let Some(request) = error.take_message() {
                // It never left. A connection that had waited proves nothing about the instance.
                errand.upload = Some(request.into_body());
                if reused {
                    continue;
                }
            } else if errand.repeatable {
                errand.upload = Some(Upload::empty());
                if reused {
                    continue;
                }
            } else {
                let error = error.into_error();
                tracing::debug!(%error, "a backend failed with a request that may not be repeated");
                if error.is_user() {
                    return Attempt::Failed(Failure::Client);
                }
                self.metrics.backend_failed("cut");
                return Attempt::Failed(Failure::Endpoint { reason: "connection lost" });
            }
            self.metrics.backend_failed("cut");
            return Attempt::Again(Failure::Endpoint { reason: "connection lost" });
        }
    }

    /// A connection, and whether it has served another request before.
    async fn connection(&self, errand: &Errand, endpoint: &Endpoint) -> Result<(Sender, bool), Failure> {
        let limits = &self.config.limits;
        if errand.upgrade.is_none()
            && let Some(sender) = endpoint.idle.take(errand.repeatable, limits.idle_connection_timeout).await
        {
            return Ok((sender, true));
        }
        let tls = self.config.backend_tls.as_ref();
        match upstream::connect(&endpoint.identity, tls, limits.backend_connect_timeout).await {
            Ok(sender) => Ok((sender, false)),
            Err(error) => {
                tracing::debug!(%error, instance = endpoint.identity.instance_id, "a backend cannot be reached");
                self.metrics.backend_failed(error.reason());
                Err(Failure::Endpoint { reason: error.reason() })
            }
        }
    }

    fn answer(
        &self,
        errand: &mut Errand,
        mut response: Response<Incoming>,
        sender: Option<Sender>,
        in_flight: InFlight,
        client: &Client,
    ) -> Response<Body> {
        let limits = &self.config.limits;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some((_, near)) = errand.upgrade.take()
        {
            let far = hyper::upgrade::on(&mut response);
            let place = Arc::clone(&client.place);
            self.metrics.upgrades.inc();
            tokio::spawn(tunnel::run(near, far, limits.upgrade_idle_timeout, (in_flight, place)));
            let (head, _) = response.into_parts();
            return Response::from_parts(head, Body::text(String::new()));
        }
        let (mut head, body) = response.into_parts();
        headers::strip(&mut head.headers);
        let idle_max = limits.idle_connections_per_endpoint_max;
        Response::from_parts(head, Body::relay(body, sender, in_flight, limits.backend_timeout, idle_max))
    }
}

impl Errand {
    fn uri(&self) -> String {
        let shown: String = self.host.chars().filter(|c| !c.is_control()).collect();
        shown
    }

    fn request(&self, upload: Upload, to: &Endpoint) -> Request<Upload> {
        let mut request = Request::new(upload);
        *request.method_mut() = self.head.method.clone();
        let target = self.head.uri.path_and_query().map_or("/", |target| target.as_str());
        // A part of a parsed address is one; the alternative only spares a panic.
        *request.uri_mut() = target.parse().unwrap_or_else(|_| Uri::from_static("/"));
        *request.headers_mut() = self.head.headers.clone();
        headers::address(request.headers_mut(), &to.identity);
        if let Some((protocol, _)) = &self.upgrade {
            headers::want_upgrade(request.headers_mut(), protocol.clone());
        }
        request
    }
}

/// In lower case, without port.
fn host_of<B>(request: &Request<B>) -> Option<String> {
    let header = || request.headers().get(HOST).and_then(|host| host.to_str().ok()).map(ToOwned::to_owned);
    let host = request.uri().authority().map(|authority| authority.as_str().to_owned()).or_else(header)?;
    let host = host.rsplit_once('@').map_or(host.as_str(), |(_, host)| host);
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    Some(without_port.to_ascii_lowercase())
}

/// The id under which a request is known on its whole way; drawn here, if the client has none.
fn request_id<B>(request: &Request<B>) -> HeaderValue {
    let given = request.headers().get(&headers::REQUEST_ID);
    if let Some(given) = given.filter(|given| !given.is_empty() && given.len() <= REQUEST_ID_BYTES_MAX) {
        return given.clone();
    }
    let drawn = format!("{:032x}", rand::random::<u128>());
    HeaderValue::try_from(drawn).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

fn wish_of<B>(request: &Request<B>) -> Result<Option<Wish>, Failure> {
    let Some(value) = request.headers().get(&headers::APP_INSTANCE) else { return Ok(None) };
    let pair = value.to_str().ok().and_then(|text| text.split_once(':'));
    let (app, index) = pair.ok_or(Failure::BadInstanceWish)?;
    if app.is_empty() || index.is_empty() || !index.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::BadInstanceWish);
    }
    Ok(Some(Wish { app: app.to_owned(), index: index.to_owned() }))
}
