//! What each change of a slot announces, printed; who is told; and the group view.

use std::fmt::Write;
use std::sync::Arc;

use expect_test::{expect, expect_file};

use super::{Group, GroupEvent, InstanceEvent, of_slot};
use crate::slot::tests::scenario::{Call, NOW_NS, held_by, row, slots, special_slots, word, words};
use crate::slot::{Cause, Stamp};
use crate::{ActualLrp, ActualState, CellId, ModificationTag, Presence, Slot};

const LEGEND: &str = "\
What each call that changes a slot announces. Rows are written as in slot.golden. A group event shows one row, or the
whole group in braces. A change is `before => after`, a crash shows the row before, and the count and reason after.
";

#[test]
fn every_change_of_every_slot() {
    let mut table = LEGEND.to_owned();
    for slot in slots() {
        print_slot("", &slot, &mut table);
    }
    for (name, slot) in special_slots() {
        print_slot(&format!("  ({name})"), &slot, &mut table);
    }
    expect_file!["events.golden"].assert_eq(&table);
}

/// Calls that announce the same share an entry; calls that change nothing are left out, having announced nothing.
fn print_slot(name: &str, slot: &Slot, table: &mut String) {
    let mut entries: Vec<(String, Vec<String>)> = Vec::new();
    for call in Call::all_by_me() {
        let stamp = Stamp { now_ns: NOW_NS, epoch: "new".into() };
        let (after, cause) = call.make(slot, &stamp).after(slot);
        let (group, instance) = of_slot(slot, &after, cause);
        if after == *slot {
            assert!(group.is_empty() && instance.is_empty(), "{call} on {}", words(slot));
            continue;
        }
        let entry =
            format!("    group: {}  |  instance: {}", join(&group, print_group), join(&instance, print_instance));
        match entries.iter_mut().find(|(known, _)| *known == entry) {
            Some((_, calls)) => calls.push(call.to_string()),
            None => entries.push((entry, vec![call.to_string()])),
        }
    }
    writeln!(table, "\n{}{name}", words(slot)).unwrap();
    for (entry, calls) in entries {
        writeln!(table, "  {}\n{entry}", calls.join(" ")).unwrap();
    }
}

fn join<E>(events: &[E], print: impl Fn(&E) -> String) -> String {
    match events {
        [] => "-".to_owned(),
        _ => events.iter().map(print).collect::<Vec<_>>().join("; "),
    }
}

fn print_group(event: &GroupEvent) -> String {
    let shown = |group: &Group| match (&group.instance, &group.evacuating) {
        (Some(row), None) | (None, Some(row)) => word(row),
        (None, None) => "{}".to_owned(),
        (Some(instance), Some(evacuating)) => format!("{{{} {}}}", word(instance), word(evacuating)),
    };
    match event {
        GroupEvent::Created(group) => format!("created {}", shown(group)),
        GroupEvent::Changed { before, after } => format!("changed {} => {}", shown(before), shown(after)),
        GroupEvent::Removed(group) => format!("removed {}", shown(group)),
        GroupEvent::Crashed { before, after } => {
            format!("crashed {} ({}, {:?})", word(before), after.crash_count, after.crash_reason)
        }
    }
}

fn print_instance(event: &InstanceEvent) -> String {
    match event {
        InstanceEvent::Created(row) => format!("created {}", word(row)),
        InstanceEvent::Changed { before, after } => format!("changed {} => {}", word(before), word(after)),
        InstanceEvent::Removed(row) => format!("removed {}", word(row)),
        InstanceEvent::Crashed { before, after } => {
            format!("crashed {} ({}, {:?})", word(before), after.crash_count, after.crash_reason)
        }
    }
}

/// A row with a fresh epoch is another row, although it stands in the same place.
#[test]
fn a_row_made_anew_is_not_a_change() {
    let ordinary = |epoch: &str| {
        let row = row(Presence::Ordinary, ActualState::Unclaimed, "");
        let tag = ModificationTag::first(epoch.into());
        Slot { ordinary: Some(Arc::new(ActualLrp { tag, ..row })), ..Slot::default() }
    };
    let (_, instance) = of_slot(&ordinary("old"), &ordinary("new"), Cause::Plain);
    expect!["removed O:UNCLAIMED:-:old#0; created O:UNCLAIMED:-:new#0"].assert_eq(&join(&instance, print_instance));
}

