//! A backend that does what its path says, and can be killed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    alive: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    active: AtomicUsize,
    served: AtomicUsize,
    release: Notify,
    entered: Notify,
    dead: Notify,
}

impl Backend {
    pub(crate) async fn start(name: &str) -> Self {
        Self::with(name, None).await
    }

    /// With a certificate, it speaks TLS only.
    pub(crate) async fn with(name: &str, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (alive, dead) = watch::channel(true);
        let state = Arc::new(State::default());
        let (shared, own) = (state.clone(), name.to_owned());
        let mut end = dead.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = tokio::select! {
                    _ = end.wait_for(|alive| !*alive) => return,
                    accepted = listener.accept() => accepted.unwrap(),
                };
                let (state, name, end) = (shared.clone(), own.clone(), dead.clone());
                match &tls {
                    None => drop(tokio::spawn(speak(stream, name, state, end))),
                    Some(tls) => {
                        let acceptor = tokio_rustls::TlsAcceptor::from(tls.clone());
                        tokio::spawn(async move {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                speak(stream, name, state, end).await;
                            }
                        });
                    }
                }
            }
        });
        Self { name: name.to_owned(), address, state, alive }
    }

    /// Cuts all connections and listens no more.
    pub(crate) fn kill(&self) {
        self.alive.send_replace(false);
        self.state.dead.notify_waiters();
    }

    pub(crate) fn active(&self) -> usize {
        self.state.active.load(Ordering::SeqCst)
    }

    pub(crate) fn served(&self) -> usize {
        self.state.served.load(Ordering::SeqCst)
    }

    /// Returns when a request waits in `/wait`.
    pub(crate) async fn entered(&self) {
        self.state.entered.notified().await;
    }

    /// Lets a request that waits in `/wait` go on.
    pub(crate) fn release(&self) {
        self.state.release.notify_one();
    }
}

async fn speak<S>(stream: S, name: String, state: Arc<State>, mut end: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| serve(request, name.clone(), state.clone()));
    let http = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::select! {
        _ = end.wait_for(|alive| !*alive) => {}
        _ = http => {}
    }
}

async fn serve(request: Request<Incoming>, name: String, state: Arc<State>) -> Result<Response<Body>, Infallible> {
    state.active.fetch_add(1, Ordering::SeqCst);
    let response = act(request, name, state.clone()).await;
    state.active.fetch_sub(1, Ordering::SeqCst);
    state.served.fetch_add(1, Ordering::SeqCst);
    Ok(response)
}

fn text(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

async fn act(mut request: Request<Incoming>, name: String, state: Arc<State>) -> Response<Body> {
    if request.headers().contains_key(UPGRADE) {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            let mut buffer = [0; 1024];
            let dead = state.dead.notified();
            let echo = async {
                while let Ok(read) = stream.read(&mut buffer).await {
                    if read == 0 || stream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = dead => {}
                () = echo => {}
            }
        });
        let switch = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        return switch.header(CONNECTION, "upgrade").header(UPGRADE, "websocket").body(text(String::new())).unwrap();
    }
    match request.uri().path() {
        "/echo" => Response::new(request.into_body().boxed_unsync()),
        "/wait" => {
            state.entered.notify_one();
            state.release.notified().await;
            Response::new(text(format!("{name} waited\n")))
        }
        "/teapot" => {
            let answer = Response::builder().status(StatusCode::IM_A_TEAPOT).header("x-own", "1");
            answer.header("keep-alive", "5").body(text(String::new())).unwrap()
        }
        "/headers" => {
            let shown = request.headers().iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
            let mut lines: Vec<String> = shown.collect();
            lines.sort();
            Response::new(text(format!("{} {}\n{}", request.method(), request.uri(), lines.concat())))
        }
        "/flood" => {
            let frames = futures_util::stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[7; 65_536]))));
            Response::new(StreamBody::new(frames).boxed_unsync())
        }
        "/half" => {
            let frames = futures_util::stream::once(async { Ok(Frame::data(Bytes::from_static(b"half"))) });
            let endless = frames.chain(futures_util::stream::pending());
            let answer = Response::builder().header("content-length", "8");
            answer.body(StreamBody::new(endless).boxed_unsync()).unwrap()
        }
        "/upload" => {
            let length = request.into_body().collect().await.map(|body| body.to_bytes().len());
            Response::new(text(format!("{name} got {}\n", length.unwrap_or_default())))
        }
        _ => Response::new(text(name)),
    }
}
