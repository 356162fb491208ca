//! The board: the whole state in memory, as an immutable snapshot that shares structure with the snapshots before it.
//!
//! Cloning a board costs a handful of reference counts, however many records it holds. The writer clones, changes its clone,
//! and makes it visible once the store has the change; readers keep whatever snapshot they took and are never in the way.
//! Letting go of a clone is the rollback.
//!
//! Records are kept decoded (for decisions) and encoded (for answers), each once. Maps are ordered by id, so that a list can
//! be streamed piece by piece: a reader remembers the last id it sent, not an iterator.

use std::ops::Bound;
use std::sync::Arc;

use api::convert::Item;
use api::convert::desired_lrp::Encoded;
use imbl::{OrdMap, OrdSet};
use model::converge::lrps;
use model::{ActualState, CellId, DesiredLrp, Domain, DomainName, Presence, ProcessGuid, Slot, Task, TaskGuid};

pub mod quarantine;
mod totals;

pub use quarantine::{Kept, Place, Quarantine};
pub use totals::Totals;

#[derive(Clone, Debug, Default)]
pub struct Board {
    /// The store revision that this snapshot shows.
    pub revision: u64,
    pub desired: OrdMap<ProcessGuid, Arc<DesiredEntry>>,
    pub slots: OrdMap<SlotKey, Arc<SlotEntry>>,
    pub tasks: OrdMap<TaskGuid, Arc<TaskEntry>>,
    pub domains: OrdMap<DomainName, Arc<Domain>>,
    /// Holds the entries themselves: every cell asks for its own all the time, and looking each up would cost more than
    /// sending it.
    slots_by_cell: OrdMap<CellId, OrdMap<SlotKey, Arc<SlotEntry>>>,
    slots_by_domain: OrdMap<DomainName, OrdSet<SlotKey>>,
    desired_by_domain: OrdMap<DomainName, OrdSet<ProcessGuid>>,
    /// Those whose instances are being brought to another definition.
    rolling: OrdSet<ProcessGuid>,
    tasks_by_cell: OrdMap<CellId, OrdSet<TaskGuid>>,
    totals: Totals,
    /// Records in the store that could not be read. They are kept, named, and shown to the operator.
    pub quarantine: Quarantine,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotKey {
    pub process_guid: ProcessGuid,
    pub index: i32,
}

#[derive(Debug)]
pub struct DesiredEntry {
    pub lrp: Arc<DesiredLrp>,
    pub wire: Encoded,
}

#[derive(Debug)]
pub struct SlotEntry {
    pub slot: Slot,
    /// The rows of the slot in its order, each as it stands in a list.
    items: [Option<Item>; 3],
}

#[derive(Debug)]
pub struct TaskEntry {
    pub task: Arc<Task>,
    pub item: Item,
}

const PRESENCES: [Presence; 3] = [Presence::Ordinary, Presence::Evacuating, Presence::Suspect];

impl DesiredEntry {
    pub fn new(lrp: Arc<DesiredLrp>) -> Self {
        let wire = Encoded::of(&lrp);
        Self { lrp, wire }
    }
}

impl SlotEntry {
    /// Encodes the rows that are not the very rows of `before`.
    pub fn new(slot: Slot, before: Option<&SlotEntry>) -> Self {
        let items = PRESENCES.map(|presence| {
            let row = slot.get(presence)?;
            let kept = before.and_then(|before| {
                let same = before.slot.get(presence).is_some_and(|old| Arc::ptr_eq(old, row));
                before.item(presence).filter(|_| same)
            });
            Some(kept.cloned().unwrap_or_else(|| api::convert::actual_item(row)))
        });
        Self { slot, items }
    }

    fn item(&self, presence: Presence) -> Option<&Item> {
        let at = PRESENCES.iter().position(|known| *known == presence)?;
        self.items[at].as_ref()
    }

