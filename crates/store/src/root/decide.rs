//! What a new master does about the data version it finds: the decision table.
//!
//! Promise: the answer depends on nothing but the three numbers, there is one row for every way they can lie to each
//! other, and a row that shuts down writes nothing. The rows are those of the design that the migration follows, in its
//! order; the last one refuses what is none of them. `decide.golden` shows the whole table with its sentences.
//!
//! The actions are words, not deeds: whoever migrates carries them out. An empty store gets here only after
//! [`crate::identity::judge`] has found that it may be empty.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fmt;

use crate::record::DataVersion;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Set the target version to that of this server, and begin to migrate.
    BeginMigration,
    /// Set the target version to that of this server, and migrate. What is in the target root already is not trusted.
    ContinueMigration,
    /// Set current and target version to that of this server.
    EndMigration,
    ServeRequests,
    /// Let go of the lock and stop. Write nothing.
    ShutDown,
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Action::BeginMigration => "BEGIN_MIGRATION",
            Action::ContinueMigration => "CONTINUE_MIGRATION",
            Action::EndMigration => "END_MIGRATION",
            Action::ServeRequests => "SERVE_REQUESTS",
            Action::ShutDown => "SHUT_DOWN",
        })
    }
}

/// The rows of the table.
#[derive(Clone, Copy)]
enum Row {
    EmptyStore,
    Upgrade,
    Unfinished,
    OtherTarget,
    RollbackInterrupted,
    UpToDate,
    NewerUnfinished,
    RollbackPast,
    RollbackUnfinished,
    DataNewer,
    /// One of the two versions is missing. A store that says so is refused before it gets here.
    HalfRecord,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// In the order in which they are to be carried out.
    pub actions: &'static [Action],
    /// The name of the row. Logs and status pages show it, so it stays.
    pub row: &'static str,
    /// One sentence for a human: what was found, what is safe, what to do next.
    pub reason: String,
}

/// `current` and `target` are those of the store, `mine` is the data version this server works with.
pub fn decide(current: Option<DataVersion>, target: Option<DataVersion>, mine: DataVersion) -> Decision {
    use Action::{BeginMigration, ContinueMigration, EndMigration, ServeRequests, ShutDown};
    let beside_mine = |version: Option<DataVersion>| version.map(|version| version.cmp(&mine));
    let (row, actions): (Row, &'static [Action]) = match (beside_mine(current), beside_mine(target)) {
        (None, None) => (Row::EmptyStore, &[EndMigration, ServeRequests]),
        (Some(Less), Some(Less)) => (Row::Upgrade, &[BeginMigration, EndMigration, ServeRequests]),
        (Some(Less), Some(Equal)) => (Row::Unfinished, &[ContinueMigration, EndMigration, ServeRequests]),
        (Some(Less), Some(Greater)) => (Row::OtherTarget, &[ContinueMigration, EndMigration, ServeRequests]),
        (Some(Equal), Some(Less)) => (Row::RollbackInterrupted, &[ShutDown]),
        (Some(Equal), Some(Equal)) => (Row::UpToDate, &[ServeRequests]),
        (Some(Equal), Some(Greater)) => (Row::NewerUnfinished, &[ServeRequests]),
        (Some(Greater), Some(Less)) => (Row::RollbackPast, &[ShutDown]),
        (Some(Greater), Some(Equal)) => (Row::RollbackUnfinished, &[ShutDown]),
        (Some(Greater), Some(Greater)) => (Row::DataNewer, &[ShutDown]),
        (None, Some(_)) | (Some(_), None) => (Row::HalfRecord, &[ShutDown]),
    };
    let reason = row.reason(current.unwrap_or(mine), target.unwrap_or(mine), mine);
    Decision { actions, row: row.name(), reason }
}

