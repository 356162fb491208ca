//! What a corpus has shown: every path of its release has succeeded once, and every field of its answers was set once.
//!
//! A path that was never called, or a field that was never set, is not compared by anything.

use std::collections::BTreeSet;

use super::EVENTS;
use super::exchange::Exchange;
use super::schema::{Kind, Schema};

/// Fields that no request brings out, and why.
const OUT_OF_REACH: &[(&str, &str)] = &[
    ("DomainsResponse.error", "the call has no body that could be wrong"),
    ("CellsResponse.error", "the call has no body that could be wrong"),
    ("ActualLRPInstanceChangedEvent.trace_id", "what changes an instance is not traced"),
];

/// The paths of a table of routes that no exchange has brought to answer as it should.
pub(super) fn unheard<'a>(table: &'a str, recorded: &[Exchange]) -> Vec<&'a str> {
    let is_heard = |path: &&str| {
        let succeeded = |exchange: &Exchange| {
            exchange.path == *path && exchange.answer.starts_with("200 ") && !exchange.answer.contains("\nerror {")
        };
        recorded.iter().any(succeeded)
    };
    table.split_whitespace().filter(|word| word.starts_with('/')).filter(|path| !is_heard(path)).collect()
}

/// The fields of answers and events, and of all messages in them, that no answer has set.
pub(super) fn unset(schema: &Schema, recorded: &[Exchange]) -> Vec<String> {
    let mut seen = Seen { schema, messages: BTreeSet::new(), fields: BTreeSet::new() };
    for exchange in recorded.iter().filter(|exchange| exchange.answer.starts_with("200 ")) {
        let body = exchange.answer.lines().skip(1).filter(|line| !line.starts_with("@ "));
        seen.message(Some(&exchange.response).filter(|name| *name != EVENTS), body);
    }
    let is_excused = |field: &String| OUT_OF_REACH.iter().any(|(known, _)| known == field);
    let all = seen
        .messages
        .iter()
        .flat_map(|message| schema.fields(message).iter().map(move |field| format!("{message}.{}", field.name)));
    all.filter(|field| !seen.fields.contains(field) && !is_excused(field)).collect()
}

struct Seen<'a> {
    schema: &'a Schema,
    messages: BTreeSet<String>,
    fields: BTreeSet<String>,
}

impl Seen<'_> {
    /// Walks the lines of one message or, if it has no name, of events.
    fn message<'t>(&mut self, name: Option<&String>, lines: impl Iterator<Item = &'t str>) {
        let mut open: Vec<String> = name.cloned().into_iter().collect();
        name.into_iter().for_each(|name| self.reached(name));
        for line in lines {
            if let Some(event) = line.strip_prefix("event ") {
                let message = self.schema.event(event).unwrap_or_else(|| panic!("no message for {event}"));
                self.reached(message);
                open = vec![message.to_owned()];
                continue;
            }
            let line = line.trim_start();
            if line == "}" {
                open.pop();
                continue;
            }
            let message = open.last().unwrap_or_else(|| panic!("outside of a message: {line}"));
            let field = line.split([':', ' ']).next().unwrap_or_default();
            self.fields.insert(format!("{message}.{field}"));
            if line.ends_with(" {") {
                let field = self.schema.fields(message).iter().find(|known| known.name == field);
                let Some(Kind::Message(inner)) = field.map(|field| &field.kind) else { panic!("no message: {line}") };
                open.push(inner.clone());
            }
        }
    }

    /// The message, and all that can stand in it.
    fn reached(&mut self, message: &str) {
        if self.messages.insert(message.to_owned()) {
            for field in self.schema.fields(message) {
                if let Kind::Message(inner) = &field.kind {
                    self.reached(inner);
                }
            }
        }
    }
}

#[test]
fn what_was_not_shown_is_missed() {
    let schema = Schema::read(&super::released("0.1"));
    let ping = super::exchange::parse("POST /v1/ping -\n= PingResponse\n200 x\n");
    assert_eq!(unset(&schema, &ping), ["PingResponse.available"]);
    assert_eq!(unheard("Ping POST /v1/ping\nDomains POST /v1/domains/list\n", &ping), ["/v1/domains/list"]);
    let error = "POST /v1/ping -\n= UpsertDomainResponse\n200 x\nerror {\n    type: InvalidRequest\n}\n";
    let refused = super::exchange::parse(error);
    assert_eq!(unset(&schema, &refused), ["Error.message"]);
    assert_eq!(unheard("Ping POST /v1/ping\n", &refused), ["/v1/ping"]);
    let event = super::exchange::parse("POST /v1/events -\n= events\n200 x\nevent task_removed\n    task {\n    }\n");
    let missed = unset(&schema, &event);
    assert!(!missed.contains(&"TaskRemovedEvent.task".to_owned()), "{missed:?}");
    assert!(missed.contains(&"RunAction.path".to_owned()), "{missed:?}");
}
