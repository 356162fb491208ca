//! The rules of Locket: one owner for each key, until its time is over.
//!
//! Promise: every answer, its code and its text are those of Diego's Locket, and so is the order in which a request is checked,
//! because clients see the first thing that is wrong. What differs: a request without a resource is refused instead of ending
//! the server, and there is a limit to how much the book holds.
//!
//! The book reads no clock. Time comes in with every call, in nanoseconds from any point, and never goes back; what has
//! expired by then is gone before anything is looked at.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Code;

/// What Diego's table has room for, in characters.
pub const KEY_CHARS_MAX: usize = 255;
pub const OWNER_CHARS_MAX: usize = 255;
pub const VALUE_CHARS_MAX: usize = 4096;
/// More than the cells and components of any platform. Whoever asks for another key is refused; those that are there stay.
pub const RESOURCES_MAX: usize = 32_768;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

pub use api::locket::Kind;

/// What somebody asks for, as it came in.
pub type Asked = api::locket::proto::Resource;
/// What somebody has.
pub type Resource = api::locket::Resource;

/// Why a request is refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("invalid-resource: the request names none")]
    NoResource,
    #[error("invalid-type")]
    Type,
    #[error("invalid-ttl")]
    Ttl,
    #[error("invalid-owner")]
    Owner,
    #[error("lock-collision")]
    Collision,
    #[error("resource-not-found")]
    NotFound,
    /// Diego's database says only the first word.
    #[error("sql-bad-request: the {what} has {chars} characters, and at most {max} fit")]
    TooLong { what: &'static str, chars: usize, max: usize },
    #[error("too-many-resources: those that are there stay, and no other one fits")]
    Full,
    /// Nobody knows who holds it at the moment: the place where that is written does not answer.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl Refusal {
    pub fn code(&self) -> Code {
        match self {
            Self::Type | Self::NotFound => Code::NotFound,
            Self::NoResource | Self::Ttl | Self::Owner => Code::InvalidArgument,
            Self::Collision => Code::AlreadyExists,
            Self::TooLong { .. } => Code::Unknown,
            Self::Full => Code::ResourceExhausted,
            Self::Unavailable(_) => Code::Unavailable,
        }
    }
}

/// Something whose time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    pub key: String,
    pub owner: String,
    pub kind: Kind,
}

#[derive(Clone, Debug, Default)]
pub struct Book {
    rows: BTreeMap<String, Row>,
    /// Every key once, under the moment at which it expires.
    ends: BTreeSet<(u64, String)>,
}

#[derive(Clone, Debug)]
struct Row {
    owner: String,
    value: String,
    kind: Kind,
    expires_ns: u64,
}

impl Book {
    /// Takes a key, or keeps it. Value, kind and time limit become what this request says: a lock may turn into a presence.
    pub fn lock(&mut self, asked: Option<Asked>, ttl_s: i64, now_ns: u64) -> Result<(), Refusal> {
        self.expire(now_ns);
        let (Resource { key, owner, value, kind }, ttl_s) = understood(asked, ttl_s)?;
        let held = self.rows.get(&key);
        if held.is_some_and(|held| held.owner != owner) {
            return Err(Refusal::Collision);
        }
        check_lengths(&key, &owner, &value)?;
        if held.is_none() && self.rows.len() >= RESOURCES_MAX {
            return Err(Refusal::Full);
        }
        let expires_ns = now_ns.saturating_add(ttl_s.saturating_mul(NANOS_PER_SECOND));
        let row = Row { owner, value, kind, expires_ns };
        if let Some(before) = self.rows.insert(key.clone(), row) {
            self.ends.remove(&(before.expires_ns, key.clone()));
        }
        self.ends.insert((expires_ns, key));
        Ok(())
    }

    /// Gives a key back. One that nobody has is given back already; its kind is not looked at.
    pub fn release(&mut self, asked: Option<&Asked>, now_ns: u64) -> Result<(), Refusal> {
        self.expire(now_ns);
        let asked = asked.ok_or(Refusal::NoResource)?;
        match self.rows.get(&asked.key) {
            None => Ok(()),
            Some(held) if held.owner != asked.owner => Err(Refusal::Collision),
            Some(held) => {
                self.ends.remove(&(held.expires_ns, asked.key.clone()));
                self.rows.remove(&asked.key);
                Ok(())
            }
        }
    }

    pub fn fetch(&mut self, key: &str, now_ns: u64) -> Result<Resource, Refusal> {
        self.expire(now_ns);
        self.rows.get(key).map(|row| row.told(key)).ok_or(Refusal::NotFound)
    }

    pub fn fetch_all(&mut self, type_code: i32, now_ns: u64) -> Result<Vec<Resource>, Refusal> {
        self.expire(now_ns);
        let kind = kind_of(type_code)?;
        Ok(self.rows.iter().filter(|(_, row)| row.kind == kind).map(|(key, row)| row.told(key)).collect())
    }

    /// Forgets what nobody has asked for in its time, and says what that is.
    pub fn expire(&mut self, now_ns: u64) -> Vec<Expired> {
        let mut gone = Vec::new();
        while let Some((expires_ns, key)) = self.ends.pop_first() {
            if expires_ns > now_ns {
                self.ends.insert((expires_ns, key));
                break;
            }
            if let Some(row) = self.rows.remove(&key) {
                gone.push(Expired { key, owner: row.owner, kind: row.kind });
            }
        }
        gone
    }
}

impl Row {
    fn told(&self, key: &str) -> Resource {
        Resource { key: key.to_owned(), owner: self.owner.clone(), value: self.value.clone(), kind: self.kind }
    }
}

/// What a request to lock wants, and for how many seconds, if it wants anything that there is. Who holds the key is asked next, and
/// only then [whether it fits](check_lengths).
pub fn understood(asked: Option<Asked>, ttl_s: i64) -> Result<(Resource, u64), Refusal> {
    let Asked { key, owner, value, type_code, .. } = asked.ok_or(Refusal::NoResource)?;
    let kind = kind_of(type_code)?;
    let ttl_s = u64::try_from(ttl_s).ok().filter(|ttl_s| *ttl_s > 0).ok_or(Refusal::Ttl)?;
    if owner.is_empty() { Err(Refusal::Owner) } else { Ok((Resource { key, owner, value, kind }, ttl_s)) }
}

pub fn check_lengths(key: &str, owner: &str, value: &str) -> Result<(), Refusal> {
    check_length("key", key, KEY_CHARS_MAX)?;
    check_length("owner", owner, OWNER_CHARS_MAX)?;
    check_length("value", value, VALUE_CHARS_MAX)
}

/// The old field with the name of the type is not looked at.
pub fn kind_of(type_code: i32) -> Result<Kind, Refusal> {
    [Kind::Lock, Kind::Presence].into_iter().find(|kind| i32::from(kind.code()) == type_code).ok_or(Refusal::Type)
}

fn check_length(what: &'static str, text: &str, max: usize) -> Result<(), Refusal> {
    let chars = text.chars().count();
    if chars > max { Err(Refusal::TooLong { what, chars, max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
