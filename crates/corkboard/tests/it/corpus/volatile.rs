//! What differs from run to run, by name: it is masked, and everything else is compared.
//!
//! A time becomes `*`. The epoch of a modification tag becomes `*1`, `*2` in the order in which epochs are first seen in a
//! file, so that it still shows which answers speak of the same record. Entries of a list whose order nobody promised are
//! sorted. The id of an event is a position in one server's history; it is not kept.

use std::collections::BTreeMap;

/// Fields that hold a time. Zero and absent stay: that nothing is there does not differ.
const TIMES: &[&str] = &["since", "created_at", "updated_at", "first_completed_at"];

const EPOCH: &str = "epoch";

/// Lists in answers without an order.
const UNORDERED: &[&str] =
    &["domains", "cells", "actual_lrps", "actual_lrp_groups", "desired_lrps", "desired_lrp_scheduling_infos", "tasks"];

/// The epochs seen in one file.
#[derive(Debug, Default)]
pub(super) struct Epochs(BTreeMap<String, usize>);

impl Epochs {
    /// The text of a message without what is volatile.
    pub(super) fn masked(&mut self, text: &str) -> String {
        let times_masked: String = text.lines().map(|line| format!("{}\n", without_time(line))).collect();
        let sorted = sorted(&times_masked);
        sorted.lines().map(|line| format!("{}\n", self.without_epoch(line))).collect()
    }

    fn without_epoch(&mut self, line: &str) -> String {
        let Some((name, value)) = line.split_once(": ").filter(|(name, _)| name.trim_start() == EPOCH) else {
            return line.to_owned();
        };
        let next = self.0.len() + 1;
        format!("{name}: *{}", self.0.entry(value.to_owned()).or_insert(next))
    }
}

fn without_time(line: &str) -> String {
    match line.split_once(": ") {
        Some((name, value))
            if TIMES.contains(&name.trim_start()) && value.parse::<i64>().is_ok_and(|time| time > 0) =>
        {
            format!("{name}: *")
        }
        _ => line.to_owned(),
    }
}

/// Sorts the entries of each list, in the place where the list stands.
fn sorted(text: &str) -> String {
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let is_inside = line.starts_with(' ') || line == "}";
        match entries.last_mut().filter(|_| is_inside) {
            Some((_, entry)) => *entry += &format!("{line}\n"),
            None => entries.push((line.split([':', ' ']).next().unwrap_or_default().to_owned(), format!("{line}\n"))),
        }
    }
    for list in entries.chunk_by_mut(|(a, _), (b, _)| a == b) {
        if UNORDERED.contains(&list[0].0.as_str()) {
            list.sort();
        }
    }
    entries.into_iter().map(|(_, entry)| entry).collect()
}

#[test]
fn only_what_is_volatile_is_masked() {
    let text = "error {\n}\ntasks {\n    task_guid: \"b\"\n    created_at: 17\n    epoch: \"x\"\n}\n\
                tasks {\n    task_guid: \"a\"\n    created_at: -1\n    epoch: \"y\"\n}\nresult: \"since: 1\"\n";
    let mut epochs = Epochs::default();
    assert_eq!(
        epochs.masked(text),
        "error {\n}\ntasks {\n    task_guid: \"a\"\n    created_at: -1\n    epoch: *1\n}\n\
         tasks {\n    task_guid: \"b\"\n    created_at: *\n    epoch: *2\n}\nresult: \"since: 1\"\n"
    );
    assert_eq!(
        epochs.masked("epoch: \"x\"\nepoch: \"z\"\nother: \"b\"\nother: \"a\"\n"),
        "epoch: *2\nepoch: *3\nother: \"b\"\nother: \"a\"\n"
    );
}
