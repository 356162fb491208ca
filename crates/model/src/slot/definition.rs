//! Which definition the rows of a slot name.
//!
//! A container keeps the definition it was made from as long as a row knows it, whatever becomes of that row: it starts, its
//! cell falls silent or drains, it crashes and has to wait. A row that waits for a container, and a container that no row
//! knew, name the definition in use. When in doubt a row names the older one: then an update is called finished too late,
//! and never too early.

use std::sync::Arc;

use super::Slot;
use crate::{ActualLrp, ActualState, DefinitionNumber, Presence};

impl Slot {
    /// Lets every row that `before` does not have name its definition. `in_use` is what new instances of the process get;
    /// `None` when nobody wants it any more, and then there is nothing newer to name.
    pub fn name_definitions(&mut self, before: &Slot, in_use: Option<DefinitionNumber>) {
        for presence in [Presence::Ordinary, Presence::Evacuating, Presence::Suspect] {
            let Some(row) = self.get(presence).filter(|row| before.get(presence) != Some(row)) else { continue };
            let number = definition_of(row, before, in_use.unwrap_or(row.definition));
            if row.definition != number {
                let named = ActualLrp { definition: number, ..ActualLrp::clone(row) };
                self.set(presence, Some(Arc::new(named)));
            }
        }
    }

    pub fn names_definition(&self, number: DefinitionNumber) -> bool {
        self.rows().any(|row| row.definition == number)
    }
}

