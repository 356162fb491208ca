//! Fetching files and sending them: `http`, `https` and `file`.
//!
//! Addresses of droplets and build packs hold credentials, so that an error names the host and nothing else of an address.
//! Redirects are followed. TLS needs authorities that the operator names; without them `https` is refused.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use md5::Digest;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

const CONNECT_MS_MAX: u64 = 10_000;
/// Between two pieces of an answer.
const SILENCE_MS_MAX: u64 = 60_000;
const UPLOAD_MS_MAX: u64 = 600_000;
const REDIRECTS_MAX: usize = 10;
const PIECE_BYTES_MAX: usize = 64 * 1024;

type Body = UnsyncBoxBody<Bytes, io::Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("the address is not one that files can be fetched from or sent to: {why}")]
    Address { why: &'static str },
    #[error("{host} answered with status {status}")]
    Refused { host: String, status: StatusCode },
    #[error("{host} cannot be reached or broke off: {why}")]
    Broken { host: String, why: String },
    #[error("the file cannot be read")]
    File(#[from] io::Error),
}

impl TransferError {
    /// Whether it may go better at once.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            TransferError::Refused { status, .. } => status.is_server_error(),
            TransferError::Broken { .. } => true,
            TransferError::Address { .. } | TransferError::File(_) => false,
        }
    }
}

/// By what a server knows whether a file has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Validators {
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

/// A file that is being fetched.
pub(crate) enum Fetched {
    /// The one that we have is still right.
    Unchanged,
    Local(File),
    Remote(Box<Remote>),
}

pub(crate) struct Remote {
    host: String,
    body: Incoming,
    pub(crate) validators: Validators,
    _sender: hyper::client::conn::http1::SendRequest<Body>,
}

