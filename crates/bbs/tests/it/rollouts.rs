//! Rollouts as clients and cells see them: both instances of an index, what is announced, what is asked of auctioneer and cells,
//! and what may be asked of an update. The clock is the test's own, and the loop looks when the script says `roll`.

mod disturbed;

use bbs::commands::{Command, Roll};
use expect_test::expect;
use model::rollout::plan::Decision;
use model::{DefinitionNumber, ProcessGuid};

use crate::assembled::Assembled;
use crate::samples;
use crate::script::{Show, check};

#[tokio::test]
async fn the_new_instance_runs_before_the_old_one_goes() {
    let script = "
        desire p 2
        start p/0 a
        start p/1 b
        redefine p v2
        roll
        definitions p
        start p/0 a
        claim p/0 c
        start p/0 c of 2
        roll
        start p/0 a
        definitions p
        advance 10
        roll
        start p/0 a
        definitions p
        claim p/1 d
        start p/1 d of 2
        advance 10
        roll
        definitions p
        roll
    ";
    check(
        Show::Answers,
        script,
        expect![[r#"
            desire p 2: ok
                then auction p [0, 1]
            start p/0 a: ok
            start p/1 b: ok
            redefine p v2: ok
            roll
                then auction p [0]
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 UNCLAIMED Ordinary names 2
                p/0 RUNNING Evacuating names 1 and leaves
                p/1 RUNNING Ordinary names 1
            start p/0 a: ok
            claim p/0 c: ok
            start p/0 c of 2: ok
            roll
            start p/0 a: ok
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 RUNNING Ordinary names 2
                p/0 RUNNING Evacuating names 1 and leaves
                p/1 RUNNING Ordinary names 1
            advance 10
            roll
                then auction p [1]
                then stop p/0 a@cell-a
            start p/0 a: ActualLRPCannotBeStarted: cannot start actual LRP
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [1] in flight
                p/0 RUNNING Ordinary names 2
                p/1 UNCLAIMED Ordinary names 2
                p/1 RUNNING Evacuating names 1 and leaves
            claim p/1 d: ok
            start p/1 d of 2: ok
            advance 10
            roll
                then stop p/1 b@cell-b
            definitions p:
                in use 2 "v2"; Done 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 2
                p/1 RUNNING Ordinary names 2
            roll
        "#]],
    )
    .await;
}

/// The container that stays keeps its routes all the time.
#[tokio::test]
async fn what_is_taken_back_is_announced() {
    let script = "
        desire p 1
        start p/0 a
        redefine p v2
        roll
        claim p/0 b
        start p/0 b of 2
        cancel-update p
        roll
    ";
    check(
        Show::Events,
        script,
        expect![[r#"
            desire p 1: ok
                group    desired_lrp_created p x1
                group    actual_lrp_created p/0 UNCLAIMED
                instance desired_lrp_created p x1
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            start p/0 a: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 RUNNING a@cell-a
                instance actual_lrp_instance_changed p/0 a@cell-a: UNCLAIMED -> RUNNING
            redefine p v2: ok
                group    desired_lrp_changed p x1 -> p x1
                instance desired_lrp_changed p x1 -> p x1
            roll
                group    desired_lrp_changed p x1 -> p x1
                group    actual_lrp_created [- | p/0 RUNNING a@cell-a evacuating]
                group    actual_lrp_changed p/0 RUNNING a@cell-a -> p/0 UNCLAIMED
                instance desired_lrp_changed p x1 -> p x1
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING -> RUNNING evacuating
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            claim p/0 b: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 CLAIMED b@cell-b
                instance actual_lrp_instance_changed p/0 b@cell-b: UNCLAIMED -> CLAIMED
            start p/0 b of 2: ok
                group    actual_lrp_changed p/0 CLAIMED b@cell-b -> p/0 RUNNING b@cell-b
                instance actual_lrp_instance_changed p/0 b@cell-b: CLAIMED -> RUNNING
            cancel-update p: ok
                group    desired_lrp_changed p x1 -> p x1
                instance desired_lrp_changed p x1 -> p x1
            roll
                group    desired_lrp_changed p x1 -> p x1
                group    actual_lrp_created p/0 RUNNING a@cell-a
                group    actual_lrp_removed [- | p/0 RUNNING a@cell-a evacuating]
                group    actual_lrp_removed p/0 RUNNING b@cell-b
                group    desired_lrp_changed p x1 -> p x1
                instance desired_lrp_changed p x1 -> p x1
                instance actual_lrp_instance_removed p/0 RUNNING b@cell-b
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING evacuating -> RUNNING
                instance desired_lrp_changed p x1 -> p x1
                then stop p/0 b@cell-b
        "#]],
    )
    .await;
}

#[tokio::test]
async fn what_crashes_is_taken_back() {
    let script = "
        desire p 2
        start p/0 a
        start p/1 b
        redefine p v2
        roll
        claim p/0 c
        crash p/0 c
        claim p/0 d
        crash p/0 d
        claim p/0 e
        crash p/0 e
        definitions p
        roll
        definitions p
        roll
        redefine p v2
        rollback p
        redefine p v3
    ";
    check(Show::Answers, script, expect![[r#"
        desire p 2: ok
            then auction p [0, 1]
        start p/0 a: ok
        start p/1 b: ok
        redefine p v2: ok
        roll
            then auction p [0]
        claim p/0 c: ok
        crash p/0 c: ok
            then auction p [0]
        claim p/0 d: ok
        crash p/0 d: ok
            then auction p [0]
        claim p/0 e: ok
        crash p/0 e: ok
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
            p/0 CRASHED Ordinary names 2
            p/0 RUNNING Evacuating names 1 and leaves
            p/1 RUNNING Ordinary names 1
        roll
        definitions p:
            in use 1 ""; Done back 2 to 1, [] in flight because instance 0 crashed 3 times: it broke
            p/0 RUNNING Ordinary names 1
            p/1 RUNNING Ordinary names 1
        roll
        redefine p v2: ResourceConflict: p had a definition "v2" before, which is still kept; nothing was changed. Go back to it with `corkboard rollout undo p --to v2`, or give the new one an identifier of its own
        rollback p: ok
        redefine p v3: ResourceConflict: the update to the definition "v2" is not finished, because instances still have the first definition; nothing was changed. See how far it is with `corkboard rollout status p`, or take it back with `corkboard rollout cancel p`
    "#]]).await;
}

#[tokio::test]
async fn what_is_never_healthy_is_taken_back() {
    let script = "
        desire p 2
        start p/0 a
        start p/1 b
        redefine p v2
        roll
        claim p/0 c
        start p/0 c of 2
        advance 10
        roll
        claim p/1 d
        advance 300
        roll
        definitions p
        claim p/0 e
        start p/0 e of 1
        roll
        definitions p
        advance 10
        roll
        definitions p
    ";
    check(Show::Answers, script, expect![[r#"
        desire p 2: ok
            then auction p [0, 1]
        start p/0 a: ok
        start p/1 b: ok
        redefine p v2: ok
        roll
            then auction p [0]
        claim p/0 c: ok
        start p/0 c of 2: ok
        advance 10
        roll
            then auction p [1]
            then stop p/0 a@cell-a
        claim p/1 d: ok
        advance 300
        roll
            then auction p [0]
            then stop p/1 d@cell-d
        definitions p:
            in use 1 "", previous Definition(2 "v2"); Rolling back 2 to 1, [0] in flight because instance 1 was not healthy in time; it is CLAIMED
            p/0 UNCLAIMED Ordinary names 1
            p/0 RUNNING Evacuating names 2 and leaves
            p/1 RUNNING Ordinary names 1
        claim p/0 e: ok
        start p/0 e of 1: ok
        roll
        definitions p:
            in use 1 "", previous Definition(2 "v2"); Rolling back 2 to 1, [0] in flight because instance 1 was not healthy in time; it is CLAIMED
            p/0 RUNNING Ordinary names 1
            p/0 RUNNING Evacuating names 2 and leaves
            p/1 RUNNING Ordinary names 1
        advance 10
        roll
            then stop p/0 c@cell-c
        definitions p:
            in use 1 ""; Done back 2 to 1, [] in flight because instance 1 was not healthy in time; it is CLAIMED
            p/0 RUNNING Ordinary names 1
            p/1 RUNNING Ordinary names 1
    "#]]).await;
}

/// It was asked to stop, and takes its time. If it were taken for its own successor, the index would be empty when it ends.
#[tokio::test]
async fn a_container_that_has_not_ended_yet_is_nobodys_successor() {
    let script = "
        desire p 2
        start p/0 a
        start p/1 b
        redefine p v2
        roll
        claim p/0 c
        start p/0 c of 2
        advance 10
        roll
        cancel-update p
        roll
        start p/0 a of 1
        start p/0 a
        definitions p
        claim p/0 d
        start p/0 a of 1
        start p/0 d of 1
        advance 10
        roll
        definitions p
    ";
    check(
        Show::Answers,
        script,
        expect![[r#"
        desire p 2: ok
            then auction p [0, 1]
        start p/0 a: ok
        start p/1 b: ok
        redefine p v2: ok
        roll
            then auction p [0]
        claim p/0 c: ok
        start p/0 c of 2: ok
        advance 10
        roll
            then auction p [1]
            then stop p/0 a@cell-a
        cancel-update p: ok
        roll
            then auction p [0]
        start p/0 a of 1: ActualLRPCannotBeStarted: cannot start actual LRP
        start p/0 a: ActualLRPCannotBeStarted: cannot start actual LRP
        definitions p:
            in use 1 "", previous Definition(2 "v2"); Rolling back 2 to 1, [0] in flight because cancelled
            p/0 UNCLAIMED Ordinary names 1
            p/0 RUNNING Evacuating names 2 and leaves
            p/1 RUNNING Ordinary names 1
        claim p/0 d: ok
        start p/0 a of 1: ActualLRPCannotBeStarted: cannot start actual LRP
        start p/0 d of 1: ok
        advance 10
        roll
            then stop p/0 c@cell-c
        definitions p:
            in use 1 ""; Done back 2 to 1, [] in flight because cancelled
            p/0 RUNNING Ordinary names 1
            p/1 RUNNING Ordinary names 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn what_may_be_asked_of_an_update() {
    let script = "
        desire p 2
        cancel-update p
        pause p
        resume p
        rollback p
        cancel-update nobody
        start p/0 a
        start p/1 b
        redefine p v2
        roll
        rollback p
        pause p
        claim p/0 c
        start p/0 c of 2
        advance 1000
        roll
        definitions p
        resume p
        roll
        definitions p
        cancel-update p
        cancel-update p
        roll
        definitions p
        claim p/0 e
        start p/0 e of 1
        advance 10
        roll
        definitions p
        rollback p no-such
        rollback p v2
        roll
        definitions p
    ";
    check(Show::Answers, script, expect![[r#"
        desire p 2: ok
            then auction p [0, 1]
        cancel-update p: ResourceConflict: no update of p is under way; nothing was changed
        pause p: ResourceConflict: no update of p is under way; nothing was changed
        resume p: ResourceConflict: no update of p is under way; nothing was changed
        rollback p: ResourceNotFound: p has no former definition to go back to; nothing was changed. None is kept
        cancel-update nobody: ResourceNotFound: the requested resource could not be found
        start p/0 a: ok
        start p/1 b: ok
        redefine p v2: ok
        roll
            then auction p [0]
        rollback p: ResourceConflict: the update to the definition "v2" is not finished, because instances still have the first definition; nothing was changed. See how far it is with `corkboard rollout status p`, or take it back with `corkboard rollout cancel p`
        pause p: ok
        claim p/0 c: ok
        start p/0 c of 2: ok
        advance 1000
        roll
            then stop p/0 a@cell-a
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Paused 1 to 2, [] in flight
            p/0 RUNNING Ordinary names 2
            p/1 RUNNING Ordinary names 1
        resume p: ok
        roll
            then auction p [1]
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [1] in flight
            p/0 RUNNING Ordinary names 2
            p/1 UNCLAIMED Ordinary names 2
            p/1 RUNNING Evacuating names 1 and leaves
        cancel-update p: ok
        cancel-update p: ResourceConflict: the last update of p is being taken back already; nothing was changed. Wait until that is done: `corkboard rollout status p`
        roll
            then auction p [0]
        definitions p:
            in use 1 "", previous Definition(2 "v2"); Rolling back 2 to 1, [0] in flight because cancelled
            p/0 UNCLAIMED Ordinary names 1
            p/0 RUNNING Evacuating names 2 and leaves
            p/1 RUNNING Ordinary names 1
        claim p/0 e: ok
        start p/0 e of 1: ok
        advance 10
        roll
            then stop p/0 c@cell-c
        definitions p:
            in use 1 ""; Done back 2 to 1, [] in flight because cancelled
            p/0 RUNNING Ordinary names 1
            p/1 RUNNING Ordinary names 1
        rollback p no-such: ResourceNotFound: p has no former definition "no-such" to go back to; nothing was changed. Kept are: the definition "v2"
        rollback p v2: ok
        roll
            then auction p [0]
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
            p/0 UNCLAIMED Ordinary names 2
            p/0 RUNNING Evacuating names 1 and leaves
            p/1 RUNNING Ordinary names 1
    "#]]).await;
}

/// What was decided on an older board is looked at again: a row of the former definition may have come since.
#[tokio::test]
async fn an_update_does_not_end_while_an_instance_has_the_former_definition() {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(samples::lrp("p", 1)).await.unwrap();
    client.start_actual_lrp(samples::start("p", 0, "a")).await.unwrap();
    client.update_desired_lrp("p", samples::redefinition("v2")).await.unwrap();
    let decisions = vec![Decision::Complete { to: DefinitionNumber(2) }];
    let roll = Roll { process_guid: ProcessGuid::parse("p").unwrap(), decisions };
    world.app.writer.submit(Command::Roll(Box::new(roll)), "".into()).await.unwrap();
    let lrp = client.desired_lrp_by_process_guid("p").await.unwrap();
    assert_eq!((lrp.previous_definition_number, lrp.rollout.unwrap().phase.as_str()), (1, "rolling"));
}
