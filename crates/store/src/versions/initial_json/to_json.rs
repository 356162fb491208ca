//! The fields of Diego's wire message as the JSON that Diego printed, by the table.
//!
//! Promise: what is written reads back as the same message, always. JSON cannot express everything (a field that the
//! table does not have, a text that is not UTF-8, fields in another order), so what was written is read again, and every
//! field that would come back different is written a second time, raw, under [`RAW_KEY`].

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::fields::{self, Field};
use super::from_json::{self, NESTING_MAX, RAW_KEY, UNKNOWN_KEYS};
use super::table::{Kind, Row, Shape, Shown};
use super::text::put_string;

/// `unknown` is an object of keys that the table does not have, or empty.
pub(super) fn write(shape: &'static Shape, message: &[u8], unknown: &str) -> String {
    let mut json = String::with_capacity(2 * message.len() + 64);
    json.push('{');
    put_members(shape, &fields::split(message).unwrap_or_default(), 0, &mut json);
    json.push('}');
    let raw = match from_json::read(shape, json.as_bytes()) {
        Ok(read) if read.message == message => BTreeMap::new(),
        Ok(read) => differing(message, &read.message),
        Err(_) => {
            json = "{}".to_owned();
            differing(message, &[])
        }
    };
    json.pop();
    if !raw.is_empty() {
        put_key(RAW_KEY, &mut json);
        json.push('{');
        for (tag, bytes) in raw {
            put_key(&tag.to_string(), &mut json);
            put_string(&STANDARD.encode(bytes), &mut json);
        }
        json.push('}');
    }
    put_inside(unknown, &mut json);
    json.push('}');
    json
}

/// The fields of `message`, by number, that are others in `read`. Nothing stands for a field that is only in `read`.
fn differing(message: &[u8], read: &[u8]) -> BTreeMap<u32, Vec<u8>> {
    let (wanted, read) = (by_tag(message), by_tag(read));
    let tags: BTreeSet<u32> = wanted.keys().chain(read.keys()).copied().collect();
    let other = tags.into_iter().filter(|tag| wanted.get(tag) != read.get(tag));
    other.map(|tag| (tag, wanted.get(&tag).cloned().unwrap_or_default())).collect()
}

fn by_tag(message: &[u8]) -> BTreeMap<u32, Vec<u8>> {
    let mut groups: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for field in fields::split(message).unwrap_or_default() {
        groups.entry(field.tag).or_default().extend_from_slice(field.raw);
    }
    groups
}

/// The key, and the comma before it when it is not the first of its object.
fn put_key(key: &str, out: &mut String) {
    put_comma(out);
    put_string(key, out);
    out.push(':');
}

fn put_comma(out: &mut String) {
    if !out.ends_with(['{', '[']) {
        out.push(',');
    }
}

/// The members of an object that is text already.
fn put_inside(object: &str, out: &mut String) {
    if let Some(members) = object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).filter(|it| !it.is_empty())
    {
        put_comma(out);
        out.push_str(members);
    }
}

