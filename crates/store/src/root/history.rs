//! What happened to the data version of this store: a list that only grows at its end.
//!
//! Promise: an entry is written in the same step as what it tells of, so it is there exactly if that happened, and is
//! never changed. The list is bounded: the step that appends an entry drops the one [`HISTORY_ENTRIES_MAX`] before it,
//! and a detail is cut at [`HISTORY_DETAIL_BYTES_MAX`]. An entry that cannot be read is listed as unreadable, and one
//! of a later release under the name that release gave it; neither hides the others.
//!
//! The list is for humans. Nothing decides by it.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{HISTORY_ROOT, RootError, explain_json, to_json};
use crate::kv::{Page, Step, Store};
use crate::record::DataVersion;

/// Older entries are dropped.
pub const HISTORY_ENTRIES_MAX: u64 = 1_000;
/// Longer details are cut, which shows at their end.
pub const HISTORY_DETAIL_BYTES_MAX: usize = 4_096;

const NUMBER_DIGITS: usize = 20;
const PAGE_RECORDS: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub at_ns: i64,
    #[serde(default)]
    pub node: String,
    #[serde(default)]
    pub release: String,
    pub what: HistoryEvent,
    #[serde(default)]
    pub from: Option<DataVersion>,
    #[serde(default)]
    pub to: Option<DataVersion>,
    /// A sentence for a human. It never holds a value of a record.
    #[serde(default)]
    pub detail: String,
}

/// When you add one: its name stays, because stores hold it. Older releases show it as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryEvent {
    Created,
    Begun,
    Restarted,
    Verified,
    Finalized,
    Cleaned,
    Paused,
    Resumed,
    Aborted,
    Held,
    RollbackBegun,
    RolledBack,
    QuarantineDiscarded,
    QuarantineRetried,
    StoreConfirmed,
    KeyRotationBegun,
    KeyRotationEnded,
    KeyForgotten,
    /// Stands for an entry that is there and cannot be read. It is never written.
    Unreadable,
    /// The name that a later release gave to something.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for HistoryEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

/// Adds an entry to the step that does what the entry tells of. The first number of a master comes from
/// [`next_history_number`], and each entry takes the next.
pub fn append_history(step: &mut Step, number: u64, entry: &Entry) {
    let mut entry = entry.clone();
    if entry.detail.len() > HISTORY_DETAIL_BYTES_MAX {
        const CUT: &str = "…";
        entry.detail.truncate(entry.detail.floor_char_boundary(HISTORY_DETAIL_BYTES_MAX - CUT.len()));
        entry.detail.push_str(CUT);
    }
    step.put(key_of(number), to_json(&entry));
    if let Some(dropped) = number.checked_sub(HISTORY_ENTRIES_MAX) {
        step.delete(key_of(dropped));
    }
}

/// The last entries with their numbers, the newest at the end.
pub async fn read_history(store: &dyn Store, last: usize) -> Result<Vec<(u64, Entry)>, RootError> {
    let mut newest = VecDeque::new();
    visit(store, |number, value| {
        newest.push_back((number, value));
        if newest.len() > last {
            newest.pop_front();
        }
    })
    .await?;
    Ok(newest.into_iter().map(|(number, value)| (number, parse(&value))).collect())
}

/// The number of the entry that is appended next. The first is 1.
pub async fn next_history_number(store: &dyn Store) -> Result<u64, RootError> {
    let mut next: u64 = 1;
    visit(store, |number, _| next = number.saturating_add(1)).await?;
    Ok(next)
}

/// The bound keeps the list short enough to walk through it, since a store cannot be read from its end. Keys without a
/// number are not ours.
async fn visit(store: &dyn Store, mut each: impl FnMut(u64, Bytes) + Send) -> Result<(), RootError> {
    let mut after = None;
    loop {
        let Page { records, next } = store.scan(HISTORY_ROOT, after.as_deref(), PAGE_RECORDS).await?;
        for (key, value) in records {
            if let Some(number) = number_of(&key) {
                each(number, value);
            }
        }
        if next.is_none() {
            return Ok(());
        }
        after = next;
    }
}

fn key_of(number: u64) -> String {
    format!("{HISTORY_ROOT}{number:0NUMBER_DIGITS$}")
}

