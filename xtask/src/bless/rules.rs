//! What may not happen to a published message, and what to do instead.
//!
//! A tag belongs to one name and one type for ever, because somewhere there is a client, or a stored record, that was
//! written with it. Old bytes read under a new meaning are not an error anybody sees; they are wrong data.

use super::schema::{Declaration, Schema};
use crate::tidy::Finding;

/// Every way in which `current` breaks what `blessed` promised.
pub(crate) fn broken(blessed: &Schema, current: &Schema) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, before) in &blessed.declarations {
        match current.declarations.get(name) {
            Some(now) if now.kind == before.kind => compare(name, before, now, &mut found),
            Some(now) => {
                let what = format!(
                    "`{name}` was {} {} and is {} {}",
                    article(before),
                    before.kind.word(),
                    article(now),
                    now.kind.word()
                );
                found.push(Finding::new(
                    &now.at.path,
                    now.at.line,
                    what,
                    "give the new one a new name and keep the old",
                ));
            }
            None => {
                let what = format!("removed: the {} `{name}` is published", before.kind.word());
                let instead = "put it back; clients of older releases still send or expect it";
                found.push(Finding::new(&before.at.path, before.at.line, what, instead));
            }
        }
    }
    found
}

/// How much there is in `current` that is not recorded.
pub(crate) fn additions(blessed: &Schema, current: &Schema) -> usize {
    let new_in = |(name, now): (&String, &Declaration)| match blessed.declarations.get(name) {
        None => 1 + now.members.len() + now.reserved.len(),
        Some(before) => {
            let members = now.members.keys().filter(|tag| !before.members.contains_key(tag)).count();
            members + now.reserved.keys().filter(|tag| !before.reserved.contains_key(tag)).count()
        }
    };
    current.declarations.iter().map(new_in).sum()
}

fn article(declaration: &Declaration) -> &'static str {
    if declaration.kind.word().starts_with('e') { "an" } else { "a" }
}

fn compare(name: &str, before: &Declaration, now: &Declaration, found: &mut Vec<Finding>) {
    let word = now.kind.member_word();
    for (tag, old) in &before.members {
        let moved = now.members.iter().find(|(new_tag, new)| *new_tag != tag && new.name == old.name);
        match now.members.get(tag) {
            Some(new) if new.name == old.name => {
                if new.shape != old.shape {
                    let what =
                        format!("retyped: `{name}.{}` ({tag}) was `{}` and is `{}`", old.name, old.shape, new.shape);
                    let instead = "restore the type and add the new form under a new name and tag";
                    found.push(Finding::new(&new.at.path, new.at.line, what, instead));
                }
            }
            Some(new) => {
                let what =
                    format!("reused: {word} tag {tag} of `{name}` belongs to `{}`, not to `{}`", old.name, new.name);
                let instead = "give the new one a tag that was never used, and keep the old name on the old tag";
                found.push(Finding::new(&new.at.path, new.at.line, what, instead));
            }
            None => {
                if let Some((new_tag, new)) = moved {
                    let what = format!("renumbered: {word} `{name}.{}` was {tag} and is {new_tag}", old.name);
                    let instead = format!("restore the number {tag}; order in the file is free, numbers are not");
                    found.push(Finding::new(&new.at.path, new.at.line, what, instead));
                } else if let Some(finding) = removed(name, *tag, old.name.as_str(), now) {
                    found.push(finding);
                }
            }
        }
    }
    for (tag, old) in &before.reserved {
        if let Some(new) = now.members.get(tag) {
            let what = format!("reused: tag {tag} of `{name}` is retired and now given to `{}`", new.name);
            found.push(Finding::new(
                &new.at.path,
                new.at.line,
                what,
                "take a tag that was never used and reserve this one",
            ));
        } else if !now.reserved.contains_key(tag) {
            let what = format!("forgotten: tag {tag} of `{name}` is retired and no longer reserved");
            let instead = format!(
                "put `reserved {tag}; // why` back, or somebody will use it again ({}:{})",
                old.at.path, old.at.line
            );
            found.push(Finding::new(&now.at.path, now.at.line, what, instead));
        }
    }
}

