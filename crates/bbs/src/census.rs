//! Who uses the API: every client by name and version, with the endpoints it calls.
//!
//! Promise: whoever called since this node became master is here, with the revision of each endpoint and when it was last used,
//! so that an operator sees who would be left behind before taking something away. A request is counted without a lock that
//! others wait for.
//!
//! Clients of ours name themselves in a header. Of all others only their `User-Agent` is known, which is the same for many of
//! them; the address from which the last request came tells where to look. Names come from outside, so their length and number
//! are bounded: when there are too many, the one that was silent for longest is forgotten.
//!
//! It is kept in memory: after a change of masters it fills again within the interval in which clients call.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use api::Route;
use api::version::{self, CLIENT_BYTES_MAX, ClientId, NotAClient, Unserved, Version};
use hyper::header::HeaderValue;
use model::Nanos;
use serde::{Deserialize, Serialize};

/// How many clients are remembered.
pub const CLIENTS_MAX: usize = 1024;
/// How long every program that is at work has called at least once: the loops of Diego's programs take half a minute.
pub const WATCHED_MIN_S: i64 = 5 * 60;
/// What a client without any name is called.
const NAMELESS: &str = "unnamed";

#[derive(Debug)]
pub struct Census {
    server: Version,
    /// The same for the head of every answer.
    server_header: HeaderValue,
    since_ns: AtomicI64,
    known: RwLock<Known>,
}

/// Clients by what they say of themselves, byte for byte: one that was met is recognised without being understood anew, and
/// without a copy.
#[derive(Debug, Default)]
struct Known {
    by_header: HashMap<Box<[u8]>, Arc<Client>>,
    by_agent: HashMap<Box<[u8]>, Arc<Client>>,
}

