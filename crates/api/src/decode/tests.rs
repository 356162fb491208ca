//! Every trap of the encoding that the protocol's description names, as bytes, and then bytes that nobody named.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::models::*;

fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The message encodes to exactly these bytes, and these bytes decode to exactly the message.
fn both_ways<M: Wire>(mut message: M, bytes: &str) {
    assert_eq!(encode(message.clone()), hex(bytes), "encoding");
    message.complete();
    assert_eq!(decode::<M>(hex(bytes)).unwrap(), message, "decoding");
}

fn reads<M: Wire>(bytes: &str, expected: &M) {
    assert_eq!(decode::<M>(hex(bytes)).unwrap(), *expected, "{bytes}");
}

fn refuses<M: Wire>(bytes: &str) {
    assert!(decode::<M>(hex(bytes)).is_err(), "{bytes} was read as {}", M::NAME);
}

#[test]
fn the_parts_that_are_always_emitted() {
    both_ways(ActualLrp::default(), "0a 00 12 00 1a 00 4a 00");
    both_ways(ActualLrpInfo::default(), "1a 00 4a 00");
    both_ways(ActualLrpInstanceChangedEvent::default(), "0a 00 12 00");
    both_ways(ActualLrpCrashedEvent::default(), "0a 00 12 00");
    both_ways(DesiredLrpSchedulingInfo::default(), "0a 00 22 00 2a 00 32 00");
    both_ways(DesiredLrpRunInfo::default(), "0a 00");
    both_ways(DesiredLrp::default(), "");
    both_ways(Task::default(), "");
    let list = ActualLrPsResponse { actual_lrps: vec![ActualLrp::default()], ..Default::default() };
    both_ways(list, "12 08 0a 00 12 00 1a 00 4a 00");
    let group = ActualLrpGroup { instance: Some(ActualLrp::default()), evacuating: None };
    both_ways(ActualLrpCreatedEvent { actual_lrp_group: Some(group) }, "0a 0a 0a 08 0a 00 12 00 1a 00 4a 00");
}

#[test]
fn explicit_presence_survives_zero() {
    let routable = ActualLrp { routable: Some(false), ..Default::default() };
    both_ways(routable, "0a 00 12 00 1a 00 4a 00 68 00");
    let update = DesiredLrpUpdate { instances: Some(0), annotation: Some(String::new()), ..Default::default() };
    both_ways(update, "08 00 1a 00");
    both_ways(ResourceLimits { nofile: Some(0), nproc: None }, "08 00");
    both_ways(ActualLrPsRequest { index: Some(0), ..Default::default() }, "20 00");
    both_ways(DesiredLrpUpdate { routes: Some(ProtoRoutes::default()), ..Default::default() }, "12 00");
    let definition = DesiredLrpUpdate {
        desired_lrp: Some(DesiredLrp { memory_mb: 1, ..Default::default() }),
        update_identifier: Some("v".into()),
        ..Default::default()
    };
    both_ways(definition, "a2 06 02 58 01 aa 06 01 76");
    let start = StartActualLrpRequest {
        actual_lrp_key: Some(ActualLrpKey::default()),
        actual_lrp_instance_key: Some(ActualLrpInstanceKey::default()),
        actual_lrp_net_info: Some(ActualLrpNetInfo::default()),
        routable: Some(true),
        ..Default::default()
    };
    both_ways(start, "0a 00 12 00 1a 00 30 01");
}

/// Peers of the proto2 era send zeros; they mean the same as nothing.
#[test]
fn explicit_zeros_without_presence_are_zeros() {
    reads("0a 00 10 00 1a 00", &ActualLrpKey::default());
}

#[test]
fn three_lists_go_out_unpacked_and_come_in_either_way() {
    both_ways(DesiredLrp { ports: vec![8080, 1], ..Default::default() }, "70 90 3f 70 01");
    reads("72 02 90 3f", &DesiredLrp { ports: vec![8080], ..Default::default() });
    reads("70 01 72 02 90 3f", &DesiredLrp { ports: vec![1, 8080], ..Default::default() });
    both_ways(SecurityGroupRule { ports: vec![80, 443], ..Default::default() }, "18 50 18 bb 03");
    reads("1a 03 50 bb 03", &SecurityGroupRule { ports: vec![80, 443], ..Default::default() });
    both_ways(DesiredLrpRunInfo { ports: vec![5], ..Default::default() }, "0a 00 48 05");
    let packed: DesiredLrpRunInfo = decode(hex("4a 01 05")).unwrap();
    assert_eq!(packed.ports, [5]);
}

