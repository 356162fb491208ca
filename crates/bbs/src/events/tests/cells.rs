//! Whoever listens to one cell gets what concerns it, all of it and nothing else, and is neither woken nor cut off by others.

use model::event::{Group, GroupEvent, InstanceEvent};
use model::{ActualLrp, ActualLrpKey, InstanceGuid, InstanceKey, ProcessGuid};
use proptest::prelude::*;

use super::*;

const CELLS: [&str; 3] = ["a", "b", "c"];
const RING: RingLimits = RingLimits { events_max: 20, bytes_max: usize::MAX };

fn cell(name: &str) -> CellId {
    CellId::parse(name).unwrap()
}

/// An instance on a cell, or on none.
fn row(on: Option<&str>) -> Arc<ActualLrp> {
    let key = ActualLrpKey {
        process_guid: ProcessGuid::parse("p").unwrap(),
        index: 0,
        domain: DomainName::parse("d").unwrap(),
    };
    let row = ActualLrp::unclaimed(key, "epoch".into(), 0);
    let Some(on) = on else { return Arc::new(row) };
    let by = InstanceKey { instance_guid: InstanceGuid::parse("i").unwrap(), cell_id: cell(on) };
    Arc::new(row.claimed(&by, 0))
}

fn moved(from: Option<&str>, to: Option<&str>) -> Event {
    Event::Instance(InstanceEvent::Changed { before: row(from), after: row(to) })
}

fn group_moved(from: Option<&str>, to: Option<&str>) -> Event {
    let group = |on| Group { instance: Some(row(on)), evacuating: None };
    Event::Group(GroupEvent::Changed { before: group(from), after: group(to) })
}

