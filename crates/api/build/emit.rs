//! Writes the Rust code that goes into `shapes.rs`, included by the module `models`.
//!
//! The traits it implements are documented where they are defined: `wire::Wire`, `wire::Response`, `json::Object`,
//! `json::NamedEnum`. The code is plain and repetitive on purpose: what it does for a field can be read off directly.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::schema::{Field, Json, Kind, Message};

/// These two have hand-written JSON in `src/json/routes.rs`: routes are a bare object, and in an update an empty
/// object differs from none.
const ROUTES: &str = "ProtoRoutes";
const UPDATE: &str = "DesiredLrpUpdate";

pub(crate) fn shapes(messages: &[Message]) -> String {
    let mut out = String::from("// Written by build/emit.rs from the comments in proto/*.proto.\n");
    let mut enums = BTreeSet::new();
    for message in messages {
        wire(&mut out, message);
        layout(&mut out, message);
        response(&mut out, message);
        if message.has_secret() {
            debug(&mut out, message);
        }
        if message.rust != ROUTES {
            object(&mut out, message);
        }
        enums.extend(message.fields.iter().filter_map(|field| match &field.kind {
            Kind::Enum(path) => Some(path),
            _ => None,
        }));
    }
    for path in enums {
        named_enum(&mut out, path);
    }
    out
}

macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("writing to a String cannot fail")
    };
}

fn wire(out: &mut String, message: &Message) {
    line!(out, "impl crate::wire::Wire for {} {{", message.rust);
    line!(out, "const NAME: &'static str = {:?};", message.proto);
    line!(out, "fn layout() -> &'static crate::wire::Layout {{ &{} }}", layout_name(&message.rust));
    line!(out, "fn complete(&mut self) {{");
    for Field { rust, kind, always_emitted, .. } in &message.fields {
        match kind {
            Kind::Message(_) if *always_emitted => line!(out, "self.{rust}.get_or_insert_default().complete();"),
            Kind::Message(_) => line!(out, "if let Some(inner) = &mut self.{rust} {{ inner.complete(); }}"),
            Kind::List(of) if matches!(**of, Kind::Message(_)) => {
                line!(out, "for inner in &mut self.{rust} {{ inner.complete(); }}");
            }
            Kind::Map(of) if matches!(**of, Kind::Message(_)) => {
                line!(out, "for inner in self.{rust}.values_mut() {{ inner.complete(); }}");
            }
            _ => {}
        }
    }
    line!(out, "}}\n}}");
}

fn layout(out: &mut String, message: &Message) {
    line!(out, "static {}: crate::wire::Layout = crate::wire::Layout(&[", layout_name(&message.rust));
    for Field { number, kind, .. } in &message.fields {
        line!(out, "({number}, {}),", part(kind));
    }
    line!(out, "]);");
}

fn part(kind: &Kind) -> String {
    match kind {
        Kind::Plain | Kind::Enum(_) => "crate::wire::Part::Other".to_owned(),
        Kind::Text | Kind::OptionalText => "crate::wire::Part::Text".to_owned(),
        Kind::Message(rust) => format!("crate::wire::Part::Message(&{})", layout_name(rust)),
        Kind::List(of) => part(of),
        // Every map of the protocol has text keys.
        Kind::Map(of) => format!(
            "crate::wire::Part::Message(&crate::wire::Layout(&[(1, crate::wire::Part::Text), (2, {})]))",
            part(of)
        ),
    }
}

fn layout_name(rust: &str) -> String {
    use heck::ToShoutySnakeCase;
    format!("LAYOUT_OF_{}", rust.to_shouty_snake_case())
}

fn response(out: &mut String, message: &Message) {
    let is_error =
        |field: &&Field| field.number == 1 && matches!(&field.kind, Kind::Message(rust) if rust.as_str() == "Error");
    if message.fields.iter().find(is_error).is_some() {
        line!(out, "impl crate::wire::Response for {} {{", message.rust);
        line!(out, "fn failed(error: Error) -> Self {{ Self {{ error: Some(error), ..Self::default() }} }}");
        line!(out, "fn take_error(&mut self) -> Option<Error> {{ self.error.take() }}");
        line!(out, "}}");
    }
}

fn debug(out: &mut String, message: &Message) {
    line!(out, "impl ::core::fmt::Debug for {} {{", message.rust);
    line!(out, "fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{");
    line!(out, "f.debug_struct({:?})", message.rust);
    for Field { rust, secret, kind, .. } in &message.fields {
        let name = rust.trim_start_matches("r#");
        match (secret, kind) {
            (false, _) => line!(out, ".field({name:?}, &self.{rust})"),
            (true, Kind::OptionalText) => {
                line!(out, ".field({name:?}, &self.{rust}.as_deref().map(crate::wire::Hidden::of))");
            }
            (true, _) => line!(out, ".field({name:?}, &crate::wire::Hidden::of(&self.{rust}))"),
        }
    }
    line!(out, ".finish()\n}}\n}}");
}

