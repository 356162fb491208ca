//! Reads our `.proto` files: the part of the language they use, and an error for everything else.
//!
//! The build compiles the same files with a real compiler, so this reader trusts them to be valid and only wants names,
//! tags, types and the comments about JSON, with their line numbers. It skips nothing that it does not know: a service, an
//! extension or a group would be published without being compared, so they are refused until this file learns them.

use super::schema::{Declaration, Head, Json, Kind, Label, Member, Place, Reserved, Schema, Shape};
use crate::tidy::Finding;

/// A reserved range longer than this is not a list of retired tags.
const RESERVED_RANGE_TAGS_MAX: i32 = 1_000;

const SCALARS: &[&str] = &[
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
];

/// Reads a set of files that form one API. Type names are resolved over all of them.
pub(crate) fn parse(files: &[(&str, &str)]) -> Result<Schema, Finding> {
    let mut schema = Schema::default();
    for (path, text) in files {
        Reader { path, text, tokens: tokens(text), at: 0, schema: &mut schema }.file()?;
    }
    resolve(&mut schema);
    Ok(schema)
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
    /// What stands behind it on its line.
    rest_of_line: &'a str,
}

/// Words (with dots), strings with their quotes, and single marks. Comments are left out.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let (length, is_token) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |at| at + 2), false)
        } else if first.is_whitespace() {
            (first.len_utf8(), false)
        } else if first == '"' {
            (rest[1..].find('"').map_or(rest.len(), |at| at + 2), true)
        } else if is_word(first) {
            (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), true)
        } else {
            (first.len_utf8(), true)
        };
        let (token, after) = rest.split_at(length);
        if is_token {
            tokens.push(Token { text: token, line, rest_of_line: after.lines().next().unwrap_or_default() });
        }
        line += token.matches('\n').count();
        rest = after;
    }
    tokens
}

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    schema: &'a mut Schema,
}

impl<'a> Reader<'a> {
    fn file(&mut self) -> Result<(), Finding> {
        let mut head = Head { at: self.place(1), ..Head::default() };
        while let Some(token) = self.peek() {
            match token.text {
                "import" | "option" => self.skip_statement()?,
                ";" => self.at += 1,
                "syntax" => {
                    self.at += 1;
                    self.expect("=")?;
                    head.syntax = self.next()?.text.trim_matches('"').to_owned();
                    self.expect(";")?;
                }
                "package" => {
                    self.at += 1;
                    head.package = self.word()?.to_owned();
                    head.at.line = token.line;
                    self.expect(";")?;
                }
                "message" => self.message(&head.package)?,
                "enum" => self.enumeration(&head.package)?,
                _ => return Err(self.unknown(token)),
            }
        }
        self.schema.files.insert(head.at.file().to_owned(), head);
        Ok(())
    }

    fn message(&mut self, scope: &str) -> Result<(), Finding> {
        let (full_name, mut declaration) = self.open(scope, Kind::Message)?;
        loop {
            let token = self.peek().ok_or_else(|| self.cut_short())?;
            match token.text {
                "}" => break,
                "message" => self.message(&full_name)?,
                "enum" => self.enumeration(&full_name)?,
                "reserved" => self.reserved(&mut declaration)?,
                "option" => self.skip_statement()?,
                ";" => self.at += 1,
                "oneof" => {
                    self.at += 1;
                    let oneof = self.word()?;
                    self.expect("{")?;
                    while self.peek().is_some_and(|token| token.text != "}") {
                        self.field(&mut declaration, Some(oneof))?;
                    }
                    self.expect("}")?;
                }
                _ => self.field(&mut declaration, None)?,
            }
        }
        self.close(full_name, declaration)
    }

    fn enumeration(&mut self, scope: &str) -> Result<(), Finding> {
        let (full_name, mut declaration) = self.open(scope, Kind::Enum)?;
        loop {
            let token = self.peek().ok_or_else(|| self.cut_short())?;
            match token.text {
                "}" => break,
                "reserved" => self.reserved(&mut declaration)?,
                "option" => self.skip_statement()?,
                ";" => self.at += 1,
                _ => {
                    let name = self.word()?;
                    self.member(&mut declaration, name, None, token.line)?;
                }
            }
        }
        self.close(full_name, declaration)
    }