impl Row {
    fn name(self) -> &'static str {
        match self {
            Row::EmptyStore => "empty-store",
            Row::Upgrade => "upgrade",
            Row::Unfinished => "unfinished",
            Row::OtherTarget => "other-target",
            Row::RollbackInterrupted => "rollback-interrupted",
            Row::UpToDate => "up-to-date",
            Row::NewerUnfinished => "newer-unfinished",
            Row::RollbackPast => "rollback-past",
            Row::RollbackUnfinished => "rollback-unfinished",
            Row::DataNewer => "data-newer",
            Row::HalfRecord => "half-record",
        }
    }

    fn reason(self, current: DataVersion, target: DataVersion, mine: DataVersion) -> String {
        match self {
            Row::EmptyStore => format!(
                "The store is empty: this server gives it data version {mine} and serves it; there is nothing to do."
            ),
            Row::Upgrade => format!(
                "The data has version {current} and this server works with {mine}: it migrates the data and keeps the \
                 records of {current} until that has ended; to go back before then, start the former release."
            ),
            Row::Unfinished => format!(
                "A migration from data version {current} to {mine} was interrupted: the records of {current} are whole \
                 and this server migrates them again; to go back before that has ended, start the former release."
            ),
            Row::OtherTarget => format!(
                "A migration from data version {current} to {target} was interrupted: the records of {current} are \
                 whole and this server migrates them to {mine} instead; to go back before that has ended, start the \
                 release of {current}."
            ),
            Row::RollbackInterrupted => format!(
                "Nothing was changed and the records of data version {mine} are whole, but a rollback to {target} was \
                 interrupted: finish it with `corkboard migrate rollback --to {target} --config FILE`, or undo it with \
                 `corkboard migrate abort --config FILE`."
            ),
            Row::UpToDate => format!(
                "The data has version {mine}, the one this server works with: it serves; there is nothing to do."
            ),
            Row::NewerUnfinished => format!(
                "A newer release began to migrate from data version {mine} to {target} and did not finish: the records \
                 of {mine} are whole and this server serves them; start the newer release again when the migration is \
                 wanted."
            ),
            Row::RollbackPast => format!(
                "The data has version {current} and a rollback to {target} was interrupted, while this server works \
                 with {mine}: nothing was changed; with the release of {current}, finish the rollback with \
                 `corkboard migrate rollback --to {target} --config FILE`, or undo it with \
                 `corkboard migrate abort --config FILE`."
            ),
            Row::RollbackUnfinished => format!(
                "A newer server, of data version {current}, is rolling back to version {mine} of this server and has \
                 not finished: nothing was changed; let it finish, or finish with its release and \
                 `corkboard migrate rollback --to {mine} --config FILE`, then start this server again."
            ),
            Row::DataNewer => format!(
                "The data is newer than this server: it has version {current} (with target version {target}) and this \
                 server works with {mine}; nothing was changed; start the newer release."
            ),
            Row::HalfRecord => format!(
                "Only one of the current and the target version is known, so this server of data version {mine} cannot \
                 tell what the store holds: nothing was changed; restore the store from a backup."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use expect_test::expect_file;
    use proptest::prelude::*;

    use super::*;

    const MINE: DataVersion = DataVersion(20);
    const PLACES: [(&str, Option<DataVersion>); 4] =
        [("nil", None), ("<", Some(DataVersion(10))), ("==", Some(MINE)), (">", Some(DataVersion(30)))];

    fn words(actions: &[Action]) -> String {
        actions.iter().map(Action::to_string).collect::<Vec<_>>().join(" then ")
    }

    #[test]
    fn the_whole_table_in_its_sentences() {
        let mut table = String::new();
        for (current_name, current) in PLACES {
            for (target_name, target) in PLACES {
                let Decision { actions, row, reason } = decide(current, target, MINE);
                let actions = words(actions);
                writeln!(table, "{current_name:<3} {target_name:<3} {row}: {actions}\n        {reason}").unwrap();
            }
        }
        expect_file!["decide.golden"].assert_eq(&table);
    }

    /// The table of the design, row by row; what is not in it is refused.
    #[test]
    fn only_the_rows_of_the_design_exist() {
        let design = [
            (("nil", "nil"), "END_MIGRATION then SERVE_REQUESTS"),
            (("<", "<"), "BEGIN_MIGRATION then END_MIGRATION then SERVE_REQUESTS"),
            (("<", "=="), "CONTINUE_MIGRATION then END_MIGRATION then SERVE_REQUESTS"),
            (("<", ">"), "CONTINUE_MIGRATION then END_MIGRATION then SERVE_REQUESTS"),
            (("==", "<"), "SHUT_DOWN"),
            (("==", "=="), "SERVE_REQUESTS"),
            (("==", ">"), "SERVE_REQUESTS"),
            ((">", "<"), "SHUT_DOWN"),
            ((">", "=="), "SHUT_DOWN"),
            ((">", ">"), "SHUT_DOWN"),
        ];
        let design = BTreeMap::from(design);
        let mut rows = BTreeMap::new();
        for (current_name, current) in PLACES {
            for (target_name, target) in PLACES {
                let decision = decide(current, target, MINE);
                let expected = design.get(&(current_name, target_name));
                assert_eq!(decision.row == "half-record", expected.is_none(), "{current_name} {target_name}");
                assert_eq!(words(decision.actions), *expected.unwrap_or(&"SHUT_DOWN"), "{current_name} {target_name}");
                *rows.entry(decision.row).or_insert(0) += 1;
            }
        }
        assert_eq!(rows.remove("half-record"), Some(6));
        assert_eq!((rows.len(), rows.values().all(|cells| *cells == 1)), (10, true), "{rows:?}");
    }

    fn place(version: Option<u64>, mine: u64) -> Option<DataVersion> {
        PLACES[version.map_or(0, |version| 2usize.saturating_add_signed(version.cmp(&mine) as isize))].1
    }

    proptest! {
        #[test]
        fn only_the_order_of_the_numbers_counts(
            current in prop::option::of(prop_oneof![0u64..4, any::<u64>()]),
            target in prop::option::of(prop_oneof![0u64..4, any::<u64>()]),
            mine in prop_oneof![0u64..4, any::<u64>()],
        ) {
            let decision = decide(current.map(DataVersion), target.map(DataVersion), DataVersion(mine));
            let same = decide(place(current, mine), place(target, mine), MINE);
            prop_assert_eq!((decision.row, decision.actions), (same.row, same.actions));
            prop_assert!(decision.reason.contains(&mine.to_string()), "{}", decision.reason);
        }
    }
}
