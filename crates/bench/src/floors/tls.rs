//! A TLS server that does nothing but answer, to know what the loopback device, the cipher and the runtime cost.
//!
//! It runs in a thread of its own beside the client, as the real server is a process beside it: both share the cores.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::Echo;
use crate::certificates::Certificates;
use crate::latency::Latencies;
use crate::stopwatch::Stopwatch;

/// A claim with its headers, and the answer to it.
const REQUEST_BYTES: usize = 400;
const ANSWER_BYTES: usize = 150;
const ECHO_TIME: Duration = Duration::from_secs(2);
const BULK_BYTES: usize = 1_000_000_000;
const BULK_CHUNK_BYTES: usize = 256 * 1024;

const KIND_ECHO: u8 = 1;
const KIND_BULK: u8 = 2;

pub(super) struct Loopback {
    address: std::net::SocketAddr,
    connector: TlsConnector,
}

impl Loopback {
    /// The server lives as long as this process.
    pub(super) async fn start(certificates: &Certificates) -> anyhow::Result<Self> {
        let (cert, key) = certificates.server();
        let acceptor = TlsAcceptor::from(api::client::tls::server_config(&certificates.ca(), &cert, &key)?);
        let connector = TlsConnector::from(api::client::tls::client_config(&certificates.client())?);
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("floor-server".into()).spawn(move || {
            runtime.block_on(async move {
                // A failure shows at the client, which measures nothing then.
                if let Ok(listener) = TcpListener::from_std(listener) {
                    while let Ok((tcp, _)) = listener.accept().await {
                        tokio::spawn(serve(acceptor.clone(), tcp));
                    }
                }
            });
        })?;
        Ok(Self { address, connector })
    }

    pub(super) async fn echo(&self, connections: u64) -> anyhow::Result<Echo> {
        let mut clients = JoinSet::new();
        for _ in 0..connections {
            let mut stream = self.connect(KIND_ECHO).await?;
            clients.spawn(async move {
                let (watch, mut latencies) = (Stopwatch::start(), Latencies::default());
                let (request, mut answer) = ([1; REQUEST_BYTES], [0; ANSWER_BYTES]);
                while watch.elapsed() < ECHO_TIME {
                    let call = Stopwatch::start();
                    stream.write_all(&request).await?;
                    stream.read_exact(&mut answer).await?;
                    latencies.record(call.elapsed());
                }
                anyhow::Ok(latencies)
            });
        }
        let watch = Stopwatch::start();
        let mut all = Latencies::default();
        for latencies in clients.join_all().await {
            all.merge(&latencies?);
        }
        let latency = all.summary();
        Ok(Echo { per_s: latency.count as f64 / watch.seconds(), latency })
    }

    pub(super) async fn bulk_mb_per_s(&self) -> anyhow::Result<f64> {
        let mut stream = self.connect(KIND_BULK).await?;
        let mut buffer = vec![0; BULK_CHUNK_BYTES];
        let (watch, mut got) = (Stopwatch::start(), 0);
        while got < BULK_BYTES {
            match stream.read(&mut buffer).await? {
                0 => anyhow::bail!("the server of the TLS floor closed the connection after {got} bytes"),
                read => got += read,
            }
        }
        Ok(got as f64 / 1e6 / watch.seconds())
    }

    async fn connect(&self, kind: u8) -> anyhow::Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        let mut stream = self.connector.connect(ServerName::try_from("localhost")?, tcp).await?;
        stream.write_all(&[kind]).await?;
        Ok(stream)
    }
}

async fn serve(acceptor: TlsAcceptor, tcp: TcpStream) -> std::io::Result<()> {
    tcp.set_nodelay(true)?;
    let mut stream = acceptor.accept(tcp).await?;
    if stream.read_u8().await? == KIND_BULK {
        let chunk = Arc::new(vec![3; BULK_CHUNK_BYTES]);
        loop {
            stream.write_all(&chunk).await?;
        }
    }
    let (mut request, answer) = ([0; REQUEST_BYTES], [2; ANSWER_BYTES]);
    loop {
        stream.read_exact(&mut request).await?;
        stream.write_all(&answer).await?;
    }
}
