//! Tests of this version as a whole: the frozen bytes of each record, round trips, the step, and what is quarantined.
//!
//! When the golden test fails, the layout at rest has changed. That is a new data version, never an update of the
//! expected bytes here.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use expect_test::{Expect, expect};
use model::rollout::Pause;
use proptest::prelude::*;

use super::generated::{all_kinds, any_entity, desired, leaving, rolling};
use super::*;
use crate::versions::unknown::Carried;
use crate::versions::{EntityRef, Quarantined, split_desired_lrp};

fn samples() -> Vec<Entity> {
    all_kinds().iter().map(|entity| of_model(entity.as_ref())).collect()
}

fn records_of(entities: &[Entity]) -> BTreeMap<String, Bytes> {
    let mut records = BTreeMap::new();
    for entity in entities {
        entity.write(&mut |key, value| assert!(records.insert(key, value).is_none(), "a key is written once"));
    }
    records
}

fn load(records: &BTreeMap<String, Bytes>) -> (Vec<Entity>, Vec<Quarantined>) {
    let mut loader = Loader::default();
    let entities = records.iter().filter_map(|(key, value)| loader.feed(key, value)).collect();
    (entities, loader.finish())
}

/// Printable characters as they are, all else as hex: a difference can be read.
fn check_bytes(entity: &Entity, expected: &Expect) {
    let mut text = String::new();
    for (key, value) in records_of(std::slice::from_ref(entity)) {
        text.push_str(&format!("{key}\n{}\n", value.escape_ascii()));
    }
    expected.assert_eq(&text);
}

