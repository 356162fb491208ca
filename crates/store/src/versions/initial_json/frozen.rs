//! Tests of this version as a whole: frozen records, generated ones, and what is quarantined.
//!
//! The files in `frozen/` lie in stores as they are here. When a test on them fails, this version has changed, which it
//! must not.

use bytes::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::generated::{Record, any_record};
use super::*;
use crate::versions::Quarantined;

macro_rules! frozen {
    ($($key:literal = $file:literal,)*) => {
        &[$(($key, include_str!(concat!("frozen/", $file))),)*]
    };
}

static FROZEN: &[(&str, &str)] = frozen! {
    "/v1/desired/8d5d8b8c-3a0e-4f0d-9d51-1d2b6f9f5a10-c4b1" = "desired.json",
    "/v1/actual/8d5d8b8c-c4b1/0/instance" = "actual-unclaimed.json",
    "/v1/actual/8d5d8b8c-c4b1/1/instance" = "actual-claimed.json",
    "/v1/actual/8d5d8b8c-c4b1/2/instance" = "actual-running.json",
    "/v1/actual/8d5d8b8c-c4b1/3/instance" = "actual-crashed.json",
    "/v1/actual/8d5d8b8c-c4b1/2/evacuating" = "actual-evacuating.json",
    "/v1/task/staging-8d5d8b8c" = "task.json",
    "/v1/domain/cf-apps" = "domain.json",
    "/v1/domain/cf%20tasks" = "domain-expired.json",
};

/// The frozen records, and the entities they are.
pub(in crate::versions) fn frozen() -> Vec<(Record, Entity)> {
    let entity = |(key, text): &(&str, &'static str)| {
        let record = ((*key).to_owned(), Bytes::from_static(text.trim_ascii_end().as_bytes()));
        let entity = load(&record).unwrap_or_else(|unread| panic!("{unread:?}"));
        (record, entity)
    };
    FROZEN.iter().map(entity).collect()
}

pub(in crate::versions) fn load((key, value): &Record) -> Result<Entity, Quarantined> {
    let mut loader = Loader::default();
    let entity = loader.feed(key, value);
    let mut unread = loader.finish();
    assert_eq!(usize::from(entity.is_some()) + unread.len(), 1, "every record comes out once");
    entity.ok_or_else(|| unread.remove(0))
}

pub(in crate::versions) fn written(entity: &Entity) -> Record {
    let mut records = vec![];
    entity.write(&mut |key, value| records.push((key, value)));
    assert_eq!(records.len(), 1);
    records.remove(0)
}

#[test]
fn frozen_records_are_written_as_they_were_read() {
    for (record, entity) in frozen() {
        assert_eq!(written(&entity), record);
    }
}

#[test]
fn labels_name_entities_and_nothing_shows_a_secret() {
    let printed: Vec<String> = frozen().iter().map(|(_, entity)| format!("{} {entity:?}", entity.label())).collect();
    let labels: Vec<String> = frozen().iter().map(|(_, entity)| entity.label()).collect();
    assert_eq!(labels[0], "DesiredLRP 8d5d8b8c-3a0e-4f0d-9d51-1d2b6f9f5a10-c4b1");
    assert_eq!(
        labels[4..],
        [
            "ActualLRP 8d5d8b8c-c4b1/3",
            "ActualLRP 8d5d8b8c-c4b1/2 (evacuating)",
            "Task staging-8d5d8b8c",
            "Domain cf-apps",
            "Domain cf tasks"
        ]
    );
    let printed = printed.concat();
    for secret in ["s3cret", "256m", "buildpack"] {
        assert!(!printed.contains(secret), "{secret}");
    }
}

fn check_rewritten(key: &str, json: &'static str, expected: &Expect) {
    let entity = load(&(key.to_owned(), Bytes::from_static(json.as_bytes()))).unwrap();
    let record = written(&entity);
    expected.assert_eq(&String::from_utf8_lossy(&record.1));
    assert_eq!(load(&record), Ok(entity), "and reads again");
}

