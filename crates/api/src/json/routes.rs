//! Routes: an object from router name to JSON that only that router understands. We never look inside; we only bring
//! it into Go's compact form, so that what is stored and compared does not depend on the sender's white space.

use std::collections::BTreeMap;

use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::models::ProtoRoutes;

/// The document without white space; `None` when it is no JSON. Escaping is left to [`super::to_string`], which treats
/// the whole text. What may be *stored* is decided in `validate`, which is stricter.
fn without_white_space(document: &[u8]) -> Option<String> {
    let raw: &RawValue = serde_json::from_slice(document).ok()?;
    let mut out = String::with_capacity(document.len());
    let (mut in_string, mut escaped) = (false, false);
    for character in raw.get().chars() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character.is_ascii_whitespace() {
            continue;
        } else {
            in_string = character == '"';
        }
        out.push(character);
    }
    Some(out)
}

/// In an update an empty set of routes means "remove all", so it must differ from none: `{}`.
pub(crate) fn write_route_changes<M>(
    to: &mut M,
    key: &'static str,
    routes: Option<&ProtoRoutes>,
) -> Result<(), M::Error>
where
    M: SerializeMap,
{
    match routes {
        None => Ok(()),
        Some(routes) if routes.routes.is_empty() => to.serialize_entry(key, &BTreeMap::<String, ()>::new()),
        Some(routes) => to.serialize_entry(key, routes),
    }
}

/// Empty routes print as `null`, because Go's decoder leaves an empty map nil.
impl Serialize for ProtoRoutes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.routes.is_empty() {
            return to.serialize_unit();
        }
        let mut object = to.serialize_map(Some(self.routes.len()))?;
        for (name, value) in &self.routes {
            match without_white_space(value) {
                Some(text) => object.serialize_entry(name, &RawValue::from_string(text).map_err(S::Error::custom)?)?,
                // The server refuses such a value, so it can only come from elsewhere. Showing it as text lets an
                // operator see what is wrong, where an error would hide the whole record.
                None => object.serialize_entry(name, &String::from_utf8_lossy(value))?,
            }
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for ProtoRoutes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let routes: BTreeMap<String, Box<RawValue>> = Option::deserialize(from)?.unwrap_or_default();
        let bytes_of = |raw: Box<RawValue>| String::from(Box::<str>::from(raw)).into_bytes();
        Ok(Self { routes: routes.into_iter().map(|(name, raw)| (name, bytes_of(raw))).collect() })
    }
}