/// What a request says of its sender.
#[derive(Clone, Copy, Debug)]
enum Said<'a> {
    Header(&'a [u8]),
    Agent(&'a [u8]),
}

impl Known {
    fn all(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.by_header.values().chain(self.by_agent.values())
    }

    fn get(&self, said: Said<'_>) -> Option<&Arc<Client>> {
        match said {
            Said::Header(text) => self.by_header.get(text),
            Said::Agent(text) => self.by_agent.get(text),
        }
    }

    /// When there are too many, the one that was silent for longest makes room.
    fn add(&mut self, said: Said<'_>, client: Arc<Client>) -> Arc<Client> {
        if let Some(known) = self.get(said) {
            return known.clone();
        }
        if self.by_header.len() + self.by_agent.len() >= CLIENTS_MAX
            && let Some(silent) = self.all().min_by_key(|client| client.last_ns.load(Relaxed)).cloned()
        {
            self.by_header.retain(|_, client| !Arc::ptr_eq(client, &silent));
            self.by_agent.retain(|_, client| !Arc::ptr_eq(client, &silent));
        }
        let (clients, text) = match said {
            Said::Header(text) => (&mut self.by_header, text),
            Said::Agent(text) => (&mut self.by_agent, text),
        };
        clients.insert(text.into(), client.clone());
        client
    }
}

#[derive(Debug)]
struct Client {
    name: String,
    version: Option<Version>,
    verdict: Result<(), Unserved>,
    first_ns: Nanos,
    last_ns: AtomicI64,
    refused: AtomicU64,
    from: Mutex<Option<IpAddr>>,
    /// By the number of the route.
    uses: Vec<Use>,
}

#[derive(Debug, Default)]
struct Use {
    requests: AtomicU64,
    last_ns: AtomicI64,
}

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Turned {
    #[error(transparent)]
    Malformed(#[from] NotAClient),
    #[error(transparent)]
    Unserved(#[from] Unserved),
}

/// How a request names its sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// `X-Corkboard-Client`.
    pub header: Option<&'a [u8]>,
    /// `User-Agent`.
    pub agent: Option<&'a [u8]>,
    pub from: Option<IpAddr>,
}

impl Census {
    pub fn new(server: Version, now_ns: Nanos) -> Arc<Self> {
        let server_header = HeaderValue::try_from(server.to_string());
        let server_header = server_header.expect("numbers with dots between them can stand in a header");
        Arc::new(Self { server, server_header, since_ns: AtomicI64::new(now_ns), known: RwLock::default() })
    }

    pub fn server_header(&self) -> HeaderValue {
        self.server_header.clone()
    }

    /// Forgets everybody: what was seen before is not what this node has seen as master.
    pub fn begin(&self, now_ns: Nanos) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Known::default();
        self.since_ns.store(now_ns, Relaxed);
    }

    /// Counts a request, and says whether its sender is served at all. `route` is `None` for the operator's part of the API.
    pub fn admit(&self, caller: Caller<'_>, route: Option<Route>, now_ns: Nanos) -> Result<(), Turned> {
        let client = self.client(caller, now_ns)?;
        client.last_ns.fetch_max(now_ns, Relaxed);
        if let (Some(from), Ok(mut last)) = (caller.from, client.from.try_lock()) {
            *last = Some(from);
        }
        if let Err(unserved) = &client.verdict {
            client.refused.fetch_add(1, Relaxed);
            return Err(unserved.clone().into());
        }
        if let Some(used) = route.and_then(|route| client.uses.get(route as usize)) {
            used.requests.fetch_add(1, Relaxed);
            used.last_ns.fetch_max(now_ns, Relaxed);
        }
        Ok(())
    }

    fn client(&self, caller: Caller<'_>, now_ns: Nanos) -> Result<Arc<Client>, NotAClient> {
        let said = said(caller)?;
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(said) {
            return Ok(known.clone());
        }
        let client = Arc::new(self.meet(said, now_ns)?);
        Ok(self.known.write().unwrap_or_else(PoisonError::into_inner).add(said, client))
    }

    fn meet(&self, said: Said<'_>, now_ns: Nanos) -> Result<Client, NotAClient> {
        let (name, version, verdict) = match said {
            Said::Header(text) => {
                let id: ClientId = std::str::from_utf8(text).map_err(|_| NotAClient)?.parse()?;
                let verdict = version::admit(&id, self.server);
                (id.name, Some(id.version), verdict)
            }
            Said::Agent(text) => (shown(text), None, Ok(())),
        };
        Ok(Client {
            name,
            version,
            verdict,
            first_ns: now_ns,
            last_ns: AtomicI64::new(now_ns),
            refused: AtomicU64::new(0),
            from: Mutex::default(),
            uses: Route::ALL.iter().map(|_| Use::default()).collect(),
        })
    }

    /// Everybody, the one that was heard last first.
    pub fn report(&self) -> ClientList {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut listed: Vec<ListedClient> = known.all().map(|client| client.listed(self.server)).collect();
        drop(known);
        listed.sort_by(|a, b| b.last_seen_ns.cmp(&a.last_seen_ns).then_with(|| a.name.cmp(&b.name)));
        ClientList {
            server_version: self.server.to_string(),
            since_ns: self.since_ns.load(Relaxed),
            clients: listed,
            clients_max: CLIENTS_MAX,
        }
    }
}

fn said(caller: Caller<'_>) -> Result<Said<'_>, NotAClient> {
    match caller.header {
        Some(header) if header.len() > CLIENT_BYTES_MAX => Err(NotAClient),
        Some(header) => Ok(Said::Header(header)),
        None => {
            let agent = caller.agent.unwrap_or_default();
            Ok(Said::Agent(agent.get(..CLIENT_BYTES_MAX).unwrap_or(agent)))
        }
    }
}

/// Text from outside goes to a terminal later, so it is freed of what one might act upon.
fn shown(agent: &[u8]) -> String {
    let text: String =
        agent.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '?' }).collect();
    let text = text.trim();
    if text.is_empty() { NAMELESS.to_owned() } else { text.to_owned() }
}

impl Client {
    fn listed(&self, server: Version) -> ListedClient {
        let used = Route::ALL.iter().zip(&self.uses).filter(|(_, used)| used.requests.load(Relaxed) > 0);
        let endpoints: Vec<Endpoint> = used
            .map(|(route, used)| Endpoint {
                endpoint: route.name().to_owned(),
                path: route.path().to_owned(),
                revision: route.revision(),
                deprecated: route.deprecated(),
                replaced_by: route.replaced_by().map(|newer| newer.path().to_owned()),
                served_until: route.until().major().map(|major| format!("{major}.x")),
                requests: used.requests.load(Relaxed),
                last_seen_ns: used.last_ns.load(Relaxed),
            })
            .collect();
        ListedClient {
            name: self.name.clone(),
            version: self.version.map(|version| version.to_string()),
            from: self.from.lock().unwrap_or_else(PoisonError::into_inner).map(|from| from.to_string()),
            first_seen_ns: self.first_ns,
            last_seen_ns: self.last_ns.load(Relaxed),
            requests: endpoints.iter().map(|endpoint| endpoint.requests).sum(),
            refused: self.refused.load(Relaxed),
            left_behind: self.left_behind(server, &endpoints),
            endpoints,
        }
    }

