//! The four calls of Locket, to one server or to several that share what they know.
//!
//! Promise: a call ends with an answer or an error within the limit that its caller gives. One that got no answer in time may
//! have been carried out. Of several servers the one that answered last is asked first; when it does not answer, the others are
//! asked within the same limit, each for an equal part of what is left. That is safe because every call may be made
//! twice: a lock is asked for again by the same owner, and what is given back already stays so.
//!
//! Servers behind one client must have one store, or each would know of owners that the others do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::line::Line;
use super::proto::locket_client::LocketClient;
use super::proto::{self, FetchAllRequest, FetchRequest, LockRequest, ReleaseRequest, TypeCode};
use super::{LocketError, proto as wire};
use crate::client::tls::TlsFiles;

/// How long after the start Locket may take to answer for the first time.
const READY_LIMIT: Duration = Duration::from_secs(10);
const READY_PAUSE: Duration = Duration::from_millis(250);
const READY_CALL_LIMIT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct Options {
    /// `host:port`, or several of them with commas between: servers that share one store.
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
    lines: Arc<[Line]>,
    /// Which of them answered last.
    current: Arc<AtomicUsize>,
}

impl Client {
    /// Prepares a client and connects with the first call.
    pub fn new(options: &Options) -> Result<Self, LocketError> {
        let lines = options.address.split(',').map(|address| Line::new(address.trim(), options));
        let lines = lines.collect::<Result<Vec<_>, _>>()?.into();
        Ok(Self { address: options.address.as_str().into(), lines, current: Arc::default() })
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

    /// As it was given.
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
        let message = LockRequest { resource: Some(resource.to_wire()), ttl_in_seconds };
        let doing = format!("asking for the {} {}", resource.kind.name(), resource.key);
        let ask = |mut client: LocketClient<Channel>, request| async move { client.lock(request).await };
        self.call(doing, limit, message, Some(call_id), ask).await.map(drop)
    }

    /// Gives a resource back. One that is not there is given back already.
    pub async fn release(&self, resource: &Resource, limit: Duration) -> Result<(), LocketError> {
        let message = ReleaseRequest { resource: Some(resource.to_wire()) };
        let doing = format!("giving back the {} {}", resource.kind.name(), resource.key);
        let ask = |mut client: LocketClient<Channel>, request| async move { client.release(request).await };
        self.call(doing, limit, message, None, ask).await.map(drop)
    }

    pub async fn fetch(&self, key: &str, limit: Duration) -> Result<Resource, LocketError> {
        let message = FetchRequest { key: key.to_owned() };
        let doing = format!("looking for {key}");
        let ask = |mut client: LocketClient<Channel>, request| async move { client.fetch(request).await };
        let answer: proto::FetchResponse = self.call(doing.clone(), limit, message, None, ask).await?;
        let nothing = || LocketError::NotFound { doing, message: "the answer is empty".to_owned() };
        answer.resource.map(Resource::of_wire).ok_or_else(nothing)
    }

    pub async fn fetch_all(&self, kind: Kind, limit: Duration) -> Result<Vec<Resource>, LocketError> {
        let message = FetchAllRequest { r#type: kind.name().to_owned(), type_code: kind.code().into() };
        let doing = format!("listing the {}s", kind.name());
        let ask = |mut client: LocketClient<Channel>, request| async move { client.fetch_all(request).await };
        let answer: proto::FetchAllResponse = self.call(doing, limit, message, None, ask).await?;
        Ok(answer.resources.into_iter().map(Resource::of_wire).collect())
    }

    /// Asks one server after another until one answers, whatever it says.
    async fn call<Q: Clone, A, F>(
        &self,
        doing: String,
        limit: Duration,
        message: Q,
        call_id: Option<&str>,
        ask: impl Fn(LocketClient<Channel>, Request<Q>) -> F,
    ) -> Result<A, LocketError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let began = Instant::now();
        let (first, count) = (self.current.load(Ordering::Relaxed), self.lines.len());
        let mut silences = Vec::new();
        for (at, waiting) in (0..count).map(|turn| (first + turn) % count).zip((1..=count).rev()) {
            let line = &self.lines[at];
            let spent = if silences.is_empty() { Duration::ZERO } else { began.elapsed() };
            let share = limit.saturating_sub(spent) / u32::try_from(waiting).unwrap_or(u32::MAX);
            match line.call(&doing, share, message.clone(), call_id, &ask).await {
                Err(LocketError::Unreachable { why, .. }) => silences.push((&line.address, why)),
                answered => {
                    self.current.store(at, Ordering::Relaxed);
                    return answered;
                }
            }
        }
        let why = match &silences[..] {
            [(_, why)] => why.clone(),
            several => several.iter().map(|(address, why)| format!("{address}: {why}")).collect::<Vec<_>>().join("; "),
        };
        Err(LocketError::Unreachable { doing, address: self.address.to_string(), why })
    }
}
