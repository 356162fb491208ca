//! Everything survives, at every moment of a rollout: a fault before and after each single decision, and what must hold then.
//!
//! A story is played once without a fault, and every moment at which something is decided is kept. Then it is continued from
//! each of them with each fault: before the decision, so that it is taken anew; between decision and deed, so that it is
//! overtaken; and after it. The write of the decision itself fails in three ways more. After every commit it is checked that no
//! index lost its last container, that no more than allowed are doubled, that definitions are kept and numbered as promised,
//! and that nothing was taken back twice; at the end, that all instances have the right definition and nobody else runs.
//!
//! The tables count the moments, so that it shows when there are more or fewer of them.

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

use self::faults::{Fault, WriteFault};
use self::stories::{New, Story, canary, impatient};
use self::world::{Point, World, prepared};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    /// It is decided, and not yet carried out.
    Between,
    After,
}

async fn ends_well(mut world: World) {
    world.go_on().await;
    world.check_the_end().await;
}

/// Returns whether there was something that the fault could happen to.
async fn with_fault(point: &Point, fault: Fault, moment: Moment) -> bool {
    let mut world = point.world().await;
    let decision = &point.decisions[0];
    world.note(&format!("{fault:?} {moment:?} {decision:?}"));
    if moment == Moment::After {
        world.carry_out(&point.decisions[..1]).await.unwrap();
    }
    if !fault.happens(&mut world, decision.index().unwrap_or(0)).await {
        return false;
    }
    if moment == Moment::Between {
        let carried_out = world.carry_out(&point.decisions).await;
        assert!(carried_out.is_ok() || fault == Fault::DataInTwoForms, "{carried_out:?}");
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

    let mut table = String::new();
    for point in &points {
        let name = format!("{:?}", point.decisions[0]);
        writeln!(table, "{}", name.split(['{', '(']).next().unwrap_or_default().trim()).unwrap();
    }
    let (mut all, mut broken) = (0, Vec::new());
    for fault in Fault::ALL {
        let mut counts = [0; 3];
        for (at, point) in points.iter().enumerate() {
            for (count, moment) in counts.iter_mut().zip([Moment::Before, Moment::Between, Moment::After]) {
                let played = AssertUnwindSafe(Box::pin(with_fault(point, fault, moment))).catch_unwind().await;
                *count += usize::from(*played.as_ref().unwrap_or(&true));
                broken.extend(played.err().map(|_| format!("{fault:?} {moment:?} decision {at}")));
            }
        }
        all += counts.iter().sum::<usize>();
        writeln!(table, "{:<20} {:>3} {:>3} {:>3}", format!("{fault:?}"), counts[0], counts[1], counts[2]).unwrap();
    }
    for fault in WriteFault::ALL {
        for (at, point) in points.iter().enumerate() {
            let played = AssertUnwindSafe(Box::pin(with_write_fault(point, fault))).catch_unwind().await;
            broken.extend(played.err().map(|_| format!("write {fault:?} of decision {at}")));
            all += 1;
        }
        writeln!(table, "{:<20} {:>7}", format!("{fault:?}"), points.len()).unwrap();
    }
    writeln!(table, "all {all}").unwrap();
    assert!(broken.is_empty(), "{} of {all}: {broken:#?}", broken.len());
    expected.assert_eq(&table);
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time() {
    check(Story::plain(Terms::default()), expect![[r#"
        Begin
        Finish
        Begin
        Finish
        Begin
        Finish
        Complete
        FailOver               7   7   7
        KeysBegun              7   7   7
        KeysDone               7   7   7
        DataRollbackRefused    7   7   7
        DataInTwoForms         7   7   7
        Drain(Old)             6   6   3
        Drain(New)             4   4   4
        Crash(Old)             6   6   3
        Crash(New)             4   4   4
        Lose(Old)              6   6   3
        Lose(New)              4   4   4
        Silence(Old)           6   6   3
        Silence(New)           4   4   4
        Converge               7   7   7
        StopLost               3   3   6
        AuctionLost            0   0   3
        Heartbeats             7   7   7
        ScaleUp                7   7   7
        ScaleDown              7   7   7
        Delete                 7   7   7
        PauseAndResume         7   7   6
        Cancel                 7   7   6
        Refused                    7
        Lost                       7
        Unanswered                 7
        all 394
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn two_at_a_time() {
    check(Story::plain(Terms { in_flight: 2, ..Terms::default() }), expect![[r#"
        Begin
        Begin
        Finish
        Finish
        Begin
        Finish
        Complete
        FailOver               7   7   7
        KeysBegun              7   7   7
        KeysDone               7   7   7
        DataRollbackRefused    7   7   7
        DataInTwoForms         7   7   7
        Drain(Old)             6   6   3
        Drain(New)             4   4   4
        Crash(Old)             6   6   3
        Crash(New)             4   4   4
        Lose(Old)              6   6   3
        Lose(New)              4   4   4
        Silence(Old)           6   6   3
        Silence(New)           4   4   4
        Converge               7   7   7
        StopLost               3   3   5
        AuctionLost            1   1   3
        Heartbeats             7   7   7
        ScaleUp                7   7   7
        ScaleDown              7   7   7
        Delete                 7   7   7
        PauseAndResume         7   7   6
        Cancel                 7   7   6
        Refused                    7
        Lost                       7
        Unanswered                 7
        all 395
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_long_to_start() {
    check(Story::with(Terms::default(), New::RunsLate), expect![[r#"
        Begin
        Finish
        Begin
        Finish
        Begin
        Finish
        Complete
        FailOver               7   7   7
        KeysBegun              7   7   7
        KeysDone               7   7   7
        DataRollbackRefused    7   7   7
        DataInTwoForms         7   7   7
        Drain(Old)             6   6   3
        Drain(New)             4   4   4
        Crash(Old)             6   6   3
        Crash(New)             4   4   4
        Lose(Old)              6   6   3
        Lose(New)              4   4   4
        Silence(Old)           6   6   3
        Silence(New)           4   4   4
        Converge               7   7   7
        StopLost               3   3   6
        AuctionLost            0   0   3
        Heartbeats             7   7   7
        ScaleUp                7   7   7
        ScaleDown              7   7   7
        Delete                 7   7   7
        PauseAndResume         7   7   6
        Cancel                 7   7   6
        Refused                    7
        Lost                       7
        Unanswered                 7
        all 394
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_crashes_waits_for_somebody() {
    check(Story::halts(), expect![[r#"
        Begin
        Halt
        TakeBack
        Complete
        FailOver               4   4   4
        KeysBegun              4   4   4
        KeysDone               4   4   4
        DataRollbackRefused    4   4   4
        DataInTwoForms         4   4   4
        Drain(Old)             2   2   2
        Drain(New)             2   2   2
        Crash(Old)             2   2   2
        Crash(New)             2   2   2
        Lose(Old)              2   2   2
        Lose(New)              2   2   2
        Silence(Old)           2   2   2
        Silence(New)           2   2   2
        Converge               4   4   4
        StopLost               0   0   0
        AuctionLost            0   0   1
        Heartbeats             4   4   4
        ScaleUp                4   4   4
        ScaleDown              4   4   4
        Delete                 4   4   4
        PauseAndResume         4   4   3
        Cancel                 2   2   2
        Refused                    4
        Lost                       4
        Unanswered                 4
        all 198
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn one_goes_first() {
    check(Story::plain(canary()), expect![[r#"
        Begin
        Finish
        Rest
        GoOn
        Begin
        Finish
        Begin
        Finish
        Complete
        FailOver               9   9   9
        KeysBegun              9   9   9
        KeysDone               9   9   9
        DataRollbackRefused    9   9   9
        DataInTwoForms         9   9   9
        Drain(Old)             6   6   3
        Drain(New)             6   6   6
        Crash(Old)             6   6   3
        Crash(New)             6   6   6
        Lose(Old)              6   6   3
        Lose(New)              6   6   6
        Silence(Old)           6   6   3
        Silence(New)           6   6   6
        Converge               9   9   9
        StopLost               3   3   6
        AuctionLost            0   0   3
        Heartbeats             9   9   9
        ScaleUp                9   9   9
        ScaleDown              9   9   9
        Delete                 9   9   9
        PauseAndResume         9   9   8
        Cancel                 9   9   8
        Refused                    9
        Lost                       9
        Unanswered                 9
        all 496
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_crashes_is_taken_back() {
    check(Story::with(Terms::default(), New::Crashes), expect![[r#"
        Begin
        Turn
        TakeBack
        Complete
        FailOver               4   4   4
        KeysBegun              4   4   4
        KeysDone               4   4   4
        DataRollbackRefused    4   4   4
        DataInTwoForms         4   4   4
        Drain(Old)             2   2   1
        Drain(New)             2   2   3
        Crash(Old)             2   2   1
        Crash(New)             2   2   3
        Lose(Old)              2   2   1
        Lose(New)              2   2   3
        Silence(Old)           2   2   1
        Silence(New)           2   2   3
        Converge               4   4   4
        StopLost               0   0   0
        AuctionLost            0   0   1
        Heartbeats             4   4   4
        ScaleUp                4   4   4
        ScaleDown              4   4   4
        Delete                 4   4   4
        PauseAndResume         4   4   3
        Cancel                 2   2   1
        Refused                    4
        Lost                       4
        Unanswered                 4
        all 197
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_never_runs_is_taken_back() {
    check(Story::with(Terms { in_flight: 2, ..impatient() }, New::Hangs), expect![[r#"
        Begin
        Begin
        Turn
        TakeBack
        TakeBack
        Complete
        FailOver               6   6   6
        KeysBegun              6   6   6
        KeysDone               6   6   6
        DataRollbackRefused    6   6   6
        DataInTwoForms         6   6   6
        Drain(Old)             5   5   3
        Drain(New)             4   4   4
        Crash(Old)             5   5   3
        Crash(New)             4   4   4
        Lose(Old)              5   5   3
        Lose(New)              4   4   4
        Silence(Old)           5   5   3
        Silence(New)           4   4   4
        Converge               6   6   6
        StopLost               2   2   3
        AuctionLost            1   1   2
        Heartbeats             6   6   6
        ScaleUp                6   6   6
        ScaleDown              6   6   6
        Delete                 6   6   6
        PauseAndResume         6   6   5
        Cancel                 3   3   2
        Refused                    6
        Lost                       6
        Unanswered                 6
        all 334
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn somebody_cancels_it() {
    check(Story::cancelled(Terms::default(), 3), expect![[r#"
        Begin
        Finish
        Begin
        TakeBack
        Begin
        Finish
        Complete
        FailOver               7   7   7
        KeysBegun              7   7   7
        KeysDone               7   7   7
        DataRollbackRefused    7   7   7
        DataInTwoForms         7   7   7
        Drain(Old)             6   6   3
        Drain(New)             4   4   4
        Crash(Old)             6   6   3
        Crash(New)             4   4   4
        Lose(Old)              6   6   3
        Lose(New)              4   4   4
        Silence(Old)           6   6   3
        Silence(New)           4   4   4
        Converge               7   7   7
        StopLost               3   3   6
        AuctionLost            0   0   3
        Heartbeats             7   7   7
        ScaleUp                7   7   7
        ScaleDown              7   7   7
        Delete                 7   7   7
        PauseAndResume         7   7   6
        Cancel                 3   3   3
        Refused                    7
        Lost                       7
        Unanswered                 7
        all 383
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn to_a_former_definition() {
    check(Story::rollback(Terms::default()), expect![[r#"
        Begin
        Finish
        Begin
        Finish
        Begin
        Finish
        Complete
        FailOver               7   7   7
        KeysBegun              7   7   7
        KeysDone               7   7   7
        DataRollbackRefused    7   7   7
        DataInTwoForms         7   7   7
        Drain(Old)             6   6   3
        Drain(New)             4   4   4
        Crash(Old)             6   6   3
        Crash(New)             4   4   4
        Lose(Old)              6   6   3
        Lose(New)              4   4   4
        Silence(Old)           6   6   3
        Silence(New)           4   4   4
        Converge               7   7   7
        StopLost               3   3   6
        AuctionLost            0   0   3
        Heartbeats             7   7   7
        ScaleUp                7   7   7
        ScaleDown              7   7   7
        Delete                 7   7   7
        PauseAndResume         7   7   6
        Cancel                 7   7   6
        Refused                    7
        Lost                       7
        Unanswered                 7
        all 394
    "#]]).await;
}
