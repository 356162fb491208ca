//! JSON into the fields of Diego's wire message, by the table.
//!
//! Promise: one JSON text gives one message, its fields in the order of their numbers, empty ones left out. A key that
//! stands twice, a value of the wrong kind, a number out of range or nesting beyond [`NESTING_MAX`] is a reason that
//! names the key and never shows a value. Keys that the table does not have are kept: those of the record itself beside
//! the message, those of parts that nobody opens as a field of the part. The small parts that are taken apart (modification
//! tags, ports, metric tags, internal routes) have no place for them: there they are passed over.
//!
//! `null` is the same as no key, as it is for Go. The case of a key matters: what Go printed has one spelling.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::fields::{self, close_part, open_part, put_bytes, put_number};
use super::table::{DESIRED, Kind, Row, Shape};
use super::text;

/// Objects and lists inside each other, more than any sensible tree of actions has. The parser's own limit is higher.
pub(super) const NESTING_MAX: usize = 100;
/// Fields that JSON cannot express, as base64 by field number. They replace what the other keys say of these fields.
pub(super) const RAW_KEY: &str = "corkboard_raw_fields";
/// In a part that nobody opens, the JSON object of the keys that the table does not have.
pub(super) const UNKNOWN_KEYS: u32 = 1009;
/// More keys than most objects have.
const PIECES_USUAL: usize = 8;
/// Numbers from here on are ours; those below belong to Diego.
const OWN_TAGS: u32 = 1000;

/// What was read: the message, and the JSON object of unknown keys, or nothing.
#[derive(Debug, PartialEq)]
pub(super) struct Read {
    pub(super) message: Vec<u8>,
    pub(super) unknown: String,
}

pub(super) fn read(shape: &'static Shape, json: &[u8]) -> Result<Read, String> {
    let mut reader = Reader { out: Vec::with_capacity(json.len()), ..Reader::default() };
    let mut parser = serde_json::Deserializer::from_slice(json);
    let object = ObjectSeed { reader: &mut reader, shape, top: true };
    let outcome = object.deserialize(&mut parser).and_then(|()| parser.end());
    if let Err(error) = outcome {
        let place = format!("line {}, column {}", error.line(), error.column());
        return Err(reader.trouble.unwrap_or_else(|| match error.classify() {
            Category::Data => format!("a value is not of the kind that its key needs ({place})"),
            _ => format!("it is not JSON ({place})"),
        }));
    }
    let message = replace(shape, reader.out, &reader.raw)?;
    Ok(Read { message, unknown: reader.unknown.close() })
}

/// Puts the fields that were given raw into the message.
fn replace(shape: &Shape, message: Vec<u8>, raw: &BTreeMap<u32, Vec<u8>>) -> Result<Vec<u8>, String> {
    if raw.is_empty() {
        return Ok(message);
    }
    let mut all = fields::split(&message).unwrap_or_default();
    all.retain(|field| !raw.contains_key(&field.tag));
    for (tag, bytes) in raw {
        let known = shape.rows.iter().any(|row| row.tag == *tag) || std::ptr::eq(shape, &DESIRED) && *tag < OWN_TAGS;
        let given = fields::split(bytes).filter(|given| known && given.iter().all(|field| field.tag == *tag));
        all.extend(given.ok_or_else(|| format!("its key {RAW_KEY} has something that is not field {tag}"))?);
    }
    Ok(fields::join(all))
}

#[derive(Default)]
struct Reader {
    out: Vec<u8>,
    path: Vec<&'static str>,
    nesting: usize,
    trouble: Option<String>,
    unknown: Unknown,
    raw: BTreeMap<u32, Vec<u8>>,
}

impl Reader {
    /// The first reason counts. The parser's own error would show the value, so it is never shown.
    fn wrong<E: Error>(&mut self, what: &str) -> E {
        if self.trouble.is_none() {
            self.trouble = Some(match self.path.as_slice() {
                [] => format!("the record {what}"),
                path => format!("its key {} {what}", path.join(".")),
            });
        }
        E::custom("refused")
    }

