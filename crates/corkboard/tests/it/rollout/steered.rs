//! Pauses, canaries and changes of mind.

use expect_test::expect;

use super::world::{INSTANCES, Luck, World, steady};

#[test]
fn an_update_is_paused_resumed_and_cancelled() {
    let world = World::new();
    assert_eq!(world.update("v2", 128, &["--healthy", "0s"]).code, 0);
    world.until_status("successor");
    expect![[r#"
        The update of hello is paused; every instance runs on.
        Next: `corkboard rollout resume hello` goes on, `corkboard rollout cancel hello` takes it back
    "#]]
    .assert_eq(&world.must(&["rollout", "pause", "hello"]));
    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 11);
    expect![[r#"
        hello goes from definition 1 to 2 (v2): paused for AGE

          progress  [  ] 0 of 3
          began  TIME TIME UTC, AGE ago
          terms  1 at a time, each healthy for 0s, within 5m each and 1h in all, taken back if it fails

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  2 (v2)  UNCLAIMED  AGE  successor
        0  1  RUNNING  cell-1  AGE  leaving
        1  1  RUNNING  cell-1  AGE
        2  1  RUNNING  cell-1  AGE

        Next: `corkboard rollout resume hello` goes on, `corkboard rollout cancel hello` takes it back
    "#]]
    .assert_eq(&steady(&status.stdout));
    let watch = world.call(&["rollout", "status", "hello", "--watch"]);
    assert_eq!(watch.code, 11, "a watch ends when somebody is needed");
    expect![[r#"
        hello: paused on the way to definition 2 (v2), 0 of 3; instance 0 is UNCLAIMED
    "#]]
    .assert_eq(&watch.stdout);
    expect![[r#"
        The update of hello goes on.
        Next: `corkboard rollout status hello --watch` follows it
    "#]]
    .assert_eq(&world.must(&["rollout", "resume", "hello"]));
    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 10, "{status:?}");
    expect![[r#"
        hello goes from definition 1 to 2 (v2): rolling for AGE

          progress  [  ] 0 of 3
          began  TIME TIME UTC, AGE ago
          terms  1 at a time, each healthy for 0s, within 5m each and 1h in all, taken back if it fails

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  2 (v2)  UNCLAIMED  AGE  successor
        0  1  RUNNING  cell-1  AGE  leaving
        1  1  RUNNING  cell-1  AGE
        2  1  RUNNING  cell-1  AGE

        Next: `corkboard rollout status hello --watch` follows it
    "#]]
    .assert_eq(&steady(&status.stdout));

    // One is replaced, the next is on its way, and then somebody thinks better of it.
    world.play(2, Luck::Runs);
    world.until_status("1 of 3");
    expect![[r#"
        The update of hello is taken back.
        Next: `corkboard rollout status hello --watch` follows it
    "#]]
    .assert_eq(&world.must(&["rollout", "cancel", "hello"]));
    let twice = world.call(&["rollout", "cancel", "hello"]);
    assert_eq!(twice.code, 4);
    expect![[r#"
        corkboard: the last update of hello is being taken back already; nothing was changed. Wait until that is done: `corkboard rollout status hello`
    "#]].assert_eq(&twice.stderr);
    world.play_until_status("taken back");
    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 13);
    expect![[r#"
        hello has definition 1 again: the update to 2 (v2) was taken back.

          ended  TIME TIME UTC, AGE ago
          why  cancelled

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  1  RUNNING  cell-1  AGE
        1  1  RUNNING  cell-1  AGE
        2  1  RUNNING  cell-1  AGE
    "#]]
    .assert_eq(&steady(&status.stdout));
    assert!(world.rows().iter().all(|row| row.definition_number == 0 && !row.leaving));
    assert_eq!(world.running(), INSTANCES);
}

#[test]
fn canaries_go_first_and_wait() {
    let world = World::new();
    let flags = ["--canaries", "1", "--canary-pause", "until-resumed", "--healthy", "0s", "--in-flight", "2", "--wait"];
    let mut update = world.begin_update("v2", 128, &flags);
    let (lines, code) = world.play_through(&mut update, |_| Luck::Runs);
    assert_eq!(code, 11, "{lines:#?}");
    assert_eq!(lines[lines.len() - 1], "hello: canaries have definition 2 (v2), 1 of 3", "{lines:#?}");
    expect![[r#"
        hello goes from definition 1 to 2 (v2): its canaries run for AGE, and it waits for somebody

          progress  [==========  ] 1 of 3
          began  TIME TIME UTC, AGE ago
          terms  2 at a time, 1 first, then until somebody resumes it, each healthy for 0s, within 5m each and 1h in all, taken back if it fails

        INDEX  DEFINITION  STATE  CELL  AGE  NOTE
        0  2 (v2)  RUNNING  cell-1  AGE
        1  1  RUNNING  cell-1  AGE
        2  1  RUNNING  cell-1  AGE

        Next: `corkboard rollout resume hello` goes on, `corkboard rollout cancel hello` takes it back
    "#]].assert_eq(&steady(&world.call(&["rollout", "status", "hello"]).stdout));
    expect![[r#"
        NUMBER  IDENTIFIER  USE       INSTANCES  MEMORY MB  DISK MB
        2       v2          in use    1          128        0
        1                   previous  2          64         0
    "#]]
    .assert_eq(&world.must(&["rollout", "history", "hello"]));
    let mut resume = world.begin(&["rollout", "resume", "hello", "--wait"]);
    let (lines, code) = world.play_through(&mut resume, |_| Luck::Runs);
    assert_eq!(code, 0, "{lines:#?}");
}
