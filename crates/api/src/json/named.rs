//! Enums by name, in exact case. A number that has no name is printed as text, as Go's `String()` does, and is not
//! read back.

use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess};
use serde::{Serialize, Serializer};

/// An enum of the protocol, implemented by the build script.
pub(crate) trait NamedEnum {
    /// Whether an unknown name is taken as zero instead of being refused.
    const UNKNOWN_IS_ZERO: bool;

    fn name(number: i32) -> Option<&'static str>;

    fn number(name: &str) -> Option<i32>;
}

/// The number of an enum, printed as its name.
pub(crate) struct Named<E> {
    number: i32,
    of: PhantomData<E>,
}

impl<E> Named<E> {
    pub(crate) fn new(number: i32) -> Self {
        Self { number, of: PhantomData }
    }
}

impl<E: NamedEnum> Serialize for Named<E> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match E::name(self.number) {
            Some(name) => to.serialize_str(name),
            None => to.collect_str(&self.number),
        }
    }
}

pub(crate) fn read_named<'de, E: NamedEnum, A: MapAccess<'de>>(from: &mut A) -> Result<i32, A::Error> {
    let Some(name) = from.next_value::<Option<String>>()? else { return Ok(0) };
    match E::number(&name) {
        Some(number) => Ok(number),
        None if E::UNKNOWN_IS_ZERO => Ok(0),
        None => Err(A::Error::custom(format_args!("the name {name:?} is not known here; case matters"))),
    }
}
