//! The step between the version before and this one. Both directions are pure, and nothing is lost in either.

use store::versions::unknown::{Kept, Owner, Record};
use store::versions::{Loss, StepError};

use super::records::{Foo, Quux};
use super::{Entity, NUMBER};
use crate::tutorial::first_things::{self as before, records as older};

/// Which record of which version fields belong to that nobody here knows.
const FOO: Owner = (NUMBER, "foo");
const QUUX: Owner = (NUMBER, "quux");
const OLDER_FOO: Owner = (before::NUMBER, "foo");
const OLDER_BAR: Owner = (before::NUMBER, "bar");

/// Never fails: every record of the version before has its place here.
pub(crate) fn up(older: before::Entity) -> Result<Entity, StepError> {
    Ok(Entity { foo: moved(older.foo, OLDER_FOO, FOO), quux: moved(older.bar, OLDER_BAR, QUUX) })
}

/// The version before has room for everything, so there are no losses to name.
pub(crate) fn down(newer: Entity) -> (before::Entity, Vec<Loss>) {
    let older = before::Entity { foo: moved(newer.foo, FOO, OLDER_FOO), bar: moved(newer.quux, QUUX, OLDER_BAR) };
    (older, Vec::new())
}

/// `stepped` packs up the fields that are unknown where the record comes from, and unpacks those that belong where it goes.
fn moved<A, B: Record + From<A>>(record: Kept<A>, from: Owner, to: Owner) -> Kept<B> {
    Kept::stepped(record.message.into(), from, record.unknown, to)
}

impl From<older::Foo> for Foo {
    fn from(older::Foo { guid, text, carried }: older::Foo) -> Foo {
        Foo { guid, text, carried }
    }
}

impl From<Foo> for older::Foo {
    fn from(Foo { guid, text, carried }: Foo) -> older::Foo {
        older::Foo { guid, text, carried }
    }
}

impl From<older::Bar> for Quux {
    fn from(older::Bar { guid, count, carried }: older::Bar) -> Quux {
        Quux { guid, count, carried }
    }
}

impl From<Quux> for older::Bar {
    fn from(Quux { guid, count, carried }: Quux) -> older::Bar {
        older::Bar { guid, count, carried }
    }
}
