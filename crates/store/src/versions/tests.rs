//! Tests of the chain: the list of versions, and what holds for the model over every one of them.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use model::rollout::Terms;
use model::rollout::plan::Decision;
use model::rollout::step::carry_out;
use model::slot::Stamp;
use model::{DefinitionNumber, DesiredUpdate, Slot};
use proptest::prelude::*;

use super::lrp_definitions::generated::{actual, all_kinds, any_entity, desired, leaving, rolling};
use super::*;
use crate::kv::Op;

#[test]
fn the_list_ascends_and_each_folder_has_its_name() {
    assert!(Version::ALL.is_sorted_by(|a, b| a.number() < b.number() && a < b), "append only");
    for version in Version::ALL.iter().copied() {
        let camel: String = version.name().split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        assert_eq!(format!("{version:?}"), camel);
        assert_eq!(version.root(), format!("/v{}/", version.number()));
        assert!(version.summary().ends_with('.') && !version.summary().contains('\n'), "{}", version.summary());
        assert_eq!(Version::of(version.number()), Some(version));
        let path = format!("{}/src/versions/{}", env!("CARGO_MANIFEST_DIR"), version.name());
        assert!(std::path::Path::new(&path).is_dir(), "{path}");
    }
    assert_eq!(Version::of(DataVersion(5)), None);
    assert_eq!(latest::NUMBER, Version::LATEST.number(), "the model is beside the newest version");
}

fn load(version: Version, records: &[(String, Bytes)]) -> (Vec<Entity>, Vec<Quarantined>) {
    let mut loader = Loader::new(version);
    let entities = records.iter().filter_map(|(key, value)| loader.feed(key, value)).collect();
    (entities, loader.finish())
}

