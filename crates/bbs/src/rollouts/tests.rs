//! Everything survives, at every moment of a rollout: a fault before and after each single decision, and what must hold then.
//!
//! A story is played once without a fault, and every moment at which something is decided is kept. Then it is continued from
//! each of them with each fault: before the decision, so that it is taken anew; between decision and deed, so that it is
//! overtaken; after it; and whenever something has changed that leads to no decision. The write of the decision itself fails in three ways more. After every commit it is checked that no
//! index lost its last container, that no more than allowed are doubled, that definitions are kept and numbered as promised,
//! and that nothing was taken back twice; at the end, that all instances have the right definition and nobody else runs.
//!
//! The tables count the moments, so that it shows when there are more or fewer of them.

mod acts;
mod book;
mod cells;
mod faults;
mod node;
mod stories;
mod world;

use std::fmt::Write;
use std::panic::AssertUnwindSafe;

use expect_test::{Expect, expect};
use futures_util::FutureExt;
use model::rollout::Terms;
use model::rollout::plan::Decision;

use self::faults::{Fault, Which, WriteFault};
use self::stories::{New, Story, canary, impatient};
use self::world::{Point, World, prepared};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    /// It is decided, and not yet carried out.
    Between,
    After,
    /// Nothing is to be decided at the moment.
    Meanwhile,
}

impl Moment {
    const ALL: [Self; 4] = [Self::Before, Self::Between, Self::After, Self::Meanwhile];

    fn is_of(self, point: &Point) -> bool {
        (self == Self::Meanwhile) == point.decisions.is_empty()
    }
}

async fn ends_well(mut world: World) {
    world.go_on().await;
    world.check_the_end().await;
}

/// Returns whether there was something that the fault could happen to.
async fn with_fault(point: &Point, fault: Fault, moment: Moment) -> bool {
    let mut world = point.world().await;
    world.note(&format!("{fault:?} {moment:?} {:?}", point.decisions));
    if moment == Moment::After {
        world.carry_out(&point.decisions[..1]).await.unwrap();
    }
    if !fault.happens(&mut world, point.index).await {
        return false;
    }
    if moment == Moment::Between {
        // Nobody is worse off where a rest begins although the first of all has crashed: it is watched.
        if fault == Fault::Crash(Which::New) && point.decisions == [Decision::Rest] {
            world.carry_out(&point.decisions).await.unwrap();
            ends_well(world).await;
            return true;
        }
        for decision in &point.decisions {
            world.carry_out_if_still_decided(decision).await;
        }
    }
    ends_well(world).await;
    true
}

async fn with_write_fault(point: &Point, fault: WriteFault) {
    let mut world = point.world().await;
    let mut as_usual = point.world().await;
    if fault == WriteFault::Unanswered {
        as_usual.carry_out(&point.decisions).await.unwrap();
    }
    fault.happens(&mut world, &point.decisions).await;
    if fault != WriteFault::Refused {
        world.fail_over(&as_usual.board(), "").await;
    }
    ends_well(world).await;
}

