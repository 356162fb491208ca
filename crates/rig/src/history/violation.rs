//! What is wrong with a history, told with the fewest calls that show it.
//!
//! Promise: the calls of a violation are themselves a proof. Whoever sees only them must come to the same verdict, and
//! without any one read of them there is none. Calls are only left out where that cannot turn a good history into a bad
//! one: reads, and writes that no read which is left can have seen.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::search::{OPEN_CALLS_MAX, SEARCH_STEPS_MAX, Verdict, search};
use super::{Call, Outcome, Recorded, first_seen};

/// What kind of wrong it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A value was seen after a newer one had taken its place, and the newer one was seen elsewhere.
    StaleRead,
    /// The newer write was acknowledged, and nobody ever saw it.
    LostWrite,
    /// A write whose outcome is unknown was seen, and later the value before it.
    Vanished,
    /// Two acknowledged values take turns, as if there were two registers.
    Split,
    /// Nobody wrote what was seen.
    FromNowhere,
    /// What was seen comes from a write that failed for certain.
    FailedWriteVisible,
    /// The value was seen before its write began.
    SeenTooEarly,
    /// Anything else that no order explains.
    NoOrder,
    /// The test wrote one value twice, so reads do not tell what they saw. Nothing is decided.
    SameValueTwice,
    /// A limit was reached. Nothing is decided.
    Undecided,
}

impl Fault {
    fn title(self) -> &'static str {
        match self {
            Fault::StaleRead => "stale read",
            Fault::LostWrite => "lost write",
            Fault::Vanished => "a value appeared and vanished again",
            Fault::Split => "two values take turns",
            Fault::FromNowhere => "value from nowhere",
            Fault::FailedWriteVisible => "failed write visible",
            Fault::SeenTooEarly => "value seen before its write",
            Fault::NoOrder => "no order explains the reads",
            Fault::SameValueTwice => "not checked: one value was written twice",
            Fault::Undecided => "not decided: the search reached its limit",
        }
    }
}

/// Why a history was not found to be fine. Print it: it is written for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub key: String,
    pub fault: Fault,
    /// One sentence or two about these calls.
    pub what: String,
    /// The fewest calls that show it, in the order in which they began.
    pub calls: Vec<Recorded>,
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:?}: {}\n{}", self.key, self.fault.title(), self.what)?;
        for Recorded { client, call, outcome, begin, end, .. } in &self.calls {
            let call = match call {
                Call::Write(value) => format!("write {value:?}"),
                Call::Delete => "delete".to_owned(),
                Call::Read => "read".to_owned(),
            };
            let outcome = match outcome {
                Outcome::Done => "ok".to_owned(),
                Outcome::Saw(value) => format!("saw {}", shown(value.as_deref())),
                Outcome::Failed => "failed".to_owned(),
                Outcome::Unknown => "outcome unknown".to_owned(),
            };
            let end = end.map_or_else(|| "open".to_owned(), |end| end.to_string());
            write!(f, "\n  {begin:>6} to {end:<6} client {client:<3} {call}: {outcome}")?;
        }
        Ok(())
    }
}

fn shown(value: Option<&str>) -> String {
    value.map_or_else(|| "no value".to_owned(), |value| format!("{value:?}"))
}

/// The steps that the search for an order took, or what stands in the way of one.
pub(super) fn check_key(key: &str, calls: &[&Recorded], steps_max: usize) -> Result<usize, Violation> {
    let violation = |fault, what, calls: &[&Recorded]| {
        let calls = calls.iter().map(|call| (*call).clone()).collect();
        Err(Violation { key: key.to_owned(), fault, what, calls })
    };
    if let Some(twice) = same_value_twice(calls) {
        let what = "Give every write of a key a value of its own: reads cannot tell these two apart.".to_owned();
        return violation(Fault::SameValueTwice, what, &twice);
    }
    let undecided = |what: String| {
        let what =
            format!("{what}\nNothing is proven, good or bad: let fewer clients use one key, or make shorter runs.");
        violation(Fault::Undecided, what, &[])
    };
    match search(calls, steps_max) {
        Verdict::Explained { steps } => Ok(steps),
        Verdict::TooManySteps => undecided(format!("More than {steps_max} configurations were looked at.")),
        Verdict::TooManyOpen => undecided(format!("More than {OPEN_CALLS_MAX} calls were open at the same time.")),
        Verdict::Stuck { read } => {
            let core = shrink(calls, read);
            let (fault, what, core) = explain(core, calls);
            violation(fault, what, &core)
        }
    }
}

fn same_value_twice<'a>(calls: &[&'a Recorded]) -> Option<[&'a Recorded; 2]> {
    let mut writers = HashMap::new();
    calls.iter().find_map(|call| {
        let value = call.leaves()??;
        writers.insert(value, *call).map(|before| [before, *call])
    })
}

/// Leaves out halves, quarters and so on down to single calls, as long as what is left gets stuck.
fn shrink<'a>(calls: &[&'a Recorded], read: usize) -> Vec<&'a Recorded> {
    let end = calls[read].end;
    let counts = |call: &&&Recorded| Some(call.begin) < end && (call.saw().is_none() || call.end <= end);
    let mut core: Vec<&Recorded> = calls.iter().filter(counts).copied().collect();
    if !is_stuck(&core) {
        // What is seen later is part of the reason.
        core = calls.to_vec();
    }
    let mut piece = core.len().div_ceil(2);
    loop {
        let mut from = 0;
        let before = core.len();
        while from < core.len() {
            let to = (from + piece).min(core.len());
            let smaller = without(&core, from, to);
            if smaller.len() < core.len() && is_stuck(&smaller) {
                core = smaller;
            } else {
                from = to;
            }
        }
        if piece > 1 {
            piece = piece.div_ceil(2);
        } else if core.len() == before {
            return core;
        }
    }
}