#[test]
fn the_bytes_of_each_record_are_frozen() {
    check_bytes(&samples()[1], &expect![[r#"
        /v1794700800/desired/definition/process/0000000002
        00031794700800:\n\x07process\x10\x02\x1a\x05green\"\x15\x08 \x10@\x18\x05\"\rpreloaded:old*\x03hdd2\x03smb:\x07old-logB\x0bold-metricsJ\x05\n\x00old
        /v1794700800/desired/definition/process/0000000003
        00031794700800:\n\x07process\x10\x03\x1a\x04blue\"\x15\x08@\x10\x80\x01\x18\n\"\x0cpreloaded:fs*\x03ssd2\x03nfs2\x03nfs:\x03logB\x07metricsJ\x08\n\x00opaque
        /v1794700800/desired/schedule/process
        00031794700800:\n\x07process\x12\x07cf-apps\x1a\x04note \x03*\x11\n\tcf-router\x12\x04[{}]2\x08\n\x01a\x12\x03\n\x01x2\x07\n\x01b\x12\x02\x12\x002\x07\n\x01c\x12\x02\x1a\x008\x01B\x04userJ\x07hunter2R\t\n\x05epoch\x10\x02X\x03`\x02
    "#]]);
    check_bytes(&samples()[0], &expect![[r#"
        /v1794700800/actual/process/1/evacuating
        00031794700800:\n\x07process\x10\x01\x1a\x07cf-apps\"\x10\n\x08instance\x12\x04cell*.\n\x0810.0.0.1\x12\x0f\x08\x90?\x10\xc9\xdc\x03\x18\x83\xe0\x03 \xca\xdc\x03\x1a\n10.255.0.1 \x01*\x03::10\x02:\x04boom@\x03J\x04noneP\x80\x80\xa8\xb1\xe3\x9f\xe7\xcb\x17Z\t\n\x05epoch\x10\x05`\x02j\x0capp.internalr\x08\n\x06\n\x01a\x12\x01xx\x01\x82\x01\x02z1\x88\x01\x02
    "#]]);
    check_bytes(&samples()[3], &expect![[r#"
        /v1794700800/task/task
        00031794700800:\n\x04task\x12\x08cf-tasks\x1a5\n\n\x08\x01\x10\x02\x18\x03\"\x02fs\x12\x03ssd\x1a\x03nfs\"\x0fhttps://cc/done*\x04note2\x06opaque \x03*\x04cell0\x018\x02@\x03J\x02okP\x01Z\x03why`\x01j\x04full
    "#]]);
    check_bytes(&samples()[2], &expect![[r#"
        /v1794700800/domain/cf-apps
        00031794700800:\n\x07cf-apps\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f
    "#]]);
}

fn rolling_record() -> Entity {
    of_model(EntityRef::Desired(&rolling()))
}

#[test]
fn the_bytes_of_a_history_are_frozen() {
    check_bytes(&rolling_record(), &expect![[r#"
        /v1794700800/desired/definition/process/0000000001
        00031794700800:\n\x07process\x10\x01\"\x18\x08\x10\x10 \x18\x02\"\x10preloaded:oldest:\tfirst-logB\rfirst-metricsJ\x07\n\x00first
        /v1794700800/desired/definition/process/0000000002
        00031794700800:\n\x07process\x10\x02\x1a\x05green\"\x15\x08 \x10@\x18\x05\"\rpreloaded:old*\x03hdd2\x03smb:\x07old-logB\x0bold-metricsJ\x05\n\x00old
        /v1794700800/desired/definition/process/0000000003
        00031794700800:\n\x07process\x10\x03\x1a\x04blue\"\x15\x08@\x10\x80\x01\x18\n\"\x0cpreloaded:fs*\x03ssd2\x03nfs2\x03nfs:\x03logB\x07metricsJ\x08\n\x00opaque
        /v1794700800/desired/schedule/process
        00031794700800:\n\x07process\x12\x07cf-apps\x1a\x04note \x03*\x11\n\tcf-router\x12\x04[{}]2\x08\n\x01a\x12\x03\n\x01x2\x07\n\x01b\x12\x02\x12\x002\x07\n\x01c\x12\x02\x1a\x008\x01B\x04userJ\x07hunter2R\t\n\x05epoch\x10\x02X\x03`\x02j7\x08\x04\x12\x01\x01\x1a0\x08\x02\x10\x03\x1a\x0e\x08\x02\x10\x01\x18\x03(\x040\x058\x06@\x01 \x07(\x020\x088\t@\x01J\x04boomP\x01Z\x02\x10\nZ\x04\x08\x02\x10\x0b
    "#]]);
    let mut until_resumed = rolling();
    let rollout = Arc::make_mut(until_resumed.history.as_mut().unwrap()).rollout.as_mut().unwrap();
    rollout.terms.canary_pause = Pause::UntilResumed;
    rollout.flights.clear();
    check_bytes(&of_model(EntityRef::Desired(&until_resumed)), &expect![[r#"
        /v1794700800/desired/definition/process/0000000001
        00031794700800:\n\x07process\x10\x01\"\x18\x08\x10\x10 \x18\x02\"\x10preloaded:oldest:\tfirst-logB\rfirst-metricsJ\x07\n\x00first
        /v1794700800/desired/definition/process/0000000002
        00031794700800:\n\x07process\x10\x02\x1a\x05green\"\x15\x08 \x10@\x18\x05\"\rpreloaded:old*\x03hdd2\x03smb:\x07old-logB\x0bold-metricsJ\x05\n\x00old
        /v1794700800/desired/definition/process/0000000003
        00031794700800:\n\x07process\x10\x03\x1a\x04blue\"\x15\x08@\x10\x80\x01\x18\n\"\x0cpreloaded:fs*\x03ssd2\x03nfs2\x03nfs:\x03logB\x07metricsJ\x08\n\x00opaque
        /v1794700800/desired/schedule/process
        00031794700800:\n\x07process\x12\x07cf-apps\x1a\x04note \x03*\x11\n\tcf-router\x12\x04[{}]2\x08\n\x01a\x12\x03\n\x01x2\x07\n\x01b\x12\x02\x12\x002\x07\n\x01c\x12\x02\x1a\x008\x01B\x04userJ\x07hunter2R\t\n\x05epoch\x10\x02X\x03`\x02j-\x08\x04\x12\x01\x01\x1a&\x08\x02\x10\x03\x1a\x0e\x08\x02\x10\x01\"\x00(\x040\x058\x06@\x01 \x07(\x020\x088\t@\x01J\x04boomP\x01
    "#]]);
    check_bytes(&of_model(EntityRef::Actual(&leaving())), &expect![[r#"
        /v1794700800/actual/process/1/evacuating
        00031794700800:\n\x07process\x10\x01\x1a\x07cf-apps\"\x10\n\x08instance\x12\x04cell*.\n\x0810.0.0.1\x12\x0f\x08\x90?\x10\xc9\xdc\x03\x18\x83\xe0\x03 \xca\xdc\x03\x1a\n10.255.0.1 \x01*\x03::10\x02:\x04boom@\x03J\x04noneP\x80\x80\xa8\xb1\xe3\x9f\xe7\xcb\x17Z\t\n\x05epoch\x10\x05`\x02j\x0capp.internalr\x08\n\x06\n\x01a\x12\x01xx\x01\x82\x01\x02z1\x88\x01\x02\x90\x01\x01
    "#]]);
}

/// Former routes stand in the definition that they belong to.
#[test]
fn the_bytes_of_former_routes_are_frozen() {
    let mut replaced = desired();
    let previous = Arc::make_mut(replaced.previous.as_mut().unwrap());
    previous.routes = Some([("cf-router".into(), Bytes::from_static(b"[]"))].into());
    let (plain, added) = (records_of(&samples()[..2]), records_of(&[of_model(EntityRef::Desired(&replaced))]));
    let changed: Vec<&String> = added.keys().filter(|key| added[*key] != plain[*key]).collect();
    let [key] = changed[..] else { panic!("{changed:?}") };
    let tail = &added[key][plain[key].len()..];
    expect![[r#"R\x11\n\x0f\n\tcf-router\x12\x02[]"#]].assert_eq(&tail.escape_ascii().to_string());
}

#[test]
fn a_history_and_a_mark_are_all_that_is_added_to_a_record() {
    let plain = records_of(&samples()[..2]);
    let added = records_of(&[of_model(EntityRef::Actual(&leaving())), rolling_record()]);
    let changed: Vec<&String> = plain.keys().filter(|key| added[*key] != plain[*key]).collect();
    assert_eq!(changed, [ACTUAL, SCHEDULE]);
    assert!(changed.iter().all(|key| added[*key].starts_with(&plain[*key])));
}

#[test]
fn no_pause_and_one_without_an_end_are_not_the_same() {
    for pause in [Pause::For(0), Pause::For(-1), Pause::UntilResumed] {
        let mut lrp = rolling();
        Arc::make_mut(lrp.history.as_mut().unwrap()).rollout.as_mut().unwrap().terms.canary_pause = pause;
        let (mut loaded, quarantined) = load(&records_of(&[of_model(EntityRef::Desired(&lrp))]));
        assert_eq!(quarantined, vec![]);
        assert_eq!(into_model(loaded.remove(0)), Ok(crate::versions::Entity::Desired(lrp)));
    }
}

#[test]
fn what_is_carried_and_what_is_not_known_is_frozen() {
    let Entity::Domain(mut domain) = samples().swap_remove(2) else { panic!("the third is a domain") };
    domain.unknown = Bytes::from_static(b"\x82\x02\x03new");
    let fields = Bytes::from_static(b"\x1a\x03old");
    domain.carried = vec![Carried { version: 7, record: "one".into(), fields }];
    let domain = Entity::Domain(domain);
    check_bytes(&domain, &expect![[r#"
        /v1794700800/domain/cf-apps
        00031794700800:\n\x07cf-apps\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xc2>\x0e\x08\x07\x12\x03one\x1a\x05\x1a\x03old\x82\x02\x03new
    "#]]);
    assert_eq!(load(&records_of(std::slice::from_ref(&domain))), (vec![domain], vec![]));
}

#[test]
fn what_was_written_is_loaded() {
    assert_eq!(load(&records_of(&samples())), (samples(), vec![]));
}

#[test]
fn the_records_are_joined_in_any_order() {
    let records: Vec<(String, Bytes)> = records_of(&samples()[1..2]).into_iter().collect();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut loader = Loader::default();
        let loaded: Vec<Entity> =
            order.iter().filter_map(|at| loader.feed(&records[*at].0, &records[*at].1)).collect();
        assert_eq!((loaded.as_slice(), loader.finish()), (&samples()[1..2], vec![]), "{order:?}");
    }
}

#[test]
fn a_schedule_waits_for_every_definition_it_names() {
    let (whole, records) = (rolling_record(), records_of(&[rolling_record()]));
    for last in records.keys() {
        let mut loader = Loader::default();
        for key in records.keys().filter(|key| *key != last) {
            assert_eq!(loader.feed(key, &records[key]), None, "without {last}");
        }
        assert_eq!(loader.feed(last, &records[last]).as_ref(), Some(&whole));
        assert_eq!(loader.finish(), vec![]);
    }
}

#[test]
fn run_info_shares_the_memory_of_its_record() {
    let records = records_of(&samples()[1..2]);
    let (loaded, _) = load(&records);
    let [Entity::Desired(desired)] = loaded.as_slice() else { panic!("{loaded:?}") };
    let run_info = desired.definition.run_info.as_ptr();
    assert!(records.values().any(|value| value.as_ptr_range().contains(&run_info)));
}

#[test]
fn records_that_may_hold_secrets_print_only_their_name() {
    let [_, desired, _, task] = samples().try_into().unwrap();
    let text = format!("{desired:?} {task:?}");
    expect!["Desired(Desired { schedule: Schedule, definition: Definition, previous: Some(Definition), older: [] }) Task(Task)"]
        .assert_eq(&text);
}

#[test]
fn labels_tell_what_it_is() {
    for (entity, model) in samples().iter().zip(all_kinds()) {
        assert_eq!(entity.label(), model.as_ref().label());
    }
}

/// Loads all kinds after one record was changed, and expects that everything else is unharmed.
fn check_quarantine(change: impl FnOnce(&mut BTreeMap<String, Bytes>), entities: usize, expected: &Expect) {
    let mut records = records_of(&samples());
    change(&mut records);
    let (loaded, quarantined) = load(&records);
    assert_eq!(loaded.len(), entities);
    let lines: Vec<String> = quarantined.iter().map(|one| format!("{}: {}", one.key, one.why)).collect();
    expected.assert_eq(&lines.join("\n"));
}

const SCHEDULE: &str = "/v1794700800/desired/schedule/process";
const CURRENT: &str = "/v1794700800/desired/definition/process/0000000003";
const PREVIOUS: &str = "/v1794700800/desired/definition/process/0000000002";
const ACTUAL: &str = "/v1794700800/actual/process/1/evacuating";
const TASK: &str = "/v1794700800/task/task";
const DOMAIN: &str = "/v1794700800/domain/cf-apps";

fn set(key: &'static str, value: &'static [u8]) -> impl FnOnce(&mut BTreeMap<String, Bytes>) {
    move |records| drop(records.insert(key.into(), Bytes::from_static(value)))
}

#[test]
fn parts_of_a_desired_lrp_are_not_read_without_the_others() {
    check_quarantine(|records| drop(records.remove(CURRENT)), 3, &expect![[r#"
        /v1794700800/desired/definition/process/0000000002: its schedule record also names definition 3, which is missing or unreadable
        /v1794700800/desired/schedule/process: its definition record 3 is missing or unreadable"#]]);
    check_quarantine(|records| drop(records.remove(PREVIOUS)), 3, &expect![[r#"
        /v1794700800/desired/definition/process/0000000003: its schedule record also names definition 2, which is missing or unreadable
        /v1794700800/desired/schedule/process: its definition record 2 is missing or unreadable"#]]);
    check_quarantine(|records| drop(records.remove(SCHEDULE)), 3, &expect![[r#"
        /v1794700800/desired/definition/process/0000000002: no readable schedule record names this definition
        /v1794700800/desired/definition/process/0000000003: no readable schedule record names this definition"#]]);
    check_quarantine(set(PREVIOUS, b"junk"), 3, &expect![[r#"
        /v1794700800/desired/definition/process/0000000002: the value has no record header
        /v1794700800/desired/definition/process/0000000003: its schedule record also names definition 2, which is missing or unreadable
        /v1794700800/desired/schedule/process: its definition record 2 is missing or unreadable"#]]);
    // Without previous, and without a number.
    check_quarantine(set(SCHEDULE, b"00031794700800:\x0a\x07process\x12\x01dR\x00\x58\x03"), 4, &expect!["/v1794700800/desired/definition/process/0000000002: no readable schedule record names this definition"]);
    check_quarantine(set(SCHEDULE, b"00031794700800:\x0a\x07process\x12\x01dR\x00"), 3, &expect![[r#"
        /v1794700800/desired/definition/process/0000000002: no readable schedule record names this definition
        /v1794700800/desired/definition/process/0000000003: no readable schedule record names this definition
        /v1794700800/desired/schedule/process: the record has no number of a definition"#]]);
    check_quarantine(set(SCHEDULE, b"00031794700800:\x0a\x07process\x12\x01dR\x00\x58\x03\x60\x03"), 3, &expect![[r#"
        /v1794700800/desired/definition/process/0000000002: no readable schedule record names this definition
        /v1794700800/desired/definition/process/0000000003: no readable schedule record names this definition
        /v1794700800/desired/schedule/process: it names one definition both as the one in use and as the one before it"#]]);
    check_quarantine(set(CURRENT, b"00031794700800:\x0a\x07process\x10\x02\x22\x00"), 3, &expect![[r#"
        /v1794700800/desired/definition/process/0000000002: its schedule record also names definition 3, which is missing or unreadable
        /v1794700800/desired/definition/process/0000000003: its content belongs under the key /v1794700800/desired/definition/process/0000000002
        /v1794700800/desired/schedule/process: its definition record 3 is missing or unreadable"#]]);
    check_quarantine(set(CURRENT, b"00031794700800:\x0a\x07process\x10\x03"), 3, &expect![[r#"
        /v1794700800/desired/definition/process/0000000002: its schedule record also names definition 3, which is missing or unreadable
        /v1794700800/desired/definition/process/0000000003: the record has no resources
        /v1794700800/desired/schedule/process: its definition record 3 is missing or unreadable"#]]);
}

/// Loads a DesiredLRP with a history after something was changed, without looking at it when it was written.
fn check_unfit(change: impl FnOnce(&mut Desired), expected: &Expect) {
    let Entity::Desired(mut desired) = rolling_record() else { panic!("a DesiredLRP") };
    change(&mut desired);
    let (loaded, quarantined) = load(&records_of(&[Entity::Desired(desired)]));
    assert_eq!(loaded, vec![]);
    let of_schedule = quarantined.iter().find(|one| one.key == SCHEDULE).unwrap();
    expected.assert_eq(&of_schedule.why);
    let definitions = quarantined.iter().filter(|one| one.key != SCHEDULE);
    assert!(definitions.clone().count() > 0);
    assert!(definitions.clone().all(|one| one.why.contains("schedule record")), "{quarantined:?}");
}

fn history(desired: &mut Desired) -> &mut records::History {
    desired.schedule.history.as_mut().unwrap()
}

fn rollout(desired: &mut Desired) -> &mut records::Rollout {
    history(desired).rollout.as_mut().unwrap()
}

fn terms(desired: &mut Desired) -> &mut records::Terms {
    rollout(desired).terms.as_mut().unwrap()
}

#[test]
fn a_history_that_cannot_be_is_quarantined_with_its_definitions() {
    check_unfit(|desired| drop(desired.older.pop()), &expect!["its definition record 1 is missing or unreadable"]);
    check_unfit(|desired| history(desired).older.push(9), &expect!["its definition record 9 is missing or unreadable"]);
    check_unfit(|desired| history(desired).older.push(0), &expect!["the record has no number of a definition"]);
    check_unfit(|desired| history(desired).older.push(1), &expect!["it names definition 1 twice"]);
    check_unfit(|desired| history(desired).older.push(2), &expect!["it names definition 2 twice"]);
    check_unfit(|desired| history(desired).older.push(3), &expect!["it names definition 3 twice"]);
    check_unfit(|desired| history(desired).older = (11..22).collect(), &expect!["it names 11 older definitions, and there must not be more than 10"]);
    check_unfit(|desired| rollout(desired).phase = 0, &expect!["the record has phase 0, which this version does not know"]);
    check_unfit(|desired| rollout(desired).phase = 6, &expect!["the record has phase 6, which this version does not know"]);
    check_unfit(|desired| rollout(desired).from = 0, &expect!["the record has no number of a definition"]);
    check_unfit(|desired| rollout(desired).to = 0, &expect!["the record has no number of a definition"]);
    check_unfit(|desired| rollout(desired).to = 1, &expect!["its rollout is not over and does not lead from the definition before to the one in use"]);
    check_unfit(|desired| desired.schedule.previous = 0, &expect!["its rollout is not over and does not lead from the definition before to the one in use"]);
    check_unfit(|desired| rollout(desired).terms = None, &expect!["the record has no terms of the rollout"]);
    check_unfit(|desired| terms(desired).canary_pause = None, &expect!["the record has no pause after the canaries"]);
    check_unfit(|desired| terms(desired).in_flight = 1, &expect!["its rollout replaces 2 instances at a time, and must not replace more than 1"]);
    check_unfit(|desired| terms(desired).in_flight = 0, &expect!["its rollout replaces 2 instances at a time, and must not replace more than 1"]);
}

#[test]
fn the_account_of_a_rollout_outlives_its_definitions() {
    let Entity::Desired(mut desired) = rolling_record() else { panic!("a DesiredLRP") };
    let over = rollout(&mut desired);
    (over.phase, over.from, over.to) = (5, 7, 8);
    let over = Entity::Desired(desired);
    assert_eq!(load(&records_of(std::slice::from_ref(&over))), (vec![over], vec![]));
}

#[test]
fn a_record_that_is_fed_twice_is_quarantined() {
    let records = records_of(&samples());
    for key in [SCHEDULE, CURRENT] {
        let mut loader = Loader::default();
        assert_eq!(loader.feed(key, &records[key]), None);
        assert_eq!(loader.feed(key, &records[key]), None);
        assert_eq!(loader.finish().len(), 2);
    }
}

#[test]
fn what_cannot_be_read_is_quarantined_with_its_reason() {
    check_quarantine(set(TASK, b"00031442529338:\x0a\x04task"), 3, &expect!["/v1794700800/task/task: the record is of data version 1442529338, and 1794700800 is expected here"]);
    check_quarantine(set(TASK, b"00011794700800:{}"), 3, &expect!["/v1794700800/task/task: the record is not encoded as records of this version are"]);
    check_quarantine(set(TASK, b"00031794700800:\xff\xff"), 3, &expect!["/v1794700800/task/task: its payload is not the message it should be (failed to decode Protobuf message: invalid varint)"]);
    check_quarantine(set(TASK, b"00031794700800:\x0a\x04task"), 3, &expect!["/v1794700800/task/task: the record has no definition"]);
    check_quarantine(set(ACTUAL, b"00031794700800:\x0a\x07process\x10\x01\x1a\x01d\x2a\x00\x40\x01\x5a\x00\x60\x02"), 3, &expect!["/v1794700800/actual/process/1/evacuating: the record has no number of a definition"]);
    check_quarantine(set(ACTUAL, b"00031794700800:\x0a\x07process\x10\x01\x1a\x01d\x2a\x00\x40\x09\x5a\x00\x60\x02"), 3, &expect!["/v1794700800/actual/process/1/evacuating: the record has state 9, which this version does not know"]);
    check_quarantine(set(DOMAIN, b"00031794700800:"), 3, &expect!["/v1794700800/domain/cf-apps: a domain must not be empty"]);
    check_quarantine(set(DOMAIN, b"00031794700800:\x0a\x05other"), 3, &expect!["/v1794700800/domain/cf-apps: its content belongs under the key /v1794700800/domain/other"]);
    check_quarantine(set("/v1794700800/desired/run/x", b"00031794700800:"), 4, &expect!["/v1794700800/desired/run/x: its key names no kind of record of this version"]);
}

fn check_loss(entity: &Entity, expected: &Expect) {
    let (_, losses) = down(entity.clone());
    let losses: Vec<String> = losses.into_iter().map(|loss| loss.what).collect();
    expected.assert_eq(&losses.join("; "));
}

#[test]
fn what_is_lost_on_the_way_down_is_named() {
    let [actual, desired, domain, task] = samples().try_into().unwrap();
    check_loss(&actual, &expect!["that it runs definition 2"]);
    check_loss(&desired, &expect![[r#"that its definition is number 3, named "blue"; the previous definition, number 2"#]]);
    check_loss(&domain, &expect![[r#""#]]);
    check_loss(&task, &expect![[r#""#]]);
    let Entity::Desired(mut desired) = desired else { panic!("{desired:?}") };
    desired.previous = None;
    desired.schedule.previous = 0;
    desired.definition.identifier.clear();
    check_loss(&Entity::Desired(desired.clone()), &expect!["that its definition is number 3"]);
    desired.schedule.definition = 1;
    desired.definition.number = 1;
    check_loss(&Entity::Desired(desired), &expect![[r#""#]]);
    check_loss(&of_model(EntityRef::Actual(&leaving())), &expect!["that it runs definition 2; that it is leaving because an update replaces it"]);
    check_loss(&rolling_record(), &expect![[r#"that its definition is number 3, named "blue"; the previous definition, number 2; the older definition, number 1; the rollout, from definition 2 to 3; the count of its definitions, 4"#]]);
    let Entity::Desired(mut over) = rolling_record() else { panic!("a DesiredLRP") };
    rollout(&mut over).phase = 5;
    check_loss(&Entity::Desired(over), &expect![[r#"that its definition is number 3, named "blue"; the previous definition, number 2; the older definition, number 1; the account of the last rollout, from definition 2 to 3; the count of its definitions, 4"#]]);
}

fn check_step(older: &split_desired_lrp::Entity) {
    let newer = up(older.clone()).unwrap();
    assert_eq!(load(&records_of(std::slice::from_ref(&newer))), (vec![newer.clone()], vec![]));
    let (back, losses) = down(newer.clone());
    assert_eq!((&back, losses), (older, vec![]));
    assert_eq!(up(back), Ok(newer));
}

#[test]
fn the_frozen_records_of_the_version_before_come_up_and_back() {
    split_desired_lrp::generated::all_kinds().iter().for_each(check_step);
}

proptest! {
    #[test]
    fn every_entity_of_the_version_before_comes_up_and_back(older in split_desired_lrp::generated::any_entity()) {
        check_step(&older);
    }

    /// Also what is not known here, while the version before holds it.
    #[test]
    fn what_can_go_down_comes_up_again(entity in any_entity()) {
        let newer = of_model(entity.as_ref());
        let (older, losses) = down(newer.clone());
        let again = up(older).unwrap();
        prop_assert_eq!(again == newer, losses.is_empty());
        prop_assert_eq!(down(again).1, vec![], "a second time loses nothing more");
    }

    #[test]
    fn every_entity_comes_back(entity in any_entity()) {
        let newest = of_model(entity.as_ref());
        let records = records_of(std::slice::from_ref(&newest));
        let (read, quarantined) = load(&records);
        prop_assert_eq!(&quarantined, &vec![]);
        prop_assert_eq!(&records_of(&read), &records, "and is written as it was");
        prop_assert_eq!(&read, &vec![newest]);
        let models: Vec<_> = read.into_iter().map(into_model).collect();
        prop_assert_eq!(models, vec![Ok(entity)]);
    }

    #[test]
    fn no_payload_makes_the_loader_panic(kind in 0..5usize, payload in prop::collection::vec(any::<u8>(), 0..60)) {
        let kinds = ["actual/p/1/ordinary", "desired/definition/p/0000000001", "desired/schedule/p", "domain/d", "task/t"];
        let key = format!("{ROOT}{}", kinds[kind]);
        let value = [b"00031794700800:".as_slice(), &payload].concat();
        let (entities, quarantined) = load(&BTreeMap::from([(key, Bytes::from(value))]));
        prop_assert_eq!(entities.len() + quarantined.len(), 1);
    }
}
