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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// In the order in which they are to be carried out.
    pub actions: &'static [Action],
    /// The name of the row. It is part of what logs and status pages show, so it stays.
    pub row: &'static str,
    /// One sentence for a human: what was found, what is safe, what to do next.
    pub reason: String,
}

/// `current` and `target` are those of the store, `mine` is the data version this server works with.
pub fn decide(current: Option<DataVersion>, target: Option<DataVersion>, mine: DataVersion) -> Decision {
    use Action::{BeginMigration, ContinueMigration, EndMigration, ServeRequests, ShutDown};
    let beside_mine = |version: Option<DataVersion>| version.map(|version| (version.cmp(&mine), version));
    let row = |row, actions, reason| Decision { actions, row, reason };
    match (beside_mine(current), beside_mine(target)) {
        (None, None) => row(
            "empty-store",
            &[EndMigration, ServeRequests],
            format!(
                "The store is empty: this server makes it one of data version {mine} and serves it, nothing is left to do."
            ),
        ),
        (Some((Less, c)), Some((Less, _))) => row(
            "upgrade",
            &[BeginMigration, EndMigration, ServeRequests],
            format!(
                "The data has version {c} and this server works with {mine}: it migrates the data and keeps the records of \
             {c} until that has ended; to go back before then, start the former release."
            ),
        ),
        (Some((Less, c)), Some((Equal, _))) => row(
            "unfinished",
            &[ContinueMigration, EndMigration, ServeRequests],
            format!(
                "A migration from data version {c} to {mine} was interrupted: the records of {c} are whole and this server \
             migrates them again; to go back before that has ended, start the former release."
            ),
        ),
        (Some((Less, c)), Some((Greater, t))) => row(
            "other-target",
            &[ContinueMigration, EndMigration, ServeRequests],
            format!(
                "A migration from data version {c} to {t} was interrupted: the records of {c} are whole and this server \
             migrates them to {mine} instead; to go back before that has ended, start the release of {c}."
            ),
        ),
        (Some((Equal, _)), Some((Less, t))) => row(
            "rollback-interrupted",
            &[ShutDown],
            format!(
                "Nothing was changed and the records of data version {mine} are whole, but a rollback to {t} was \
             interrupted: finish it with `corkboard migrate rollback --to {t} --config FILE`, or undo it with \
             `corkboard migrate abort --config FILE`."
            ),
        ),
        (Some((Equal, _)), Some((Equal, _))) => row(
            "up-to-date",
            &[ServeRequests],
            format!("The data has version {mine}, the one this server works with: it serves, nothing is left to do."),
        ),
        (Some((Equal, _)), Some((Greater, t))) => row(
            "newer-unfinished",
            &[ServeRequests],
            format!(
                "A newer release began to migrate from data version {mine} to {t} and did not finish: the records of {mine} \
             are whole and this server serves them; start the newer release again when the migration is wanted."
            ),
        ),
        (Some((Greater, c)), Some((Less, t))) => row(
            "rollback-past",
            &[ShutDown],
            format!(
                "The data has version {c} and a rollback to {t} was interrupted, while this server works with {mine}: \
             nothing was changed; with the release of {c}, finish the rollback with `corkboard migrate rollback --to {t} \
             --config FILE`, or undo it with `corkboard migrate abort --config FILE`."
            ),
        ),
        (Some((Greater, c)), Some((Equal, _))) => row(
            "rollback-unfinished",
            &[ShutDown],
            format!(
                "A newer server, of data version {c}, is rolling back to version {mine} of this server and has not finished: \
             nothing was changed; let it finish, or finish with its release and `corkboard migrate rollback --to {mine} \
             --config FILE`, then start this server again."
            ),
        ),
        (Some((Greater, c)), Some((Greater, t))) => row(
            "data-newer",
            &[ShutDown],
            format!(
                "The data is newer than this server: it has version {c} (with target version {t}) and this server works with \
             {mine}; nothing was changed; start the newer release."
            ),
        ),
        (None, Some(_)) | (Some(_), None) => row(
            "half-record",
            &[ShutDown],
            format!(
                "Only one of the current and the target version is known, so this server of data version {mine} cannot tell \
             what the store holds: nothing was changed; restore the store from a backup."
            ),
        ),
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
                writeln!(table, "{current_name:<3} {target_name:<3} {row}: {}\n        {reason}", words(actions))
                    .unwrap();
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
