//! Tests of the ring: what a subscriber gets, in which order, and what it is told when something is gone.

use model::event::{DesiredEvent, TaskEvent};
use model::{DomainName, Resources, Task, TaskDefinition, TaskGuid};

use super::*;

mod cells;

const SMALL: RingLimits = RingLimits { events_max: 4, bytes_max: usize::MAX };

fn task(guid: &str) -> Event {
    let definition = TaskDefinition {
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        completion_callback_url: String::new(),
        annotation: String::new(),
        encoded: Bytes::new(),
    };
    let domain = DomainName::parse("d").unwrap();
    let task = Task::desire(TaskGuid::parse(guid).unwrap(), domain, definition, 0);
    Event::Task(TaskEvent::Created(Arc::new(task)))
}

fn desired(guid: &str) -> Event {
    let wire = api::models::DesiredLrp { process_guid: guid.into(), domain: "d".into(), ..Default::default() };
    let lrp = api::convert::desired_lrp::desire(wire, "epoch".into()).unwrap();
    Event::Desired(DesiredEvent::Created(Arc::new(lrp)))
}

/// One revision with these events.
fn publish(hub: &Hub, revision: u64, events: impl IntoIterator<Item = Event>) {
    let staged = events.into_iter().map(|event| Staged { step: 0, event, trace: "".into() }).collect();
    hub.publish(staged, revision, revision);
}

fn subscribe(hub: &Arc<Hub>, kind: Kind, resume: Option<&str>) -> (Subscription, Option<Gap>) {
    hub.subscribe(kind, Stream::Newest, None, resume.map(|id| EventId::parse(id).unwrap())).unwrap()
}

/// The ids that are ready now, then how the stream stands.
async fn ids(subscription: &mut Subscription) -> String {
    let mut ids = Vec::new();
    loop {
        match futures_util::FutureExt::now_or_never(subscription.next())
            .map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        {
            std::task::Poll::Ready(Ok(frames)) => ids.extend(frames.iter().map(|frame| {
                let frame = std::str::from_utf8(frame).unwrap();
                frame.strip_prefix("id: ").unwrap().split_once('\n').unwrap().0.to_owned()
            })),
            std::task::Poll::Ready(Err(ended)) => {
                ids.push(format!("{ended:?}"));
                return ids.join(" ");
            }
            std::task::Poll::Pending => return ids.join(" "),
        }
    }
}

