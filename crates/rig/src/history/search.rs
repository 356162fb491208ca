//! The search for one order of the calls of one key that explains what every read saw.
//!
//! Promise: [`Verdict::Explained`] means that such an order exists, [`Verdict::Stuck`] that none does, and a search that
//! reaches a limit says so and decides nothing.
//!
//! The search walks through time and carries all configurations that are still possible: which of the open calls have
//! taken effect, and what the register holds. A call takes effect as late as its end demands, and equal configurations
//! are one. Where no call is open, only the values that the register may hold are left, so time is divided at such
//! points without looking for them, and a key that is never at rest costs no more than its open calls.
//!
//! Four observations keep the number of configurations small, and each is compared with brute force in the tests:
//! a read takes effect as soon as the register holds what it saw; a write that nobody saw hides right before another
//! write; a write whose value was seen takes effect at its end or when an open read needs it, because values are unique
//! and an earlier place would hide it from its reads; unknown deletions are all alike, so counting them is enough. So a
//! write whose outcome is unknown is either never needed, or ends like any other: with the first read that saw it.

use std::collections::{HashMap, HashSet};

use super::{Outcome, Recorded, first_seen};

/// Configurations that are looked at for one key. A few seconds in a debug build, and some 100 MB.
pub const SEARCH_STEPS_MAX: usize = 2_000_000;
/// Calls of one key that are open at the same time, with the unknown writes that a later read saw.
pub const OPEN_CALLS_MAX: usize = u128::BITS as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Explained {
        steps: usize,
    },
    /// No order explains all calls, and the walk ended at the end of this one, a read. What is seen later may be part of
    /// the reason.
    Stuck {
        read: usize,
    },
    TooManySteps,
    TooManyOpen,
}

/// A value as a small number. Values that no read saw need not be told apart.
type Value = usize;
const ABSENT: Value = 0;
const UNSEEN: Value = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Configuration {
    /// A bit for each open call that has taken effect.
    done: u128,
    value: Value,
    /// How many unknown deletions were needed up to now.
    deletions: usize,
}

#[derive(Clone, Copy, Debug)]
enum Effect {
    Read(Value),
    Write(Value),
    /// A write whose outcome is unknown, and whose value was seen.
    LateWrite(Value),
    LateDeletion,
}

/// In the order in which events with the same number happen: a late write ends with the read that saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin,
    End,
    EndOfLateWrite,
}

/// Needs calls of one key whose written values differ; the caller has looked.
pub(super) fn search(calls: &[&Recorded], steps_max: usize) -> Verdict {
    let effects = effects(calls);
    let mut events = Vec::with_capacity(2 * effects.len());
    for (index, effect) in effects.iter().enumerate() {
        let Some((effect, end)) = *effect else { continue };
        events.push((calls[index].begin, Event::Begin, index, effect));
        match effect {
            Effect::LateWrite(_) => events.push((end, Event::EndOfLateWrite, index, effect)),
            Effect::Read(_) | Effect::Write(_) => events.push((end, Event::End, index, effect)),
            Effect::LateDeletion => {}
        }
    }
    events.sort_unstable_by_key(|(number, event, ..)| (*number, *event));

    let mut sweep = Sweep::new(steps_max);
    for (_, event, index, effect) in events {
        if event == Event::Begin {
            if !sweep.begin(index, effect) {
                return Verdict::TooManyOpen;
            }
            continue;
        }
        if !sweep.end(index) {
            return Verdict::TooManySteps;
        }
        if sweep.configurations.is_empty() {
            return Verdict::Stuck { read: index };
        }
    }
    Verdict::Explained { steps: sweep.steps }
}

/// What each call does and until when it must have done it; none for calls that say nothing about the register.
fn effects(calls: &[&Recorded]) -> Vec<Option<(Effect, u64)>> {
    let first_seen = first_seen(calls);
    let values = first_seen.keys().filter(|value| value.is_some()).zip(UNSEEN + 1..);
    let mut numbers: HashMap<Option<&str>, Value> = values.map(|(value, number)| (*value, number)).collect();
    numbers.insert(None, ABSENT);
    let effect = |call: &&Recorded| {
        if let (Some(saw), Some(end)) = (call.saw(), call.end) {
            return Some((Effect::Read(numbers[&saw]), end));
        }
        let value = numbers.get(&call.leaves()?).copied().unwrap_or(UNSEEN);
        match (&call.outcome, call.end) {
            (Outcome::Done, Some(end)) => Some((Effect::Write(value), end)),
            _ if value == ABSENT => Some((Effect::LateDeletion, u64::MAX)),
            // None if nobody saw it: then it need never happen.
            _ => call.settled(&first_seen).map(|end| (Effect::LateWrite(value), end)),
        }
    };
    calls.iter().map(effect).collect()
}

