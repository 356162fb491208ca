//! The documents of the operator's API, and those about migrations as far as the commands look into them.
//!
//! A server may say more than a command knows: what is not known is ignored here, and `--json` passes it on untouched.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::failure::CommandError;

/// An answer in JSON, as it was written.
#[derive(Debug)]
pub(crate) struct Document(Box<RawValue>);

impl Document {
    pub(crate) fn of(bytes: &Bytes) -> Result<Self, CommandError> {
        serde_json::from_slice(bytes).map(Self).map_err(|error| unreadable(&error))
    }

    /// What this very program says.
    pub(crate) fn from(value: &impl Serialize) -> Result<Self, CommandError> {
        serde_json::value::to_raw_value(value).map(Self).map_err(|error| unreadable(&error))
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, CommandError> {
        serde_json::from_str(self.0.get()).map_err(|error| unreadable(&error))
    }

    /// A part of it: the value of a key at the top.
    pub(crate) fn part(&self, key: &str) -> Result<Self, CommandError> {
        let mut members: std::collections::BTreeMap<String, Box<RawValue>> = self.read()?;
        let missing = || CommandError::Unfinished(format!("the answer says nothing about {key}; is the server older?"));
        members.remove(key).map(Self).ok_or_else(missing)
    }

    /// The items of a list under a key.
    pub(crate) fn items(&self, key: &str) -> Result<Vec<Self>, CommandError> {
        let items: Vec<Box<RawValue>> = self.part(key)?.read()?;
        Ok(items.into_iter().map(Self).collect())
    }

    /// The same JSON in one line.
    pub(crate) fn one_line(&self) -> String {
        let (mut text, mut in_string, mut escaped) = (String::new(), false, false);
        for c in self.0.get().chars() {
            if in_string || !c.is_ascii_whitespace() {
                text.push(c);
            }
            match (in_string, c) {
                (_, '"') if !escaped => in_string = !in_string,
                _ => {}
            }
            escaped = in_string && c == '\\' && !escaped;
        }
        text
    }
}

fn unreadable(error: &serde_json::Error) -> CommandError {
    CommandError::Unfinished(format!("the answer cannot be understood ({error}); is the server of another release?"))
}

/// How far a migration is. When you add a state: a row in each `match` on it, which the compiler finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    None,
    Held,
    Sweeping,
    Paused,
    Verifying,
    Ready,
    Finalizing,
    Cleaning,
    Blocked,
    RollingBack,
    RolledBack,
    Failed,
    /// From a newer server. Its explanation still says what it means.
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Migration {
    pub(crate) state: State,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) explanation: String,
    pub(crate) next: Option<String>,
    pub(crate) current: Option<Version>,
    pub(crate) target: Option<Version>,
    pub(crate) newest: Option<Version>,
    pub(crate) mode: Option<String>,
    pub(crate) finalization: Option<String>,
    pub(crate) done: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) eta_s: Option<f64>,
    pub(crate) elapsed_s: Option<f64>,
    pub(crate) last_progress_s: Option<f64>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) point_of_no_return_passed: bool,
    pub(crate) can_go_back: Option<bool>,
    pub(crate) how_to_go_back: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) blockers: Vec<Blocker>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) leftover_roots: Vec<Version>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Version {
    pub(crate) number: u64,
    /// Absent for one that the server does not know.
    pub(crate) name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Blocker {
    pub(crate) what: String,
    pub(crate) command: Option<String>,
}

/// The answer to something that was done.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {
    pub(crate) message: String,
    pub(crate) migration: Option<Migration>,
}

impl Version {
    pub(crate) fn shown(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} ({})", self.number),
            None => format!("{} (not known to this release)", self.number),
        }
    }

    /// What an operator may type to mean it.
    pub(crate) fn spellings(&self) -> Vec<String> {
        std::iter::once(self.number.to_string()).chain(self.name.clone()).collect()
    }
}

impl Migration {
    /// Ready is a state to act on only where the end is the operator's to decide.
    pub(crate) fn waits_for_operator(&self) -> bool {
        match self.state {
            State::Held | State::Paused => true,
            State::Ready => self.finalization.as_deref() != Some("auto"),
            _ => false,
        }
    }
}

/// What does not apply is null.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(json: &'static str) -> Document {
        Document::of(&Bytes::from_static(json.as_bytes())).unwrap()
    }

    #[test]
    fn one_line_keeps_everything_but_the_layout() {
        let json = "{\n  \"b\" : \"a \\\" \\\\\", \"a\": [1.50, null,\t{}],\n \"new\": \"x  y\"\n}\n";
        assert_eq!(document(json).one_line(), r#"{"b":"a \" \\","a":[1.50,null,{}],"new":"x  y"}"#);
    }

    #[test]
    fn what_is_missing_null_or_new_does_not_matter() {
        let sparse: Migration = document(r#"{"state":"none","blockers":null,"explanation":null}"#).read().unwrap();
        assert_eq!((sparse.state, sparse.blockers.len(), sparse.eta_s), (State::None, 0, None));
        let newer: Migration = document(r#"{"state":"pondering","mood":"calm","eta_s":3}"#).read().unwrap();
        assert_eq!((newer.state, newer.eta_s), (State::Unknown, Some(3.0)));
    }

    #[test]
    fn an_answer_that_is_none_is_told() {
        let text = |error: CommandError| error.to_string();
        assert!(text(Document::of(&Bytes::from_static(b"<html>")).unwrap_err()).contains("cannot be understood"));
        assert!(text(document("{}").part("migration").unwrap_err()).contains("says nothing about migration"));
        assert!(text(document("[]").read::<Migration>().unwrap_err()).contains("cannot be understood"));
    }
}
