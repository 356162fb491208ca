//! Stories of one rollout each, told as an account.

use expect_test::{Expect, expect};

use super::world::{World, update_to};
use crate::rollout::{Pause, Terms};
use crate::{DefinitionNumber, NANOS_PER_SECOND};

const FIRST: DefinitionNumber = DefinitionNumber(1);

fn check(world: &World, expected: &Expect) {
    expected.assert_eq(&format!("{}{}\n", world.account, world.shows()));
}

fn all_good(_: DefinitionNumber) -> bool {
    true
}

fn only_first(number: DefinitionNumber) -> bool {
    number == FIRST
}

#[test]
fn one_after_the_other() {
    let mut world = World::new(3);
    world.update("v2", Terms::default());
    (0..4).for_each(|_| world.fair_round(10, all_good));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
          11 s  finish 0
          11 s  begin 1
          21 s  finish 1
          21 s  begin 2
          31 s  finish 2
          31 s  Complete
        done 1->2 | 2RU 2RU 2RU
    "#]],
    );
}

#[test]
fn an_instance_that_runs_too_short_is_waited_for() {
    let mut world = World::new(1);
    world.update("v2", Terms::default());
    world.roll();
    world.place(0);
    world.run(0);
    world.pass(9);
    world.roll();
    assert_eq!(world.plan().look_ns, Some(world.now_ns + NANOS_PER_SECOND));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
        rolling 1->2 | 2RU+1RU-
    "#]],
    );
}

#[test]
fn several_at_a_time() {
    let mut world = World::new(5);
    world.update("v2", Terms { in_flight: 2, ..Terms::default() });
    (0..4).for_each(|_| world.fair_round(10, all_good));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
           1 s  begin 1
          11 s  finish 0
          11 s  finish 1
          11 s  begin 2
          11 s  begin 3
          21 s  finish 2
          21 s  finish 3
          21 s  begin 4
          31 s  finish 4
          31 s  Complete
        done 1->2 | 2RU 2RU 2RU 2RU 2RU
    "#]],
    );
}

#[test]
fn canaries_go_first_and_somebody_looks_at_them() {
    let mut world = World::new(4);
    world.update("v2", Terms { in_flight: 4, canaries: 1, canary_pause: Pause::UntilResumed, ..Terms::default() });
    (0..9).for_each(|_| world.fair_round(600, all_good));
    assert_eq!(world.phase(), "canary 1->2");
    world.desired = world.desired.resumed(world.now_ns).unwrap();
    (0..2).for_each(|_| world.fair_round(10, all_good));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
         601 s  finish 0
         601 s  Rest
        5401 s  begin 1
        5401 s  begin 2
        5401 s  begin 3
        5411 s  finish 1
        5411 s  finish 2
        5411 s  finish 3
        5411 s  Complete
        done 1->2 | 2RU 2RU 2RU 2RU
    "#]],
    );
}

#[test]
fn a_pause_after_the_canaries_ends_by_itself() {
    let mut world = World::new(2);
    let canary_pause = Pause::For(60 * NANOS_PER_SECOND);
    world.update("v2", Terms { canaries: 1, canary_pause, ..Terms::default() });
    (0..10).for_each(|_| world.fair_round(20, all_good));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
          21 s  finish 0
          21 s  Rest
          81 s  GoOn
          81 s  begin 1
         101 s  finish 1
         101 s  Complete
        done 1->2 | 2RU 2RU
    "#]],
    );
}

#[test]
fn a_canary_that_crashes_while_somebody_looks_at_it() {
    let mut world = World::new(3);
    world.update("v2", Terms { canaries: 1, canary_pause: Pause::UntilResumed, ..Terms::default() });
    (0..3).for_each(|_| world.fair_round(10, all_good));
    (0..5).for_each(|_| world.fair_round(10, all_good));
    for _ in 0..3 {
        world.crash(0);
        world.place(0);
    }
    (0..4).for_each(|_| world.fair_round(10, only_first));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
          11 s  finish 0
          11 s  Rest
          81 s  Turn { why: "instance 0 crashed 3 times: it broke" }
          81 s  begin 0
          91 s  finish 0, nobody has to leave
          91 s  Complete
        done back 2->1 | 1RU 1RU 1RU
    "#]],
    );
}

#[test]
fn a_definition_that_crashes_is_taken_back_without_a_gap() {
    let mut world = World::new(3);
    world.update("v2", Terms::default());
    (0..6).for_each(|_| {
        world.fair_round(1, only_first);
        assert_eq!(world.served(), [true; 3]);
    });
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
           4 s  Turn { why: "instance 0 crashed 3 times: it broke" }
           4 s  take back 0
           4 s  Complete
        done back 2->1 | 1RU 1RU 1RU
    "#]],
    );
}

