//! Encryption at rest: a key is a pair of pure functions between plain and sealed bytes, and this is where it is applied.
//!
//! Promise: what the server above reads and writes is plain, and what lies in the store below is sealed under the active
//! key, bound to its place and its data version. Nothing above this module knows about keys, nothing below about records.
//! A value that cannot be opened is handed up as it lies there, so that it is kept and named like any other record that
//! cannot be read.
//!
//! [`keyring`] holds the keys and derives what they seal with, [`envelope`] is the layout of a sealed value, [`ledger`]
//! what the store itself knows about keys, [`census`] counts records by key, and [`vault`] is the store with all of it.
//! The format is drawn in `docs/formats/storage.md`, with vectors that an independent implementation opens and seals.
//!
//! Only records are sealed: what lies below the root of a data version, and what was moved aside from there. The root
//! itself stays plain, so that a server without the key can say which one it needs.

pub mod census;
pub mod envelope;
pub mod keyring;
pub mod ledger;
pub mod vault;

pub use census::{Census, Count};
pub use keyring::{KEY_BYTES_MAX, KEYS_MAX, KeyName, Keyring, KeyringError, Secret, Unopened};
pub use ledger::{Ledger, LedgerEntry};
pub use vault::{Stamp, Stamps, Vault};

use crate::record::DataVersion;
use crate::root::{QUARANTINE_ROOT, original_key};

/// Where a record lies, as far as its seal is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    pub version: DataVersion,
    pub path: &'a str,
}

impl<'a> Place<'a> {
    /// `None` for what is never sealed. A record that was moved aside keeps the seal of the place it was written for.
    pub fn of(key: &'a str) -> Option<Place<'a>> {
        let path = if key.starts_with(QUARANTINE_ROOT) { original_key(key)? } else { key };
        let (number, _) = path.strip_prefix("/v")?.split_once('/')?;
        Some(Place { version: crate::root::parse_version(number)?, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_a_place_and_the_root_has_none() {
        let check = |key: &str, expected: Option<(u64, &str)>| {
            assert_eq!(Place::of(key).map(|place| (place.version.0, place.path)), expected, "{key}");
        };
        check("/v1/task/t", Some((1, "/v1/task/t")));
        check("/v1794700800/desired/schedule/g", Some((1_794_700_800, "/v1794700800/desired/schedule/g")));
        check("/quarantine/00000000000000000007/v1/task/t", Some((1, "/v1/task/t")));
        for key in ["/version", "/v", "/v/", "/v01/x", "/v0/x", "/vx/x", "/v1", "/migration", "/history/1", "/keys/A"] {
            check(key, None);
        }
        check("/quarantine/7/v1/task/t", None);
        check("/quarantine/00000000000000000007/else", None);
    }
}
