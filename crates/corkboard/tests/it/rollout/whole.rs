//! Whole updates, from the first instance to the last, followed by the command that began them.

use expect_test::expect;

use super::world::{INSTANCES, Luck, World, steady};
use crate::terminal::Terminal;

const AT_ONCE: &[&str] = &["--healthy", "0s", "--wait"];

#[test]
fn an_update_is_followed_to_its_end_and_no_index_is_ever_empty() {
    let world = World::new();
    expect![[r#"
        hello has definition 1; no update is under way, and none is remembered.

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  1  RUNNING  cell-1  AGE
        1  1  RUNNING  cell-1  AGE
        2  1  RUNNING  cell-1  AGE
    "#]]
    .assert_eq(&steady(&world.must(&["rollout", "status", "hello"])));
    let mut update = world.begin_update("v2", 128, AT_ONCE);
    let (lines, code) = world.play_through(&mut update, |_| Luck::Runs);
    assert_eq!(code, 0, "{lines:#?}");
    assert!(lines[0].starts_with("hello: going to definition 2 (v2), "), "{lines:#?}");
    assert_eq!(lines[lines.len() - 1], "hello: done, all have definition 2 (v2)", "{lines:#?}");
    assert!(world.rows().iter().all(|row| row.definition_number == 2 && !row.leaving));

    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 0);
    expect![[r#"
        hello has definition 2 (v2): the update from 1 is complete.

          ended  TIME TIME UTC, AGE ago

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  2 (v2)  RUNNING  cell-1  AGE
        1  2 (v2)  RUNNING  cell-1  AGE
        2  2 (v2)  RUNNING  cell-1  AGE
    "#]]
    .assert_eq(&steady(&status.stdout));
    expect![[r#"
        NUMBER  IDENTIFIER  USE     INSTANCES  MEMORY MB  DISK MB
        2       v2          in use  3          128        0
        1                   former  0          64         0
    "#]]
    .assert_eq(&world.must(&["rollout", "history", "hello"]));
    expect![[r#"
        {"number":2,"identifier":"v2","use":"in use","instances":3,"memory_mb":128,"disk_mb":0}
        {"number":1,"identifier":"","use":"former","instances":0,"memory_mb":64,"disk_mb":0}
    "#]]
    .assert_eq(&world.must(&["rollout", "history", "hello", "--json"]));
    expect![[r#"
        hello: from definition 1 to 2 (v2)

          ~ env.MESSAGE  (hidden), and different
          ~ memory_mb    64 -> 128
    "#]]
    .assert_eq(&world.must(&["rollout", "diff", "hello"]));
    expect![[r#"
        hello: from definition 2 (v2) to 1

          ~ env.MESSAGE  two -> one
          ~ memory_mb    128 -> 64
    "#]]
    .assert_eq(&world.must(&["rollout", "diff", "hello", "v2", "1", "--show-values"]));
    expect![[r#"
        hello: from definition 2 (v2) to 2 (v2)

          nothing is different
    "#]]
    .assert_eq(&world.must(&["rollout", "diff", "hello", "v2"]));
    expect![[r#"
        {"process_guid":"hello","from":{"number":1,"identifier":""},"to":{"number":2,"identifier":"v2"},"changes":[{"field":"env.MESSAGE","from":"(hidden)","to":"(hidden)"},{"field":"memory_mb","from":"64","to":"128"}]}
    "#]].assert_eq(&world.must(&["rollout", "diff", "hello", "--json"]));

    // Back to what has no name, by its number, and forth again, by the latest.
    let mut undo =
        world.begin(&["rollout", "undo", "hello", "--to", "1", "--healthy", "0s", "--in-flight", "3", "--wait"]);
    let (lines, code) = world.play_through(&mut undo, |_| Luck::Runs);
    assert_eq!(code, 0, "{lines:#?}");
    assert_eq!(lines[lines.len() - 1], "hello: done, all have definition 1", "{lines:#?}");
    let mut undo = world.begin(&["rollout", "undo", "hello", "--healthy", "0s", "--wait"]);
    assert_eq!(world.play_through(&mut undo, |_| Luck::Runs).1, 0);
    assert!(world.rows().iter().all(|row| row.definition_number == 2));
}

#[test]
fn an_update_that_fails_is_taken_back_and_says_why() {
    let world = World::new();
    let mut update = world.begin_update("v2", 128, &["--healthy", "1m", "--wait"]);
    let luck = |definition| if definition == 2 { Luck::Crashes } else { Luck::Runs };
    let (lines, code) = world.play_through(&mut update, luck);
    assert_eq!(code, 13, "{lines:#?}");
    let last = "hello: done, all have definition 1 again, because: instance 0 crashed 3 times: exited with 3";
    assert_eq!(lines[lines.len() - 1], last, "{lines:#?}");
    assert_eq!(world.running(), INSTANCES);
    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 13);
    expect![[r#"
        hello has definition 1 again: the update to 2 (v2) was taken back.

          ended  TIME TIME UTC, AGE ago
          why  instance 0 crashed 3 times: exited with 3

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  1  RUNNING  cell-1  AGE
        1  1  RUNNING  cell-1  AGE
        2  1  RUNNING  cell-1  AGE
    "#]]
    .assert_eq(&steady(&status.stdout));
    expect![[r#"
        NUMBER  IDENTIFIER  USE     INSTANCES  MEMORY MB  DISK MB
        1                   in use  3          64         0
        2       v2          former  0          128        0
    "#]]
    .assert_eq(&world.must(&["rollout", "history", "hello"]));

    // What must not be taken back stays where it failed, until somebody says how it goes on.
    let mut update = world.begin_update("v3", 256, &["--healthy", "1m", "--no-revert", "--wait"]);
    let luck = |definition| if definition == 3 { Luck::Crashes } else { Luck::Runs };
    let (lines, code) = world.play_through(&mut update, luck);
    assert_eq!(code, 12, "{lines:#?}");
    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 12);
    expect![[r#"
        hello goes from definition 1 to 3 (v3): FAILED, and halted for AGE; what runs, runs on

          progress  [  ] 0 of 3
          began  TIME TIME UTC, AGE ago
          terms  1 at a time, each healthy for 1m, within 5m each and 1h in all, stays as it is if it fails
          why  instance 0 crashed 3 times: exited with 3

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  3 (v3)  CRASHED  AGE  successor: exited with 3
        0  1  RUNNING  cell-1  AGE  leaving
        1  1  RUNNING  cell-1  AGE
        2  1  RUNNING  cell-1  AGE

        Next: `corkboard rollout cancel hello` takes it back, `corkboard rollout resume hello` goes on
    "#]]
    .assert_eq(&steady(&status.stdout));
    let mut cancel = world.begin(&["rollout", "cancel", "hello", "--wait"]);
    let (lines, code) = world.play_through(&mut cancel, |_| Luck::Runs);
    assert_eq!(code, 0, "{lines:#?}");
    assert!(world.rows().iter().all(|row| row.definition_number == 0));
}

#[test]
fn a_watch_on_a_terminal_is_redrawn_in_place_and_one_for_programs_is_json() {
    let world = World::new();
    assert_eq!(world.update("v2", 128, &["--healthy", "0s"]).code, 0);
    let mut terminal = Terminal::run(&mut world.server.command(&["rollout", "status", "hello", "--watch"]));
    terminal.meet("0 of 3");
    terminal.meet("successor");
    terminal.meet("leaving");
    let mut json = world.begin(&["rollout", "status", "hello", "--watch", "--json"]);
    let (lines, code) = world.play_through(&mut json, |_| Luck::Runs);
    let phases: Vec<String> = lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["phase"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((code, phases[phases.len() - 1].as_str()), (0, "done"), "{lines:#?}");
    let (shown, code) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("\u{1b}[J"), "{shown:?}");
    let last = shown.rsplit("\u{1b}[J").next().unwrap();
    expect![[r#"
        hello has definition 2 (v2): the update from 1 is complete.

          ended  TIME TIME UTC, AGE ago

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  2 (v2)  RUNNING  cell-1  AGE
        1  2 (v2)  RUNNING  cell-1  AGE
        2  2 (v2)  RUNNING  cell-1  AGE
    "#]]
    .assert_eq(&steady(last));
}

#[test]
fn a_server_that_is_away_for_a_moment_ends_neither_the_update_nor_the_watch() {
    let mut world = World::that_comes_back();
    assert_eq!(world.update("v2", 128, &["--healthy", "0s"]).code, 0);
    let mut watch = world.begin(&["rollout", "status", "hello", "--watch"]);
    let first = watch.line().unwrap();
    assert!(first.starts_with("hello: going to definition 2 (v2), 0 of 3"), "{first}");
    world.restart();
    let (lines, code) = world.play_through(&mut watch, |_| Luck::Runs);
    assert_eq!(code, 0, "{lines:#?}");
    assert_eq!(lines[lines.len() - 1], "hello: done, all have definition 2 (v2)", "{lines:#?}");
}
