//! Which definition a container that starts is taken to have, in every case.

use std::sync::Arc;

use bytes::Bytes;
use expect_test::expect;
use model::{
    ActualLrp, CellId, DesiredUpdate, DomainName, ImageCredentials, InstanceGuid, ModificationTag, NewDefinition,
    Presence, ProcessGuid, Resources, UpdateStrategy,
};
use store::Forms;

use super::*;
use crate::clock::ManualClock;
use crate::commands::Setting;

/// When the update begins, and when rows were made before and after it.
const BEGUN_NS: i64 = 100;
const BEFORE_NS: i64 = 50;
const AFTER_NS: i64 = 150;
const FIRST: DefinitionNumber = DefinitionNumber::FIRST;
const SECOND: DefinitionNumber = DefinitionNumber(2);

fn key() -> ActualLrpKey {
    let (process_guid, domain) = (ProcessGuid::parse("app").unwrap(), DomainName::parse("d").unwrap());
    ActualLrpKey { process_guid, index: 0, domain }
}

fn holder(name: &str) -> InstanceKey {
    InstanceKey { instance_guid: InstanceGuid::parse(name).unwrap(), cell_id: CellId::parse("cell").unwrap() }
}

fn report() -> Report {
    api::convert::report_of_start(api::models::StartActualLrpRequest::default(), false)
}

fn desired() -> DesiredLrp {
    let ActualLrpKey { process_guid, domain, .. } = key();
    DesiredLrp {
        process_guid,
        domain,
        log_guid: String::new(),
        annotation: String::new(),
        instances: 1,
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        routes: model::Packed::default(),
        metric_tags: model::Packed::default(),
        metrics_guid: String::new(),
        update_strategy: UpdateStrategy::ROLLING,
        image_credentials: ImageCredentials::default(),
        tag: ModificationTag::first("epoch".into()),
        run_info: Bytes::from_static(b"1"),
        definition: FIRST,
        definition_identifier: String::new(),
        previous: None,
        history: None,
        unknown: model::Unknown::default(),
    }
}

/// An update from the first to the second definition that is under way.
fn updating() -> DesiredLrp {
    let definition = NewDefinition {
        identifier: "v2".into(),
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        log_guid: String::new(),
        metrics_guid: String::new(),
        run_info: Bytes::from_static(b"2"),
    };
    desired().updated(DesiredUpdate { definition: Some(definition), ..DesiredUpdate::default() }, BEGUN_NS).unwrap()
}

/// The same update after its end.
fn updated() -> DesiredLrp {
    let lrp = updating();
    let mut rollout = lrp.rollout().unwrap().clone();
    rollout.phase = model::rollout::Phase::Done;
    DesiredLrp { previous: None, ..lrp.with_rollout(rollout) }
}

fn row(state: ActualState, by: &str, definition: DefinitionNumber, since_ns: i64) -> Slot {
    let unclaimed = ActualLrp::unclaimed(key(), "row".into(), since_ns);
    let row = match state {
        ActualState::Unclaimed | ActualState::Crashed => ActualLrp { state, ..unclaimed },
        ActualState::Claimed => unclaimed.claimed(&holder(by), since_ns),
        ActualState::Running => unclaimed.started(&holder(by), report(), since_ns),
    };
    Slot { ordinary: Some(Arc::new(ActualLrp { definition, ..row })), ..Slot::default() }
}

/// My container leaves; the row of its successor has the other definition.
fn leaving(state: ActualState) -> Slot {
    let mine = row(ActualState::Running, "me", FIRST, BEFORE_NS).ordinary.unwrap();
    let mine = ActualLrp { leaving: true, presence: Presence::Evacuating, ..ActualLrp::clone(&mine) };
    Slot { evacuating: Some(Arc::new(mine)), ..row(state, "ann", SECOND, AFTER_NS) }
}

fn start(said: Option<u32>) -> Start {
    Start { key: key(), by: holder("me"), report: report(), definition: said.map(DefinitionNumber) }
}

fn draft(lrp: Option<DesiredLrp>, slot: Slot) -> Draft {
    let setting =
        Setting { now_ns: 200, clock: Arc::new(ManualClock::at(0)), task_rejections_max: 3, definitions_kept: 2 };
    let mut draft = Draft::new(Board::default(), setting, Arc::new(Forms::only(store::Version::LATEST)));
    lrp.into_iter().for_each(|lrp| draft.board.put_desired(Arc::new(lrp)));
    let ActualLrpKey { process_guid, index, .. } = key();
    draft.board.put_slot(SlotKey { process_guid, index }, slot);
    draft
}

