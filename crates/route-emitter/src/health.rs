//! Answers "are you there" and shows the counters. Whatever is asked, the answer is 200 as long as the process lives, as with
//! Diego's emitter: an emitter whose state server or bus is away does its best, and ending it would not help.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::metrics::Metrics;

/// More are closed at once.
const CONNECTIONS_MAX: usize = 64;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &metrics))));
            let mut http = http1::Builder::new();
            let connection = http
                .timer(TokioTimer::new())
                .header_read_timeout(IDLE_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a health connection ended badly");
            }
            drop(place);
        });
    }
}

fn answer<B>(request: &Request<B>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (kind, text) = match request.uri().path() {
        "/metrics" => ("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.render()),
        _ => ("text/plain; charset=utf-8", "ok\n".to_owned()),
    };
    let mut response = Response::new(Full::new(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
