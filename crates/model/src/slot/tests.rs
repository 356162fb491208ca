//! Every call on every combination of rows, printed; and what holds after any sequence of calls.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use expect_test::{expect, expect_file};
use proptest::prelude::*;
use proptest::sample::select;

use super::{Slot, Stamp};
use crate::event::{self, InstanceEvent};
use crate::{
    ActualLrp, ActualLrpKey, ActualState, DomainName, NANOS_PER_SECOND, Nanos, Presence, REASON_BYTES_MAX, Refusal,
    crash,
};
use scenario::{
    Answer, Call, KEPT, NEWS, NOW_NS, Policy, held_by, key, report, row, slots, special_slots, word, words,
};

pub(crate) mod scenario;

fn stamp() -> Stamp {
    Stamp { now_ns: NOW_NS, epoch: "new".into() }
}

const LEGEND: &str = "\
What each call makes of each slot. `me` calls; ann, eve and sue are other containers.
A row is presence:state:holder:epoch#index, then @report and !crashes if it has any. `E,` is a row that leaves. Rows know report 1;
`start+news` and `evacuate_running` bring report 2. A fresh row has the epoch `new`.
";

#[test]
fn every_call_on_every_slot() {
    let mut table = LEGEND.to_owned();
    for slot in slots() {
        print_slot("", &slot, &mut table);
    }
    for (name, slot) in special_slots() {
        print_slot(&format!("  ({name})"), &slot, &mut table);
    }
    expect_file!["slot.golden"].assert_eq(&table);
}

/// Calls with the same answer share a line. Calls of convergence that do not apply are left out.
fn print_slot(name: &str, slot: &Slot, table: &mut String) {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for call in Call::all_by_me() {
        let answer = call.make(slot, &stamp());
        if matches!(answer.outcome, Ok(None)) {
            continue;
        }
        let line = print_answer(slot, &answer);
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, calls)) => calls.push(call.to_string()),
            None => lines.push((line, vec![call.to_string()])),
        }
    }
    writeln!(table, "\n{}{name}", words(slot)).unwrap();
    for (line, calls) in lines {
        writeln!(table, "  {line:<60} <- {}", calls.join(" ")).unwrap();
    }
}

fn print_answer(before: &Slot, answer: &Answer) -> String {
    let keep = match answer.keep {
        None => "",
        Some(true) => "keep, ",
        Some(false) => "let go, ",
    };
    match &answer.outcome {
        Err(refusal) => format!("{keep}refused: {refusal}"),
        Ok(None) => "does not apply".to_owned(),
        Ok(Some(outcome)) => {
            let rows = if outcome.slot == *before { "unchanged".to_owned() } else { words(&outcome.slot) };
            format!("{keep}{rows}{}", if outcome.auction { ", auction" } else { "" })
        }
    }
}

#[test]
fn a_start_for_another_domain_is_refused() {
    let slot =
        Slot { ordinary: Some(Arc::new(row(Presence::Ordinary, ActualState::Claimed, "me"))), ..Slot::default() };
    let foreign = ActualLrpKey { domain: DomainName::parse("foreign").unwrap(), ..key() };
    let refused = slot.start(&foreign, &held_by("me"), report(KEPT), &stamp()).unwrap_err();
    assert_eq!(refused, Refusal::CannotBeStarted);
}

/// A plan names what it saw. If somebody else holds the row by then, nothing happens.
#[test]
fn convergence_leaves_rows_alone_that_others_hold_by_now() {
    let stranger = held_by("stranger");
    for slot in slots() {
        assert!(slot.lose_cell(&stranger, &stamp()).is_none());
        assert!(slot.promote_suspect(&stranger).is_none());
        assert!(slot.retire_suspect(&stranger).is_none());
        assert!(slot.drop_evacuating(&stranger).is_none());
    }
}

