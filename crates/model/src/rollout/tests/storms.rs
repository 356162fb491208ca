//! Anything may happen at any moment of a rollout. The world checks each decision; here it is checked that it ends well.

use proptest::prelude::*;

use super::world::World;
use crate::rollout::{Pause, Terms};
use crate::{DefinitionNumber, DesiredUpdate, NANOS_PER_SECOND};

#[derive(Clone, Copy, Debug)]
enum Happening {
    Pass(i64),
    Roll,
    Place(i32),
    Run(i32),
    Crash(i32),
    Restart(i32),
    CrashLeaving(i32),
    ReportLeaving(i32),
    Drain(i32),
    DrainLeaving(i32),
    Lose(i32),
    LoseLeaving(i32),
    Scale(i32),
    Cancel,
    Pause,
    Resume,
    Update,
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    let index = 0..5_i32;
    prop_oneof![
        3 => (0..40_i64).prop_map(H::Pass),
        6 => Just(H::Roll),
        4 => index.clone().prop_map(H::Place),
        5 => index.clone().prop_map(H::Run),
        2 => index.clone().prop_map(H::Crash),
        1 => index.clone().prop_map(H::Restart),
        1 => index.clone().prop_map(H::CrashLeaving),
        2 => index.clone().prop_map(H::ReportLeaving),
        1 => index.clone().prop_map(H::Drain),
        1 => index.clone().prop_map(H::DrainLeaving),
        1 => index.clone().prop_map(H::Lose),
        1 => index.clone().prop_map(H::LoseLeaving),
        1 => (0..5_i32).prop_map(H::Scale),
        1 => Just(H::Cancel),
        1 => Just(H::Pause),
        1 => Just(H::Resume),
        1 => Just(H::Update),
    ]
}

fn terms() -> impl Strategy<Value = Terms> {
    let pause = prop_oneof![Just(Pause::UntilResumed), (0..30_i64).prop_map(|s| Pause::For(s * NANOS_PER_SECOND))];
    (0..4_u32, 0..3_u32, pause, 0..20_i64, 20..200_i64, any::<bool>()).prop_map(
        |(in_flight, canaries, canary_pause, healthy_s, deadline_s, reverts)| Terms {
            in_flight,
            canaries,
            canary_pause,
            healthy_ns: healthy_s * NANOS_PER_SECOND,
            instance_deadline_ns: deadline_s * NANOS_PER_SECOND,
            deadline_ns: 10 * deadline_s * NANOS_PER_SECOND,
            reverts,
        },
    )
}

fn make(world: &mut World, happening: Happening, terms: Terms, updates: &mut u32) {
    use Happening as H;
    let now_ns = world.now_ns;
    let asked = match happening {
        H::Cancel => Some(world.desired.cancelled(now_ns)),
        H::Pause => Some(world.desired.paused(now_ns)),
        H::Resume => Some(world.desired.resumed(now_ns)),
        H::Update => {
            *updates += 1;
            let update = super::world::update_to(&format!("u{updates}"), terms);
            Some(world.desired.updated(update, now_ns))
        }
        _ => None,
    };
    if let Some(Ok(next)) = asked {
        world.desired = next;
    }
    match happening {
        H::Pass(seconds) => world.pass(seconds),
        H::Roll => drop(world.roll()),
        H::Place(index) => world.place(index),
        H::Run(index) => world.run(index),
        H::Crash(index) => world.crash(index),
        H::Restart(index) => world.restart(index),
        H::CrashLeaving(index) => world.crash_leaving(index),
        H::ReportLeaving(index) => world.report_leaving(index),
        H::Drain(index) => drop(world.drain(index, false)),
        H::DrainLeaving(index) => drop(world.drain(index, true)),
        H::Lose(index) => world.lose(index, false),
        H::LoseLeaving(index) => world.lose(index, true),
        H::Scale(instances) => {
            let update = DesiredUpdate { instances: Some(instances), ..DesiredUpdate::default() };
            world.desired = world.desired.updated(update, now_ns).unwrap();
            world.fill();
        }
        H::Cancel | H::Pause | H::Resume | H::Update => {}
    }
}

/// Rounds in which all goes well until it is over; whatever waits for somebody is resumed.
fn ends(world: &mut World, good: impl Fn(DefinitionNumber) -> bool + Copy) {
    for _ in 0..400 {
        if world.desired.rollout().is_none() {
            return;
        }
        if world.desired.rollout().is_some_and(|rollout| rollout.phase.is_held()) {
            world.desired = world.desired.resumed(world.now_ns).unwrap();
        }
        world.fair_round(5, good);
    }
    panic!("it does not end: {}\n{}", world.shows(), world.account);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn it_ends_once_all_goes_well(terms in terms(), happenings in prop::collection::vec(happening(), 0..60)) {
        let mut world = World::new(4);
        let mut updates = 0;
        world.update("v2", terms);
        for happening in happenings {
            make(&mut world, happening, terms, &mut updates);
        }
        ends(&mut world, |_| true);
        let all = world.slots.values().flat_map(|slot| slot.rows());
        prop_assert!(all.into_iter().all(|row| row.definition == world.desired.definition && !row.leaving));
    }

    /// While the cells of nobody fail, a definition that never starts costs no running instance.
    #[test]
    fn a_bad_definition_never_costs_an_instance(
        terms in terms(), pauses in prop::collection::vec((0..40_i64, any::<bool>()), 1..40),
    ) {
        let mut world = World::new(4);
        world.update("v2", terms);
        for (seconds, cancels) in pauses {
            if cancels && let Ok(next) = world.desired.cancelled(world.now_ns) {
                world.desired = next;
            }
            world.fair_round(seconds, |number| number == DefinitionNumber(1));
            prop_assert_eq!(world.served(), vec![true; 4], "{}", world.shows());
        }
    }
}