    /// Rows with their encoded form.
    pub fn rows(&self) -> impl Iterator<Item = (&Arc<model::ActualLrp>, &Item)> {
        PRESENCES.into_iter().filter_map(|presence| Some((self.slot.get(presence)?, self.item(presence)?)))
    }
}

impl TaskEntry {
    pub fn new(task: Arc<Task>) -> Self {
        let item = api::convert::task_item(&task);
        Self { task, item }
    }
}

impl Board {
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    pub fn slot(&self, process_guid: &ProcessGuid, index: i32) -> Slot {
        self.slot_entry(process_guid, index).map(|entry| entry.slot.clone()).unwrap_or_default()
    }

    pub fn slot_entry(&self, process_guid: &ProcessGuid, index: i32) -> Option<&Arc<SlotEntry>> {
        self.slots.get(&SlotKey { process_guid: process_guid.clone(), index })
    }

    /// All slots of a process, by index.
    pub fn slots_of(&self, process_guid: &ProcessGuid) -> impl Iterator<Item = (&SlotKey, &Arc<SlotEntry>)> {
        let first = SlotKey { process_guid: process_guid.clone(), index: i32::MIN };
        let last = SlotKey { process_guid: process_guid.clone(), index: i32::MAX };
        self.slots.range(first..=last)
    }

    pub fn slots_on(&self, cell: &CellId) -> impl Iterator<Item = &Arc<SlotEntry>> {
        self.slots_by_cell.get(cell).into_iter().flat_map(|slots| slots.values())
    }

    pub fn slots_in(&self, domain: &DomainName) -> impl Iterator<Item = &Arc<SlotEntry>> {
        self.slots_by_domain.get(domain).into_iter().flatten().filter_map(|key| self.slots.get(key))
    }

    pub fn desired_in(&self, domain: &DomainName) -> impl Iterator<Item = &Arc<DesiredEntry>> {
        self.desired_by_domain.get(domain).into_iter().flatten().filter_map(|guid| self.desired.get(guid))
    }

    pub fn tasks_on(&self, cell: &CellId) -> impl Iterator<Item = &Arc<TaskEntry>> {
        self.tasks_by_cell.get(cell).into_iter().flatten().filter_map(|guid| self.tasks.get(guid))
    }

    pub fn fresh_domains(&self, now_ns: model::Nanos) -> impl Iterator<Item = &DomainName> {
        self.domains.values().filter(move |domain| domain.is_fresh(now_ns)).map(|domain| &domain.name)
    }

    /// Whether every index below the wanted number has an ordinary row that runs.
    pub fn all_running(&self, lrp: &DesiredLrp) -> bool {
        let running = self
            .slots_of(&lrp.process_guid)
            .filter(|(_, entry)| entry.slot.ordinary.as_ref().is_some_and(|row| row.state == ActualState::Running))
            .count();
        running >= usize::try_from(lrp.instances).unwrap_or(0)
    }

    pub fn put_slot(&mut self, key: SlotKey, slot: Slot) {
        let before = self.slots.get(&key).cloned();
        if let Some(before) = &before {
            self.totals.remove_slot(before);
        }
        self.index_slot(&key, before.as_ref().map(|entry| &entry.slot), &slot);
        if slot.is_empty() {
            self.slots.remove(&key);
            return;
        }
        let entry = Arc::new(SlotEntry::new(slot, before.as_deref()));
        self.totals.add_slot(&entry);
        for cell in cells_of(&entry.slot) {
            match self.slots_by_cell.get_mut(cell) {
                Some(slots) => {
                    slots.insert(key.clone(), entry.clone());
                }
                None => {
                    self.slots_by_cell.insert(cell.clone(), OrdMap::unit(key.clone(), entry.clone()));
                }
            }
        }
        self.slots.insert(key, entry);
    }

