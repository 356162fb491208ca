//! An app that is being updated: who leaves, which definition each instance has, and how it goes on.

use api::event::EventPayload;
use api::models::actual_lrp::Presence;
use api::models::{ActualLrp, DesiredLrp, DesiredLrpChangedEvent, Rollout};
use expect_test::expect;

use super::super::frame::Size;
use super::super::picture::{Everything, Picture, Update};
use super::super::view::{Tab, View};
use super::cluster::{NOW, actual, cell, desired};
use super::frame;

fn of(definition_number: u32, mut lrp: ActualLrp) -> ActualLrp {
    lrp.definition_number = definition_number;
    lrp
}

fn view(tab: Tab, app: Option<&str>) -> View {
    View::new(String::new(), app, Size { columns: 100, rows: 16 }).turned_to(tab)
}

#[test]
fn an_update_shows_who_leaves_and_who_comes() {
    let mut leaving = actual("hello", 1, "RUNNING", "cell-z1");
    (leaving.presence, leaving.leaving) = (Presence::Evacuating as i32, true);
    let mut picture = Picture::default();
    picture.take(Update::Cells(vec![cell("cell-z1", "z1"), cell("cell-z2", "z2")]), NOW);
    let everything = Everything {
        desired: vec![desired("hello", 3), desired("quiet", 1)],
        actual: vec![
            of(2, actual("hello", 0, "RUNNING", "cell-z2")),
            of(2, actual("hello", 1, "CLAIMED", "cell-z2")),
            leaving,
            actual("hello", 2, "RUNNING", "cell-z1"),
            of(4, actual("quiet", 0, "RUNNING", "cell-z1")),
        ],
        tasks: Vec::new(),
    };
    picture.take(Update::Everything(Box::new(everything)), NOW);
    expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · apps 2 · running 4 of 4 · claimed 1


         Apps  Cells [Instances] Events  Server   of all apps
          INSTANCE  STATE                CELL          SINCE  CRASHES  ADDRESS         WHY
        > hello/0   running #2           cell-z2  1 min 15 s           10.0.0.7:61001
          hello/1   claimed #2           cell-z2  1 min 15 s
          hello/1   running #1, leaving  cell-z1  1 min 15 s           10.0.0.7:61001
          hello/2   running #1           cell-z1  1 min 15 s           10.0.0.7:61001
          quiet/0   running              cell-z1  1 min 15 s           10.0.0.7:61001




        1 of 5  q quit  Tab view  ↑↓ choose  Esc back  / filter
    "#]]
    .assert_eq(&frame(&picture, &view(Tab::Instances, None)));
    // A cell is not drained because an instance on it is replaced.
    assert!(!frame(&picture, &view(Tab::Cells, None)).contains("evacuating"));

    let lrp = |phase: &str, started_at: i64, reverts: bool| {
        let why = if reverts { "instance 1 crashed" } else { "" }.to_owned();
        let rollout = Rollout { phase: phase.into(), started_at, reverts, why, to_definition: 2, ..Rollout::default() };
        let rollout = (started_at > 0).then_some(rollout);
        Some(DesiredLrp { process_guid: "hello".into(), instances: 3, rollout, ..DesiredLrp::default() })
    };
    let steps = [
        (lrp("", 0, false), lrp("", 0, false)),
        (lrp("", 0, false), lrp("rolling", 1, false)),
        (lrp("rolling", 1, false), lrp("rolling", 1, false)),
        (lrp("rolling", 1, false), lrp("canary", 1, false)),
        (lrp("canary", 1, false), lrp("rolling", 2, true)),
        (lrp("rolling", 2, true), lrp("halted", 2, true)),
        (lrp("rolling", 2, true), lrp("done", 2, true)),
        (lrp("done", 2, true), lrp("done", 2, true)),
    ];
    for (before, after) in steps {
        let event = DesiredLrpChangedEvent { before, after, ..DesiredLrpChangedEvent::default() };
        picture.take(Update::Event(Box::new(EventPayload::DesiredLrpChanged(event))), NOW);
    }
    expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · apps 2 · running 4 of 4 · claimed 1


         Apps  Cells  Instances [Events] Server
          AT        WHAT     ABOUT  HOW
          00:00:00  changed  hello  updated
          00:00:00  changed  hello  has definition 2
          00:00:00  changed  hello  halted on the way to definition 2: instance 1 crashed
          00:00:00  changed  hello  back to definition 2: instance 1 crashed
          00:00:00  changed  hello  canary, to definition 2
          00:00:00  changed  hello  on the way to definition 2
          00:00:00  changed  hello  on the way to definition 2
          00:00:00  changed  hello  updated

        1 of 8  q quit  Tab view  ↑↓ scroll  / filter
    "#]]
    .assert_eq(&frame(&picture, &view(Tab::Events, None)));
}