impl Remote {
    /// The next piece; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, TransferError> {
        let broken = |why: String| TransferError::Broken { host: self.host.clone(), why };
        loop {
            let frame = tokio::time::timeout(Duration::from_millis(SILENCE_MS_MAX), self.body.frame()).await;
            match frame.map_err(|_| broken("it fell silent".to_owned()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(broken(error.to_string())),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Transfer {
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

impl Transfer {
    pub(crate) async fn fetch(&self, address: &str, known: &Validators) -> Result<Fetched, TransferError> {
        let mut url = parse(address)?;
        if url.scheme() == "file" {
            let path = url.to_file_path().map_err(|()| TransferError::Address { why: "it is not a path" })?;
            return Ok(Fetched::Local(File::open(path)?));
        }
        for _ in 0..REDIRECTS_MAX {
            let mut request = Request::get(url.path_query()).header(header::ACCEPT_ENCODING, "identity");
            if let Some(etag) = &known.etag {
                request = request.header(header::IF_NONE_MATCH, etag);
            } else if let Some(modified) = &known.modified {
                request = request.header(header::IF_MODIFIED_SINCE, modified);
            }
            let (response, sender) = self.ask(&url, request, empty()).await?;
            match response.status() {
                StatusCode::OK => return Ok(remote(&url, response, sender)),
                StatusCode::NOT_MODIFIED => return Ok(Fetched::Unchanged),
                status if status.is_redirection() => url = redirected(&url, &response)?,
                status => return Err(TransferError::Refused { host: host(&url), status }),
            }
        }
        Err(TransferError::Address { why: "it is redirected without end" })
    }

    /// Sends a file as Diego does: in one `POST`, with its checksums.
    pub(crate) async fn send(&self, address: &str, mut file: File) -> Result<u64, TransferError> {
        let url = parse(address)?;
        if url.scheme() == "file" {
            return Err(TransferError::Address { why: "files are sent over http and https only" });
        }
        let (bytes, md5, sha256) = sums(&mut file)?;
        let request = Request::post(url.path_query())
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_LENGTH, bytes)
            .header("content-md5", STANDARD.encode(md5))
            .header("content-digest", format!("sha-256=:{}:", STANDARD.encode(sha256)));
        file.rewind()?;
        let exchange = self.ask(&url, request, contents(file));
        let answered = tokio::time::timeout(Duration::from_millis(UPLOAD_MS_MAX), exchange).await;
        let silent = || TransferError::Broken { host: host(&url), why: "it took too long".to_owned() };
        let (response, _sender) = answered.map_err(|_| silent())??;
        match response.status() {
            status if status.is_client_error() || status.is_server_error() => {
                Err(TransferError::Refused { host: host(&url), status })
            }
            _ => Ok(bytes),
        }
    }

    async fn ask(
        &self,
        url: &Url,
        request: hyper::http::request::Builder,
        body: Body,
    ) -> Result<(Response<Incoming>, hyper::client::conn::http1::SendRequest<Body>), TransferError> {
        let broken = |why: String| TransferError::Broken { host: host(url), why };
        let mut request = request.header(header::HOST, authority(url)).header(header::USER_AGENT, "corkboard");
        if !url.username().is_empty() || url.password().is_some() {
            let credentials = STANDARD.encode(format!("{}:{}", url.username(), url.password().unwrap_or_default()));
            request = request.header(header::AUTHORIZATION, format!("Basic {credentials}"));
        }
        let request = request.body(body).map_err(|error| broken(error.to_string()))?;
        let connect = tokio::time::timeout(Duration::from_millis(CONNECT_MS_MAX), self.connect(url)).await;
        let stream = connect.map_err(|_| broken("it does not answer".to_owned()))??;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| broken(error.to_string()))?;
        // Ends with the answer, whose owner keeps the sender.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let response = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
        Ok((response, sender))
    }

    async fn connect(&self, url: &Url) -> Result<Box<dyn Duplex>, TransferError> {
        let broken = |error: io::Error| TransferError::Broken { host: host(url), why: error.to_string() };
        let name = url.host_str().ok_or(TransferError::Address { why: "it has no host" })?;
        let port = url.port_or_known_default().ok_or(TransferError::Address { why: "it has no port" })?;
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await.map_err(broken)?;
        if url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let why = "https needs certificate authorities, and none are configured for downloads";
        let tls = self.tls.clone().ok_or(TransferError::Address { why })?;
        let name = ServerName::try_from(bare.to_owned());
        let name = name.map_err(|_| TransferError::Address { why: "its host is not a name" })?;
        Ok(Box::new(TlsConnector::from(tls).connect(name, stream).await.map_err(broken)?))
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

trait PathQuery {
    fn path_query(&self) -> &str;
}

impl PathQuery for Url {
    fn path_query(&self) -> &str {
        &self[url::Position::BeforePath..url::Position::AfterQuery]
    }
}

fn parse(address: &str) -> Result<Url, TransferError> {
    let url = Url::parse(address).map_err(|_| TransferError::Address { why: "it is not a URL" })?;
    match url.scheme() {
        "http" | "https" | "file" => Ok(url),
        _ => Err(TransferError::Address { why: "its scheme is neither http, https nor file" }),
    }
}

fn redirected(from: &Url, response: &Response<Incoming>) -> Result<Url, TransferError> {
    let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
    let mut to =
        to.and_then(|to| from.join(to).ok()).ok_or(TransferError::Address { why: "it is redirected to nowhere" })?;
    if !matches!(to.scheme(), "http" | "https") {
        return Err(TransferError::Address { why: "it is redirected to something that is not http" });
    }
    if (to.host_str(), to.port_or_known_default()) == (from.host_str(), from.port_or_known_default()) {
        // Credentials go back to who had them, and to nobody else.
        let _ = to.set_username(from.username());
        let _ = to.set_password(from.password());
    }
    Ok(to)
}

fn remote(url: &Url, response: Response<Incoming>, sender: hyper::client::conn::http1::SendRequest<Body>) -> Fetched {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
    let validators = Validators { etag: text(header::ETAG), modified: text(header::LAST_MODIFIED) };
    Fetched::Remote(Box::new(Remote { host: host(url), body: response.into_body(), validators, _sender: sender }))
}

fn host(url: &Url) -> String {
    format!("{}://{}", url.scheme(), authority(url))
}

fn authority(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn contents(file: File) -> Body {
    let pieces = stream::try_unfold(file, |mut file| async move {
        let mut piece = vec![0; PIECE_BYTES_MAX];
        let bytes = file.read(&mut piece)?;
        piece.truncate(bytes);
        Ok((bytes > 0).then(|| (Frame::data(Bytes::from(piece)), file)))
    });
    StreamBody::new(pieces).boxed_unsync()
}

fn sums(file: &mut File) -> io::Result<(u64, Vec<u8>, Vec<u8>)> {
    let (mut md5, mut sha256) = (md5::Md5::default(), digest::Context::new(&digest::SHA256));
    let (mut piece, mut total) = (vec![0; PIECE_BYTES_MAX], 0);
    loop {
        let bytes = file.read(&mut piece)?;
        if bytes == 0 {
            return Ok((total, md5.finalize().to_vec(), sha256.finish().as_ref().to_vec()));
        }
        total += bytes as u64;
        md5.update(&piece[..bytes]);
        sha256.update(&piece[..bytes]);
    }
}
