//! HTTP as bytes on a socket, for what a well-behaved client would hide.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::PATIENCE;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let name_of = |line: &'_ str| line.split_once(':').map_or(String::new(), |(name, _)| name.to_ascii_lowercase());
        let line = self.head.lines().find(|line| name_of(line) == name)?;
        Some(line.split_once(':')?.1.trim())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// What came before the connection ended, if it was an answer at all.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..at].to_vec()).ok()?;
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        Some(Self { status, head, body: bytes[at + 4..].to_vec() })
    }
}

pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Sends the bytes and reads until the server closes. `None`: it closed without an answer.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> Option<Reply> {
    let mut stream = connect(address).await;
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(bytes).await;
    Reply::parse(&read_to_end(&mut stream).await)
}

pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset counts as an end here; what came before it is kept.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server ends the connection");
    bytes
}

/// Reads until the text has come, and returns all that came.
pub(crate) async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&bytes).contains(text) {
            let more = stream.read_buf(&mut bytes).await.unwrap();
            assert!(more > 0, "the connection ended before {text:?}: {:?}", String::from_utf8_lossy(&bytes));
        }
    };
    timeout(PATIENCE, reading).await.expect("the server sends it in time");
    String::from_utf8(bytes).unwrap()
}

/// A request head and body. The connection is for this request only.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: bbs\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub(crate) async fn post(address: SocketAddr, path: &str, body: &[u8]) -> Reply {
    exchange(address, &request("POST", path, "", body)).await.expect("an answer")
}

/// The route with its own method.
pub(crate) async fn call(address: SocketAddr, route: api::Route, body: &[u8]) -> Reply {
    exchange(address, &request(route.method().as_str(), route.path(), "", body)).await.expect("an answer")
}
