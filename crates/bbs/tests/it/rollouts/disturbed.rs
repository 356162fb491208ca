//! What happens to an app while it is updated: it is scaled and deleted, cells drain and are lost, instances crash.

use expect_test::expect;

use crate::script::{Show, check};

#[tokio::test]
async fn instances_and_the_whole_app_may_change_meanwhile() {
    let script = "
        desire p 2
        start p/0 a
        start p/1 b
        redefine p v2
        roll
        claim p/0 c
        start p/0 c of 2
        scale p 3
        scale p 1
        converge
        definitions p
        advance 10
        roll
        definitions p
        remove p/1 b
        roll
        redefine p v3
        roll
        claim p/0 d
        start p/0 d of 3
        unwant p
        converge
        definitions p
        remove p/0 d
        remove-evacuating p/0 c
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
            scale p 3: ok
                then auction p [2]
            scale p 1: ok
                then stop p/1 b@cell-b
            converge: ok
                then update p/0 routes=true tags=false
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 RUNNING Ordinary names 2
                p/0 RUNNING Evacuating names 1 and leaves
                p/1 RUNNING Ordinary names 1
            advance 10
            roll
                then stop p/0 a@cell-a
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 2
                p/1 RUNNING Ordinary names 1
            remove p/1 b: ok
            roll
            redefine p v3: ok
            roll
                then auction p [0]
            claim p/0 d: ok
            start p/0 d of 3: ok
            unwant p: ok
                then stop p/0 c@cell-c
                then stop p/0 d@cell-d
            converge: ok
            definitions p:
                p/0 RUNNING Ordinary names 3
            remove p/0 d: ok
            remove-evacuating p/0 c: ResourceNotFound: the requested resource could not be found
            definitions p: none
        "#]],
    )
    .await;
}

