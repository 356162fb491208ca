//! Routes: opaque JSON values that routers understand and we do not.
//!
//! Promise: what [`compact_routes`] returns is valid UTF-8 JSON without white space, in the form that Go writes: `<`,
//! `>`, `&`, U+2028 and U+2029 are escaped, numbers and the order of keys are untouched.
//!
//! The length is a rule like any other. Whether a value is JSON at all is decided after the rules, with a text of its
//! own, because Diego notices it only when it stores the record. The value `null` is refused with it: a Go reader of
//! the stored record would stop on it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Findings, Invalid};
use crate::models::ProtoRoutes;

/// Sum of the values; the keys do not count.
pub const ROUTES_BYTES_MAX: usize = 128 * 1024;

/// Go readers give up at this depth, so nothing deeper may be stored for them.
pub const ROUTE_JSON_DEPTH_MAX: usize = 10_000;

pub(super) fn routes_length(routes: Option<&ProtoRoutes>, found: &mut Findings) {
    let total_bytes = routes.iter().flat_map(|routes| routes.routes.values()).map(|value| value.len()).sum();
    found.at_most("routes", total_bytes, ROUTES_BYTES_MAX);
}

/// Whether every value can be stored.
pub fn routes_are_json(routes: &ProtoRoutes) -> bool {
    routes.routes.values().all(|value| compact(value).is_some())
}

/// The values in the form in which they are stored and given back.
pub fn compact_routes(routes: ProtoRoutes) -> Result<BTreeMap<String, Bytes>, Invalid> {
    let compacted = routes.routes.into_iter().map(|(key, value)| Some((key, compact(&value)?)));
    compacted.collect::<Option<_>>().ok_or(Invalid::Unstorable)
}

/// Bytes that are not UTF-8 are replaced as in any other text of a request; Go takes them as well.
fn compact(value: &[u8]) -> Option<Bytes> {
    let text = String::from_utf8_lossy(value);
    serde_json::from_str::<serde::de::IgnoredAny>(&text).ok()?;

    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut after_backslash, mut depth) = (false, false, 0_usize);
    for character in text.chars() {
        match character {
            ' ' | '\t' | '\n' | '\r' if !in_string => continue,
            '[' | '{' if !in_string => depth += 1,
            ']' | '}' if !in_string => depth -= 1,
            '"' if !after_backslash => in_string = !in_string,
            _ => {}
        }
        if depth > ROUTE_JSON_DEPTH_MAX {
            return None;
        }
        after_backslash = character == '\\' && !after_backslash;
        // Valid JSON has these only inside strings.
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    (out != "null").then(|| Bytes::from(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compacted(value: &[u8]) -> Option<String> {
        compact(value).map(|bytes| String::from_utf8(bytes.to_vec()).expect("compact JSON is UTF-8"))
    }

    #[test]
    fn white_space_goes_and_the_rest_stays() {
        for (value, expected) in [
            (" { \"b\" : 1 ,\r\n\t\"a\" : [ ] } ", r#"{"b":1,"a":[]}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
            (
                "[1.0, 1e2, 1E+2, -0, 123456789012345678901234567890]",
                "[1.0,1e2,1E+2,-0,123456789012345678901234567890]",
            ),
            (r#" "white space \" stays: \\" "#, r#""white space \" stays: \\""#),
            (r#"["\\", " ", "\\\" ", 1 ]"#, r#"["\\"," ","\\\" ",1]"#),
            ("\"<a href=\u{2028}&\u{2029}>\"", r#""\u003ca href=\u2028\u0026\u2029\u003e""#),
            (r#"{"<k>":0}"#, r#"{"\u003ck\u003e":0}"#),
            (r#""\u003c\/\ud800""#, r#""\u003c\/\ud800""#),
            ("\"é☃\"", "\"é☃\""),
            ("true", "true"),
            ("0", "0"),
            ("1e999", "1e999"),
            ("[null]", "[null]"),
            ("\"null\"", "\"null\""),
        ] {
            assert_eq!(compacted(value.as_bytes()).as_deref(), Some(expected), "{value:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(compacted(b"\"a\xffb\"").as_deref(), Some("\"a\u{fffd}b\""));
        assert_eq!(compacted(b"\xff"), None);
    }

    #[test]
    fn null_and_everything_that_is_not_json_is_refused() {
        for value in [
            "",
            " ",
            "null",
            " null\n",
            "nul",
            "{",
            "{}}",
            "{} {}",
            "[1,]",
            "{a:1}",
            "'a'",
            "01",
            "1.",
            "\"\t\"",
            "\"\\x\"",
            "NaN",
            "\u{feff}{}",
        ] {
            assert_eq!(compacted(value.as_bytes()), None, "{value:?}");
        }
    }

    #[test]
    fn the_depth_is_limited() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let deepest = nested(ROUTE_JSON_DEPTH_MAX);
        assert_eq!(compacted(deepest.as_bytes()), Some(deepest));
        assert_eq!(compacted(nested(ROUTE_JSON_DEPTH_MAX + 1).as_bytes()), None);
        let brackets_in_text = format!("\"{}\"", "[".repeat(ROUTE_JSON_DEPTH_MAX + 1));
        assert_eq!(compacted(brackets_in_text.as_bytes()), Some(brackets_in_text));
    }

    #[test]
    fn one_bad_value_refuses_all() {
        let routes = |second: &'static str| ProtoRoutes {
            routes: BTreeMap::from([
                ("cf-router".to_owned(), "[ 1 ]".into()),
                ("tcp-router".to_owned(), second.into()),
            ]),
        };
        assert!(routes_are_json(&ProtoRoutes::default()));
        assert!(routes_are_json(&routes("{}")));
        let stored = compact_routes(routes("{ }")).expect("both values are JSON");
        assert_eq!(stored["cf-router"], "[1]");
        assert_eq!(stored["tcp-router"], "{}");
        for bad in ["", "null", "nonsense"] {
            assert!(!routes_are_json(&routes(bad)));
            let refused = compact_routes(routes(bad)).expect_err("the second value is bad");
            assert_eq!(refused.to_string(), "the request received is invalid");
        }
    }

    proptest! {
        /// Strategy: any text made of the characters that matter.
        #[test]
        fn compaction_keeps_the_meaning_and_is_stable(value in r#"[\[\]{}",:\\ \t\n0-9ue.<>&\u{2028}a]{0,24}"#) {
            let meaning = serde_json::from_str::<serde_json::Value>(&value).ok();
            if let Some(once) = compacted(value.as_bytes()) {
                prop_assert_eq!(compacted(once.as_bytes()), Some(once.clone()));
                prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&once).ok(), meaning);
            } else {
                prop_assert_eq!(meaning, None);
            }
        }

        #[test]
        fn any_string_survives(text in any::<String>()) {
            let value = serde_json::to_string(&text).expect("a string serialises");
            let once = compacted(value.as_bytes()).expect("a string is JSON");
            prop_assert_eq!(serde_json::from_str::<String>(&once).expect("still a string"), text);
            let has_unescaped = once.contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
            prop_assert!(!has_unescaped);
        }
    }
}
