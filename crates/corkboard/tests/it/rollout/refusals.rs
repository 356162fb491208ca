//! What is refused, in words and with the next command.

use expect_test::{Expect, expect};

use super::world::World;

fn check(world: &World, args: &[&str], expected: &Expect) {
    let outcome = world.call(args);
    expected.assert_eq(&format!("{}{}= {}\n", outcome.stdout, outcome.stderr, outcome.code));
}

#[test]
fn refusals_say_what_to_do() {
    let world = World::new();
    check(&world, &["rollout", "status", "nobody"], &expect![[""]]);
    check(&world, &["rollout", "pause", "nobody"], &expect![[""]]);
    check(&world, &["rollout", "pause", "hello"], &expect![[""]]);
    check(&world, &["rollout", "resume", "hello"], &expect![[""]]);
    check(&world, &["rollout", "cancel", "hello"], &expect![[""]]);
    check(&world, &["rollout", "undo", "hello"], &expect![[""]]);
    check(&world, &["rollout", "undo", "hello", "--to", "v9"], &expect![[""]]);
    check(&world, &["rollout", "undo", "hello", "--healthy", "10m"], &expect![[""]]);
    check(&world, &["rollout", "diff", "hello"], &expect![[""]]);
    check(&world, &["rollout", "diff", "hello", "v9"], &expect![[""]]);
    check(&world, &["update-desired-lrp", "hello", r#"{"instances":3}"#, "--wait"], &expect![[""]]);

    assert_eq!(world.update("v2", 128, &["--healthy", "1m"]).code, 0);
    let again = world.update("v3", 256, &[]);
    expect![[""]].assert_eq(&format!("{}= {}\n", again.stderr, again.code));
    check(&world, &["rollout", "undo", "hello", "--to", "1"], &expect![[""]]);
    world.until_status("successor");
    assert_eq!(world.call(&["rollout", "cancel", "hello"]).code, 0);
    world.until_status("again");
    check(&world, &["rollout", "cancel", "hello"], &expect![[""]]);
    let kept = world.update("v2", 512, &[]);
    expect![[""]].assert_eq(&format!("{}= {}\n", kept.stderr, kept.code));
}