fn definition_of(row: &ActualLrp, before: &Slot, in_use: DefinitionNumber) -> DefinitionNumber {
    let same_container = row.instance.as_ref().and_then(|by| before.row_of(by));
    match (row.state, same_container) {
        (ActualState::Unclaimed, _) | (ActualState::Claimed, None) => in_use,
        (_, Some(former)) => former.definition,
        (ActualState::Running | ActualState::Crashed, None) => match (row.presence, &before.ordinary) {
            (Presence::Ordinary, Some(former)) => former.definition,
            _ => in_use,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect;

    use super::*;
    use crate::slot::Stamp;
    use crate::slot::tests::scenario::{Call, NOW_NS, held_by, report, row, slots, special_slots};

    const OF_ORDINARY: DefinitionNumber = DefinitionNumber(3);
    const OF_EVACUATING: DefinitionNumber = DefinitionNumber(4);
    const OF_SUSPECT: DefinitionNumber = DefinitionNumber(5);
    const IN_USE: DefinitionNumber = DefinitionNumber(9);

    fn stamp() -> Stamp {
        Stamp { now_ns: NOW_NS, epoch: "new".into() }
    }

    /// Every row names a definition of its own, so that the table shows whose it was.
    fn numbered(slot: &Slot) -> Slot {
        let numbered = |row: &Option<Arc<ActualLrp>>, definition| {
            row.as_ref().map(|row| Arc::new(ActualLrp { definition, ..ActualLrp::clone(row) }))
        };
        Slot {
            ordinary: numbered(&slot.ordinary, OF_ORDINARY),
            evacuating: numbered(&slot.evacuating, OF_EVACUATING),
            suspect: numbered(&slot.suspect, OF_SUSPECT),
        }
    }

    fn named(number: DefinitionNumber) -> String {
        match number {
            OF_ORDINARY => "that of the ordinary row".to_owned(),
            OF_EVACUATING => "that of the evacuating row".to_owned(),
            OF_SUSPECT => "that of the suspect row".to_owned(),
            IN_USE => "the one in use".to_owned(),
            other => format!("number {other}"),
        }
    }

    /// What the row was before, as far as it says what the row is made from.
    fn former(row: &ActualLrp, before: &Slot) -> String {
        match row.instance.as_ref().and_then(|by| before.row_of(by)) {
            Some(former) => format!("{:?} {} of the same container", former.presence, former.state),
            None => match before.get(row.presence) {
                Some(former) if former.instance.is_some() && row.instance.is_some() => {
                    format!("{:?} {} of another container", former.presence, former.state)
                }
                Some(former) => format!("{:?} {}", former.presence, former.state),
                None => "nothing".to_owned(),
            },
        }
    }

    #[test]
    fn every_call_on_every_slot_leaves_rows_that_name_what_they_are_made_from() {
        let mut table = BTreeSet::new();
        let special = special_slots().into_iter().map(|(_, slot)| slot);
        for before in slots().into_iter().chain(special).map(|slot| numbered(&slot)) {
            for call in Call::all_by_me() {
                let (mut after, _) = call.make(&before, &stamp()).after(&before);
                after.name_definitions(&before, Some(IN_USE));
                for row in after.rows().filter(|row| before.get(row.presence) != Some(row)) {
                    let (was, names) = (former(row, &before), named(row.definition));
                    table.insert(format!("{was} -> {:?} {}: {names}\n", row.presence, row.state));
                }
            }
        }
        expect![[r#"
            Evacuating RUNNING of the same container -> Evacuating RUNNING: that of the evacuating row
            Evacuating RUNNING of the same container -> Ordinary CLAIMED: that of the evacuating row
            Evacuating RUNNING of the same container -> Ordinary RUNNING: that of the evacuating row
            Ordinary CLAIMED -> Ordinary CRASHED: that of the ordinary row
            Ordinary CLAIMED -> Ordinary UNCLAIMED: the one in use
            Ordinary CLAIMED of another container -> Ordinary RUNNING: that of the ordinary row
            Ordinary CLAIMED of the same container -> Evacuating RUNNING: that of the ordinary row
            Ordinary CLAIMED of the same container -> Ordinary RUNNING: that of the ordinary row
            Ordinary CLAIMED of the same container -> Suspect CLAIMED: that of the ordinary row
            Ordinary CRASHED -> Ordinary UNCLAIMED: the one in use
            Ordinary RUNNING -> Ordinary CRASHED: that of the ordinary row
            Ordinary RUNNING -> Ordinary UNCLAIMED: the one in use
            Ordinary RUNNING of the same container -> Evacuating RUNNING: that of the ordinary row
            Ordinary RUNNING of the same container -> Ordinary CLAIMED: that of the ordinary row
            Ordinary RUNNING of the same container -> Ordinary RUNNING: that of the ordinary row
            Ordinary RUNNING of the same container -> Suspect RUNNING: that of the ordinary row
            Ordinary UNCLAIMED -> Ordinary CLAIMED: the one in use
            Ordinary UNCLAIMED -> Ordinary RUNNING: that of the ordinary row
            Ordinary UNCLAIMED -> Ordinary UNCLAIMED: the one in use
            Suspect CLAIMED of the same container -> Evacuating RUNNING: that of the suspect row
            Suspect CLAIMED of the same container -> Ordinary CLAIMED: that of the suspect row
            Suspect RUNNING of the same container -> Evacuating RUNNING: that of the suspect row
            Suspect RUNNING of the same container -> Ordinary RUNNING: that of the suspect row
            nothing -> Evacuating RUNNING: the one in use
            nothing -> Ordinary RUNNING: the one in use
            nothing -> Ordinary UNCLAIMED: the one in use
        "#]]
        .assert_eq(&table.into_iter().collect::<String>());
    }

    #[test]
    fn without_a_desired_lrp_rows_keep_what_they_name() {
        let only = |state| Slot { ordinary: Some(Arc::new(row(Presence::Ordinary, state, "me"))), ..Slot::default() };
        for (state, call) in [
            (ActualState::Unclaimed, Call::Claim("me")),
            (ActualState::Claimed, Call::EvacuateClaimed("me")),
            (ActualState::Running, Call::Crash("me")),
        ] {
            let before = numbered(&only(state));
            let (mut after, _) = call.make(&before, &stamp()).after(&before);
            after.name_definitions(&before, None);
            assert_ne!(before, after, "{call}");
            assert!(after.names_definition(OF_ORDINARY), "{call}: {after:?}");
        }
    }

    #[test]
    fn a_row_that_did_not_change_is_not_touched() {
        let (by, key) = (held_by("me"), row(Presence::Ordinary, ActualState::Running, "me").key);
        let before = Slot::default().start(&key, &by, report(1), &stamp()).unwrap().slot;
        let mut after = before.clone();
        after.name_definitions(&before, Some(IN_USE));
        let same = after.ordinary.as_ref().zip(before.ordinary.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
        assert!(same && !after.names_definition(IN_USE));
    }
}