fn object(out: &mut String, message: &Message) {
    let rust = &message.rust;
    line!(out, "impl crate::json::Object for {rust} {{");
    line!(out, "const KEYS: &'static [&'static str] = &[");
    for field in &message.fields {
        match &field.json {
            Json::Key(key) | Json::OmitEmpty(key) => line!(out, "{key:?},"),
            Json::OptionalRoutable => line!(out, "\"OptionalRoutable\","),
            Json::Flatten => {}
        }
    }
    line!(out, "];");
    line!(out, "fn write<M: ::serde::ser::SerializeMap>(&self, to: &mut M) -> Result<(), M::Error> {{");
    message.fields.iter().for_each(|field| write_member(out, rust, field));
    line!(out, "Ok(())\n}}");
    line!(out, "fn read<'de, A: ::serde::de::MapAccess<'de>>(");
    line!(out, "&mut self, key: &str, from: &mut A) -> Result<bool, A::Error> {{");
    message.fields.iter().for_each(|field| read_member(out, field));
    line!(out, "Ok(false)\n}}\n}}");

    line!(out, "impl ::serde::Serialize for {rust} {{");
    line!(out, "fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {{");
    line!(out, "crate::json::write_object(self, to) }} }}");
    line!(out, "impl<'de> ::serde::Deserialize<'de> for {rust} {{");
    line!(out, "fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {{");
    line!(out, "crate::json::read_object(from) }} }}");
}

fn write_member(out: &mut String, message: &str, field: &Field) {
    let Field { rust, proto, always_emitted, .. } = field;
    match (&field.json, &field.kind) {
        (Json::Flatten, _) if *always_emitted => {
            line!(out, "crate::json::Object::write(self.{rust}.as_ref().unwrap_or(&Default::default()), to)?;");
        }
        (Json::Flatten, _) => {
            line!(out, "if let Some(inner) = &self.{rust} {{ crate::json::Object::write(inner, to)?; }}");
        }
        (Json::OptionalRoutable, _) => {
            line!(out, "crate::json::write_routable(to, {proto:?}, self.{rust})?;");
        }
        (Json::OmitEmpty(key), Kind::Enum(path)) => {
            line!(out, "if self.{rust} != 0 {{");
            line!(out, "to.serialize_entry({key:?}, &crate::json::Named::<{path}>::new(self.{rust}))?; }}");
        }
        (Json::OmitEmpty(key), Kind::Message(of)) if of == ROUTES && message == UPDATE => {
            line!(out, "crate::json::write_route_changes(to, {key:?}, self.{rust}.as_ref())?;");
        }
        (Json::OmitEmpty(key), _) => line!(out, "crate::json::write_unless_empty(to, {key:?}, &self.{rust})?;"),
        (Json::Key(key), Kind::Enum(path)) => {
            line!(out, "to.serialize_entry({key:?}, &crate::json::Named::<{path}>::new(self.{rust}))?;");
        }
        (Json::Key(key), Kind::List(_)) => line!(out, "crate::json::write_list(to, {key:?}, &self.{rust})?;"),
        (Json::Key(key), Kind::Message(_)) if *always_emitted => {
            line!(out, "to.serialize_entry({key:?}, self.{rust}.as_ref().unwrap_or(&Default::default()))?;");
        }
        (Json::Key(key), _) => line!(out, "to.serialize_entry({key:?}, &self.{rust})?;"),
    }
}

fn read_member(out: &mut String, field: &Field) {
    let rust = &field.rust;
    let (key, reader) = match (&field.json, &field.kind) {
        (Json::Flatten, Kind::Message(of)) => {
            line!(out, "if crate::json::has_key::<{of}>(key) {{");
            line!(out, "return crate::json::Object::read(self.{rust}.get_or_insert_default(), key, from); }}");
            return;
        }
        (Json::Flatten, _) => panic!("only a sub-message can be flattened, {rust} is none"),
        (Json::OptionalRoutable, _) => ("OptionalRoutable", "crate::json::read_routable(from)?".to_owned()),
        (Json::Key(key) | Json::OmitEmpty(key), kind) => (key.as_str(), reader(kind)),
    };
    line!(out, "if key.eq_ignore_ascii_case({key:?}) {{ self.{rust} = {reader}; return Ok(true); }}");
}

fn reader(kind: &Kind) -> String {
    match kind {
        Kind::Enum(path) => format!("crate::json::read_named::<{path}, A>(from)?"),
        Kind::List(_) => "crate::json::read_list(from)?".to_owned(),
        Kind::Map(_) => "crate::json::read_map(from)?".to_owned(),
        _ => "crate::json::read_value(from)?".to_owned(),
    }
}

fn named_enum(out: &mut String, path: &str) {
    // A tag that cannot be understood is treated by Diego as a tag without a value, which validation then refuses.
    let unknown_is_zero = path.ends_with("::DynamicValue");
    line!(out, "impl crate::json::NamedEnum for {path} {{");
    line!(out, "const UNKNOWN_IS_ZERO: bool = {unknown_is_zero};");
    line!(
        out,
        "fn name(number: i32) -> Option<&'static str> {{ Self::try_from(number).ok().map(|it| it.as_str_name()) }}"
    );
    line!(out, "fn number(name: &str) -> Option<i32> {{ Self::from_str_name(name).map(|it| it as i32) }}");
    line!(out, "}}");
}
