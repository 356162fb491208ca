//! Frames as text, at several sizes, of the cluster in `tests/cluster.rs`.

mod cluster;
mod update;

use api::event::EventPayload;
use api::models::actual_lrp::Presence;
use api::models::{
    ActualLrp, ActualLrpInfo, ActualLrpInstanceChangedEvent, ActualLrpInstanceRemovedEvent, ActualLrpKey, DesiredLrp,
    DesiredLrpChangedEvent, DesiredLrpRemovedEvent,
};
use expect_test::{Expect, expect};

use super::frame::Size;
use super::picture::{Everything, Line, Picture, Update};
use super::screens::{self, Scene};
use super::snapshot;
use super::summary::Summary;
use super::view::{Goes, Key, Tab, View};
use cluster::{NOW, SECOND, actual, desired, everything, picture};

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
    check(
        120,
        14,
        &[],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashed 1 · not placed 1 · tasks running 1 · t…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left) · keys: settled

        [Apps] Cells  Instances  Events  Server
          APP     DOMAIN   DESIRED  RUNNING  CLAIMED  UNCLAIMED  CRASHED  NOT PLACED  WHY
        > worker  cf-apps        2        0                   1        1           1  Exited with status 137 (out of memory)
          gone                   0        0        1
          hello   cf-apps        3        3                   1
          quiet   cf-apps        1        1



        1 of 4  q quit  Tab view  ↑↓ choose  Enter instances  / filter  s by name
    "#]],
    );
    check(
        80,
        14,
        &[Key::Down],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashe…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left)

        [Apps] Cells  Instances  Events  Server
          APP     DESIRED  RUNNING  CLAIMED  UNCLAIMED  CRASHED  NOT PLACED
          worker        2        0                   1        1           1
        > gone          0        0        1
          hello         3        3                   1
          quiet         1        1



        2 of 4  q quit  Tab view  ↑↓ choose  Enter instances  / filter  s by name
    "#]],
    );
    check(
        44,
        9,
        &[Key::Char('s')],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889…
        [Apps] Cells  Instances  Events  Server
          APP     DESIRED  RUNNING  CRASHED
        > gone          0        0
          hello         3        3
          quiet         1        1
          worker        2        0        1

        1 of 4  q quit  Tab view  ↑↓ choose  Enter …
    "#]],
    );
}

#[test]
fn cells() {
    check(
        130,
        12,
        &[Key::NextTab],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashed 1 · not placed 1 · tasks running 1 · tasks pendi…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left) · keys: settled

         Apps [Cells] Instances  Events  Server
          CELL     ZONE  STATE       INSTANCES  TASKS  MEMORY MB     DISK MB  CONTAINERS  ADDRESS
        > cell-z1  z1    there               3      1   640/4096  1280/20480       4/256  https://cell-z1.example.org:1801
          cell-z2  z2    evacuating          1      0    64/4096   128/20480       1/256  https://cell-z2.example.org:1801
          cell-z9        absent              1      0         64         128           1


        1 of 3  q quit  Tab view  ↑↓ choose  Enter instances  / filter
    "#]],
    );
    check(
        60,
        12,
        &[Key::Char('2'), Key::Last],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · …
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 …

         Apps [Cells] Instances  Events  Server
          CELL     ZONE  STATE      INSTANCES  MEMORY MB     DISK MB
          cell-z1  z1    there              3   640/4096  1280/20480
          cell-z2  z2    evacuati…          1    64/4096   128/20480
        > cell-z9        absent             1         64         128


        3 of 3  q quit  Tab view  ↑↓ choose  Enter instances  / fil…
    "#]],
    );
}

