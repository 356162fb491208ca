//! The routing table: a pure value that news is applied to, and that says what routers must be told.
//!
//! Promises, each with a test:
//! - News that is older than what is held, by its modification tag, changes nothing. So events in any order that tags allow,
//!   over any listing that is not newer than the last of them, end in the same table as a listing made at the end.
//! - Nothing is unregistered that any process still has a row for, whatever else about the row changed.
//! - Starting or ending an evacuation says nothing: the two records of an instance make one row. The evacuated instance and
//!   its replacement are routed at the same time.
//! - During an update an index has two instances: both are routed, each as its definition says, until its own record is gone.
//! - **Absence is not deletion.** A listing withdraws an endpoint only by a positive statement: another record is listed for
//!   its index (the state server has one for every index that is desired), its process has fewer instances now, or its
//!   process is gone from a domain that is fresh. A listing without anything withdraws nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use api::event::EventPayload;
use api::models::ActualLrp;

use crate::endpoint::Sighting;
use crate::process::{Desired, Process, Rules, TcpMapping};
use crate::row::{Key, Row};

/// What routers must be told, in this order: a router that hears of the new endpoint first never has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub register: Vec<Row>,
    pub unregister: Vec<Row>,
    /// The registrations follow the arrival of an endpoint.
    pub arrival: bool,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.register.is_empty() && self.unregister.is_empty()
    }
}

/// Everything the state server says at one time.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub desired: Vec<Desired>,
    pub actual: Vec<ActualLrp>,
    /// The domains whose desired LRPs are complete.
    pub fresh: BTreeSet<String>,
}

/// The guids of instances by those of their processes.
pub type Held = BTreeMap<String, BTreeSet<String>>;

/// What became of a listing.
#[derive(Clone, Debug, PartialEq)]
pub enum Swap {
    Taken(Changes),
    /// It holds nothing while the table does: the table stays.
    Refused,
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    rules: Rules,
    /// Only instances on this cell count, and only processes that have one.
    cell_id: Option<String>,
    processes: BTreeMap<String, Process>,
    /// Processes with instances whose routes are unknown.
    orphans: BTreeSet<String>,
    /// How many processes have a row with this key.
    holders: HashMap<Key, u32>,
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.processes == other.processes
    }
}

impl Table {
    pub fn new(rules: Rules, cell_id: Option<String>) -> Self {
        Self { rules, cell_id, ..Self::default() }
    }