    fn nest<T, E: Error>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        if self.nesting == NESTING_MAX {
            return Err(self.wrong(&format!("is nested more than {NESTING_MAX} levels deep")));
        }
        self.nesting += 1;
        let result = inside(self);
        self.nesting -= 1;
        result
    }

    fn base64<E: Error>(&mut self, text: &str) -> Result<Vec<u8>, E> {
        STANDARD.decode(text).map_err(|_| self.wrong("is not base64"))
    }
}

/// Unknown keys as the text of an object that is not yet closed.
#[derive(Default)]
struct Unknown {
    keys: BTreeMap<String, ()>,
    text: String,
}

impl Unknown {
    /// False when the key was there before.
    fn add(&mut self, key: String, value: &RawValue) -> bool {
        self.text.push(if self.keys.is_empty() { '{' } else { ',' });
        text::put_string(&key, &mut self.text);
        self.text.push(':');
        text::put_compact(value.get(), &mut self.text);
        self.keys.insert(key, ()).is_none()
    }

    fn close(mut self) -> String {
        if !self.keys.is_empty() {
            self.text.push('}');
        }
        self.text
    }
}

/// Where the fields of one key lie. `inner` is not zero when they belong into the part with number `group`.
struct Piece {
    group: u32,
    inner: u32,
    from: usize,
    to: usize,
}

enum Found {
    Row(&'static Row, u32, u32),
    Unknown(String),
}

struct KeySeed(&'static Shape);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Found;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Found, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Found, E> {
        for row in self.0.rows {
            if let Kind::Flattened(part, _) = row.kind {
                if let Some(inner) = part.rows.iter().find(|inner| inner.key == key) {
                    return Ok(Found::Row(inner, row.tag, inner.tag));
                }
            } else if row.key == key {
                return Ok(Found::Row(row, row.tag, 0));
            }
        }
        Ok(Found::Unknown(key.to_owned()))
    }
}

struct ObjectSeed<'r> {
    reader: &'r mut Reader,
    shape: &'static Shape,
    top: bool,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if self.top { Err(self.reader.wrong("is not an object")) } else { Ok(()) }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let Self { reader, shape, top } = self;
        reader.nest(|reader| read_object(reader, shape, top, map))
    }
}

/// Appends the fields of an object to the reader's message.
fn read_object<'de, A: MapAccess<'de>>(
    reader: &mut Reader,
    shape: &'static Shape,
    top: bool,
    mut map: A,
) -> Result<(), A::Error> {
    let start = reader.out.len();
    let mut pieces: Vec<Piece> = Vec::with_capacity(shape.rows.len().min(PIECES_USUAL));
    let mut unknown = Unknown::default();
    while let Some(found) = map.next_key_seed(KeySeed(shape))? {
        match found {
            Found::Row(row, group, inner) => {
                reader.path.push(row.key);
                if pieces.iter().any(|piece| (piece.group, piece.inner) == (group, inner)) {
                    return Err(reader.wrong("stands twice in its object"));
                }
                let from = reader.out.len();
                map.next_value_seed(ValueSeed { reader, row, element: false })?;
                pieces.push(Piece { group, inner, from, to: reader.out.len() });
                reader.path.pop();
            }
            Found::Unknown(key) if top && key == RAW_KEY => read_raw(reader, &mut map)?,
            Found::Unknown(key) if top || shape.keeps_unknown => {
                if !unknown.add(key, map.next_value::<&RawValue>()?) {
                    return Err(reader.wrong("has an unknown key twice"));
                }
            }
            Found::Unknown(_) => drop(map.next_value::<IgnoredAny>()?),
        }
    }
    fill(shape, &mut reader.out, &mut pieces);
    if top {
        reader.unknown = unknown;
    } else if !unknown.keys.is_empty() {
        let from = reader.out.len();
        put_bytes(UNKNOWN_KEYS, unknown.close().as_bytes(), &mut reader.out);
        pieces.push(Piece { group: UNKNOWN_KEYS, inner: 0, from, to: reader.out.len() });
    }
    arrange(shape, start, pieces, &mut reader.out);
    Ok(())
}

