//! How a connection to Locket is made: TCP, then TLS with certificates on both sides, then HTTP/2 or nothing.
//!
//! tonic could do TLS by itself, with another choice of suites and versions than everywhere else; see [`crate::client::tls`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

use super::LocketError;
use crate::client::tls::{TlsFiles, client_config};

/// How long one attempt to connect may take, name and handshake included.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
const HTTP2: &[u8] = b"h2";

#[derive(Clone, Debug)]
pub(super) struct Dial {
    host: Arc<str>,
    port: u16,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

impl Dial {
    pub(super) fn new(address: &str, files: &TlsFiles) -> Result<Self, LocketError> {
        let wrong = || LocketError::Address { address: address.to_owned() };
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| wrong())?;
        let name = ServerName::try_from(host.to_owned()).map_err(|_| wrong())?;
        let mut tls = ClientConfig::clone(&*client_config(files)?);
        tls.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Self { host: host.into(), port, name, tls: Arc::new(tls) })
    }

    async fn connect(self) -> io::Result<TokioIo<TlsStream<TcpStream>>> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(self.tls).connect(self.name, stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return Err(io::Error::other("it does not speak HTTP/2, so it is no Locket"));
        }
        Ok(TokioIo::new(stream))
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dial = self.clone();
        Box::pin(async move {
            let late = |_| io::Error::other(format!("no connection within {} s", CONNECT_LIMIT.as_secs()));
            timeout(CONNECT_LIMIT, dial.connect()).await.map_err(late)?
        })
    }
}
