//! Which instances serve which hosts and paths. It knows no clock and no socket; time comes in as an argument.
//!
//! A route is a host and a path, `shop.example.com/cart`; the longest path that fits wins, and a host may begin with `*.`.
//! An instance that failed a moment ago is passed over while there are others, never for good: emitters say what is there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::registry::RegistryMessage;
use tokio::time::Instant;

use crate::config::{Balance, Config};
use crate::endpoint::{Endpoint, Identity};

#[derive(Debug)]
pub struct Table {
    balance: Balance,
    threshold: Duration,
    failed_pause: Duration,
    empty_grace: Duration,
    hosts: HashMap<String, Vec<Route>>,
}

#[derive(Debug)]
struct Route {
    /// Empty, or with a slash in front and none behind.
    path: String,
    endpoints: Vec<Registered>,
    turn: AtomicUsize,
    balance: Option<Balance>,
    /// Since when it has no endpoint.
    empty_since: Option<Instant>,
}

#[derive(Debug)]
struct Registered {
    endpoint: Arc<Endpoint>,
    heard: Instant,
    threshold: Duration,
}

/// Who shall answer a request.
#[derive(Clone, Debug)]
pub enum Choice {
    Endpoint(Arc<Endpoint>),
    /// Nobody registered this host and path.
    UnknownRoute,
    /// The route is known, but nobody serves it, or nobody is left to be tried.
    NoEndpoints,
}

/// One instance of an app that a request insists on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub app: String,
    pub index: String,
}

/// What is known, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub uri: String,
    pub identity: Identity,
    pub in_flight: usize,
    pub heard_s_ago: u64,
}

impl Table {
    pub fn new(config: &Config) -> Self {
        Self {
            balance: config.balance,
            threshold: config.prune_threshold,
            failed_pause: config.limits.failed_pause,
            empty_grace: config.limits.empty_grace,
            hosts: HashMap::new(),
        }
    }

    pub fn register(&mut self, message: &RegistryMessage, now: Instant) {
        let identity = Identity::of(message);
        let stale_s = u64::try_from(message.stale_threshold_in_seconds).unwrap_or(0);
        let threshold = if stale_s > 0 { Duration::from_secs(stale_s) } else { self.threshold };
        let named = message.options.as_ref().and_then(|options| options.get("loadbalancing")?.as_str());
        let balance = named.and_then(Balance::named);
        for uri in message.uris.iter().filter(|uri| !uri.is_empty()) {
            let (host, path) = split(uri);
            let routes = self.hosts.entry(host).or_default();
            let at = routes.iter().position(|route| route.path == path).unwrap_or_else(|| {
                routes.push(Route::new(path));
                routes.sort_by_key(|route| std::cmp::Reverse(route.path.len()));
                let (_, path) = split(uri);
                routes.iter().position(|route| route.path == path).expect("the route was added above")
            });
            let route = &mut routes[at];
            route.balance = balance;
            route.register(&identity, now, threshold);
        }
    }

    pub fn unregister(&mut self, message: &RegistryMessage, now: Instant) {
        let identity = Identity::of(message);
        for uri in message.uris.iter().filter(|uri| !uri.is_empty()) {
            let (host, path) = split(uri);
            let Some(routes) = self.hosts.get_mut(&host) else { continue };
            if let Some(route) = routes.iter_mut().find(|route| route.path == path) {
                route.drop_where(now, |known| known.endpoint.identity.is_meant_by(&identity));
            }
        }
    }

    /// Forgets what was not heard of for too long, and routes that have been empty for a while. Returns how many endpoints.
    pub fn prune(&mut self, now: Instant) -> usize {
        let (grace, mut pruned) = (self.empty_grace, 0);
        self.hosts.retain(|_, routes| {
            routes.retain_mut(|route| {
                let before = route.endpoints.len();
                route.drop_where(now, |known| now.saturating_duration_since(known.heard) > known.threshold);
                pruned += before - route.endpoints.len();
                route.empty_since.is_none_or(|since| now.saturating_duration_since(since) < grace)
            });
            !routes.is_empty()
        });
        pruned
    }

    /// Takes everything for heard just now: after a silence, old age is no sign of death.
    pub fn refresh(&mut self, now: Instant) {
        let routes = self.hosts.values_mut().flatten();
        routes.flat_map(|route| &mut route.endpoints).for_each(|known| known.heard = now);
    }

