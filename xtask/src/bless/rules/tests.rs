//! Every rule as a pair of files, before and after, and what it says; beside each refusal stands a neighbour that is free.

use std::fmt::Write as _;

use expect_test::expect_file;

use super::super::proto;
use super::*;

/// What the fields below refer to.
const BESIDE: &str =
    "message B {\n  int32 b = 1; // json: b\n}\nmessage C {}\nenum E {\n  ZERO = 0;\n}\nenum F {\n  NONE = 0;\n}";

/// A text without a brace is the body of a message `A`.
fn schema(text: &str) -> Schema {
    let text = if text.contains('{') { text.to_owned() } else { format!("message A {{\n{text}\n}}\n{BESIDE}") };
    proto::parse(&[("a.proto", &text)]).unwrap()
}

/// When you add one: its neighbour too. The first word of the title is the rule, or `free`.
const CASES: &[(&str, &str, &str)] = &[
    ("free: nothing changed", "string a = 1; // json: a", "string a = 1; // json: a"),
    (
        "free: order and remarks",
        "string a = 1; // json: a\nbool b = 2; // json: b",
        "bool b = 2; // json: b; said\nstring a = 1; // json: a",
    ),
    ("free: a field is added", "string a = 1; // json: a", "string a = 1; // json: a\nbool b = 2; // json: b"),
    ("free: a message is added", "message A {}", "message A {}\nmessage B {}"),
    ("removed: without a trace", "string a = 1; // json: a\nbool b = 2; // json: b", "bool b = 2; // json: b"),
    ("unexplained: reserved without a reason", "string a = 1; // json: a", "reserved 1;"),
    ("free: reserved with a reason", "string a = 1; // json: a", "reserved 1; // removed `a`: nobody sent it"),
    ("renumbered", "string a = 1; // json: a", "string a = 3; // json: a"),
    (
        "renumbered: two swapped",
        "string a = 1; // json: a\nstring b = 2; // json: b",
        "string a = 2; // json: a\nstring b = 1; // json: b",
    ),
    (
        "free: retired, and the same under a new name",
        "string a = 1; // json: a",
        "reserved 1; // removed `a`: too short\nstring long = 2; // json: long",
    ),
    ("retyped: wider", "int32 a = 1; // json: a", "int64 a = 1; // json: a"),
    ("retyped: narrower", "uint64 a = 1; // json: a", "uint32 a = 1; // json: a"),
    ("retyped: signed", "uint32 a = 1; // json: a", "int32 a = 1; // json: a"),
    ("retyped: zigzag", "int32 a = 1; // json: a", "sint32 a = 1; // json: a"),
    ("retyped: zigzag, wider", "sint32 a = 1; // json: a", "sint64 a = 1; // json: a"),
    ("retyped: fixed and signed", "fixed32 a = 1; // json: a", "sfixed32 a = 1; // json: a"),
    ("retyped: fixed and wider", "fixed32 a = 1; // json: a", "fixed64 a = 1; // json: a"),
    ("retyped: fixed", "int32 a = 1; // json: a", "fixed32 a = 1; // json: a"),
    ("retyped: float", "float a = 1; // json: a", "double a = 1; // json: a"),
    ("retyped: bool to number", "bool a = 1; // json: a", "uint32 a = 1; // json: a"),
    ("retyped: enum to number", "E a = 1; // json: a", "int32 a = 1; // json: a"),
    ("retyped: enum to enum", "E a = 1; // json: a", "F a = 1; // json: a"),
    ("retyped: text to bytes", "string a = 1; // json: a", "bytes a = 1; // json: a"),
    ("retyped: text to number", "string a = 1; // json: a", "int32 a = 1; // json: a"),
    ("retyped: bytes to message", "bytes a = 1; // json: a", "B a = 1; // json: a"),
    ("retyped: message to message", "B a = 1; // json: a", "C a = 1; // json: a"),
    (
        "free: another spelling of the type",
        "package m; message A {\n  E e = 1; // json: e\n  enum E { X = 0; }\n}",
        "package m; message A {\n  .m.A.E e = 1; // json: e\n  enum E { X = 0; }\n}",
    ),
    ("retyped: one to many", "int32 a = 1; // json: a", "repeated int32 a = 1; // json: a"),
    ("retyped: many to one", "repeated B a = 1; // json: a", "B a = 1; // json: a"),
    ("retyped: presence", "int32 a = 1; // json: a", "optional int32 a = 1; // json: a"),
    ("retyped: no presence", "optional int32 a = 1; // json: a", "int32 a = 1; // json: a"),
    ("free: presence of a message", "B a = 1; // json: a", "optional B a = 1; // json: a"),
    ("retyped: list to map", "repeated B a = 1; // json: a", "map<string, B> a = 1; // json: a"),
    ("retyped: key of a map", "map<string, B> a = 1; // json: a", "map<int32, B> a = 1; // json: a"),
    ("retyped: value of a map", "map<string, string> a = 1; // json: a", "map<string, B> a = 1; // json: a"),
    (
        "retyped: into a oneof",
        "message A {\n  string a = 1; // json: a\n}",
        "message A {\n  oneof o {\n    string a = 1; // json: a\n  }\n}",
    ),
    (
        "retyped: out of a oneof",
        "message A {\n  oneof o {\n    string a = 1; // json: a\n  }\n}",
        "message A {\n  string a = 1; // json: a\n}",
    ),
    (
        "retyped: into another oneof",
        "message A {\n  oneof o {\n    string a = 1; // json: a\n  }\n}",
        "message A {\n  oneof p {\n    string a = 1; // json: a\n  }\n}",
    ),
    (
        "free: a oneof gets another field",
        "message A {\n  oneof o {\n    string a = 1; // json: a\n  }\n}",
        "message A {\n  oneof o {\n    string a = 1; // json: a\n    string b = 2; // json: b\n  }\n}",
    ),
    ("retyped: unpacked", "repeated uint32 a = 1; // json: a", "repeated uint32 a = 1 [packed = false]; // json: a"),
    ("retyped: packed", "repeated uint32 a = 1 [packed = false]; // json: a", "repeated uint32 a = 1; // json: a"),
    (
        "free: packed, and said so",
        "repeated uint32 a = 1; // json: a",
        "repeated uint32 a = 1 [packed = true]; // json: a",
    ),
    ("renamed: with its key", "string a = 1; // json: a", "string c = 1; // json: c"),
    ("renamed: but not its key", "string a = 1; // json: a", "string c = 1; // json: a"),
    (
        "free: the new name beside the old one",
        "string a = 1; // json: a",
        "string a = 1; // json: a; deprecated\nstring c = 2; // json: c",
    ),
    ("reused: a number in use", "string a = 1; // json: a", "bool c = 1; // json: c"),
    (
        "reused: a retired number",
        "reserved 9; // old\nstring a = 1; // json: a",
        "string a = 1; // json: a\nstring c = 9; // json: c",
    ),
    (
        "free: a number that was never used",
        "reserved 9; // old\nstring a = 1; // json: a",
        "reserved 9; // old\nstring a = 1; // json: a\nstring c = 8; // json: c",
    ),
    ("forgotten: a retired number", "reserved 9; // old", ""),
    ("free: another reason, in a range", "reserved 9; // old", "reserved 8 to 10; // all of them old"),
    ("reused: a retired name", "reserved \"old\";", "reserved \"older\"; bool old = 1; // json: x"),
    ("forgotten: a retired name", "reserved \"old\";", ""),
    ("free: a retired name more", "reserved \"old\";", "reserved \"old\", \"older\";"),
    (
        "reused: the key of a retired field",
        "string a = 1; // json: a",
        "reserved 1; // removed `a`: too short\nB c = 2; // json: a",
    ),
    ("reused: the key of a field in use", "string a = 1; // json: a", "string a = 1; // json: a\nB c = 2; // json: a?"),
    (
        "free: two that are flattened",
        "B a = 1; // json: flatten",
        "B a = 1; // json: flatten\nC c = 2; // json: flatten",
    ),
    ("json: another key", "string a = 1; // json: a?", "string a = 1; // json: b?"),
    ("json: no key", "string a = 1; // json: a", "string a = 1;"),
    ("json: flattened", "B a = 1; // json: a", "B a = 1; // json: flatten"),
    ("json: no longer flattened", "B a = 1; // json: flatten; always emitted", "B a = 1; // json: a; always emitted"),
    ("json: another shape", "optional bool a = 1; // json: OptionalRoutable", "optional bool a = 1; // json: routable"),
    ("json: left out when empty", "string a = 1; // json: a", "string a = 1; // json: a?"),
    ("json: printed when empty", "string a = 1; // json: a?", "string a = 1; // json: a"),
    ("free: a remark", "string a = 1; // json: a?", "string a = 1; // json: a?; deprecated"),
    ("emission: no longer", "B a = 1; // json: a; always emitted", "B a = 1; // json: a"),
    ("emission: from now on", "B a = 1; // json: a", "B a = 1; // json: a; always emitted"),
    (
        "free: a new field is always emitted",
        "B a = 1; // json: a",
        "B a = 1; // json: a\nC c = 2; // json: c; always emitted",
    ),
    ("removed: a message", "message A {\n  string a = 1; // json: a\n}\nmessage B {}", "message B {}"),
    (
        "renamed: a message",
        "message A {\n  string a = 1; // json: a\n}",
        "message Better {\n  string a = 1; // json: a\n}",
    ),
    (
        "renamed: into another message",
        "message A {}\nenum E {\n  X = 0;\n}",
        "message A {\n  enum E {\n    X = 0;\n  }\n}",
    ),
    (
        "free: a copy under another name",
        "message A {\n  string a = 1; // json: a\n}",
        "message A {\n  string a = 1; // json: a\n}\nmessage Better {\n  string a = 1; // json: a\n}",
    ),
    ("kind: a message becomes an enum", "message A {}", "enum A {\n  X = 0;\n}"),
    ("removed: a value", "enum E {\n  X = 0;\n  Y = 1;\n}", "enum E {\n  X = 0;\n}"),
    (
        "free: a value is retired",
        "enum E {\n  X = 0;\n  Y = 1;\n}",
        "enum E {\n  X = 0;\n  reserved 1; // removed `Y`: never sent\n}",
    ),
    ("renumbered: a value", "enum E {\n  X = 0;\n  Y = 1;\n}", "enum E {\n  X = 0;\n  Y = 2;\n}"),
    ("renamed: a value", "enum E {\n  X = 0;\n  Y = 1;\n}", "enum E {\n  X = 0;\n  Z = 1;\n}"),
    ("free: a value is added", "enum E {\n  X = 0;\n}", "enum E {\n  X = 0;\n  Y = 1;\n}"),
    ("package: another", "package m;\nmessage A {}", "package n;\nmessage A {}"),
    ("free: the same package", "package m;\nmessage A {}", "// Said.\n\npackage m;\nmessage A {}"),
    ("syntax: another", "syntax = \"proto3\";\nmessage A {}", "syntax = \"proto2\";\nmessage A {}"),
];

