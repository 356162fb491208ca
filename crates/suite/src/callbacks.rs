//! Whoever is told that a task has ended: a small server that takes every report and remembers which task it was about.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const REPORT_BYTES_MAX: usize = 64 * 1024;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[derive(Debug)]
pub(crate) struct Callbacks {
    address: SocketAddr,
    paths: Arc<Mutex<BTreeSet<String>>>,
    going: JoinHandle<()>,
}

impl Callbacks {
    pub(crate) async fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let paths: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let noted = paths.clone();
        let going = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let noted = noted.clone();
                tokio::spawn(async move {
                    if let Some(path) = take(stream).await {
                        noted.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
                    }
                });
            }
        });
        Ok(Self { address, paths, going })
    }

    /// Where the end of this task is to be reported.
    pub(crate) fn url(&self, task: &str) -> String {
        format!("http://{}/{task}", self.address)
    }

    pub(crate) fn has(&self, task: &str) -> bool {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).contains(&format!("/{task}"))
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        self.going.abort();
    }
}

/// The path of a request whose head and body are whole, after it was answered.
async fn take(mut stream: TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                stream.write_all(ANSWER).await.ok()?;
                return head.split(' ').nth(1).map(str::to_owned);
            }
        }
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&part[..read]);
        if bytes.len() > REPORT_BYTES_MAX {
            return None;
        }
    }
}