#[test]
fn a_definition_that_fails_late_is_taken_back_where_it_runs() {
    let mut world = World::new(3);
    world.update("v2", Terms::default());
    (0..2).for_each(|_| world.fair_round(10, all_good));
    (0..9).for_each(|_| {
        world.fair_round(10, only_first);
        assert_eq!(world.served(), [true; 3]);
    });
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
          11 s  finish 0
          11 s  begin 1
          21 s  finish 1
          21 s  begin 2
          51 s  Turn { why: "instance 2 crashed 3 times: it broke" }
          51 s  take back 2
          51 s  begin 0
          61 s  finish 0
          61 s  begin 1
          71 s  finish 1
          71 s  Complete
        done back 2->1 | 1RU 1RU 1RU
    "#]],
    );
}

#[test]
fn one_that_never_becomes_healthy_is_given_up_at_its_deadline() {
    let mut world = World::new(2);
    world.update("v2", Terms::default());
    world.roll();
    world.place(0);
    world.pass(299);
    world.roll();
    world.pass(1);
    world.roll();
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
         301 s  Turn { why: "instance 0 was not healthy in time; it is CLAIMED" }
         301 s  take back 0
         301 s  Complete
        done back 2->1 | 1RU 1RU
    "#]],
    );
}

#[test]
fn one_that_is_not_taken_back_waits_for_somebody() {
    let mut world = World::new(2);
    world.update("v2", Terms { reverts: false, ..Terms::default() });
    (0..6).for_each(|_| world.fair_round(1, only_first));
    assert_eq!(world.served(), [true; 2]);
    world.desired = world.desired.resumed(world.now_ns).unwrap();
    (0..4).for_each(|_| world.fair_round(100, all_good));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
           4 s  Halt { why: "instance 0 crashed 3 times: it broke" }
         107 s  finish 0
         107 s  begin 1
         207 s  finish 1
         207 s  Complete
        done 1->2 | 2RU 2RU
    "#]],
    );
}

#[test]
fn a_way_back_that_fails_does_not_turn_again() {
    let mut world = World::new(2);
    world.update("v2", Terms::default());
    world.fair_round(10, all_good);
    world.desired = world.desired.cancelled(world.now_ns).unwrap();
    (0..9).for_each(|_| {
        world.fair_round(10, |number| number != FIRST);
        assert_eq!(world.served(), [true; 2]);
    });
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
          11 s  finish 0
          11 s  begin 1
          11 s  take back 1
          11 s  begin 0
          41 s  Halt { why: "instance 0 crashed 3 times: it broke" }
        halted back 2->1 | 1CR+2RU- 1RU
    "#]],
    );
    expect![[r#""cancelled; taking it back: instance 0 crashed 3 times: it broke""#]]
        .assert_eq(&format!("{:?}", world.desired.rollout().unwrap().why));
}

#[test]
fn a_cancel_in_the_middle() {
    let mut world = World::new(3);
    world.update("v2", Terms::default());
    world.fair_round(10, all_good);
    world.roll();
    world.place(1);
    world.desired = world.desired.cancelled(world.now_ns).unwrap();
    (0..3).for_each(|_| world.fair_round(10, all_good));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
          11 s  finish 0
          11 s  begin 1
          11 s  take back 1
          11 s  begin 0
          21 s  finish 0
          21 s  Complete
        done back 2->1 | 1RU 1RU 1RU
    "#]],
    );
}

#[test]
fn a_pause_stops_the_clock() {
    let mut world = World::new(2);
    world.update("v2", Terms::default());
    world.roll();
    world.pass(100);
    world.desired = world.desired.paused(world.now_ns).unwrap();
    world.pass(100_000);
    world.roll();
    world.desired = world.desired.resumed(world.now_ns).unwrap();
    world.pass(199);
    world.roll();
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
        rolling 1->2 | 2UN+1RU- 1RU
    "#]],
    );
    world.pass(1);
    world.roll();
    assert_eq!(world.phase(), "done back 2->1");
}

