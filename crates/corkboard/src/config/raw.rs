//! The configuration as it stands in the file: every key optional, every value still to be understood.
//!
//! These types mirror the file and decide nothing. Unlike serde's `deny_unknown_fields`, which gives up at the first key it
//! does not know, they collect such keys, so that one run of `config check` names everything that is wrong. Each value
//! keeps its place in the file for that.
//!
//! When you add a key: a word in its table here, a line in `check.rs` beside its neighbours, a line in `example.toml` and in
//! `docs/how-to/configure.md`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use toml::{Spanned, Value};

/// Text where a table should be may be a key, so it is not repeated.
pub(crate) const TEXT: Unexpected<'_> = Unexpected::Other("text");

/// A value of any type, with its place.
pub(crate) type Raw = Option<Spanned<Value>>;

macro_rules! raw_table {
    ($(#[$doc:meta])* $name:ident: $($key:ident)*; $($table:ident = $type:ident)*) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $(pub(crate) $key: Raw,)*
            $(pub(crate) $table: Option<$type>,)*
            pub(crate) unknown: Vec<Spanned<String>>,
        }

        impl $name {
            /// For the message about a key that is none of them.
            pub(crate) const KEYS: &'static [&'static str] = &[$(stringify!($key),)* $(stringify!($table),)*];
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Members;
                impl<'de> Visitor<'de> for Members {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a table")
                    }

                    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<$name, E> {
                        Err(E::invalid_type(TEXT, &self))
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut table = $name::default();
                        while let Some(key) = map.next_key::<Spanned<String>>()? {
                            match key.get_ref().as_str() {
                                $(stringify!($key) => table.$key = Some(map.next_value()?),)*
                                $(stringify!($table) => table.$table = Some(map.next_value()?),)*
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                    table.unknown.push(key);
                                }
                            }
                        }
                        Ok(table)
                    }
                }
                from.deserialize_map(Members)
            }
        }
    };
}

pub(crate) use raw_table;

raw_table! {
    /// The whole file.
    RawConfig: node listen health advertise max_task_retries definitions_kept identity standby;
    store = RawStore tls = RawTls timing = RawTiming limits = RawLimits
    auctioneer = RawAuctioneer cells = RawCells callbacks = RawCallbacks migration = RawMigration
    encryption = RawEncryption locket = RawLocket serve_locket = RawServeLocket
}
raw_table! { RawStore: engine dir endpoints prefix lease user password_file compact ca cert key; }
raw_table! { RawTls: ca cert key; }
raw_table! {
    RawTiming: converge_interval kick_task expire_pending_task expire_completed_task communication_timeout;
}
raw_table! {
    RawLimits: body_bytes_max header_bytes_max connections_max handshake_timeout idle_timeout body_timeout stall_timeout
    drain_timeout;
}
raw_table! { RawAuctioneer: url require_tls ca cert key; }
raw_table! { RawCells: file require_tls workers ca cert key; }
raw_table! { RawCallbacks: body give_up workers ca cert key; }
raw_table! { RawLocket: address ca cert key owner keepalive_time keepalive_timeout; }
raw_table! { RawServeLocket: listen; }

/// The keys by name; which names there are is up to the operator.
#[derive(Default)]
pub(crate) struct RawKeys(pub(crate) BTreeMap<Spanned<String>, Spanned<Value>>);

impl<'de> Deserialize<'de> for RawKeys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ByName;
        impl<'de> Visitor<'de> for ByName {
            type Value = RawKeys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of keys by name")
            }

            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<RawKeys, E> {
                Err(E::invalid_type(TEXT, &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawKeys, A::Error> {
                let mut keys = BTreeMap::new();
                while let Some((name, value)) = map.next_entry()? {
                    keys.insert(name, value);
                }
                Ok(RawKeys(keys))
            }
        }
        from.deserialize_map(ByName)
    }
}

/// Names only: a value may be a key.
impl fmt::Debug for RawKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().map(Spanned::get_ref)).finish()
    }
}

raw_table! { RawEncryption: active mode records_per_s_max; keys = RawKeys }
raw_table! { RawMigration: mode start finalization records_per_s_max rollback_on_drain_to_version; }
