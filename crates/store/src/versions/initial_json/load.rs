//! Records into entities.
//!
//! Promise: every record that is fed in comes out once, as an entity or in the list of the quarantined, with the reason.

use bytes::Bytes;
use model::{DomainName, ProcessGuid, TaskGuid};

use super::fields::{self, Field};
use super::keys::{self, Kind};
use super::table::{self, Shape};
use super::{Actual, Body, Desired, Domain, Entity, NUMBER, Task, from_json};
use crate::record::{self, Encoding};
use crate::versions::Quarantined;

/// Field numbers of an ActualLRP that the key of its record repeats.
const ACTUAL_KEY: u32 = 1;
const ACTUAL_PRESENCE: u32 = 10;

/// Takes the records below [`super::ROOT`] in any order.
#[derive(Debug, Default)]
pub struct Loader {
    quarantined: Vec<Quarantined>,
}

impl Loader {
    /// Takes one record in. Every entity is complete with its one record.
    pub fn feed(&mut self, key: &str, value: &Bytes) -> Option<Entity> {
        let read = read(key, value);
        read.map_err(|why| self.quarantined.push(Quarantined { key: key.to_owned(), why })).ok()
    }

    /// Everything that could not be read.
    pub fn finish(mut self) -> Vec<Quarantined> {
        self.quarantined.sort_by(|a, b| a.key.cmp(&b.key));
        self.quarantined
    }
}

/// How a domain with an empty value reads.
pub(super) fn expired_domain(name: &str) -> Body {
    let mut message = Vec::new();
    fields::put_bytes(1, name.as_bytes(), &mut message);
    Body { message: message.into(), unknown: String::new() }
}

fn read(key: &str, value: &Bytes) -> Result<Entity, String> {
    let entity = match Kind::of(key).ok_or("its key names no kind of record of this version")? {
        Kind::Desired => {
            let body = body(&table::DESIRED, value)?;
            let (guid, domain) = (text(&body, 1), text(&body, 2));
            ProcessGuid::parse(&guid).map_err(|error| error.to_string())?;
            DomainName::parse(&domain).map_err(|error| error.to_string())?;
            Entity::Desired(Desired { process_guid: guid, body })
        }
        Kind::Actual(presence) => Entity::Actual(actual(body(&table::ACTUAL, value)?, presence)?),
        Kind::Task => {
            let body = body(&table::TASK, value)?;
            let (guid, domain) = (text(&body, 2), text(&body, 3));
            TaskGuid::parse(&guid).map_err(|error| error.to_string())?;
            DomainName::parse(&domain).map_err(|error| error.to_string())?;
            Entity::Task(Task { guid, body })
        }
        Kind::Domain(name) => {
            let body = if value.is_empty() {
                expired_domain(&keys::decoded(name).ok_or("its key is not text")?)
            } else {
                body(&table::DOMAIN, value)?
            };
            let name = text(&body, 1);
            DomainName::parse(&name).map_err(|error| error.to_string())?;
            Entity::Domain(Domain { name, body })
        }
    };
    let place = entity.key();
    if place == key { Ok(entity) } else { Err(format!("its content belongs under the key {place}")) }
}

fn body(shape: &'static Shape, value: &Bytes) -> Result<Body, String> {
    let (header, payload) = record::decode(value).map_err(|error| error.to_string())?;
    if header.version != NUMBER {
        return Err(format!("the record is of data version {}, and {NUMBER} is expected here", header.version));
    }
    if header.encoding != Encoding::Json {
        return Err("the record is not encoded as records of this version are".to_owned());
    }
    let from_json::Read { message, unknown } = from_json::read(shape, &payload)?;
    Ok(Body { message: message.into(), unknown })
}

/// The text of a field, empty when there is none.
fn text(body: &Body, tag: u32) -> String {
    let fields = fields::split(&body.message).unwrap_or_default();
    fields::last(&fields, tag).and_then(Field::text).unwrap_or_default().to_owned()
}

/// The oldest rows do not say their presence: there, the key does.
fn actual(mut body: Body, presence: i32) -> Result<Actual, String> {
    let all = fields::split(&body.message).unwrap_or_default();
    let key = fields::last(&all, ACTUAL_KEY).and_then(Field::bytes).and_then(fields::split).unwrap_or_default();
    let text = |tag| fields::last(&key, tag).and_then(Field::text).unwrap_or_default();
    ProcessGuid::parse(text(1)).map_err(|error| error.to_string())?;
    DomainName::parse(text(3)).map_err(|error| error.to_string())?;
    let number =
        |fields: &[Field<'_>], tag| fields::last(fields, tag).and_then(Field::number).unwrap_or_default() as i32;
    let (process_guid, index) = (text(1).to_owned(), number(&key, 2));
    let said = number(&all, ACTUAL_PRESENCE);
    if said == 0 && presence != 0 {
        let mut field = Vec::new();
        fields::put_number(ACTUAL_PRESENCE, presence.cast_unsigned().into(), &mut field);
        let added = fields::split(&field).unwrap_or_default();
        body.message = fields::join([all, added].concat()).into();
    }
    let presence = if said == 0 { presence } else { said };
    Ok(Actual { process_guid, index, presence, body })
}