async fn check(story: Story, expected: Expect) {
    let mut world = prepared().await;
    world.begin(story).await;
    let points = Box::pin(world.record()).await;
    world.check_the_end().await;
    // The driver itself comes to the same end.
    ends_well(points[0].world().await).await;

    let decided: Vec<&Point> = points.iter().filter(|point| !point.decisions.is_empty()).collect();
    let mut table = String::new();
    for point in &decided {
        let name = format!("{:?}", point.decisions[0]);
        writeln!(table, "{}", name.split('{').next().unwrap_or_default().trim()).unwrap();
    }
    let (mut all, mut broken) = (0, Vec::new());
    for fault in Fault::ALL {
        write!(table, "{:<20}", format!("{fault:?}")).unwrap();
        for moment in Moment::ALL {
            let mut count = 0;
            for (at, point) in points.iter().enumerate().filter(|(_, point)| moment.is_of(point)) {
                let played = AssertUnwindSafe(Box::pin(with_fault(point, fault, moment))).catch_unwind().await;
                count += usize::from(*played.as_ref().unwrap_or(&true));
                broken.extend(played.err().map(|_| format!("{fault:?} {moment:?} moment {at}")));
            }
            write!(table, "{count:>4}").unwrap();
            all += count;
        }
        table.push('\n');
    }
    for fault in WriteFault::ALL {
        for (at, point) in decided.iter().enumerate() {
            let played = AssertUnwindSafe(Box::pin(with_write_fault(point, fault))).catch_unwind().await;
            broken.extend(played.err().map(|_| format!("write {fault:?} of decision {at}")));
        }
        writeln!(table, "{:<20}{:>8}", format!("{fault:?}"), decided.len()).unwrap();
        all += decided.len();
    }
    writeln!(table, "all {all}").unwrap();
    assert!(broken.is_empty(), "{} of {all}: {broken:#?}", broken.len());
    expected.assert_eq(&table);
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time() {
    check(
        Story::plain(Terms::default()),
        expect![[r#"
            Begin
            Finish
            Begin
            Finish
            Begin
            Finish
            Complete
            FailOver               7   7   7   9
            KeysBegun              7   7   7   9
            KeysDone               7   7   7   9
            DataRollbackRefused    7   7   7   9
            DataInTwoForms         7   7   7   9
            Drain(Old)             6   6   3   9
            Drain(New)             4   4   4   6
            Crash(Old)             6   6   3   9
            Crash(New)             4   4   4   6
            Lose(Old)              6   6   3   9
            Lose(New)              4   4   4   6
            Silence(Old)           6   6   3   9
            Silence(New)           4   4   4   6
            Converge               7   7   7   9
            StopLost               3   3   6   2
            AuctionLost            0   0   3   3
            Heartbeats             7   7   7   9
            ScaleUp                7   7   7   9
            ScaleDown              7   7   7   9
            Delete                 7   7   7   9
            PauseAndResume         7   7   6   9
            Cancel                 7   7   6   9
            Refused                    7
            Lost                       7
            Unanswered                 7
            all 567
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_at_a_time() {
    check(
        Story::plain(Terms { in_flight: 2, ..Terms::default() }),
        expect![[r#"
            Begin
            Begin
            Finish
            Finish
            Begin
            Finish
            Complete
            FailOver               7   7   7   6
            KeysBegun              7   7   7   6
            KeysDone               7   7   7   6
            DataRollbackRefused    7   7   7   6
            DataInTwoForms         7   7   7   6
            Drain(Old)             6   6   3   6
            Drain(New)             4   4   4   4
            Crash(Old)             6   6   3   6
            Crash(New)             4   4   4   4
            Lose(Old)              6   6   3   6
            Lose(New)              4   4   4   4
            Silence(Old)           6   6   3   6
            Silence(New)           4   4   4   4
            Converge               7   7   7   6
            StopLost               3   3   5   1
            AuctionLost            1   1   3   2
            Heartbeats             7   7   7   6
            ScaleUp                7   7   7   6
            ScaleDown              7   7   7   6
            Delete                 7   7   7   6
            PauseAndResume         7   7   6   6
            Cancel                 7   7   6   6
            Refused                    7
            Lost                       7
            Unanswered                 7
            all 510
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_long_to_start() {
    check(
        Story::with(Terms::default(), New::RunsLate),
        expect![[r#"
            Begin
            Finish
            Begin
            Finish
            Begin
            Finish
            Complete
            FailOver               7   7   7   9
            KeysBegun              7   7   7   9
            KeysDone               7   7   7   9
            DataRollbackRefused    7   7   7   9
            DataInTwoForms         7   7   7   9
            Drain(Old)             6   6   3   9
            Drain(New)             4   4   4   6
            Crash(Old)             6   6   3   9
            Crash(New)             4   4   4   6
            Lose(Old)              6   6   3   9
            Lose(New)              4   4   4   6
            Silence(Old)           6   6   3   9
            Silence(New)           4   4   4   6
            Converge               7   7   7   9
            StopLost               3   3   6   2
            AuctionLost            0   0   3   3
            Heartbeats             7   7   7   9
            ScaleUp                7   7   7   9
            ScaleDown              7   7   7   9
            Delete                 7   7   7   9
            PauseAndResume         7   7   6   9
            Cancel                 7   7   6   9
            Refused                    7
            Lost                       7
            Unanswered                 7
            all 567
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_crashes_waits_for_somebody() {
    check(
        Story::halts(),
        expect![[r#"
            Begin
            Halt
            TakeBack
            Complete
            FailOver               4   4   4   7
            KeysBegun              4   4   4   7
            KeysDone               4   4   4   7
            DataRollbackRefused    4   4   4   7
            DataInTwoForms         4   4   4   7
            Drain(Old)             2   2   2   7
            Drain(New)             2   2   2   3
            Crash(Old)             2   2   2   7
            Crash(New)             2   2   2   3
            Lose(Old)              2   2   2   7
            Lose(New)              2   2   2   3
            Silence(Old)           2   2   2   7
            Silence(New)           2   2   2   3
            Converge               4   4   4   7
            StopLost               0   0   0   0
            AuctionLost            0   0   1   3
            Heartbeats             4   4   4   7
            ScaleUp                4   4   4   7
            ScaleDown              4   4   4   7
            Delete                 4   4   4   7
            PauseAndResume         4   4   3   7
            Cancel                 2   2   2   7
            Refused                    4
            Lost                       4
            Unanswered                 4
            all 325
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_goes_first() {
    check(
        Story::plain(canary()),
        expect![[r#"
            Begin
            Finish
            Rest
            GoOn
            Begin
            Finish
            Begin
            Finish
            Complete
            FailOver               9   9   9  10
            KeysBegun              9   9   9  10
            KeysDone               9   9   9  10
            DataRollbackRefused    9   9   9  10
            DataInTwoForms         9   9   9  10
            Drain(Old)             6   6   3   9
            Drain(New)             6   6   6   7
            Crash(Old)             6   6   3   9
            Crash(New)             6   6   6   7
            Lose(Old)              6   6   3   9
            Lose(New)              6   6   6   7
            Silence(Old)           6   6   3   9
            Silence(New)           6   6   6   7
            Converge               9   9   9  10
            StopLost               3   3   6   2
            AuctionLost            0   0   3   3
            Heartbeats             9   9   9  10
            ScaleUp                9   9   9  10
            ScaleDown              9   9   9  10
            Delete                 9   9   9  10
            PauseAndResume         9   9   8  10
            Cancel                 9   9   8  10
            Refused                    9
            Lost                       9
            Unanswered                 9
            all 685
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_crashes_is_taken_back() {
    check(
        Story::with(Terms::default(), New::Crashes),
        expect![[r#"
            Begin
            Turn
            TakeBack
            Complete
            FailOver               4   4   4   6
            KeysBegun              4   4   4   6
            KeysDone               4   4   4   6
            DataRollbackRefused    4   4   4   6
            DataInTwoForms         4   4   4   6
            Drain(Old)             2   2   1   6
            Drain(New)             2   2   3   3
            Crash(Old)             2   2   1   6
            Crash(New)             2   2   3   3
            Lose(Old)              2   2   1   6
            Lose(New)              2   2   3   3
            Silence(Old)           2   2   1   6
            Silence(New)           2   2   3   3
            Converge               4   4   4   6
            StopLost               0   0   0   0
            AuctionLost            0   0   1   3
            Heartbeats             4   4   4   6
            ScaleUp                4   4   4   6
            ScaleDown              4   4   4   6
            Delete                 4   4   4   6
            PauseAndResume         4   4   3   6
            Cancel                 2   2   1   6
            Refused                    4
            Lost                       4
            Unanswered                 4
            all 308
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_never_runs_is_taken_back() {
    check(
        Story::with(Terms { in_flight: 2, ..impatient() }, New::Hangs),
        expect![[r#"
            Begin
            Begin
            Turn
            TakeBack
            TakeBack
            Complete
            FailOver               6   6   6   2
            KeysBegun              6   6   6   2
            KeysDone               6   6   6   2
            DataRollbackRefused    6   6   6   2
            DataInTwoForms         6   6   6   2
            Drain(Old)             5   5   3   2
            Drain(New)             4   4   4   1
            Crash(Old)             5   5   3   2
            Crash(New)             4   4   4   1
            Lose(Old)              5   5   3   2
            Lose(New)              4   4   4   1
            Silence(Old)           5   5   3   2
            Silence(New)           4   4   4   1
            Converge               6   6   6   2
            StopLost               2   2   3   0
            AuctionLost            1   1   2   1
            Heartbeats             6   6   6   2
            ScaleUp                6   6   6   2
            ScaleDown              6   6   6   2
            Delete                 6   6   6   2
            PauseAndResume         6   6   5   2
            Cancel                 3   3   2   2
            Refused                    6
            Lost                       6
            Unanswered                 6
            all 371
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn somebody_cancels_it() {
    check(
        Story::cancelled(Terms::default(), 3),
        expect![[r#"
            Begin
            Finish
            Begin
            TakeBack
            Begin
            Finish
            Complete
            FailOver               7   7   7   7
            KeysBegun              7   7   7   7
            KeysDone               7   7   7   7
            DataRollbackRefused    7   7   7   7
            DataInTwoForms         7   7   7   7
            Drain(Old)             6   6   3   7
            Drain(New)             4   4   4   4
            Crash(Old)             6   6   3   7
            Crash(New)             4   4   4   4
            Lose(Old)              6   6   3   7
            Lose(New)              4   4   4   4
            Silence(Old)           6   6   3   7
            Silence(New)           4   4   4   4
            Converge               7   7   7   7
            StopLost               3   3   6   2
            AuctionLost            0   0   3   3
            Heartbeats             7   7   7   7
            ScaleUp                7   7   7   7
            ScaleDown              7   7   7   7
            Delete                 7   7   7   7
            PauseAndResume         7   7   6   7
            Cancel                 3   3   3   4
            Refused                    7
            Lost                       7
            Unanswered                 7
            all 513
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn to_a_former_definition() {
    check(
        Story::rollback(Terms::default()),
        expect![[r#"
            Begin
            Finish
            Begin
            Finish
            Begin
            Finish
            Complete
            FailOver               7   7   7   9
            KeysBegun              7   7   7   9
            KeysDone               7   7   7   9
            DataRollbackRefused    7   7   7   9
            DataInTwoForms         7   7   7   9
            Drain(Old)             6   6   3   9
            Drain(New)             4   4   4   6
            Crash(Old)             6   6   3   9
            Crash(New)             4   4   4   6
            Lose(Old)              6   6   3   9
            Lose(New)              4   4   4   6
            Silence(Old)           6   6   3   9
            Silence(New)           4   4   4   6
            Converge               7   7   7   9
            StopLost               3   3   6   2
            AuctionLost            0   0   3   3
            Heartbeats             7   7   7   9
            ScaleUp                7   7   7   9
            ScaleDown              7   7   7   9
            Delete                 7   7   7   9
            PauseAndResume         7   7   6   9
            Cancel                 7   7   6   9
            Refused                    7
            Lost                       7
            Unanswered                 7
            all 567
        "#]],
    )
    .await;
}