/// The ordinary row after a start, and what the caller is told.
fn after(lrp: Option<DesiredLrp>, slot: &Slot, said: Option<u32>) -> String {
    let mut draft = draft(lrp, slot.clone());
    let is_quick = start(said).changes_nothing(&draft.board);
    let done = start(said).apply(&mut draft);
    let after = draft.board.slot(&key().process_guid, 0);
    assert!(!is_quick || (after == *slot && done == Ok(Done::Ok)), "what needs no writer changes nothing");
    let row = after.ordinary.as_ref().map_or("nothing".to_owned(), |row| {
        let by = row.instance.as_ref().map_or("nobody", |by| by.instance_guid.as_str());
        format!("{} by {by} of {}", row.state, row.definition)
    });
    if let (Some(old), Some(new)) = (&slot.ordinary, &after.ordinary) {
        assert!(old == new || old.tag != new.tag, "whoever orders rows by their tags sees every change");
    }
    let unwritten = if is_quick { ", without the writer" } else { "" };
    match done {
        Ok(Done::Ok) => format!("{row}{unwritten}"),
        Ok(Done::StartedOther { wanted }) => format!("{row}, although {wanted} was wanted"),
        other => format!("{other:?}, {row}"),
    }
}

#[test]
fn what_a_container_is_taken_to_be_made_from() {
    use ActualState::{Claimed, Crashed, Running, Unclaimed};
    let slots = [
        ("no row", Slot::default()),
        ("unclaimed, of 1", row(Unclaimed, "", FIRST, AFTER_NS)),
        ("unclaimed, of 2", row(Unclaimed, "", SECOND, AFTER_NS)),
        ("claimed by me before, of 1", row(Claimed, "me", FIRST, BEFORE_NS)),
        ("claimed by me since, of 1", row(Claimed, "me", FIRST, AFTER_NS)),
        ("claimed by me since, of 2", row(Claimed, "me", SECOND, AFTER_NS)),
        ("claimed by ann since, of 1", row(Claimed, "ann", FIRST, AFTER_NS)),
        ("mine runs, of 1", row(Running, "me", FIRST, AFTER_NS)),
        ("mine runs, of 2", row(Running, "me", SECOND, AFTER_NS)),
        ("ann's runs, of 1", row(Running, "ann", FIRST, AFTER_NS)),
        ("crashed, of 1", row(Crashed, "", FIRST, AFTER_NS)),
        ("mine leaves, unclaimed", leaving(Unclaimed)),
        ("mine leaves, ann's runs", leaving(Running)),
    ];
    let mut table = String::new();
    for (what, said) in [("nothing", None), ("1", Some(1)), ("2", Some(2)), ("7", Some(7))] {
        table.push_str(&format!("during an update from 1 to 2, a cell says {what}\n"));
        for (name, slot) in &slots {
            table.push_str(&format!("  {name:<28} {}\n", after(Some(updating()), slot, said)));
        }
    }
    expect![[r#"
        during an update from 1 to 2, a cell says nothing
          no row                       RUNNING by me of 2
          unclaimed, of 1              RUNNING by me of 2, although 1 was wanted
          unclaimed, of 2              RUNNING by me of 2
          claimed by me before, of 1   RUNNING by me of 1
          claimed by me since, of 1    RUNNING by me of 2, although 1 was wanted
          claimed by me since, of 2    RUNNING by me of 2
          claimed by ann since, of 1   RUNNING by me of 2, although 1 was wanted
          mine runs, of 1              RUNNING by me of 1, without the writer
          mine runs, of 2              RUNNING by me of 2, without the writer
          ann's runs, of 1             Err(CannotBeStarted), RUNNING by ann of 1
          crashed, of 1                Err(CannotBeStarted), CRASHED by nobody of 1
          mine leaves, unclaimed       UNCLAIMED by nobody of 2, without the writer
          mine leaves, ann's runs      RUNNING by ann of 2, without the writer
        during an update from 1 to 2, a cell says 1
          no row                       RUNNING by me of 1
          unclaimed, of 1              RUNNING by me of 1
          unclaimed, of 2              RUNNING by me of 1
          claimed by me before, of 1   RUNNING by me of 1
          claimed by me since, of 1    RUNNING by me of 1
          claimed by me since, of 2    RUNNING by me of 1
          claimed by ann since, of 1   RUNNING by me of 1
          mine runs, of 1              RUNNING by me of 1, without the writer
          mine runs, of 2              RUNNING by me of 1
          ann's runs, of 1             Err(CannotBeStarted), RUNNING by ann of 1
          crashed, of 1                Err(CannotBeStarted), CRASHED by nobody of 1
          mine leaves, unclaimed       UNCLAIMED by nobody of 2, without the writer
          mine leaves, ann's runs      RUNNING by ann of 2, without the writer
        during an update from 1 to 2, a cell says 2
          no row                       RUNNING by me of 2
          unclaimed, of 1              RUNNING by me of 2
          unclaimed, of 2              RUNNING by me of 2
          claimed by me before, of 1   RUNNING by me of 2
          claimed by me since, of 1    RUNNING by me of 2
          claimed by me since, of 2    RUNNING by me of 2
          claimed by ann since, of 1   RUNNING by me of 2
          mine runs, of 1              RUNNING by me of 2
          mine runs, of 2              RUNNING by me of 2, without the writer
          ann's runs, of 1             Err(CannotBeStarted), RUNNING by ann of 1
          crashed, of 1                Err(CannotBeStarted), CRASHED by nobody of 1
          mine leaves, unclaimed       UNCLAIMED by nobody of 2, without the writer
          mine leaves, ann's runs      RUNNING by ann of 2, without the writer
        during an update from 1 to 2, a cell says 7
          no row                       RUNNING by me of 2
          unclaimed, of 1              RUNNING by me of 1
          unclaimed, of 2              RUNNING by me of 2
          claimed by me before, of 1   RUNNING by me of 1
          claimed by me since, of 1    RUNNING by me of 1
          claimed by me since, of 2    RUNNING by me of 2
          claimed by ann since, of 1   RUNNING by me of 1
          mine runs, of 1              RUNNING by me of 1
          mine runs, of 2              RUNNING by me of 2
          ann's runs, of 1             Err(CannotBeStarted), RUNNING by ann of 1
          crashed, of 1                Err(CannotBeStarted), CRASHED by nobody of 1
          mine leaves, unclaimed       UNCLAIMED by nobody of 2, without the writer
          mine leaves, ann's runs      RUNNING by ann of 2, without the writer
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_container_of_a_definition_that_is_gone_does_not_come_back() {
    use ActualState::{Claimed, Running, Unclaimed};
    let slots = [
        ("no row", Slot::default()),
        ("unclaimed", row(Unclaimed, "", SECOND, AFTER_NS)),
        ("claimed by ann", row(Claimed, "ann", SECOND, AFTER_NS)),
        ("claimed by me", row(Claimed, "me", SECOND, AFTER_NS)),
        ("mine runs", row(Running, "me", SECOND, AFTER_NS)),
        ("ann's runs", row(Running, "ann", SECOND, AFTER_NS)),
    ];
    let mut table = String::new();
    for (when, lrp) in [("after an update to 2", Some(updated())), ("nobody wants it", None)] {
        // A number that was never given comes from a life of the record that this server does not know.
        for (what, said) in [("nothing", None), ("1", Some(1)), ("2", Some(2)), ("7", Some(7))] {
            table.push_str(&format!("{when}, a cell says {what}\n"));
            for (name, slot) in &slots {
                table.push_str(&format!("  {name:<16} {}\n", after(lrp.clone(), slot, said)));
            }
        }
    }
    expect![[r#"
        after an update to 2, a cell says nothing
          no row           RUNNING by me of 2
          unclaimed        RUNNING by me of 2
          claimed by ann   RUNNING by me of 2
          claimed by me    RUNNING by me of 2
          mine runs        RUNNING by me of 2, without the writer
          ann's runs       Err(CannotBeStarted), RUNNING by ann of 2
        after an update to 2, a cell says 1
          no row           Err(CannotBeStarted), nothing
          unclaimed        Err(CannotBeStarted), UNCLAIMED by nobody of 2
          claimed by ann   Err(CannotBeStarted), CLAIMED by ann of 2
          claimed by me    RUNNING by me of 2
          mine runs        RUNNING by me of 2
          ann's runs       Err(CannotBeStarted), RUNNING by ann of 2
        after an update to 2, a cell says 2
          no row           RUNNING by me of 2
          unclaimed        RUNNING by me of 2
          claimed by ann   RUNNING by me of 2
          claimed by me    RUNNING by me of 2
          mine runs        RUNNING by me of 2, without the writer
          ann's runs       Err(CannotBeStarted), RUNNING by ann of 2
        after an update to 2, a cell says 7
          no row           RUNNING by me of 2
          unclaimed        RUNNING by me of 2
          claimed by ann   RUNNING by me of 2
          claimed by me    RUNNING by me of 2
          mine runs        RUNNING by me of 2
          ann's runs       Err(CannotBeStarted), RUNNING by ann of 2
        nobody wants it, a cell says nothing
          no row           RUNNING by me of 1
          unclaimed        RUNNING by me of 2
          claimed by ann   RUNNING by me of 2
          claimed by me    RUNNING by me of 2
          mine runs        RUNNING by me of 2, without the writer
          ann's runs       Err(CannotBeStarted), RUNNING by ann of 2
        nobody wants it, a cell says 1
          no row           RUNNING by me of 1
          unclaimed        RUNNING by me of 2
          claimed by ann   RUNNING by me of 2
          claimed by me    RUNNING by me of 2
          mine runs        RUNNING by me of 2
          ann's runs       Err(CannotBeStarted), RUNNING by ann of 2
        nobody wants it, a cell says 2
          no row           RUNNING by me of 1
          unclaimed        RUNNING by me of 2
          claimed by ann   RUNNING by me of 2
          claimed by me    RUNNING by me of 2
          mine runs        RUNNING by me of 2, without the writer
          ann's runs       Err(CannotBeStarted), RUNNING by ann of 2
        nobody wants it, a cell says 7
          no row           RUNNING by me of 1
          unclaimed        RUNNING by me of 2
          claimed by ann   RUNNING by me of 2
          claimed by me    RUNNING by me of 2
          mine runs        RUNNING by me of 2
          ann's runs       Err(CannotBeStarted), RUNNING by ann of 2
    "#]]
    .assert_eq(&table);
}
