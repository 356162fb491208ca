//! The key `OptionalRoutable`, an accident of Go's one-member oneof that cfdot's users see nevertheless.
//!
//! In an `ActualLRP` the member inside is `routable` and always printed. In the other three messages the field is
//! called `Routable`, has no JSON tag, and is left out when false.

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;

/// `field` is the name in the `.proto` file, which decides between the two forms.
pub(crate) fn write_routable<M>(to: &mut M, field: &'static str, routable: Option<bool>) -> Result<(), M::Error>
where
    M: SerializeMap,
{
    let left_out_when_false = field == "Routable";
    to.serialize_entry("OptionalRoutable", &routable.map(|value| Inner { field, value, left_out_when_false }))
}

/// Absent when the key is `null`; false when the object does not say.
pub(crate) fn read_routable<'de, A: MapAccess<'de>>(from: &mut A) -> Result<Option<bool>, A::Error> {
    Ok(from.next_value::<Option<Read>>()?.map(|read| read.0))
}

struct Inner {
    field: &'static str,
    value: bool,
    left_out_when_false: bool,
}

impl serde::Serialize for Inner {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_map(None)?;
        if self.value || !self.left_out_when_false {
            object.serialize_entry(self.field, &self.value)?;
        }
        object.end()
    }
}

struct Read(bool);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Read;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with the key routable")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read, A::Error> {
                let mut routable = false;
                while let Some(key) = map.next_key::<String>()? {
                    if key.eq_ignore_ascii_case("routable") {
                        routable = map.next_value::<Option<bool>>()?.unwrap_or_default();
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Read(routable))
            }
        }
        from.deserialize_map(Members)
    }
}
