//! What must still be there at the end of a test.
//!
//! Promise: a key is reported by [`Ledger::missing`] exactly if its final value is neither the last acknowledged one nor
//! one that may have come after it: concurrent with it, or from a write whose outcome is unknown. Reads are used for one
//! thing only: a value that was seen before a later write began, and then overwritten, cannot come back.
//!
//! It looks at the final state alone and is cheap; whether everything in between was right is [`History::check`]'s part.

use std::collections::BTreeMap;
use std::fmt;

use super::{History, Recorded, first_seen};

/// For each key of a history, the values that it may have in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    keys: BTreeMap<String, Account>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    /// The last acknowledged value; several if their writes were concurrent, none if nothing was acknowledged.
    acknowledged: Vec<Option<String>>,
    /// Values of writes that may have taken effect after it, or may do so yet.
    unknown: Vec<Option<String>>,
}

/// A key that does not hold what it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub key: String,
    pub found: Option<String>,
    /// The last acknowledged value, or several whose writes were concurrent. Empty if no write was acknowledged.
    pub acknowledged: Vec<Option<String>>,
    /// What unknown writes may have put in its place.
    pub unknown: Vec<Option<String>>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            |value: &Option<String>| value.as_ref().map_or_else(|| "no value".to_owned(), |it| format!("{it:?}"));
        let list = |values: &[Option<String>]| values.iter().map(shown).collect::<Vec<_>>().join(" or ");
        write!(f, "key {:?} holds {} in the end; ", self.key, shown(&self.found))?;
        match self.acknowledged.as_slice() {
            [] => write!(f, "no write of it was acknowledged")?,
            values => write!(f, "acknowledged last: {}", list(values))?,
        }
        if !self.unknown.is_empty() {
            write!(f, "; possible after unknown outcomes: {}", list(&self.unknown))?;
        }
        Ok(())
    }
}

impl Ledger {
    pub fn of(history: &History) -> Self {
        let keys = history.by_key().into_iter().map(|(key, calls)| (key.to_owned(), Account::of(&calls)));
        Self { keys: keys.collect() }
    }

    /// Compares with the final state. To be called when no call is open any more, and after a read that is up to date.
    pub fn missing(&self, read: impl Fn(&str) -> Option<String>) -> Vec<Missing> {
        let compare = |(key, account): (&String, &Account)| {
            let found = read(key);
            let Account { acknowledged, unknown } = account.clone();
            (!account.allows(&found)).then(|| Missing { key: key.clone(), found, acknowledged, unknown })
        };
        self.keys.iter().filter_map(compare).collect()
    }
}

impl Account {
    fn of(calls: &[&Recorded]) -> Self {
        let first_seen = first_seen(calls);
        let last_begin = calls.iter().filter(|call| call.is_done()).map(|call| call.begin).max();
        let mut account = Self::default();
        for call in calls {
            let Some(value) = call.leaves() else { continue };
            let overwritten = call.settled(&first_seen).is_some_and(|end| Some(end) < last_begin);
            let values = if call.is_done() { &mut account.acknowledged } else { &mut account.unknown };
            let value = value.map(str::to_owned);
            if !overwritten && !values.contains(&value) {
                values.push(value);
            }
        }
        account
    }

    fn allows(&self, found: &Option<String>) -> bool {
        let untouched = self.acknowledged.is_empty() && found.is_none();
        untouched || self.acknowledged.contains(found) || self.unknown.contains(found)
    }
}
