//! The health port: alive in every phase, on every node. Plain HTTP, meant for loopback and the platform's own network.
//!
//! `/status` and `/nodes` are for people and scripts, `/metrics` for Prometheus. Every other path answers 200, as the health
//! checks of existing deployments expect.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::status::StatusSource;

/// Scrapers and probes are few; more than this many connections at once are closed.
const CONNECTIONS_MAX: usize = 256;
const HEADER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

pub async fn serve(listener: TcpListener, source: Arc<StatusSource>, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let source = source.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&source, request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a health connection ended badly");
            }
            drop(place);
        });
    }
}

async fn answer(source: &StatusSource, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (kind, body) = match request.uri().path() {
        "/nodes" => match source.nodes_json().await {
            Ok(nodes) => ("application/json", nodes),
            Err(error) => {
                let refusal = serde_json::json!({ "code": "store", "message": error, "next": null }).to_string();
                let mut response = Response::new(Full::new(Bytes::from(refusal)));
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                return Ok(response);
            }
        },
        "/status" => ("application/json", source.status_json()),
        "/metrics" => ("application/openmetrics-text; version=1.0.0; charset=utf-8", source.metrics_text()),
        _ => ("text/plain; charset=utf-8", String::new()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}
