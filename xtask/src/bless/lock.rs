//! The text of `blessed.lock`: one line per message, field, enum value and reserved tag, sorted, so that a diff reads well.
//!
//! ```text
//! message models.VolumeMount
//!   1 string driver
//!   2 reserved
//! ```
//! Nothing else is kept: a comment that moves or a file that is split changes no byte on the wire and no line here.

use super::schema::{Declaration, Kind, Member, Place, Reserved, Schema};
use crate::tidy::Finding;

const HEADER: &str = "\
# The published messages, written by `cargo xtask bless`. A line that is here stays true: adding is free; removing,
# renumbering, retyping and reusing fail `cargo xtask bless --check`. To retire a field, replace it in the .proto file by
# `reserved TAG; // why`. Delete a line by hand only in the change that ends the support of the clients that need it.
";

pub(crate) const ABSENT: &str = "there is no record of what was published";

pub(crate) fn absent(path: &str) -> Finding {
    Finding::new(path, 1, ABSENT, "run `cargo xtask bless` and commit the file; if it was deleted, restore it")
}

pub(crate) fn print(schema: &Schema) -> String {
    let mut text = HEADER.to_owned();
    for (name, declaration) in &schema.declarations {
        text += &format!("{} {name}\n", declaration.kind.word());
        let mut lines: Vec<(i32, String)> = Vec::new();
        for (tag, member) in &declaration.members {
            let shape = if member.shape.is_empty() { String::new() } else { format!("{} ", member.shape) };
            lines.push((*tag, format!("{shape}{}", member.name)));
        }
        lines.extend(declaration.reserved.keys().map(|tag| (*tag, "reserved".to_owned())));
        lines.sort();
        for (tag, rest) in lines {
            text += &format!("  {tag} {rest}\n");
        }
    }
    text
}

pub(crate) fn parse(path: &str, text: &str) -> Result<Schema, Finding> {
    let mut schema = Schema::default();
    let mut current: Option<&mut Declaration> = None;
    for (number, line) in text.lines().enumerate() {
        let at = Place { path: path.to_owned(), line: number + 1 };
        let unreadable = || {
            let instead = "restore the line; this file is written by `cargo xtask bless`";
            Finding::new(path, number + 1, format!("not a line of the record: `{line}`"), instead)
        };
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        if let Some(member) = line.strip_prefix("  ") {
            let declaration = current.as_deref_mut().ok_or_else(unreadable)?;
            read_member(declaration, member, at).ok_or_else(unreadable)?;
        } else {
            let (kind, name) = line.split_once(' ').ok_or_else(unreadable)?;
            let kind = match kind {
                "message" => Kind::Message,
                "enum" => Kind::Enum,
                _ => return Err(unreadable()),
            };
            current = Some(schema.declarations.entry(name.to_owned()).or_insert(Declaration::new(kind, at)));
        }
    }
    Ok(schema)
}

fn read_member(declaration: &mut Declaration, line: &str, at: Place) -> Option<()> {
    let (tag, rest) = line.split_once(' ')?;
    let tag: i32 = tag.parse().ok()?;
    if rest == "reserved" {
        declaration.reserved.insert(tag, Reserved { has_reason: true, at });
        return Some(());
    }
    let (shape, name) = rest.rsplit_once(' ').unwrap_or(("", rest));
    declaration.members.insert(tag, Member { name: name.to_owned(), shape: shape.to_owned(), at });
    Some(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::proto;
    use super::*;

    const PROTO: &str = r#"
        syntax = "proto3";
        package models;
        message Mount {
          reserved 2; // removed in 2.0
          string driver = 1;
          map<string, Mode> modes = 3;
          enum Mode { RO = 0; RW = 1; }
        }
    "#;

    #[test]
    fn the_lock_is_sorted_text() {
        let schema = proto::parse(&[("a.proto", PROTO)]).unwrap();
        expect![[r#"
            message models.Mount
              1 string driver
              2 reserved
              3 map string models.Mount.Mode modes
            enum models.Mount.Mode
              0 RO
              1 RW
        "#]]
        .assert_eq(print(&schema).strip_prefix(HEADER).unwrap());
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let schema = proto::parse(&[("a.proto", PROTO)]).unwrap();
        let read = parse("blessed.lock", &print(&schema)).unwrap();
        assert_eq!(print(&read), print(&schema));
        assert_eq!(read.declarations.len(), 2);
    }

    #[test]
    fn a_line_that_is_not_ours_is_refused_with_its_number() {
        for (text, line) in
            [("  1 string a\n", 1), ("message a\n  x string a\n", 2), ("service a\n", 1), ("message\n", 1)]
        {
            assert_eq!(parse("blessed.lock", text).unwrap_err().line, line, "{text}");
        }
    }
}
