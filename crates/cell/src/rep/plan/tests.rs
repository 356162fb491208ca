//! The two tables as text, and the two rules that no row may break.

use std::fmt::Write;
use std::sync::Arc;

use expect_test::expect_file;
use model::{ActualLrpKey, DomainName, InstanceGuid, ProcessGuid, TaskGuid};

use super::*;
use crate::executor::{Ending, Reservation, Room};

const STATES: [State; 5] = [State::Reserved, State::Initializing, State::Created, State::Running, State::Completed];

const CALLS: [Call; 13] = [
    Call::Claim { run: true },
    Call::Claim { run: false },
    Call::Start,
    Call::Remove,
    Call::Crash,
    Call::EvacuateClaimed,
    Call::EvacuateRunning,
    Call::EvacuateStopped,
    Call::EvacuateCrashed,
    Call::StartTask { run: true },
    Call::StartTask { run: false },
    Call::RejectTask,
    Call::CompleteTask,
];

const ANSWERS: [Answer; 10] = [
    Answer::Done,
    Answer::Keep,
    Answer::RunningAlready,
    Answer::Refused(Type::ActualLrpCannotBeClaimed),
    Answer::Refused(Type::ActualLrpCannotBeStarted),
    Answer::Refused(Type::InvalidStateTransition),
    Answer::Refused(Type::ResourceNotFound),
    Answer::Refused(Type::UnknownError),
    Answer::RefusedKeep,
    Answer::Silence,
];

fn endings() -> Vec<(&'static str, Ending)> {
    let ended = |failed, stopped, retryable| Ending { failed, stopped, retryable, reason: String::new() };
    vec![
        ("fine", ended(false, false, false)),
        ("failed", ended(true, false, false)),
        ("failed by the cell", ended(true, false, true)),
        ("stopped", ended(false, true, false)),
        ("stopped and failed", ended(true, true, false)),
    ]
}

fn container(owner: Owner, state: State, ending: Option<Ending>) -> Container {
    let reservation = Reservation {
        owner: owner.clone(),
        room: Room::default(),
        max_pids: 0,
        rootfs: String::new(),
        placement_tags: Vec::new(),
        volume_drivers: Vec::new(),
    };
    Container {
        guid: owner.container(),
        owner,
        reservation,
        state,
        ending,
        ports: Vec::new(),
        address: String::new(),
        instance_address: String::new(),
        is_routable: true,
        internal_routes: Vec::new(),
        metric_tags: Default::default(),
        definition: None,
        since_ns: 0,
    }
}

/// Every container that there can be.
fn containers() -> Vec<(String, Arc<Container>)> {
    let domain = DomainName::parse("domain").unwrap();
    let key = ActualLrpKey { process_guid: ProcessGuid::parse("app").unwrap(), index: 0, domain: domain.clone() };
    let owners = [
        ("lrp", Owner::Lrp { key, instance: InstanceGuid::parse("instance").unwrap() }),
        ("task", Owner::Task { guid: TaskGuid::parse("task").unwrap(), domain }),
    ];
    let mut all = Vec::new();
    for (name, owner) in owners {
        for state in STATES {
            match state {
                State::Completed => all.extend(endings().into_iter().map(|(how, ending)| {
                    let container = container(owner.clone(), state, Some(ending));
                    (format!("{name} Completed, {how}"), Arc::new(container))
                })),
                _ => all.push((format!("{name} {state:?}"), Arc::new(container(owner.clone(), state, None)))),
            }
        }
    }
    all
}

#[test]
fn the_tables() {
    let mut text = String::new();
    for evacuating in [false, true] {
        writeln!(text, "{}\n", if evacuating { "Evacuating" } else { "Ordinary" }).unwrap();
        for (name, container) in containers() {
            writeln!(text, "  {name:<34} {:?}", plan(&container, evacuating)).unwrap();
        }
        writeln!(text).unwrap();
    }
    for call in CALLS {
        writeln!(text, "{call:?}\n").unwrap();
        for answer in ANSWERS {
            writeln!(text, "  {:<36} {:?}", format!("{answer:?}"), react(call, answer)).unwrap();
        }
        writeln!(text).unwrap();
    }
    expect_file!["./table.golden"].assert_eq(text.trim_end());
}

#[test]
fn silence_ends_nothing_and_is_asked_about_again() {
    for call in CALLS {
        assert_eq!(react(call, Answer::Silence), Then::Again, "{call:?}");
    }
}

#[test]
fn only_an_answer_about_this_very_instance_ends_what_runs() {
    for (name, container) in containers() {
        if container.state != State::Running {
            continue;
        }
        for (evacuating, answer) in [false, true].into_iter().flat_map(|it| ANSWERS.map(|answer| (it, answer))) {
            let call = plan(&container, evacuating);
            let ends = matches!(react(call, answer), Then::Stop | Then::Delete | Then::FailAndDelete);
            let may = match call {
                Call::Start => answer == Answer::Refused(Type::ActualLrpCannotBeStarted),
                Call::EvacuateRunning => !matches!(answer, Answer::Keep | Answer::RefusedKeep | Answer::Silence),
                Call::StartTask { .. } => {
                    let gone = [Type::InvalidStateTransition, Type::ResourceNotFound];
                    matches!(answer, Answer::Refused(why) if gone.contains(&why))
                }
                _ => false,
            };
            assert_eq!(ends, may, "{name}, evacuating: {evacuating}, {answer:?}");
        }
    }
}

#[test]
fn what_has_ended_is_deleted_by_every_answer_and_kept_in_silence() {
    for (name, container) in containers() {
        if container.state != State::Completed {
            continue;
        }
        for (evacuating, answer) in [false, true].into_iter().flat_map(|it| ANSWERS.map(|answer| (it, answer))) {
            let then = react(plan(&container, evacuating), answer);
            let is_deleted = matches!(then, Then::Delete | Then::FailAndDelete);
            assert_eq!(is_deleted, answer != Answer::Silence, "{name}, evacuating: {evacuating}, {answer:?}");
        }
    }
}

#[test]
fn nothing_runs_while_evacuating_but_tasks() {
    for (name, container) in containers() {
        let runs = ANSWERS.iter().any(|answer| react(plan(&container, true), *answer) == Then::Run);
        assert_eq!(runs, matches!(container.owner, Owner::Task { .. }) && container.state == State::Reserved, "{name}");
    }
}