    /// All that should be registered.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.processes.values().flat_map(|process| process.rows(self.rules).into_values())
    }

    /// What should be registered for some processes, in the order of their guids, and where to go on; `None` at the end.
    pub fn rows_after(&self, guid: &str, processes: usize) -> (Vec<Row>, Option<String>) {
        let rest = (Bound::Excluded(guid), Bound::Unbounded);
        let slice: Vec<(&String, &Process)> = self.processes.range::<str, _>(rest).take(processes).collect();
        let next = slice.last().filter(|_| slice.len() == processes).map(|(guid, _)| (*guid).clone());
        (slice.into_iter().flat_map(|(_, process)| process.rows(self.rules).into_values()).collect(), next)
    }

    pub fn row_count(&self) -> usize {
        self.holders.len()
    }

    pub fn tcp_mappings(&self) -> impl Iterator<Item = TcpMapping> {
        self.processes.values().flat_map(|process| process.tcp_mappings(self.rules))
    }

    /// Processes with instances whose routes are unknown: their desired LRP should be asked for.
    pub fn without_desired(&self) -> impl Iterator<Item = &str> {
        self.orphans.iter().map(String::as_str)
    }

    /// Which instances of which processes are held.
    pub fn held(&self) -> Held {
        let instances = |process: &Process| process.endpoints.keys().map(|key| key.instance_guid.clone()).collect();
        self.processes.iter().map(|(guid, process)| (guid.clone(), instances(process))).collect()
    }

    /// Takes in one event of the stream of instances. Events of other streams say nothing here.
    pub fn apply(&mut self, event: EventPayload) -> Changes {
        match event {
            EventPayload::DesiredLrpCreated(event) => self.desire(Desired::of(event.desired_lrp.unwrap_or_default())),
            EventPayload::DesiredLrpChanged(event) => self.desire(Desired::of(event.after.unwrap_or_default())),
            EventPayload::DesiredLrpRemoved(event) => {
                let gone = Desired::of(event.desired_lrp.unwrap_or_default());
                self.change(&gone.process_guid, |process| process.remove_desired(&gone.tag))
            }
            EventPayload::ActualLrpInstanceCreated(event) => self.see(event.actual_lrp.unwrap_or_default()),
            EventPayload::ActualLrpInstanceChanged(event) => {
                let (before, after) = Sighting::change(event);
                self.moved(&before, after)
            }
            EventPayload::ActualLrpInstanceRemoved(event) => {
                let gone = Sighting::of(event.actual_lrp.unwrap_or_default());
                self.change(&gone.process_guid, |process| process.lose(&gone.key, &gone.endpoint.tag))
            }
            _ => Changes::default(),
        }
    }

    /// Takes in the routes of one process.
    pub fn desire(&mut self, desired: Desired) -> Changes {
        // On a cell the desired LRPs of all others are nobody's business; what comes to run here is asked for.
        if self.cell_id.is_some() && !self.processes.contains_key(&desired.process_guid) {
            return Changes::default();
        }
        self.change(&desired.process_guid.clone(), |process| process.set_desired(desired))
    }

    fn see(&mut self, lrp: ActualLrp) -> Changes {
        let seen = Sighting::of(lrp);
        if !seen.routable || !self.is_here(&seen) {
            return Changes::default();
        }
        let changes = self.change(&seen.process_guid.clone(), |process| process.see(seen));
        Changes { arrival: true, ..changes }
    }

    fn moved(&mut self, before: &Sighting, after: Sighting) -> Changes {
        if !self.is_here(&after) {
            return Changes::default();
        }
        let changes = self.change(&after.process_guid.clone(), |process| {
            let tag = after.endpoint.tag.clone();
            let (same_record, routable) = (before.key == after.key, after.routable);
            if routable {
                process.see(after);
            }
            // Evacuation gives a record another name; the old name is no longer used.
            if before.routable && !(routable && same_record) {
                process.lose(&before.key, &tag);
            }
        });
        Changes { arrival: true, ..changes }
    }

    fn is_here(&self, seen: &Sighting) -> bool {
        self.cell_id.as_ref().is_none_or(|cell_id| *cell_id == seen.cell_id)
    }

    /// Changes one process and finds out what that means to routers.
    fn change(&mut self, guid: &str, step: impl FnOnce(&mut Process)) -> Changes {
        let mut process = self.processes.remove(guid).unwrap_or_default();
        let before = process.rows(self.rules);
        step(&mut process);
        let after = process.rows(self.rules);
        let forgotten = process.is_empty() || (self.cell_id.is_some() && process.endpoints.is_empty());
        if forgotten || process.desired.is_some() {
            self.orphans.remove(guid);
        } else {
            self.orphans.insert(guid.to_owned());
        }
        if !forgotten {
            self.processes.insert(guid.to_owned(), process);
        }
        let after = if forgotten { BTreeMap::new() } else { after };
        let mut changes = Changes::default();
        self.turn(before, after, &mut changes);
        changes
    }

    /// Counts the holders of each key anew and notes the difference.
    fn turn(&mut self, mut before: BTreeMap<Key, Row>, after: BTreeMap<Key, Row>, changes: &mut Changes) {
        for (key, row) in after {
            match before.remove(&key) {
                Some(known) if known.message == row.message => {}
                Some(_) => changes.register.push(row),
                None => {
                    *self.holders.entry(key).or_default() += 1;
                    changes.register.push(row);
                }
            }
        }
        for (key, row) in before {
            let Some(holders) = self.holders.get_mut(&key) else { continue };
            *holders -= 1;
            if *holders == 0 {
                self.holders.remove(&key);
                changes.unregister.push(row);
            }
        }
    }

    /// Replaces the table by a listing and the events that came while it was on its way.
    pub fn swap(&mut self, listing: Listing, events: Vec<EventPayload>) -> Swap {
        if listing.desired.is_empty() && listing.actual.is_empty() && self.row_count() > 0 {
            return Swap::Refused;
        }
        let listed: BTreeSet<(String, i32)> = listing.actual.iter().filter_map(listed_index).collect();
        let mut new = Table::new(self.rules, self.cell_id.clone());
        // Instances first: on a cell they decide whose routes are of interest.
        for lrp in listing.actual {
            new.see(lrp);
        }
        for desired in listing.desired {
            new.desire(desired);
        }
        for event in events {
            new.apply(event);
        }
        self.keep_unsaid(&mut new, &listed, &listing.fresh);
        Swap::Taken(self.become_table(new))
    }

    /// Carries over what the listing is silent about.
    fn keep_unsaid(&self, new: &mut Table, listed: &BTreeSet<(String, i32)>, fresh: &BTreeSet<String>) {
        for (guid, old) in &self.processes {
            let mut process = new.processes.remove(guid).unwrap_or_default();
            if process.desired.is_none() {
                process.desired = old.desired.clone().filter(|desired| !fresh.contains(&desired.domain));
            }
            if process.desired.is_some() {
                for (key, endpoint) in &old.endpoints {
                    let unsaid = !listed.contains(&(guid.clone(), endpoint.index)) && !process.is_surplus(endpoint);
                    if unsaid && !process.endpoints.contains_key(key) {
                        process.endpoints.insert(key.clone(), endpoint.clone());
                    }
                }
            }
            let forgotten = process.is_empty() || (self.cell_id.is_some() && process.endpoints.is_empty());
            if !forgotten {
                new.processes.insert(guid.clone(), process);
            }
        }
    }

    /// Key by key over both tables, so that what moved from one process to another is not unregistered.
    fn become_table(&mut self, new: Table) -> Changes {
        let mut changes = Changes::default();
        let old = std::mem::replace(&mut self.processes, new.processes);
        let orphans = self.processes.iter().filter(|(_, process)| process.desired.is_none());
        self.orphans = orphans.map(|(guid, _)| guid.clone()).collect();
        let guids: BTreeSet<String> = old.keys().chain(self.processes.keys()).cloned().collect();
        let mut gone = Vec::new();
        for guid in guids {
            let rows = |process: Option<&Process>| process.map(|p| p.rows(self.rules)).unwrap_or_default();
            let (mut before, after) = (rows(old.get(&guid)), rows(self.processes.get(&guid)));
            let lost: Vec<Key> = before.keys().filter(|key| !after.contains_key(*key)).cloned().collect();
            gone.extend(lost.into_iter().filter_map(|key| before.remove_entry(&key)));
            self.turn(before, after, &mut changes);
        }
        self.turn_away(gone, &mut changes);
        changes
    }

    fn turn_away(&mut self, gone: Vec<(Key, Row)>, changes: &mut Changes) {
        for (key, row) in gone {
            self.turn(BTreeMap::from([(key, row)]), BTreeMap::new(), changes);
        }
    }
}

/// The process and index that a listed record makes a statement about.
fn listed_index(lrp: &ActualLrp) -> Option<(String, i32)> {
    lrp.actual_lrp_key.as_ref().map(|key| (key.process_guid.clone(), key.index))
}

#[cfg(test)]
mod tests;