/// Every operation of a change, as a line.
fn check_change(forms: &Forms, before: Option<&Entity>, after: Option<&Entity>, expected: &Expect) {
    let (mut step, mut lost) = (Step::default(), Vec::new());
    forms.change(&mut step, before.map(Entity::as_ref), after.map(Entity::as_ref), &mut lost);
    let mut lines: Vec<String> = step
        .ops
        .iter()
        .map(|op| match op {
            Op::Put { key, .. } => format!("put {key}"),
            Op::Delete { key } => format!("delete {key}"),
        })
        .collect();
    lines.extend(lost.iter().map(|lost| format!("{} loses {}, which needs {}", lost.id, lost.what, lost.needs.name())));
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn a_change_writes_what_it_changed() {
    let newest = Forms::only(Version::LATEST);
    let old = Entity::Desired(desired());
    check_change(
        &newest,
        None,
        Some(&old),
        &expect![[r#"
        put /v1794700800/desired/schedule/process
        put /v1794700800/desired/definition/process/0000000003
        put /v1794700800/desired/definition/process/0000000002"#]],
    );
    check_change(&newest, Some(&old), Some(&old), &expect![[r#""#]]);
    let scaled = desired().updated(DesiredUpdate { instances: Some(9), ..DesiredUpdate::default() }, 7).unwrap();
    check_change(
        &newest,
        Some(&old),
        Some(&Entity::Desired(scaled.clone())),
        &expect!["put /v1794700800/desired/schedule/process"],
    );
    let mut settled = scaled;
    settled.previous = None;
    check_change(
        &newest,
        Some(&old),
        Some(&Entity::Desired(settled.clone())),
        &expect![[r#"
        put /v1794700800/desired/schedule/process
        delete /v1794700800/desired/definition/process/0000000002"#]],
    );
    let mut replaced = settled.clone();
    replaced.definition = DefinitionNumber(4);
    check_change(
        &newest,
        Some(&Entity::Desired(settled)),
        Some(&Entity::Desired(replaced)),
        &expect![[r#"
        put /v1794700800/desired/schedule/process
        put /v1794700800/desired/definition/process/0000000004
        delete /v1794700800/desired/definition/process/0000000003"#]],
    );
    check_change(
        &newest,
        Some(&old),
        None,
        &expect![[r#"
        delete /v1794700800/desired/schedule/process
        delete /v1794700800/desired/definition/process/0000000003
        delete /v1794700800/desired/definition/process/0000000002"#]],
    );
    check_change(&newest, None, None, &expect![[r#""#]]);
}

/// Nothing is left to do: the rollout that is under way ends.
fn completed(lrp: &DesiredLrp, keep: usize) -> Option<DesiredLrp> {
    let stamp = Stamp { now_ns: 9, epoch: "epoch".into() };
    carry_out(lrp, &Slot::default(), &Decision::Complete { to: lrp.definition }, keep, &stamp)
        .map(|change| change.desired)
}

#[test]
fn a_rollout_writes_the_schedule_and_no_definition_that_is_there() {
    let newest = Forms::only(Version::LATEST);
    let check = |before: &DesiredLrp, after: &DesiredLrp, expected: Expect| {
        let (before, after) = (Entity::Desired(before.clone()), Entity::Desired(after.clone()));
        check_change(&newest, Some(&before), Some(&after), &expected);
    };
    let before = rolling();
    check(&before, &before, expect![]);
    check(
        &before,
        &DesiredLrp { history: before.history.as_deref().cloned().map(Into::into), ..before.clone() },
        expect![],
    );
    check(&before, &before.paused(9).unwrap(), expect!["put /v1794700800/desired/schedule/process"]);
    let done = completed(&before, 2).unwrap();
    check(&before, &done, expect!["put /v1794700800/desired/schedule/process"]);
    check(
        &before,
        &completed(&before, 1).unwrap(),
        expect![[r#"
        put /v1794700800/desired/schedule/process
        delete /v1794700800/desired/definition/process/0000000001"#]],
    );
    check(
        &before,
        &completed(&before, 0).unwrap(),
        expect![[r#"
        put /v1794700800/desired/schedule/process
        delete /v1794700800/desired/definition/process/0000000002
        delete /v1794700800/desired/definition/process/0000000001"#]],
    );
    check(
        &done,
        &done.rolled_back(Some(""), Terms::default(), 9).unwrap(),
        expect!["put /v1794700800/desired/schedule/process"],
    );
    // What every change changes is the tag; the history is looked at all the same.
    check(
        &before,
        &DesiredLrp { history: None, ..before.clone() },
        expect![[r#"
        put /v1794700800/desired/schedule/process
        delete /v1794700800/desired/definition/process/0000000001"#]],
    );
    check(
        &DesiredLrp { history: None, ..before.clone() },
        &before,
        expect![[r#"
        put /v1794700800/desired/schedule/process
        put /v1794700800/desired/definition/process/0000000001"#]],
    );
    check(
        &before,
        &DesiredLrp { tag: before.tag.clone(), ..before.paused(9).unwrap() },
        expect!["put /v1794700800/desired/schedule/process"],
    );
}

#[test]
fn a_row_that_moves_leaves_nothing_behind() {
    let moved = Entity::Actual(actual().with_presence(Presence::Ordinary));
    let row = Entity::Actual(actual());
    check_change(&Forms::only(Version::LATEST), Some(&row), Some(&row), &expect![[r#""#]]);
    check_change(
        &Forms::only(Version::LATEST),
        Some(&row),
        Some(&moved),
        &expect![[r#"
        delete /v1794700800/actual/process/1/evacuating
        put /v1794700800/actual/process/1/ordinary"#]],
    );
    check_change(
        &Forms::only(Version::SplitDesiredLrp),
        Some(&row),
        Some(&moved),
        &expect![[r#"
        delete /v1442529338/actual/process/1/evacuating
        put /v1442529338/actual/process/1/ordinary
        ActualLRP process/1 loses that it runs definition 2, which needs lrp_definitions"#]],
    );
}

#[test]
fn both_forms_are_written_and_losses_named() {
    let both = Forms::both(Version::SplitDesiredLrp, Version::LATEST);
    let old = Entity::Desired(desired());
    let scaled = Entity::Desired(
        desired().updated(DesiredUpdate { instances: Some(9), ..DesiredUpdate::default() }, 7).unwrap(),
    );
    check_change(
        &both,
        None,
        Some(&old),
        &expect![[r#"
        put /v1442529338/desired/schedule/process
        put /v1442529338/desired/run/process
        put /v1794700800/desired/schedule/process
        put /v1794700800/desired/definition/process/0000000003
        put /v1794700800/desired/definition/process/0000000002
        DesiredLRP process loses that its definition is number 3, named "blue", which needs lrp_definitions
        DesiredLRP process loses the previous definition, number 2, which needs lrp_definitions"#]],
    );
    check_change(
        &both,
        Some(&old),
        Some(&scaled),
        &expect![[r#"
        put /v1442529338/desired/schedule/process
        put /v1794700800/desired/schedule/process
        DesiredLRP process loses that its definition is number 3, named "blue", which needs lrp_definitions
        DesiredLRP process loses the previous definition, number 2, which needs lrp_definitions"#]],
    );
    check_change(
        &both,
        Some(&old),
        None,
        &expect![[r#"
        delete /v1442529338/desired/schedule/process
        delete /v1442529338/desired/run/process
        delete /v1794700800/desired/schedule/process
        delete /v1794700800/desired/definition/process/0000000003
        delete /v1794700800/desired/definition/process/0000000002"#]],
    );
}

#[test]
fn a_rehearsal_counts_what_is_written_and_names_what_is_lost() {
    let check_of = |entities: Vec<Entity>, from, to, expected: Expect| {
        let mut rehearsal = Rehearsal::new(from, to);
        let mut lines = Vec::new();
        for entity in entities {
            for (key, value) in records(from, entity.as_ref()).0 {
                lines.extend(rehearsal.feed(&key, &value).map(|one| {
                    let lost: Vec<String> = one.lost.into_iter().map(|lost| lost.what).collect();
                    format!(
                        "{}: {} records, {} bytes, {lost:?}, {:?}",
                        one.id, one.records_after, one.bytes_after, one.failure
                    )
                }));
            }
        }
        lines.extend(rehearsal.finish().into_iter().map(|one| format!("{}: {}", one.key, one.why)));
        expected.assert_eq(&lines.join("\n"));
    };
    let in_a_rollout = || vec![Entity::Actual(leaving()), Entity::Desired(rolling())];
    check_of(
        in_a_rollout(),
        Version::LrpDefinitions,
        Version::LrpDefinitions,
        expect![[r#"
        ActualLRP process/1 (evacuating): 1 records, 217 bytes, [], None
        DesiredLRP process: 4 records, 640 bytes, [], None"#]],
    );
    check_of(
        in_a_rollout(),
        Version::LrpDefinitions,
        Version::InitialJson,
        expect![[r#"
        ActualLRP process/1 (evacuating): 1 records, 682 bytes, ["that it runs definition 2", "that it is leaving because an update replaces it"], None
        DesiredLRP process: 1 records, 647 bytes, ["that its definition is number 3, named \"blue\"", "the previous definition, number 2", "the older definition, number 1", "the rollout, from definition 2 to 3", "the count of its definitions, 4"], None"#]],
    );
    let check = |from, to, expected: Expect| check_of(all_kinds(), from, to, expected);
    check(
        Version::SplitDesiredLrp,
        Version::LrpDefinitions,
        expect![[r#"
            ActualLRP process/1 (evacuating): 1 records, 214 bytes, [], None
            DesiredLRP process: 2 records, 293 bytes, [], None
            Domain cf-apps: 1 records, 61 bytes, [], None
            Task task: 1 records, 141 bytes, [], None"#]],
    );
    check(
        Version::LrpDefinitions,
        Version::SplitDesiredLrp,
        expect![[r#"
            ActualLRP process/1 (evacuating): 1 records, 211 bytes, ["that it runs definition 2"], None
            DesiredLRP process: 2 records, 271 bytes, ["that its definition is number 3, named \"blue\"", "the previous definition, number 2"], None
            Domain cf-apps: 1 records, 61 bytes, [], None
            Task task: 1 records, 141 bytes, [], None"#]],
    );
    check(
        Version::LrpDefinitions,
        Version::LrpDefinitions,
        expect![[r#"
            ActualLRP process/1 (evacuating): 1 records, 214 bytes, [], None
            DesiredLRP process: 3 records, 446 bytes, [], None
            Domain cf-apps: 1 records, 61 bytes, [], None
            Task task: 1 records, 141 bytes, [], None"#]],
    );
}

proptest! {
    #[test]
    fn every_entity_survives_the_newest_version(entity in any_entity()) {
        let (written, lost) = records(Version::LATEST, entity.as_ref());
        prop_assert_eq!(lost, vec![]);
        prop_assert_eq!(&through(Version::LATEST, entity.as_ref()), &entity);
        prop_assert_eq!(load(Version::LATEST, &written), (vec![entity], vec![]));
    }

    #[test]
    fn every_key_names_its_entity(entity in any_entity()) {
        let expected = match &entity {
            Entity::Desired(lrp) => Subject::Desired(lrp.process_guid.to_string()),
            Entity::Actual(lrp) => {
                let guid = lrp.key.process_guid.to_string();
                Subject::Actual { guid, index: lrp.key.index, presence: lrp.presence }
            }
            Entity::Task(task) => Subject::Task(task.guid.to_string()),
            Entity::Domain(domain) => Subject::Domain(domain.name.to_string()),
        };
        for version in Version::ALL.iter().copied() {
            for (key, _) in records(version, entity.as_ref()).0 {
                prop_assert_eq!(subject(version, &key), Some(expected.clone()), "{}", key);
            }
        }
    }

    #[test]
    fn losses_are_named_exactly_when_there_are_any(entity in any_entity()) {
        for version in Version::ALL.iter().copied() {
            let (written, lost) = records(version, entity.as_ref());
            let through = through(version, entity.as_ref());
            prop_assert_eq!(lost.is_empty(), through == entity, "{:?} in {:?}", lost, version);
            prop_assert!(lost.iter().all(|lost| lost.id == entity.as_ref().label() && lost.needs > version));
            prop_assert_eq!(load(version, &written), (vec![through], vec![]));
        }
    }

    /// Whatever a record is damaged to, all records of its entity are inside what is loaded or quarantined.
    #[test]
    fn damage_loses_nothing(entity in any_entity(), record in any::<prop::sample::Index>(), flips in flips()) {
        for version in Version::ALL.iter().copied() {
            let (mut written, _) = records(version, entity.as_ref());
            let fed: Vec<String> = written.iter().map(|(key, _)| key.clone()).collect();
            let damaged = record.get(&written).clone();
            let mut value = damaged.1.to_vec();
            for (at, byte) in &flips {
                let at = at.index(value.len());
                value[at] ^= byte;
            }
            written.retain(|(key, _)| *key != damaged.0);
            written.push((damaged.0, value.into()));
            let (loaded, quarantined) = load(version, &written);
            let inside = loaded.iter().flat_map(|entity| records(version, entity.as_ref()).0);
            let mut found: Vec<String> = inside.map(|(key, _)| key).chain(quarantined.into_iter().map(|one| one.key)).collect();
            let mut fed = fed;
            fed.sort();
            found.sort();
            prop_assert_eq!(found, fed);
        }
    }

    /// From every version to every other: what is reported as sound is, whatever it is.
    #[test]
    fn every_entity_can_be_rehearsed(entity in any_entity()) {
        for (from, to) in Version::ALL.iter().flat_map(|from| Version::ALL.iter().map(move |to| (*from, *to))) {
            let mut rehearsal = Rehearsal::new(from, to);
            let (written, _) = records(from, entity.as_ref());
            let rehearsed: Vec<_> = written.iter().filter_map(|(key, value)| rehearsal.feed(key, value)).collect();
            prop_assert_eq!(rehearsal.finish(), vec![]);
            prop_assert_eq!(rehearsed.len(), 1);
            prop_assert_eq!(&rehearsed[0].failure, &None, "from {:?} to {:?}", from, to);
        }
    }

    /// Whatever was before, the records after a change are those of what is after, in every form.
    #[test]
    fn a_change_leaves_the_records_of_what_is_after(
        before in prop::option::of(any_entity()), after in prop::option::of(any_entity()), related in any::<bool>(),
    ) {
        let after = if related { before.clone().and_then(related_to) } else { after };
        for first in Version::ALL.iter().copied() {
            let forms = Forms::both(first, Version::LATEST);
            let all = |entity: Option<&Entity>| -> BTreeMap<String, Bytes> {
                let versions = forms.versions().iter();
                versions.flat_map(|version| entity.map(|entity| records(*version, entity.as_ref()).0)).flatten().collect()
            };
            let mut kept = all(before.as_ref());
            let mut step = Step::default();
            forms.change(&mut step, before.as_ref().map(Entity::as_ref), after.as_ref().map(Entity::as_ref), &mut vec![]);
            prop_assert!(step.check().is_ok());
            for op in step.ops {
                match op {
                    Op::Put { key, value } => drop(kept.insert(key, value)),
                    Op::Delete { key } => drop(kept.remove(&key)),
                }
            }
            prop_assert_eq!(kept, all(after.as_ref()));
        }
    }
}

/// Where in a record something is flipped, and which bits.
fn flips() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 1..=u8::MAX), 1..3)
}

/// The same thing a little later.
fn related_to(entity: Entity) -> Option<Entity> {
    match entity {
        Entity::Desired(lrp) => {
            let annotated = DesiredUpdate { annotation: Some("next".into()), ..DesiredUpdate::default() };
            let next = match &lrp.previous {
                // To an older definition if there is one, and otherwise to a new one.
                None if lrp.history.as_ref().is_some_and(|history| !history.older.is_empty()) => {
                    lrp.rolled_back(None, Terms::default(), 7).unwrap_or_else(|_| lrp.clone())
                }
                None => DesiredLrp { definition: lrp.definition.next(), ..lrp.clone() },
                Some(previous) if previous.number.0 % 2 == 0 => completed(&lrp, previous.number.0 as usize % 4)
                    .unwrap_or_else(|| DesiredLrp { previous: None, ..lrp.clone() }),
                Some(_) => lrp.cancelled(7).or_else(|_| lrp.paused(7)).unwrap_or_else(|_| lrp.clone()),
            };
            Some(Entity::Desired(next.updated(annotated, 7).unwrap()))
        }
        Entity::Actual(lrp) if lrp.crash_count % 2 == 0 => Some(Entity::Actual(lrp.with_presence(Presence::Suspect))),
        Entity::Actual(lrp) if lrp.leaving => Some(Entity::Actual(ActualLrp { leaving: false, ..lrp })),
        Entity::Actual(lrp) => Some(Entity::Actual(lrp.failed("no room", 7))),
        Entity::Task(task) => Some(Entity::Task(task.demoted())),
        Entity::Domain(_) => None,
    }
}
