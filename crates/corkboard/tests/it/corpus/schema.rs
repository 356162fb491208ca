//! The names behind the numbers: reads the `.proto` files of a release, as far as it takes to show a message to a person.
//!
//! The files have one declaration a line, which the release was built from, so lines are all that is looked at. The
//! corpus of a release is read with the files of that release: what they do not know is shown by its number.

use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Default)]
pub(super) struct Schema {
    messages: BTreeMap<String, Vec<Field>>,
    enums: BTreeMap<String, Vec<(u64, String)>>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// A list of numbers in one piece.
    pub(super) is_packed: bool,
}

#[derive(Debug)]
pub(super) enum Kind {
    Signed,
    Unsigned,
    Bool,
    /// With the name of its type.
    Enum(String),
    /// Text, or bytes that are shown as text.
    Text,
    Message(String),
}

impl Schema {
    pub(super) fn read(folder: &Path) -> Self {
        let mut schema = Self::default();
        let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "proto") {
                schema.read_file(&std::fs::read_to_string(path).unwrap());
            }
        }
        let names: Vec<String> = schema.messages.keys().cloned().collect();
        for field in schema.messages.values_mut().flatten() {
            if let Kind::Enum(name) = &field.kind
                && names.contains(name)
            {
                field.kind = Kind::Message(name.clone());
                field.is_packed = false;
            }
        }
        schema
    }

    fn read_file(&mut self, text: &str) {
        let mut open: Vec<&str> = Vec::new();
        for line in text.lines() {
            let line = line.split("//").next().unwrap().trim();
            let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
            match words.as_slice() {
                ["message", name, "{"] => {
                    open.push(name);
                    self.messages.insert(open.join("."), Vec::new());
                }
                ["enum", name, "{"] => {
                    open.push(name);
                    self.enums.insert(open.join("."), Vec::new());
                }
                ["}"] => {
                    open.pop();
                }
                [] | ["syntax" | "package" | "import" | "option" | "reserved", ..] => {}
                [name, "=", number] => {
                    self.enums.get_mut(&open.join(".")).unwrap().push((number.parse().unwrap(), (*name).to_owned()));
                }
                _ => self.read_field(&open.join("."), line, &words),
            }
        }
    }

    /// `[label] type name = number [options]`
    fn read_field(&mut self, message: &str, line: &str, words: &[&str]) {
        let equals = words.iter().position(|word| *word == "=").unwrap_or_else(|| panic!("no field: {line}"));
        let (name, number) = (words[equals - 1].to_owned(), words[equals + 1].parse().unwrap());
        let is_number = |kind: &Kind| !matches!(kind, Kind::Text | Kind::Message(_));
        let (kind, is_packed) = if let Some(entry) = line.strip_prefix("map<") {
            let (key, rest) = entry.split_once(", ").unwrap();
            let (value, _) = rest.split_once('>').unwrap();
            let field = |number, name: &str, type_name| {
                let kind = Kind::of(type_name);
                Field { number, name: name.to_owned(), kind, is_packed: false }
            };
            let entry = format!("{message}.{name}");
            self.messages.insert(entry.clone(), vec![field(1, "key", key), field(2, "value", value)]);
            (Kind::Message(entry), false)
        } else {
            let kind = Kind::of(words[equals - 2]);
            let is_packed = words[0] == "repeated" && is_number(&kind) && !line.contains("packed = false");
            (kind, is_packed)
        };
        self.messages.get_mut(message).unwrap().push(Field { number, name, kind, is_packed });
    }

    pub(super) fn fields(&self, message: &str) -> &[Field] {
        self.messages.get(message).unwrap_or_else(|| panic!("this release knows no message `{message}`"))
    }

    pub(super) fn knows(&self, message: &str) -> bool {
        self.messages.contains_key(message)
    }

    pub(super) fn value_name(&self, type_name: &str, number: u64) -> Option<&str> {
        let (_, name) = self.enums.get(type_name)?.iter().find(|(known, _)| *known == number)?;
        Some(name)
    }

    pub(super) fn value_number(&self, type_name: &str, name: &str) -> Option<u64> {
        let (number, _) = self.enums.get(type_name)?.iter().find(|(_, known)| known == name)?;
        Some(*number)
    }

    /// The message of an event: `actual_lrp_crashed` is `ActualLRPCrashedEvent`.
    pub(super) fn event(&self, name: &str) -> Option<&str> {
        let wanted = format!("{}event", name.replace('_', ""));
        self.messages.keys().map(String::as_str).find(|message| message.to_lowercase() == wanted)
    }
}

impl Kind {
    /// What is no scalar is taken for an enum until all messages are known.
    fn of(type_name: &str) -> Self {
        match type_name {
            "int32" | "int64" => Self::Signed,
            "uint32" | "uint64" => Self::Unsigned,
            "bool" => Self::Bool,
            "string" | "bytes" => Self::Text,
            other => Self::Enum(other.to_owned()),
        }
    }
}