fn put_members(shape: &Shape, fields: &[Field<'_>], nesting: usize, out: &mut String) {
    for row in shape.rows {
        if row.shown == Shown::Never {
            continue;
        }
        match row.kind {
            Kind::Flattened(part, always) => match fields::last(fields, row.tag) {
                Some(field) => {
                    let inner = field.bytes().and_then(fields::split).unwrap_or_default();
                    put_members(part, &inner, nesting, out);
                }
                None if always => put_members(part, &[], nesting, out),
                None => {}
            },
            _ => put_row(row, fields, nesting, out),
        }
    }
    if let Some(unknown) = fields::last(fields, UNKNOWN_KEYS).filter(|_| shape.keeps_unknown)
        && serde_json::from_slice::<BTreeMap<String, &RawValue>>(unknown.bytes().unwrap_or_default()).is_ok()
    {
        put_inside(unknown.text().unwrap_or_default(), out);
    }
}

fn put_row(row: &Row, fields: &[Field<'_>], nesting: usize, out: &mut String) {
    let before = out.len();
    put_key(row.key, out);
    let value = out.len();
    let is_empty = put_value(row, fields, nesting, out);
    if is_empty && row.shown == Shown::UnlessEmpty {
        out.truncate(before);
    } else if out.len() == value {
        out.push_str("null");
    }
}

/// Writes a value, or nothing for `null`. True when `omitempty` would leave it out.
fn put_value(row: &Row, fields: &[Field<'_>], nesting: usize, out: &mut String) -> bool {
    let mut of_row = fields.iter().filter(|field| field.tag == row.tag);
    match row.kind {
        Kind::Routes | Kind::TextMap | Kind::MessageMap(_) => put_map(row, fields, nesting, out),
        Kind::Inlined(shape) => {
            let found = of_row.next().is_some();
            if found {
                put_object(shape, fields, nesting, out);
            }
            !found
        }
        _ if row.many => {
            let mut count = 0;
            for field in of_row {
                out.push(if count == 0 { '[' } else { ',' });
                put_one(row, Some(field), nesting + 1, out);
                count += 1;
            }
            if count > 0 {
                out.push(']');
            }
            count == 0
        }
        Kind::Message(_) => {
            let field = of_row.next_back();
            if field.is_some() {
                put_one(row, field, nesting, out);
            }
            field.is_none()
        }
        _ => {
            let field = of_row.next_back();
            let is_zero = put_one(row, field, nesting, out);
            is_zero && !(row.explicit && field.is_some())
        }
    }
}

fn put_object(shape: &Shape, fields: &[Field<'_>], nesting: usize, out: &mut String) {
    out.push('{');
    if nesting < NESTING_MAX {
        put_members(shape, fields, nesting + 1, out);
    }
    out.push('}');
}

/// A single value. True when it is zero or empty.
fn put_one(row: &Row, field: Option<&Field<'_>>, nesting: usize, out: &mut String) -> bool {
    let number = field.and_then(Field::number).unwrap_or_default();
    let bytes = field.and_then(Field::bytes).unwrap_or_default();
    match row.kind {
        Kind::Text => put_string(&String::from_utf8_lossy(bytes), out),
        Kind::Bytes => put_string(&STANDARD.encode(bytes), out),
        Kind::Bool => out.push_str(if number == 0 { "false" } else { "true" }),
        Kind::Int64 => out.push_str(&number.cast_signed().to_string()),
        Kind::Uint64 => out.push_str(&number.to_string()),
        // What does not fit is cut here, noticed when it is read again, and kept raw.
        Kind::Int32 => out.push_str(&(number as i32).to_string()),
        Kind::Uint32 => out.push_str(&(number as u32).to_string()),
        Kind::Enum(names) => {
            let number = number as i32;
            match names.iter().find(|(_, known)| *known == number) {
                Some((name, _)) => put_string(name, out),
                None => out.push_str(&number.to_string()),
            }
        }
        Kind::Message(shape) => put_object(shape, &fields::split(bytes).unwrap_or_default(), nesting, out),
        Kind::Flattened(..) | Kind::Inlined(_) | Kind::TextMap | Kind::MessageMap(_) | Kind::Routes => {}
    }
    number == 0 && bytes.is_empty()
}

/// Entries in the order of their keys. What is no entry, or no JSON where JSON is needed, is left out here and kept raw.
fn put_map(row: &Row, fields: &[Field<'_>], nesting: usize, out: &mut String) -> bool {
    let routes = fields::last(fields, row.tag).and_then(Field::bytes).and_then(fields::split).unwrap_or_default();
    let of_map: Vec<&Field<'_>> = match row.kind {
        Kind::Routes => routes.iter().filter(|field| field.tag == 1).collect(),
        _ => fields.iter().filter(|field| field.tag == row.tag).collect(),
    };
    let mut entries: BTreeMap<&str, &[u8]> = BTreeMap::new();
    for entry in of_map.into_iter().filter_map(|field| field.bytes().and_then(fields::split)) {
        let key = fields::last(&entry, 1).map_or(Some(""), Field::text);
        let value = fields::last(&entry, 2).map_or(Some([].as_slice()), Field::bytes);
        if let (Some(key), Some(value)) = (key, value) {
            entries.insert(key, value);
        }
    }
    if matches!(row.kind, Kind::Routes) {
        entries.retain(|_, value| serde_json::from_slice::<&RawValue>(value).is_ok());
    }
    if entries.is_empty() {
        return true;
    }
    out.push('{');
    for (key, value) in entries {
        put_key(key, out);
        match row.kind {
            Kind::MessageMap(shape) => put_object(shape, &fields::split(value).unwrap_or_default(), nesting + 1, out),
            Kind::Routes => out.push_str(&String::from_utf8_lossy(value)),
            _ => put_string(&String::from_utf8_lossy(value), out),
        }
    }
    out.push('}');
    false
}
