//! The records as they lie on disk. A field number keeps its meaning for ever.

use store::versions::unknown::{CARRIED, Carried, Record};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Foo {
    #[prost(string, tag = "1")]
    pub(crate) guid: String,
    #[prost(string, tag = "2")]
    pub(crate) text: String,
    #[prost(message, repeated, tag = "1000")]
    pub(crate) carried: Vec<Carried>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Quux {
    #[prost(string, tag = "1")]
    pub(crate) guid: String,
    #[prost(int32, tag = "2")]
    pub(crate) count: i32,
    #[prost(message, repeated, tag = "1000")]
    pub(crate) carried: Vec<Carried>,
}

impl Record for Foo {
    fn knows(tag: u32) -> bool {
        matches!(tag, 1..=2 | CARRIED)
    }

    fn carried(&mut self) -> &mut Vec<Carried> {
        &mut self.carried
    }
}

impl Record for Quux {
    fn knows(tag: u32) -> bool {
        matches!(tag, 1..=2 | CARRIED)
    }

    fn carried(&mut self) -> &mut Vec<Carried> {
        &mut self.carried
    }
}
