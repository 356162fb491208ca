//! The book of reports: which task is to be reported when, and whose turn it is. It does no I/O and reads no clock.
//!
//! Promises, each tested below:
//!
//! - At most one call is under way for a task, however often it is asked for, and its pauses are kept: who asks again for a task
//!   that waits changes nothing.
//! - Hosts take turns. A host has at most `host_calls_max` calls under way, and one that cannot be reached has one, after
//!   pauses of its own: ten thousand tasks for it cost one worker now and then.
//! - A host that answers is not held responsible for the answer: then only the task waits.
//! - The book is bounded. When it is full, the host with the most tasks gives up the place of the task that would wait the
//!   longest; a task for that very host is not taken in. Whoever was left out is brought again by convergence, and starts anew.
//!
//! What is lost with the book, on a fail-over, is only how long each had to wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::{Nanos, TaskGuid};

use super::pause::{Pauses, nanos};

/// Between attempts to report to somebody who does not take the report.
pub(super) const FAILURE_PAUSES: Pauses = Pauses { first: Duration::from_secs(1), max: Duration::from_secs(5 * 60) };
/// Between reports to somebody who took one and has not deleted the task.
pub(super) const REMINDER_PAUSES: Pauses = Pauses { first: Duration::from_secs(60), max: Duration::from_secs(60 * 60) };
/// Between attempts to reach a host, whatever the task. Short, so that a host that is back is soon noticed.
const HOST_PAUSES: Pauses = Pauses { first: Duration::from_secs(1), max: Duration::from_secs(30) };
/// The longest pause that a receiver can ask for.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(10 * 60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) tasks_max: usize,
    pub(super) host_calls_max: usize,
}

#[derive(Debug)]
pub(super) struct Book {
    limits: Limits,
    tasks: HashMap<TaskGuid, Entry>,
    hosts: HashMap<Arc<str>, Host>,
    /// Hosts by how many tasks they have here.
    sizes: BTreeSet<(usize, Arc<str>)>,
    /// When each host that may be called is called next; those that are due at the same time in the order of their turns.
    turns: BTreeMap<Turn, Arc<str>>,
    last_turn: u64,
}

type Turn = (Nanos, u64);

#[derive(Debug)]
struct Entry {
    host: Arc<str>,
    /// When the task ended, which tells it from an earlier one of the same guid.
    ended_ns: Nanos,
    /// `None` while a call is under way.
    due_ns: Option<Nanos>,
    failures: u32,
    reminders: u32,
}

#[derive(Debug, Default)]
struct Host {
    waiting: BTreeSet<(Nanos, TaskGuid)>,
    under_way: usize,
    /// How often in a row it could not be reached.
    failures: u32,
    not_before_ns: Nanos,
    served_ns: Nanos,
    turn: Option<Turn>,
}

impl Host {
    fn size(&self) -> usize {
        self.waiting.len() + self.under_way
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    New,
    Known,
    Full,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// There is nothing to report any more.
    Settled,
    /// It was taken; the task is still there.
    Taken,
    NotTaken {
        retry_after: Option<Duration>,
    },
}

/// What a call tells about the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing.
    Unused,
    Answered,
    Silent,
}

/// What is tried next for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// How often in a row its report was not taken.
    pub(super) failures: u32,
    pub(super) pause_ns: Nanos,
}

