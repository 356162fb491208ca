//! Which containers are to be looked at, one at a time each.
//!
//! Promises: a container is never looked at twice at once; whoever asks for a look while one is going on gets another one
//! after it, and only one however often it was asked for. A look that met silence is repeated after a pause that grows. While
//! the state server is silent there is one look at a time on the whole cell, so that a thousand cells do not keep it from
//! coming back; the first answer lets all others follow at once.
//!
//! The queue is as long as there are containers and records, each once.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::carry::{Heard, Orphan};
use crate::executor::ContainerGuid;

/// Looks at the same time while the state server answers. Each takes a connection, and a thousand cells that get their work from
/// one auction must fit into what a state server has of them.
pub(super) const LOOKS_AT_ONCE_MAX: usize = 8;
const PAUSE_DOUBLINGS_MAX: u32 = 16;

#[derive(Debug)]
pub(super) struct Queue {
    items: HashMap<ContainerGuid, Item>,
    ready: VecDeque<ContainerGuid>,
    busy: usize,
    silent: bool,
    pauses: Pauses,
}

/// How long to wait after the first failure, and at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    pub(super) first: Duration,
    pub(super) max: Duration,
}

#[derive(Debug, Default)]
struct Item {
    orphans: Vec<Orphan>,
    place: Place,
    failures: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Ready,
    Delayed(Instant),
    Busy {
        again: bool,
    },
}

/// One look.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) guid: ContainerGuid,
    /// What is to be done if there is no such container.
    pub(super) orphans: Vec<Orphan>,
}

impl Pauses {
    pub(super) fn after(&self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.saturating_sub(1).min(PAUSE_DOUBLINGS_MAX)).min(self.max)
    }
}

impl Queue {
    pub(super) fn new(pauses: Pauses) -> Self {
        Self { items: HashMap::new(), ready: VecDeque::new(), busy: 0, silent: false, pauses }
    }

    /// Asks for a look.
    pub(super) fn offer(&mut self, guid: ContainerGuid, orphans: Vec<Orphan>) {
        let ready = &mut self.ready;
        let item = self.items.entry(guid.clone()).or_insert_with(|| {
            ready.push_back(guid.clone());
            Item::default()
        });
        if !orphans.is_empty() {
            item.orphans = orphans;
        }
        match &mut item.place {
            Place::Ready => {}
            Place::Busy { again } => *again = true,
            // Something new is known, so that the pause has lost its reason; but not while nobody answers.
            Place::Delayed(_) if self.silent => {}
            Place::Delayed(_) => {
                item.place = Place::Ready;
                ready.push_back(guid);
            }
        }
    }

    /// The next look, if one may begin.
    pub(super) fn next(&mut self, now: Instant) -> Option<Look> {
        let at_once_max = if self.silent { 1 } else { LOOKS_AT_ONCE_MAX };
        if self.busy >= at_once_max {
            return None;
        }
        if self.ready.is_empty() {
            self.wake(now);
        }
        let guid = self.ready.pop_front()?;
        let item = self.items.get_mut(&guid)?;
        item.place = Place::Busy { again: false };
        self.busy += 1;
        Some(Look { guid, orphans: std::mem::take(&mut item.orphans) })
    }

    fn wake(&mut self, now: Instant) {
        let mut due: Vec<(Instant, ContainerGuid)> = Vec::new();
        for (guid, item) in &mut self.items {
            if let Place::Delayed(until) = item.place
                && until <= now
            {
                item.place = Place::Ready;
                due.push((until, guid.clone()));
            }
        }
        due.sort_unstable();
        self.ready.extend(due.into_iter().map(|(_, guid)| guid));
    }

