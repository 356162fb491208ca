//! Which cells are there.
//!
//! Cells announce themselves with a time limit and repeat that before it ends. This is the port through which the rest of the
//! server sees them, and the registry in memory behind it. A file feeds it, or Locket, or both: a cell is there as long as
//! one of them says so.
//!
//! Times here are those of a clock that cannot be set: an hour that somebody sets the clock back is no hour of silence.
//!
//! Silence is treated with care. Until somebody was heard, and while everybody is silent at once, the answer is "unknown", and
//! nothing is withdrawn: a broken presence source looks exactly like a dead platform, and believing it would make it one. For
//! some time after the start, a cell is missed only if this server itself has heard it. And when most cells fall silent within a
//! minute, that is doubted for a minute: it is more often a presence source that cannot keep up than a platform that dies.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::converge::Cells;
use model::{Cell, CellId, Nanos};

/// How long after its start the server waits for cells to be heard again before it takes silence for absence.
pub const GRACE_NS: Nanos = 2 * PRESENCE_TTL_NS;
/// How long it is doubted that most cells are gone.
pub const DOUBT_NS: Nanos = 60 * model::NANOS_PER_SECOND;
/// Fewer can be lost together for a reason, such as one machine under all of them.
const DOUBTED_CELLS_MIN: usize = 3;
/// How long a presence holds unless it says otherwise.
pub const PRESENCE_TTL_NS: Nanos = 15 * model::NANOS_PER_SECOND;

#[derive(Debug)]
pub struct Registry {
    inner: Mutex<Inner>,
    /// Woken when a cell appears, so that waiting work need not wait for the timer, and when one is found to be gone.
    changed: tokio::sync::Notify,
}

/// Who says that a cell is there. If both do and differ, the cell's own word in Locket counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Listed,
    Locket,
}

const SOURCES: usize = 2;

#[derive(Debug)]
struct Inner {
    /// By source.
    cells: BTreeMap<CellId, [Option<Presence>; SOURCES]>,
    /// Who was heard in the time after the start and fell silent since.
    gone: HashSet<CellId>,
    /// Who fell silent without a goodbye, and when that was noticed; for [`DOUBT_NS`].
    fallen: BTreeMap<CellId, Nanos>,
    started_ns: Nanos,
}

#[derive(Debug)]
struct Presence {
    cell: Arc<Cell>,
    expires_ns: Nanos,
}