impl Book {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            tasks: HashMap::new(),
            hosts: HashMap::new(),
            sizes: BTreeSet::new(),
            turns: BTreeMap::new(),
            last_turn: 0,
        }
    }

    /// How many tasks are in it, those under way included.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// When [`Self::next`] has something to give, unless a call ends or a task comes before.
    pub(super) fn due_ns(&self) -> Option<Nanos> {
        self.turns.first_key_value().map(|((at_ns, _), _)| *at_ns)
    }

    /// Takes a task in, to be reported as soon as it is the turn of its host. `ended_ns` is when the task ended: an earlier one
    /// of the same guid is forgotten.
    pub(super) fn admit(
        &mut self,
        guid: TaskGuid,
        ended_ns: Nanos,
        host: impl FnOnce() -> String,
        now_ns: Nanos,
    ) -> Admission {
        match self.tasks.get(&guid).map(|known| (known.ended_ns == ended_ns, known.due_ns)) {
            Some((false, Some(due_ns))) => self.forget(&(due_ns, guid.clone())),
            Some(_) => return Admission::Known,
            None => {}
        }
        let host: Arc<str> = host().into();
        if self.tasks.len() >= self.limits.tasks_max && !self.make_room_for(&host) {
            return Admission::Full;
        }
        self.change(&host, |host| host.waiting.insert((now_ns, guid.clone())));
        self.tasks.insert(guid, Entry { host, ended_ns, due_ns: Some(now_ns), failures: 0, reminders: 0 });
        Admission::New
    }

    /// The task to call for now. It counts as under way until [`Self::ended`] is told.
    pub(super) fn next(&mut self, now_ns: Nanos) -> Option<TaskGuid> {
        let (turn, name) = self.turns.first_key_value()?;
        if turn.0 > now_ns {
            return None;
        }
        let name = name.clone();
        let mut called = None;
        self.change(&name, |host| {
            called = host.waiting.pop_first();
            host.under_way += 1;
            host.served_ns = now_ns;
        });
        let (_, guid) = called?;
        self.tasks.get_mut(&guid)?.due_ns = None;
        Some(guid)
    }

    /// Says what is tried next, if anything.
    pub(super) fn ended(&mut self, guid: &TaskGuid, report: Report, line: Line, now_ns: Nanos) -> Option<Next> {
        let entry = self.tasks.get_mut(guid)?;
        let pause_ns = match report {
            Report::Settled => None,
            Report::Taken => {
                entry.failures = 0;
                entry.reminders = entry.reminders.saturating_add(1);
                Some(REMINDER_PAUSES.after(entry.reminders, guid))
            }
            Report::NotTaken { retry_after } => {
                entry.failures = entry.failures.saturating_add(1);
                let asked_ns = retry_after.map_or(0, |pause| nanos(pause.min(RETRY_AFTER_MAX)));
                Some(FAILURE_PAUSES.after(entry.failures, guid).max(asked_ns))
            }
        };
        entry.due_ns = pause_ns.map(|pause_ns| now_ns.saturating_add(pause_ns));
        let (name, due_ns, failures) = (entry.host.clone(), entry.due_ns, entry.failures);
        if due_ns.is_none() {
            self.tasks.remove(guid);
        }
        self.change(&name, |host| {
            host.under_way -= 1;
            host.waiting.extend(due_ns.map(|due_ns| (due_ns, guid.clone())));
            match line {
                Line::Unused => {}
                Line::Answered => (host.failures, host.not_before_ns) = (0, 0),
                // Calls that began together fail together, and count as one.
                Line::Silent if now_ns < host.not_before_ns => {}
                Line::Silent => {
                    host.failures = host.failures.saturating_add(1);
                    host.not_before_ns = now_ns.saturating_add(HOST_PAUSES.after(host.failures, &name));
                }
            }
        });
        pause_ns.map(|pause_ns| Next { failures, pause_ns })
    }

    /// Forgets waiting tasks for which there is nothing to report any more.
    pub(super) fn retain(&mut self, mut is_wanted: impl FnMut(&TaskGuid) -> bool) {
        let unwanted = |(guid, entry): (&TaskGuid, &Entry)| {
            let due_ns = entry.due_ns?;
            (!is_wanted(guid)).then(|| (due_ns, guid.clone()))
        };
        let unwanted: Vec<_> = self.tasks.iter().filter_map(unwanted).collect();
        for waiting in unwanted {
            self.forget(&waiting);
        }
    }

    fn make_room_for(&mut self, newcomer: &str) -> bool {
        let Some((largest, name)) = self.sizes.last() else { return false };
        if self.hosts.get(newcomer).map_or(0, Host::size) + 1 >= *largest {
            return false;
        }
        let Some(waiting) = self.hosts.get(name).and_then(|host| host.waiting.last().cloned()) else { return false };
        self.forget(&waiting);
        true
    }

    fn forget(&mut self, waiting: &(Nanos, TaskGuid)) {
        if let Some(entry) = self.tasks.remove(&waiting.1) {
            self.change(&entry.host, |host| host.waiting.remove(waiting));
        }
    }

    /// The only place where a host changes: its size and its turn follow.
    fn change<T>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Host) -> T) {
        let host = self.hosts.entry(name.clone()).or_default();
        self.sizes.remove(&(host.size(), name.clone()));
        change(host);
        let calls_max = if host.failures > 0 { 1 } else { self.limits.host_calls_max };
        let may_be_called = host.under_way < calls_max;
        let due_ns = host.waiting.first().filter(|_| may_be_called).map(|(due_ns, _)| *due_ns);
        let at_ns = due_ns.map(|due_ns| due_ns.max(host.not_before_ns).max(host.served_ns));
        // Whoever is due at the same time as before keeps its place, unless that was for the call that has just begun.
        let keeps = matches!((host.turn, at_ns), (Some((was_ns, _)), Some(at_ns)) if was_ns == at_ns && was_ns != host.served_ns);
        if !keeps {
            if let Some(turn) = host.turn.take() {
                self.turns.remove(&turn);
            }
            if let Some(at_ns) = at_ns {
                self.last_turn += 1;
                host.turn = Some((at_ns, self.last_turn));
                self.turns.insert((at_ns, self.last_turn), name.clone());
            }
        }
        match host.size() {
            0 => {
                self.hosts.remove(name);
            }
            size => {
                self.sizes.insert((size, name.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
