//! The calls of a draining cell: what they do, and whether the container stays.

use expect_test::expect;

use crate::script::{Show, check};

#[tokio::test]
async fn running_instances_roll() {
    check(
        Show::Events,
        "
        desire p 1
        start p/0 a
        evacuate-running p/0 a
        rows
        evacuate-running p/0 a
        evacuate-running p/0 b
        remove-evacuating p/0 b
        claim p/0 c
        start p/0 c
        rows
        evacuate-running p/0 a
        remove-evacuating p/0 a
        ",
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
            evacuate-running p/0 a: keep, ok
                group    actual_lrp_created [- | p/0 RUNNING a@cell-a evacuating]
                group    actual_lrp_changed p/0 RUNNING a@cell-a -> p/0 UNCLAIMED
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING -> RUNNING evacuating
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            rows:
                p/0 UNCLAIMED known as a.internal routable tag 2
                p/0 RUNNING a@cell-a evacuating at 10.0.0.1 known as a.internal routable tag 0
            evacuate-running p/0 a: keep, ok
            evacuate-running p/0 b: let go, ok
            remove-evacuating p/0 b: ResourceNotFound: the requested resource could not be found
            claim p/0 c: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 CLAIMED c@cell-c
                instance actual_lrp_instance_changed p/0 c@cell-c: UNCLAIMED -> CLAIMED
            start p/0 c: ok
                group    actual_lrp_changed p/0 CLAIMED c@cell-c -> p/0 RUNNING c@cell-c
                group    actual_lrp_removed [- | p/0 RUNNING a@cell-a evacuating]
                instance actual_lrp_instance_changed p/0 c@cell-c: CLAIMED -> RUNNING
                instance actual_lrp_instance_removed p/0 RUNNING a@cell-a evacuating
            rows:
                p/0 RUNNING c@cell-c at 10.0.0.1 known as a.internal routable tag 4
            evacuate-running p/0 a: let go, ok
            remove-evacuating p/0 a: ResourceNotFound: the requested resource could not be found
        "#]],
    )
    .await;
}