    /// When [`Self::next`] may have something, if nothing else happens before.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = |item: &Item| match item.place {
            Place::Delayed(until) => Some(until),
            _ => None,
        };
        if self.busy > 0 && self.silent { None } else { self.items.values().filter_map(due).min() }
    }

    /// A look has ended. `jitter` makes a pause uneven.
    pub(super) fn finished(
        &mut self,
        guid: &ContainerGuid,
        heard: Heard,
        now: Instant,
        jitter: impl FnOnce(Duration) -> Duration,
    ) {
        self.busy = self.busy.saturating_sub(1);
        self.heard(heard);
        let Some(item) = self.items.get_mut(guid) else { return };
        let again = matches!(item.place, Place::Busy { again: true });
        match heard {
            Heard::Answer if again => {
                item.failures = 0;
                item.place = Place::Ready;
                self.ready.push_back(guid.clone());
            }
            Heard::Answer => {
                self.items.remove(guid);
            }
            Heard::Silence => {
                item.failures += 1;
                item.place = Place::Delayed(now + jitter(self.pauses.after(item.failures)));
            }
        }
    }

    /// What a call of any kind came to.
    pub(super) fn heard(&mut self, heard: Heard) {
        let was_silent = std::mem::replace(&mut self.silent, heard == Heard::Silence);
        if was_silent && !self.silent {
            for (guid, item) in &mut self.items {
                if matches!(item.place, Place::Delayed(_)) {
                    item.place = Place::Ready;
                    self.ready.push_back(guid.clone());
                }
            }
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    pub(super) fn busy(&self) -> usize {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use model::InstanceGuid;
    use proptest::prelude::*;

    use super::*;

    const PAUSES: Pauses = Pauses { first: Duration::from_secs(1), max: Duration::from_secs(30) };

    fn guid(number: usize) -> ContainerGuid {
        ContainerGuid::of_instance(&InstanceGuid::parse(&format!("i-{number}")).unwrap())
    }

    fn same(pause: Duration) -> Duration {
        pause
    }

    #[test]
    fn one_look_at_a_time_and_one_more_for_any_number_of_wishes() {
        let now = Instant::now();
        let mut queue = Queue::new(PAUSES);
        queue.offer(guid(1), Vec::new());
        queue.offer(guid(1), Vec::new());
        assert!(queue.next(now).is_some() && queue.next(now).is_none());
        queue.offer(guid(1), Vec::new());
        queue.offer(guid(1), Vec::new());
        assert!(queue.next(now).is_none());
        queue.finished(&guid(1), Heard::Answer, now, same);
        assert!(queue.next(now).is_some());
        queue.finished(&guid(1), Heard::Answer, now, same);
        assert!(queue.next(now).is_none() && queue.items.is_empty());
    }

    #[test]
    fn pauses_grow_while_nobody_answers_and_one_answer_ends_them_all() {
        let mut now = Instant::now();
        let mut queue = Queue::new(PAUSES);
        queue.offer(guid(1), Vec::new());
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert!(queue.next(now).is_some());
            queue.finished(&guid(1), Heard::Silence, now, same);
            let due = queue.next_due().unwrap();
            assert!(queue.next(due - Duration::from_millis(1)).is_none());
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        queue.offer(guid(2), Vec::new());
        queue.offer(guid(3), Vec::new());
        assert!(queue.next(now).is_some() && queue.next(now).is_none(), "in silence one at a time");
        queue.finished(&guid(2), Heard::Answer, now, same);
        assert!(queue.next(now).is_some() && queue.next(now).is_some());
    }

    proptest! {
        /// Wishes, looks and their ends in any order: never two at once for one container, and in the end nothing is forgotten.
        #[test]
        fn no_wish_is_lost(steps in prop::collection::vec((0..4_u8, 0..5_usize), 0..200)) {
            let mut now = Instant::now();
            let mut queue = Queue::new(PAUSES);
            let (mut wanted, mut busy) = (HashSet::new(), HashSet::new());
            for (step, number) in steps {
                match step {
                    0 => {
                        queue.offer(guid(number), Vec::new());
                        wanted.insert(guid(number));
                    }
                    1 => if let Some(look) = queue.next(now) {
                        prop_assert!(busy.insert(look.guid.clone()), "two at once");
                        wanted.remove(&look.guid);
                    },
                    end => if busy.remove(&guid(number)) {
                        let heard = if end == 2 { Heard::Answer } else { Heard::Silence };
                        if heard == Heard::Silence {
                            wanted.insert(guid(number));
                        }
                        queue.finished(&guid(number), heard, now, same);
                    },
                }
            }
            for guid in busy.drain() {
                queue.finished(&guid, Heard::Answer, now, same);
            }
            now += PAUSES.max;
            while let Some(look) = queue.next(now) {
                wanted.remove(&look.guid);
                queue.finished(&look.guid, Heard::Answer, now, same);
            }
            prop_assert!(wanted.is_empty(), "{wanted:?}");
            prop_assert!(queue.items.is_empty());
        }
    }
}
