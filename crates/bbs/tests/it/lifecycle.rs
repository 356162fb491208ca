//! What the calls of cells and auctioneers answer, by the state of the record, with the texts that clients compare.

use expect_test::expect;

use crate::script::{Show, check};

#[tokio::test]
async fn without_a_record() {
    check(
        Show::Answers,
        "
        claim p/0 a
        crash p/0 a
        fail p/0 no-room
        remove p/0
        remove p/0 a
        retire p/0
        evacuate-claimed p/0 a
        evacuate-running p/0 a
        evacuate-crashed p/0 a
        evacuate-stopped p/0 a
        remove-evacuating p/0 a
        rows
        ",
        expect![[r#"
            claim p/0 a: ResourceNotFound: the requested resource could not be found
            crash p/0 a: ResourceNotFound: the requested resource could not be found
            fail p/0 no-room: ok
            remove p/0: ResourceNotFound: the requested resource could not be found
            remove p/0 a: ResourceNotFound: the requested resource could not be found
            retire p/0: ResourceNotFound: the requested resource could not be found
            evacuate-claimed p/0 a: let go, ResourceNotFound: the requested resource could not be found
            evacuate-running p/0 a: let go, ok
            evacuate-crashed p/0 a: let go, ResourceNotFound: the requested resource could not be found
            evacuate-stopped p/0 a: let go, ResourceNotFound: the requested resource could not be found
            remove-evacuating p/0 a: ResourceNotFound: the requested resource could not be found
            rows: none
        "#]],
    )
    .await;
}

#[tokio::test]
async fn unclaimed() {
    check(
        Show::Answers,
        "
        desire p 1
        desire p 1
        crash p/0 a
        remove p/0 a
        evacuate-claimed p/0 a
        evacuate-stopped p/0 a
        fail p/0 no-room
        rows
        claim p/0 a
        rows
        ",
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            desire p 1: ResourceExists: the requested resource already exists
            crash p/0 a: ActualLRPCannotBeCrashed: cannot crash actual LRP
            remove p/0 a: ResourceNotFound: the requested resource could not be found
            evacuate-claimed p/0 a: let go, ResourceNotFound: the requested resource could not be found
            evacuate-stopped p/0 a: let go, ResourceNotFound: the requested resource could not be found
            fail p/0 no-room: ok
            rows:
                p/0 UNCLAIMED placement error: no-room tag 1
            claim p/0 a: ok
            rows:
                p/0 CLAIMED a@cell-a tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn claimed() {
    check(
        Show::Answers,
        "
        desire p 1
        claim p/0 a
        claim p/0 a
        claim p/0 b
        claim p/0 b@cell-a
        fail p/0 no-room
        crash p/0 b
        remove p/0 b
        rows
        start p/0 b
        rows
        ",
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            claim p/0 a: ok
            claim p/0 a: ok
            claim p/0 b: ActualLRPCannotBeClaimed: cannot claim actual LRP
            claim p/0 b@cell-a: ActualLRPCannotBeClaimed: cannot claim actual LRP
            fail p/0 no-room: ActualLRPCannotBeFailed: cannot fail actual LRP
            crash p/0 b: ActualLRPCannotBeCrashed: cannot crash actual LRP
            remove p/0 b: ResourceNotFound: the requested resource could not be found
            rows:
                p/0 CLAIMED a@cell-a tag 1
            start p/0 b: ok
            rows:
                p/0 RUNNING b@cell-b at 10.0.0.1 known as a.internal routable tag 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn running() {
    check(
        Show::Answers,
        "
        desire p 1
        start p/0 a in other-domain
        start p/0 a
        start p/0 a
        rows
        start p/0 b
        start p/0 b@cell-a
        claim p/0 b
        crash p/0 b
        fail p/0 no-room
        start p/0 a unroutable
        rows
        start-r0 p/0 a
        rows
        claim p/0 a
        rows
        remove p/0 a
        rows
        start p/7 z
        rows
        ",
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            start p/0 a in other-domain: ActualLRPCannotBeStarted: cannot start actual LRP
            start p/0 a: ok
            start p/0 a: ok
            rows:
                p/0 RUNNING a@cell-a at 10.0.0.1 known as a.internal routable tag 1
            start p/0 b: ActualLRPCannotBeStarted: cannot start actual LRP
            start p/0 b@cell-a: ActualLRPCannotBeStarted: cannot start actual LRP
            claim p/0 b: ActualLRPCannotBeClaimed: cannot claim actual LRP
            crash p/0 b: ActualLRPCannotBeCrashed: cannot crash actual LRP
            fail p/0 no-room: ActualLRPCannotBeFailed: cannot fail actual LRP
            start p/0 a unroutable: ok
            rows:
                p/0 RUNNING a@cell-a at 10.0.0.1 known as a.internal tag 2
            start-r0 p/0 a: ok
            rows:
                p/0 RUNNING a@cell-a at 10.0.0.1 routable tag 3
            claim p/0 a: ok
            rows:
                p/0 CLAIMED a@cell-a routable tag 4
            remove p/0 a: ok
            rows: none
            start p/7 z: ok
            rows:
                p/7 RUNNING z@cell-z at 10.0.0.1 known as a.internal routable tag 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn crashing_until_it_waits() {
    check(
        Show::Answers,
        "
        desire p 1
        start p/0 a
        crash p/0 a
        claim p/0 b
        crash p/0 b
        start p/0 c
        crash p/0 c
        rows
        claim p/0 d
        start p/0 d
        crash p/0 d
        fail p/0 no-room
        converge
        rows
        advance 29
        converge
        rows
        advance 1
        converge
        rows
        start p/0 e
        advance 301
        crash p/0 e
        rows
        unwant p
        start p/0 f
        crash p/0 f
        rows
        ",
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            start p/0 a: ok
            crash p/0 a: ok
                then auction p [0]
            claim p/0 b: ok
            crash p/0 b: ok
                then auction p [0]
            start p/0 c: ok
            crash p/0 c: ok
            rows:
                p/0 CRASHED crashed 3 times: it broke known as a.internal routable tag 6
            claim p/0 d: ActualLRPCannotBeClaimed: cannot claim actual LRP
            start p/0 d: ActualLRPCannotBeStarted: cannot start actual LRP
            crash p/0 d: ActualLRPCannotBeCrashed: cannot crash actual LRP
            fail p/0 no-room: ActualLRPCannotBeFailed: cannot fail actual LRP
            converge: ok
            rows:
                p/0 CRASHED crashed 3 times: it broke known as a.internal routable tag 6
            advance 29
            converge: ok
            rows:
                p/0 CRASHED crashed 3 times: it broke known as a.internal routable tag 6
            advance 1
            converge: ok
                then auction p [0]
            rows:
                p/0 UNCLAIMED crashed 3 times: it broke known as a.internal routable tag 7
            start p/0 e: ok
            advance 301
            crash p/0 e: ok
                then auction p [0]
            rows:
                p/0 UNCLAIMED crashed 1 times: it broke known as a.internal routable tag 9
            unwant p: ok
            start p/0 f: ok
            crash p/0 f: ResourceNotFound: the requested resource could not be found
            rows:
                p/0 UNCLAIMED crashed 1 times: it broke known as a.internal routable tag 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn retiring_without_the_cell() {
    check(
        Show::Answers,
        "
        desire p 2
        retire p/0
        rows
        claim p/1 a
        retire p/1
        rows
        ",
        expect![[r#"
            desire p 2: ok
                then auction p [0, 1]
            retire p/0: ok
            rows:
                p/1 UNCLAIMED tag 0
            claim p/1 a: ok
            retire p/1: ok
            rows: none
        "#]],
    )
    .await;
}

#[tokio::test]
async fn scaling_and_unwanting() {
    check(
        Show::Answers,
        "
        scale p 1
        unwant p
        desire p 1
        tag p
        scale p 4
        claim p/2 a
        start p/3 b
        update-nothing p
        tag p
        scale p 1
        rows
        unwant p
        rows
        unwant p
        ",
        expect![[r#"
            scale p 1: ResourceNotFound: the requested resource could not be found
            unwant p: ResourceNotFound: the requested resource could not be found
            desire p 1: ok
                then auction p [0]
            tag p: 0
            scale p 4: ok
                then auction p [1, 2, 3]
            claim p/2 a: ok
            start p/3 b: ok
            update-nothing p: ok
            tag p: 2
            scale p 1: ok
                then stop p/2 a@cell-a
                then stop p/3 b@cell-b
            rows:
                p/0 UNCLAIMED tag 0
                p/2 CLAIMED a@cell-a tag 1
                p/3 RUNNING b@cell-b at 10.0.0.1 known as a.internal routable tag 1
            unwant p: ok
                then stop p/2 a@cell-a
                then stop p/3 b@cell-b
            rows:
                p/2 CLAIMED a@cell-a tag 1
                p/3 RUNNING b@cell-b at 10.0.0.1 known as a.internal routable tag 1
            unwant p: ResourceNotFound: the requested resource could not be found
        "#]],
    )
    .await;
}

#[tokio::test]
async fn domains_live_as_long_as_they_said() {
    check(
        Show::Answers,
        "
        domain short 10
        domain forever 0
        domains
        advance 9
        domains
        advance 1
        domains
        domain short 1
        domains
        ",
        expect![[r#"
            domain short 10: ok
            domain forever 0: ok
            domains: ["forever", "short"]
            advance 9
            domains: ["forever", "short"]
            advance 1
            domains: ["forever"]
            domain short 1: ok
            domains: ["forever", "short"]
        "#]],
    )
    .await;
}