    /// Takes a slot out of the indexes it no longer belongs to. Most changes leave the domain as it is, and then that index
    /// is not touched.
    fn index_slot(&mut self, key: &SlotKey, before: Option<&Slot>, after: &Slot) {
        let nothing = Slot::default();
        let before = before.unwrap_or(&nothing);
        for cell in cells_of(before).filter(|cell| !cells_of(after).any(|other| other == *cell)) {
            let now_empty = self.slots_by_cell.get_mut(cell).is_some_and(|slots| {
                slots.remove(key);
                slots.is_empty()
            });
            if now_empty {
                self.slots_by_cell.remove(cell);
            }
        }
        for domain in domains_of(before).filter(|domain| !domains_of(after).any(|other| other == *domain)) {
            remove_from(&mut self.slots_by_domain, domain, key);
        }
        for domain in domains_of(after).filter(|domain| !domains_of(before).any(|other| other == *domain)) {
            insert_into(&mut self.slots_by_domain, domain, key);
        }
    }

    pub fn put_desired(&mut self, lrp: Arc<DesiredLrp>) {
        let guid = lrp.process_guid.clone();
        let old = self.desired.get(&guid).cloned();
        if let Some(old) = &old {
            self.totals.remove_desired(old);
        }
        // One that was removed and desired again may come as one change, in another domain. Most changes leave it as it is.
        if old.as_ref().is_none_or(|old| old.lrp.domain != lrp.domain) {
            if let Some(old) = &old {
                remove_from(&mut self.desired_by_domain, &old.lrp.domain, &guid);
            }
            insert_into(&mut self.desired_by_domain, &lrp.domain, &guid);
        }
        match lrp.previous.is_some() || lrp.rollout().is_some() {
            true => drop(self.rolling.insert(guid.clone())),
            false => drop(self.rolling.remove(&guid)),
        }
        let entry = Arc::new(DesiredEntry::new(lrp));
        self.totals.add_desired(&entry);
        self.desired.insert(guid, entry);
    }

    pub fn remove_desired(&mut self, guid: &ProcessGuid) {
        if let Some(old) = self.desired.remove(guid) {
            self.totals.remove_desired(&old);
            self.rolling.remove(guid);
            remove_from(&mut self.desired_by_domain, &old.lrp.domain, guid);
        }
    }

    /// The processes whose instances are being brought to another definition.
    pub fn rolling(&self) -> impl Iterator<Item = &ProcessGuid> {
        self.rolling.iter()
    }

    pub fn put_task(&mut self, task: Arc<Task>) {
        self.remove_task(&task.guid.clone());
        if let Some(cell) = &task.cell_id {
            insert_into(&mut self.tasks_by_cell, cell, &task.guid);
        }
        let entry = Arc::new(TaskEntry::new(task));
        self.tasks.insert(entry.task.guid.clone(), entry);
    }

    pub fn remove_task(&mut self, guid: &TaskGuid) {
        if let Some(cell) = self.tasks.remove(guid).and_then(|old| old.task.cell_id.clone()) {
            remove_from(&mut self.tasks_by_cell, &cell, guid);
        }
    }

    pub fn put_domain(&mut self, domain: Domain) {
        self.domains.insert(domain.name.clone(), Arc::new(domain));
    }

    pub fn remove_domain(&mut self, name: &DomainName) {
        self.domains.remove(name);
    }