#[test]
fn ids_parse_and_print() {
    for text in ["0", "1042", "1042-2", "18446744073709551615"] {
        assert_eq!(EventId::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "-", "x", "1-", "-1", "1-2-3", "1 2", "18446744073709551616", "+1x"] {
        assert_eq!(EventId::parse(text), None, "{text}");
    }
    let at = |text: &str| EventId::parse(text).unwrap();
    assert!(at("1").is_before(at("2-5")), "a later revision");
    assert!(at("2-5").is_before(at("2-4")) && at("2-1").is_before(at("2")), "fewer that follow");
    assert!(!at("2").is_before(at("2")));
}

#[tokio::test]
async fn a_subscriber_gets_what_is_announced_after_it_came() {
    let hub = Hub::new(7);
    publish(&hub, 8, [task("a")]);
    let (mut late, gap) = subscribe(&hub, Kind::Task, None);
    assert_eq!(gap, None);
    assert_eq!(ids(&mut late).await, "");
    publish(&hub, 9, [task("b"), task("c"), task("d")]);
    publish(&hub, 10, [desired("p")]);
    publish(&hub, 11, [task("e")]);
    assert_eq!(ids(&mut late).await, "9-2 9-1 9 11");
}

#[tokio::test]
async fn the_count_of_what_follows_is_that_of_the_stream() {
    let hub = Hub::new(0);
    let (mut tasks, _) = subscribe(&hub, Kind::Task, None);
    let (mut lrps, _) = subscribe(&hub, Kind::Group, None);
    publish(&hub, 1, [desired("p"), task("a"), desired("q"), task("b")]);
    assert_eq!(ids(&mut tasks).await, "1-1 1");
    assert_eq!(ids(&mut lrps).await, "1-1 1");
}

#[tokio::test]
async fn steps_of_one_commit_have_their_own_revisions() {
    let hub = Hub::new(0);
    let (mut all, _) = subscribe(&hub, Kind::Task, None);
    let staged = [(0, "a"), (0, "b"), (2, "c")]
        .map(|(step, guid)| Staged { step, event: task(guid), trace: "".into() })
        .into_iter()
        .collect();
    hub.publish(staged, 5, 7);
    assert_eq!(ids(&mut all).await, "5-1 5 7");
}

#[tokio::test]
async fn resuming_anywhere_yields_exactly_the_rest() {
    let hub = Hub::new(0);
    for revision in 1..=5 {
        publish(&hub, revision, [task("a"), desired("p"), task("b"), task("c")]);
    }
    let (mut all, gap) = subscribe(&hub, Kind::Task, Some("0"));
    assert_eq!(gap, None);
    let all = ids(&mut all).await;
    assert_eq!(all, "1-2 1-1 1 2-2 2-1 2 3-2 3-1 3 4-2 4-1 4 5-2 5-1 5");
    let seen: Vec<_> = all.split(' ').collect();
    for (at, id) in seen.iter().enumerate() {
        let (mut resumed, gap) = subscribe(&hub, Kind::Task, Some(id));
        assert_eq!(gap, None, "after {id}");
        assert_eq!(ids(&mut resumed).await, seen[at + 1..].join(" "), "after {id}");
    }
}

#[tokio::test]
async fn what_left_the_ring_is_a_gap_and_the_last_that_left_is_not() {
    let hub = Hub::with_limits(10, SMALL);
    for revision in 11..=16 {
        publish(&hub, revision, [task("a")]);
    }
    // 13 to 16 are held. Who saw 12 has missed nothing.
    let (mut resumed, gap) = subscribe(&hub, Kind::Task, Some("12"));
    assert_eq!((ids(&mut resumed).await.as_str(), gap), ("13 14 15 16", None));
    for asked in ["11", "10", "0", "12-1"] {
        let (mut resumed, gap) = subscribe(&hub, Kind::Task, Some(asked));
        let gap = gap.unwrap();
        assert_eq!((gap.asked.to_string().as_str(), gap.oldest, gap.newest), (asked, 12, 16));
        assert_eq!(ids(&mut resumed).await, "", "a gap is not followed by half of what was missed");
        publish(&hub, 16, []);
    }
}

#[tokio::test]
async fn an_id_from_the_future_is_a_gap() {
    let hub = Hub::new(10);
    let (_, gap) = subscribe(&hub, Kind::Task, Some("11"));
    assert_eq!(gap.map(|gap| gap.newest), Some(10), "the client has seen what this server does not know");
    let (_, gap) = subscribe(&hub, Kind::Task, Some("10"));
    assert_eq!(gap, None);
}

#[tokio::test]
async fn a_busy_stream_makes_no_gap_on_a_quiet_one() {
    let hub = Hub::with_limits(0, SMALL);
    publish(&hub, 1, [desired("p")]);
    publish(&hub, 2, [desired("q")]);
    for revision in 3..=20 {
        publish(&hub, revision, [task("a")]);
    }
    let (mut quiet, gap) = subscribe(&hub, Kind::Group, Some("2"));
    assert_eq!((ids(&mut quiet).await.as_str(), gap), ("", None), "all it missed were events of another stream");
    assert!(subscribe(&hub, Kind::Group, Some("1")).1.is_some());
}

#[tokio::test]
async fn who_reads_too_slowly_is_cut_off_and_others_are_not() {
    let hub = Hub::with_limits(0, SMALL);
    let (mut slow, _) = subscribe(&hub, Kind::Task, None);
    let (mut fast, _) = subscribe(&hub, Kind::Task, None);
    for revision in 1..=4 {
        publish(&hub, revision, [task("a")]);
        assert_eq!(ids(&mut fast).await, revision.to_string());
    }
    publish(&hub, 5, [task("a")]);
    assert_eq!(ids(&mut slow).await, "FellBehind");
    assert_eq!(ids(&mut fast).await, "5");
}

#[tokio::test]
async fn large_events_push_out_more() {
    let hub = Hub::with_limits(0, RingLimits { events_max: usize::MAX, bytes_max: 10_000 });
    for revision in 1..=100 {
        publish(&hub, revision, [task("a")]);
    }
    assert!(hub.ring().bytes <= 10_000);
    let held = hub.ring().events.len();
    assert!((1..100).contains(&held), "{held}");
}

#[tokio::test]
async fn closing_delivers_what_was_announced_before_and_then_ends() {
    let hub = Hub::new(0);
    let (mut open, _) = subscribe(&hub, Kind::Task, None);
    publish(&hub, 1, [task("a")]);
    hub.close();
    publish(&hub, 2, [task("b")]);
    assert_eq!(ids(&mut open).await, "1 2 Shutdown");
    assert!(hub.subscribe(Kind::Task, Stream::Newest, None, None).is_none());
}

#[tokio::test]
async fn a_waiting_subscriber_is_woken() {
    let hub = Hub::new(0);
    let (mut waiting, _) = subscribe(&hub, Kind::Task, None);
    let publisher = hub.clone();
    let (frames, ()) = tokio::join!(waiting.next(), async move {
        tokio::task::yield_now().await;
        publish(&publisher, 1, [desired("p")]);
        tokio::task::yield_now().await;
        publish(&publisher, 2, [task("a")]);
    });
    assert_eq!(frames.unwrap(), [Bytes::from_static(b"id: 2\nevent: task_created\ndata: CgoKABIBYRoBZDgB\n\n")]);
}

#[test]
fn the_last_words_are_comments_and_the_gap_is_an_event() {
    assert_eq!(closing_comment("why"), ": closed: why\n\n");
    let gap = Gap { asked: EventId { revision: 3, remaining: 1 }, oldest: 5, newest: 9 };
    let frame = String::from_utf8(gap_frame(gap).to_vec()).unwrap();
    let data = frame.strip_prefix("id: 9\nevent: gap\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
    let json = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["asked"], &json["oldest"], &json["newest"]), (&"3-1".into(), &5.into(), &9.into()));
}
