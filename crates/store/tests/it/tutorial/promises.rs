//! What every data version must show, on bytes that a store may hold.

use bytes::Bytes;
use proptest::prelude::*;

use super::{bar_becomes_quux as after, first_things as before};

fn thing(guid: &str, text: &str, count: i32) -> before::Entity {
    let foo = before::records::Foo { guid: guid.into(), text: text.into(), carried: Vec::new() };
    let bar = before::records::Bar { guid: guid.into(), count, carried: Vec::new() };
    before::Entity { foo: foo.into(), bar: bar.into() }
}

fn written(entity: &after::Entity) -> Vec<(String, Bytes)> {
    let mut records = Vec::new();
    entity.write(&mut |key, value| records.push((key, value)));
    records
}

/// A field with number 7, which no version has: a later release may add it.
const UNKNOWN: &[u8] = b"\x38\x01";

proptest! {
    #[test]
    fn there_and_back_gives_the_same(guid in "[a-z]{1,8}", text in ".*", count: i32, unknown: bool) {
        let mut old = thing(&guid, &text, count);
        if unknown {
            old.bar.unknown = Bytes::from_static(UNKNOWN);
        }
        let new = after::up(old.clone()).unwrap();
        prop_assert!(new.quux.unknown.is_empty(), "a number of the older version means something else here");
        let (back, losses) = after::down(new.clone());
        prop_assert_eq!((back.clone(), losses), (old, Vec::new()));
        prop_assert_eq!(after::up(back).unwrap(), new);
    }

    #[test]
    fn what_is_written_is_read_in_any_order(guid in "[a-z]{1,8}", text in ".*", count: i32, backwards: bool) {
        let entity = after::up(thing(&guid, &text, count)).unwrap();
        let mut records = written(&entity);
        if backwards {
            records.reverse();
        }
        let mut loader = after::Loader::default();
        let found: Vec<_> = records.iter().filter_map(|(key, value)| loader.feed(key, value)).collect();
        prop_assert_eq!(found, [entity]);
        prop_assert_eq!(loader.finish(), []);
    }
}

#[test]
fn what_cannot_be_read_is_named_and_kept() {
    let records = written(&after::up(thing("a", "x", 1)).unwrap());
    let [(foo, foo_value), (quux, quux_value)] = &records[..] else { panic!("{records:?}") };
    let older = Bytes::from_static(b"00031001:\x0a\x01a");
    let check = |fed: &[(&str, &Bytes)], expected: &[(&str, &str)]| {
        let mut loader = after::Loader::default();
        assert!(fed.iter().all(|(key, value)| loader.feed(key, value).is_none()));
        let kept: Vec<_> = loader.finish().into_iter().map(|bad| (bad.key, bad.why)).collect();
        assert_eq!(kept, expected.iter().map(|(key, why)| ((*key).into(), (*why).into())).collect::<Vec<_>>());
    };
    let alone = "its other half is missing or unreadable";
    let poison = Bytes::from_static(b"00031002:\x0a");
    check(&[(foo, foo_value)], &[(foo, alone)]);
    check(
        &[(foo, &poison), (quux, quux_value)],
        &[(foo, "its payload is not the message it should be"), (quux, alone)],
    );
    check(&[("/v1002/b/foo", foo_value)], &[("/v1002/b/foo", "its content belongs under the key /v1002/a/foo")]);
    check(&[("/v1002/a/bar", quux_value)], &[("/v1002/a/bar", "its key names no kind of record of this version")]);
    check(&[(foo, &older)], &[(foo, "the record is of data version 1001, and 1002 is expected here")]);
}