#[test]
fn instances_of_an_app_and_of_a_cell() {
    check(
        120,
        12,
        &[Key::Enter],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashed 1 · not placed 1 · tasks running 1 · t…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left) · keys: settled

         Apps  Cells [Instances] Events  Server   of app worker
          INSTANCE  STATE      CELL       SINCE  CRASHES  ADDRESS  WHY
        > worker/0  crashed          1 min 15 s        3           Exited with status 137 (out of memory)
          worker/1  unclaimed        1 min 15 s                    found no compatible cell with volume driver  [31mnfs



        1 of 2  q quit  Tab view  ↑↓ choose  Esc back  / filter
    "#]],
    );
    check(
        80,
        12,
        &[Key::Char('2'), Key::Enter, Key::Down],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashe…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left)

         Apps  Cells [Instances] Events  Server   on cell cell-z1
          INSTANCE  STATE    CELL          SINCE  CRASHES  ADDRESS         WHY
          gone/0    claimed  cell-z1  1 min 15 s
        > hello/0   running  cell-z1  1 min 15 s           10.0.0.7:61001
          quiet/0   running  cell-z1  1 min 15 s           10.0.0.7:61001


        2 of 3  q quit  Tab view  ↑↓ choose  Esc back  / filter
    "#]],
    );
}

#[test]
fn the_servers() {
    check(
        110,
        22,
        &[Key::PreviousTab],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashed 1 · not placed 1 · tasks run…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left) · keys: settled

         Apps  Cells  Instances  Events [Server]
        Nodes
          ROLE     NODE    RELEASE  DATA VERSION                  PHASE         SINCE  WARM  URL
          master   node-1  1.0.0    lrp_definitions (1794700800)  serving  1 min 30 s        https://node-1.example.o…
          standby  node-2  1.0.0    lrp_definitions (1794700800)  waiting  1 min 30 s  yes   https://node-2.example.o…
          standby  node-3  1.0.0    lrp_definitions (1794700800)  waiting  1 min 30 s  yes   https://node-3.example.o…
          node-3 cannot take over: this node has not key B. Add it to its configuration

        Migration
          sweeping 42 % (4,200 of 10,000, 12 s left)
          Records are rewritten in the background; requests are answered as before.
          Next: corkboard migrate status --watch

        Keys
          settled
          Records are rewritten in the background; requests are answered as before.

        q quit  Tab view  ↑↓ scroll
    "#]],
    );
    check(
        50,
        16,
        &[Key::PreviousTab, Key::PageDown],
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:0…
        cells 2 · 1 absent · apps 4 · running 4 of 6 · cl…
        master node-1, 2 waiting · migration: sweeping 42…

         Apps  Cells  Instances  Events [Server]
          sweeping 42 % (4,200 of 10,000, 12 s left)
          Records are rewritten in the background;
          requests are answered as before.
          Next: corkboard migrate status --watch

        Keys
          settled
          Records are rewritten in the background;
          requests are answered as before.

        q quit  Tab view  ↑↓ scroll
    "#]],
    );
}

#[test]
fn a_filter() {
    let typed = [Key::Char('/'), Key::Char('W'), Key::Char('o')];
    check(
        80,
        12,
        &typed,
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashe…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left)

        [Apps] Cells  Instances  Events  Server
          APP     DESIRED  RUNNING  CLAIMED  UNCLAIMED  CRASHED  NOT PLACED
        > worker        2        0                   1        1           1




        /Wo_  Enter keeps it, Esc drops it
    "#]],
    );
    check(
        80,
        12,
        &[&typed[..], &[Key::Enter, Key::NextTab]].concat(),
        &expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashe…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left)

         Apps [Cells] Instances  Events  Server

          nothing matches the filter




        0 of 0  filter "Wo" (Esc drops it)  q quit  Tab view  ↑↓ choose  Enter instance…
    "#]],
    );
    assert_eq!(view(80, 12, &[&typed[..], &[Key::Escape]].concat()).filter, "");
}

