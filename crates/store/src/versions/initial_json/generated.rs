//! JSON for tests, made by rolling dice over the table: any subset of the keys, in any order, with unknown ones between.

use bytes::Bytes;
use proptest::prelude::*;

use super::table::{ACTUAL, DESIRED, Kind, METRIC_TAG_VALUE, Row, Shape, TASK};

/// A key and a value.
pub(in crate::versions) type Record = (String, Bytes);

/// When there are no dice left, every roll is 0, which ends every choice.
struct Dice(std::vec::IntoIter<u8>);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % sides
    }
}

const TEXTS: [&str; 6] = ["", "x", "a b", "<&>é\\n", "\\\"quoted\\\\\\u2028", "\\u0001"];
const NUMBERS: [&str; 5] = ["0", "1", "2147483647", "7", "null"];

fn value(row: &Row, dice: &mut Dice, depth: usize, out: &mut String) {
    if row.many {
        out.push('[');
        for at in 0..dice.roll(3) {
            if at > 0 {
                out.push(',');
            }
            one(row, dice, depth, out);
        }
        out.push(']');
    } else {
        one(row, dice, depth, out);
    }
}

fn one(row: &Row, dice: &mut Dice, depth: usize, out: &mut String) {
    match row.kind {
        Kind::Text => out.push_str(&format!("\"{}\"", TEXTS[dice.roll(TEXTS.len())])),
        Kind::Bytes => out.push_str("\"AAE=\""),
        Kind::Bool => out.push_str(["false", "true", "null"][dice.roll(3)]),
        Kind::Int32 => out.push_str(["0", "-1", "-2147483648", "2147483647"][dice.roll(4)]),
        Kind::Int64 => out.push_str(["0", "-1", "-9223372036854775808", "9223372036854775807"][dice.roll(4)]),
        Kind::Uint32 => out.push_str(NUMBERS[dice.roll(NUMBERS.len())]),
        Kind::Uint64 => out.push_str(["0", "18446744073709551615", "5"][dice.roll(3)]),
        Kind::Enum(names) => match dice.roll(names.len() + 1) {
            0 => out.push_str("99"),
            at => out.push_str(&format!("\"{}\"", names[at - 1].0)),
        },
        Kind::Message(shape) | Kind::Inlined(shape) => object(shape, &[], dice, depth, out),
        Kind::TextMap => out.push_str(["{}", "{\"b\":\"\",\"a\":\"1\"}", "{\"\":null}", "null"][dice.roll(4)]),
        Kind::MessageMap(shape) => {
            out.push('{');
            for at in 0..dice.roll(3) {
                out.push_str(&format!("{}\"{}\":", if at > 0 { "," } else { "" }, 9 - at));
                object(shape, &[], dice, depth, out);
            }
            out.push('}');
        }
        Kind::Routes => out.push_str(["{}", "{\"z\": [1, {\"a\": \" \"}], \"a\": null}", "null"][dice.roll(3)]),
        Kind::Flattened(..) => {}
    }
}

fn object(shape: &'static Shape, fixed: &[(&str, String)], dice: &mut Dice, depth: usize, out: &mut String) {
    let mut members: Vec<String> = fixed.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    let flattened = shape.rows.iter().flat_map(|row| match row.kind {
        Kind::Flattened(part, _) => part.rows.iter(),
        _ => std::slice::from_ref(row).iter(),
    });
    let mut spelled = vec![];
    for row in flattened {
        let taken = fixed.iter().any(|(key, _)| *key == row.key) || row.key.starts_with("corkboard_");
        // A metric tag is one of two things, never both. Two spellings of a key never stand together.
        let other = std::ptr::eq(shape, &METRIC_TAG_VALUE) && !members.is_empty() || spelled.contains(&row.tag);
        if taken || other || depth > 6 || dice.roll(3) == 0 {
            continue;
        }
        if row.tag == 8 {
            spelled.push(row.tag);
        }
        let mut member = format!("\"{}\":", row.key);
        if std::ptr::eq(shape, &METRIC_TAG_VALUE) && row.key == "dynamic" {
            member.push_str("\"INDEX\"");
        } else {
            value(row, dice, depth + 1, &mut member);
        }
        members.push(member);
    }
    for _ in 0..dice.roll(3) {
        if dice.roll(3) == 2 {
            members.push(format!("\"later {}\": [1, {{}}]", members.len()));
        }
    }
    let turn = dice.roll(members.len().max(1));
    members.rotate_left(turn);
    out.push_str(&format!("{{{}}}", members.join(",")));
}

fn record(kind: usize, mut dice: Dice) -> Record {
    let text = |text: &str| format!("\"{text}\"");
    let tag = ("modification_tag", "{\"epoch\":\"e\",\"index\":4}".to_owned());
    let mut json = String::new();
    let key = match kind {
        0 => {
            let fixed = [("process_guid", text("g")), ("domain", text("d")), tag];
            object(&DESIRED, &fixed, &mut dice, 0, &mut json);
            "/v1/desired/g"
        }
        1 => {
            let state = ["UNCLAIMED", "CLAIMED", "RUNNING", "CRASHED"][dice.roll(4)];
            let (presence, key) =
                [("ORDINARY", "instance"), ("EVACUATING", "evacuating"), ("SUSPECT", "suspect")][dice.roll(3)];
            let holder = ["", "x"][dice.roll(2)];
            let fixed = [
                ("process_guid", text("g")),
                ("instance_guid", text(holder)),
                ("cell_id", text(holder)),
                ("index", "3".to_owned()),
                ("domain", text("d")),
                ("state", text(state)),
                ("presence", text(presence)),
                tag,
            ];
            object(&ACTUAL, &fixed, &mut dice, 0, &mut json);
            return (format!("/v1/actual/g/3/{key}"), json.into());
        }
        2 => {
            let fixed =
                [("task_guid", text("t")), ("domain", text("d")), ("state", text("Running")), ("rootfs", text("fs"))];
            object(&TASK, &fixed, &mut dice, 0, &mut json);
            "/v1/task/t"
        }
        _ => {
            json.push_str(["", "{\"name\":\"d\",\"expires_ns\":-5}", "{\"later\":1,\"name\":\"d\"}"][dice.roll(3)]);
            "/v1/domain/d"
        }
    };
    (key.to_owned(), json.into())
}

pub(in crate::versions) fn any_record() -> impl Strategy<Value = Record> {
    (0..4usize, prop::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(kind, dice)| record(kind, Dice(dice.into_iter())))
}
