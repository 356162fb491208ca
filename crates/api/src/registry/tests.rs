//! The messages against the bytes of Diego's own emitter, and against bytes that nobody should send.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// As sent by Diego's route-emitter.
const HTTP: &str = r#"{"host":"10.0.0.5","port":61001,"tls_port":61002,"uris":["a.example.com"],"protocol":"http2","app":"log-guid-1","route_service_url":"https://rs.example.com","private_instance_id":"ig-0","private_instance_index":"0","server_cert_domain_san":"ig-0","isolation_segment":"iso","endpoint_updated_at_ns":1794765154773714207,"tags":{"app":"my-app","component":"route-emitter","idx":"0","ig":"ig-0","source_id":"log-guid-1"},"availability_zone":"z1","options":{"loadbalancing":"least-connection"}}"#;
const INTERNAL: &str = r#"{"host":"10.255.1.2","port":0,"uris":["a.apps.internal","0.a.apps.internal"],"app":"log-guid-1","private_instance_index":"0","endpoint_updated_at_ns":1794765154773714207,"tags":{"component":"route-emitter"}}"#;

#[test]
fn diegos_messages_come_back_byte_for_byte() {
    for message in [HTTP, INTERNAL] {
        assert_eq!(RegistryMessage::decode(message.as_bytes()).unwrap().encode(), message);
    }
    let start = r#"{"minimumRegisterIntervalInSeconds":20,"pruneThresholdInSeconds":120}"#;
    let start = RouterStart::decode(start.as_bytes()).unwrap();
    assert_eq!((start.minimum_register_interval_in_seconds, start.prune_threshold_in_seconds), (20, 120));
    expect![[r#"{"id":"","hosts":[],"minimumRegisterIntervalInSeconds":20,"pruneThresholdInSeconds":120}"#]]
        .assert_eq(std::str::from_utf8(&start.encode()).unwrap());
}

#[test]
fn null_is_empty_and_what_is_unknown_is_ignored() {
    let text = r#"{"host":"h","port":1,"uris":["u"],"tags":null,"protocol":null,"novelty":[1],"options":null}"#;
    let message = RegistryMessage::decode(text.as_bytes()).unwrap();
    let expected = RegistryMessage { host: "h".into(), port: 1, uris: vec!["u".into()], ..RegistryMessage::default() };
    assert_eq!(message, expected);
}

#[test]
fn what_cannot_be_routed_to_is_refused_with_its_reason() {
    check("{}", &expect!["the message names no host"]);
    check(r#"{"host":"h"}"#, &expect!["the message names no route"]);
    check(r#"{"host":"h","uris":[""]}"#, &expect!["the message names no route"]);
    check(r#"{"host":"h","uris":["u"]}"#, &expect!["the message names no port"]);
    check(r#"{"host":"h","uris":["u"],"port":65536}"#, &expect!["the message is not the expected JSON"]);
    check(r#"{"host":"h","uris":["u"],"port":-1}"#, &expect!["the message is not the expected JSON"]);
    check("[]", &expect!["the message names no host"]);
    check("", &expect!["the message is not the expected JSON"]);
    check(&" ".repeat(MESSAGE_BYTES_MAX + 1), &expect!["the message has 1048577 bytes, more than 1048576"]);
}

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&RegistryMessage::decode_with_port(text.as_bytes()).unwrap_err().to_string());
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = RegistryMessage::decode(&bytes);
        let _ = RouterStart::decode(&bytes);
        let _: Vec<routes::CfRoute> = routes::read(&bytes);
    }

    #[test]
    fn a_message_with_bytes_changed_is_read_or_refused(at in 0..HTTP.len(), byte in any::<u8>()) {
        let mut bytes = HTTP.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(message) = RegistryMessage::decode(&bytes) {
            prop_assert_eq!(RegistryMessage::decode(&message.encode()).unwrap(), message);
        }
    }
}
