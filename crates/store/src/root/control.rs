//! The durable part of the operator's will: what a migration may and may not do by itself.
//!
//! Promise: what an operator asked for holds over restarts and changes of master, until it is taken back. It is one
//! JSON record, never encrypted; no record means that nothing was asked for, and a record that cannot be read is an
//! error, because doing what was forbidden would be worse than stopping. Members that this release does not know are
//! written back as they were read.

use serde::{Deserialize, Serialize};

use super::{CONTROL_KEY, RootError, Unknown, parse_json, to_json};
use crate::kv::{Step, Store};
use crate::record::DataVersion;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    /// Servers of this data version do not migrate by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    pub paused: bool,
    /// The rollback that is under way may lose what the older version cannot hold.
    pub accept_loss: bool,
    /// The migration ends as soon as it can, without a further word.
    pub finalize_when_ready: bool,
    /// Which migration was verified last, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub version: DataVersion,
    pub why: String,
    pub since_ns: i64,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Held {
    pub fn new(version: DataVersion, why: impl Into<String>, since_ns: i64) -> Held {
        Held { version, why: why.into(), since_ns, unknown: Unknown::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    pub from: DataVersion,
    pub to: DataVersion,
    pub at_ns: i64,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Verified {
    pub fn new(from: DataVersion, to: DataVersion, at_ns: i64) -> Verified {
        Verified { from, to, at_ns, unknown: Unknown::new() }
    }
}

pub(super) async fn read_control(store: &dyn Store) -> Result<Control, RootError> {
    let Some(json) = store.get(CONTROL_KEY).await? else { return Ok(Control::default()) };
    parse_json(CONTROL_KEY, &json)
}

/// Change a [`Control`] that was read, so that its unknown members stay.
pub fn put_control(step: &mut Step, control: &Control) {
    step.put(CONTROL_KEY, to_json(control));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::root::tests::{json_of, with};

    async fn rewritten(json: &str, change: impl FnOnce(&mut Control)) -> String {
        let (store, _) = with(&[(CONTROL_KEY, json)]).await;
        let mut control = read_control(&store).await.unwrap();
        change(&mut control);
        let mut step = Step::default();
        put_control(&mut step, &control);
        json_of(&step, CONTROL_KEY)
    }

    #[tokio::test]
    async fn every_member_has_its_place() {
        let full = rewritten("{}", |control| {
            control.held = Some(Held::new(DataVersion(5), "rolled back", 7));
            control.paused = true;
            control.verified = Some(Verified::new(DataVersion(4), DataVersion(5), 9));
        });
        expect![[r#"{"held":{"version":5,"why":"rolled back","since_ns":7},"paused":true,"accept_loss":false,"finalize_when_ready":false,"verified":{"from":4,"to":5,"at_ns":9}}"#]]
            .assert_eq(&full.await);
        let (store, _) = with(&[]).await;
        assert_eq!(read_control(&store).await.unwrap(), Control::default());
    }

    #[tokio::test]
    async fn what_a_later_release_added_is_kept() {
        let json = r#"{"pace":{"per_s":100},"held":{"version":5,"why":"x","since_ns":7,"by":"someone"},"verified":{"from":4,"to":5,"at_ns":9,"count":3}}"#;
        expect![[r#"{"held":{"version":5,"why":"x","since_ns":7,"by":"someone"},"paused":true,"accept_loss":false,"finalize_when_ready":false,"verified":{"from":4,"to":5,"at_ns":9,"count":3},"pace":{"per_s":100}}"#]]
            .assert_eq(&rewritten(json, |control| control.paused = true).await);
    }

    #[tokio::test]
    async fn a_damaged_record_is_an_error_and_not_the_default() {
        let check = async |json: &str, why: &str| {
            let (store, _) = with(&[(CONTROL_KEY, json)]).await;
            let error = read_control(&store).await.unwrap_err();
            assert!(!error.retryable());
            let expected =
                format!("/migration is unreadable: {why}. Nothing was changed. Restore the store from a backup");
            assert_eq!(error.to_string(), expected);
        };
        check("", "it is cut off").await;
        check("{\"paused\":tru", "it is cut off").await;
        check("paused", "it is not JSON (line 1, column 1)").await;
        let wrong = "it is JSON, but a member is missing or is not what it has to be";
        check(r#"{"paused":"hunter2"}"#, wrong).await;
        check(r#"{"held":{"version":0,"why":"","since_ns":1}}"#, wrong).await;
        check(r#"{"held":{"version":5}}"#, wrong).await;
        check("[]", wrong).await;
    }
}
