//! Reads the descriptors and the comment behind each field into a flat list of messages.
//!
//! The comment is `json: <key>`, `json: <key>?` (left out when zero or empty), `json: flatten` (the members stand in
//! the parent object) or `json: OptionalRoutable`, followed by `;` and remarks. The remark `always emitted` marks a
//! sub-message that is sent even when it is empty. Remarks we do not know are for the reader.

use std::collections::BTreeSet;

use heck::{ToSnakeCase, ToUpperCamelCase};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// Fields whose value never reaches a log: `(message or *, field)`.
const SECRETS: &[(&str, &str)] =
    &[("*", "image_password"), ("EnvironmentVariable", "value"), ("File", "content"), ("*", "mount_config")];

/// Path elements of `SourceCodeInfo`: messages of a file, fields of a message.
const MESSAGES_OF_FILE: i32 = 4;
const FIELDS_OF_MESSAGE: i32 = 2;

pub(crate) struct Message {
    pub(crate) proto: String,
    pub(crate) rust: String,
    /// In declaration order, which is also the order of the JSON members.
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    pub(crate) proto: String,
    pub(crate) rust: String,
    pub(crate) number: i32,
    pub(crate) kind: Kind,
    pub(crate) json: Json,
    pub(crate) always_emitted: bool,
    pub(crate) secret: bool,
}

pub(crate) enum Kind {
    /// Every scalar that is not text; explicit presence included, because `Option` has the same JSON shape.
    Plain,
    Text,
    OptionalText,
    /// An enum printed by name; the string is the path of the Rust type.
    Enum(String),
    Message(String),
    List(Box<Kind>),
    Map(Box<Kind>),
}

pub(crate) enum Json {
    Key(String),
    /// Left out when zero or empty.
    OmitEmpty(String),
    Flatten,
    OptionalRoutable,
}

impl Message {
    pub(crate) fn has_secret(&self) -> bool {
        self.fields.iter().any(|field| field.secret)
    }
}

pub(crate) fn read(descriptors: &FileDescriptorSet) -> Result<Vec<Message>, String> {
    let mut messages = Vec::new();
    for file in &descriptors.file {
        for (index, descriptor) in file.message_type.iter().enumerate() {
            messages.push(read_message(file, index, descriptor)?);
        }
    }
    Ok(messages)
}

fn read_message(file: &FileDescriptorProto, index: usize, descriptor: &DescriptorProto) -> Result<Message, String> {
    let proto = descriptor.name().to_owned();
    let entries: BTreeSet<&str> = descriptor.nested_type.iter().map(DescriptorProto::name).collect();
    let mut fields = Vec::new();
    for (field_index, field) in descriptor.field.iter().enumerate() {
        let place = format!("{}: field {proto}.{}", file.name(), field.name());
        let comment = trailing_comment(file, index, field_index)
            .ok_or_else(|| format!("{place} has no comment; say how it looks in JSON, as in `// json: key?`"))?;
        let (json, always_emitted) = read_comment(&comment).map_err(|why| format!("{place}: {why}"))?;
        let element = element_of(field);
        let entry = entries.contains(element.as_str()).then(|| {
            descriptor.nested_type.iter().find(|nested| nested.name() == element).expect("the name came from this list")
        });
        fields.push(Field {
            proto: field.name().to_owned(),
            rust: rust_field(field.name()),
            number: field.number(),
            kind: kind_of(field, entry),
            json,
            always_emitted,
            secret: SECRETS.iter().any(|(message, name)| *name == field.name() && ["*", &proto].contains(message)),
        });
    }
    Ok(Message { rust: proto.to_upper_camel_case(), proto, fields })
}

fn trailing_comment(file: &FileDescriptorProto, message: usize, field: usize) -> Option<String> {
    let path = [MESSAGES_OF_FILE, i32::try_from(message).ok()?, FIELDS_OF_MESSAGE, i32::try_from(field).ok()?];
    let info = file.source_code_info.as_ref()?;
    info.location.iter().find(|location| location.path == path)?.trailing_comments.clone()
}

fn read_comment(comment: &str) -> Result<(Json, bool), String> {
    let comment = comment.trim();
    let rest = comment
        .strip_prefix("json: ")
        .ok_or_else(|| format!("the comment {comment:?} does not begin with `json: `"))?;
    let mut parts = rest.split(';').map(str::trim);
    let json = match parts.next() {
        None | Some("") => return Err("the JSON key is empty".to_owned()),
        Some("flatten") => Json::Flatten,
        Some("OptionalRoutable") => Json::OptionalRoutable,
        Some(key) => match key.strip_suffix('?') {
            Some(key) => Json::OmitEmpty(key.to_owned()),
            None => Json::Key(key.to_owned()),
        },
    };
    Ok((json, parts.any(|remark| remark == "always emitted")))
}

fn kind_of(field: &FieldDescriptorProto, entry: Option<&DescriptorProto>) -> Kind {
    if let Some(entry) = entry {
        return Kind::Map(Box::new(single_kind(&entry.field[1])));
    }
    match field.label() {
        Label::Repeated => Kind::List(Box::new(single_kind(field))),
        _ => single_kind(field),
    }
}

fn single_kind(field: &FieldDescriptorProto) -> Kind {
    match field.r#type() {
        Type::String if field.proto3_optional() => Kind::OptionalText,
        Type::String => Kind::Text,
        Type::Message => Kind::Message(rust_path(field.type_name())),
        // Diego gives every enum a marshaller that prints names, except this one.
        Type::Enum if field.type_name().ends_with(".UpdateStrategy") => Kind::Plain,
        Type::Enum => Kind::Enum(rust_path(field.type_name())),
        _ => Kind::Plain,
    }
}

/// The last part of the type's name, which for a map is the name of its hidden entry message.
fn element_of(field: &FieldDescriptorProto) -> String {
    field.type_name().rsplit('.').next().unwrap_or_default().to_owned()
}

/// `.models.ActualLRP.Presence` is `actual_lrp::Presence` in the code that prost writes.
fn rust_path(type_name: &str) -> String {
    let mut parts: Vec<&str> = type_name.trim_start_matches(".models.").split('.').collect();
    let last = parts.pop().unwrap_or_default().to_upper_camel_case();
    parts.iter().map(|part| part.to_snake_case() + "::").collect::<String>() + &last
}

fn rust_field(name: &str) -> String {
    let snake = name.to_snake_case();
    if ["type", "static"].contains(&snake.as_str()) { format!("r#{snake}") } else { snake }
}
