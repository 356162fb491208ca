//! Tests of this version as a whole: the frozen bytes of each record, round trips, and what is quarantined.
//!
//! When the golden test fails, the layout at rest has changed. That is a new data version, never an update of the
//! expected bytes here.

use std::collections::BTreeMap;

use bytes::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::generated::{all_kinds, any_entity};
use super::*;
use crate::versions::Quarantined;
use crate::versions::unknown::Carried;

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
    check_bytes(
        &all_kinds()[1],
        &expect![[r#"
        /v1442529338/desired/run/process
        00031442529338:\n\x07process\x12\x08\n\x00opaque
        /v1442529338/desired/schedule/process
        00031442529338:\n\x07process\x12\x07cf-apps\x1a\x03log\"\x04note(\x032\x15\x08@\x10\x80\x01\x18\n\"\x0cpreloaded:fs:\x03ssdB\x03nfsB\x03nfsJ\x11\n\tcf-router\x12\x04[{}]R\x08\n\x01a\x12\x03\n\x01xR\x07\n\x01b\x12\x02\x12\x00R\x07\n\x01c\x12\x02\x1a\x00Z\x07metrics`\x01j\x04userr\x07hunter2z\t\n\x05epoch\x10\x02
    "#]],
    );
    check_bytes(
        &all_kinds()[0],
        &expect![[r#"
        /v1442529338/actual/process/1/evacuating
        00031442529338:\n\x07process\x10\x01\x1a\x07cf-apps\"\x10\n\x08instance\x12\x04cell*.\n\x0810.0.0.1\x12\x0f\x08\x90?\x10\xc9\xdc\x03\x18\x83\xe0\x03 \xca\xdc\x03\x1a\n10.255.0.1 \x01*\x03::10\x02:\x04boom@\x03J\x04noneP\x80\x80\xa8\xb1\xe3\x9f\xe7\xcb\x17Z\t\n\x05epoch\x10\x05`\x02j\x0capp.internalr\x08\n\x06\n\x01a\x12\x01xx\x01\x82\x01\x02z1
    "#]],
    );
    check_bytes(
        &all_kinds()[3],
        &expect![[r#"
        /v1442529338/task/task
        00031442529338:\n\x04task\x12\x08cf-tasks\x1a5\n\n\x08\x01\x10\x02\x18\x03\"\x02fs\x12\x03ssd\x1a\x03nfs\"\x0fhttps://cc/done*\x04note2\x06opaque \x03*\x04cell0\x018\x02@\x03J\x02okP\x01Z\x03why`\x01j\x04full
    "#]],
    );
    check_bytes(
        &all_kinds()[2],
        &expect![[r#"
        /v1442529338/domain/cf-apps
        00031442529338:\n\x07cf-apps\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f
    "#]],
    );
}

#[test]
fn what_is_carried_and_what_is_not_known_is_frozen() {
    let Entity::Domain(mut domain) = all_kinds().swap_remove(2) else { panic!("the third is a domain") };
    domain.unknown = Bytes::from_static(b"\x82\x02\x03new");
    let fields = Bytes::from_static(b"\x1a\x03old");
    domain.carried = vec![Carried { version: 7, record: "one".into(), fields }];
    let domain = Entity::Domain(domain);
    check_bytes(&domain, &expect![[r#"
        /v1442529338/domain/cf-apps
        00031442529338:\n\x07cf-apps\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xc2>\x0e\x08\x07\x12\x03one\x1a\x05\x1a\x03old\x82\x02\x03new
    "#]]);
    assert_eq!(load(&records_of(std::slice::from_ref(&domain))), (vec![domain], vec![]));
}

#[test]
fn what_was_written_is_loaded() {
    assert_eq!(load(&records_of(&all_kinds())), (all_kinds(), vec![]));
}

#[test]
fn records_that_may_hold_secrets_print_only_their_name() {
    let [_, desired, _, task] = all_kinds().try_into().unwrap();
    let text = format!("{desired:?} {task:?}");
    assert_eq!(text, "Desired(Desired { schedule: Schedule, run: Run }) Task(Task)");
}

#[test]
fn labels_tell_what_it_is() {
    let labels: Vec<String> = all_kinds().iter().map(Entity::label).collect();
    assert_eq!(labels, ["ActualLRP process/1 (evacuating)", "DesiredLRP process", "Domain cf-apps", "Task task"]);
}

#[test]
fn the_halves_are_paired_in_any_order() {
    let records = records_of(&all_kinds());
    let mut loader = Loader::default();
    let loaded: Vec<Entity> = records.iter().rev().filter_map(|(key, value)| loader.feed(key, value)).collect();
    assert_eq!((loaded.len(), loader.finish()), (4, vec![]));
}

/// Loads all kinds after one record was changed, and expects that everything else is unharmed.
fn check_quarantine(change: impl FnOnce(&mut BTreeMap<String, Bytes>), entities: usize, expected: &Expect) {
    let mut records = records_of(&all_kinds());
    change(&mut records);
    let (loaded, quarantined) = load(&records);
    assert_eq!(loaded.len(), entities);
    let lines: Vec<String> = quarantined.iter().map(|one| format!("{}: {}", one.key, one.why)).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn what_cannot_be_read_is_quarantined_with_its_reason() {
    const RUN: &str = "/v1442529338/desired/run/process";
    const SCHEDULE: &str = "/v1442529338/desired/schedule/process";
    const TASK: &str = "/v1442529338/task/task";
    const DOMAIN: &str = "/v1442529338/domain/cf-apps";
    let set = |key: &'static str, value: &'static [u8]| {
        move |records: &mut BTreeMap<String, Bytes>| drop(records.insert(key.into(), Bytes::from_static(value)))
    };
    check_quarantine(
        |records| drop(records.remove(RUN)),
        3,
        &expect!["/v1442529338/desired/schedule/process: its run record is missing or unreadable"],
    );
    check_quarantine(
        |records| drop(records.remove(SCHEDULE)),
        3,
        &expect!["/v1442529338/desired/run/process: its schedule record is missing or unreadable"],
    );
    check_quarantine(
        set(RUN, b"junk"),
        3,
        &expect![[r#"
        /v1442529338/desired/run/process: the value has no record header
        /v1442529338/desired/schedule/process: its run record is missing or unreadable"#]],
    );
    check_quarantine(
        set(SCHEDULE, b"00031442529338:\x0a\x07process"),
        3,
        &expect![[r#"
        /v1442529338/desired/run/process: its schedule record is missing or unreadable
        /v1442529338/desired/schedule/process: a domain must not be empty"#]],
    );
    check_quarantine(
        set(TASK, b"0003999:\x0a\x04task"),
        3,
        &expect!["/v1442529338/task/task: the record is of data version 999, and 1442529338 is expected here"],
    );
    check_quarantine(
        set(TASK, b"00031442529338:\xff\xff"),
        3,
        &expect![
            "/v1442529338/task/task: its payload is not the message it should be (failed to decode Protobuf message: invalid varint)"
        ],
    );
    check_quarantine(
        set(TASK, b"00031442529338:\x0a\x04task"),
        3,
        &expect!["/v1442529338/task/task: the record has no definition"],
    );
    check_quarantine(
        set(TASK, b"{\"guid\":\"task\"}"),
        3,
        &expect!["/v1442529338/task/task: the record is of data version 1, and 1442529338 is expected here"],
    );
    check_quarantine(
        set(TASK, b"0007blue:sealed"),
        3,
        &expect!["/v1442529338/task/task: the record is sealed with key blue and could not be opened"],
    );
    check_quarantine(
        set(DOMAIN, b"00031442529338:"),
        3,
        &expect!["/v1442529338/domain/cf-apps: a domain must not be empty"],
    );
    check_quarantine(
        set(DOMAIN, b"00031442529338:\x0a\x05other"),
        3,
        &expect!["/v1442529338/domain/cf-apps: its content belongs under the key /v1442529338/domain/other"],
    );
    check_quarantine(
        set("/v1442529338/new-kind/x", b"00031442529338:"),
        4,
        &expect!["/v1442529338/new-kind/x: its key names no kind of record of this version"],
    );
}

proptest! {
    #[test]
    fn every_entity_comes_back(entity in any_entity()) {
        let records = records_of(std::slice::from_ref(&entity));
        let (read, quarantined) = load(&records);
        prop_assert_eq!(&quarantined, &vec![]);
        prop_assert_eq!(&records_of(&read), &records, "and is written as it was");
        prop_assert_eq!(read, vec![entity]);
    }

    #[test]
    fn no_payload_makes_the_loader_panic(kind in 0..5usize, payload in prop::collection::vec(any::<u8>(), 0..60)) {
        let key = ["actual/p/1/ordinary", "desired/run/p", "desired/schedule/p", "domain/d", "task/t"][kind];
        let key = format!("{ROOT}{key}");
        let value = [b"00031442529338:".as_slice(), &payload].concat();
        let (entities, quarantined) = load(&BTreeMap::from([(key, Bytes::from(value))]));
        prop_assert_eq!(entities.len() + quarantined.len(), 1);
    }
}