    /// `[optional | repeated] type name = tag [options];`
    fn field(&mut self, declaration: &mut Declaration, oneof: Option<&str>) -> Result<(), Finding> {
        let line = self.peek().map_or(0, |token| token.line);
        let first = self.word()?;
        let (label, type_name) = match first {
            "optional" => (Label::Optional, self.word()?),
            "repeated" => (Label::Repeated, self.word()?),
            "map" => {
                self.expect("<")?;
                let key = self.word()?.to_owned();
                self.expect(",")?;
                let value = self.word()?;
                self.expect(">")?;
                (Label::Map(key), value)
            }
            _ => (Label::Single, first),
        };
        let shape = Shape { label, type_name: type_name.to_owned(), oneof: oneof.map(str::to_owned), unpacked: false };
        let name = self.word()?;
        self.member(declaration, name, Some(shape), line)
    }

    /// The rest of a field or value after its name: `= tag [options]; // json: key`
    fn member(
        &mut self,
        declaration: &mut Declaration,
        name: &str,
        mut shape: Option<Shape>,
        line: usize,
    ) -> Result<(), Finding> {
        self.expect("=")?;
        let tag = self.number()?;
        let mut options: Vec<&str> = Vec::new();
        while self.peek().is_some_and(|token| token.text != ";") {
            options.push(self.next()?.text);
        }
        let end = self.next()?;
        // Packing is the only option that changes bytes; in this syntax, numbers are packed unless it says otherwise.
        if let Some(shape) = &mut shape {
            shape.unpacked = options.windows(3).any(|words| words == ["packed", "=", "false"]);
        }
        let json = shape.as_ref().and_then(|_| json(end.rest_of_line));
        let member = Member { name: name.to_owned(), shape, json, at: self.place(line) };
        match declaration.members.insert(tag, member) {
            None => Ok(()),
            Some(first) => {
                let what = format!("tag {tag} is given to `{}` and to `{name}`", first.name);
                Err(Finding::new(self.path, line, what, "give one of them a tag that was never used"))
            }
        }
    }

    /// `reserved 2, 5 to 7, "old_name";`
    fn reserved(&mut self, declaration: &mut Declaration) -> Result<(), Finding> {
        let line = self.next()?.line;
        loop {
            if let Some(token) = self.peek().filter(|token| token.text.starts_with('"')) {
                declaration.reserved_names.insert(token.text.trim_matches('"').to_owned());
                self.at += 1;
            } else {
                let first = self.number()?;
                let mut last = first;
                if self.peek().is_some_and(|token| token.text == "to") {
                    self.at += 1;
                    last = self.number()?;
                }
                if !(0..RESERVED_RANGE_TAGS_MAX).contains(&last.saturating_sub(first)) {
                    let what = format!("reserved {first} to {last} is not a list of retired tags");
                    return Err(Finding::new(self.path, line, what, "reserve the tags that were in use"));
                }
                let has_reason = self.text.lines().nth(line - 1).is_some_and(|line| line.contains("//"));
                for tag in first..=last {
                    declaration.reserved.insert(tag, Reserved { has_reason, at: self.place(line) });
                }
            }
            let mark = self.next()?;
            match mark.text {
                "," => {}
                ";" => return Ok(()),
                _ => return Err(self.unknown(mark)),
            }
        }
    }

    /// The keyword, the name and the opening brace of a message or enum.
    fn open(&mut self, scope: &str, kind: Kind) -> Result<(String, Declaration), Finding> {
        let line = self.next()?.line;
        let name = self.word()?;
        self.expect("{")?;
        let full_name = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
        Ok((full_name, Declaration::new(kind, self.place(line))))
    }

    fn close(&mut self, full_name: String, declaration: Declaration) -> Result<(), Finding> {
        self.expect("}")?;
        let line = declaration.at.line;
        let what = format!("`{full_name}` is declared twice");
        match self.schema.declarations.insert(full_name, declaration) {
            None => Ok(()),
            Some(first) => {
                let instead = format!("rename this one; the other is at {}:{}", first.at.path, first.at.line);
                Err(Finding::new(self.path, line, what, instead))
            }
        }
    }

