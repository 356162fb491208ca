//! The lines to the members of an etcd cluster: one at a time is used, and another when it does not answer.
//!
//! Promise: a call ends with an answer, or with an error that says what is wrong with the cluster, within the patience that
//! its caller has. A call that may have been carried out without our hearing of it is repeated only by callers for whom
//! that makes no difference.

use std::error::Error;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Response, Status};

use super::Options;
use super::proto::auth_client::AuthClient;
use super::proto::kv_client::KvClient;
use super::proto::lease_client::LeaseClient;
use super::proto::watch_client::WatchClient;
use super::proto::{self, AuthenticateRequest, ResponseHeader};
use super::verdict::{Verdict, judge};
use crate::error::StoreError;

/// How long one member has for one answer before another is asked.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Members refuse to be asked for a sign of life more often than every 5 s.
const SIGN_OF_LIFE_INTERVAL: Duration = Duration::from_secs(6);
const SIGN_OF_LIFE_TIMEOUT: Duration = Duration::from_secs(3);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// What one answer may take in memory. A page that is larger is asked for in smaller parts.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How often a call gets a new token before the user is taken for unknown.
pub(super) const LOGINS_MAX: u32 = 3;

type Line = InterceptedService<Channel, Ticket>;

#[derive(Debug)]
pub(super) struct Links {
    members: Vec<Member>,
    /// Which member is asked.
    current: AtomicUsize,
    user: Option<super::User>,
    /// `Some(None)` where etcd asks for none.
    token: Mutex<Option<Option<MetadataValue<Ascii>>>>,
    /// The cluster that answered first; 0 before.
    cluster_id: AtomicU64,
}

#[derive(Debug)]
struct Member {
    url: String,
    channel: Channel,
}

