//! A client that opens a connection for each request, unless it is told to keep one.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Status and the router's own word, if it is an error of the router.
    pub(crate) fn verdict(&self) -> String {
        format!("{} {}", self.status.as_u16(), self.header("x-cf-routererror"))
    }
}

pub(crate) fn request(method: Method, host: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("host", host);
    request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

pub(crate) async fn send(to: SocketAddr, request: Request<Full<Bytes>>) -> Result<Answer, hyper::Error> {
    let stream = TcpStream::connect(to).await.expect("the router listens");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    exchange(&mut sender, request).await
}

pub(crate) async fn exchange(
    sender: &mut hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Answer, hyper::Error> {
    sender.ready().await?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status: head.status, headers: head.headers, body: String::from_utf8(body.to_vec()).unwrap() })
}

pub(crate) async fn get(to: SocketAddr, host: &str, path: &str) -> Answer {
    send(to, request(Method::GET, host, path, "")).await.unwrap()
}