    fn skip_statement(&mut self) -> Result<(), Finding> {
        while self.next()?.text != ";" {}
        Ok(())
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Result<Token<'a>, Finding> {
        let token = self.peek().ok_or_else(|| self.cut_short())?;
        self.at += 1;
        Ok(token)
    }

    fn word(&mut self) -> Result<&'a str, Finding> {
        let token = self.next()?;
        let is_name = token.text.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '.');
        if is_name { Ok(token.text) } else { Err(self.unknown(token)) }
    }

    fn number(&mut self) -> Result<i32, Finding> {
        let token = self.next()?;
        token.text.parse().map_err(|_| self.unknown(token))
    }

    fn expect(&mut self, mark: &str) -> Result<(), Finding> {
        let token = self.next()?;
        if token.text == mark { Ok(()) } else { Err(self.unknown(token)) }
    }

    fn place(&self, line: usize) -> Place {
        Place { path: self.path.to_owned(), line }
    }

    fn unknown(&self, token: Token<'_>) -> Finding {
        let instead = "write it as the other files do, or teach xtask/src/bless/proto.rs to record it";
        Finding::new(self.path, token.line, format!("`{}` is not understood here", token.text), instead)
    }

    fn cut_short(&self) -> Finding {
        let line = self.text.lines().count();
        Finding::new(self.path, line, "the file ends inside a declaration", "close the brace or finish the statement")
    }
}

/// `// json: key?; always emitted`. What else a comment says is for the reader.
fn json(rest_of_line: &str) -> Option<Json> {
    let comment = rest_of_line.trim().strip_prefix("//")?.trim().strip_prefix("json: ")?;
    let mut parts = comment.split(';').map(str::trim);
    let key = parts.next()?;
    let always_emitted = parts.any(|remark| remark == "always emitted");
    let bare = key.strip_suffix('?');
    Some(Json { key: bare.unwrap_or(key).to_owned(), omitted_when_empty: bare.is_some(), always_emitted })
}

/// Writes every type by its full name, so that `Presence` and `ActualLRP.Presence` are the same promise, and drops what
/// changes no byte: a sub-message has presence with and without `optional`.
fn resolve(schema: &mut Schema) {
    let messages = |(name, declaration): (&String, &Declaration)| (name.clone(), declaration.kind);
    let known: Vec<(String, Kind)> = schema.declarations.iter().map(messages).collect();
    for (scope, declaration) in &mut schema.declarations {
        for shape in declaration.members.values_mut().filter_map(|member| member.shape.as_mut()) {
            let (type_name, kind) = full_name(scope, &shape.type_name, &known);
            shape.type_name = type_name;
            if shape.label == Label::Optional && kind == Some(Kind::Message) {
                shape.label = Label::Single;
            }
        }
    }
}