fn read_raw<'de, A: MapAccess<'de>>(reader: &mut Reader, map: &mut A) -> Result<(), A::Error> {
    reader.path.push(RAW_KEY);
    let given: BTreeMap<u32, String> = map.next_value()?;
    for (tag, text) in given {
        let bytes = reader.base64(&text)?;
        if reader.raw.insert(tag, bytes).is_some() {
            return Err(reader.wrong("stands twice in its object"));
        }
    }
    reader.path.pop();
    Ok(())
}

/// Gives the newer field its value when only the older one was there.
fn fill(shape: &Shape, out: &mut Vec<u8>, pieces: &mut Vec<Piece>) {
    let Some(fill) = &shape.fill else { return };
    let piece_of = |tag| pieces.iter().find(|piece| piece.group == tag && piece.from < piece.to);
    let (None, Some(older)) = (piece_of(fill.to), piece_of(fill.from)) else { return };
    let older = fields::split(&out[older.from..older.to]).and_then(|fields| fields.first()?.number());
    let newer = older.map_or(0, |older| older.cast_signed().saturating_mul(fill.times) / fill.over);
    if newer != 0 {
        let from = out.len();
        put_number(fill.to, newer.cast_unsigned(), out);
        pieces.push(Piece { group: fill.to, inner: 0, from, to: out.len() });
    }
}

/// Brings what was read since `start` into the order of field numbers, and flattened parts into their messages.
fn arrange(shape: &Shape, start: usize, mut pieces: Vec<Piece>, out: &mut Vec<u8>) {
    for row in shape.rows {
        if matches!(row.kind, Kind::Flattened(_, true)) {
            pieces.push(Piece { group: row.tag, inner: u32::MAX, from: start, to: start });
        }
    }
    let arranged = pieces.iter().all(|piece| piece.inner == 0) && pieces.is_sorted_by_key(|piece| piece.group);
    if arranged {
        return;
    }
    pieces.sort_by_key(|piece| (piece.group, piece.inner));
    let read = out.split_off(start);
    for group in pieces.chunk_by(|a, b| a.group == b.group) {
        let part = (group[0].inner != 0).then(|| open_part(group[0].group, out));
        for piece in group {
            out.extend_from_slice(&read[piece.from - start..piece.to - start]);
        }
        if let Some(part) = part {
            close_part(part, out);
        }
    }
}

