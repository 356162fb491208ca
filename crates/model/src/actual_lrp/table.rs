//! The table of moves of an ordinary row, one line per case; the golden file beside the tests prints all of it.
//!
//! Cells act on the kind of refusal (a refused claim deletes the container, a refused start stops it), so a change here is a
//! change of the contract with every cell.

use crate::{ActualLrp, ActualState, InstanceKey, Refusal, Report};

/// What somebody asks an ordinary row to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Claim,
    Start,
    Crash,
    Fail,
    Unclaim,
}

/// Where the row stands, seen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Absent,
    Unclaimed,
    Claimed(Owner),
    Running(Owner),
    Crashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The caller, and it reports nothing new.
    Caller,
    /// The caller, with a report that differs from the row.
    CallerWithNews,
    Another,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The row is created or changed.
    Go,
    /// Success, and nothing changes.
    Nothing,
    Refuse(Refusal),
}

pub fn judge(standing: Standing, asked: Move) -> Verdict {
    use Move::{Claim, Crash, Fail, Start, Unclaim};
    use Owner::{Another, Caller, CallerWithNews};
    use Standing::{Absent, Claimed, Crashed, Running, Unclaimed};
    use Verdict::{Go, Nothing, Refuse};

    match (standing, asked) {
        (Unclaimed, Claim) => Go,
        (Claimed(Caller | CallerWithNews), Claim) => Nothing,
        (Running(Caller | CallerWithNews), Claim) => Go,
        (Absent, Claim) => Refuse(Refusal::NotFound),
        (_, Claim) => Refuse(Refusal::CannotBeClaimed),

        (Absent | Unclaimed | Claimed(_), Start) => Go,
        (Running(Caller), Start) => Nothing,
        (Running(CallerWithNews), Start) => Go,
        (Running(Another) | Crashed, Start) => Refuse(Refusal::CannotBeStarted),

        (Claimed(Caller | CallerWithNews) | Running(Caller | CallerWithNews), Crash) => Go,
        (Absent, Crash) => Refuse(Refusal::NotFound),
        (_, Crash) => Refuse(Refusal::CannotBeCrashed),

        // An auctioneer that could not place an instance which is gone has nothing to be told.
        (Absent, Fail) => Nothing,
        (Unclaimed, Fail) => Go,
        (_, Fail) => Refuse(Refusal::CannotBeFailed),

        (Absent, Unclaim) => Refuse(Refusal::NotFound),
        (Unclaimed, Unclaim) => Refuse(Refusal::CannotBeUnclaimed),
        (_, Unclaim) => Go,
    }
}

impl Standing {
    /// `news` is the report of a start; other moves have none.
    pub fn of(row: Option<&ActualLrp>, caller: Option<&InstanceKey>, news: Option<&Report>) -> Self {
        let Some(row) = row else { return Self::Absent };
        let owner = match caller {
            Some(caller) if row.is_held_by(caller) => match news {
                Some(report) if !row.says_the_same(report) => Owner::CallerWithNews,
                _ => Owner::Caller,
            },
            _ => Owner::Another,
        };
        match row.state {
            ActualState::Unclaimed => Self::Unclaimed,
            ActualState::Claimed => Self::Claimed(owner),
            ActualState::Running => Self::Running(owner),
            ActualState::Crashed => Self::Crashed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_whole_table() {
        let owners = [Owner::Caller, Owner::CallerWithNews, Owner::Another];
        let standings = [Standing::Absent, Standing::Unclaimed]
            .into_iter()
            .chain(owners.map(Standing::Claimed))
            .chain(owners.map(Standing::Running))
            .chain([Standing::Crashed]);
        let mut table = String::new();
        for standing in standings {
            for asked in [Move::Claim, Move::Start, Move::Crash, Move::Fail, Move::Unclaim] {
                let verdict = match judge(standing, asked) {
                    Verdict::Go => "goes".to_owned(),
                    Verdict::Nothing => "nothing to do".to_owned(),
                    Verdict::Refuse(refusal) => format!("refused: {refusal}"),
                };
                writeln!(table, "{:<24} {:<8} {verdict}", format!("{standing:?}"), format!("{asked:?}")).unwrap();
            }
        }
        expect_file!["table.golden"].assert_eq(&table);
    }
}
