//! Which cells are there.
//!
//! Cells announce themselves with a time limit and repeat that before it ends. This is the port through which the rest of the
//! server sees them, and the registry in memory behind it; a file can feed it where no lock service does.
//!
//! Silence is treated with care. Until somebody was heard, and while everybody is silent at once, the answer is "unknown", and
//! nothing is withdrawn: a broken presence source looks exactly like a dead platform, and believing it would make it one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::converge::Cells;
use model::{Cell, CellId, Nanos};

/// How long after its start the server waits for cells to be heard again before it takes silence for absence.
pub const GRACE_NS: Nanos = 2 * PRESENCE_TTL_NS;
/// How long a presence holds unless it says otherwise.
pub const PRESENCE_TTL_NS: Nanos = 15 * model::NANOS_PER_SECOND;

#[derive(Debug)]
pub struct Registry {
    inner: Mutex<Inner>,
    /// Woken when a cell appears, so that waiting work need not wait for the timer.
    changed: tokio::sync::Notify,
}

#[derive(Debug)]
struct Inner {
    cells: BTreeMap<CellId, Presence>,
    started_ns: Nanos,
}

#[derive(Debug)]
struct Presence {
    cell: Arc<Cell>,
    expires_ns: Nanos,
}

impl Registry {
    pub fn new(started_ns: Nanos) -> Arc<Self> {
        let inner = Inner { cells: BTreeMap::new(), started_ns };
        Arc::new(Self { inner: Mutex::new(inner), changed: tokio::sync::Notify::new() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cell is there, for this long unless it says so again.
    pub fn announce(&self, cell: Cell, ttl_ns: Nanos, now_ns: Nanos) {
        let presence = Presence { expires_ns: now_ns.saturating_add(ttl_ns), cell: Arc::new(cell) };
        let known = self.inner().cells.insert(presence.cell.id.clone(), presence);
        if known.is_none_or(|known| known.expires_ns <= now_ns) {
            self.changed.notify_waiters();
        }
    }

    /// A cell says goodbye.
    pub fn withdraw(&self, id: &CellId, now_ns: Nanos) {
        if let Some(presence) = self.inner().cells.get_mut(id) {
            presence.expires_ns = now_ns;
        }
        self.changed.notify_waiters();
    }

    /// Waits until a cell came or went.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    pub fn live(&self, now_ns: Nanos) -> Vec<Arc<Cell>> {
        let inner = self.inner();
        inner
            .cells
            .values()
            .filter(|presence| presence.expires_ns > now_ns)
            .map(|presence| presence.cell.clone())
            .collect()
    }

    pub fn get(&self, id: &CellId, now_ns: Nanos) -> Option<Arc<Cell>> {
        self.inner().cells.get(id).filter(|presence| presence.expires_ns > now_ns).map(|presence| presence.cell.clone())
    }

    /// What convergence may conclude.
    pub fn known(&self, now_ns: Nanos) -> Cells {
        let started_ns = self.inner().started_ns;
        let live: std::collections::BTreeSet<_> = self.live(now_ns).into_iter().map(|cell| cell.id.clone()).collect();
        if live.is_empty() || now_ns.saturating_sub(started_ns) < GRACE_NS { Cells::Unknown } else { Cells::Live(live) }
    }

    /// Whether a cell that is not live may be taken for gone.
    pub fn is_gone(&self, id: &CellId, now_ns: Nanos) -> bool {
        self.known(now_ns).is_missing(id)
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(registry.known(1), Cells::Unknown, "others may still be heard");
        registry.announce(cell("a"), PRESENCE_TTL_NS, GRACE_NS);
        assert!(registry.is_gone(&b, GRACE_NS));
        assert!(!registry.is_gone(&a, GRACE_NS));

        let later = GRACE_NS + PRESENCE_TTL_NS;
        assert!(registry.live(later).is_empty());
        assert_eq!(registry.known(later), Cells::Unknown, "everybody fell silent at once");
        registry.announce(cell("b"), PRESENCE_TTL_NS, later);
        assert!(registry.is_gone(&a, later), "b is heard and a is not");
    }

    #[test]
    fn goodbye_takes_effect_at_once() {
        let registry = Registry::new(0);
        registry.announce(cell("a"), PRESENCE_TTL_NS, 0);
        registry.withdraw(&CellId::parse("a").unwrap(), 1);
        assert!(registry.get(&CellId::parse("a").unwrap(), 1).is_none());
    }
}
