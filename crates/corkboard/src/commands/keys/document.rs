//! The document about keys, as far as the commands look into it.
//!
//! A server may say more than a command knows: what is not known is ignored here, and `--json` passes it on untouched.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::commands::migrate::or_default;
use crate::commands::migrate::watch::{Progress, Watched};

/// What is going on. When you add a state: a row in each `match` on it, which the compiler finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Off,
    Settled,
    Rotating,
    Unfinished,
    Verifying,
    Checking,
    Blocked,
    /// From a newer server. Its explanation still says what it means.
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Keys {
    pub(super) state: State,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) explanation: String,
    pub(super) next: Option<String>,
    pub(super) active: Option<String>,
    pub(super) marker: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) done: Option<u64>,
    pub(super) total: Option<u64>,
    pub(super) rate_per_s: Option<f64>,
    pub(super) eta_s: Option<f64>,
    pub(super) elapsed_s: Option<f64>,
    pub(super) records: Option<u64>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) plain_records: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) keys: Vec<Key>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) blocked: Vec<Broken>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) warnings: Vec<String>,
    pub(super) verification: Option<Verification>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) active: bool,
    pub(super) configured: bool,
    pub(super) records: u64,
    pub(super) writes: u64,
    pub(super) writes_max: u64,
    pub(super) oldest_record_ns: Option<i64>,
    pub(super) verdict: String,
}

/// A record that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Broken {
    pub(super) id: String,
    pub(super) why: String,
}

/// What a look at every record found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Verification {
    pub(super) at_ns: i64,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) plain: Tally,
    pub(super) keys: BTreeMap<String, Tally>,
    pub(super) broken: Vec<Broken>,
    pub(super) broken_total: u64,
}

/// The records of one key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Tally {
    pub(super) records: u64,
    pub(super) oldest_ns: Option<i64>,
    pub(super) oldest_id: Option<String>,
}

/// The answer to something that was begun.
#[derive(Debug, Deserialize)]
pub(super) struct Begun {
    pub(super) message: String,
    pub(super) keys: Keys,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Settled => "settled",
            Self::Rotating => "rotating",
            Self::Unfinished => "unfinished",
            Self::Verifying => "verifying",
            Self::Checking => "checking",
            Self::Blocked => "BLOCKED",
            Self::Unknown => "in a state that this command does not know",
        }
    }

    /// Something happens without the operator.
    pub(super) fn is_moving(self) -> bool {
        matches!(self, Self::Rotating | Self::Verifying | Self::Checking | Self::Unknown)
    }
}

impl From<bbs::keys::State> for State {
    fn from(state: bbs::keys::State) -> Self {
        use bbs::keys::State as Of;
        match state {
            Of::Off => Self::Off,
            Of::Settled => Self::Settled,
            Of::Rotating => Self::Rotating,
            Of::Unfinished => Self::Unfinished,
            Of::Verifying => Self::Verifying,
            Of::Checking => Self::Checking,
            Of::Blocked => Self::Blocked,
        }
    }
}

impl Watched for Keys {
    fn progress(&self) -> Progress {
        let counted = |number: Option<u64>| number.filter(|_| self.state.is_moving());
        Progress {
            word: self.state.word(),
            done: counted(self.done),
            total: counted(self.total),
            rate_per_s: self.rate_per_s,
            eta_s: self.eta_s,
            elapsed_s: self.elapsed_s,
            quiet_s: None,
        }
    }

    fn lasting(&self) -> Self {
        Self { rate_per_s: None, eta_s: None, elapsed_s: None, ..self.clone() }
    }
}

/// A word that a shell passes on as it is.
pub(super) fn quoted(id: &str) -> String {
    format!("'{}'", id.replace('\'', r"'\''"))
}
