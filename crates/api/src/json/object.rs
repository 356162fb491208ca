//! A message as a JSON object: its members written in order, and read in any order.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wire::Wire;

/// The JSON shape of a message, implemented by the build script.
pub(crate) trait Object: Wire {
    /// The keys of this message itself, without those of flattened sub-messages.
    const KEYS: &'static [&'static str];

    /// Writes all members into an object that is already open, so that a parent can write its own around them.
    fn write<M: SerializeMap>(&self, to: &mut M) -> Result<(), M::Error>;

    /// Reads the value of one key; false when the key is unknown, in which case the value is still to be taken.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, from: &mut A) -> Result<bool, A::Error>;
}

pub(crate) fn has_key<T: Object>(key: &str) -> bool {
    T::KEYS.iter().any(|known| known.eq_ignore_ascii_case(key))
}

pub(crate) fn write_object<T: Object, S: Serializer>(message: &T, to: S) -> Result<S::Ok, S::Error> {
    let mut object = to.serialize_map(None)?;
    message.write(&mut object)?;
    object.end()
}

pub(crate) fn read_object<'de, T: Object, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(ObjectVisitor(PhantomData))
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Object> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object ({})", T::NAME)
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        let mut message = T::default();
        message.complete();
        Ok(message)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut message = T::default();
        message.complete();
        while let Some(key) = map.next_key::<String>()? {
            if !message.read(&key, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(message)
    }
}

/// For `key?`: nothing at all when the value is zero, empty or absent.
pub(crate) fn write_unless_empty<T, M>(to: &mut M, key: &'static str, value: &T) -> Result<(), M::Error>
where
    T: Serialize + Default + PartialEq,
    M: SerializeMap,
{
    if *value == T::default() { Ok(()) } else { to.serialize_entry(key, value) }
}

/// For a list that is always printed: Go has no empty list after decoding, only a nil one, and prints `null`.
pub(crate) fn write_list<T, M>(to: &mut M, key: &'static str, list: &[T]) -> Result<(), M::Error>
where
    T: Serialize,
    M: SerializeMap,
{
    if list.is_empty() { to.serialize_entry(key, &()) } else { to.serialize_entry(key, list) }
}

pub(crate) fn read_value<'de, T, A>(from: &mut A) -> Result<T, A::Error>
where
    T: Deserialize<'de> + Default,
    A: MapAccess<'de>,
{
    Ok(from.next_value::<Option<T>>()?.unwrap_or_default())
}

pub(crate) fn read_list<'de, T, A>(from: &mut A) -> Result<Vec<T>, A::Error>
where
    T: Deserialize<'de> + Default,
    A: MapAccess<'de>,
{
    let list: Vec<Option<T>> = read_value(from)?;
    Ok(list.into_iter().map(Option::unwrap_or_default).collect())
}

pub(crate) fn read_map<'de, T, A>(from: &mut A) -> Result<BTreeMap<String, T>, A::Error>
where
    T: Deserialize<'de> + Default,
    A: MapAccess<'de>,
{
    let map: BTreeMap<String, Option<T>> = read_value(from)?;
    Ok(map.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}