/// What is sent along with every request.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticket {
    token: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Ticket {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        // A member that has no leader says so at once instead of letting us wait.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

/// A line to one member.
#[derive(Clone, Debug)]
pub(super) struct Link {
    at: usize,
    channel: Channel,
    ticket: Ticket,
}

impl Link {
    pub(super) fn kv(&self) -> KvClient<Line> {
        KvClient::with_interceptor(self.channel.clone(), self.ticket.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
            .max_encoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(super) fn lease(&self) -> LeaseClient<Line> {
        LeaseClient::with_interceptor(self.channel.clone(), self.ticket.clone())
    }

    pub(super) fn watch(&self) -> WatchClient<Line> {
        WatchClient::with_interceptor(self.channel.clone(), self.ticket.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }
}

/// Answers say which cluster they come from.
pub(super) trait Answer {
    fn header(&self) -> Option<&ResponseHeader>;
}

macro_rules! answers {
    ($($message:ident),*) => {
        $(impl Answer for proto::$message {
            fn header(&self) -> Option<&ResponseHeader> {
                self.header.as_ref()
            }
        })*
    };
}
answers!(
    RangeResponse,
    TxnResponse,
    CompactionResponse,
    LeaseGrantResponse,
    LeaseRevokeResponse,
    LeaseKeepAliveResponse
);

/// Growing pauses between attempts.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(PAUSE_MIN)
    }

    pub(super) async fn next(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }
}

impl Links {
    pub(super) fn new(options: &Options) -> Result<Links, StoreError> {
        let tls = options.tls.as_ref().map(tls_config).transpose()?;
        let members =
            options.endpoints.iter().map(|url| Member::new(url, tls.as_ref())).collect::<Result<Vec<_>, _>>()?;
        if members.is_empty() {
            return Err(StoreError::Misuse { what: "a store on etcd needs at least one endpoint" });
        }
        Ok(Links {
            members,
            current: AtomicUsize::new(0),
            user: options.user.clone(),
            token: Mutex::new(None),
            cluster_id: AtomicU64::new(0),
        })
    }

    /// All endpoints, as etcdctl takes them.
    pub(super) fn asked(&self) -> String {
        self.members.iter().map(|member| member.url.as_str()).collect::<Vec<_>>().join(",")
    }

    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// With the reason that each member has, as far as it was asked.
    fn unreachable(&self, doing: &str, reasons: &[Option<String>]) -> StoreError {
        let reason = |(member, why): (&Member, &Option<String>)| Some(format!("{}: {}", member.url, why.as_ref()?));
        let why = self.members.iter().zip(reasons).filter_map(reason).collect::<Vec<_>>().join(", ");
        StoreError::Unreachable { doing: doing.to_owned(), why, asked: self.asked() }
    }

    /// Asks until there is an answer or patience ends. Only for what may be carried out twice.
    pub(super) async fn call<T, F>(
        &self,
        doing: &str,
        patience: Duration,
        ask: impl Fn(Link) -> F,
    ) -> Result<T, StoreError>
    where
        T: Answer,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let until = Instant::now() + patience;
        let (mut pauses, mut mistrusted) = (Pauses::new(), 0);
        let mut reasons = vec![None; self.members.len()];
        loop {
            let at = self.current.load(Ordering::Relaxed) % self.members.len();
            let why = match self.ask_once(doing, &ask).await {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Elsewhere(why)) => why,
            };
            // Members are asked in turn, so as many in a row are all of them. One that closes the connection may do so before
            // its reason has arrived.
            mistrusted = match &why {
                why if is_mistrust(why) => mistrusted + 1,
                why if why.contains("connection closed") => mistrusted,
                _ => 0,
            };
            if mistrusted == self.members.len() {
                return Err(StoreError::NotAllowed { doing: doing.to_owned(), why });
            }
            reasons[at] = Some(why);
            if Instant::now() >= until {
                return Err(self.unreachable(doing, &reasons));
            }
            pauses.next().await;
        }
    }

    /// Asks one member once. If it does not answer, the next call asks another.
    pub(super) async fn ask_once<T, F>(&self, doing: &str, ask: impl Fn(Link) -> F) -> Result<T, Trouble>
    where
        T: Answer,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.ask_within(ANSWER_TIMEOUT, doing, ask).await
    }

    pub(super) async fn ask_within<T, F>(
        &self,
        limit: Duration,
        doing: &str,
        ask: impl Fn(Link) -> F,
    ) -> Result<T, Trouble>
    where
        T: Answer,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let limit = limit.min(ANSWER_TIMEOUT);
        let mut logins = 0;
        loop {
            let link = self.link(doing).await?;
            let at = link.at;
            let is_unknown = self.user.is_some() && link.ticket.token.is_none();
            match timeout(limit, ask(link)).await {
                Ok(Ok(answer)) => {
                    let answer = answer.into_inner();
                    self.check_cluster(at, answer.header()).map_err(Trouble::Final)?;
                    return Ok(answer);
                }
                Ok(Err(status)) => match judge(doing, &status) {
                    // etcd did not ask for users before, and does now.
                    Verdict::Final(StoreError::NotAllowed { .. }) if is_unknown && logins < LOGINS_MAX => {
                        logins += 1;
                        self.forget_token();
                    }
                    Verdict::Final(error) => return Err(Trouble::Final(error)),
                    Verdict::Elsewhere => {
                        self.leave(at);
                        return Err(Trouble::Elsewhere(with_advice(&self.members[at].url, explain(&status))));
                    }
                    Verdict::LogIn if self.user.is_some() && logins < LOGINS_MAX => {
                        logins += 1;
                        self.forget_token();
                    }
                    Verdict::LogIn => {
                        let (doing, why) = (doing.to_owned(), explain(&status));
                        return Err(Trouble::Final(StoreError::NotAllowed { doing, why }));
                    }
                },
                Err(_) => {
                    self.leave(at);
                    return Err(Trouble::Elsewhere(format!("no answer within {limit:?}")));
                }
            }
        }
    }

    /// The line in use, with a token if users are known by one.
    pub(super) async fn link(&self, doing: &str) -> Result<Link, Trouble> {
        let at = self.current.load(Ordering::Relaxed) % self.members.len();
        self.link_to(at, doing).await
    }

    pub(super) async fn link_to(&self, at: usize, doing: &str) -> Result<Link, Trouble> {
        let channel = self.members[at].channel.clone();
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let token = match (&self.user, known) {
            (None, _) => None,
            (Some(_), Some(token)) => token,
            (Some(user), None) => self.log_in(at, channel.clone(), user, doing).await?,
        };
        Ok(Link { at, channel, ticket: Ticket { token } })
    }

    async fn log_in(
        &self,
        at: usize,
        channel: Channel,
        user: &super::User,
        doing: &str,
    ) -> Result<Option<MetadataValue<Ascii>>, Trouble> {
        let asked = AuthenticateRequest { name: user.name.clone(), password: user.password.to_string() };
        let answer = timeout(ANSWER_TIMEOUT, AuthClient::new(channel).authenticate(asked)).await;
        let refused = |why: String| {
            Trouble::Final(StoreError::NotAllowed { doing: format!("logging in as {} for {doing}", user.name), why })
        };
        let token: Option<MetadataValue<Ascii>> = match answer {
            Ok(Ok(answer)) => {
                let token = answer.into_inner().token;
                Some(token.parse().map_err(|_| refused("its token is not one".to_owned()))?)
            }
            Ok(Err(status)) if status.message().contains("authentication is not enabled") => {
                tracing::warn!(
                    user = user.name,
                    "etcd does not ask for users at the moment: everybody may do everything"
                );
                None
            }
            Ok(Err(status)) => {
                return Err(match judge(doing, &status) {
                    Verdict::Elsewhere => {
                        self.leave(at);
                        Trouble::Elsewhere(with_advice(&self.members[at].url, explain(&status)))
                    }
                    Verdict::Final(_) | Verdict::LogIn => refused(explain(&status)),
                });
            }
            Err(_) => {
                self.leave(at);
                return Err(Trouble::Elsewhere(format!("no answer within {ANSWER_TIMEOUT:?}")));
            }
        };
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(token)
    }

    pub(super) fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The next call asks another member, unless somebody has moved on already.
    pub(super) fn leave(&self, at: usize) {
        let next = (at + 1) % self.members.len();
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn is_in_use(&self, link: &Link) -> bool {
        self.current.load(Ordering::Relaxed) % self.members.len() == link.at
    }

    pub(super) fn leave_link(&self, link: &Link) {
        self.leave(link.at);
    }

    pub(super) fn check_cluster(&self, at: usize, header: Option<&ResponseHeader>) -> Result<(), StoreError> {
        let Some(found) = header.map(|header| header.cluster_id).filter(|id| *id != 0) else { return Ok(()) };
        match self.cluster_id.compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire) {
            Err(expected) if expected != found => {
                Err(StoreError::OtherEtcd { endpoint: self.members[at].url.clone(), found, expected })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn url(&self, at: usize) -> &str {
        &self.members[at].url
    }
}

/// Why a member did not answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nobody would answer otherwise.
    Final(StoreError),
    /// Another member, or the same one later, may answer. What was asked may have been done.
    Elsewhere(String),
}

impl Member {
    fn new(url: &str, tls: Option<&ClientTlsConfig>) -> Result<Member, StoreError> {
        let wrong = |error: &dyn Error| StoreError::NotAllowed {
            doing: format!("preparing the connection to {url}"),
            why: chain(error),
        };
        let mut endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|error| wrong(&error))?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(SIGN_OF_LIFE_INTERVAL)
            .keep_alive_timeout(SIGN_OF_LIFE_TIMEOUT)
            .keep_alive_while_idle(true)
            .http2_adaptive_window(true);
        if url.starts_with("https://") {
            let Some(tls) = tls else {
                let doing = format!("preparing the connection to {url}");
                let why = "it speaks TLS, and there is no certificate of an authority to know it by".to_owned();
                return Err(StoreError::NotAllowed { doing, why });
            };
            endpoint = endpoint.tls_config(tls.clone()).map_err(|error| wrong(&error))?;
        }
        Ok(Member { url: url.to_owned(), channel: endpoint.connect_lazy() })
    }
}

