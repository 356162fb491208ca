//! Which cells there are, from the presences that they keep: in a Locket server, or in our own store, from which our own
//! Locket is served.
//!
//! Promise: a cell that Locket no longer lists is still there for ten seconds, twice the time after which a cell repeats itself:
//! a Locket that has lost what it knew looks for a moment as if every cell had died. Our own store does not lose presences while
//! a master uses it, so what it no longer lists is gone. While nobody answers nothing is concluded at all: the cells that were
//! there stay, and none of them grows older. A presence that cannot be understood is named once, with its key and never with
//! what it says, and is no cell.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use api::locket::{Client, Kind, Resource};
use model::{Cell, CellId, NANOS_PER_SECOND, Nanos};
use tokio::sync::{oneshot, watch};

use crate::cells::{Registry, Source};
use crate::clock::Clock;
use crate::shelf::Shelf;

/// How presences are listed, and how long one holds. Pause and limit together are less than what is kept, or cells would be gone
/// before it is known that nobody answers.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    every: Duration,
    limit: Duration,
    kept_ns: Nanos,
}

const OF_LOCKET: Rhythm =
    Rhythm { every: Duration::from_secs(2), limit: Duration::from_secs(5), kept_ns: 10 * NANOS_PER_SECOND };
const OF_OURS: Rhythm =
    Rhythm { every: Duration::from_secs(1), limit: Duration::from_secs(2), kept_ns: 4 * NANOS_PER_SECOND };

/// Where presences are kept.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Locket(Client),
    Ours(Shelf),
}

impl Place {
    fn rhythm(&self) -> Rhythm {
        match self {
            Self::Locket(_) => OF_LOCKET,
            Self::Ours(_) => OF_OURS,
        }
    }

    /// Whether what is not listed is not there. A Locket may have lost what it knew.
    fn is_exact(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    async fn list(&self) -> Result<Vec<Resource>, String> {
        let limit = self.rhythm().limit;
        match self {
            Self::Locket(client) => client.fetch_all(Kind::Presence, limit).await.map_err(|error| error.to_string()),
            Self::Ours(shelf) => match tokio::time::timeout(limit, shelf.list(Kind::Presence)).await {
                Ok(listed) => listed.map_err(|error| error.to_string()),
                Err(_) => Err(format!("the store did not answer within {} s", limit.as_secs())),
            },
        }
    }
}

/// Announces what is listed, until told to stop. `first` is told when it was asked for once, whatever came of it.
pub(crate) async fn follow(
    place: Place,
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    first: oneshot::Sender<()>,
    mut stop: watch::Receiver<bool>,
) {
    let rhythm = place.rhythm();
    let mut roll = Roll { is_exact: place.is_exact(), ..Roll::new(rhythm.kept_ns) };
    let mut first = Some(first);
    let mut complained = false;
    loop {
        let listed = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            listed = place.list() => listed,
        };
        let now_ns = clock.uptime_ns();
        let present = match listed {
            Ok(listed) => {
                complained = false;
                let present = roll.heard(&listed, now_ns);
                if place.is_exact() {
                    registry.only_from(Source::Locket, &present, now_ns);
                }
                present
            }
            Err(error) => {
                if !std::mem::replace(&mut complained, true) {
                    tracing::warn!(error, "the cells known so far stay until presences are listed again");
                }
                roll.nothing_heard(now_ns)
            }
        };
        registry.announce_from(Source::Locket, present, rhythm.kept_ns, now_ns);
        if let Some(first) = first.take() {
            let _ = first.send(());
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(rhythm.every) => {}
        }
    }
}

/// Who was listed, and until when that holds.
#[derive(Debug)]
struct Roll {
    kept_ns: Nanos,
    /// What is not listed is not there.
    is_exact: bool,
    cells: BTreeMap<CellId, (Cell, Nanos)>,
    /// What could not be understood in the last list: its keys and the hashes of what they said.
    garbage: BTreeSet<(String, u64)>,
}

impl Roll {
    fn new(kept_ns: Nanos) -> Self {
        Self { kept_ns, is_exact: false, cells: BTreeMap::new(), garbage: BTreeSet::new() }
    }

    /// The cells of a list.
    fn heard(&mut self, listed: &[Resource], now_ns: Nanos) -> Vec<Cell> {
        self.cells.retain(|_, (_, until_ns)| *until_ns > now_ns);
        let mut garbage = BTreeSet::new();
        let mut present = Vec::new();
        for resource in listed {
            match cell_of(&resource.value) {
                Ok(cell) => {
                    self.cells.insert(cell.id.clone(), (cell.clone(), now_ns.saturating_add(self.kept_ns)));
                    present.push(cell);
                }
                Err(why) => {
                    let mut hasher = DefaultHasher::new();
                    resource.value.hash(&mut hasher);
                    let entry = (resource.key.clone(), hasher.finish());
                    if !self.garbage.contains(&entry) {
                        let (key, owner) = (&resource.key, &resource.owner);
                        tracing::warn!(key, owner, why, "a presence in Locket is not that of a cell and is left out");
                    }
                    garbage.insert(entry);
                }
            }
        }
        self.garbage = garbage;
        if self.is_exact {
            self.cells.retain(|_, (_, until_ns)| *until_ns == now_ns.saturating_add(self.kept_ns));
        }
        present
    }

    /// Everybody who was there a moment ago, and is taken to be there for as long again.
    fn nothing_heard(&mut self, now_ns: Nanos) -> Vec<Cell> {
        self.cells.retain(|_, (_, until_ns)| *until_ns > now_ns);
        let kept_until_ns = now_ns.saturating_add(self.kept_ns);
        self.cells.values_mut().for_each(|(_, until_ns)| *until_ns = kept_until_ns);
        self.cells.values().map(|(cell, _)| cell.clone()).collect()
    }
}

