//! Actual LRPs in pairs, for clients that know nothing of single instances.
//!
//! The group endpoints and the group events show at most two records per index: the instance and the evacuating one.
//! Diego keeps up to three (an ordinary one and a suspect one compete), so one of them may be hidden here. The rules
//! decide which; new clients list the records themselves.

use std::collections::HashMap;

use crate::models::actual_lrp::Presence;
use crate::models::{ActualLrp, ActualLrpGroup};

const RUNNING: &str = "RUNNING";
const CLAIMED: &str = "CLAIMED";
const CRASHED: &str = "CRASHED";

/// Groups records by process guid, index and domain, in the order in which each key first appears.
pub fn group(records: impl IntoIterator<Item = ActualLrp>) -> Vec<ActualLrpGroup> {
    let mut groups: Vec<ActualLrpGroup> = Vec::new();
    let mut places: HashMap<(String, i32, String), usize> = HashMap::new();
    for record in records {
        let key = record.actual_lrp_key.as_ref();
        let key = key.map(|key| (key.process_guid.clone(), key.index, key.domain.clone())).unwrap_or_default();
        let place = *places.entry(key).or_insert_with(|| {
            groups.push(ActualLrpGroup::default());
            groups.len() - 1
        });
        put(&mut groups[place], record);
    }
    groups
}

/// The record that stands for the whole group, or `None` when the group is empty.
pub fn resolve(group: &ActualLrpGroup) -> Option<&ActualLrp> {
    match (&group.instance, &group.evacuating) {
        (Some(instance), Some(_)) if instance.state == RUNNING || instance.state == CRASHED => Some(instance),
        (_, Some(evacuating)) => Some(evacuating),
        (instance, None) => instance.as_ref(),
    }
}

fn put(group: &mut ActualLrpGroup, record: ActualLrp) {
    if record.presence() == Presence::Evacuating {
        group.evacuating = Some(record);
    } else if group.instance.as_ref().is_none_or(|occupant| replaces(&record, occupant)) {
        group.instance = Some(record);
    }
}

/// Whether a later record takes the slot from the occupant.
fn replaces(record: &ActualLrp, occupant: &ActualLrp) -> bool {
    match (record.presence(), record.state.as_str()) {
        (Presence::Ordinary, RUNNING) => true,
        (Presence::Ordinary, CLAIMED) => occupant.state != RUNNING && occupant.state != CLAIMED,
        (Presence::Suspect, RUNNING | CLAIMED) => occupant.state != RUNNING,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::{expect, expect_file};

    use super::*;
    use crate::models::ActualLrpKey;

    fn record(guid: &str, index: i32, state: &str, presence: Presence) -> ActualLrp {
        let key = ActualLrpKey { process_guid: guid.into(), index, domain: "d".into() };
        ActualLrp { actual_lrp_key: Some(key), state: state.into(), presence: presence.into(), ..Default::default() }
    }

    fn show(record: Option<&ActualLrp>) -> String {
        record.map_or("-".into(), |lrp| format!("{} {}", lrp.presence().as_str_name(), lrp.state))
    }

    const STATES: [&str; 4] = ["UNCLAIMED", "CLAIMED", "RUNNING", "CRASHED"];

    #[test]
    fn who_holds_the_slot_after_each_pair() {
        let mut table = String::new();
        for first_presence in [Presence::Ordinary, Presence::Suspect] {
            for first in STATES {
                for second_presence in [Presence::Ordinary, Presence::Suspect] {
                    for second in STATES {
                        let pair = [record("g", 0, first, first_presence), record("g", 0, second, second_presence)];
                        let line = format!("{} then {}", show(Some(&pair[0])), show(Some(&pair[1])));
                        let groups = group(pair);
                        writeln!(table, "{line:<42} -> {}", show(groups[0].instance.as_ref())).unwrap();
                    }
                }
            }
        }
        expect_file!["../tests/golden/group_slots.txt"].assert_eq(&table);
    }

    #[test]
    fn groups_come_in_order_of_first_appearance_and_evacuating_has_its_own_slot() {
        let groups = group([
            record("b", 0, "RUNNING", Presence::Ordinary),
            record("a", 1, "RUNNING", Presence::Evacuating),
            record("a", 0, "CLAIMED", Presence::Ordinary),
            record("a", 1, "UNCLAIMED", Presence::Ordinary),
        ]);
        let shown: String = groups
            .iter()
            .map(|group| {
                let key = resolve(group).unwrap().actual_lrp_key.as_ref().unwrap();
                let (instance, evacuating) = (show(group.instance.as_ref()), show(group.evacuating.as_ref()));
                format!("{} {}: {instance} | {evacuating}\n", key.process_guid, key.index)
            })
            .collect();
        expect![[r#"
            b 0: ORDINARY RUNNING | -
            a 1: ORDINARY UNCLAIMED | EVACUATING RUNNING
            a 0: ORDINARY CLAIMED | -
        "#]]
        .assert_eq(&shown);
    }

    #[test]
    fn the_record_that_stands_for_the_group() {
        let evacuating = || Some(record("g", 0, "RUNNING", Presence::Evacuating));
        for (state, expected) in [
            ("UNCLAIMED", Presence::Evacuating),
            ("CLAIMED", Presence::Evacuating),
            ("RUNNING", Presence::Ordinary),
            ("CRASHED", Presence::Ordinary),
        ] {
            let instance = || Some(record("g", 0, state, Presence::Ordinary));
            let both = ActualLrpGroup { instance: instance(), evacuating: evacuating() };
            assert_eq!(resolve(&both).unwrap().presence(), expected, "{state}");
            let alone = ActualLrpGroup { instance: instance(), evacuating: None };
            assert_eq!(resolve(&alone).unwrap().presence(), Presence::Ordinary, "{state} alone");
        }
        let alone = ActualLrpGroup { instance: None, evacuating: evacuating() };
        assert_eq!(resolve(&alone).unwrap().presence(), Presence::Evacuating);
        assert_eq!(resolve(&ActualLrpGroup::default()), None);
    }
}