fn listen(hub: &Arc<Hub>, kind: Kind, name: &str, resume: Option<&str>) -> (Subscription, Option<Gap>) {
    hub.subscribe(kind, Stream::Newest, Some(cell(name)), resume.map(|id| EventId::parse(id).unwrap())).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Publish(Vec<Event>),
    /// Somebody begins to listen, perhaps from some revision on.
    Listen {
        kind: Kind,
        cell: usize,
        back: Option<u64>,
    },
    /// One of those who listen reads what there is.
    Read(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let on = || proptest::option::of(proptest::sample::select(CELLS.to_vec()));
    prop_oneof![
        4 => (on(), on()).prop_map(|(from, to)| moved(from, to)),
        4 => (on(), on()).prop_map(|(from, to)| group_moved(from, to)),
        1 => Just(desired("p")),
        1 => Just(task("t")),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(Kind::Group), Just(Kind::Instance), Just(Kind::Task)];
    prop_oneof![
        4 => proptest::collection::vec(event(), 1..4).prop_map(Step::Publish),
        1 => (kind, 0..CELLS.len(), proptest::option::of(0..8_u64))
            .prop_map(|(kind, cell, back)| Step::Listen { kind, cell, back }),
        2 => (0..16_usize).prop_map(Step::Read),
    ]
}

/// Somebody who listens, and what they must have got so far, beside what they got.
struct Listener {
    subscription: Subscription,
    kind: Kind,
    cell: usize,
    begun_after: u64,
    got: Vec<String>,
}

/// What a listener should get, by the plain rule: each event in turn, if it concerns the cell.
fn wanted(history: &[(u64, Vec<Event>)], listener: &Listener) -> Vec<String> {
    let cell = cell(CELLS[listener.cell]);
    let mut ids = Vec::new();
    for (revision, events) in history.iter().filter(|(revision, _)| *revision > listener.begun_after) {
        let staged = events.iter().map(|event| Staged { step: 0, event: event.clone(), trace: "".into() }).collect();
        let announced = number(staged, *revision);
        let for_us = announced.iter().filter(|event| event.is_for(listener.kind, Some(&cell)));
        ids.extend(for_us.map(|event| event.id(listener.kind).to_string()));
    }
    ids
}

fn check(steps: Vec<Step>) {
    let hub = Hub::with_limits(0, RingLimits { events_max: usize::MAX, ..RING });
    let mut history: Vec<(u64, Vec<Event>)> = Vec::new();
    let mut listeners: Vec<Listener> = Vec::new();
    let read = |listener: &mut Listener| {
        let ids = futures_util::FutureExt::now_or_never(ids(&mut listener.subscription)).unwrap();
        listener.got.extend(ids.split_whitespace().map(str::to_owned));
    };
    for step in steps {
        let revision = history.len() as u64;
        match step {
            Step::Publish(events) => {
                publish(&hub, revision + 1, events.clone());
                history.push((revision + 1, events));
            }
            Step::Listen { kind, cell, back } => {
                let begun_after = back.map_or(revision, |back| revision.saturating_sub(back));
                let resume = back.map(|_| begun_after.to_string());
                let (subscription, gap) = listen(&hub, kind, CELLS[cell], resume.as_deref());
                assert_eq!(gap, None);
                listeners.push(Listener { subscription, kind, cell, begun_after, got: Vec::new() });
            }
            Step::Read(number) if !listeners.is_empty() => {
                let at = number % listeners.len();
                read(&mut listeners[at]);
                assert_eq!(listeners[at].got, wanted(&history, &listeners[at]));
            }
            Step::Read(_) => {}
        }
    }
    assert_eq!(hub.subscribers(), listeners.len());
    for listener in &mut listeners {
        read(listener);
        assert_eq!(listener.got, wanted(&history, listener));
    }
}

proptest! {
    #[test]
    fn a_listener_to_a_cell_gets_what_concerns_it_and_nothing_else(steps in proptest::collection::vec(step(), 1..60)) {
        check(steps);
    }
}

#[tokio::test]
async fn a_quiet_cell_is_not_cut_off_by_busy_ones() {
    let hub = Hub::with_limits(0, RING);
    let (mut quiet, _) = listen(&hub, Kind::Instance, "a", None);
    let (mut busy, _) = listen(&hub, Kind::Instance, "b", None);
    publish(&hub, 1, [moved(None, Some("a"))]);
    assert_eq!(ids(&mut quiet).await, "1");
    for revision in 2..=100 {
        publish(&hub, revision, [moved(None, Some("b"))]);
    }
    assert_eq!(ids(&mut busy).await, "FellBehind");
    assert_eq!(ids(&mut quiet).await, "", "it has missed nothing");
    publish(&hub, 101, [moved(Some("a"), Some("c"))]);
    publish(&hub, 102, [moved(Some("a"), None)]);
    assert_eq!(ids(&mut quiet).await, "102", "an instance is told of where it is, or else where it was");
    for revision in 103..=200 {
        publish(&hub, revision, [moved(None, Some("a"))]);
    }
    assert_eq!(ids(&mut quiet).await, "FellBehind");
}

#[tokio::test]
async fn only_those_whose_cell_it_is_are_woken() {
    let hub = Hub::new(0);
    let (ours, _) = listen(&hub, Kind::Instance, "a", None);
    let (theirs, _) = listen(&hub, Kind::Instance, "b", None);
    publish(&hub, 1, [moved(None, Some("a")), task("t")]);
    assert!(ours.end.has_changed().unwrap() && !theirs.end.has_changed().unwrap());
    publish(&hub, 2, [desired("p")]);
    assert!(theirs.end.has_changed().unwrap(), "an app is everybody's");
}

#[tokio::test]
async fn lanes_go_with_the_last_who_listens_and_all_end_with_the_hub() {
    let hub = Hub::new(0);
    let (first, _) = listen(&hub, Kind::Instance, "a", None);
    let (mut second, _) = listen(&hub, Kind::Group, "a", None);
    assert_eq!((hub.subscribers(), hub.ring().lanes.len()), (2, 1));
    drop(first);
    publish(&hub, 1, [desired("p")]);
    assert_eq!((hub.subscribers(), hub.ring().lanes.len()), (1, 1));
    hub.close();
    assert_eq!(ids(&mut second).await, "1 Shutdown");
    drop(second);
    publish(&hub, 2, [desired("p")]);
    assert_eq!((hub.subscribers(), hub.ring().lanes.len()), (0, 0));
    assert!(hub.subscribe(Kind::Instance, Stream::Newest, Some(cell("a")), None).is_none());
}
