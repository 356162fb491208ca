//! Pauses, canaries and changes of mind.

use expect_test::expect;

use super::world::{INSTANCES, Luck, World, steady};

#[test]
fn an_update_is_paused_resumed_and_cancelled() {
    let world = World::new();
    assert_eq!(world.update("v2", 128, &["--healthy", "0s"]).code, 0);
    world.until_status("successor");
    expect![[""]].assert_eq(&world.must(&["rollout", "pause", "hello"]));
    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 11);
    expect![[""]].assert_eq(&steady(&status.stdout));
    let watch = world.call(&["rollout", "status", "hello", "--watch"]);
    assert_eq!(watch.code, 11, "a watch ends when somebody is needed");
    expect![[""]].assert_eq(&watch.stdout);
    expect![[""]].assert_eq(&world.must(&["rollout", "resume", "hello"]));
    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 10, "{status:?}");
    expect![[""]].assert_eq(&steady(&status.stdout));

    // One is replaced, the next is on its way, and then somebody thinks better of it.
    world.play_until_status("1 of 3");
    expect![[""]].assert_eq(&world.must(&["rollout", "cancel", "hello"]));
    world.play_until_status("taken back");
    let status = world.call(&["rollout", "status", "hello"]);
    assert_eq!(status.code, 13);
    expect![[""]].assert_eq(&steady(&status.stdout));
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
    expect![[""]].assert_eq(&steady(&world.call(&["rollout", "status", "hello"]).stdout));
    expect![[""]].assert_eq(&world.must(&["rollout", "history", "hello"]));
    let mut resume = world.begin(&["rollout", "resume", "hello", "--wait"]);
    let (lines, code) = world.play_through(&mut resume, |_| Luck::Runs);
    assert_eq!(code, 0, "{lines:#?}");
}
