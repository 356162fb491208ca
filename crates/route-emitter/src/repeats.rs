//! Unregistrations are said several times, because a message may be lost and a router would go on sending requests.
//!
//! Every unregistration is repeated, whatever caused it, until it was said often enough or somebody registers what it
//! names. Diego leaves out those that follow a removal; a lost message does the same harm there.
//!
//! The number that wait is bounded; beyond that an unregistration is said once, and routers forget the endpoint by age.

use std::collections::BTreeMap;

use crate::row::{Key, Row};
use crate::table::Changes;

const REPEATED_ROWS_MAX: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Repeats {
    times: u32,
    waiting: BTreeMap<Key, (Row, u32)>,
}

impl Repeats {
    pub(crate) fn new(times: u32) -> Self {
        Self { times, waiting: BTreeMap::new() }
    }

    pub(crate) fn note(&mut self, changes: &Changes) {
        for row in &changes.register {
            self.waiting.remove(&row.key());
        }
        for row in &changes.unregister {
            if self.times > 0 && self.waiting.len() < REPEATED_ROWS_MAX {
                self.waiting.insert(row.key(), (row.clone(), self.times));
            }
        }
    }

    /// What is to be said again now.
    pub(crate) fn due(&mut self) -> Vec<Row> {
        let due = self.waiting.values().map(|(row, _)| row.clone()).collect();
        self.waiting.retain(|_, (_, left)| {
            *left -= 1;
            *left > 0
        });
        due
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use api::registry::RegistryMessage;

    use super::*;
    use crate::row::Kind;

    fn row(host: &str) -> Row {
        let message = RegistryMessage { host: host.into(), uris: vec!["u".into()], ..RegistryMessage::default() };
        Row { kind: Kind::Http, message, since_ns: 0 }
    }

    fn due(repeats: &mut Repeats) -> String {
        repeats.due().iter().map(|row| row.message.host.clone()).collect()
    }

    #[test]
    fn an_unregistration_is_repeated_until_it_was_said_often_enough_or_taken_back() {
        let mut repeats = Repeats::new(2);
        let gone = |host| Changes { unregister: vec![row(host)], ..Changes::default() };
        repeats.note(&gone("a"));
        assert_eq!(due(&mut repeats), "a");
        repeats.note(&gone("b"));
        assert_eq!(due(&mut repeats), "ab");
        repeats.note(&gone("a"));
        repeats.note(&Changes { register: vec![row("b")], ..Changes::default() });
        assert_eq!(due(&mut repeats), "a");
        assert_eq!(due(&mut repeats), "a");
        assert_eq!(due(&mut repeats), "");
        assert_eq!(repeats.len(), 0);
    }

    #[test]
    fn no_repetition_is_a_setting() {
        let mut repeats = Repeats::new(0);
        repeats.note(&Changes { unregister: vec![row("a")], ..Changes::default() });
        assert_eq!(due(&mut repeats), "");
    }
}