    /// The first entries after `last`, for a list that is sent piece by piece.
    pub fn slots_after(&self, last: Option<&SlotKey>) -> impl Iterator<Item = (&SlotKey, &Arc<SlotEntry>)> {
        self.slots.range::<_, SlotKey>((last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
    }

    pub fn desired_after(
        &self,
        last: Option<&ProcessGuid>,
    ) -> impl Iterator<Item = (&ProcessGuid, &Arc<DesiredEntry>)> {
        self.desired.range::<_, ProcessGuid>((last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
    }

    /// Two boards that hold different kinds of records as one.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        let mut totals = self.totals;
        totals.add(&other.totals);
        Self {
            revision: self.revision.max(other.revision),
            desired: self.desired.union(other.desired),
            slots: self.slots.union(other.slots),
            tasks: self.tasks.union(other.tasks),
            domains: self.domains.union(other.domains),
            slots_by_cell: self.slots_by_cell.union(other.slots_by_cell),
            slots_by_domain: self.slots_by_domain.union(other.slots_by_domain),
            desired_by_domain: self.desired_by_domain.union(other.desired_by_domain),
            rolling: self.rolling.union(other.rolling),
            tasks_by_cell: self.tasks_by_cell.union(other.tasks_by_cell),
            totals,
            quarantine: self.quarantine.union(other.quarantine),
        }
    }

    /// Rebuilds every index from the records and compares. For tests and for the check after a restart.
    pub fn check_indexes(&self) -> Result<(), String> {
        let mut fresh = Board { revision: self.revision, ..Board::default() };
        for (key, entry) in &self.slots {
            fresh.put_slot(key.clone(), entry.slot.clone());
        }
        for entry in self.desired.values() {
            fresh.put_desired(entry.lrp.clone());
        }
        for entry in self.tasks.values() {
            fresh.put_task(entry.task.clone());
        }
        let same = [
            ("slots by cell", fresh.cells_and_keys() == self.cells_and_keys() && self.cells_show_the_present()),
            ("slots by domain", fresh.slots_by_domain == self.slots_by_domain),
            ("desired by domain", fresh.desired_by_domain == self.desired_by_domain),
            ("rolling", fresh.rolling == self.rolling),
            ("tasks by cell", fresh.tasks_by_cell == self.tasks_by_cell),
            ("totals", fresh.totals == self.totals),
        ];
        match same.iter().find(|(_, same)| !same) {
            Some((index, _)) => Err(format!("the index {index} does not match the records")),
            None => Ok(()),
        }
    }
}

impl Board {
    fn cells_and_keys(&self) -> Vec<(&CellId, Vec<&SlotKey>)> {
        self.slots_by_cell.iter().map(|(cell, slots)| (cell, slots.keys().collect())).collect()
    }

    /// Whether the index by cell holds the very entries that the board holds.
    fn cells_show_the_present(&self) -> bool {
        let same = |key: &SlotKey, entry| self.slots.get(key).is_some_and(|present| Arc::ptr_eq(present, entry));
        self.slots_by_cell.values().all(|slots| slots.iter().all(|(key, entry)| same(key, entry)))
    }
}

impl lrps::State for Board {
    fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.values().map(AsRef::as_ref)
    }

    /// Desired LRPs and slots are both ordered by process guid, so one walk over each is enough.
    fn processes(&self) -> impl Iterator<Item = lrps::Process<'_>> {
        let mut desired = self.desired.iter().peekable();
        let mut slots = self.slots.iter().peekable();
        std::iter::from_fn(move || {
            let guid = match (desired.peek(), slots.peek()) {
                (Some((wanted, _)), Some((key, _))) => (*wanted).min(&key.process_guid).clone(),
                (Some((wanted, _)), None) => (*wanted).clone(),
                (None, Some((key, _))) => key.process_guid.clone(),
                (None, None) => return None,
            };
            let wanted = desired.next_if(|(wanted, _)| **wanted == guid).map(|(_, entry)| entry.lrp.as_ref());
            let mut process = lrps::Process { desired: wanted, slots: Vec::new() };
            while let Some((key, entry)) = slots.next_if(|(key, _)| key.process_guid == guid) {
                process.slots.push((key.index, &entry.slot));
            }
            Some(process)
        })
    }
}

fn cells_of(slot: &Slot) -> impl Iterator<Item = &CellId> {
    slot.rows().filter_map(|row| row.cell_id())
}

fn domains_of(slot: &Slot) -> impl Iterator<Item = &DomainName> {
    slot.rows().map(|row| &row.key.domain)
}

fn insert_into<K: Ord + Clone, V: Ord + Clone>(index: &mut OrdMap<K, OrdSet<V>>, key: &K, value: &V) {
    match index.get_mut(key) {
        Some(values) => {
            values.insert(value.clone());
        }
        None => {
            index.insert(key.clone(), OrdSet::unit(value.clone()));
        }
    }
}

fn remove_from<K: Ord + Clone, V: Ord + Clone>(index: &mut OrdMap<K, OrdSet<V>>, key: &K, value: &V) {
    let now_empty = index.get_mut(key).is_some_and(|values| {
        values.remove(value);
        values.is_empty()
    });
    if now_empty {
        index.remove(key);
    }
}
