//! Frames as text, at several sizes, of a cluster in which a little of everything goes wrong.

use api::event::EventPayload;
use api::models::actual_lrp::Presence;
use api::models::task::State as TaskState;
use api::models::{
    ActualLrp, ActualLrpInfo, ActualLrpInstanceChangedEvent, ActualLrpInstanceKey, ActualLrpInstanceRemovedEvent,
    ActualLrpKey, ActualLrpNetInfo, CellCapacity, CellPresence, DesiredLrp, DesiredLrpChangedEvent, DesiredLrpKey,
    DesiredLrpRemovedEvent, DesiredLrpResource, DesiredLrpSchedulingInfo, PortMapping, Task, TaskDefinition,
};
use bbs::nodes::{Card, Listed, NodeList};
use expect_test::{Expect, expect};

use super::frame::Size;
use super::picture::{Everything, Line, Picture, Server, Standing, Update};
use super::screens::{self, Scene};
use super::snapshot;
use super::summary::Summary;
use super::view::{Goes, Key, Tab, View};

const SECOND: i64 = 1_000_000_000;
const NOW: i64 = 1_794_700_800 * SECOND;

fn desired(guid: &str, instances: i32) -> DesiredLrpSchedulingInfo {
    DesiredLrpSchedulingInfo {
        desired_lrp_key: Some(DesiredLrpKey {
            process_guid: guid.into(),
            domain: "cf-apps".into(),
            ..Default::default()
        }),
        instances,
        desired_lrp_resource: Some(DesiredLrpResource { memory_mb: 64, disk_mb: 128, ..Default::default() }),
        ..Default::default()
    }
}

fn actual(guid: &str, index: i32, state: &str, cell: &str) -> ActualLrp {
    let net = ActualLrpNetInfo {
        address: "10.0.0.7".into(),
        ports: vec![PortMapping { container_port: 8080, host_port: 61_001, ..Default::default() }],
        ..Default::default()
    };
    ActualLrp {
        actual_lrp_key: Some(ActualLrpKey { process_guid: guid.into(), index, domain: "cf-apps".into() }),
        actual_lrp_instance_key: Some(ActualLrpInstanceKey {
            instance_guid: format!("i-{guid}-{index}"),
            cell_id: cell.into(),
        }),
        actual_lrp_net_info: (state == "RUNNING").then_some(net),
        state: state.into(),
        since: NOW - 75 * SECOND,
        ..Default::default()
    }
}

fn cell(id: &str, zone: &str) -> CellPresence {
    CellPresence {
        cell_id: id.into(),
        zone: zone.into(),
        rep_url: format!("https://{id}.example.org:1801"),
        capacity: Some(CellCapacity { memory_mb: 4096, disk_mb: 20_480, containers: 256 }),
        ..Default::default()
    }
}

fn node(name: &str, is_master: bool) -> Listed {
    let card = Card {
        node: name.into(),
        instance: format!("i-{name}"),
        release: "1.0.0".into(),
        data_version: 1_794_700_800,
        data_version_name: "lrp_definitions".into(),
        url: Some(format!("https://{name}.example.org:8889")),
        health: "127.0.0.1:1".into(),
        phase: if is_master { "serving" } else { "waiting" }.into(),
        since_ns: NOW - 90 * SECOND,
        started_ns: 0,
        is_warm: true,
        cannot_take_over: (name == "node-3").then(|| "this node has not key B. Add it to its configuration".into()),
    };
    Listed { is_master, card }
}

fn server() -> Server {
    let nodes = vec![node("node-1", true), node("node-2", false), node("node-3", false)];
    let migration = Standing {
        state: "sweeping".into(),
        explanation: "Records are rewritten in the background; requests are answered as before.".into(),
        next: Some("corkboard migrate status --watch".into()),
        done: Some(4_200),
        total: Some(10_000),
        eta_s: Some(12.0),
    };
    let keys = Standing { state: "settled".into(), next: None, done: None, total: None, ..migration.clone() };
    Server {
        nodes: Some(Ok(NodeList { master: Some("node-1".into()), nodes, warnings: Vec::new() })),
        migration: Some(Ok(migration)),
        keys: Some(Ok(keys)),
    }
}

fn everything() -> Everything {
    let mut crashed = actual("worker", 0, "CRASHED", "");
    (crashed.crash_count, crashed.crash_reason) = (3, "Exited with status 137 (out of memory)".into());
    let mut unplaced = actual("worker", 1, "UNCLAIMED", "");
    unplaced.placement_error = "found no compatible cell with volume driver \u{1b}[31mnfs".into();
    let mut evacuating = actual("hello", 1, "RUNNING", "cell-z2");
    evacuating.presence = Presence::Evacuating as i32;
    let mut suspect = actual("hello", 2, "RUNNING", "cell-z9");
    suspect.presence = Presence::Suspect as i32;
    let task = |guid: &str, state: TaskState, cell: &str| Task {
        task_guid: guid.into(),
        cell_id: cell.into(),
        state: state as i32,
        task_definition: Some(TaskDefinition { memory_mb: 512, disk_mb: 1024, ..Default::default() }),
        ..Default::default()
    };
    Everything {
        desired: vec![desired("hello", 3), desired("quiet", 1), desired("worker", 2)],
        actual: vec![
            actual("hello", 0, "RUNNING", "cell-z1"),
            actual("hello", 1, "UNCLAIMED", ""),
            evacuating,
            suspect,
            actual("quiet", 0, "RUNNING", "cell-z1"),
            crashed,
            unplaced,
            actual("gone", 0, "CLAIMED", "cell-z1"),
        ],
        tasks: vec![task("t-1", TaskState::Running, "cell-z1"), task("t-2", TaskState::Pending, "")],
    }
}