/// The walk through time: the open calls, and every configuration that explains all calls that have ended.
struct Sweep {
    open: Vec<Option<(usize, Effect)>>,
    late_deletions: usize,
    configurations: Vec<Configuration>,
    steps: usize,
    steps_max: usize,
}

impl Sweep {
    fn new(steps_max: usize) -> Self {
        let start = Configuration { done: 0, value: ABSENT, deletions: 0 };
        Self { open: Vec::new(), late_deletions: 0, configurations: vec![start], steps: 0, steps_max }
    }

    /// False if too many calls are open.
    fn begin(&mut self, index: usize, effect: Effect) -> bool {
        if matches!(effect, Effect::LateDeletion) {
            self.late_deletions += 1;
            return true;
        }
        let place = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[place] = Some((index, effect));
        place < OPEN_CALLS_MAX
    }

    /// Keeps the configurations in which the call has taken effect, after letting it and others do so wherever that
    /// is possible. False if there were too many steps.
    fn end(&mut self, index: usize) -> bool {
        let place = self.open.iter().position(|call| call.is_some_and(|(open, _)| open == index));
        let place = place
            .expect("a call ends after it began, and the search is over when a read saw a write that had not begun");
        let ended = 1u128 << place;
        let open = OpenCalls::of(&self.open);
        let mut waiting: Vec<Configuration> = self.configurations.drain(..).map(|it| open.with_reads(it)).collect();
        let mut known: HashSet<Configuration> = waiting.iter().copied().collect();
        let mut fewest_deletions: HashMap<(u128, Value), usize> = HashMap::new();
        while let Some(configuration) = waiting.pop() {
            self.steps += 1;
            if self.steps > self.steps_max {
                return false;
            }
            let Configuration { done, value, deletions } = configuration;
            if done & ended != 0 {
                // More unknown deletions that are still to come leave more ways open, so the fewest are enough.
                let fewest = fewest_deletions.entry((done & !ended, value)).or_insert(deletions);
                *fewest = deletions.min(*fewest);
                continue;
            }
            open.next(configuration, ended, self.late_deletions, |next| {
                if known.insert(next) {
                    waiting.push(next);
                }
            });
        }
        let kept = fewest_deletions.into_iter();
        self.configurations = kept.map(|((done, value), deletions)| Configuration { done, value, deletions }).collect();
        self.open[place] = None;
        true
    }
}

/// The open calls by what they do, as bits of [`Configuration::done`].
struct OpenCalls {
    writes: Vec<(u128, Value)>,
    reads: HashMap<Value, u128>,
    unseen_writes: u128,
}

impl OpenCalls {
    fn of(open: &[Option<(usize, Effect)>]) -> Self {
        let mut calls = Self { writes: Vec::new(), reads: HashMap::new(), unseen_writes: 0 };
        for (place, call) in open.iter().enumerate() {
            let bit = 1u128 << place;
            match call {
                Some((_, Effect::Read(value))) => *calls.reads.entry(*value).or_default() |= bit,
                Some((_, Effect::Write(value) | Effect::LateWrite(value))) => {
                    calls.writes.push((bit, *value));
                    calls.unseen_writes |= if *value == UNSEEN { bit } else { 0 };
                }
                Some((_, Effect::LateDeletion)) | None => {}
            }
        }
        calls
    }

    /// Every open read of what the register holds takes effect: that can only help.
    fn with_reads(&self, mut configuration: Configuration) -> Configuration {
        configuration.done |= self.reads.get(&configuration.value).copied().unwrap_or(0);
        configuration
    }

    /// All configurations that are one write away, as far as they help the call that ends.
    fn next(&self, from: Configuration, ended: u128, late_deletions: usize, mut found: impl FnMut(Configuration)) {
        let Configuration { done, deletions, .. } = from;
        let wanted = |value: Value| self.reads.get(&value).is_some_and(|reads| reads & !done != 0);
        for (bit, value) in self.writes.iter().copied() {
            let helps = bit == ended || value == ABSENT || wanted(value);
            if done & bit == 0 && helps {
                let done = done | bit | self.unseen_writes;
                found(self.with_reads(Configuration { done, value, deletions }));
            }
        }
        if deletions < late_deletions && wanted(ABSENT) {
            let done = done | self.unseen_writes;
            found(self.with_reads(Configuration { done, value: ABSENT, deletions: deletions + 1 }));
        }
    }
}