fn is_stuck(calls: &[&Recorded]) -> bool {
    matches!(search(calls, SEARCH_STEPS_MAX), Verdict::Stuck { .. })
}

/// The calls without the reads of a range, and without its writes that no other read can have seen.
fn without<'a>(calls: &[&'a Recorded], from: usize, to: usize) -> Vec<&'a Recorded> {
    let outside = |index: usize| index < from || index >= to;
    let left: Vec<&Recorded> =
        calls.iter().enumerate().filter(|(index, _)| outside(*index)).map(|(_, call)| *call).collect();
    let seen: HashSet<Option<&str>> = left.iter().filter_map(|read| read.saw()).collect();
    let stays = |call: &Recorded| match call.leaves() {
        Some(None) => left.iter().any(|read| read.saw() == Some(None) && may_see(read, call, &left)),
        Some(value) => seen.contains(&value),
        None => false,
    };
    calls.iter().enumerate().filter(|(index, call)| outside(*index) || stays(call)).map(|(_, call)| *call).collect()
}

/// Whether a read may have seen this write: it had not ended before, and nothing overwrote the write in between.
fn may_see(read: &Recorded, write: &Recorded, among: &[&Recorded]) -> bool {
    let overwritten = || among.iter().any(|other| other.is_done() && write.precedes(other) && other.precedes(read));
    !read.precedes(write) && !overwritten()
}

/// Gives the fault its name. `core` gets stuck, and every one of its reads is needed for that.
fn explain<'a>(mut core: Vec<&'a Recorded>, all: &[&'a Recorded]) -> (Fault, String, Vec<&'a Recorded>) {
    let last = core.iter().copied().filter(|call| call.saw().is_some()).max_by_key(|call| call.end);
    let last = last.expect("only a read gets stuck");
    let saw = last.saw().flatten();
    let client = last.client;
    let value = shown(saw);
    let sources: Vec<&Recorded> = core.iter().copied().filter(|call| call.leaves() == Some(saw)).collect();

    if saw.is_some() && sources.iter().all(|write| last.precedes(write)) {
        let writes = |call: &&&Recorded| matches!(&call.call, Call::Write(written) if Some(written.as_str()) == saw);
        let (fault, what) = match all.iter().find(writes) {
            None => (Fault::FromNowhere, "which nobody wrote"),
            Some(write) if last.precedes(write) => (Fault::SeenTooEarly, "whose write had not begun"),
            Some(_) => (Fault::FailedWriteVisible, "whose write failed for certain"),
        };
        core.extend(all.iter().find(writes).filter(|write| core.iter().all(|call| call.begin != write.begin)));
        core.sort_by_key(|call| call.begin);
        return (fault, format!("Client {client} saw {value}, {what}."), core);
    }
    let (fault, what) = explain_old_value(last, &sources, &core, all);
    (fault, what, core)
}

/// The read saw a value that had been there; something newer should have been there instead.
fn explain_old_value(last: &Recorded, sources: &[&Recorded], core: &[&Recorded], all: &[&Recorded]) -> (Fault, String) {
    let client = last.client;
    let value = shown(last.saw().flatten());
    let first_seen = first_seen(core);
    let newer = |call: &&Recorded| {
        let other = call.is_done() && call.leaves() != last.saw();
        let settled_before =
            |write: &Recorded, then: &Recorded| write.settled(&first_seen).is_some_and(|end| end < then.begin);
        other && settled_before(call, last) && sources.iter().all(|source| settled_before(source, call))
    };
    if let Some(write) = core.iter().copied().find(newer) {
        let written = write.leaves().flatten().map_or_else(|| "a deletion".to_owned(), |value| shown(Some(value)));
        let seen = all.iter().any(|read| read.saw() == write.leaves() && !read.precedes(write));
        if seen {
            let what = format!("Client {client} saw {value} after {written} had taken its place.");
            return (Fault::StaleRead, what);
        }
        let what = format!(
            "Client {client} saw {value}: {written} had taken its place, was acknowledged, and nobody ever saw it."
        );
        return (Fault::LostWrite, what);
    }
    let different = |read: &&&Recorded| read.saw().is_some() && read.saw() != last.saw();
    let Some(read) = core.iter().filter(different).max_by_key(|read| read.end) else {
        return (Fault::NoOrder, format!("Client {client} saw {value}, which fits no order of these calls."));
    };
    let when = if read.precedes(last) { "after it" } else { "beside it" };
    let other = shown(read.saw().flatten());
    let what = format!("Client {} saw {other}, and {when} client {client} saw {value}", read.client);
    match core.iter().find(|call| call.leaves() == read.saw()) {
        Some(writer) if writer.is_done() => {
            (Fault::Split, format!("{what}: two acknowledged values take turns, as if there were two masters."))
        }
        Some(_) => (Fault::Vanished, format!("{what}: a write with an unknown outcome came and went.")),
        None => (Fault::NoOrder, format!("{what}, which fits no order of these calls.")),
    }
}