fn picture() -> Picture {
    let mut picture = Picture::default();
    picture.take(Update::Cells(vec![cell("cell-z1", "z1"), cell("cell-z2", "z2")]), NOW);
    picture.take(Update::Everything(Box::new(everything())), NOW);
    picture.take(Update::Server(Box::new(server())), NOW);
    picture
}

fn frame(picture: &Picture, view: &View) -> String {
    let summary = Summary::of(picture);
    let scene = Scene { picture, summary: &summary, view, address: "https://bbs.example.org:8889", now_ns: NOW };
    let frame = screens::frame(&scene);
    assert_eq!(frame.lines.len(), view.size.rows);
    let text = frame.plain();
    for line in text.lines() {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= view.size.columns, "{line:?}");
    }
    text
}

fn view(columns: usize, rows: usize, keys: &[Key]) -> View {
    let (picture, mut view) = (picture(), View::new(String::new(), None, Size { columns, rows }));
    let summary = Summary::of(&picture);
    for key in keys {
        assert_eq!(view.press(*key, &picture, &summary), Goes::On);
    }
    view
}

fn check(columns: usize, rows: usize, keys: &[Key], expected: &Expect) {
    expected.assert_eq(&frame(&picture(), &view(columns, rows, keys)));
}

#[test]
fn apps() {
    check(120, 14, &[], &expect![[r#""#]]);
    check(80, 14, &[Key::Down], &expect![[r#""#]]);
    check(44, 9, &[Key::Char('s')], &expect![[r#""#]]);
}

#[test]
fn cells() {
    check(130, 12, &[Key::NextTab], &expect![[r#""#]]);
    check(60, 12, &[Key::Char('2'), Key::Last], &expect![[r#""#]]);
}

#[test]
fn instances_of_an_app_and_of_a_cell() {
    check(120, 12, &[Key::Enter], &expect![[r#""#]]);
    check(80, 12, &[Key::Char('2'), Key::Enter, Key::Down], &expect![[r#""#]]);
}

#[test]
fn the_servers() {
    check(110, 22, &[Key::PreviousTab], &expect![[r#""#]]);
    check(50, 16, &[Key::PreviousTab, Key::PageDown], &expect![[r#""#]]);
}

#[test]
fn a_filter() {
    let typed = [Key::Char('/'), Key::Char('W'), Key::Char('o')];
    check(80, 12, &typed, &expect![[r#""#]]);
    check(80, 12, &[&typed[..], &[Key::Enter, Key::NextTab]].concat(), &expect![[r#""#]]);
    assert_eq!(view(80, 12, &[&typed[..], &[Key::Escape]].concat()).filter, "");
}

#[test]
fn nothing_yet_and_no_answer() {
    let mut picture = Picture::default();
    let view = View::new(String::new(), None, Size { columns: 100, rows: 12 });
    expect![[r#""#]].assert_eq(&frame(&picture, &view));
    let refused = "the connection was refused; the server is down or on standby";
    picture.take(Update::Everything(Box::default()), NOW);
    picture.take(Update::Away(refused.into()), NOW - 35 * SECOND);
    picture.take(Update::Away(refused.into()), NOW);
    expect![[r#""#]].assert_eq(&frame(&picture, &view));
    picture.take(Update::Everything(Box::default()), NOW);
    assert_eq!(picture.line, Line::Live);
}

#[test]
fn every_size_can_be_drawn() {
    let picture = picture();
    for tab in Tab::ALL {
        for (columns, rows) in [(0, 0), (1, 1), (3, 2), (10, 3), (17, 5), (20, 8), (79, 11), (1000, 300)] {
            let view = View { size: Size { columns, rows }, ..View::new(String::new(), None, Size { columns, rows }) };
            if rows > 0 {
                frame(&picture, &view.turned_to(tab));
            }
        }
    }
}

fn changed(guid: &str, index: i32, before: &ActualLrp, after: ActualLrp) -> EventPayload {
    let info = |lrp: &ActualLrp| ActualLrpInfo {
        state: lrp.state.clone(),
        since: lrp.since,
        presence: lrp.presence,
        placement_error: lrp.placement_error.clone(),
        ..Default::default()
    };
    EventPayload::ActualLrpInstanceChanged(ActualLrpInstanceChangedEvent {
        actual_lrp_key: Some(ActualLrpKey { process_guid: guid.into(), index, domain: "cf-apps".into() }),
        before: Some(info(before)),
        after: Some(info(&after)),
        actual_lrp_instance_key: after.actual_lrp_instance_key,
        ..Default::default()
    })
}

#[test]
fn events_change_the_picture_and_are_listed() {
    let mut picture = picture();
    let lrp = |instances: i32| DesiredLrp { process_guid: "hello".into(), instances, ..Default::default() };
    let events = [
        EventPayload::DesiredLrpChanged(DesiredLrpChangedEvent {
            before: Some(lrp(3)),
            after: Some(lrp(2)),
            ..Default::default()
        }),
        changed("hello", 1, &actual("hello", 1, "UNCLAIMED", ""), actual("hello", 1, "CLAIMED", "cell-z1")),
        changed("hello", 1, &actual("hello", 1, "CLAIMED", ""), actual("hello", 1, "RUNNING", "cell-z1")),
        EventPayload::ActualLrpInstanceRemoved(ActualLrpInstanceRemovedEvent {
            actual_lrp: Some(actual("gone", 0, "CLAIMED", "cell-z1")),
            ..Default::default()
        }),
        EventPayload::DesiredLrpRemoved(DesiredLrpRemovedEvent {
            desired_lrp: Some(DesiredLrp { process_guid: "never-heard-of".into(), ..Default::default() }),
            ..Default::default()
        }),
    ];
    for event in events {
        picture.take(Update::Event(Box::new(event)), NOW - SECOND);
    }
    let names: Vec<&str> = picture.apps.keys().map(|guid| &**guid).collect();
    assert_eq!(names, ["hello", "quiet", "worker"]);
    let summary = Summary::of(&picture);
    assert_eq!((summary.apps[0].counts.desired, summary.apps[0].counts.running), (2, 3));
    let view = view(90, 14, &[Key::Char('4')]);
    expect![[r#""#]].assert_eq(&frame(&picture, &view));
}

/// A record that comes under another presence is the same record.
#[test]
fn a_suspect_is_not_counted_twice() {
    let mut picture = picture();
    let mut suspect = actual("quiet", 0, "RUNNING", "cell-z1");
    suspect.presence = Presence::Suspect as i32;
    let event = changed("quiet", 0, &actual("quiet", 0, "RUNNING", "cell-z1"), suspect);
    picture.take(Update::Event(Box::new(event)), NOW);
    assert_eq!(picture.apps["quiet"].instances.len(), 1);
}

#[test]
fn the_chosen_row_follows_its_app() {
    let (mut picture, mut view) = (picture(), view(80, 20, &[Key::Char('s'), Key::Down]));
    assert!(frame(&picture, &view).contains("\n> hello "));
    let mut all = everything();
    all.desired.push(desired("aaa", 1));
    picture.take(Update::Everything(Box::new(all)), NOW);
    assert!(frame(&picture, &view).contains("\n> hello "));
    let summary = Summary::of(&picture);
    view.press(Key::Up, &picture, &summary);
    assert!(frame(&picture, &view).contains("\n> gone "));
    assert_eq!(view.press(Key::Char('q'), &picture, &summary), Goes::Home);
}

#[test]
fn a_snapshot() {
    let (picture, view) = (picture(), View::new(String::new(), Some("worker"), Size { columns: 80, rows: 24 }));
    let summary = Summary::of(&picture);
    expect![[r#""#]].assert_eq(&snapshot::text(&picture, &summary, &view, NOW));
    let document = snapshot::document(&picture, &summary, &view, NOW);
    expect![[r#""#]].assert_eq(&format!("{document:#}"));
}

/// Ten thousand apps with twenty-five instances each: the frame costs what is on the screen, the sums what there is.
#[test]
fn a_large_cluster_is_drawn_without_lag() {
    let mut all = Everything::default();
    for app in 0..10_000 {
        let guid = format!("app-{app:05}");
        all.desired.push(desired(&guid, 25));
        all.actual
            .extend((0..25).map(|index| actual(&guid, index, "RUNNING", &format!("cell-{}", (app + index) % 250))));
    }
    let mut picture = Picture::default();
    picture.take(Update::Everything(Box::new(all)), NOW);
    let begun = tokio::time::Instant::now();
    let summary = Summary::of(&picture);
    let summed_up = begun.elapsed();
    let mut view = View::new(String::new(), None, Size { columns: 200, rows: 60 });
    let begun = tokio::time::Instant::now();
    let presses = 50;
    for _ in 0..presses {
        view.press(Key::PageDown, &picture, &summary);
        let scene = Scene { picture: &picture, summary: &summary, view: &view, address: "", now_ns: NOW };
        assert_eq!(screens::frame(&scene).lines.len(), 60);
    }
    let frame = begun.elapsed() / presses;
    println!("sums of 250,000 instances: {summed_up:?}; a frame: {frame:?}");
    assert_eq!(summary.totals.running, 250_000);
    assert_eq!(summary.cells.len(), 250);
    // A debug build on a busy machine; a release takes a small part of it.
    assert!(frame.as_millis() < 100, "{frame:?}");
    assert!(summed_up.as_millis() < 2_000, "{summed_up:?}");
}
