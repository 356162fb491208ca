//! The four calls of Locket.
//!
//! Promise: a call ends with an answer or an error within the limit that its caller gives. One that got no answer in time may
//! have been carried out; the next call goes over a new connection then, because a line that was cut looks like a slow server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use super::dial::Dial;
use super::proto::locket_client::LocketClient;
use super::proto::{self, FetchAllRequest, FetchRequest, LockRequest, ReleaseRequest, TypeCode};
use super::{LocketError, proto as wire};
use crate::client::tls::TlsFiles;

/// What one answer may take in memory: a list of all cells of a large platform is a few megabytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long after the start Locket may take to answer for the first time.
const READY_LIMIT: Duration = Duration::from_secs(10);
const READY_PAUSE: Duration = Duration::from_millis(250);
const READY_CALL_LIMIT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct Options {
    /// `host:port`.
    pub address: String,
    pub tls: TlsFiles,
    /// How often a connection on which an answer is awaited is probed, and how long it may stay silent then.
    pub keepalive: Option<(Duration, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Lock,
    Presence,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Presence => "presence",
        }
    }

    pub fn code(self) -> TypeCode {
        match self {
            Self::Lock => TypeCode::Lock,
            Self::Presence => TypeCode::Presence,
        }
    }
}

/// Something that has one owner at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub key: String,
    pub owner: String,
    pub value: String,
    pub kind: Kind,
}

impl Resource {
    fn to_wire(&self) -> wire::Resource {
        wire::Resource {
            key: self.key.clone(),
            owner: self.owner.clone(),
            value: self.value.clone(),
            r#type: self.kind.name().to_owned(),
            type_code: self.kind.code().into(),
        }
    }

    /// What is of no kind that we know is a lock: nobody takes it for a cell then.
    fn of_wire(wire: wire::Resource) -> Self {
        let kind = if wire.type_code() == TypeCode::Presence { Kind::Presence } else { Kind::Lock };
        Self { key: wire.key, owner: wire.owner, value: wire.value, kind }
    }
}

#[derive(Clone, Debug)]
pub struct Client {
    address: Arc<str>,
    endpoint: Endpoint,
    dial: Dial,
    channel: Arc<Mutex<Channel>>,
}

impl Client {
    /// Prepares a client and connects with the first call.
    pub fn new(options: &Options) -> Result<Self, LocketError> {
        let wrong = |_| LocketError::Address { address: options.address.clone() };
        let dial = Dial::new(&options.address, &options.tls)?;
        // Our own dialling speaks TLS; tonic must not try to.
        let mut endpoint = Endpoint::from_shared(format!("http://{}", options.address)).map_err(wrong)?;
        let origin = format!("https://{}", options.address).parse();
        endpoint = endpoint.origin(origin.map_err(|_| LocketError::Address { address: options.address.clone() })?);
        if let Some((interval, silence)) = options.keepalive {
            endpoint = endpoint.http2_keep_alive_interval(interval).keep_alive_timeout(silence);
        }
        let channel = endpoint.connect_with_connector_lazy(dial.clone());
        let address = options.address.as_str().into();
        Ok(Self { address, endpoint, dial, channel: Arc::new(Mutex::new(channel)) })
    }

    /// A client whose Locket has answered. A server that starts before its Locket waits a little; one whose Locket is not
    /// there, or does not trust it, hears so.
    pub async fn connect(options: &Options) -> Result<Self, LocketError> {
        let client = Self::new(options)?;
        let until = Instant::now() + READY_LIMIT;
        loop {
            // Any answer will do.
            match client.fetch("", READY_CALL_LIMIT).await {
                Err(error @ LocketError::Unreachable { .. }) if Instant::now() + READY_PAUSE >= until => {
                    return Err(error);
                }
                Err(LocketError::Unreachable { .. }) => tokio::time::sleep(READY_PAUSE).await,
                _ => return Ok(client),
            }
        }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Takes a resource, or keeps it. `call_id` is for Locket's log.
    pub async fn lock(
        &self,
        resource: &Resource,
        ttl: Duration,
        call_id: &str,
        limit: Duration,
    ) -> Result<(), LocketError> {
        let ttl_in_seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        let mut request = Request::new(LockRequest { resource: Some(resource.to_wire()), ttl_in_seconds });
        if let Ok(call_id) = MetadataValue::try_from(call_id) {
            request.metadata_mut().insert("uuid", call_id);
        }
        let doing = format!("asking for the {} {}", resource.kind.name(), resource.key);
        self.call(doing, limit, request, async |mut client, request| client.lock(request).await).await.map(drop)
    }

    /// Gives a resource back. One that is not there is given back already.
    pub async fn release(&self, resource: &Resource, limit: Duration) -> Result<(), LocketError> {
        let request = Request::new(ReleaseRequest { resource: Some(resource.to_wire()) });
        let doing = format!("giving back the {} {}", resource.kind.name(), resource.key);
        self.call(doing, limit, request, async |mut client, request| client.release(request).await).await.map(drop)
    }

    pub async fn fetch(&self, key: &str, limit: Duration) -> Result<Resource, LocketError> {
        let request = Request::new(FetchRequest { key: key.to_owned() });
        let doing = format!("looking for {key}");
        let ask = async |mut client: LocketClient<Channel>, request| client.fetch(request).await;
        let answer: proto::FetchResponse = self.call(doing.clone(), limit, request, ask).await?;
        let nothing = || LocketError::NotFound { doing, message: "the answer is empty".to_owned() };
        answer.resource.map(Resource::of_wire).ok_or_else(nothing)
    }

    pub async fn fetch_all(&self, kind: Kind, limit: Duration) -> Result<Vec<Resource>, LocketError> {
        let request = Request::new(FetchAllRequest { r#type: kind.name().to_owned(), type_code: kind.code().into() });
        let doing = format!("listing all of the kind {}", kind.name());
        let ask = async |mut client: LocketClient<Channel>, request| client.fetch_all(request).await;
        let answer: proto::FetchAllResponse = self.call(doing, limit, request, ask).await?;
        Ok(answer.resources.into_iter().map(Resource::of_wire).collect())
    }

    async fn call<Q, A>(
        &self,
        doing: String,
        limit: Duration,
        mut request: Request<Q>,
        ask: impl AsyncFnOnce(LocketClient<Channel>, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, LocketError> {
        // Locket need not finish what nobody waits for any more.
        request.set_timeout(limit);
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let client = LocketClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let error = match timeout(limit, ask(client, request)).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => LocketError::of(doing, &self.address, &status),
            Err(_) => {
                let why = format!("nothing came back within {limit:?}");
                LocketError::Unreachable { doing, address: self.address.to_string(), why }
            }
        };
        if matches!(error, LocketError::Unreachable { .. }) {
            let fresh = self.endpoint.connect_with_connector_lazy(self.dial.clone());
            *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        Err(error)
    }
}
