//! The other end of an outbound call: a small server that writes down what it hears and answers as it was told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use api::client::tls::{self, TlsFiles};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

/// More than any test sends.
const HEARD_MAX: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Status(u16),
    MovedTo(u16, String),
    /// Answers 503 and asks to be left alone for so many seconds.
    Later(u64),
    /// Answers with the status that is there at that time.
    AsSet(Arc<AtomicU16>),
    /// Ends the connection instead of answering.
    HangUp,
    Never,
    /// Answers 202 once the gate lets one through.
    Gate(Arc<Semaphore>),
}

#[derive(Debug)]
pub(crate) struct Heard {
    /// Method and target.
    pub(crate) line: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Debug)]
pub(crate) struct Peer {
    /// `host:port`.
    pub(crate) address: String,
    heard: mpsc::Receiver<Heard>,
    connections: Arc<Mutex<usize>>,
}

struct Script {
    replies: Mutex<VecDeque<Reply>>,
    last: Reply,
    heard: mpsc::Sender<Heard>,
}

impl Peer {
    /// Gives the replies in order, and the last one for ever.
    pub(crate) async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(replies, None).await
    }

    pub(crate) async fn with_tls(replies: impl IntoIterator<Item = Reply>, pki: &Pki) -> Self {
        let files = pki.files("localhost");
        Self::start(replies, Some(tls::server_config(&files.ca, &files.cert, &files.key).unwrap())).await
    }

    async fn start(replies: impl IntoIterator<Item = Reply>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let replies: VecDeque<_> = replies.into_iter().collect();
        let last = replies.back().cloned().unwrap();
        let (sender, heard) = mpsc::channel(HEARD_MAX);
        let script = Arc::new(Script { replies: Mutex::new(replies), last, heard: sender });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        let connections = Arc::new(Mutex::new(0));
        let counted = connections.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *counted.lock().unwrap() += 1;
                let (script, tls) = (script.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, script).await,
                        // A client that speaks no TLS, or shows no certificate, is not served.
                        Some(tls) => {
                            if let Ok(stream) = tokio_rustls::TlsAcceptor::from(tls).accept(stream).await {
                                serve(stream, script).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, heard, connections }
    }

    pub(crate) async fn next(&mut self) -> Heard {
        self.heard.recv().await.expect("the peer runs as long as the test")
    }

    /// What was heard and not yet looked at.
    pub(crate) fn rest(&mut self) -> Vec<Heard> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }

    pub(crate) fn lines(&mut self) -> Vec<String> {
        self.rest().into_iter().map(|heard| heard.line).collect()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, script: Arc<Script>) {
    let service = service_fn(move |request| answer(request, script.clone()));
    // It fails when a reply hangs up, which is what that reply is for.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, script: Arc<Script>) -> Result<Response<Full<Bytes>>, &'static str> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let reply = script.replies.lock().unwrap().pop_front().unwrap_or_else(|| script.last.clone());
    let heard = Heard {
        line: format!("{} {}", head.method, head.uri),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    assert_eq!(heard.header(CONTENT_TYPE.as_str()), Some("application/json"));
    assert_eq!(heard.header(CONTENT_LENGTH.as_str()), Some(heard.body.len().to_string().as_str()));
    script.heard.send(heard).await.unwrap();
    let status = |status: u16| {
        let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    };
    match reply {
        Reply::Status(code) => Ok(status(code)),
        Reply::MovedTo(code, location) => {
            let mut response = status(code);
            response.headers_mut().insert("location", location.parse().unwrap());
            Ok(response)
        }
        Reply::Later(seconds) => {
            let mut response = status(503);
            response.headers_mut().insert("retry-after", seconds.into());
            Ok(response)
        }
        Reply::AsSet(set) => Ok(status(set.load(Ordering::SeqCst))),
        Reply::HangUp => Err("hung up"),
        Reply::Never => std::future::pending().await,
        Reply::Gate(gate) => {
            gate.acquire().await.unwrap().forget();
            Ok(status(202))
        }
    }
}

/// An authority and the certificates it signed.
#[derive(Debug)]
pub(crate) struct Pki {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(dir.path().join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { dir, issuer: Issuer::new(params, key) }
    }

    /// A fresh pair for this name, good for both ends of a connection.
    pub(crate) fn files(&self, name: &str) -> TlsFiles {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let path = |suffix: &str| self.dir.path().join(format!("{name}{suffix}"));
        std::fs::write(path(".crt"), cert.pem()).unwrap();
        std::fs::write(path(".key"), key.serialize_pem()).unwrap();
        TlsFiles { ca: self.dir.path().join("ca.crt"), cert: path(".crt"), key: path(".key"), skip_verify: false }
    }
}
