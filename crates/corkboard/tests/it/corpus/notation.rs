//! A message as text that a person can read and compare, and back, without losing a byte.
//!
//! ```text
//! error {
//!     type: ResourceNotFound
//!     message: "the requested resource could not be found"
//! }
//! ports: [8080, 61001]
//! 17: "a field that the release does not know"
//! ```
//! Fields stand in the order of the bytes. Bytes that this text could not give back, because they are no message, or
//! written in a way that is allowed and not usual, are shown as `hex 0a05…`.

use std::fmt::Write as _;

use super::schema::{Field, Kind, Schema};

const INDENT: &str = "    ";

/// The text of a message.
pub(super) fn shown(schema: &Schema, message: &str, bytes: &[u8]) -> String {
    let text = entries(schema, message, bytes);
    text.filter(|text| encoded(schema, message, text) == bytes).unwrap_or_else(|| hex(bytes))
}

/// The bytes of a text.
pub(super) fn encoded(schema: &Schema, message: &str, text: &str) -> Vec<u8> {
    if let Some(digits) = text.trim().strip_prefix("hex ") {
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        return (0..digits.len()).step_by(2).map(byte).collect();
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let bytes = encode_until_close(schema, message, &mut lines);
    assert_eq!(lines.next(), None, "a brace too many in:\n{text}");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("hex ".to_owned(), |text, byte| text + &format!("{byte:02x}")) + "\n"
}

fn entries(schema: &Schema, message: &str, mut bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = u32::try_from(key >> 3).ok()?;
        let field = schema.fields(message).iter().find(|field| field.number == number);
        let name = field.map_or(number.to_string(), |field| field.name.clone());
        match key & 7 {
            0 => writeln!(text, "{name}: {}", shown_number(schema, field, varint(&mut bytes)?)).unwrap(),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let value = bytes.split_off(..length)?;
                shown_piece(&mut text, schema, &name, field, value)?;
            }
            _ => return None,
        }
    }
    Some(text)
}

fn shown_number(schema: &Schema, field: Option<&Field>, number: u64) -> String {
    match field.map(|field| &field.kind) {
        Some(Kind::Signed) => number.cast_signed().to_string(),
        Some(Kind::Bool) if number < 2 => (number == 1).to_string(),
        Some(Kind::Enum(name)) => schema.value_name(name, number).map_or(number.to_string(), str::to_owned),
        _ => number.to_string(),
    }
}

fn shown_piece(text: &mut String, schema: &Schema, name: &str, field: Option<&Field>, value: &[u8]) -> Option<()> {
    match field {
        Some(Field { kind: Kind::Message(inner), .. }) => {
            let inside = entries(schema, inner, value)?;
            let lines: String = inside.lines().map(|line| format!("{INDENT}{line}\n")).collect();
            writeln!(text, "{name} {{\n{lines}}}").unwrap();
        }
        Some(field) if field.is_packed => {
            let (mut rest, mut numbers) = (value, Vec::new());
            while !rest.is_empty() {
                numbers.push(shown_number(schema, Some(field), varint(&mut rest)?));
            }
            writeln!(text, "{name}: [{}]", numbers.join(", ")).unwrap();
        }
        _ => writeln!(text, "{name}: {}", quoted(value)).unwrap(),
    }
    Some(())
}

fn encode_until_close<'a>(schema: &Schema, message: &str, lines: &mut impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(line) = lines.next().filter(|line| *line != "}") {
        let (name, value) = match line.strip_suffix(" {") {
            Some(name) => (name, None),
            None => line.split_once(": ").map(|(name, value)| (name, Some(value))).unwrap(),
        };
        let field = schema.fields(message).iter().find(|field| field.name == name);
        let number =
            field.map_or_else(|| name.parse().unwrap_or_else(|_| panic!("{message} has no `{name}`")), |f| f.number);
        let piece = match (value, field) {
            (None, Some(Field { kind: Kind::Message(inner), .. })) => encode_until_close(schema, inner, lines),
            (Some(text), _) if text.starts_with('"') => unquoted(text),
            (Some(list), Some(field)) if list.starts_with('[') => {
                let mut piece = Vec::new();
                let numbers = list.trim_matches(['[', ']']).split(", ").filter(|number| !number.is_empty());
                numbers.for_each(|number| put_varint(&mut piece, read_number(schema, Some(field), number)));
                piece
            }
            (Some(value), _) => {
                put_varint(&mut bytes, u64::from(number) << 3);
                put_varint(&mut bytes, read_number(schema, field, value));
                continue;
            }
            (None, _) => panic!("`{name}` of {message} is no message"),
        };
        put_varint(&mut bytes, u64::from(number) << 3 | 2);
        put_varint(&mut bytes, piece.len() as u64);
        bytes.extend(piece);
    }
    bytes
}

