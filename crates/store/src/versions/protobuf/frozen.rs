//! Tests of this version as a whole: frozen records, the step from JSON and back, and what is quarantined.
//!
//! The files in `frozen/` lie in stores as they are here. When a test on them fails, this version has changed, which it
//! must not.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::versions::Quarantined;
use crate::versions::initial_json::frozen as json;
use crate::versions::initial_json::generated::{Record, any_record};
use crate::versions::unknown::Carried;

macro_rules! frozen {
    ($($key:literal = $file:literal,)*) => {
        &[$(($key, include_str!(concat!("frozen/", $file))),)*]
    };
}

/// In the order of the frozen JSON, which says the same.
static FROZEN: &[(&str, &str)] = frozen! {
    "/v1441411196/desired/8d5d8b8c-3a0e-4f0d-9d51-1d2b6f9f5a10-c4b1" = "desired.txt",
    "/v1441411196/actual/8d5d8b8c-c4b1/0/instance" = "actual-unclaimed.txt",
    "/v1441411196/actual/8d5d8b8c-c4b1/1/instance" = "actual-claimed.txt",
    "/v1441411196/actual/8d5d8b8c-c4b1/2/instance" = "actual-running.txt",
    "/v1441411196/actual/8d5d8b8c-c4b1/3/instance" = "actual-crashed.txt",
    "/v1441411196/actual/8d5d8b8c-c4b1/2/evacuating" = "actual-evacuating.txt",
    "/v1441411196/task/staging-8d5d8b8c" = "task.txt",
    "/v1441411196/domain/cf-apps" = "domain.txt",
    "/v1441411196/domain/cf%20tasks" = "domain-expired.txt",
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
fn frozen_json_goes_up_and_comes_down_as_it_was() {
    for ((json_record, older), (record, newer)) in json::frozen().into_iter().zip(frozen()) {
        assert_eq!(written(&up(older.clone()).unwrap()), record);
        assert_eq!(older.label(), newer.label());
        let (back, losses) = down(newer.clone());
        assert_eq!((&back, losses), (&older, vec![]));
        assert_eq!(json::written(&back), json_record);
        assert_eq!(up(back), Ok(newer));
    }
}

#[test]
fn nothing_shows_a_secret() {
    let printed: String = frozen().iter().map(|(_, entity)| format!("{entity:?}")).collect();
    for secret in ["s3cret", "256m", "buildpack"] {
        assert!(!printed.contains(secret), "{secret}");
    }
}

fn value(payload: &[u8]) -> Bytes {
    format!("00021441411196:{}", STANDARD.encode(payload)).into()
}

/// What is read from a payload is written in the one way.
fn check_rewritten(key: &str, payload: &[u8], expected: &[u8]) {
    let entity = load(&(format!("{ROOT}{key}"), value(payload))).unwrap();
    let (_, rewritten) = written(&entity);
    assert_eq!(
        STANDARD.decode(&rewritten[15..]).unwrap().escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}

#[test]
fn fields_come_in_the_order_of_their_numbers_and_unknown_ones_last() {
    check_rewritten(
        "desired/g",
        b"\x98\x03\x05\x12\x01d\x2a\x00\x0a\x01g\x20\x00",
        b"\x0a\x01g\x12\x01d\x2a\x00\x98\x03\x05",
    );
    check_rewritten("desired/g", b"\x88\x7d\x05\x12\x01d\x0a\x01g\x7a\x00", b"\x0a\x01g\x12\x01d\x88\x7d\x05");
    check_rewritten("domain/d", b"\x18\x05\x10\x01\x0a\x01d", b"\x0a\x01d\x10\x01\x18\x05");
    let rest = b"\x12\x00\x1a\x00P\x01";
    let key = b"\x0a\x06\x0a\x01g\x1a\x01d";
    check_rewritten("actual/g/0/evacuating", key, &[key.as_slice(), rest].concat());
}

#[test]
fn the_part_for_cells_is_opaque_when_it_does_not_fit_in() {
    let (_, entity) = frozen().swap_remove(0);
    let Entity::Desired(lrp) = entity else { panic!("a DesiredLRP") };
    for run_info in [b"".as_slice(), b"\x2a\x00", b"\x2a\x00opaque", b"\x0a\x01x", b"\x32\x00\x2a\x00", b"\x2b"] {
        for drivers in [vec![], vec!["nfs".to_owned()]] {
            let run_info = Bytes::from_static(run_info);
            let lrp = records::Desired::new(lrp.message.clone(), drivers, run_info, Bytes::new());
            let entity = Entity::Desired(Box::new(lrp));
            assert_eq!(load(&written(&entity)).as_ref(), Ok(&entity));
            assert_eq!(up(down(entity.clone()).0), Ok(entity));
        }
    }
}

fn check_refused(key: &str, value: impl Into<Bytes>, expected: &Expect) {
    let unread = load(&(format!("{ROOT}{key}"), value.into())).unwrap_err();
    expected.assert_eq(&unread.why);
}

#[test]
fn what_cannot_be_read_is_quarantined_with_its_reason() {
    check_refused("desired/g", "junk", &expect!["the value has no record header"]);
    check_refused("desired/g", "00021441411196:?", &expect!["its payload is not base64"]);
    check_refused("desired/g", "00031441411196:", &expect!["the record is not encoded as records of this version are"]);
    check_refused("desired/g", "{}", &expect!["the record is of data version 1, and 1441411196 is expected here"]);
    check_refused("desired/g", value(b"\xff"), &expect!["its payload is not the message it should be"]);
    check_refused("desired/g", value(b"\x0a\x01g"), &expect!["a domain must not be empty"]);
    check_refused(
        "desired/h",
        value(b"\x0a\x01g\x12\x01d"),
        &expect!["its content belongs under the key /v1441411196/desired/g"],
    );
    check_refused(
        "desired/g",
        value(b"\x0a\x01g\x12\x01d\x2a\x00\xca\x3e\x00"),
        &expect!["it says twice what cells need"],
    );
    check_refused("actual/g/0/instance", value(b""), &expect!["the record has no key"]);
    check_refused(
        "actual/g/0/instance",
        value(b"\x0a\x06\x0a\x01g\x1a\x01dP\x02"),
        &expect!["its content belongs under the key /v1441411196/actual/g/0/suspect"],
    );
    check_refused("task/t", value(b"\x12\x01t\x1a\x01d"), &expect!["the record has no definition that can be read"]);
    check_refused(
        "task/t",
        value(b"\x0a\x01\xff\x12\x01t\x1a\x01d"),
        &expect!["the record has no definition that can be read"],
    );
    check_refused("other/t", value(b""), &expect!["its key names no kind of record of this version"]);
}

#[test]
fn a_task_without_a_definition_stays_json() {
    let record = ("/v1/task/t".to_owned(), Bytes::from_static(b"{\"task_guid\":\"t\",\"domain\":\"d\"}"));
    let refused = up(json::load(&record).unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "the task has no definition");
}

#[test]
fn unknown_fields_are_carried_by_json_and_come_back() {
    let unknown = Bytes::from_static(b"\x88\x7d\x05");
    let record = ("/v1/domain/d".to_owned(), Bytes::from_static(b"{\"name\":\"d\",\"expires_ns\":1,\"later\":[1]}"));
    let older = json::load(&record).unwrap();
    let mut newer = up(older.clone()).unwrap();
    let Entity::Domain(domain) = &mut newer else { panic!("a domain") };
    assert_eq!(domain.carried[0].fields, b"{\"later\":[1]}".as_slice());
    domain.unknown = unknown;
    domain.message.carried.push(Carried { version: 7, record: "x".into(), fields: Bytes::from_static(b"?") });
    let (back, _) = down(newer.clone());
    let (_, text) = json::written(&back);
    expect![[r#"{"name":"d","expires_ns":1,"corkboard_carried":[{"version":7,"record":"x","fields":"Pw=="},{"version":1441411196,"fields":"iH0F"}],"later":[1]}"#]]
        .assert_eq(&String::from_utf8_lossy(&text));
    assert_eq!(json::load(&json::written(&back)).as_ref(), Ok(&back));
    assert_eq!(up(back), Ok(newer));
}

/// What was carried for JSON and would make it unreadable stays carried.
#[test]
fn carried_keys_that_json_has_already_are_not_given_back() {
    for text in ["{\"name\":\"e\"}", "{\"later\": 1}", "{\"a\":1,\"a\":1}", "[]", "", "\u{1}"] {
        let (_, entity) = frozen().swap_remove(7);
        let Entity::Domain(mut domain) = entity else { panic!("a domain") };
        let fields = Bytes::from_static(text.as_bytes());
        domain.message.carried = vec![Carried { version: 1, record: String::new(), fields }];
        let entity = Entity::Domain(domain);
        let (older, _) = down(entity.clone());
        assert_eq!(json::load(&json::written(&older)).as_ref(), Ok(&older), "{text}");
        assert_eq!(up(older), Ok(entity), "{text}");
    }
}

proptest! {
    #[test]
    fn json_goes_up_and_comes_down_as_it_was(record in any_record()) {
        let older = json::load(&record).unwrap();
        let newer = up(older.clone()).unwrap();
        prop_assert_eq!(older.label(), newer.label());
        prop_assert_eq!(load(&written(&newer)), Ok(newer.clone()));
        let (back, losses) = down(newer.clone());
        prop_assert_eq!((&back, losses), (&older, vec![]));
        prop_assert_eq!(up(back), Ok(newer));
    }

    #[test]
    fn a_damaged_record_is_read_or_quarantined(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let ((key, record), _) = which.get(&frozen()).clone();
        let mut payload = STANDARD.decode(&record[15..]).unwrap();
        let at = at.index(payload.len());
        payload[at] = byte;
        if let Ok(entity) = load(&(key, value(&payload))) {
            prop_assert_eq!(load(&written(&entity)), Ok(entity.clone()));
            let (older, _) = down(entity.clone());
            prop_assert_eq!(json::load(&json::written(&older)), Ok(older.clone()));
            prop_assert_eq!(up(older), Ok(entity));
        }
    }

    #[test]
    fn no_bytes_make_the_loader_panic(kind in 0..4usize, payload in prop::collection::vec(any::<u8>(), 0..60), bare in any::<bool>()) {
        let key = ["desired/g", "actual/g/0/instance", "task/t", "domain/d"][kind];
        let value = if bare { payload.into() } else { value(&payload) };
        drop(load(&(format!("{ROOT}{key}"), value)));
    }
}

#[test]
fn every_frozen_json_has_its_frozen_record() {
    let labels: Vec<String> = frozen().iter().map(|(_, entity)| entity.label()).collect();
    let older: Vec<String> = json::frozen().iter().map(|(_, entity)| entity.label()).collect();
    assert_eq!(labels, older);
}