#[tokio::test]
async fn the_evacuating_record_goes_with_its_container() {
    check(
        Show::Events,
        "
        desire p 1
        start p/0 a
        evacuate-running-r0 p/0 a
        remove-evacuating p/0 a
        rows
        ",
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
            evacuate-running-r0 p/0 a: keep, ok
                group    actual_lrp_created [- | p/0 RUNNING a@cell-a evacuating]
                group    actual_lrp_changed p/0 RUNNING a@cell-a -> p/0 UNCLAIMED
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING -> RUNNING evacuating
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            remove-evacuating p/0 a: ok
                group    actual_lrp_removed [- | p/0 RUNNING a@cell-a evacuating]
                instance actual_lrp_instance_removed p/0 RUNNING a@cell-a evacuating
            rows:
                p/0 UNCLAIMED known as a.internal routable tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_container_that_the_board_forgot_is_kept_while_it_is_needed() {
    check(
        Show::Answers,
        "
        desire p 1
        evacuate-running p/0 a
        rows
        unwant p
        evacuate-running p/0 a
        rows
        ",
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            evacuate-running p/0 a: keep, ok
            rows:
                p/0 UNCLAIMED tag 0
                p/0 RUNNING a@cell-a evacuating at 10.0.0.1 known as a.internal routable tag 0
            unwant p: ok
            evacuate-running p/0 a: let go, ok
            rows: none
        "#]],
    )
    .await;
}

#[tokio::test]
async fn claimed_crashed_and_stopped() {
    check(
        Show::Events,
        "
        desire p 3
        claim p/0 a
        evacuate-claimed p/0 a
        evacuate-claimed p/0 a
        start p/1 a
        evacuate-crashed p/1 a
        start p/2 a
        evacuate-stopped p/2 a
        rows
        ",
        expect![[r#"
            desire p 3: ok
                group    desired_lrp_created p x3
                group    actual_lrp_created p/0 UNCLAIMED
                group    actual_lrp_created p/1 UNCLAIMED
                group    actual_lrp_created p/2 UNCLAIMED
                instance desired_lrp_created p x3
                instance actual_lrp_instance_created p/0 UNCLAIMED
                instance actual_lrp_instance_created p/1 UNCLAIMED
                instance actual_lrp_instance_created p/2 UNCLAIMED
                then auction p [0, 1, 2]
            claim p/0 a: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 CLAIMED a@cell-a
                instance actual_lrp_instance_changed p/0 a@cell-a: UNCLAIMED -> CLAIMED
            evacuate-claimed p/0 a: let go, ok
                group    actual_lrp_changed p/0 CLAIMED a@cell-a -> p/0 UNCLAIMED
                instance actual_lrp_instance_created p/0 UNCLAIMED
                instance actual_lrp_instance_removed p/0 CLAIMED a@cell-a
                then auction p [0]
            evacuate-claimed p/0 a: let go, ResourceNotFound: the requested resource could not be found
            start p/1 a: ok
                group    actual_lrp_changed p/1 UNCLAIMED -> p/1 RUNNING a@cell-a
                instance actual_lrp_instance_changed p/1 a@cell-a: UNCLAIMED -> RUNNING
            evacuate-crashed p/1 a: let go, ok
                group    actual_lrp_crashed p/1 a@cell-a for the 1. time: it broke
                group    actual_lrp_changed p/1 RUNNING a@cell-a -> p/1 UNCLAIMED
                instance actual_lrp_crashed p/1 a@cell-a for the 1. time: it broke
                instance actual_lrp_instance_created p/1 UNCLAIMED
                instance actual_lrp_instance_removed p/1 RUNNING a@cell-a
                then auction p [1]
            start p/2 a: ok
                group    actual_lrp_changed p/2 UNCLAIMED -> p/2 RUNNING a@cell-a
                instance actual_lrp_instance_changed p/2 a@cell-a: UNCLAIMED -> RUNNING
            evacuate-stopped p/2 a: let go, ok
                group    actual_lrp_removed p/2 RUNNING a@cell-a
                instance actual_lrp_instance_removed p/2 RUNNING a@cell-a
            rows:
                p/0 UNCLAIMED tag 2
                p/1 UNCLAIMED crashed 1 times: it broke known as a.internal routable tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_evacuating_record_ends_whatever_its_cell_says() {
    check(
        Show::Answers,
        "
        desire p 3
        start p/0 a
        start p/1 a
        start p/2 a
        evacuate-running p/0 a
        evacuate-running p/1 a
        evacuate-running p/2 a
        evacuate-claimed p/0 a
        evacuate-crashed p/1 a
        evacuate-stopped p/2 a
        rows
        ",
        expect![[r#"
            desire p 3: ok
                then auction p [0, 1, 2]
            start p/0 a: ok
            start p/1 a: ok
            start p/2 a: ok
            evacuate-running p/0 a: keep, ok
                then auction p [0]
            evacuate-running p/1 a: keep, ok
                then auction p [1]
            evacuate-running p/2 a: keep, ok
                then auction p [2]
            evacuate-claimed p/0 a: let go, ok
            evacuate-crashed p/1 a: let go, ok
            evacuate-stopped p/2 a: let go, ok
            rows:
                p/0 UNCLAIMED known as a.internal routable tag 2
                p/1 UNCLAIMED known as a.internal routable tag 2
                p/2 UNCLAIMED known as a.internal routable tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn recreated_instances_move_one_at_a_time() {
    check(
        Show::Answers,
        "
        desire p 2 recreate
        start p/0 a
        evacuate-running p/0 a
        start p/1 a
        evacuate-running p/0 a
        evacuate-running p/1 a
        rows
        start p/0 b
        evacuate-running p/1 a
        rows
        ",
        expect![[r#"
            desire p 2 recreate: ok
                then auction p [0, 1]
            start p/0 a: ok
            evacuate-running p/0 a: keep, ok
            start p/1 a: ok
            evacuate-running p/0 a: let go, ok
                then auction p [0]
            evacuate-running p/1 a: keep, ok
            rows:
                p/0 UNCLAIMED known as a.internal routable tag 2
                p/1 RUNNING a@cell-a at 10.0.0.1 known as a.internal routable tag 1
            start p/0 b: ok
            evacuate-running p/1 a: let go, ok
                then auction p [1]
            rows:
                p/0 RUNNING b@cell-b at 10.0.0.1 known as a.internal routable tag 3
                p/1 UNCLAIMED known as a.internal routable tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn suspects() {
    check(
        Show::Events,
        "
        desire p 1
        hear cell-a cell-b
        start p/0 a
        lose cell-a
        converge
        rows
        claim p/0 a
        start p/0 a
        fail p/0 no-room
        evacuate-running p/0 a
        rows
        start p/0 b
        rows
        ",
        expect![[r#"
            desire p 1: ok
                group    desired_lrp_created p x1
                group    actual_lrp_created p/0 UNCLAIMED
                instance desired_lrp_created p x1
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            hear cell-a cell-b
            start p/0 a: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 RUNNING a@cell-a
                instance actual_lrp_instance_changed p/0 a@cell-a: UNCLAIMED -> RUNNING
            lose cell-a
            converge: ok
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING -> RUNNING suspect
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            rows:
                p/0 UNCLAIMED tag 0
                p/0 RUNNING a@cell-a suspect at 10.0.0.1 known as a.internal routable tag 2
            claim p/0 a: ok
            start p/0 a: ok
            fail p/0 no-room: ok
                instance actual_lrp_instance_changed p/0: UNCLAIMED -> UNCLAIMED
            evacuate-running p/0 a: keep, ok
                group    actual_lrp_created [- | p/0 RUNNING a@cell-a evacuating]
                group    actual_lrp_changed p/0 RUNNING a@cell-a suspect -> p/0 UNCLAIMED
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING suspect -> RUNNING evacuating
            rows:
                p/0 UNCLAIMED placement error: no-room tag 1
                p/0 RUNNING a@cell-a evacuating at 10.0.0.1 known as a.internal routable tag 0
            start p/0 b: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 RUNNING b@cell-b
                group    actual_lrp_removed [- | p/0 RUNNING a@cell-a evacuating]
                instance actual_lrp_instance_changed p/0 b@cell-b: UNCLAIMED -> RUNNING
                instance actual_lrp_instance_removed p/0 RUNNING a@cell-a evacuating
            rows:
                p/0 RUNNING b@cell-b at 10.0.0.1 known as a.internal routable tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_suspect_that_crashes_is_gone() {
    check(
        Show::Events,
        "
        desire p 1
        hear cell-a cell-b
        start p/0 a
        lose cell-a
        converge
        crash p/0 a
        rows
        ",
        expect![[r#"
            desire p 1: ok
                group    desired_lrp_created p x1
                group    actual_lrp_created p/0 UNCLAIMED
                instance desired_lrp_created p x1
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            hear cell-a cell-b
            start p/0 a: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 RUNNING a@cell-a
                instance actual_lrp_instance_changed p/0 a@cell-a: UNCLAIMED -> RUNNING
            lose cell-a
            converge: ok
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING -> RUNNING suspect
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            crash p/0 a: ok
                group    actual_lrp_changed p/0 RUNNING a@cell-a suspect -> p/0 UNCLAIMED
                instance actual_lrp_instance_removed p/0 RUNNING a@cell-a suspect
            rows:
                p/0 UNCLAIMED tag 0
        "#]],
    )
    .await;
}