fn number_of(key: &str) -> Option<u64> {
    let digits = key.strip_prefix(HISTORY_ROOT)?;
    let is_number = digits.len() == NUMBER_DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn parse(value: &[u8]) -> Entry {
    serde_json::from_slice(value).unwrap_or_else(|error| Entry {
        at_ns: 0,
        node: String::new(),
        release: String::new(),
        what: HistoryEvent::Unreadable,
        from: None,
        to: None,
        detail: format!("this entry cannot be read: {}", explain_json(&error)),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::root::tests::{json_of, with};

    fn entry(what: HistoryEvent, detail: &str) -> Entry {
        Entry {
            at_ns: 1_700_000_000_000_000_000,
            node: "node-1".into(),
            release: "0.2.0".into(),
            what,
            from: Some(DataVersion(1)),
            to: Some(DataVersion(5)),
            detail: detail.into(),
        }
    }

    #[test]
    fn an_entry_is_frozen() {
        let mut step = Step::default();
        append_history(&mut step, 7, &entry(HistoryEvent::RollbackBegun, "asked for"));
        assert_eq!(step.ops.len(), 1, "there is nothing to drop before entry 1000");
        expect![[r#"{"at_ns":1700000000000000000,"node":"node-1","release":"0.2.0","what":"rollback_begun","from":1,"to":5,"detail":"asked for"}"#]]
            .assert_eq(&json_of(&step, "/history/00000000000000000007"));
    }

    #[test]
    fn events_are_shown_by_their_stored_names() {
        let check = |event: HistoryEvent, name: &str| {
            assert_eq!(event.to_string(), name);
            assert_eq!(serde_json::to_value(&event).unwrap(), name);
            assert_eq!(serde_json::from_value::<HistoryEvent>(name.into()).unwrap(), event);
        };
        check(HistoryEvent::Created, "created");
        check(HistoryEvent::RolledBack, "rolled_back");
        check(HistoryEvent::QuarantineDiscarded, "quarantine_discarded");
        check(HistoryEvent::StoreConfirmed, "store_confirmed");
        check(HistoryEvent::Other("keys_rotated".into()), "keys_rotated");
    }

    #[tokio::test]
    async fn the_list_is_bounded_and_numbers_go_on() {
        let (store, held) = with(&[]).await;
        assert_eq!(next_history_number(&store).await.unwrap(), 1);
        for number in 1..=HISTORY_ENTRIES_MAX + 5 {
            let mut step = Step::default();
            append_history(&mut step, number, &entry(HistoryEvent::Paused, ""));
            store.commit(&held, &[step]).await.unwrap();
        }
        let numbers = async |last| {
            let entries = read_history(&store, last).await.unwrap();
            entries.iter().map(|(number, _)| *number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(usize::MAX).await, (6..=1_005).collect::<Vec<_>>());
        assert_eq!(numbers(2).await, [1_004, 1_005]);
        assert!(numbers(0).await.is_empty());
        assert_eq!(next_history_number(&store).await.unwrap(), 1_006);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_listed_as_such() {
        let (store, _) = with(&[
            ("/history/00000000000000000001", r#"{"at_ns":1,"what":"created","later":true}"#),
            ("/history/00000000000000000002", r#"{"at_ns":"hunter2","what":"begun"}"#),
            ("/history/00000000000000000003", r#"{"at_ns":3,"what":"keys_rotated"}"#),
            ("/history/00000000000000000004", r#"{"at_ns":3,"wh"#),
            ("/history/5", "no number of ours"),
            ("/history/+0000000000000000006", "no number of ours"),
        ])
        .await;
        let entries = read_history(&store, 10).await.unwrap();
        let list: Vec<_> =
            entries.iter().map(|(number, entry)| format!("{number} {} {}\n", entry.what, entry.detail)).collect();
        expect![[r#"
            1 created 
            2 unreadable this entry cannot be read: it is JSON, but a member is missing or is not what it has to be
            3 keys_rotated 
            4 unreadable this entry cannot be read: it is cut off
        "#]]
        .assert_eq(&list.concat());
        assert_eq!(next_history_number(&store).await.unwrap(), 5);
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let mut step = Step::default();
        append_history(&mut step, 1, &entry(HistoryEvent::Held, &"ä".repeat(HISTORY_DETAIL_BYTES_MAX)));
        let Entry { detail, .. } = serde_json::from_str(&json_of(&step, &key_of(1))).unwrap();
        assert!(detail.ends_with("ä…") && detail.len() <= HISTORY_DETAIL_BYTES_MAX, "{}", detail.len());
    }
}
