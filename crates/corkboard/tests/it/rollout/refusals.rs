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
    check(
        &world,
        &["rollout", "status", "nobody"],
        &expect![[r#"
        corkboard: there is no app nobody
        Next: corkboard desired-lrps
        = 4
    "#]],
    );
    check(
        &world,
        &["rollout", "pause", "nobody"],
        &expect![[r#"
        corkboard: there is no app nobody
        Next: corkboard desired-lrps
        = 4
    "#]],
    );
    check(
        &world,
        &["rollout", "pause", "hello"],
        &expect![[r#"
        corkboard: no update of hello is under way; nothing was changed
        Next: corkboard rollout status hello
        = 4
    "#]],
    );
    check(
        &world,
        &["rollout", "resume", "hello"],
        &expect![[r#"
        corkboard: no update of hello is under way; nothing was changed
        Next: corkboard rollout status hello
        = 4
    "#]],
    );
    check(
        &world,
        &["rollout", "cancel", "hello"],
        &expect![[r#"
        corkboard: no update of hello is under way; nothing was changed
        Next: corkboard rollout status hello
        = 4
    "#]],
    );
    check(
        &world,
        &["rollout", "undo", "hello"],
        &expect![[r#"
        corkboard: hello has no former definition to go back to; nothing was changed. None is kept
        Next: corkboard rollout history hello
        = 4
    "#]],
    );
    check(
        &world,
        &["rollout", "undo", "hello", "--to", "v9"],
        &expect![[r#"
        corkboard: hello has no former definition "v9" to go back to; nothing was changed. None is kept
        Next: corkboard rollout history hello
        = 4
    "#]],
    );
    check(
        &world,
        &["rollout", "undo", "hello", "--healthy", "10m"],
        &expect![[r#"
        corkboard: an instance has to be healthy for 10m and may take 5m in all, so that none would ever succeed. Nothing was changed. Give a longer --instance-deadline
        = 3
    "#]],
    );
    check(
        &world,
        &["rollout", "diff", "hello"],
        &expect![[r#"
        corkboard: hello has no former definition. Kept are: 1
        Next: corkboard rollout history hello
        = 4
    "#]],
    );
    check(
        &world,
        &["rollout", "diff", "hello", "v9"],
        &expect![[r#"
        corkboard: hello has no definition "v9". Kept are: 1
        Next: corkboard rollout history hello
        = 4
    "#]],
    );
    check(
        &world,
        &["update-desired-lrp", "hello", r#"{"instances":3}"#, "--wait"],
        &expect![[r#"
        corkboard: there is no new definition, so that there is nothing to wait for and no instance to replace. Nothing was changed
        = 3
    "#]],
    );

    assert_eq!(world.update("v2", 128, &["--healthy", "1m"]).code, 0);
    let again = world.update("v3", 256, &[]);
    expect![[r#"
        BBS error
        Type 11: ResourceConflict
        Message: the update to the definition "v2" is not finished, because instances still have the first definition; nothing was changed. See how far it is with `corkboard rollout status hello`, or take it back with `corkboard rollout cancel hello`
        = 4
    "#]].assert_eq(&format!("{}= {}\n", again.stderr, again.code));
    check(
        &world,
        &["rollout", "undo", "hello", "--to", "1"],
        &expect![[r#"
        corkboard: the update to the definition "v2" is not finished, because instances still have the first definition; nothing was changed. See how far it is with `corkboard rollout status hello`, or take it back with `corkboard rollout cancel hello`
        = 4
    "#]],
    );
    world.until_status("successor");
    assert_eq!(world.call(&["rollout", "cancel", "hello"]).code, 0);
    world.until_status("again");
    check(
        &world,
        &["rollout", "cancel", "hello"],
        &expect![[r#"
        corkboard: no update of hello is under way; nothing was changed
        Next: corkboard rollout status hello
        = 4
    "#]],
    );
    let kept = world.update("v2", 512, &[]);
    expect![[r#"
        BBS error
        Type 11: ResourceConflict
        Message: hello had a definition "v2" before, which is still kept; nothing was changed. Go back to it with `corkboard rollout undo hello --to v2`, or give the new one an identifier of its own
        = 4
    "#]].assert_eq(&format!("{}= {}\n", kept.stderr, kept.code));
}
