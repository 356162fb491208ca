//! A small sorted map in one allocation.
//!
//! A board holds hundreds of thousands of records, each with two or three maps of a few short entries. As `BTreeMap`s they
//! were a third of all memory and most of the allocations at start-up. Packed, a map is one shared slice: cloning a record
//! copies a pointer, and comparing two maps compares bytes.
//!
//! Layout of an entry: length of the key and of the value (4 bytes each, little endian), key, value; entries in key order.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

/// Room for an entry with a short name and a guid, so that a usual map is packed without growing its buffer.
const ENTRY_USUAL_BYTES: usize = 64;
/// More room than this is not asked for in advance.
const ENTRIES_EXPECTED_MAX: usize = 32;

/// What can be a value in a packed map.
pub trait PackedValue {
    type Ref<'a>;
    fn put(&self, bytes: &mut Vec<u8>);
    /// Reads back what `put` wrote.
    fn read(bytes: &[u8]) -> Self::Ref<'_>;
}

impl PackedValue for String {
    type Ref<'a> = &'a str;

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.as_bytes());
    }

    fn read(bytes: &[u8]) -> &str {
        // What was put in was text. An empty answer is better than a panic if that should ever not hold.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl PackedValue for Bytes {
    type Ref<'a> = &'a [u8];

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn read(bytes: &[u8]) -> &[u8] {
        bytes
    }
}

pub struct Packed<V> {
    /// `None` when there is no entry, so that empty maps cost nothing.
    bytes: Option<Arc<[u8]>>,
    values: PhantomData<fn() -> V>,
}

impl<V: PackedValue> Packed<V> {
    pub fn iter(&self) -> impl Iterator<Item = (&str, V::Ref<'_>)> {
        let mut rest = self.bytes.as_deref().unwrap_or_default();
        std::iter::from_fn(move || {
            let (lengths, after) = rest.split_first_chunk::<8>()?;
            let [a, b, c, d, e, f, g, h] = *lengths;
            let key_len = u32::from_le_bytes([a, b, c, d]) as usize;
            let value_len = u32::from_le_bytes([e, f, g, h]) as usize;
            let (key, after) = after.split_at_checked(key_len)?;
            let (value, after) = after.split_at_checked(value_len)?;
            rest = after;
            Some((String::read(key), V::read(value)))
        })
    }

    pub fn get(&self, key: &str) -> Option<V::Ref<'_>> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_none()
    }
}

impl<V: PackedValue> Packed<V> {
    /// Of entries that come in the order of their keys, each key once, as a map gives them. The first error ends it.
    ///
    /// Collecting works for any order, but sorts the entries into a map first; loading a board must not pay for that.
    pub fn try_from_sorted<E>(entries: impl Iterator<Item = Result<(String, V), E>>) -> Result<Self, E> {
        let mut bytes = Vec::with_capacity(entries.size_hint().0.min(ENTRIES_EXPECTED_MAX) * ENTRY_USUAL_BYTES);
        let mut last: Option<String> = None;
        for entry in entries {
            let (key, value) = entry?;
            debug_assert!(last.as_ref().is_none_or(|last| *last < key), "entries are sorted and unique");
            let lengths_at = bytes.len();
            bytes.extend_from_slice(&[0; 8]);
            bytes.extend_from_slice(key.as_bytes());
            let value_at = bytes.len();
            value.put(&mut bytes);
            // Requests are far smaller than 4 GB, so lengths fit.
            let key_len = u32::try_from(key.len()).unwrap_or(u32::MAX);
            let value_len = u32::try_from(bytes.len() - value_at).unwrap_or(u32::MAX);
            bytes[lengths_at..lengths_at + 4].copy_from_slice(&key_len.to_le_bytes());
            bytes[lengths_at + 4..lengths_at + 8].copy_from_slice(&value_len.to_le_bytes());
            last = Some(key);
        }
        Ok(Self { bytes: (!bytes.is_empty()).then(|| bytes.into()), values: PhantomData })
    }
}

impl<V: PackedValue> FromIterator<(String, V)> for Packed<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(entries: I) -> Self {
        BTreeMap::from_iter(entries).into()
    }
}

impl<V: PackedValue> From<BTreeMap<String, V>> for Packed<V> {
    fn from(entries: BTreeMap<String, V>) -> Self {
        let Ok(packed) = Self::try_from_sorted(entries.into_iter().map(Ok::<_, Infallible>));
        packed
    }
}

impl<V: PackedValue, const N: usize> From<[(String, V); N]> for Packed<V> {
    fn from(entries: [(String, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<V> Default for Packed<V> {
    fn default() -> Self {
        Self { bytes: None, values: PhantomData }
    }
}

impl<V> Clone for Packed<V> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), values: PhantomData }
    }
}

impl<V> PartialEq for Packed<V> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<V> Eq for Packed<V> {}

impl<V: PackedValue> fmt::Debug for Packed<V>
where
    for<'a> V::Ref<'a>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_packed_map_reads_back_as_the_map_it_was_made_of(
            map in prop::collection::btree_map(".{0,12}", ".{0,40}", 0..8),
            other in prop::collection::btree_map(".{0,2}", ".{0,2}", 0..3),
        ) {
            let packed = Packed::from(map.clone());
            let read: BTreeMap<_, _> = packed.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            prop_assert_eq!(&read, &map);
            prop_assert_eq!(packed.len(), map.len());
            prop_assert_eq!(packed.is_empty(), map.is_empty());
            for (key, value) in &map {
                prop_assert_eq!(packed.get(key), Some(value.as_str()));
            }
            prop_assert_eq!(packed == Packed::from(other.clone()), map == other);
        }
    }
}