/// A member may go only by leaving a reserved tag with its reason behind.
fn removed(name: &str, tag: i32, member: &str, now: &Declaration) -> Option<Finding> {
    let word = now.kind.member_word();
    match now.reserved.get(&tag) {
        Some(reserved) if reserved.has_reason => None,
        Some(reserved) => {
            let what = format!("removed: tag {tag} of `{name}` was retired without a reason");
            let instead = format!("write it on the line: `reserved {tag}; // removed `{member}`: why, and since when`");
            Some(Finding::new(&reserved.at.path, reserved.at.line, what, instead))
        }
        None => {
            let what = format!("removed: {word} `{name}.{member}` ({tag}) is published");
            let instead = format!("put it back and call it deprecated, or retire it with `reserved {tag}; // why`");
            Some(Finding::new(&now.at.path, now.at.line, what, instead))
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::proto;
    use super::*;

    const BEFORE: &str = "message A {\n  reserved 9; // old\n  string a = 1;\n  repeated uint32 b = 2;\n}\nenum E {\n  X = 0;\n  Y = 1;\n}";

    #[test]
    fn nothing_changed_and_reordering_are_fine() {
        check(BEFORE, &expect![""]);
        check(
            "enum E {\n Y = 1;\n X = 0;\n}\nmessage A {\n repeated uint32 b = 2; string a = 1;\n reserved 9;\n}",
            &expect![""],
        );
    }

    #[test]
    fn additions_are_fine_and_counted() {
        let after = format!(
            "{}\nmessage New {{\n string a = 1;\n}}",
            BEFORE.replace("string a = 1;", "string a = 1; bool c = 3;")
        );
        check(&after, &expect![""]);
        assert_eq!(additions(&schema(BEFORE), &schema(&after)), 3);
        assert_eq!(additions(&schema(BEFORE), &schema(BEFORE)), 0);
    }

    #[test]
    fn removing_a_message_fails() {
        check(
            "message A {\n  reserved 9; // old\n  string a = 1;\n  repeated uint32 b = 2;\n}",
            &expect![[r#"
                a.proto:6: removed: the enum `E` is published — put it back; clients of older releases still send or expect it
            "#]],
        );
    }

    #[test]
    fn removing_a_field_fails_unless_its_tag_is_retired_with_a_reason() {
        check(
            &BEFORE.replace("  string a = 1;\n", ""),
            &expect![[r#"
                a.proto:1: removed: field `A.a` (1) is published — put it back and call it deprecated, or retire it with `reserved 1; // why`
            "#]],
        );
        check(
            &BEFORE.replace("string a = 1;", "reserved 1;"),
            &expect![[r#"
                a.proto:3: removed: tag 1 of `A` was retired without a reason — write it on the line: `reserved 1; // removed `a`: why, and since when`
            "#]],
        );
        check(&BEFORE.replace("string a = 1;", "reserved 1; // removed `a` in 2.0, nobody sent it"), &expect![""]);
    }

    #[test]
    fn removing_an_enum_value_fails() {
        check(
            &BEFORE.replace("  Y = 1;\n", ""),
            &expect![[r#"
                a.proto:6: removed: value `E.Y` (1) is published — put it back and call it deprecated, or retire it with `reserved 1; // why`
            "#]],
        );
    }

    #[test]
    fn renumbering_fails() {
        check(
            &BEFORE.replace("string a = 1;", "string a = 3;"),
            &expect![[r#"
                a.proto:3: renumbered: field `A.a` was 1 and is 3 — restore the number 1; order in the file is free, numbers are not
            "#]],
        );
    }

    #[test]
    fn retyping_fails_also_when_only_the_label_or_the_packing_changes() {
        check(
            &BEFORE.replace("string a = 1;", "bytes a = 1;"),
            &expect![[r#"
                a.proto:3: retyped: `A.a` (1) was `string` and is `bytes` — restore the type and add the new form under a new name and tag
            "#]],
        );
        check(
            &BEFORE.replace("string a = 1;", "optional string a = 1;").replace("b = 2", "b = 2 [packed = false]"),
            &expect![[r#"
                a.proto:3: retyped: `A.a` (1) was `string` and is `optional string` — restore the type and add the new form under a new name and tag
                a.proto:4: retyped: `A.b` (2) was `repeated uint32` and is `unpacked repeated uint32` — restore the type and add the new form under a new name and tag
            "#]],
        );
    }

    #[test]
    fn reusing_a_tag_fails_whether_it_is_in_use_or_retired() {
        check(
            &BEFORE.replace("string a = 1;", "string c = 1;"),
            &expect![[r#"
                a.proto:3: reused: field tag 1 of `A` belongs to `a`, not to `c` — give the new one a tag that was never used, and keep the old name on the old tag
            "#]],
        );
        check(
            &BEFORE.replace("reserved 9; // old", "string c = 9;"),
            &expect![[r#"
                a.proto:2: reused: tag 9 of `A` is retired and now given to `c` — take a tag that was never used and reserve this one
            "#]],
        );
    }

    #[test]
    fn forgetting_a_retired_tag_fails() {
        check(
            &BEFORE.replace("  reserved 9; // old\n", ""),
            &expect![[r#"
                a.proto:1: forgotten: tag 9 of `A` is retired and no longer reserved — put `reserved 9; // why` back, or somebody will use it again (a.proto:2)
            "#]],
        );
    }

    #[test]
    fn a_message_does_not_become_an_enum() {
        check(
            "message A {\n  reserved 9; // old\n  string a = 1;\n  repeated uint32 b = 2;\n}\nmessage E {\n}",
            &expect![[r#"
                a.proto:6: `E` was an enum and is a message — give the new one a new name and keep the old
            "#]],
        );
    }

    fn schema(text: &str) -> Schema {
        proto::parse(&[("a.proto", text)]).unwrap()
    }

    fn check(after: &str, expected: &Expect) {
        let found = broken(&schema(BEFORE), &schema(after));
        expected.assert_eq(&found.iter().map(|finding| format!("{finding}\n")).collect::<String>());
    }
}
