//! Data version 1001: a thing is two records, `foo` and `bar`.

mod load;
pub(crate) mod records;

use bytes::Bytes;
pub(crate) use load::Loader;
use store::record::DataVersion;
use store::versions::unknown::Kept;

use self::records::{Bar, Foo};

pub(crate) const NUMBER: DataVersion = DataVersion(1001);
/// All records of this version are below this key.
pub(crate) const ROOT: &str = "/v1001/";
pub(crate) const NAME: &str = "first_things";
pub(crate) const SUMMARY: &str = "A thing is two records, foo and bar.";

/// All records of one thing. Both name the same guid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entity {
    pub(crate) foo: Kept<Foo>,
    pub(crate) bar: Kept<Bar>,
}

impl Entity {
    /// For messages.
    pub(crate) fn label(&self) -> String {
        format!("Thing {}", self.foo.guid)
    }

    /// Every record, with its key.
    pub(crate) fn write(&self, put: &mut dyn FnMut(String, Bytes)) {
        put(key(&self.foo.guid, "foo"), self.foo.value(NUMBER));
        put(key(&self.bar.guid, "bar"), self.bar.value(NUMBER));
    }
}

fn key(guid: &str, kind: &str) -> String {
    format!("{ROOT}{guid}/{kind}")
}