fn tls_config(files: &super::TlsFiles) -> Result<ClientTlsConfig, StoreError> {
    let read = |path: &std::path::Path| {
        let failed = |source: std::io::Error| StoreError::NotAllowed {
            doing: format!("reading {}", path.display()),
            why: source.to_string(),
        };
        std::fs::read(path).map_err(failed)
    };
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&files.ca)?));
    if let Some((cert, key)) = &files.identity {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(tls)
}

pub(super) fn explain(status: &Status) -> String {
    let why = match status.source() {
        Some(source) => format!("{}: {}", status.message(), chain(source)),
        None => status.message().to_owned(),
    };
    // Each layer repeats what the one below said, or says that it failed.
    let mut parts: Vec<&str> = Vec::new();
    for part in
        why.split(": ").filter(|part| !part.is_empty() && !["transport error", "connection error"].contains(part))
    {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    if parts.is_empty() { format!("{:?}", status.code()) } else { parts.join(": ") }
}

/// Whether it is one of the sentences of the TLS library about certificates, its own or those that the other side sent.
fn is_mistrust(why: &str) -> bool {
    why.contains("peer certificate") || why.contains("received fatal alert")
}

/// What may be the matter, where the two sides do not even understand each other.
fn with_advice(url: &str, why: String) -> String {
    let says = |texts: &[&str]| texts.iter().any(|text| why.contains(text));
    if url.starts_with("https://") {
        // A member that closes while we still speak resets the line; on a line that was once good, more is said than that.
        if says(&["handshake eof", "corrupt message"]) || why.starts_with("Connection reset by peer") {
            return format!("{why}; if this member does not speak TLS, its endpoint begins with http://");
        }
    } else if says(&["broken pipe", "connection closed", "connection reset", "reset by peer"]) {
        return "the connection was closed before there was an answer; if this member speaks TLS, its endpoint begins with \
                https://"
            .to_owned();
    }
    why
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
