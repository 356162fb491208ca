//! The health port: open from the first moment, on standby too. Plain HTTP, meant for the platform's own network.
//!
//! `/metrics` is for Prometheus. Every other path answers 200, as health checks expect; whether this auctioneer is the
//! active one is the metric `lock_held`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::metrics::Metrics;

/// Scrapers and probes are few; more than this many connections at once are closed.
const CONNECTIONS_MAX: usize = 64;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if connections.len() >= CONNECTIONS_MAX {
            continue;
        }
        let metrics = metrics.clone();
        connections.spawn(async move {
            let service = service_fn(|request| std::future::ready(answer(&metrics, &request)));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a health connection ended badly");
            }
        });
    }
}

fn answer(metrics: &Metrics, request: &Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (kind, body) = match request.uri().path() {
        "/metrics" => ("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.text()),
        _ => ("text/plain; charset=utf-8", String::new()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}