fn read_number(schema: &Schema, field: Option<&Field>, text: &str) -> u64 {
    if let Some(Kind::Enum(name)) = field.map(|field| &field.kind)
        && let Some(number) = schema.value_number(name, text)
    {
        return number;
    }
    match text {
        "true" => 1,
        "false" => 0,
        _ if text.starts_with('-') => text.parse::<i64>().unwrap().cast_unsigned(),
        _ => text.parse().unwrap_or_else(|error| panic!("{text}: {error}")),
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
}

/// Printable text as it is, everything else as `\xNN`.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from('"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => write!(text, "\\{character}").unwrap(),
                '\n' => text += "\\n",
                _ if character.is_control() => {
                    character.to_string().bytes().for_each(|byte| write!(text, "\\x{byte:02x}").unwrap());
                }
                _ => text.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| write!(text, "\\x{byte:02x}").unwrap());
    }
    text + "\""
}

fn unquoted(text: &str) -> Vec<u8> {
    let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_else(|| panic!("{text}"));
    let (mut bytes, mut rest) = (Vec::new(), inside.as_bytes());
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'\\', [b'n', after @ ..]) => {
                bytes.push(b'\n');
                after
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                after
            }
            (b'\\', [literal, after @ ..]) => {
                bytes.push(*literal);
                after
            }
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(message: &str, bytes: &[u8], expected: &Expect) {
        let schema = Schema::read(&super::super::released("0.1"));
        let text = shown(&schema, message, bytes);
        assert_eq!(encoded(&schema, message, &text), bytes, "{text}");
        expected.assert_eq(&text);
    }

    #[test]
    fn what_is_shown_is_every_byte() {
        check(
            "ActualLRPKey",
            b"\x0a\x02pg\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            &expect![[r#"
            process_guid: "pg"
            index: -1
        "#]],
        );
        // An empty sub-message is there; one that is not known is shown by its number.
        check(
            "ActualLRP",
            b"\x0a\x00\x50\x02\x58\x01\x78\x07\x82\x01\x03\"\n\xff",
            &expect![[r#"
            actual_lrp_key {
            }
            presence: SUSPECT
            actual_lrp_internal_routes: 1
            15: 7
            16: "\"\n\xff"
        "#]],
        );
        check(
            "ProtoRoutes",
            b"\x0a\x06\x0a\x01a\x12\x01{",
            &expect![[r#"
            routes {
                key: "a"
                value: "{"
            }
        "#]],
        );
        check(
            "SecurityGroupRule",
            b"\x18\x01\x18\x02\x30\x01",
            &expect![[r#"
            ports: 1
            ports: 2
            log: true
        "#]],
        );
        check("PingResponse", b"", &expect![""]);
    }

    /// A number in more bytes than it takes, a text that is cut off, and a form that the protocol does not use.
    #[test]
    fn what_cannot_be_shown_is_shown_as_bytes() {
        let schema = Schema::read(&super::super::released("0.1"));
        for (bytes, text) in [
            (b"\x08\x81\x00".as_slice(), "hex 088100\n"),
            (b"\x0a\x05a", "hex 0a0561\n"),
            (b"\x0d\x00\x00\x00\x00", "hex 0d00000000\n"),
        ] {
            assert_eq!(shown(&schema, "PingResponse", bytes), text);
            assert_eq!(encoded(&schema, "PingResponse", text), bytes);
        }
    }
}
