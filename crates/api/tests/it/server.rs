//! A server that reads requests and answers with prepared bytes.
//!
//! It is written on sockets and not on an HTTP library, because half of the tests are about answers that no library
//! would give. Each request takes the next reply, whichever connection it comes on; when none is left, the last one is
//! given again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use api::client::{Client, ClientConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[derive(Clone)]
pub(crate) enum Reply {
    /// The connection stays open for the next request.
    Bytes(Vec<u8>),
    /// The connection is closed after these bytes; with none, without any answer.
    BytesThenClose(Vec<u8>),
    /// The request is read and never answered.
    Silence,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &'_ &str| line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name));
        self.head.lines().find(named).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        Self::start_with(replies, None).await
    }

    pub(crate) async fn start_with(replies: Vec<Reply>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, connections) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<AtomicUsize>::default());
        let (seen, accepted) = (Arc::clone(&requests), Arc::clone(&connections));
        let replies = Arc::new(replies);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (seen, replies, tls) = (Arc::clone(&seen), Arc::clone(&replies), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &seen, &replies).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &seen, &replies).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, requests, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(|_| {})
    }

    pub(crate) fn client_with(&self, change: impl FnOnce(&mut ClientConfig)) -> Client {
        let mut config = ClientConfig::once(self.url(), None);
        change(&mut config);
        Client::new(config).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, seen: &Mutex<Vec<Seen>>, replies: &[Reply]) {
    while let Some(request) = read_request(&mut stream).await {
        let place = {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            (seen.len() - 1).min(replies.len() - 1)
        };
        match &replies[place] {
            Reply::Bytes(bytes) => stream.write_all(bytes).await.unwrap(),
            Reply::BytesThenClose(bytes) => {
                stream.write_all(bytes).await.unwrap();
                // Says goodbye properly, so that under TLS too the peer sees an end and not a failure.
                let _ = stream.shutdown().await;
                return;
            }
            Reply::Silence => std::future::pending().await,
        }
    }
}

async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let mut seen = Seen { head: String::from_utf8(head).unwrap(), body: Vec::new() };
    let length = seen.header("content-length").map_or(0, |text| text.parse().unwrap());
    seen.body.resize(length, 0);
    stream.read_exact(&mut seen.body).await.ok()?;
    Some(seen)
}

/// An answer as Diego gives it.
pub(crate) fn protobuf(body: &[u8]) -> Reply {
    answer("200 OK", "Content-Type: application/x-protobuf\r\n", body)
}

pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Reply {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    Reply::Bytes([head.as_bytes(), body].concat())
}
