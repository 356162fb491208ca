//! Data version 1002: what was called `bar` is called `quux`.

mod load;
pub(crate) mod records;
mod step;

use bytes::Bytes;
pub(crate) use load::Loader;
pub(crate) use step::{down, up};
use store::record::DataVersion;
use store::versions::unknown::Kept;

use self::records::{Foo, Quux};

pub(crate) const NUMBER: DataVersion = DataVersion(1002);
/// All records of this version are below this key.
pub(crate) const ROOT: &str = "/v1002/";
pub(crate) const NAME: &str = "bar_becomes_quux";
pub(crate) const SUMMARY: &str = "The record bar of a thing is called quux.";

/// All records of one thing. Both name the same guid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entity {
    pub(crate) foo: Kept<Foo>,
    pub(crate) quux: Kept<Quux>,
}

impl Entity {
    /// For messages.
    pub(crate) fn label(&self) -> String {
        format!("Thing {}", self.foo.guid)
    }

    /// Every record, with its key.
    pub(crate) fn write(&self, put: &mut dyn FnMut(String, Bytes)) {
        put(key(&self.foo.guid, "foo"), self.foo.value(NUMBER));
        put(key(&self.quux.guid, "quux"), self.quux.value(NUMBER));
    }
}

fn key(guid: &str, kind: &str) -> String {
    format!("{ROOT}{guid}/{kind}")
}