#[test]
fn older_spellings_are_read_and_unknown_keys_are_kept() {
    check_rewritten(
        "/v1/desired/g",
        r#"{ "domain": "d", "process_guid": "g", "later": [1, {"x": 2.50}], "start_timeout": 7, "ports": null, "routes": {"r": {"a": [1, 2]}},
            "action": {"timeout": {"timeout": 1500000000, "soon": true, "action": {"run": {"path": "a", "user": "u", "resource_limits": {"nofile": 0}}}}} }"#,
        &expect![[
            r#"{"process_guid":"g","domain":"d","rootfs":"","instances":0,"env":null,"action":{"timeout":{"action":{"run":{"path":"a","resource_limits":{"nofile":0},"user":"u"}},"timeout":1500000000,"timeout_ms":1500,"soon":true}},"start_timeout_ms":7000,"start_timeout":7,"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"routes":{"r":{"a":[1,2]}},"log_source":"","log_guid":"","metrics_guid":"","annotation":"","max_pids":0,"later":[1,{"x":2.50}]}"#
        ]],
    );
    check_rewritten(
        "/v1/actual/g/0/evacuating",
        r#"{"process_guid":"g","index":0,"domain":"d","state":"RUNNING","since":1,"later":null}"#,
        &expect![[
            r#"{"process_guid":"g","index":0,"domain":"d","instance_guid":"","cell_id":"","address":"","ports":null,"crash_count":0,"state":"RUNNING","since":1,"modification_tag":null,"presence":"EVACUATING","later":null}"#
        ]],
    );
    check_rewritten(
        "/v1/task/t",
        r#"{"task_guid":"t","domain":"d","state":2,"rootfs":"fs"}"#,
        &expect![[
            r#"{"rootfs":"fs","disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","result_file":"","max_pids":0,"task_guid":"t","domain":"d","created_at":0,"updated_at":0,"first_completed_at":0,"state":"Running","cell_id":"","result":"","failed":false,"failure_reason":""}"#
        ]],
    );
    check_rewritten("/v1/domain/d", r#"{"name":"d"}"#, &expect![""]);
    check_rewritten(
        "/v1/domain/d",
        r#"{"name":"d","later":1}"#,
        &expect![[r#"{"name":"d","expires_ns":0,"later":1}"#]],
    );
}

#[test]
fn what_json_cannot_say_is_kept_raw() {
    let message = b"\x0a\x01g\x12\x01d\x3a\x03\x98\x06\x01\xc2\x02\x01\xff";
    let body = Body { message: Bytes::from_static(message), unknown: String::new() };
    let entity = Entity::Desired(Desired { process_guid: "g".into(), body });
    let record = written(&entity);
    assert!(
        String::from_utf8_lossy(&record.1).ends_with(r#""corkboard_raw_fields":{"7":"OgOYBgE=","40":"wgIB/w=="}}"#)
    );
    assert_eq!(load(&record), Ok(entity));
}

fn check_refused(key: &str, value: &[u8], expected: &Expect) {
    let unread = load(&(key.to_owned(), Bytes::copy_from_slice(value))).unwrap_err();
    expected.assert_eq(&unread.why);
}

#[test]
fn what_cannot_be_read_is_quarantined_with_its_reason() {
    let desired = |members: &str| format!(r#"{{"process_guid":"g","domain":"d",{members}}}"#);
    let refused = |members: &str, expected: &Expect| {
        check_refused("/v1/desired/g", desired(members).as_bytes(), expected);
    };
    refused(r#""instances":1,"instances":1"#, &expect!["its key instances stands twice in its object"]);
    refused(r#""later":1,"later":1"#, &expect!["the record has an unknown key twice"]);
    refused(
        r#""start_timeout":1,"deprecated_timeout_ns":1"#,
        &expect!["its key deprecated_timeout_ns stands twice in its object"],
    );
    refused(r#""instances":"s3cret""#, &expect!["its key instances is text, which it must not be"]);
    refused(r#""instances":1.5"#, &expect!["its key instances is a number that is not whole or out of range"]);
    refused(r#""instances":2147483648"#, &expect!["its key instances is a number out of range"]);
    refused(r#""cpu_weight":-1"#, &expect!["its key cpu_weight is a number out of range"]);
    refused(r#""env":{}"#, &expect!["its key env is not a list"]);
    refused(r#""env":["s3cret"]"#, &expect!["its key env is text, which it must not be"]);
    refused(
        r#""setup":{"run":{"path":true}}"#,
        &expect!["its key setup.run.path is true or false, which it must not be"],
    );
    refused(
        r#""network":{"properties":{"a":1}}"#,
        &expect!["a value is not of the kind that its key needs (line 1, column 63)"],
    );
    refused(
        r#""network":{"properties":{"a":"1","a":"1"}}"#,
        &expect!["its key network.properties has one of its entries twice"],
    );
    refused(
        r#""image_layers":[{"layer_type":"s3cret"}]"#,
        &expect!["its key image_layers.layer_type has a name that this version does not know"],
    );
    refused(r#""corkboard_run_info":"?""#, &expect!["its key corkboard_run_info is not base64"]);
    refused(
        r#""corkboard_raw_fields":{"4":"CAE="}"#,
        &expect!["its key corkboard_raw_fields has something that is not field 4"],
    );
    refused(r#""instances":"#, &expect!["it is not JSON (line 1, column 46)"]);
    refused(r#""instances":1}x"#, &expect!["it is not JSON (line 1, column 48)"]);
    let deep = format!(r#""action":{}null{}"#, r#"{"try":{"action":"#.repeat(60), "}}".repeat(60));
    let path = format!("action.{}", ["try.action"; 49].join("."));
    let why = load(&("/v1/desired/g".to_owned(), desired(&deep).into())).unwrap_err().why;
    assert_eq!(why, format!("its key {path}.try is nested more than 100 levels deep"));

    check_refused(
        "/v1/desired/h",
        b"{\"process_guid\":\"g\",\"domain\":\"d\"}",
        &expect!["its content belongs under the key /v1/desired/g"],
    );
    check_refused("/v1/desired/g", b"{\"process_guid\":\"g\"}", &expect!["a domain must not be empty"]);
    check_refused("/v1/desired/g", b"", &expect!["the value has no record header"]);
    check_refused("/v1/desired/g", b"00035:x", &expect!["the record is of data version 5, and 1 is expected here"]);
    check_refused("/v1/desired/g", b"00031:x", &expect!["the record is not encoded as records of this version are"]);
    check_refused(
        "/v1/actual/g/0/suspect",
        br#"{"process_guid":"g","domain":"d","presence":"EVACUATING"}"#,
        &expect!["its content belongs under the key /v1/actual/g/0/evacuating"],
    );
    check_refused("/v1/actual/g/0/other", b"{}", &expect!["its key names no kind of record of this version"]);
    check_refused("/v1/domain/a%2fb", b"", &expect!["its content belongs under the key /v1/domain/a%2Fb"]);
    check_refused("/v1/domain/%ff", b"", &expect!["its key is not text"]);
    check_refused("/v1/domain/", b"", &expect!["a domain must not be empty"]);
}

proptest! {
    #[test]
    fn every_json_reads_as_it_is_written(record in any_record()) {
        let entity = load(&record).unwrap();
        let again = written(&entity);
        prop_assert_eq!(load(&again), Ok(entity.clone()));
        prop_assert_eq!(written(&load(&again).unwrap()), again);
    }

    #[test]
    fn a_damaged_record_is_read_or_quarantined(which in any::<prop::sample::Index>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let (key, value) = which.get(&frozen()).0.clone();
        let mut value = value.to_vec();
        for (at, byte) in flips.iter().filter(|_| !value.is_empty()).collect::<Vec<_>>() {
            let at = at.index(value.len());
            value[at] = *byte;
        }
        if let Ok(entity) = load(&(key, value.into())) {
            prop_assert_eq!(load(&written(&entity)), Ok(entity));
        }
    }

    #[test]
    fn no_bytes_make_the_loader_panic(kind in 0..4usize, value in prop::collection::vec(any::<u8>(), 0..60), json in any::<bool>()) {
        let key = ["/v1/desired/g", "/v1/actual/g/0/instance", "/v1/task/t", "/v1/domain/d"][kind];
        let value = if json { [b"{\"".as_slice(), &value].concat() } else { value };
        drop(load(&(key.to_owned(), value.into())));
    }

    #[test]
    fn every_message_survives_json(message in prop::collection::vec((1..60u32, prop::collection::vec(any::<u8>(), 0..12)), 0..6)) {
        let mut fields = vec![];
        fields::put_bytes(1, b"g", &mut fields);
        fields::put_bytes(2, b"d", &mut fields);
        let mut message: Vec<_> = message.into_iter().filter(|(tag, _)| *tag > 2).collect();
        message.sort_by_key(|(tag, _)| *tag);
        message.iter().for_each(|(tag, bytes)| fields::put_bytes(*tag, bytes, &mut fields));
        let body = Body { message: fields.into(), unknown: String::new() };
        let entity = Entity::Desired(Desired { process_guid: "g".into(), body });
        prop_assert_eq!(load(&written(&entity)), Ok(entity));
    }
}
