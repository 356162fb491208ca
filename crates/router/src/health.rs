//! The port for load balancers and operators: whether to send requests here, the counters, and what is known.
//!
//! `/health` turns to 503 before the door closes, so that whoever looks sends nothing more. `/routes` is the table.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::proxy::Proxy;

/// More are closed at once.
const CONNECTIONS_MAX: usize = 64;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, proxy: Arc<Proxy>, draining: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let (proxy, draining) = (proxy.clone(), draining.clone());
        tokio::spawn(async move {
            let answer = |request: Request<_>| {
                std::future::ready(Ok::<_, Infallible>(answer(&request, &proxy, *draining.borrow())))
            };
            let mut http = http1::Builder::new();
            let http = http.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
            if let Err(error) = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await {
                tracing::debug!(%error, "a health connection ended badly");
            }
            drop(place);
        });
    }
}

fn answer<B>(request: &Request<B>, proxy: &Proxy, draining: bool) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let (status, kind, text) = match request.uri().path() {
        "/health" | "/" if draining => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n".to_owned()),
        "/health" | "/" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/metrics" => (StatusCode::OK, METRICS, counters(proxy)),
        "/routes" => (StatusCode::OK, "application/json", routes(proxy)),
        _ => (StatusCode::NOT_FOUND, TEXT, "there is /health, /metrics and /routes\n".to_owned()),
    };
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn counters(proxy: &Proxy) -> String {
    proxy.metrics.show(&proxy.table.read().unwrap_or_else(PoisonError::into_inner));
    proxy.metrics.render()
}

fn routes(proxy: &Proxy) -> String {
    let table = proxy.table.read().unwrap_or_else(PoisonError::into_inner);
    let mut all = serde_json::Map::new();
    for shown in table.shown(Instant::now()) {
        let endpoint = json!({
            "host": shown.identity.host,
            "port": shown.identity.port,
            "tls_port": shown.identity.tls_port,
            "app": shown.identity.app,
            "instance_id": shown.identity.instance_id,
            "instance_index": shown.identity.instance_index,
            "in_flight": shown.in_flight,
            "heard_s_ago": shown.heard_s_ago,
        });
        let of_route = all.entry(shown.uri).or_insert_with(|| json!([]));
        of_route.as_array_mut().expect("every value is made a list above").push(endpoint);
    }
    serde_json::Value::Object(all).to_string()
}