#[test]
fn routes_are_a_nested_message() {
    let routes = ProtoRoutes { routes: BTreeMap::from([("k".into(), br#"{"a":1}"#.to_vec())]) };
    let lrp = DesiredLrp { routes: Some(routes), ..Default::default() };
    both_ways(lrp, "7a 0e 0a 0c 0a 01 6b 12 07 7b 22 61 22 3a 31 7d");
}

/// Go writes both halves of an entry even when they are empty; prost leaves empty halves out. Both read both.
#[test]
fn map_entries_may_lack_their_key_or_value() {
    let tags = |key: &str, value: &str| StartActualLrpRequest {
        metric_tags: BTreeMap::from([(key.into(), value.into())]),
        ..Default::default()
    };
    reads("2a 04 0a 00 12 00", &tags("", ""));
    reads("2a 00", &tags("", ""));
    reads("2a 03 0a 01 6b", &tags("k", ""));
    reads("2a 03 12 01 76", &tags("", "v"));
    reads("2a 06 12 01 76 0a 01 6b", &tags("k", "v"));
    let tag =
        DesiredLrp { metric_tags: BTreeMap::from([("k".into(), MetricTagValue::default())]), ..Default::default() };
    reads("9a 02 05 0a 01 6b 12 00", &tag);
    reads("9a 02 03 0a 01 6b", &tag);
}

#[test]
fn the_last_scalar_wins_and_sub_messages_merge() {
    reads("0a 01 61 0a 01 62", &ActualLrpKey { process_guid: "b".into(), ..Default::default() });
    let claim = ClaimActualLrpRequest {
        actual_lrp_instance_key: Some(ActualLrpInstanceKey { instance_guid: "i".into(), cell_id: "c".into() }),
        ..Default::default()
    };
    reads("1a 03 0a 01 69 1a 03 12 01 63", &claim);
}

#[test]
fn a_negative_number_takes_ten_bytes() {
    let key = ActualLrpKey { index: -1, ..Default::default() };
    both_ways(key, "10 ff ff ff ff ff ff ff ff ff 01");
}

#[test]
fn an_unknown_enum_number_is_kept() {
    both_ways(MetricTagValue { dynamic: 77, ..Default::default() }, "10 4d");
    both_ways(Error { r#type: 99, message: String::new() }, "08 63");
}

#[test]
fn unknown_fields_and_groups_are_skipped_and_not_kept() {
    let key = ActualLrpKey { process_guid: "g".into(), ..Default::default() };
    reads("0a 01 67 a0 06 01", &key);
    reads("a2 06 02 ff ff 0a 01 67", &key);
    reads("a1 06 01 02 03 04 05 06 07 08 a5 06 01 02 03 04 0a 01 67", &key);
    reads("a3 06 08 01 ab 06 0a 01 78 ac 06 a4 06 0a 01 67", &key);
    assert_eq!(encode(decode::<ActualLrpKey>(hex("0a 01 67 a0 06 01")).unwrap()), hex("0a 01 67"));
}

#[test]
fn what_go_refuses_is_refused() {
    refuses::<ActualLrpKey>("00 00");
    refuses::<ActualLrpKey>("02 01 61");
    refuses::<ActualLrpKey>("08 01");
    refuses::<ActualLrpKey>("12 01 61");
    refuses::<ActualLrpKey>("0b 0c");
    refuses::<ActualLrpKey>("0a");
    refuses::<ActualLrpKey>("0a 05 61");
    refuses::<ActualLrpKey>("10 ff");
    refuses::<ActualLrpKey>("a3 06 08 01");
    refuses::<ActualLrpKey>("a3 06 ac 06");
    refuses::<ActualLrpKey>("a4 06");
    refuses::<ActualLrpKey>("0f");
    refuses::<ActualLrp>("0a 02 0a 05");
    refuses::<ActualLrpKey>("10 ff ff ff ff ff ff ff ff ff ff 01");
}

#[test]
fn text_that_is_not_utf8_is_replaced_wherever_it_stands() {
    let key = |guid: &str| ActualLrpKey { process_guid: guid.into(), index: 7, domain: "d".into() };
    reads("0a 02 61 ff 10 07 1a 01 64", &key("a\u{fffd}"));
    let crash = CrashActualLrpRequest {
        actual_lrp_key: Some(key("\u{fffd}")),
        error_message: "caf\u{fffd}".into(),
        ..Default::default()
    };
    reads("0a 08 0a 01 80 10 07 1a 01 64 1a 04 63 61 66 c3", &crash);
    let tags = StartActualLrpRequest {
        metric_tags: BTreeMap::from([("\u{fffd}".into(), "\u{fffd}".into())]),
        ..Default::default()
    };
    reads("2a 06 0a 01 fe 12 01 fe", &tags);
    let guids = ActualLrPsByProcessGuidsRequest { process_guids: vec!["a".into(), "\u{fffd}".into()] };
    reads("0a 01 61 0a 01 ff", &guids);
    reads("1a 01 ff", &DesiredLrpUpdate { annotation: Some("\u{fffd}".into()), ..Default::default() });
}

/// The bytes of a route are not text for the decoder, so they come through untouched.
#[test]
fn bytes_are_not_touched_when_text_beside_them_is() {
    let lrp: DesiredLrp = decode(hex("0a 01 ff 7a 08 0a 06 0a 01 6b 12 01 fe c0 0c 01")).unwrap();
    assert_eq!(lrp.process_guid, "\u{fffd}");
    assert_eq!(lrp.routes.unwrap().routes["k"], [0xfe]);
}

#[test]
fn broken_text_does_not_excuse_anything_else() {
    refuses::<ActualLrpKey>("0a 01 ff 08 01");
    refuses::<ActualLrpKey>("0a 01 ff 10 ff");
    refuses::<ActualLrpKey>("0a 01 ff 00 00");
    refuses::<ActualLrpKey>("0a 01 ff 0b 0c");
}

#[test]
fn errors_name_the_message() {
    let error = decode::<DesireLrpRequest>([0x0a]).unwrap_err();
    assert_eq!(error.to_string(), "the bytes are not a DesireLRPRequest");
}

/// `try(try(…try(run)…))`, with broken text at the bottom so that both looks at the bytes meet the depth.
fn nested(levels: u32) -> Vec<u8> {
    let mut bytes = vec![0x1a, 0x03, 0x0a, 0x01, 0xff];
    for _ in 0..levels {
        for tag in [0x0a, 0x32] {
            let mut outer = vec![tag];
            put_delimited(&bytes, &mut outer);
            bytes = outer;
        }
    }
    bytes
}

#[test]
fn depth_is_limited() {
    assert!(decode::<Action>(nested(40)).is_ok());
    assert!(decode::<Action>(nested(60)).is_err());
    assert!(decode::<Action>(nested(20_000)).is_err(), "the stack holds");
}

/// A message of this layout, chosen by the entropy. Values of unnamed kind are small varints, which every scalar
/// accepts; only the bytes of a route are not varints, and their entries look like a tag value, so both go without.
fn build(layout: &Layout, entropy: &mut impl Iterator<Item = u8>, depth: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let is_entry_or_tag = matches!(layout.0, [(1, Part::Text), (2, Part::Other)]);
    for (number, part) in layout.0 {
        for _ in 0..entropy.next().unwrap_or(0) % 3 {
            match part {
                Part::Text => {
                    encode_varint(u64::from(number << 3 | 2), &mut out);
                    let length = usize::from(entropy.next().unwrap_or(0) % 8);
                    let text: Vec<u8> = entropy.take(length).collect();
                    put_delimited(String::from_utf8_lossy(&text).as_bytes(), &mut out);
                }
                Part::Message(inner) if depth > 0 => {
                    encode_varint(u64::from(number << 3 | 2), &mut out);
                    put_delimited(&build(inner, entropy, depth - 1), &mut out);
                }
                Part::Other if !is_entry_or_tag => {
                    encode_varint(u64::from(number << 3), &mut out);
                    encode_varint(u64::from(entropy.next().unwrap_or(0)), &mut out);
                }
                _ => {}
            }
        }
    }
    out
}

fn round_trip<M: Wire + serde::Serialize>(entropy: &[u8]) {
    let bytes = build(M::layout(), &mut entropy.iter().copied(), 6);
    let mut message: M = decode(&bytes).unwrap_or_else(|error| panic!("{error:?}: {bytes:?}"));
    assert_eq!(with_valid_text(M::layout(), &bytes), None, "all text is valid already");
    let again: M = decode(encode(message.clone())).unwrap();
    message.complete();
    assert_eq!(again, message);
    crate::json::to_string(&message);
}

/// What is printed reads back as what it was. Enum numbers without a name are printed for people only; a message with
/// one is passed over.
fn json_round_trip<M: Wire + serde::Serialize + serde::de::DeserializeOwned>(entropy: &[u8]) {
    let mut message: M = decode(build(M::layout(), &mut entropy.iter().copied(), 6)).unwrap();
    message.complete();
    let text = crate::json::to_string(&message);
    match crate::json::from_str::<M>(&text) {
        Ok(again) => assert_eq!(again, message, "{text}"),
        Err(error) => assert!(error.to_string().contains("is not known here"), "{error}: {text}"),
    }
}

/// Whatever the bytes are, there is an answer; and what was accepted once is accepted again.
fn never_panics<M: Wire>(bytes: &[u8]) {
    if let Ok(mut message) = decode::<M>(bytes) {
        let again: M = decode(encode(message.clone())).expect("our own bytes are readable");
        message.complete();
        assert_eq!(again, message);
    }
}

macro_rules! for_big_messages {
    ($check:ident, $bytes:expr) => {
        $check::<DesireLrpRequest>($bytes);
        $check::<UpdateDesiredLrpRequest>($bytes);
        $check::<DesiredLrpSchedulingInfosResponse>($bytes);
        $check::<DesiredLrpChangedEvent>($bytes);
        $check::<DesiredLrpRunInfo>($bytes);
        $check::<ActualLrPsResponse>($bytes);
        $check::<ActualLrpChangedEvent>($bytes);
        $check::<ActualLrpInstanceChangedEvent>($bytes);
        $check::<StartActualLrpRequest>($bytes);
        $check::<EvacuateRunningActualLrpRequest>($bytes);
        $check::<TaskChangedEvent>($bytes);
        $check::<CellsResponse>($bytes);
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_messages_survive_the_round_trip(entropy in proptest::collection::vec(any::<u8>(), 0..400)) {
        for_big_messages!(round_trip, &entropy);
    }

    /// Small values, so that most enum numbers have a name.
    #[test]
    fn json_reads_back_what_it_prints(entropy in proptest::collection::vec(0_u8..3, 0..400)) {
        json_round_trip::<TasksResponse>(&entropy);
        json_round_trip::<ActualLrPsResponse>(&entropy);
        json_round_trip::<ActualLrpInstanceChangedEvent>(&entropy);
        json_round_trip::<StartActualLrpRequest>(&entropy);
        json_round_trip::<CellsResponse>(&entropy);
    }

    #[test]
    fn arbitrary_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for_big_messages!(never_panics, &bytes);
    }

    #[test]
    fn damaged_messages_are_answered(
        entropy in proptest::collection::vec(any::<u8>(), 50..400),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = build(DesireLrpRequest::layout(), &mut entropy.iter().copied(), 6);
        prop_assume!(!bytes.is_empty());
        for (place, byte) in damage {
            *place.get_mut(&mut bytes) = byte;
        }
        never_panics::<DesireLrpRequest>(&bytes);
    }

    /// Damage that touches text only never costs the message.
    #[test]
    fn broken_text_alone_is_always_forgiven(text in proptest::collection::vec(any::<u8>(), 0..40), index in any::<i32>()) {
        let mut bytes = vec![0x0a];
        put_delimited(&text, &mut bytes);
        bytes.extend_from_slice(&encode(ActualLrpKey { index, ..Default::default() }));
        let key: ActualLrpKey = decode(&bytes).unwrap();
        prop_assert_eq!((key.process_guid, key.index), (String::from_utf8_lossy(&text).into_owned(), index));
    }
}