#[test]
fn the_group_view() {
    let mut table = String::new();
    // Whose containers they are makes no difference to the view.
    for slot in slots().into_iter().filter(|slot| slot.rows().all(|row| !row.is_held_by(&held_by("me")))) {
        let group = Group::of(&slot);
        let name = |row: Option<&Arc<ActualLrp>>| row.map_or("-".to_owned(), |row| format!("{:?}", row.presence));
        let (instance, resolved) = (name(group.instance.as_ref()), name(group.resolve()));
        assert_eq!(group.evacuating, slot.evacuating);
        writeln!(table, "{:<58} shows {instance:<9} resolves to {resolved}", words(&slot)).unwrap();
    }
    expect![[r#"
        nothing                                                    shows -         resolves to -
        O:UNCLAIMED:-:o#5                                          shows Ordinary  resolves to Ordinary
        O:CLAIMED:ann:o#5                                          shows Ordinary  resolves to Ordinary
        O:RUNNING:ann:o#5@1                                        shows Ordinary  resolves to Ordinary
        O:CRASHED:-:o#5                                            shows Ordinary  resolves to Ordinary
        E:RUNNING:eve:e#5@1                                        shows -         resolves to Evacuating
        O:UNCLAIMED:-:o#5 E:RUNNING:eve:e#5@1                      shows Ordinary  resolves to Evacuating
        O:CLAIMED:ann:o#5 E:RUNNING:eve:e#5@1                      shows Ordinary  resolves to Evacuating
        O:RUNNING:ann:o#5@1 E:RUNNING:eve:e#5@1                    shows Ordinary  resolves to Ordinary
        O:CRASHED:-:o#5 E:RUNNING:eve:e#5@1                        shows Ordinary  resolves to Ordinary
        S:RUNNING:sue:s#5@1                                        shows Suspect   resolves to Suspect
        O:UNCLAIMED:-:o#5 S:RUNNING:sue:s#5@1                      shows Suspect   resolves to Suspect
        O:CLAIMED:ann:o#5 S:RUNNING:sue:s#5@1                      shows Suspect   resolves to Suspect
        O:RUNNING:ann:o#5@1 S:RUNNING:sue:s#5@1                    shows Ordinary  resolves to Ordinary
        O:CRASHED:-:o#5 S:RUNNING:sue:s#5@1                        shows Suspect   resolves to Suspect
        O:UNCLAIMED:-:o#5 E:RUNNING:eve:e#5@1 S:RUNNING:sue:s#5@1  shows Suspect   resolves to Suspect
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_cell_hears_of_its_own_containers() {
    let running = |name| Arc::new(row(Presence::Ordinary, ActualState::Running, name));
    let unclaimed = Arc::new(row(Presence::Ordinary, ActualState::Unclaimed, ""));
    let evacuating = Arc::new(row(Presence::Evacuating, ActualState::Running, "eve"));
    let group = |instance: &Arc<ActualLrp>| Group { instance: Some(instance.clone()), evacuating: None };
    let full = Group { instance: Some(unclaimed.clone()), evacuating: Some(evacuating.clone()) };
    let mut table = String::new();
    let mut check = |what: String, concerns: &dyn Fn(&CellId) -> bool| {
        let told: Vec<_> = ["me", "ann", "eve"].into_iter().filter(|name| concerns(&held_by(name).cell_id)).collect();
        writeln!(table, "{what:<76} {}", if told.is_empty() { "nobody".to_owned() } else { told.join(" ") }).unwrap();
    };
    for event in [
        InstanceEvent::Created(running("me")),
        InstanceEvent::Created(unclaimed.clone()),
        InstanceEvent::Removed(running("me")),
        // A changed event is addressed with one key: the new one, or the old one if there is none any more.
        InstanceEvent::Changed { before: running("me"), after: running("ann") },
        InstanceEvent::Changed { before: running("me"), after: unclaimed.clone() },
        InstanceEvent::Crashed { before: running("me"), after: unclaimed.clone() },
    ] {
        check(format!("instance {}", print_instance(&event)), &|cell| event.concerns(cell));
    }
    for event in [
        GroupEvent::Created(group(&running("me"))),
        GroupEvent::Created(full.clone()),
        GroupEvent::Removed(group(&unclaimed)),
        GroupEvent::Changed { before: group(&running("me")), after: group(&running("ann")) },
        GroupEvent::Changed { before: group(&running("me")), after: full },
        GroupEvent::Crashed { before: running("me"), after: unclaimed.clone() },
    ] {
        check(format!("group {}", print_group(&event)), &|cell| event.concerns(cell));
    }
    expect![[r#"
        instance created O:RUNNING:me:o#5@1                                          me
        instance created O:UNCLAIMED:-:o#5                                           nobody
        instance removed O:RUNNING:me:o#5@1                                          me
        instance changed O:RUNNING:me:o#5@1 => O:RUNNING:ann:o#5@1                   ann
        instance changed O:RUNNING:me:o#5@1 => O:UNCLAIMED:-:o#5                     me
        instance crashed O:RUNNING:me:o#5@1 (0, "")                                  me
        group created O:RUNNING:me:o#5@1                                             me
        group created {O:UNCLAIMED:-:o#5 E:RUNNING:eve:e#5@1}                        eve
        group removed O:UNCLAIMED:-:o#5                                              nobody
        group changed O:RUNNING:me:o#5@1 => O:RUNNING:ann:o#5@1                      me ann
        group changed O:RUNNING:me:o#5@1 => {O:UNCLAIMED:-:o#5 E:RUNNING:eve:e#5@1}  me eve
        group crashed O:RUNNING:me:o#5@1 (0, "")                                     me
    "#]]
    .assert_eq(&table);
}