    /// Chooses an instance that was not tried yet.
    pub fn choose(&self, host: &str, path: &str, wish: Option<&Wish>, tried: &[Arc<Endpoint>], now: Instant) -> Choice {
        let Some(route) = self.find(host, path) else { return Choice::UnknownRoute };
        let fits = |endpoint: &Endpoint| {
            wish.is_none_or(|wish| endpoint.identity.app == wish.app && endpoint.identity.instance_index == wish.index)
        };
        let untried =
            |endpoint: &&Arc<Endpoint>| fits(endpoint) && !tried.iter().any(|tried| Arc::ptr_eq(tried, endpoint));
        let in_turn = route.in_turn();
        let candidates: Vec<&Arc<Endpoint>> = in_turn.filter(untried).collect();
        let well = |endpoint: &&&Arc<Endpoint>| !endpoint.failed_lately(now, self.failed_pause);
        let best = match route.balance.unwrap_or(self.balance) {
            Balance::RoundRobin => candidates.iter().find(well),
            Balance::LeastConnections => candidates.iter().filter(well).min_by_key(|endpoint| endpoint.in_flight()),
        };
        match best.or(candidates.first()) {
            Some(endpoint) => Choice::Endpoint(Arc::clone(endpoint)),
            None => Choice::NoEndpoints,
        }
    }

    fn find(&self, host: &str, path: &str) -> Option<&Route> {
        let exact = self.hosts.get(host).and_then(|routes| fitting(routes, path));
        exact.or_else(|| {
            let mut rest = host;
            while let Some((_, parent)) = rest.split_once('.') {
                let wild = self.hosts.get(&format!("*.{parent}")).and_then(|routes| fitting(routes, path));
                if wild.is_some() {
                    return wild;
                }
                rest = parent;
            }
            None
        })
    }

    pub fn route_count(&self) -> usize {
        self.hosts.values().map(Vec::len).sum()
    }

    pub fn endpoint_count(&self) -> usize {
        self.hosts.values().flatten().map(|route| route.endpoints.len()).sum()
    }

    pub fn shown(&self, now: Instant) -> Vec<Shown> {
        let mut shown = Vec::new();
        for (host, routes) in &self.hosts {
            for route in routes {
                shown.extend(route.endpoints.iter().map(|known| Shown {
                    uri: format!("{host}{}", route.path),
                    identity: known.endpoint.identity.clone(),
                    in_flight: known.endpoint.in_flight(),
                    heard_s_ago: now.saturating_duration_since(known.heard).as_secs(),
                }));
            }
        }
        shown.sort_by(|one, other| (&one.uri, one.identity.address()).cmp(&(&other.uri, other.identity.address())));
        shown
    }
}

impl Route {
    fn new(path: String) -> Self {
        Self { path, endpoints: Vec::new(), turn: AtomicUsize::new(0), balance: None, empty_since: None }
    }

    fn register(&mut self, identity: &Identity, now: Instant, threshold: Duration) {
        self.empty_since = None;
        let known = self.endpoints.iter_mut().find(|known| known.endpoint.identity.address() == identity.address());
        match known {
            Some(known) => {
                if known.endpoint.identity != *identity {
                    known.endpoint = Endpoint::new(identity.clone());
                }
                (known.heard, known.threshold) = (now, threshold);
            }
            None => {
                let endpoint = Endpoint::new(identity.clone());
                self.endpoints.push(Registered { endpoint, heard: now, threshold });
            }
        }
    }

    fn drop_where(&mut self, now: Instant, gone: impl Fn(&Registered) -> bool) {
        self.endpoints.retain(|known| !gone(known));
        if self.endpoints.is_empty() && self.empty_since.is_none() {
            self.empty_since = Some(now);
        }
    }

    /// All endpoints, beginning with the next one.
    fn in_turn(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        let count = self.endpoints.len().max(1);
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % count;
        let (late, early) = self.endpoints.split_at(first.min(self.endpoints.len()));
        early.iter().chain(late).map(|known| &known.endpoint)
    }
}

/// Host in lower case without port, and path.
fn split(uri: &str) -> (String, String) {
    let uri = uri.split('?').next().unwrap_or_default();
    let (host, path) = uri.split_once('/').map_or((uri, String::new()), |(host, path)| (host, format!("/{path}")));
    (host.to_ascii_lowercase(), path.trim_end_matches('/').to_owned())
}

/// The routes are sorted, longest path first. A path fits up to a slash, not in the middle of a word.
fn fitting<'a>(routes: &'a [Route], path: &str) -> Option<&'a Route> {
    let fits = |route: &&Route| {
        let rest = path.strip_prefix(route.path.as_str());
        rest.is_some_and(|rest| rest.is_empty() || route.path.is_empty() || rest.starts_with('/'))
    };
    routes.iter().find(fits)
}

#[cfg(test)]
mod tests;