#[test]
fn every_rule_has_a_case_and_a_neighbour() {
    let mut shown = String::new();
    for (title, before, after) in CASES {
        let found = broken(&schema(before), &schema(after));
        assert_eq!(found.is_empty(), title.starts_with("free"), "{title}: {found:#?}");
        for finding in found {
            let rule = title.split(':').next().unwrap_or(title);
            assert!(finding.what.starts_with(rule), "{title}: {finding}");
            writeln!(shown, "{title}\n    {finding}").unwrap();
        }
    }
    expect_file!["./golden.txt"].assert_eq(&shown);
}

/// A message may move to another file: the files are ours, the package is everybody's.
#[test]
fn files_are_free_to_be_split() {
    let one = [("a.proto", "package m;\nmessage A {}\nmessage B {}")];
    let two = [("a.proto", "package m;\nmessage A {}"), ("b.proto", "package m;\nmessage B {}")];
    let (one, two) = (proto::parse(&one).unwrap(), proto::parse(&two).unwrap());
    assert_eq!((broken(&one, &two), broken(&two, &one)), (Vec::new(), Vec::new()));
}

#[test]
fn additions_are_counted() {
    let before = schema("string a = 1;");
    let after = schema("string a = 1; bool b = 2; reserved 3;");
    assert_eq!((additions(&before, &before), additions(&before, &after)), (0, 2));
    let new = proto::parse(&[("a.proto", "message New { string a = 1; }")]).unwrap();
    assert_eq!(additions(&before, &new), 2);
}
