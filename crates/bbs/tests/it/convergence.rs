//! Convergence as clients see it: what is repaired, what is announced, and what silence does not prove.

use expect_test::expect;

use crate::script::{Show, check};

#[tokio::test]
async fn what_is_missing_is_created() {
    check(
        Show::Events,
        "
        desire p 3
        remove p/1
        converge
        converge
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
            remove p/1: ok
                group    actual_lrp_removed p/1 UNCLAIMED
                instance actual_lrp_instance_removed p/1 UNCLAIMED
            converge: ok
                group    actual_lrp_created p/1 UNCLAIMED
                instance actual_lrp_instance_created p/1 UNCLAIMED
                then auction p [1]
            converge: ok
            rows:
                p/0 UNCLAIMED tag 0
                p/1 UNCLAIMED tag 0
                p/2 UNCLAIMED tag 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn what_nobody_took_is_auctioned_again() {
    check(
        Show::Events,
        "
        desire p 1
        advance 30
        converge
        advance 1
        converge
        converge
        fail p/0 no-room
        converge
        rows
        ",
        expect![[r#"
            desire p 1: ok
                group    desired_lrp_created p x1
                group    actual_lrp_created p/0 UNCLAIMED
                instance desired_lrp_created p x1
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            advance 30
            converge: ok
            advance 1
            converge: ok
                then auction p [0]
            converge: ok
                then auction p [0]
            fail p/0 no-room: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 UNCLAIMED
                instance actual_lrp_instance_changed p/0: UNCLAIMED -> UNCLAIMED
            converge: ok
            rows:
                p/0 UNCLAIMED placement error: no-room tag 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_lost_cell_is_replaced_and_forgiven_when_it_returns() {
    check(
        Show::Events,
        "
        desire p 1
        hear cell-a cell-b
        start p/0 a
        lose cell-a
        converge
        converge
        claim p/0 b
        hear cell-a
        converge
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
            converge: ok
            claim p/0 b: ok
                instance actual_lrp_instance_changed p/0 b@cell-b: UNCLAIMED -> CLAIMED
            hear cell-a
            converge: ok
                group    actual_lrp_removed p/0 CLAIMED b@cell-b
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING suspect -> RUNNING
                instance actual_lrp_instance_removed p/0 CLAIMED b@cell-b
            rows:
                p/0 RUNNING a@cell-a at 10.0.0.1 known as a.internal routable tag 3
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_replacement_that_runs_wins() {
    check(
        Show::Events,
        "
        desire p 1
        hear cell-a cell-b
        start p/0 a
        lose cell-a
        converge
        start p/0 b
        hear cell-a
        converge
        start p/0 a
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
            start p/0 b: ok
                group    actual_lrp_created p/0 RUNNING b@cell-b
                group    actual_lrp_removed p/0 RUNNING a@cell-a suspect
                instance actual_lrp_instance_changed p/0 b@cell-b: UNCLAIMED -> RUNNING
                instance actual_lrp_instance_removed p/0 RUNNING a@cell-a suspect
            hear cell-a
            converge: ok
                then update p/0 routes=true tags=false
            start p/0 a: ActualLRPCannotBeStarted: cannot start actual LRP
            rows:
                p/0 RUNNING b@cell-b at 10.0.0.1 known as a.internal routable tag 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_replacement_whose_cell_is_lost_too() {
    check(
        Show::Events,
        "
        desire p 1
        hear cell-a cell-b cell-c
        start p/0 a
        lose cell-a
        converge
        claim p/0 b
        lose cell-b
        converge
        rows
        ",
        expect![[r#"
            desire p 1: ok
                group    desired_lrp_created p x1
                group    actual_lrp_created p/0 UNCLAIMED
                instance desired_lrp_created p x1
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            hear cell-a cell-b cell-c
            start p/0 a: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 RUNNING a@cell-a
                instance actual_lrp_instance_changed p/0 a@cell-a: UNCLAIMED -> RUNNING
            lose cell-a
            converge: ok
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING -> RUNNING suspect
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            claim p/0 b: ok
                instance actual_lrp_instance_changed p/0 b@cell-b: UNCLAIMED -> CLAIMED
            lose cell-b
            converge: ok
                instance actual_lrp_instance_created p/0 UNCLAIMED
                instance actual_lrp_instance_removed p/0 CLAIMED b@cell-b
            rows:
                p/0 UNCLAIMED tag 2
                p/0 RUNNING a@cell-a suspect at 10.0.0.1 known as a.internal routable tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn silence_of_all_proves_nothing() {
    check(
        Show::Answers,
        "
        desire p 1
        hear cell-a
        start p/0 a
        task t
        start-task t cell-a
        lose cell-a
        converge
        advance 120
        converge
        rows
        tasks
        ",
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            hear cell-a
            start p/0 a: ok
            task t: ok
                then auction task t
            start-task t cell-a: should_start=true
            lose cell-a
            converge: ok
                then update p/0 routes=true tags=false
            advance 120
            converge: ok
                then update p/0 routes=true tags=false
            rows:
                p/0 RUNNING a@cell-a at 10.0.0.1 known as a.internal routable tag 1
            tasks:
                t Running on cell-a
        "#]],
    )
    .await;
}

#[tokio::test]
async fn extra_instances_go_only_while_the_domain_is_fresh() {
    check(
        Show::Events,
        "
        hear cell-a
        start p/0 a
        start q/0 z@cell-a
        desire q 1
        converge
        domain cf-apps 60
        converge
        advance 61
        hear cell-a
        converge
        domains
        rows
        ",
        expect![[r#"
            hear cell-a
            start p/0 a: ok
                group    actual_lrp_created p/0 RUNNING a@cell-a
                instance actual_lrp_instance_created p/0 RUNNING a@cell-a
            start q/0 z@cell-a: ok
                group    actual_lrp_created q/0 RUNNING z@cell-a
                instance actual_lrp_instance_created q/0 RUNNING z@cell-a
            desire q 1: ok
                group    desired_lrp_created q x1
                instance desired_lrp_created q x1
            converge: ok
                then update q/0 routes=true tags=false
            domain cf-apps 60: ok
            converge: ok
                then stop p/0 a@cell-a
                then update q/0 routes=true tags=false
            advance 61
            hear cell-a
            converge: ok
                then update q/0 routes=true tags=false
            domains: []
            rows:
                p/0 RUNNING a@cell-a at 10.0.0.1 known as a.internal routable tag 0
                q/0 RUNNING z@cell-a at 10.0.0.1 known as a.internal routable tag 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn evacuating_records_end_with_their_cell() {
    check(
        Show::Events,
        "
        desire p 1
        hear cell-a cell-b
        start p/0 a
        evacuate-running p/0 a
        lose cell-a
        converge
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
            evacuate-running p/0 a: keep, ok
                group    actual_lrp_created [- | p/0 RUNNING a@cell-a evacuating]
                group    actual_lrp_changed p/0 RUNNING a@cell-a -> p/0 UNCLAIMED
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING -> RUNNING evacuating
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            lose cell-a
            converge: ok
                group    actual_lrp_removed [- | p/0 RUNNING a@cell-a evacuating]
                instance actual_lrp_instance_removed p/0 RUNNING a@cell-a evacuating
            rows:
                p/0 UNCLAIMED known as a.internal routable tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn traces_are_told_of_what_was_asked_for_and_of_nothing_else() {
    check(
        Show::Events,
        "
        trace t1 desire p 2
        trace t2 claim p/0 a
        trace t3 start p/0 a
        trace t4 crash p/0 a
        trace t5 scale p 3
        trace t6 scale p 2
        trace t7 retire p/1
        trace t8 fail p/0 no-room
        trace t9 unwant p
        trace t10 task t
        ",
        expect![[r#"
            trace t1 desire p 2: ok
                group    desired_lrp_created p x2 (trace t1)
                group    actual_lrp_created p/0 UNCLAIMED
                group    actual_lrp_created p/1 UNCLAIMED
                instance desired_lrp_created p x2 (trace t1)
                instance actual_lrp_instance_created p/0 UNCLAIMED (trace t1)
                instance actual_lrp_instance_created p/1 UNCLAIMED (trace t1)
                then auction p [0, 1]
            trace t2 claim p/0 a: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 CLAIMED a@cell-a
                instance actual_lrp_instance_changed p/0 a@cell-a: UNCLAIMED -> CLAIMED
            trace t3 start p/0 a: ok
                group    actual_lrp_changed p/0 CLAIMED a@cell-a -> p/0 RUNNING a@cell-a
                instance actual_lrp_instance_changed p/0 a@cell-a: CLAIMED -> RUNNING
            trace t4 crash p/0 a: ok
                group    actual_lrp_crashed p/0 a@cell-a for the 1. time: it broke
                group    actual_lrp_changed p/0 RUNNING a@cell-a -> p/0 UNCLAIMED
                instance actual_lrp_crashed p/0 a@cell-a for the 1. time: it broke
                instance actual_lrp_instance_created p/0 UNCLAIMED
                instance actual_lrp_instance_removed p/0 RUNNING a@cell-a
                then auction p [0]
            trace t5 scale p 3: ok
                group    desired_lrp_changed p x2 -> p x3 (trace t5)
                group    actual_lrp_created p/2 UNCLAIMED
                instance desired_lrp_changed p x2 -> p x3 (trace t5)
                instance actual_lrp_instance_created p/2 UNCLAIMED (trace t5)
                then auction p [2]
            trace t6 scale p 2: ok
                group    desired_lrp_changed p x3 -> p x2 (trace t6)
                group    actual_lrp_removed p/2 UNCLAIMED
                instance desired_lrp_changed p x3 -> p x2 (trace t6)
                instance actual_lrp_instance_removed p/2 UNCLAIMED (trace t6)
            trace t7 retire p/1: ok
                group    actual_lrp_removed p/1 UNCLAIMED
                instance actual_lrp_instance_removed p/1 UNCLAIMED (trace t7)
            trace t8 fail p/0 no-room: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 UNCLAIMED
                instance actual_lrp_instance_changed p/0: UNCLAIMED -> UNCLAIMED
            trace t9 unwant p: ok
                group    desired_lrp_removed p x2 (trace t9)
                group    actual_lrp_removed p/0 UNCLAIMED
                instance desired_lrp_removed p x2 (trace t9)
                instance actual_lrp_instance_removed p/0 UNCLAIMED (trace t9)
            trace t10 task t: ok
                task     task_created t Pending
                then auction task t
        "#]],
    )
    .await;
}
