//! Records into entities. Every record that is fed in comes out once: inside an entity, or as quarantined.

use std::collections::HashMap;

use bytes::Bytes;
use store::Quarantined;
use store::record;
use store::versions::unknown::{Kept, Record};

use super::records::{Bar, Foo};
use super::{Entity, NUMBER, key};

/// Takes the records below the root in any order.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    /// Halves that wait for the other one, by guid.
    waiting: HashMap<String, Half>,
    quarantined: Vec<Quarantined>,
}

#[derive(Debug)]
enum Half {
    Foo(Kept<Foo>),
    Bar(Kept<Bar>),
}

impl Loader {
    /// Returns the entity that is complete with this record, if any.
    pub(crate) fn feed(&mut self, key: &str, value: &Bytes) -> Option<Entity> {
        let half = match Half::read(key, value) {
            Ok(half) => half,
            Err(why) => {
                self.quarantined.push(Quarantined { key: key.to_owned(), why });
                return None;
            }
        };
        match (self.waiting.remove(half.guid()), half) {
            (Some(Half::Foo(foo)), Half::Bar(bar)) | (Some(Half::Bar(bar)), Half::Foo(foo)) => {
                Some(Entity { foo, bar })
            }
            (_, half) => {
                self.waiting.insert(half.guid().to_owned(), half);
                None
            }
        }
    }

    /// Everything that could not be read, halves without their other half included.
    pub(crate) fn finish(mut self) -> Vec<Quarantined> {
        let why = "its other half is missing or unreadable";
        let alone = self.waiting.values().map(|half| Quarantined { key: half.key(), why: why.to_owned() });
        self.quarantined.extend(alone);
        self.quarantined.sort_by(|a, b| a.key.cmp(&b.key));
        self.quarantined
    }
}

impl Half {
    fn read(key: &str, value: &Bytes) -> Result<Half, String> {
        let (header, payload) = record::decode(value).map_err(|error| error.to_string())?;
        if header.version != NUMBER {
            return Err(format!("the record is of data version {}, and {NUMBER} is expected here", header.version));
        }
        let half = match key.rsplit_once('/') {
            Some((_, "foo")) => Half::Foo(parse(payload)?),
            Some((_, "bar")) => Half::Bar(parse(payload)?),
            _ => return Err("its key names no kind of record of this version".to_owned()),
        };
        // A record under the key of another would appear twice, or hide the other.
        if half.key() == key { Ok(half) } else { Err(format!("its content belongs under the key {}", half.key())) }
    }

    fn guid(&self) -> &str {
        match self {
            Half::Foo(foo) => &foo.guid,
            Half::Bar(bar) => &bar.guid,
        }
    }

    fn key(&self) -> String {
        match self {
            Half::Foo(foo) => key(&foo.guid, "foo"),
            Half::Bar(bar) => key(&bar.guid, "bar"),
        }
    }
}

fn parse<M: Record>(payload: Bytes) -> Result<Kept<M>, String> {
    Kept::read(payload).map_err(|_| "its payload is not the message it should be".to_owned())
}
