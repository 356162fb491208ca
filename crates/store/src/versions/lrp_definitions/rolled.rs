//! Whatever rollouts make of a DesiredLRP can be read again: the checks of this version refuse nothing that the model
//! does, also when its decisions are carried out late, twice or in an order in which nobody planned them.

use std::collections::BTreeSet;

use bytes::Bytes;
use model::rollout::plan::Decision;
use model::rollout::step::carry_out;
use model::rollout::{OLDER_MAX, Pause, Phase, Terms};
use model::slot::Stamp;
use model::{
    ActualLrp, ActualState, DefinitionNumber, DesiredLrp, DesiredUpdate, NewDefinition, Presence, Resources, Slot,
};
use proptest::prelude::*;

use super::generated::{actual, desired};
use super::{Loader, into_model, of_model};
use crate::versions::{Entity, EntityRef};

#[derive(Clone, Debug)]
enum Move {
    Update,
    RollBack(prop::sample::Index),
    Cancel,
    Pause,
    Resume,
    Scale(i32),
    Adopt,
    Begin(i32),
    Finish(i32),
    Rest,
    GoOn,
    Turn,
    Halt,
    Complete(usize),
}

fn any_move() -> impl Strategy<Value = Move> {
    let index = || 0..6_i32;
    prop_oneof![
        6 => Just(Move::Update),
        2 => any::<prop::sample::Index>().prop_map(Move::RollBack),
        1 => Just(Move::Cancel),
        1 => Just(Move::Pause),
        1 => Just(Move::Resume),
        1 => index().prop_map(Move::Scale),
        1 => Just(Move::Adopt),
        4 => index().prop_map(Move::Begin),
        2 => index().prop_map(Move::Finish),
        1 => Just(Move::Rest),
        1 => Just(Move::GoOn),
        1 => Just(Move::Turn),
        1 => Just(Move::Halt),
        6 => prop_oneof![3 => Just(usize::MAX), 1 => 0..4_usize].prop_map(Move::Complete),
    ]
}

/// An index whose instance has always run this definition.
fn slot(definition: DefinitionNumber) -> Slot {
    let row = ActualLrp { definition, presence: Presence::Ordinary, since_ns: i64::MIN, ..actual() };
    assert_eq!(row.state, ActualState::Running);
    Slot { ordinary: Some(row.into()), ..Slot::default() }
}

fn made(lrp: &DesiredLrp, a_move: &Move, terms: Terms, now_ns: i64) -> Option<DesiredLrp> {
    let decided = |decision: Decision, keep| {
        let stamp = Stamp { now_ns, epoch: "epoch".into() };
        // What begins is a definition that nobody rolls to, and what has landed is the one that was wanted.
        let is_landed = matches!(decision, Decision::Finish { .. });
        let slot = slot(if is_landed { lrp.definition } else { DefinitionNumber(u32::MAX) });
        carry_out(lrp, &slot, &decision, keep, &stamp).map(|change| change.desired)
    };
    let why = || "it failed".to_owned();
    match a_move {
        Move::Update => {
            let definition = NewDefinition {
                identifier: format!("at {now_ns}"),
                resources: Resources::default(),
                placement_tags: vec![],
                volume_drivers: vec![],
                log_guid: format!("log {now_ns}"),
                metrics_guid: String::new(),
                run_info: Bytes::new(),
            };
            let update = DesiredUpdate { definition: Some(definition), terms, ..DesiredUpdate::default() };
            lrp.updated(update, now_ns).ok()
        }
        Move::RollBack(at) => {
            let older = &lrp.history.as_ref()?.older;
            let to = (!older.is_empty()).then(|| at.get(older).identifier.clone())?;
            lrp.rolled_back(Some(&to), terms, now_ns).ok()
        }
        Move::Cancel => lrp.cancelled(now_ns).ok(),
        Move::Pause => lrp.paused(now_ns).ok(),
        Move::Resume => lrp.resumed(now_ns).ok(),
        Move::Scale(to) => lrp.updated(DesiredUpdate { instances: Some(*to), ..DesiredUpdate::default() }, now_ns).ok(),
        Move::Adopt => decided(Decision::Adopt, 0),
        Move::Begin(index) => decided(Decision::Begin { index: *index, saw: actual().tag }, 0),
        Move::Finish(index) => decided(Decision::Finish { index: *index, leaves: None }, 0),
        Move::Rest => decided(Decision::Rest, 0),
        Move::GoOn => decided(Decision::GoOn, 0),
        Move::Turn => decided(Decision::Turn { to: lrp.definition, why: why() }, 0),
        Move::Halt => decided(Decision::Halt { to: lrp.definition, why: why() }, 0),
        Move::Complete(keep) => decided(Decision::Complete { to: lrp.definition }, *keep),
    }
}

fn check_is_read_again(lrp: &DesiredLrp) {
    let mut loader = Loader::default();
    let mut read = Vec::new();
    of_model(EntityRef::Desired(lrp)).write(&mut |key, value| read.extend(loader.feed(&key, &value)));
    assert_eq!(loader.finish(), vec![]);
    let read: Vec<_> = read.into_iter().map(into_model).collect();
    assert_eq!(read, vec![Ok(Entity::Desired(lrp.clone()))]);
}

proptest! {
    #[test]
    fn what_a_rollout_makes_of_a_record_is_read_again(
        begins_with_two in any::<bool>(),
        (in_flight, canaries, reverts) in (0..4_u32, 0..3_u32, any::<bool>()),
        moves in prop::collection::vec(any_move(), 1..60),
    ) {
        let terms = Terms { in_flight, canaries, reverts, canary_pause: Pause::UntilResumed, ..Terms::default() };
        let mut lrp = desired();
        if !begins_with_two {
            lrp.previous = None;
        }
        for (now_ns, a_move) in (0..).zip(&moves) {
            lrp = made(&lrp, a_move, terms, now_ns).unwrap_or(lrp);
            check_is_read_again(&lrp);
        }
    }
}

#[test]
fn every_phase_is_reached_and_as_many_definitions_are_kept_as_may_be() {
    let terms = Terms { canaries: 1, ..Terms::default() };
    let mut lrp = desired();
    lrp.previous = None;
    let mut phases = BTreeSet::new();
    let course = [
        Move::Update,
        Move::Begin(0),
        Move::Finish(0),
        Move::Rest,
        Move::GoOn,
        Move::Pause,
        Move::Resume,
        Move::Halt,
        Move::Resume,
        Move::Complete(usize::MAX),
    ];
    for (now_ns, a_move) in (0..).zip(course.iter().cycle().take(2 * OLDER_MAX * course.len())) {
        lrp = made(&lrp, a_move, terms, now_ns).unwrap_or_else(|| panic!("{a_move:?} at {now_ns}"));
        check_is_read_again(&lrp);
        phases.extend(lrp.history.as_ref().unwrap().rollout.as_ref().map(|rollout| rollout.phase as usize));
    }
    assert_eq!(phases.len(), Phase::ALL.len());
    assert_eq!(lrp.history.as_ref().unwrap().older.len(), OLDER_MAX);
}