#[test]
fn crash_arithmetic() {
    let mut table = String::new();
    let minutes = |count: Nanos| count * 60 * NANOS_PER_SECOND;
    for state in [ActualState::Claimed, ActualState::Running] {
        for (crashes, age_ns) in [(0, 0), (1, 0), (2, 0), (198, 0), (199, 0), (7, minutes(5)), (7, minutes(5) + 1)] {
            let held = row(Presence::Ordinary, state, "me");
            let held = ActualLrp { crash_count: crashes, since_ns: NOW_NS - age_ns, ..held };
            let slot = Slot { ordinary: Some(Arc::new(held)), ..Slot::default() };
            let outcome = slot.crash(&held_by("me"), "boom", &stamp()).unwrap();
            let crashed = outcome.slot.ordinary.unwrap();
            let wait = match crash::backoff_ns(crashed.crash_count) {
                Some(wait_ns) => format!("{} s", wait_ns / NANOS_PER_SECOND),
                None => "for ever".to_owned(),
            };
            let auction = if outcome.auction { ", auction" } else { "" };
            let before = format!("{state} for {age_ns} ns, {crashes} crashes");
            writeln!(table, "{before:<42} {}, waits {wait}{auction}", word(&crashed)).unwrap();
        }
    }
    expect![[r#"
        CLAIMED for 0 ns, 0 crashes                O:UNCLAIMED:-:o#6!1, waits 0 s, auction
        CLAIMED for 0 ns, 1 crashes                O:UNCLAIMED:-:o#6!2, waits 0 s, auction
        CLAIMED for 0 ns, 2 crashes                O:CRASHED:-:o#6!3, waits 30 s
        CLAIMED for 0 ns, 198 crashes              O:CRASHED:-:o#6!199, waits 960 s
        CLAIMED for 0 ns, 199 crashes              O:CRASHED:-:o#6!200, waits for ever
        CLAIMED for 300000000000 ns, 7 crashes     O:CRASHED:-:o#6!8, waits 960 s
        CLAIMED for 300000000001 ns, 7 crashes     O:CRASHED:-:o#6!8, waits 960 s
        RUNNING for 0 ns, 0 crashes                O:UNCLAIMED:-:o#6!1, waits 0 s, auction
        RUNNING for 0 ns, 1 crashes                O:UNCLAIMED:-:o#6!2, waits 0 s, auction
        RUNNING for 0 ns, 2 crashes                O:CRASHED:-:o#6!3, waits 30 s
        RUNNING for 0 ns, 198 crashes              O:CRASHED:-:o#6!199, waits 960 s
        RUNNING for 0 ns, 199 crashes              O:CRASHED:-:o#6!200, waits for ever
        RUNNING for 300000000000 ns, 7 crashes     O:CRASHED:-:o#6!8, waits 960 s
        RUNNING for 300000000001 ns, 7 crashes     O:UNCLAIMED:-:o#6!1, waits 0 s, auction
    "#]]
    .assert_eq(&table);
}

/// What a row keeps and what it forgets, field by field.
#[test]
fn fields_after_a_move() {
    let running = ActualLrp {
        crash_count: 2,
        crash_reason: "earlier".to_owned(),
        placement_error: "full".to_owned(),
        ..row(Presence::Ordinary, ActualState::Running, "me")
    };
    let claimed = running.claimed(&held_by("me"), NOW_NS);
    let started = running.started(&held_by("me"), report(NEWS), NOW_NS);
    let crashed = running.crashed(&"x".repeat(2 * REASON_BYTES_MAX), NOW_NS);
    let returned = running.returned(NOW_NS);
    let failed = running.failed("no room", NOW_NS);
    let suspect = running.with_presence(Presence::Suspect);
    let mut table = String::new();
    for (name, row) in [
        ("claimed", claimed),
        ("started", started),
        ("crashed", crashed),
        ("returned", returned),
        ("failed", failed),
        ("suspect", suspect),
    ] {
        let reason = match row.crash_reason.len() {
            REASON_BYTES_MAX => "cut".to_owned(),
            _ => row.crash_reason.clone(),
        };
        writeln!(
            table,
            "{name:<9} {:<24} reason={reason:<8} placement={:<8} {} routable={:<5} {} since={}",
            word(&row),
            row.placement_error,
            row.internal_routes.join(" "),
            row.routable,
            row.availability_zone,
            if row.since_ns == NOW_NS { "now" } else { "before" },
        )
        .unwrap();
    }
    expect![[r#"
        claimed   O:CLAIMED:me:o#6!2       reason=earlier  placement=         1.internal routable=true  z1 since=now
        started   O:RUNNING:me:o#6@2!2     reason=earlier  placement=         2.internal routable=false z2 since=now
        crashed   O:CRASHED:-:o#6!3        reason=cut      placement=full     1.internal routable=true  z1 since=now
        returned  O:UNCLAIMED:-:o#6!2      reason=earlier  placement=full     1.internal routable=true  z1 since=now
        failed    O:RUNNING:me:o#6@1!2     reason=earlier  placement=no room  1.internal routable=true  z1 since=now
        suspect   S:RUNNING:me:o#6@1!2     reason=earlier  placement=full     1.internal routable=true  z1 since=before
    "#]]
    .assert_eq(&table);
}

fn any_call() -> impl Strategy<Value = Call> {
    let who = || select(vec!["ann", "bob", "cat"]);
    let number = || select(vec![KEPT, NEWS]);
    prop_oneof![
        Just(Call::CreateUnclaimed),
        who().prop_map(Call::Claim),
        (who(), number()).prop_map(|(by, number)| Call::Start(by, number)),
        who().prop_map(Call::Crash),
        Just(Call::Fail),
        proptest::option::of(who()).prop_map(Call::Remove),
        Just(Call::RemoveUnheld),
        who().prop_map(Call::EvacuateClaimed),
        who().prop_map(Call::EvacuateCrashed),
        who().prop_map(Call::EvacuateStopped),
        (who(), number(), select(Policy::ALL.to_vec()))
            .prop_map(|(by, number, policy)| Call::EvacuateRunning(by, number, policy)),
        who().prop_map(Call::RemoveEvacuating),
        Just(Call::LoseCell),
        Just(Call::PromoteSuspect),
        Just(Call::RetireSuspect),
        Just(Call::DropEvacuating),
        Just(Call::RestartCrashed),
        Just(Call::AuctionAgain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_keeps_the_promises(steps in prop::collection::vec((any_call(), 0..400_i64), 1..60)) {
        let mut slot = Slot::default();
        let mut now_ns = NOW_NS;
        let mut consumer = Consumer::default();
        let mut newest = HashMap::new();
        for (number, (call, pause_s)) in steps.into_iter().enumerate() {
            now_ns += pause_s * NANOS_PER_SECOND;
            let stamp = Stamp { now_ns, epoch: format!("e{number}").into() };
            let (after, cause) = call.make(&slot, &stamp).after(&slot);
            let (group, instance) = event::of_slot(&slot, &after, cause);
            if after == slot {
                prop_assert!(group.is_empty() && instance.is_empty(), "{call:?} changed nothing on {}", words(&slot));
            }
            rows_are_sound(&after);
            tags_only_grow(&after, &mut newest);
            consumer.take(&instance);
            prop_assert_eq!(consumer.words(), sorted_words(after.rows()), "{:?} on {}", call, words(&slot));
            slot = after;
        }
    }
}

fn rows_are_sound(slot: &Slot) {
    for presence in [Presence::Ordinary, Presence::Evacuating, Presence::Suspect] {
        let Some(row) = slot.get(presence) else { continue };
        assert_eq!(row.presence, presence, "{}", word(row));
        assert_eq!(row.instance.is_some(), row.is_held(), "{}", word(row));
        match presence {
            Presence::Ordinary => {}
            Presence::Evacuating => assert_eq!(row.state, ActualState::Running, "{}", word(row)),
            Presence::Suspect => assert!(row.is_held(), "{}", word(row)),
        }
    }
    let held_twice = |presence| {
        let ordinary = slot.ordinary.as_ref().and_then(|row| row.instance.as_ref());
        ordinary.is_some() && slot.get(presence).and_then(|row| row.instance.as_ref()) == ordinary
    };
    assert!(!held_twice(Presence::Suspect), "ordinary and suspect at once: {}", words(slot));
}

/// Two versions of a row that differ have different tags, and the later one supersedes.
fn tags_only_grow(slot: &Slot, newest: &mut HashMap<Arc<str>, Arc<ActualLrp>>) {
    for row in slot.rows() {
        if let Some(older) = newest.insert(row.tag.epoch.clone(), row.clone())
            && older != *row
        {
            assert!(row.tag.supersedes(Some(&older.tag)), "{} after {}", word(row), word(&older));
        }
    }
}

/// Somebody who listens to the instance stream from the beginning and believes every word of it.
#[derive(Default)]
struct Consumer {
    rows: Vec<Arc<ActualLrp>>,
}

impl Consumer {
    fn take(&mut self, events: &[InstanceEvent]) {
        for event in events {
            match event {
                InstanceEvent::Created(row) => self.rows.push(row.clone()),
                InstanceEvent::Changed { before, after } => {
                    self.forget(before);
                    self.rows.push(after.clone());
                }
                InstanceEvent::Removed(row) => self.forget(row),
                InstanceEvent::Crashed { before, .. } => {
                    assert!(self.rows.contains(before), "a crash of a row that was never shown: {}", word(before));
                }
            }
        }
    }

    fn forget(&mut self, row: &Arc<ActualLrp>) {
        let at = self.rows.iter().position(|held| held == row);
        self.rows.remove(at.unwrap_or_else(|| panic!("never shown before: {}", word(row))));
    }

    fn words(&self) -> Vec<String> {
        sorted_words(self.rows.iter())
    }
}

fn sorted_words<'a>(rows: impl Iterator<Item = &'a Arc<ActualLrp>>) -> Vec<String> {
    let mut words: Vec<_> = rows.map(|row| word(row)).collect();
    words.sort();
    words
}
