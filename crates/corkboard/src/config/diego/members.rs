//! The members of a JSON object, each with its place in the file, so that a problem can be shown with its line.
//!
//! Values stay text until somebody asks: which type one has is told by its first letter, and a passphrase is not copied on
//! the way. As in Go, upper and lower case of a key do not matter, the last of two equal keys counts, and `null` is nothing.

use std::fmt;
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) key: String,
    /// Bytes of the file.
    pub(super) at: Range<usize>,
}

/// What stands in `file` at `at`, which is one object and nothing else. In an error the line counts from `at`.
pub(super) fn members(file: &str, at: Range<usize>) -> Result<Vec<Member>, serde_json::Error> {
    let Object(members) = serde_json::from_str(&file[at])?;
    let place = |raw: &RawValue| {
        let start = raw.get().as_ptr().addr() - file.as_ptr().addr();
        start..start + raw.get().len()
    };
    let there = members.into_iter().filter(|(_, raw)| raw.get() != "null");
    Ok(there.map(|(key, raw)| Member { key, at: place(raw) }).collect())
}

struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        from.deserialize_map(Members)
    }
}

/// What kind of value a text of JSON is, as people say it.
pub(super) fn type_of(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'"') => "text",
        Some(b't' | b'f') => "true or false",
        Some(b'[') => "a list",
        Some(b'{') => "an object",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_their_places() {
        let file = " {\"a\": 1,\n \"b\":{\"c\":\"x\\n\"}, \"n\":null, \"A\":[ ]}\n";
        let found = members(file, 1..file.len()).unwrap();
        let shown: Vec<(&str, &str)> = found.iter().map(|it| (it.key.as_str(), &file[it.at.clone()])).collect();
        assert_eq!(shown, [("a", "1"), ("b", "{\"c\":\"x\\n\"}"), ("A", "[ ]")]);
        let inner = members(file, found[1].at.clone()).unwrap();
        assert_eq!(&file[inner[0].at.clone()], "\"x\\n\"");
    }
}