#[test]
fn nothing_yet_and_no_answer() {
    let mut picture = Picture::default();
    let view = View::new(String::new(), None, Size { columns: 100, rows: 12 });
    expect![[r#"
        connecting  corkboard top  https://bbs.example.org:8889
        cells 0 · apps 0 · running 0 of 0


        [Apps] Cells  Instances  Events  Server

          nothing is known yet




        0 of 0  q quit  Tab view  ↑↓ choose  Enter instances  / filter  s by name
    "#]]
    .assert_eq(&frame(&picture, &view));
    let refused = "the connection was refused; the server is down or on standby";
    picture.take(Update::Everything(Box::default()), NOW);
    picture.take(Update::Away(refused.into()), NOW - 35 * SECOND);
    picture.take(Update::Away(refused.into()), NOW);
    expect![[r#"
        NO ANSWER since 23:59:25 (35 s), trying again; below is the last that was seen
        cells 0 · apps 0 · running 0 of 0
        https://bbs.example.org:8889 the connection was refused; the server is down or on standby

        [Apps] Cells  Instances  Events  Server

          no apps: nothing is desired. `corkboard create-desired-lrp @lrp.json` makes one




        0 of 0  q quit  Tab view  ↑↓ choose  Enter instances  / filter  s by name
    "#]]
    .assert_eq(&frame(&picture, &view));
    picture.take(Update::Everything(Box::default()), NOW);
    assert_eq!(picture.line, Line::Live);
}

#[test]
fn every_size_can_be_drawn() {
    let picture = picture();
    for tab in Tab::ALL {
        for (columns, rows) in [(0, 0), (1, 1), (3, 2), (10, 3), (17, 5), (20, 8), (79, 11), (1000, 300)] {
            let view = View::new(String::new(), None, Size { columns, rows });
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
    expect![[r#"
        corkboard top  https://bbs.example.org:8889  00:00:00 UTC
        cells 2 · 1 absent · apps 3 · running 4 of 5 · unclaimed 1 · crashed 1 · not placed 1 · t…
        master node-1, 2 waiting · migration: sweeping 42 % (4,200 of 10,000, 12 s left) · keys: …

         Apps  Cells  Instances [Events] Server
          AT        WHAT      ABOUT           HOW
          23:59:59  removed   never-heard-of  not wanted any more
          23:59:59  instance  gone/0          removed (was claimed on cell-z1)
          23:59:59  instance  hello/1         claimed -> running on cell-z1
          23:59:59  instance  hello/1         unclaimed -> claimed on cell-z1
          23:59:59  changed   hello           3 -> 2 instances


        1 of 5  q quit  Tab view  ↑↓ scroll  / filter
    "#]]
    .assert_eq(&frame(&picture, &view));
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
    expect![[r#"
        2026-11-15 00:00:00 UTC
        cells 2 · 1 absent · apps 4 · running 4 of 6 · claimed 1 · unclaimed 2 · crashed 1 · not placed 1 · tasks running 1 · tasks pending 1

        Cells
          CELL     ZONE  STATE       INSTANCES  TASKS  MEMORY MB     DISK MB  CONTAINERS  ADDRESS
          cell-z1  z1    there               3      1   640/4096  1280/20480       4/256  https://cell-z1.example.org:1801
          cell-z2  z2    evacuating          1      0    64/4096   128/20480       1/256  https://cell-z2.example.org:1801
          cell-z9        absent              1      0         64         128           1

        Apps
          APP     DOMAIN   DESIRED  RUNNING  CLAIMED  UNCLAIMED  CRASHED  NOT PLACED  WHY
          worker  cf-apps        2        0                   1        1           1  Exited with status 137 (out of memory)
          gone                   0        0        1
          hello   cf-apps        3        3                   1
          quiet   cf-apps        1        1

        Instances
          INSTANCE  STATE      CELL       SINCE  CRASHES  ADDRESS  WHY
          worker/0  crashed          1 min 15 s        3           Exited with status 137 (out of memory)
          worker/1  unclaimed        1 min 15 s                    found no compatible cell with volume driver  [31mnfs

        Nodes
          ROLE     NODE    RELEASE  DATA VERSION                  PHASE         SINCE  WARM  URL
          master   node-1  1.0.0    lrp_definitions (1794700800)  serving  1 min 30 s        https://node-1.example.org:8889
          standby  node-2  1.0.0    lrp_definitions (1794700800)  waiting  1 min 30 s  yes   https://node-2.example.org:8889
          standby  node-3  1.0.0    lrp_definitions (1794700800)  waiting  1 min 30 s  yes   https://node-3.example.org:8889
          node-3 cannot take over: this node has not key B. Add it to its configuration

        Migration
          sweeping 42 % (4,200 of 10,000, 12 s left)
          Records are rewritten in the background; requests are answered as before.
          Next: corkboard migrate status --watch

        Keys
          settled
          Records are rewritten in the background; requests are answered as before.
    "#]].assert_eq(&snapshot::text(&picture, &summary, &view, NOW));
    let document = snapshot::document(&picture, &summary, &view, NOW);
    expect![[r#"{"apps":[{"counts":{"claimed":0,"crashed":1,"desired":2,"placement_errors":1,"running":0,"unclaimed":1},"domain":"cf-apps","process_guid":"worker","why":"Exited with status 137 (out of memory)"},{"counts":{"claimed":1,"crashed":0,"desired":0,"placement_errors":0,"running":0,"unclaimed":0},"domain":"","process_guid":"gone","why":null},{"counts":{"claimed":0,"crashed":0,"desired":3,"placement_errors":0,"running":3,"unclaimed":1},"domain":"cf-apps","process_guid":"hello","why":null},{"counts":{"claimed":0,"crashed":0,"desired":1,"placement_errors":0,"running":1,"unclaimed":0},"domain":"cf-apps","process_guid":"quiet","why":null}],"at_ns":1794700800000000000,"cells":[{"address":"https://cell-z1.example.org:1801","capacity":{"containers":256,"disk_mb":20480,"memory_mb":4096},"cell_id":"cell-z1","state":"there","used":{"disk_mb":1280,"evacuating":0,"instances":3,"memory_mb":640,"suspect":0,"tasks":1},"zone":"z1"},{"address":"https://cell-z2.example.org:1801","capacity":{"containers":256,"disk_mb":20480,"memory_mb":4096},"cell_id":"cell-z2","state":"evacuating","used":{"disk_mb":128,"evacuating":1,"instances":1,"memory_mb":64,"suspect":0,"tasks":0},"zone":"z2"},{"address":null,"capacity":null,"cell_id":"cell-z9","state":"absent","used":{"disk_mb":128,"evacuating":0,"instances":1,"memory_mb":64,"suspect":1,"tasks":0},"zone":null}],"instances":[{"address":"","cell_id":"","crash_count":3,"definition":1,"index":0,"instance_guid":"i-worker-0","leaving":false,"presence":"ordinary","process_guid":"worker","since_ns":1794700725000000000,"state":"crashed","why":"Exited with status 137 (out of memory)"},{"address":"","cell_id":"","crash_count":0,"definition":1,"index":1,"instance_guid":"i-worker-1","leaving":false,"presence":"ordinary","process_guid":"worker","since_ns":1794700725000000000,"state":"unclaimed","why":"found no compatible cell with volume driver  [31mnfs"}],"keys":{"done":null,"eta_s":12.0,"explanation":"Records are rewritten in the background; requests are answered as before.","next":null,"state":"settled","total":null},"migration":{"done":4200,"eta_s":12.0,"explanation":"Records are rewritten in the background; requests are answered as before.","next":"corkboard migrate status --watch","state":"sweeping","total":10000},"nodes":{"master":"node-1","nodes":[{"data_version":1794700800,"data_version_name":"lrp_definitions","health":"127.0.0.1:1","instance":"i-node-1","is_master":true,"is_warm":true,"node":"node-1","phase":"serving","release":"1.0.0","since_ns":1794700710000000000,"started_ns":0,"url":"https://node-1.example.org:8889"},{"data_version":1794700800,"data_version_name":"lrp_definitions","health":"127.0.0.1:1","instance":"i-node-2","is_master":false,"is_warm":true,"node":"node-2","phase":"waiting","release":"1.0.0","since_ns":1794700710000000000,"started_ns":0,"url":"https://node-2.example.org:8889"},{"cannot_take_over":"this node has not key B. Add it to its configuration","data_version":1794700800,"data_version_name":"lrp_definitions","health":"127.0.0.1:1","instance":"i-node-3","is_master":false,"is_warm":true,"node":"node-3","phase":"waiting","release":"1.0.0","since_ns":1794700710000000000,"started_ns":0,"url":"https://node-3.example.org:8889"}]},"tasks":{"pending":1,"running":1},"totals":{"claimed":1,"crashed":1,"desired":6,"placement_errors":1,"running":4,"unclaimed":2}}"#]].assert_eq(&document.to_string());
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