    /// Why the next major version of the server would not serve this client as it is.
    fn left_behind(&self, server: Version, endpoints: &[Endpoint]) -> Option<String> {
        if let Err(unserved) = &self.verdict {
            return Some(match unserved {
                Unserved::TooOld { .. } => {
                    "it is older than what this server serves, and is refused already".to_owned()
                }
                Unserved::TooNew { .. } => "it is newer than this server, and is refused already".to_owned(),
            });
        }
        let next = Version { major: server.major.saturating_add(1), minor: 0, patch: 0 };
        if let Some(version) = self.version.filter(|version| !next.serves(*version)) {
            return Some(format!(
                "it is of version {version}, and the next major version serves clients of {}.x and {}.x",
                server.major, next.major
            ));
        }
        let ends = |endpoint: &&Endpoint| {
            let route = Route::ALL.iter().find(|route| route.name() == endpoint.endpoint);
            route.and_then(|route| route.until().major()).is_some_and(|last| last < next.major)
        };
        let ending: Vec<&str> = endpoints.iter().filter(ends).map(|endpoint| &*endpoint.path).collect();
        (!ending.is_empty())
            .then(|| format!("it calls {}, which the next major version does not have any more", ending.join(", ")))
    }
}

/// The census as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientList {
    pub server_version: String,
    /// Since when clients are counted: since this node has been master.
    pub since_ns: Nanos,
    pub clients: Vec<ListedClient>,
    /// How many are remembered at most.
    pub clients_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedClient {
    /// From its header, or else its `User-Agent`.
    pub name: String,
    /// `None`: it does not say, and is served as current.
    pub version: Option<String>,
    /// From which address its last request came.
    pub from: Option<String>,
    pub first_seen_ns: Nanos,
    pub last_seen_ns: Nanos,
    pub requests: u64,
    /// Requests that were turned away because of its version.
    pub refused: u64,
    /// Why the next major version would not serve it as it is.
    pub left_behind: Option<String>,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub endpoint: String,
    pub path: String,
    pub revision: u32,
    pub deprecated: bool,
    pub replaced_by: Option<String>,
    /// The last major version that has it; `None`: no end is planned.
    pub served_until: Option<String>,
    pub requests: u64,
    pub last_seen_ns: Nanos,
}

impl ListedClient {
    /// `name/1.2.3`, as the client says it.
    pub fn shown(&self) -> String {
        match &self.version {
            Some(version) => format!("{}/{version}", self.name),
            None => self.name.clone(),
        }
    }
}