/// The value of one key, or an element of its list.
struct ValueSeed<'r> {
    reader: &'r mut Reader,
    row: &'static Row,
    element: bool,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl ValueSeed<'_> {
    /// Whether a list is expected here and something else came.
    fn list_missing(&self) -> bool {
        self.row.many && !self.element
    }

    fn number<E: Error>(self, number: i128) -> Result<(), E> {
        let (least, most) = match self.row.kind {
            _ if self.list_missing() => return Err(self.reader.wrong("is not a list")),
            Kind::Int32 | Kind::Enum(_) => (i32::MIN.into(), i32::MAX.into()),
            Kind::Int64 => (i64::MIN.into(), i64::MAX.into()),
            Kind::Uint32 => (0, u32::MAX.into()),
            Kind::Uint64 => (0, u64::MAX.into()),
            _ => return Err(self.reader.wrong("is a number, which it must not be")),
        };
        if !(least..=most).contains(&number) {
            return Err(self.reader.wrong("is a number out of range"));
        }
        if number != 0 || self.element || self.row.explicit {
            // Negative numbers take ten bytes, whatever their width: the upper bits are cut off on purpose.
            put_number(self.row.tag, number as u64, &mut self.reader.out);
        }
        Ok(())
    }

    fn bytes(self, bytes: &[u8]) {
        if !bytes.is_empty() || self.element || self.row.explicit {
            put_bytes(self.row.tag, bytes, &mut self.reader.out);
        }
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value of a key")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        let (tag, out) = (self.row.tag, &mut self.reader.out);
        match self.row.kind {
            _ if !self.element => {}
            Kind::Text | Kind::Bytes | Kind::Message(_) => put_bytes(tag, &[], out),
            _ => put_number(tag, 0, out),
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.row.kind {
            Kind::Bool if !self.list_missing() => {
                if value || self.element || self.row.explicit {
                    put_number(self.row.tag, value.into(), &mut self.reader.out);
                }
                Ok(())
            }
            _ => Err(self.reader.wrong("is true or false, which it must not be")),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.number(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.number(number.into())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Err(self.reader.wrong("is a number that is not whole or out of range"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.row.kind {
            _ if self.list_missing() => return Err(self.reader.wrong("is not a list")),
            Kind::Text => self.bytes(text.as_bytes()),
            Kind::Bytes => {
                let bytes = self.reader.base64(text)?;
                self.bytes(&bytes);
            }
            Kind::Enum(names) => match names.iter().find(|(name, _)| *name == text) {
                Some((_, number)) => self.number((*number).into())?,
                None => return Err(self.reader.wrong("has a name that this version does not know")),
            },
            _ => return Err(self.reader.wrong("is text, which it must not be")),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { reader, row, element } = self;
        if element || !row.many {
            return Err(reader.wrong("is a list, which it must not be"));
        }
        reader.nest(|reader| {
            while list.next_element_seed(ValueSeed { reader: &mut *reader, row, element: true })?.is_some() {}
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let list_missing = self.list_missing();
        let Self { reader, row, .. } = self;
        reader.nest(|reader| match row.kind {
            _ if list_missing => Err(reader.wrong("is not a list")),
            Kind::Message(shape) => {
                let part = open_part(row.tag, &mut reader.out);
                read_object(reader, shape, false, map)?;
                close_part(part, &mut reader.out);
                Ok(())
            }
            Kind::Inlined(shape) => read_object(reader, shape, false, map),
            Kind::TextMap => {
                let entries = entries(reader, map, |_, map| {
                    Ok(map.next_value::<Option<String>>()?.unwrap_or_default().into_bytes())
                })?;
                put_entries(row.tag, &entries, &mut reader.out);
                Ok(())
            }
            Kind::MessageMap(shape) => {
                let entries = entries(reader, map, |reader, map| {
                    let from = reader.out.len();
                    map.next_value_seed(ObjectSeed { reader, shape, top: false })?;
                    Ok(reader.out.split_off(from))
                })?;
                put_entries(row.tag, &entries, &mut reader.out);
                Ok(())
            }
            Kind::Routes => {
                let entries = entries(reader, map, |_, map| {
                    let mut route = String::new();
                    text::put_compact(map.next_value::<&RawValue>()?.get(), &mut route);
                    Ok(route.into_bytes())
                })?;
                if !entries.is_empty() {
                    let part = open_part(row.tag, &mut reader.out);
                    put_entries(1, &entries, &mut reader.out);
                    close_part(part, &mut reader.out);
                }
                Ok(())
            }
            _ => Err(reader.wrong("is an object, which it must not be")),
        })
    }
}

fn entries<'de, A: MapAccess<'de>>(
    reader: &mut Reader,
    mut map: A,
    mut value: impl FnMut(&mut Reader, &mut A) -> Result<Vec<u8>, A::Error>,
) -> Result<BTreeMap<String, Vec<u8>>, A::Error> {
    let mut entries = BTreeMap::new();
    while let Some(key) = map.next_key::<String>()? {
        let value = value(reader, &mut map)?;
        match entries.entry(key) {
            Entry::Vacant(free) => drop(free.insert(value)),
            Entry::Occupied(_) => return Err(reader.wrong("has one of its entries twice")),
        }
    }
    Ok(entries)
}

/// As protobuf writes maps: an empty key or value is left out of its entry.
fn put_entries(tag: u32, entries: &BTreeMap<String, Vec<u8>>, out: &mut Vec<u8>) {
    for (key, value) in entries {
        let entry = open_part(tag, out);
        for (tag, bytes) in [(1, key.as_bytes()), (2, value.as_slice())] {
            if !bytes.is_empty() {
                put_bytes(tag, bytes, out);
            }
        }
        close_part(entry, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Shown;
    use super::super::table::{ACTUAL, DESIRED, TASK};

    #[test]
    fn rows_that_share_a_number_are_older_spellings() {
        for shape in [&DESIRED, &ACTUAL, &TASK] {
            for (at, row) in shape.rows.iter().enumerate() {
                let first = shape.rows.iter().position(|other| other.tag == row.tag);
                assert_eq!(first != Some(at), row.shown == Shown::Never, "{}", row.key);
            }
        }
    }
}
