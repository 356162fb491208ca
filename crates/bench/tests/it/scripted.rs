//! A server with TLS and HTTP/1.1 whose answers are bytes we chose, in this process.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use corkboard_bench::certificates::Certificates;
use corkboard_bench::connection::Target;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_rustls::TlsAcceptor;
use url::Url;

/// What the server says to a path: status, content type, body.
pub(crate) type Script = dyn Fn(&str, &[u8]) -> (u16, &'static str, Vec<u8>) + Send + Sync;

pub(crate) struct Scripted {
    pub(crate) target: Target,
    pub(crate) requests: Arc<AtomicU64>,
    _certificates: TempDir,
}

pub(crate) const PROTOBUF: &str = "application/x-protobuf";
const CRASH_PATH: &str = "/v1/actual_lrps/crash";
const STREAM_PATH: &str = "/v1/events/lrp_instances.r1";

impl Scripted {
    /// `events_per_crash` are sent to all subscribers at every crash.
    pub(crate) async fn start(events_per_crash: u64, script: Arc<Script>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let certificates = Certificates::create(dir.path()).unwrap();
        let (cert, key) = certificates.server();
        let acceptor = TlsAcceptor::from(api::client::tls::server_config(&certificates.ca(), &cert, &key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("https://localhost:{}", listener.local_addr().unwrap().port())).unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&requests);
        let (events, _) = broadcast::channel(100_000);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, script, counter, events) =
                    (acceptor.clone(), Arc::clone(&script), Arc::clone(&counter), events.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = service_fn(move |request| {
                        counter.fetch_add(1, Ordering::Relaxed);
                        answer(request, Arc::clone(&script), events.clone(), events_per_crash)
                    });
                    // The client goes away when it has measured enough.
                    let _ =
                        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), service).await;
                });
            }
        });
        let tls = api::client::tls::client_config(&certificates.client()).unwrap();
        let target = Target::resolve(&url, Some(tls)).await.unwrap();
        Self { target, requests, _certificates: dir }
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
    events: broadcast::Sender<u64>,
    events_per_crash: u64,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    if path == STREAM_PATH {
        return Ok(Response::new(Stream(Box::pin(follow(events.subscribe()))).boxed_unsync()));
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    if path == CRASH_PATH {
        // Nobody may be listening.
        (0..events_per_crash).for_each(|id| drop(events.send(id)));
    }
    let (status, content_type, bytes) = script(&path, &body);
    let response = Response::builder().status(status).header("content-type", content_type);
    Ok(response.body(Full::new(Bytes::from(bytes)).boxed_unsync()).unwrap())
}

async fn follow(mut events: broadcast::Receiver<u64>) -> (Bytes, broadcast::Receiver<u64>) {
    let id = events.recv().await.unwrap();
    (api::sse::frame(id, "actual_lrp_instance_changed", b"payload"), events)
}

type Following = std::pin::Pin<Box<dyn Future<Output = (Bytes, broadcast::Receiver<u64>)> + Send>>;

/// A body without end: one frame per event.
struct Stream(Following);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let following = &mut self.get_mut().0;
        following.as_mut().poll(context).map(|(bytes, events)| {
            *following = Box::pin(follow(events));
            Some(Ok(Frame::data(bytes)))
        })
    }
}