/// Looks a name up in the innermost scope first, as the language does. Scalars and foreign types stay as written.
fn full_name(scope: &str, word: &str, known: &[(String, Kind)]) -> (String, Option<Kind>) {
    if SCALARS.contains(&word) {
        return (word.to_owned(), None);
    }
    let kind_of = |name: &str| {
        let found = known.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(known[found].1)
    };
    let mut outer = Some(scope);
    while let Some(scope) = outer {
        let candidate = format!("{scope}.{word}");
        if let Some(kind) = kind_of(&candidate) {
            return (candidate, Some(kind));
        }
        outer = scope.rsplit_once('.').map(|(outer, _)| outer);
    }
    let absolute = word.trim_start_matches('.');
    (absolute.to_owned(), kind_of(absolute))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn reads_the_language_our_files_are_written_in() {
        check(
            r#"
            // A comment; with { marks }.
            syntax = "proto3";
            package models;
            import "file.proto"; /* another
            comment */
            message Run {
              reserved 2, 5 to 6, "old"; // removed in 2.0
              string path = 1; // json: path; a remark
              repeated string args = 3; // json: args?
              map<string, Tag> tags = 4;
              optional bool Routable = 7;
              repeated uint32 ports = 8 [packed = false];
              repeated uint32 sizes = 9 [packed = true, deprecated = true];
              oneof choice { string a = 10; Run b = 11; }
              Run.Mode mode = 12;
              Mode same = 13;
              optional Tag tag = 16; // json: flatten; always emitted
              .models.Run self = 14;
              google.protobuf.Any any = 15;
              enum Mode { option allow_alias = false; reserved 9; RO = 0; NEG = -1; }
              message Inner { Mode mode = 1; }
            }
            message Tag {}
            "#,
            &expect![[r#"
                message models.Run
                  1 path: string, json path
                  3 args: repeated string, json args?
                  4 tags: map<string, models.Tag>
                  7 Routable: optional bool
                  8 ports: repeated uint32 [packed = false]
                  9 sizes: repeated uint32
                  10 a: oneof choice: string
                  11 b: oneof choice: models.Run
                  12 mode: models.Run.Mode
                  13 same: models.Run.Mode
                  14 self: models.Run
                  15 any: google.protobuf.Any
                  16 tag: models.Tag, json flatten, always emitted
                  reserved 2 5 6 old
                message models.Run.Inner
                  1 mode: models.Run.Mode
                enum models.Run.Mode
                  -1 NEG
                  0 RO
                  reserved 9
                message models.Tag
            "#]],
        );
    }

    #[test]
    fn types_are_resolved_over_all_files() {
        let files = [("a.proto", "package m; message A { B b = 1; }"), ("b.proto", "package m; message B {}")];
        let schema = parse(&files).unwrap();
        let shape = schema.declarations["m.A"].members[&1].shape.as_ref().unwrap();
        assert_eq!(shape.to_string(), "m.B");
        assert_eq!(schema.files["b.proto"].package, "m");
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let schema = parse(&[("a.proto", "message A {\n\n  string a = 1;\n  /* x\n  */ string b = 2;\n}")]).unwrap();
        let lines: Vec<usize> = schema.declarations["A"].members.values().map(|member| member.at.line).collect();
        assert_eq!(lines, [3, 5]);
    }

    #[test]
    fn what_is_not_known_is_refused_and_not_skipped() {
        for (text, line) in [
            ("service A { rpc B(C) returns (D); }", 1),
            ("message A {\n  extensions 4 to 9;\n}", 2),
            ("message A {\n  string a = b;\n}", 2),
            ("message A {\n  string = 1;\n}", 2),
            ("message A {\n  string a = 1;\n  string b = 1;\n}", 3),
            ("message A {\n  reserved 5 to 4;\n}", 2),
            ("message A {\n  reserved 5 to 500000;\n}", 2),
            ("message A {\n  reserved 5 to max;\n}", 2),
            ("message A {}\nmessage A {}", 2),
            ("message A {\n  string a = 1;\n", 2),
            ("option x = \"y\"", 1),
        ] {
            assert_eq!(parse(&[("a.proto", text)]).unwrap_err().line, line, "{text}");
        }
    }

    fn check(text: &str, expected: &Expect) {
        let schema = parse(&[("a.proto", text)]).unwrap();
        let mut shown = String::new();
        for (name, declaration) in &schema.declarations {
            shown += &format!("{} {name}\n", declaration.kind.word());
            for (tag, member) in &declaration.members {
                shown += &format!("  {tag} {}", member.name);
                shown += &member.shape.as_ref().map(|shape| format!(": {shape}")).unwrap_or_default();
                if let Some(Json { key, omitted_when_empty, always_emitted }) = &member.json {
                    let mark = if *omitted_when_empty { "?" } else { "" };
                    shown += &format!(", json {key}{mark}{}", if *always_emitted { ", always emitted" } else { "" });
                }
                shown += "\n";
            }
            if !declaration.reserved.is_empty() {
                let tags = declaration.reserved.keys().map(ToString::to_string);
                let tags: Vec<String> = tags.chain(declaration.reserved_names.iter().cloned()).collect();
                shown += &format!("  reserved {}\n", tags.join(" "));
            }
        }
        expected.assert_eq(&shown);
    }
}