/// Errors of the parser quote what they found, so only the place is told.
fn cell_of(value: &str) -> Result<Cell, String> {
    let wire: api::models::CellPresence = serde_json::from_str(value)
        .map_err(|error| format!("it is not the JSON of a cell (line {}, column {})", error.line(), error.column()))?;
    api::convert::cell_from_wire(wire).map_err(|error| format!("it has no usable cell_id: {error}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn presence(key: &str, value: &str) -> Resource {
        Resource { key: key.into(), owner: "o".into(), value: value.into(), kind: Kind::Presence }
    }

    fn cell(id: &str) -> Resource {
        presence(id, &format!(r#"{{"cell_id":"{id}","rep_address":"http://{id}","zone":"z"}}"#))
    }

    struct World {
        roll: Roll,
        registry: Arc<Registry>,
    }

    impl World {
        /// What the registry knows after a list, or after a silence.
        fn check(&mut self, at_s: Nanos, listed: Option<&[Resource]>, expected: &str) {
            let now_ns = at_s * NANOS_PER_SECOND;
            let present = match listed {
                Some(listed) => self.roll.heard(listed, now_ns),
                None => self.roll.nothing_heard(now_ns),
            };
            if self.roll.is_exact && listed.is_some() {
                self.registry.only_from(Source::Locket, &present, now_ns);
            }
            self.registry.announce_from(Source::Locket, present, OF_LOCKET.kept_ns, now_ns);
            let live: Vec<String> = self.registry.live(now_ns).iter().map(|cell| cell.id.to_string()).collect();
            assert_eq!(live.join(" "), expected, "at {at_s} s");
        }
    }

    #[test]
    fn cells_come_age_and_go_and_silence_changes_nothing() {
        let mut world = World { roll: Roll::new(OF_LOCKET.kept_ns), registry: Registry::new(0) };
        world.check(0, None, "");
        world.check(2, Some(&[cell("a"), cell("b")]), "a b");
        world.check(4, Some(&[cell("a")]), "a b");
        world.check(11, Some(&[cell("a")]), "a b");
        world.check(12, Some(&[cell("a")]), "a");
        world.check(14, Some(&[cell("a"), cell("c")]), "a c");
        // Locket falls silent while c is no longer listed; the time of c starts again.
        world.check(20, Some(&[cell("a")]), "a c");
        for at_s in [23, 30, 37, 44] {
            world.check(at_s, None, "a c");
        }
        world.check(46, Some(&[cell("a")]), "a c");
        world.check(54, Some(&[cell("a")]), "a");
        // Locket comes back without what it knew.
        world.check(56, Some(&[]), "a");
        world.check(60, Some(&[cell("a")]), "a");
    }

    #[test]
    fn in_our_own_store_whoever_is_not_listed_is_gone_and_silence_changes_nothing() {
        let roll = Roll { is_exact: true, ..Roll::new(OF_OURS.kept_ns) };
        let mut world = World { roll, registry: Registry::new(0) };
        world.check(1, Some(&[cell("a"), cell("b")]), "a b");
        world.check(2, Some(&[cell("a")]), "a");
        for at_s in [5, 8, 11] {
            world.check(at_s, None, "a");
        }
        world.check(12, Some(&[cell("b")]), "b");
        world.check(13, Some(&[]), "");
    }

    #[test]
    fn what_is_no_cell_is_left_out_and_remembered() {
        let mut roll = Roll::new(OF_LOCKET.kept_ns);
        let listed = [
            cell("a"),
            presence("g1", "secret nonsense"),
            presence("g2", r#"{"cell_id":""}"#),
            presence("g3", r#"{"cell_id":"x","zone":["secret"]}"#),
            presence("g4", ""),
        ];
        let present = roll.heard(&listed, 0);
        assert_eq!(present.iter().map(|cell| cell.id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(roll.garbage.len(), 4);
        let said = roll.garbage.clone();
        roll.heard(&listed, 1);
        assert_eq!(roll.garbage, said, "the same values are not named again");
        roll.heard(&[presence("g1", "other nonsense")], 2);
        assert!(
            roll.garbage.len() == 1 && roll.garbage.is_disjoint(&said),
            "another value is, and old ones are forgotten"
        );
        let why: Vec<String> = listed[1..].iter().map(|listed| cell_of(&listed.value).unwrap_err()).collect();
        expect![[r#"
            it is not the JSON of a cell (line 1, column 1)
            it has no usable cell_id: a cell id must not be empty
            it is not the JSON of a cell (line 1, column 22)
            it is not the JSON of a cell (line 1, column 0)"#]]
        .assert_eq(&why.join("\n"));
    }

    #[tokio::test]
    async fn it_is_told_when_locket_was_asked_once_whatever_came_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("crt"), cert.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        let tls = api::client::TlsFiles { ca: path("crt"), cert: path("crt"), key: path("key"), skip_verify: false };
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let client = Client::new(&api::locket::Options { address: nobody, tls, keepalive: None }).unwrap();
        let (registry, clock) = (Registry::new(0), Arc::new(crate::clock::SystemClock));
        let (tell, told) = oneshot::channel();
        let (stop, stopped) = watch::channel(false);
        let following = tokio::spawn(follow(Place::Locket(client), registry.clone(), clock.clone(), tell, stopped));
        told.await.unwrap();
        assert!(registry.live(clock.uptime_ns()).is_empty());
        stop.send_replace(true);
        following.await.unwrap();
    }
}
