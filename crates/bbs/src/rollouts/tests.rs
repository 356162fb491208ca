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

use expect_test::{Expect, expect};
use model::rollout::Terms;

use self::faults::{Fault, WriteFault};
use self::stories::{New, Story, canary, terms};
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
        as_usual.carry_out(&point.decisions[..1]).await.unwrap();
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
    let mut all = 0;
    for fault in Fault::ALL {
        let mut counts = [0; 3];
        for point in &points {
            for (count, moment) in counts.iter_mut().zip([Moment::Before, Moment::Between, Moment::After]) {
                *count += usize::from(Box::pin(with_fault(point, fault, moment)).await);
            }
        }
        all += counts.iter().sum::<usize>();
        writeln!(table, "{:<20} {:>3} {:>3} {:>3}", format!("{fault:?}"), counts[0], counts[1], counts[2]).unwrap();
    }
    for fault in WriteFault::ALL {
        for point in &points {
            Box::pin(with_write_fault(point, fault)).await;
            all += 1;
        }
        writeln!(table, "{:<20} {:>7}", format!("{fault:?}"), points.len()).unwrap();
    }
    writeln!(table, "all {all}").unwrap();
    expected.assert_eq(&table);
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time() {
    check(Story::plain(terms()), expect![[""]]).await;
}

#[tokio::test(start_paused = true)]
async fn two_at_a_time() {
    check(Story::plain(Terms { in_flight: 2, ..terms() }), expect![[""]]).await;
}

#[tokio::test(start_paused = true)]
async fn one_goes_first() {
    check(Story::plain(canary()), expect![[""]]).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_crashes_is_taken_back() {
    check(Story::fails(terms(), New::Crashes), expect![[""]]).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_never_runs_is_taken_back() {
    check(Story::fails(Terms { in_flight: 2, ..terms() }, New::Hangs), expect![[""]]).await;
}

#[tokio::test(start_paused = true)]
async fn somebody_cancels_it() {
    check(Story::cancelled(terms(), 3), expect![[""]]).await;
}

#[tokio::test(start_paused = true)]
async fn to_a_former_definition() {
    check(Story::rollback(terms()), expect![[""]]).await;
}
