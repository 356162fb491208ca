//! What containers wrote, asked of a cell at its network port.

use std::time::Duration;

use api::cell::logs::{LogMessage, LogQuery, LogsOf};
use api::client::logs::{CellLogs, LogStream, LogsError};
use cell::executor::{ContainerGuid, Executor, State};
use model::{Cell, CellId};

use crate::rep_world::{World, call, patiently, until};

fn query(follow: bool) -> LogQuery {
    LogQuery { of: LogsOf::Process { guid: "app".into(), index: None }, lines: None, since_ns: None, follow }
}

fn presence(world: &World) -> Cell {
    Cell {
        id: CellId::parse("cell-1").unwrap(),
        rep_address: String::new(),
        rep_url: format!("http://{}", world.ready.network),
        zone: "z1".into(),
        capacity: None,
        rootfs_providers: Vec::new(),
        placement_tags: Vec::new(),
        optional_placement_tags: Vec::new(),
        annotations: Default::default(),
    }
}

/// A cell with two instances of an app.
async fn world() -> (World, Vec<ContainerGuid>) {
    let world = World::new().await;
    world.lrps(&[1, 1]).await;
    let running = || world.executor.list().iter().filter(|container| container.state == State::Running).count() == 2;
    until("both instances run", running).await;
    let mut guids: Vec<_> = world.executor.list().iter().map(|container| container.guid.clone()).collect();
    guids.sort();
    (world, guids)
}

async fn ask(world: &World, query: &LogQuery) -> LogStream {
    patiently(CellLogs::new(None).open(&presence(world), query)).await.unwrap().unwrap()
}

/// The next message in short.
async fn next(stream: &mut LogStream) -> String {
    match patiently(stream.next()).await.unwrap().unwrap() {
        Some(LogMessage::Beat) => Box::pin(next(stream)).await,
        None => "end".into(),
        Some(LogMessage::Line(line)) => {
            format!("{} [{}/{}] {}", line.instance_guid, line.source, line.index, line.text)
        }
        Some(LogMessage::Hello { cell_id, now_ns }) => format!("hello from {cell_id} at {now_ns}"),
        Some(other) => format!("{other:?}"),
    }
}

#[tokio::test]
async fn kept_lines_come_first_and_new_ones_follow() {
    let (world, guids) = world().await;
    world.executor.say(&guids[0], "one");
    world.executor.say(&guids[1], "two");
    let mut stream = ask(&world, &query(true)).await;
    assert_eq!(next(&mut stream).await, "hello from cell-1 at 2");
    let of = |number: usize| format!("{} [APP/{number}]", guids[number]);
    assert_eq!(next(&mut stream).await, format!("{} one", of(0)));
    assert_eq!(next(&mut stream).await, format!("{} two", of(1)));
    world.executor.say(&guids[0], "three");
    assert_eq!(next(&mut stream).await, format!("{} three", of(0)));

    // Of a container that is gone, too; and only what was asked for.
    world.executor.delete(&guids[0]).await.unwrap();
    let last = LogQuery { lines: Some(1), since_ns: Some(1), ..query(false) };
    let last = LogQuery { of: LogsOf::Process { guid: "app".into(), index: Some(0) }, ..last };
    let mut stream = ask(&world, &last).await;
    assert_eq!(next(&mut stream).await, "hello from cell-1 at 3");
    assert_eq!(next(&mut stream).await, format!("{} three", of(0)));
    assert_eq!(next(&mut stream).await, "end");
    let other = LogQuery { of: LogsOf::Process { guid: "another".into(), index: None }, ..query(false) };
    let mut stream = ask(&world, &other).await;
    assert_eq!((next(&mut stream).await, next(&mut stream).await), ("hello from cell-1 at 3".into(), "end".into()));
}

/// The simulated executor holds few lines for listeners, so that many at once are missed and looked up.
#[tokio::test]
async fn nothing_is_missing_and_nothing_comes_twice_when_much_is_written_at_once() {
    let (world, guids) = world().await;
    let mut stream = ask(&world, &LogQuery { lines: Some(0), ..query(true) }).await;
    next(&mut stream).await;
    for number in 0..5_000 {
        world.executor.say(&guids[number % 2], &number.to_string());
    }
    for number in 0..5_000 {
        let line = next(&mut stream).await;
        assert_eq!(line.rsplit_once(' ').unwrap().1, number.to_string());
    }
}

#[tokio::test]
async fn a_slow_reader_loses_lines_and_is_told_how_many() {
    const LINES: u64 = 400;
    let (world, guids) = world().await;
    let mut slow = ask(&world, &LogQuery { lines: Some(0), ..query(true) }).await;
    next(&mut slow).await;
    let mut quick = ask(&world, &LogQuery { lines: Some(0), ..query(true) }).await;
    next(&mut quick).await;
    let text = "x".repeat(40_000);
    // The quick one reads beside it, and hears everything.
    for number in 0..LINES {
        world.executor.say(&guids[0], &text);
        assert!(next(&mut quick).await.ends_with('x'), "{number}");
    }
    let (mut heard, mut lost) = (0, 0);
    while heard + lost < LINES {
        match patiently(slow.next()).await.unwrap().unwrap().unwrap() {
            LogMessage::Line(_) => heard += 1,
            LogMessage::Lost { lines } => lost += lines,
            other => assert_eq!(other, LogMessage::Beat),
        }
    }
    assert!(lost > 0 && heard > 0, "{heard} heard, {lost} lost");
    assert_eq!(heard + lost, LINES);
    let (_, metrics) = world.admin("GET", "/metrics").await;
    assert!(metrics.contains(&format!("corkboard_cell_log_lines_lost_total {lost}\n")), "{metrics}");
}

#[tokio::test]
async fn readers_do_not_hold_up_the_end_of_a_cell() {
    let (world, _) = world().await;
    let mut stream = ask(&world, &query(true)).await;
    next(&mut stream).await;
    let began = tokio::time::Instant::now();
    world.stops().await;
    assert_eq!(next(&mut stream).await, "end");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn readers_that_are_too_many_are_turned_away_and_make_room_when_they_leave() {
    let (world, _) = world().await;
    let mut readers = Vec::new();
    let refusal = loop {
        match patiently(CellLogs::new(None).open(&presence(&world), &query(true))).await.unwrap() {
            Ok(reader) => readers.push(reader),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(readers.len(), 128);
    assert_eq!(
        refusal.to_string(),
        "it refused with status 503: 128 others read logs of this cell already; try again later"
    );
    assert!(refusal.retryable());
    readers.clear();
    let (mut left, query) = (false, query(false));
    while !left {
        left = patiently(CellLogs::new(None).open(&presence(&world), &query)).await.unwrap().is_ok();
    }
}

#[tokio::test]
async fn a_wrong_question_is_refused_and_a_cell_of_diego_is_recognised() {
    let (world, _) = world().await;
    let (status, text) = world.network("GET", "/corkboard/v1/logs?lines=3", "").await;
    assert_eq!((status, text.as_str()), (400, "expected process_guid or task_guid, and one of them only\n"));
    let posted = call(world.ready.network, "POST", "/corkboard/v1/logs?process_guid=a", "").await.unwrap();
    assert_eq!(posted.0, 405);
    // The admin port knows as little of it as a cell of Diego does.
    let elsewhere = Cell { rep_url: format!("http://{}", world.ready.admin), ..presence(&world) };
    let refusal = patiently(CellLogs::new(None).open(&elsewhere, &query(false))).await.unwrap().unwrap_err();
    assert!(matches!(refusal, LogsError::Unknown), "{refusal}");
    assert!(!refusal.retryable());
}
