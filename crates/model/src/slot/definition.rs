//! Which definition the rows of a slot name.
//!
//! An index keeps its definition, whatever becomes of its row: it starts, its cell falls silent or drains, it crashes and starts
//! again. Only a rollout gives it another, so what runs after a crash or an evacuation is what ran there before. A row for an
//! index that had none, and a container that no row knew, name the definition in use. When in doubt a row names the older one:
//! then an update is called finished too late, and never too early.

use std::sync::Arc;

use super::Slot;
use crate::{ActualLrp, DefinitionNumber, DesiredLrp, Presence};

/// The definitions that instances of a process may have.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What new instances get.
    pub in_use: DefinitionNumber,
    pub previous: Option<DefinitionNumber>,
}

impl Known {
    pub fn of(desired: &DesiredLrp) -> Self {
        Self { in_use: desired.definition, previous: desired.previous.as_ref().map(|previous| previous.number) }
    }

    fn has(self, number: DefinitionNumber) -> bool {
        number == self.in_use || Some(number) == self.previous
    }
}

impl Slot {
    /// Lets every row that `before` does not have name its definition. `known` are the definitions of the process; `None`
    /// when nobody wants it any more, and then there is nothing newer to name.
    pub fn name_definitions(&mut self, before: &Slot, known: Option<Known>) {
        let Some(known) = known else { return self.keep_definitions(before) };
        for presence in [Presence::Ordinary, Presence::Evacuating, Presence::Suspect] {
            let Some(row) = self.get(presence).filter(|row| before.get(presence) != Some(row)) else { continue };
            let number = former_definition(row, before).filter(|number| known.has(*number)).unwrap_or(known.in_use);
            self.name(presence, number);
        }
    }

    fn keep_definitions(&mut self, before: &Slot) {
        for presence in [Presence::Ordinary, Presence::Evacuating, Presence::Suspect] {
            let number = self.get(presence).and_then(|row| former_definition(row, before));
            number.into_iter().for_each(|number| self.name(presence, number));
        }
    }

    fn name(&mut self, presence: Presence, number: DefinitionNumber) {
        if let Some(row) = self.get(presence).filter(|row| row.definition != number) {
            let named = ActualLrp { definition: number, ..ActualLrp::clone(row) };
            self.set(presence, Some(Arc::new(named)));
        }
    }

    pub fn names_definition(&self, number: DefinitionNumber) -> bool {
        self.rows().any(|row| row.definition == number)
    }
}

/// What the container of a row was made from, or else what the index had.
fn former_definition(row: &ActualLrp, before: &Slot) -> Option<DefinitionNumber> {
    let same_container = row.instance.as_ref().and_then(|by| before.row_of(by));
    let same_index = before.ordinary.as_ref().filter(|_| row.presence == Presence::Ordinary);
    same_container.or(same_index).map(|former| former.definition)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect;

    use super::*;
    use crate::ActualState;
    use crate::slot::Stamp;
    use crate::slot::tests::scenario::{Call, NOW_NS, held_by, report, row, slots, special_slots};

    const OF_ORDINARY: DefinitionNumber = DefinitionNumber(3);
    const OF_EVACUATING: DefinitionNumber = DefinitionNumber(4);
    const OF_SUSPECT: DefinitionNumber = DefinitionNumber(5);
    const FIRST: DefinitionNumber = DefinitionNumber::FIRST;
    const IN_USE: DefinitionNumber = DefinitionNumber(9);

    /// Names definitions as if each of those that rows name were still there.
    fn name(after: &Slot, before: &Slot) -> Slot {
        let mut named = after.clone();
        for previous in [OF_ORDINARY, OF_EVACUATING, OF_SUSPECT] {
            let mut with_this = after.clone();
            with_this.name_definitions(before, Some(Known { in_use: IN_USE, previous: Some(previous) }));
            for presence in [Presence::Ordinary, Presence::Evacuating, Presence::Suspect] {
                let number = with_this.get(presence).map(|row| row.definition);
                if number == Some(previous) || named.get(presence).is_some_and(|row| row.definition == FIRST) {
                    number.into_iter().for_each(|number| named.name(presence, number));
                }
            }
        }
        named
    }

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
                let (after, _) = call.make(&before, &stamp()).after(&before);
                let after = name(&after, &before);
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
            Ordinary CLAIMED -> Ordinary UNCLAIMED: that of the ordinary row
            Ordinary CLAIMED of another container -> Ordinary RUNNING: that of the ordinary row
            Ordinary CLAIMED of the same container -> Evacuating RUNNING: that of the ordinary row
            Ordinary CLAIMED of the same container -> Ordinary RUNNING: that of the ordinary row
            Ordinary CLAIMED of the same container -> Suspect CLAIMED: that of the ordinary row
            Ordinary CRASHED -> Ordinary UNCLAIMED: that of the ordinary row
            Ordinary RUNNING -> Ordinary CRASHED: that of the ordinary row
            Ordinary RUNNING -> Ordinary UNCLAIMED: that of the ordinary row
            Ordinary RUNNING of the same container -> Evacuating RUNNING: that of the ordinary row
            Ordinary RUNNING of the same container -> Ordinary CLAIMED: that of the ordinary row
            Ordinary RUNNING of the same container -> Ordinary RUNNING: that of the ordinary row
            Ordinary RUNNING of the same container -> Suspect RUNNING: that of the ordinary row
            Ordinary UNCLAIMED -> Ordinary CLAIMED: that of the ordinary row
            Ordinary UNCLAIMED -> Ordinary RUNNING: that of the ordinary row
            Ordinary UNCLAIMED -> Ordinary UNCLAIMED: that of the ordinary row
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
        after.name_definitions(&before, Some(Known { in_use: IN_USE, previous: None }));
        let same = after.ordinary.as_ref().zip(before.ordinary.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
        assert!(same && !after.names_definition(IN_USE));
    }
}
