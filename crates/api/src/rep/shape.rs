//! Objects with fixed keys, written in order, and read in any order and in any case.
//!
//! serde's derived code compares keys exactly and its `flatten` buffers everything, so the few operations are written out.
//! Each member names how it is written:
//!
//! - `plain("Key")`: always.
//! - `unless_empty("Key")`: not at all when it is empty.
//! - `list_or_null("Key")`: `null` when the list is empty.
//! - `flat`: the members of another object, in this place.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) trait Shape: Default {
    /// Writes all members into an object that is already open.
    fn write<M: SerializeMap>(&self, to: &mut M) -> Result<(), M::Error>;

    /// Reads the value of one key; false when the key is unknown, in which case the value is still to be taken.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, from: &mut A) -> Result<bool, A::Error>;
}

macro_rules! shape {
    ($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty => $mode:ident $(($key:literal))?,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::rep::shape::Shape for $name {
            fn write<M: serde::ser::SerializeMap>(&self, to: &mut M) -> Result<(), M::Error> {
                $($crate::rep::shape::shape!(@write $mode $(($key))? &self.$field, to);)*
                Ok(())
            }

            fn read<'de, A: serde::de::MapAccess<'de>>(&mut self, key: &str, from: &mut A) -> Result<bool, A::Error> {
                $($crate::rep::shape::shape!(@read $mode $(($key))? &mut self.$field, key, from);)*
                Ok(false)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::rep::shape::write(self, to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::rep::shape::read(stringify!($name), from)
            }
        }
    };
    (@write plain($key:literal) $value:expr, $to:ident) => { $to.serialize_entry($key, $value)? };
    (@write unless_empty($key:literal) $value:expr, $to:ident) => {
        if !($value).is_empty() {
            $to.serialize_entry($key, $value)?;
        }
    };
    (@write list_or_null($key:literal) $value:expr, $to:ident) => {
        $to.serialize_entry($key, &Some($value).filter(|list| !list.is_empty()))?
    };
    (@write flat $value:expr, $to:ident) => { $crate::rep::shape::Shape::write($value, $to)? };
    (@read flat $value:expr, $key:ident, $from:ident) => {
        if $crate::rep::shape::Shape::read($value, $key, $from)? {
            return Ok(true);
        }
    };
    (@read $mode:ident($name:literal) $value:expr, $key:ident, $from:ident) => {
        if $key.eq_ignore_ascii_case($name) {
            *$value = $from.next_value::<Option<_>>()?.unwrap_or_default();
            return Ok(true);
        }
    };
}
pub(super) use shape;

pub(super) fn write<T: Shape, S: Serializer>(object: &T, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    object.write(&mut map)?;
    map.end()
}

pub(super) fn read<'de, T: Shape, D: Deserializer<'de>>(name: &'static str, from: D) -> Result<T, D::Error> {
    from.deserialize_any(ShapeVisitor { name, object: PhantomData })
}

struct ShapeVisitor<T> {
    name: &'static str,
    object: PhantomData<T>,
}

/// Borrowed unless it holds an escape, which no key of ours does.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, T: Shape> Visitor<'de> for ShapeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object ({})", self.name)
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = T::default();
        while let Some(Key(key)) = map.next_key()? {
            if !object.read(&key, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(object)
    }
}

/// A set as Go keeps one: an object whose values say nothing.
pub(super) struct Unit;

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_map(Some(0))?.end()
    }
}