#[tokio::test]
async fn either_cell_may_drain() {
    let script = "
        desire p 2
        start p/0 a
        start p/1 b
        redefine p v2
        roll
        claim p/0 c
        start p/0 c of 2
        evacuate-running p/0 a
        definitions p
        evacuate-running p/0 c
        definitions p
        claim p/0 d
        start p/0 d of 2
        advance 10
        roll
        definitions p
        evacuate-running p/1 b
        definitions p
        start p/1 e of 1
        claim p/1 f
        start p/1 f of 2
        evacuate-running p/1 b
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
            evacuate-running p/0 a: keep, ok
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 RUNNING Ordinary names 2
                p/0 RUNNING Evacuating names 1 and leaves
                p/1 RUNNING Ordinary names 1
            evacuate-running p/0 c: let go, ok
                then auction p [0]
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 UNCLAIMED Ordinary names 2
                p/0 RUNNING Evacuating names 1 and leaves
                p/1 RUNNING Ordinary names 1
            claim p/0 d: ok
            start p/0 d of 2: ok
            advance 10
            roll
                then auction p [1]
                then stop p/0 a@cell-a
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [1] in flight
                p/0 RUNNING Ordinary names 2
                p/1 UNCLAIMED Ordinary names 2
                p/1 RUNNING Evacuating names 1 and leaves
            evacuate-running p/1 b: keep, ok
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [1] in flight
                p/0 RUNNING Ordinary names 2
                p/1 UNCLAIMED Ordinary names 2
                p/1 RUNNING Evacuating names 1 and leaves
            start p/1 e of 1: ActualLRPCannotBeStarted: cannot start actual LRP
            claim p/1 f: ok
            start p/1 f of 2: ok
            evacuate-running p/1 b: keep, ok
            advance 10
            roll
                then stop p/1 b@cell-b
            definitions p:
                in use 2 "v2"; Done 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 2
                p/1 RUNNING Ordinary names 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn either_instance_may_crash() {
    let script = "
        desire p 1
        start p/0 a
        redefine p v2
        roll
        crash p/0 a
        definitions p
        claim p/0 b
        start p/0 b of 2
        crash p/0 b
        definitions p
        claim p/0 c
        start p/0 c of 2
        advance 10
        roll
        definitions p
        redefine p v3
        roll
        claim p/0 d
        start p/0 d of 3
        crash p/0 d
        definitions p
        claim p/0 e
        start p/0 e of 3
        advance 10
        roll
        definitions p
    ";
    check(
        Show::Answers,
        script,
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            start p/0 a: ok
            redefine p v2: ok
            roll
                then auction p [0]
            crash p/0 a: ok
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 UNCLAIMED Ordinary names 2
            claim p/0 b: ok
            start p/0 b of 2: ok
            crash p/0 b: ok
                then auction p [0]
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 UNCLAIMED Ordinary names 2
            claim p/0 c: ok
            start p/0 c of 2: ok
            advance 10
            roll
            definitions p:
                in use 2 "v2"; Done 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 2
            redefine p v3: ok
            roll
                then auction p [0]
            claim p/0 d: ok
            start p/0 d of 3: ok
            crash p/0 d: ok
                then auction p [0]
            definitions p:
                in use 3 "v3", previous Definition(2 "v2"); Rolling 2 to 3, [0] in flight
                p/0 UNCLAIMED Ordinary names 3
                p/0 RUNNING Evacuating names 2 and leaves
            claim p/0 e: ok
            start p/0 e of 3: ok
            advance 10
            roll
                then stop p/0 c@cell-c
            definitions p:
                in use 3 "v3"; Done 2 to 3, [] in flight
                p/0 RUNNING Ordinary names 3
        "#]],
    )
    .await;
}

#[tokio::test]
async fn either_cell_may_be_lost() {
    let script = "
        desire p 1
        hear cell-a cell-b cell-c
        start p/0 a
        redefine p v2
        roll
        lose cell-a
        converge
        definitions p
        claim p/0 b
        start p/0 b of 2
        advance 10
        roll
        definitions p
        redefine p v3
        roll
        claim p/0 c
        start p/0 c of 3
        lose cell-c
        converge
        definitions p
        claim p/0 d
        start p/0 d of 3
        hear cell-b cell-d
        converge
        advance 10
        roll
        definitions p
    ";
    check(
        Show::Answers,
        script,
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            hear cell-a cell-b cell-c
            start p/0 a: ok
            redefine p v2: ok
            roll
                then auction p [0]
            lose cell-a
            converge: ok
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 UNCLAIMED Ordinary names 2
                p/0 RUNNING Evacuating names 1 and leaves
            claim p/0 b: ok
            start p/0 b of 2: ok
            advance 10
            roll
                then stop p/0 a@cell-a
            definitions p:
                in use 2 "v2"; Done 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 2
            redefine p v3: ok
            roll
                then auction p [0]
            claim p/0 c: ok
            start p/0 c of 3: ok
            lose cell-c
            converge: ok
                then auction p [0]
            definitions p:
                in use 3 "v3", previous Definition(2 "v2"); Rolling 2 to 3, [0] in flight
                p/0 UNCLAIMED Ordinary names 3
                p/0 RUNNING Evacuating names 2 and leaves
                p/0 RUNNING Suspect names 3
            claim p/0 d: ok
            start p/0 d of 3: ok
            hear cell-b cell-d
            converge: ok
                then update p/0 routes=true tags=false
            advance 10
            roll
                then stop p/0 b@cell-b
            definitions p:
                in use 3 "v3"; Done 2 to 3, [] in flight
                p/0 RUNNING Ordinary names 3
        "#]],
    )
    .await;
}

/// They ask for the record after they have claimed, and get the definition in use.
#[tokio::test]
async fn cells_that_know_no_definitions_are_believed_to_have_the_one_in_use() {
    let script = "
        desire p 2
        start p/0 a
        start p/1 b
        redefine p v2
        roll
        claim p/0 c
        start p/0 c
        crash p/1 b
        definitions p
        claim p/1 d
        start p/1 d
        definitions p
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
        start p/0 c: ok
        crash p/1 b: ok
            then auction p [1]
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
            p/0 RUNNING Ordinary names 2
            p/0 RUNNING Evacuating names 1 and leaves
            p/1 UNCLAIMED Ordinary names 1
        claim p/1 d: ok
        start p/1 d: ok
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
            p/0 RUNNING Ordinary names 2
            p/0 RUNNING Evacuating names 1 and leaves
            p/1 RUNNING Ordinary names 2
        advance 10
        roll
            then stop p/0 a@cell-a
        definitions p:
            in use 2 "v2"; Done 1 to 2, [] in flight
            p/0 RUNNING Ordinary names 2
            p/1 RUNNING Ordinary names 2
    "#]],
    )
    .await;
}
