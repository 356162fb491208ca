//! Every order of the calls of a small history, tried one after the other, and the search compared with it.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::history;
use crate::history::{Call, History, Outcome, Recorded};

/// More calls than this take too long in every order.
const CALLS_MAX: usize = 7;

/// Whether some of the calls, all that are known to have happened among them, can be put in an order that real time
/// allows and that explains every read.
fn has_order(calls: &[Recorded]) -> bool {
    assert!(calls.len() <= CALLS_MAX, "{} calls are too many for brute force", calls.len());
    let matters = |call: &&Recorded| call.outcome != Outcome::Failed;
    let (unknown, known): (Vec<&Recorded>, Vec<&Recorded>) =
        calls.iter().filter(matters).partition(|call| call.outcome == Outcome::Unknown);
    (0..1u32 << unknown.len()).any(|chosen| {
        let mut included = known.clone();
        included.extend(unknown.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, call)| *call));
        some_permutation(&mut included, 0, &explains)
    })
}

fn some_permutation(calls: &mut [&Recorded], from: usize, good: &impl Fn(&[&Recorded]) -> bool) -> bool {
    if from == calls.len() {
        return good(calls);
    }
    (from..calls.len()).any(|next| {
        calls.swap(from, next);
        let found = some_permutation(calls, from + 1, good);
        calls.swap(from, next);
        found
    })
}

fn explains(order: &[&Recorded]) -> bool {
    let mut register: Option<&str> = None;
    for (position, call) in order.iter().enumerate() {
        let ended_before = |later: &&Recorded| later.outcome != Outcome::Unknown && later.end < Some(call.begin);
        if order[position + 1..].iter().any(ended_before) {
            return false;
        }
        match (&call.call, &call.outcome) {
            (Call::Write(value), _) => register = Some(value),
            (Call::Delete, _) => register = None,
            (Call::Read, Outcome::Saw(value)) if value.as_deref() != register => return false,
            (Call::Read, _) => {}
        }
    }
    true
}

/// Clients take turns as the choices say: one that is idle begins a call, one that is busy ends it.
fn small_history() -> impl Strategy<Value = String> {
    let choices = prop::collection::vec((0..4usize, any::<u16>()), 4..2 * CALLS_MAX + 4);
    choices.prop_map(|choices| {
        let mut open: [Option<char>; 4] = [None; 4];
        let mut words = Vec::new();
        let (mut calls, mut values) = (0, Vec::new());
        for (client, choice) in choices {
            let word = match open[client].take() {
                None if calls == CALLS_MAX => continue,
                None => {
                    calls += 1;
                    let call = ['w', 'w', 'w', 'd', 'r', 'r', 'r', 'r'][usize::from(choice % 8)];
                    open[client] = Some(call);
                    if call == 'w' {
                        values.push(char::from(b'a' + u8::try_from(values.len()).unwrap()));
                        format!("{client}w={}", values[values.len() - 1])
                    } else {
                        format!("{client}{call}")
                    }
                }
                Some('r') => match usize::from(choice) % 12 {
                    0 => format!("{client}:?"),
                    1 => format!("{client}:=z"),
                    2 | 3 => format!("{client}:="),
                    _ if values.is_empty() => format!("{client}:="),
                    seen => format!("{client}:={}", values[(values.len() * 12 - seen) % values.len()]),
                },
                Some(_) => {
                    format!("{client}:{}", ["ok", "ok", "ok", "ok", "?", "?", "?", "fail"][usize::from(choice % 8)])
                }
            };
            words.push(word);
        }
        words.join(" ")
    })
}

/// The verdict of the search, after it was found to be right.
fn check(history: &History) -> Result<bool, TestCaseError> {
    let fine = has_order(history.calls());
    let violation = match history.check() {
        Ok(_) => {
            prop_assert!(fine, "the search finds an order and there is none");
            return Ok(true);
        }
        Err(violation) => violation,
    };
    prop_assert!(!fine, "there is an order, and the search says: {}", violation);
    prop_assert!(!has_order(&violation.calls), "these calls prove nothing: {}", violation);
    for index in 0..violation.calls.len() {
        let mut fewer = violation.calls.clone();
        if fewer.remove(index).call == Call::Read {
            prop_assert!(has_order(&fewer), "read {} is not needed: {}", index, violation);
        }
    }
    Ok(false)
}

#[test]
fn the_search_agrees_with_brute_force() {
    let config = Config { cases: 6_000, failure_persistence: None, ..Config::default() };
    let (fine, bad) = (Cell::new(0), Cell::new(0));
    let result = TestRunner::new(config).run(&small_history(), |line| {
        let verdict = if check(&history(&line))? { &fine } else { &bad };
        verdict.set(verdict.get() + 1);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    // Both verdicts must be common, or half of the comparison is missing.
    assert!(fine.get() > 1_000 && bad.get() > 1_000, "{} were fine and {} bad", fine.get(), bad.get());
}

#[test]
fn brute_force_agrees_with_the_table() {
    for (name, line) in super::HISTORIES {
        let history = history(line);
        let twice = name.contains("written twice");
        if history.calls().len() <= CALLS_MAX && !twice {
            assert_eq!(has_order(history.calls()), history.check().is_ok(), "{name}: {line}");
        }
    }
}