impl Registry {
    pub fn new(started_ns: Nanos) -> Arc<Self> {
        let inner = Inner { cells: BTreeMap::new(), gone: HashSet::new(), fallen: BTreeMap::new(), started_ns };
        Arc::new(Self { inner: Mutex::new(inner), changed: tokio::sync::Notify::new() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cell is there, for this long unless it says so again.
    pub fn announce(&self, cell: Cell, ttl_ns: Nanos, now_ns: Nanos) {
        self.announce_all([cell], ttl_ns, now_ns);
    }

    /// As [`Registry::announce_from`] for a list that somebody keeps.
    pub fn announce_all(&self, cells: impl IntoIterator<Item = Cell>, ttl_ns: Nanos, now_ns: Nanos) {
        self.announce_from(Source::Listed, cells, ttl_ns, now_ns);
    }

    /// These cells are there, all at once: whoever looks sees all of them or none. A pass between the first and the last of a
    /// list that comes in after a silence would take the last for gone.
    pub fn announce_from(&self, source: Source, cells: impl IntoIterator<Item = Cell>, ttl_ns: Nanos, now_ns: Nanos) {
        let mut inner = self.inner();
        let before = inner.cells.len();
        let Inner { cells: known, gone, fallen, started_ns } = &mut *inner;
        fallen.retain(|_, since_ns| now_ns.saturating_sub(*since_ns) < DOUBT_NS);
        let is_early = now_ns.saturating_sub(*started_ns) < GRACE_NS;
        known.retain(|id, said| {
            let is_there = current(said, now_ns).is_some();
            if !is_there {
                fallen.insert(id.clone(), now_ns);
            }
            if !is_there && is_early {
                gone.insert(id.clone());
            }
            is_there
        });
        let mut changed = inner.cells.len() < before;
        for cell in cells {
            let presence = Presence { expires_ns: now_ns.saturating_add(ttl_ns), cell: Arc::new(cell) };
            inner.gone.remove(&presence.cell.id);
            inner.fallen.remove(&presence.cell.id);
            let said = inner.cells.entry(presence.cell.id.clone()).or_default();
            changed |= current(said, now_ns).is_none();
            said[source as usize] = Some(presence);
        }
        drop(inner);
        if changed {
            self.changed.notify_waiters();
        }
    }

    /// Of what this source said, nothing but these cells holds any more.
    pub fn only_from(&self, source: Source, cells: &[Cell], now_ns: Nanos) {
        let here: HashSet<&CellId> = cells.iter().map(|cell| &cell.id).collect();
        let mut changed = false;
        for (id, said) in self.inner().cells.iter_mut().filter(|(id, _)| !here.contains(id)) {
            if let Some(presence) = said[source as usize].as_mut().filter(|presence| presence.expires_ns > now_ns) {
                tracing::info!(cell = %id, "a cell is gone");
                presence.expires_ns = now_ns;
                changed = true;
            }
        }
        if changed {
            self.changed.notify_waiters();
        }
    }

    /// The list no longer names a cell.
    pub fn withdraw(&self, id: &CellId, now_ns: Nanos) {
        if let Some([Some(listed), _]) = self.inner().cells.get_mut(id) {
            listed.expires_ns = now_ns;
        }
        self.changed.notify_waiters();
    }

    /// Waits until a cell came or went.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    pub fn live(&self, now_ns: Nanos) -> Vec<Arc<Cell>> {
        self.inner().cells.values().filter_map(|said| current(said, now_ns)).cloned().collect()
    }

    pub fn get(&self, id: &CellId, now_ns: Nanos) -> Option<Arc<Cell>> {
        self.inner().cells.get(id).and_then(|said| current(said, now_ns)).cloned()
    }

    /// Whether cells may be there that had no time yet to be heard.
    pub fn is_listening(&self, now_ns: Nanos) -> bool {
        now_ns.saturating_sub(self.inner().started_ns) < GRACE_NS
    }

    /// Whether more cells than are left have fallen silent in the last minute.
    fn is_doubtful(&self, live: usize, now_ns: Nanos) -> bool {
        let inner = self.inner();
        let silent = inner.cells.values().filter(|said| current(said, now_ns).is_none()).count();
        let recent = |since_ns: &&Nanos| now_ns.saturating_sub(**since_ns) < DOUBT_NS;
        let fallen = silent + inner.fallen.values().filter(recent).count();
        fallen >= DOUBTED_CELLS_MIN && fallen > live
    }

    /// What convergence may conclude.
    pub fn known(&self, now_ns: Nanos) -> Cells {
        let live: HashSet<_> = self.live(now_ns).into_iter().map(|cell| cell.id.clone()).collect();
        if live.is_empty() {
            return Cells::Unknown;
        }
        if self.is_doubtful(live.len(), now_ns) {
            return Cells::Heard { live, gone: HashSet::new() };
        }
        if !self.is_listening(now_ns) {
            return Cells::Live(live);
        }
        let inner = self.inner();
        let silent = inner.cells.iter().filter(|(_, said)| current(said, now_ns).is_none()).map(|(id, _)| id);
        let gone = inner.gone.iter().chain(silent).cloned().collect();
        Cells::Heard { live, gone }
    }
}

/// What counts of what was said of a cell.
fn current(said: &[Option<Presence>; SOURCES], now_ns: Nanos) -> Option<&Arc<Cell>> {
    said.iter().rev().flatten().find(|presence| presence.expires_ns > now_ns).map(|presence| &presence.cell)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn cell(id: &str) -> Cell {
        api::convert::cell_from_wire(api::models::CellPresence { cell_id: id.into(), ..Default::default() }).unwrap()
    }

    #[test]
    fn silence_alone_proves_nothing() {
        let registry = Registry::new(0);
        let (a, b) = (CellId::parse("a").unwrap(), CellId::parse("b").unwrap());
        assert_eq!(registry.known(GRACE_NS * 10), Cells::Unknown, "nobody was ever heard");

        registry.announce(cell("a"), PRESENCE_TTL_NS, 0);
        assert!(registry.known(1).is_live(&a) && !registry.known(1).is_missing(&b), "others may still be heard");
        registry.announce(cell("a"), PRESENCE_TTL_NS, GRACE_NS);
        assert!(registry.known(GRACE_NS).is_missing(&b));
        assert!(!registry.known(GRACE_NS).is_missing(&a));

        let later = GRACE_NS + PRESENCE_TTL_NS;
        assert!(registry.live(later).is_empty());
        assert_eq!(registry.known(later), Cells::Unknown, "everybody fell silent at once");
        registry.announce(cell("b"), PRESENCE_TTL_NS, later);
        assert!(registry.known(later).is_missing(&a), "b is heard and a is not");
    }

    #[test]
    fn soon_after_the_start_whoever_was_heard_is_missed_and_nobody_else() {
        let registry = Registry::new(0);
        let [a, b, c] = ["a", "b", "c"].map(|id| CellId::parse(id).unwrap());
        registry.announce_all([cell("a"), cell("b")], 1, 0);
        assert_eq!(registry.known(1), Cells::Unknown, "everybody fell silent at once");
        for now_ns in [1, 2] {
            registry.announce(cell("a"), 10, now_ns);
            assert!(registry.known(now_ns).is_missing(&b), "at {now_ns}");
            assert!(!registry.known(now_ns).is_missing(&a) && !registry.known(now_ns).is_missing(&c), "at {now_ns}");
        }
        registry.announce_all([cell("a"), cell("b")], 10, 3);
        assert!(!registry.known(3).is_missing(&b), "it is back");
        registry.only_from(Source::Listed, &[cell("a")], 4);
        assert!(registry.known(4).is_missing(&b), "it is gone before its time");
        registry.announce(cell("a"), 10, GRACE_NS);
        assert!(registry.known(GRACE_NS).is_missing(&c), "it had the time to speak");
    }

    #[test]
    fn that_most_cells_are_gone_is_doubted_for_a_minute() {
        let ids = |count: usize| (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>();
        let check = |there: usize, left: usize, doubted: bool| {
            let registry = Registry::new(-GRACE_NS);
            registry.announce_all(ids(there).iter().map(|id| cell(id)), 10, 0);
            let lost = CellId::parse(ids(there).last().unwrap()).unwrap();
            for now_ns in [10, 20, DOUBT_NS + 9] {
                registry.announce_all(ids(left).iter().map(|id| cell(id)), DOUBT_NS, now_ns);
                assert_eq!(registry.known(now_ns).is_missing(&lost), !doubted, "{left} of {there} at {now_ns}");
            }
            registry.announce_all(ids(left).iter().map(|id| cell(id)), 10, DOUBT_NS + 10);
            assert!(registry.known(DOUBT_NS + 10).is_missing(&lost), "{left} of {there}: a minute is enough");
        };
        check(2, 1, false);
        check(3, 1, false);
        check(4, 1, true);
        check(10, 5, false);
        check(10, 4, true);
        check(1000, 900, false);
        let registry = Registry::new(-GRACE_NS);
        registry.announce_all(ids(4).iter().map(|id| cell(id)), 10, 0);
        registry.announce_all([cell("c0")], 100, 10);
        registry.announce_all(ids(4).iter().map(|id| cell(id)), 100, 11);
        assert!(matches!(registry.known(12), Cells::Live(live) if live.len() == 4), "they are back");
    }

    #[test]
    fn cells_that_are_announced_together_are_heard_together() {
        const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
        let registry = Registry::new(-GRACE_NS);
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        std::thread::scope(|threads| {
            // Somebody looks after the first cell and before the second. It either waits or sees none of them.
            let between = |id: &&str| {
                if *id == "b" {
                    let (registry, tell) = (&registry, tell.clone());
                    threads.spawn(move || tell.send(registry.known(0)).unwrap());
                    if let Ok(seen) = told.recv_timeout(LOOK) {
                        assert_eq!(seen, Cells::Unknown, "the others would be taken for gone");
                    }
                }
            };
            let cells = ["a", "b", "c"].iter().inspect(|id| between(id)).map(|id| cell(id));
            registry.announce_all(cells, PRESENCE_TTL_NS, 0);
        });
        assert_eq!(registry.live(0).len(), 3);
    }

    #[test]
    fn a_cell_that_is_gone_is_a_reason_to_look() {
        let registry = Registry::new(0);
        registry.announce_all([cell("a"), cell("b")], 10, 0);
        let mut change = Box::pin(registry.changed());
        assert!(change.as_mut().now_or_never().is_none(), "nothing happened yet");
        registry.announce_all([cell("a")], 10, 9);
        assert!(change.as_mut().now_or_never().is_none(), "b may still be heard");
        registry.announce_all([cell("a")], 10, 10);
        assert!(change.as_mut().now_or_never().is_some());
    }

    #[test]
    fn goodbye_takes_effect_at_once() {
        let registry = Registry::new(0);
        registry.announce(cell("a"), PRESENCE_TTL_NS, 0);
        registry.withdraw(&CellId::parse("a").unwrap(), 1);
        assert!(registry.get(&CellId::parse("a").unwrap(), 1).is_none());
    }

    #[test]
    fn a_cell_is_there_as_long_as_one_source_says_so() {
        let registry = Registry::new(0);
        let a = CellId::parse("a").unwrap();
        let zone = |at| registry.get(&a, at).map(|cell| cell.zone.clone());
        let in_zone = |zone: &str| Cell { zone: zone.into(), ..cell("a") };
        registry.announce_all([in_zone("listed")], 100, 0);
        registry.announce_from(Source::Locket, [in_zone("locket")], 10, 0);
        assert_eq!((zone(9), zone(10), zone(100)), (Some("locket".into()), Some("listed".into()), None));
        registry.announce_from(Source::Locket, [in_zone("locket")], 10, 20);
        registry.withdraw(&a, 20);
        assert_eq!((zone(29), zone(30)), (Some("locket".into()), None), "the list speaks for itself alone");
        registry.announce_from(Source::Locket, [], 10, 200);
        assert!(registry.inner().cells.is_empty(), "who is gone is forgotten");
    }
}