impl ClientList {
    /// Those that the next major version would not serve as they are.
    pub fn left_behind(&self) -> impl Iterator<Item = (&ListedClient, &str)> {
        self.clients.iter().filter_map(|client| Some((client, client.left_behind.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Version = Version { major: 2, minor: 0, patch: 0 };

    fn named(header: &str) -> Caller<'_> {
        Caller { header: Some(header.as_bytes()), ..Caller::default() }
    }

    #[test]
    fn a_client_is_known_by_what_it_says_of_itself() {
        let census = Census::new(SERVER, 5);
        let from = Some(IpAddr::from([10, 0, 0, 7]));
        census.admit(Caller { from, ..named("tool/2.1.0") }, Some(Route::Ping), 10).unwrap();
        census.admit(named("tool/2.1.0"), Some(Route::Tasks), 20).unwrap();
        census.admit(named("tool/1.9.0"), Some(Route::TasksR2), 30).unwrap();
        let go = Caller { agent: Some(b"Go-http-client/1.1\x1b[2J"), ..Caller::default() };
        census.admit(go, Some(Route::Cells), 40).unwrap();
        census.admit(Caller::default(), None, 50).unwrap();
        let report = census.report();
        let shown: Vec<_> = report
            .clients
            .iter()
            .map(|client| {
                let paths: Vec<_> =
                    client.endpoints.iter().map(|it| (&*it.path, it.requests, it.last_seen_ns)).collect();
                (client.shown(), client.from.as_deref(), client.requests, client.last_seen_ns, paths)
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("unnamed".to_owned(), None, 0, 50, vec![]),
                ("Go-http-client/1.1?[2J".to_owned(), None, 1, 40, vec![("/v1/cells/list.r1", 1, 40)]),
                ("tool/1.9.0".to_owned(), None, 1, 30, vec![("/v1/tasks/list.r2", 1, 30)]),
                (
                    "tool/2.1.0".to_owned(),
                    Some("10.0.0.7"),
                    2,
                    20,
                    vec![("/v1/ping", 1, 10), ("/v1/tasks/list.r3", 1, 20)]
                ),
            ]
        );
        assert_eq!(report.since_ns, 5);
        census.begin(60);
        assert_eq!((census.report().clients.len(), census.report().since_ns), (0, 60));
    }

    #[test]
    fn whoever_is_turned_away_is_listed_too() {
        let census = Census::new(SERVER, 0);
        assert!(matches!(census.admit(named("old/0.1.0"), None, 1), Err(Turned::Unserved(Unserved::TooOld { .. }))));
        assert!(matches!(census.admit(named("new/3.0.0"), None, 2), Err(Turned::Unserved(Unserved::TooNew { .. }))));
        for malformed in ["", "tool", "tool/x", &"a".repeat(1000)] {
            assert!(matches!(census.admit(named(malformed), None, 3), Err(Turned::Malformed(_))), "{malformed}");
        }
        assert!(matches!(
            census.admit(Caller { header: Some(b"\xff/1.0.0"), ..Caller::default() }, None, 3),
            Err(Turned::Malformed(_))
        ));
        let report = census.report();
        let listed: Vec<_> = report.clients.iter().map(|it| (it.shown(), it.refused, it.requests)).collect();
        assert_eq!(listed, [("new/3.0.0".to_owned(), 1, 0), ("old/0.1.0".to_owned(), 1, 0)]);
    }

    #[test]
    fn who_would_be_left_behind() {
        let census = Census::new(SERVER, 0);
        for (at, header) in ["current/2.0.0", "former/1.9.9", "old/0.1.0"].iter().enumerate() {
            let _ = census.admit(named(header), Some(Route::Ping), at as i64);
        }
        // Endings of routes are counted in major versions, so a server of that last major one is where they hurt.
        let report = census.report();
        let left: Vec<_> = report.left_behind().map(|(client, why)| (client.shown(), why.to_owned())).collect();
        assert_eq!(
            left,
            [
                ("old/0.1.0".to_owned(), "it is older than what this server serves, and is refused already".to_owned()),
                (
                    "former/1.9.9".to_owned(),
                    "it is of version 1.9.9, and the next major version serves clients of 2.x and 3.x".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn a_route_that_ends_is_named_by_the_last_release_that_has_it() {
        let ending = Route::ALL.iter().find(|route| route.until().major().is_some()).copied().unwrap();
        let last = ending.until().major().unwrap();
        for (major, left) in [(last.saturating_sub(1), 0), (last, 1)] {
            let census = Census::new(Version { major, minor: 0, patch: 0 }, 0);
            census.admit(Caller::default(), Some(ending), 1).unwrap();
            assert_eq!(census.report().left_behind().count(), left, "server {major}.x");
        }
    }

    #[test]
    fn the_most_silent_is_forgotten_when_there_are_too_many() {
        let census = Census::new(SERVER, 0);
        for at in 0..=CLIENTS_MAX {
            census.admit(named(&format!("client-{at}/2.0.0")), Some(Route::Ping), at as i64).unwrap();
            census.admit(named("client-0/2.0.0"), Some(Route::Ping), at as i64).unwrap();
        }
        let report = census.report();
        assert_eq!(report.clients.len(), CLIENTS_MAX);
        let is_here = |name: &str| report.clients.iter().any(|client| client.name == name);
        assert!(is_here("client-0") && !is_here("client-1") && is_here("client-2"));
    }
}