#[test]
fn back_to_a_definition_that_was_and_no_further_than_is_kept() {
    let mut world = World::new(1);
    for identifier in ["v2", "v3", "v4"] {
        world.update(identifier, Terms::default());
        (0..2).for_each(|_| world.fair_round(10, all_good));
    }
    let kept: Vec<String> =
        world.desired.history.as_ref().unwrap().older.iter().map(|kept| kept.identifier.clone()).collect();
    assert_eq!(kept, ["v3", "v2"]);
    let refused = |to: Option<&str>| world.desired.rolled_back(to, Terms::default(), 0).unwrap_err().to_string();
    expect![[r#"app has no former definition "v1" to go back to; nothing was changed. Kept are: the definition "v3", the definition "v2""#]].assert_eq(&refused(Some("v1")));
    let back = world.desired.rolled_back(Some("v2"), Terms::default(), world.now_ns).unwrap();
    world.desired = back;
    (0..2).for_each(|_| world.fair_round(10, all_good));
    assert_eq!((world.desired.definition_identifier.as_str(), &world.desired.run_info[..]), ("v2", &b"v2"[..]));
    let kept: Vec<String> =
        world.desired.history.as_ref().unwrap().older.iter().map(|kept| kept.identifier.clone()).collect();
    assert_eq!(kept, ["v4", "v3"]);
    world.update("v5", Terms::default());
    assert_eq!(world.desired.definition, DefinitionNumber(5), "no number is used twice");
}

#[test]
fn an_update_that_is_sent_again_is_the_same_update() {
    let mut world = World::new(1);
    world.update("v2", Terms::default());
    let rollout = world.desired.rollout().cloned();
    world.pass(5);
    world.update("v2", Terms::default());
    assert_eq!(world.desired.rollout().cloned(), rollout);
    let outcome = |identifier: &str, run_info: &str, world: &World| {
        let mut update = update_to(identifier, Terms::default());
        update.definition.as_mut().unwrap().run_info = bytes::Bytes::copy_from_slice(run_info.as_bytes());
        match world.desired.updated(update, world.now_ns) {
            Ok(next) => format!("{identifier} {run_info}: goes to number {}\n", next.definition),
            Err(refusal) => format!("{identifier} {run_info}: {refusal}\n"),
        }
    };
    let mut outcomes = outcome("v2", "other", &world) + &outcome("v3", "v3", &world);
    (0..2).for_each(|_| world.fair_round(10, all_good));
    for (identifier, run_info) in [("v2", "v2"), ("v2", "v1"), ("v1", "v1"), ("v3", "v2"), ("v3", "v3")] {
        outcomes += &outcome(identifier, run_info, &world);
    }
    expect![[r#"
        v2 other: the definition "v2" is the one in use already; nothing was changed. A new definition needs an identifier of its own
        v3 v3: the update to the definition "v2" is not finished, because instances still have the definition "v1"; nothing was changed. See how far it is with `corkboard rollout status app`, or take it back with `corkboard rollout cancel app`
        v2 v2: goes to number 2
        v2 v1: the definition "v2" is the one in use already; nothing was changed. A new definition needs an identifier of its own
        v1 v1: app had a definition "v1" before, which is still kept; nothing was changed. Go back to it with `corkboard rollout undo app --to v1`, or give the new one an identifier of its own
        v3 v2: the new definition is the same as the present one (the definition "v2"), so that nothing would change; nothing was changed
        v3 v3: goes to number 3
    "#]].assert_eq(&outcomes);
}

#[test]
fn nobody_to_replace() {
    let mut world = World::new(0);
    world.update("v2", Terms::default());
    world.roll();
    check(
        &world,
        &expect![[r#"
           1 s  Complete
        done 1->2 | 
    "#]],
    );
}

#[test]
fn what_had_crashed_before_is_replaced_in_its_turn() {
    let mut world = World::new(2);
    (0..3).for_each(|_| {
        world.crash(0);
        world.place(0);
    });
    world.update("v2", Terms::default());
    (0..3).for_each(|_| world.fair_round(10, all_good));
    check(
        &world,
        &expect![[r#"
           1 s  begin 0
          11 s  finish 0, nobody has to leave
          11 s  begin 1
          21 s  finish 1
          21 s  Complete
        done 1->2 | 2RU 2RU
    "#]],
    );
}

/// The container that left comes back as the instance, honestly named: it is replaced once more, in the same time.
#[test]
fn an_index_that_falls_back_begins_again() {
    use crate::rollout::plan::Decision;
    let mut world = World::new(2);
    world.update("v2", Terms::default());
    world.roll();
    let by = world.slot(0).leaving().unwrap().instance.clone().unwrap();
    world.lose(0, true);
    let slot = world.slot(0);
    let stamp = crate::slot::Stamp { now_ns: world.now_ns, epoch: "x".into() };
    let report = crate::ActualLrp::report(&world.slot(1).ordinary.unwrap());
    let outcome = slot.start(&world.desired.key(0), &by, report, &stamp).unwrap().made_from(FIRST, &by, &slot);
    world.slots.insert(0, outcome.slot);
    world.pass(60);
    let decisions = world.plan().decisions;
    assert!(matches!(decisions[..], [Decision::Begin { index: 0, .. }]), "{decisions:?}");
    world.roll();
    world.pass(240);
    assert!(matches!(world.plan().decisions[..], [Decision::Turn { .. }]), "{:?}", world.plan());
}
