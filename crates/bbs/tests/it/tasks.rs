//! The life of a task: what each call answers in each state, and what is announced.

use expect_test::expect;

use crate::script::{Show, check};

#[tokio::test]
async fn a_task_from_start_to_end() {
    check(
        Show::Events,
        "
        task t
        task t
        start-task t cell-1
        start-task t cell-1
        start-task t cell-2
        complete t cell-2
        complete t cell-1
        complete t cell-1
        start-task t cell-1
        resolving t
        resolving t
        delete t
        delete t
        ",
        expect![[r#"
            task t: ok
                task     task_created t Pending
                then auction task t
            task t: ResourceExists: the requested resource already exists
            start-task t cell-1: should_start=true
                task     task_changed t Pending -> t Running on cell-1
            start-task t cell-1: should_start=false
            start-task t cell-2: InvalidStateTransition: Cannot transition from Running to Running
            complete t cell-2: RunningOnDifferentCell: Running on cell cell-1 not cell-2
            complete t cell-1: ok
                task     task_changed t Running on cell-1 -> t Completed result: done
            complete t cell-1: InvalidStateTransition: Cannot transition from Completed to Completed
            start-task t cell-1: InvalidStateTransition: Cannot transition from Completed to Running
            resolving t: ok
                task     task_changed t Completed result: done -> t Resolving result: done
            resolving t: InvalidStateTransition: Cannot transition from Resolving to Resolving
            delete t: ok
                task     task_removed t Resolving result: done
            delete t: ResourceNotFound: the requested resource could not be found
        "#]],
    )
    .await;
}

#[tokio::test]
async fn what_is_refused_in_each_state() {
    check(
        Show::Answers,
        "
        start-task t cell-1
        complete t cell-1
        cancel t
        fail-task t why
        reject t why
        resolving t
        delete t
        task t
        complete t cell-1
        resolving t
        delete t
        start-task t cell-1
        resolving t
        delete t
        complete t cell-1 failed oops
        tasks
        cancel t
        fail-task t why
        reject t why
        delete t
        resolving t
        start-task t cell-1
        complete t cell-1
        cancel t
        fail-task t why
        reject t why
        tasks
        ",
        expect![[r#"
            start-task t cell-1: ResourceNotFound: the requested resource could not be found
            complete t cell-1: ResourceNotFound: the requested resource could not be found
            cancel t: ResourceNotFound: the requested resource could not be found
            fail-task t why: ResourceNotFound: the requested resource could not be found
            reject t why: ResourceNotFound: the requested resource could not be found
            resolving t: ResourceNotFound: the requested resource could not be found
            delete t: ResourceNotFound: the requested resource could not be found
            task t: ok
                then auction task t
            complete t cell-1: InvalidStateTransition: Cannot transition from Pending to Completed
            resolving t: InvalidStateTransition: Cannot transition from Pending to Resolving
            delete t: InvalidStateTransition: Cannot transition from Pending to Resolving
            start-task t cell-1: should_start=true
            resolving t: InvalidStateTransition: Cannot transition from Running to Resolving
            delete t: InvalidStateTransition: Cannot transition from Running to Resolving
            complete t cell-1 failed oops: ok
            tasks:
                t Completed failed: oops
            cancel t: InvalidStateTransition: Cannot transition from Completed to Completed
            fail-task t why: InvalidStateTransition: Cannot transition from Completed to Completed
            reject t why: InvalidRequest: the request received is invalid
            delete t: InvalidStateTransition: Cannot transition from Completed to Resolving
            resolving t: ok
            start-task t cell-1: InvalidStateTransition: Cannot transition from Resolving to Running
            complete t cell-1: InvalidStateTransition: Cannot transition from Resolving to Completed
            cancel t: InvalidStateTransition: Cannot transition from Resolving to Completed
            fail-task t why: InvalidStateTransition: Cannot transition from Resolving to Completed
            reject t why: InvalidRequest: the request received is invalid
            tasks:
                t Resolving failed: oops
        "#]],
    )
    .await;
}

#[tokio::test]
async fn cancelling_and_failing() {
    check(
        Show::Events,
        "
        task pending
        cancel pending
        task running http://caller/done
        start-task running cell-1
        cancel running
        task failing
        fail-task failing no-luck
        tasks
        ",
        expect![[r#"
            task pending: ok
                task     task_created pending Pending
                then auction task pending
            cancel pending: ok
                task     task_changed pending Pending -> pending Completed failed: task was cancelled
            task running http://caller/done: ok
                task     task_created running Pending
                then auction task running
            start-task running cell-1: should_start=true
                task     task_changed running Pending -> running Running on cell-1
            cancel running: ok
                task     task_changed running Running on cell-1 -> running Completed failed: task was cancelled
                then call back running
                then cancel running on cell-1
            task failing: ok
                task     task_created failing Pending
                then auction task failing
            fail-task failing no-luck: ok
                task     task_changed failing Pending -> failing Completed failed: no-luck
            tasks:
                failing Completed failed: no-luck
                pending Completed failed: task was cancelled
                running Completed failed: task was cancelled
        "#]],
    )
    .await;
}

#[tokio::test]
async fn rejections_are_counted_and_the_fourth_fails() {
    check(
        Show::Events,
        "
        task t
        reject t no-room
        start-task t cell-1
        reject t broken-cell
        reject t no-room
        reject t still-no-room
        tasks
        reject t again
        ",
        expect![[r#"
            task t: ok
                task     task_created t Pending
                then auction task t
            reject t no-room: ok
                task     task_changed t Pending -> t Pending rejected 1 times: no-room
            start-task t cell-1: should_start=true
                task     task_changed t Pending rejected 1 times: no-room -> t Running on cell-1 rejected 1 times: no-room
            reject t broken-cell: ok
                task     task_changed t Running on cell-1 rejected 1 times: no-room -> t Pending rejected 2 times: broken-cell
            reject t no-room: ok
                task     task_changed t Pending rejected 2 times: broken-cell -> t Pending rejected 3 times: no-room
            reject t still-no-room: ok
                task     task_changed t Pending rejected 3 times: no-room -> t Completed failed: still-no-room rejected 4 times: still-no-room
            tasks:
                t Completed failed: still-no-room rejected 4 times: still-no-room
            reject t again: InvalidStateTransition: Cannot transition from Completed to Completed
        "#]],
    )
    .await;
}

#[tokio::test]
async fn convergence_moves_tasks_on() {
    check(
        Show::Events,
        "
        hear cell-1
        task waits
        converge
        task lost http://caller/done
        start-task lost cell-2
        task kept
        start-task kept cell-1
        converge
        tasks
        advance 1790
        hear cell-1
        converge
        advance 11
        hear cell-1
        converge
        tasks
        advance 130
        hear cell-1
        converge
        tasks
        ",
        expect![[r#"
            hear cell-1
            task waits: ok
                task     task_created waits Pending
                then auction task waits
            converge: ok
                then auction task waits
            task lost http://caller/done: ok
                task     task_created lost Pending
                then auction task lost
            start-task lost cell-2: should_start=true
                task     task_changed lost Pending -> lost Running on cell-2
            task kept: ok
                task     task_created kept Pending
                then auction task kept
            start-task kept cell-1: should_start=true
                task     task_changed kept Pending -> kept Running on cell-1
            converge: ok
                task     task_changed lost Running on cell-2 -> lost Completed failed: cell disappeared before completion
                then auction task waits
                then call back lost
            tasks:
                kept Running on cell-1
                lost Completed failed: cell disappeared before completion
                waits Pending
            advance 1790
            hear cell-1
            converge: ok
                then auction task waits
                then call back lost
            advance 11
            hear cell-1
            converge: ok
                task     task_changed waits Pending -> waits Completed failed: not started within time limit
                then call back lost
            tasks:
                kept Running on cell-1
                lost Completed failed: cell disappeared before completion
                waits Completed failed: not started within time limit
            advance 130
            hear cell-1
            converge: ok
                task     task_removed waits Completed failed: not started within time limit
                then call back lost
            tasks:
                kept Running on cell-1
                lost Completed failed: cell disappeared before completion
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_callback_is_asked_for_until_the_task_is_deleted_or_given_up() {
    check(
        Show::Events,
        "
        task t http://caller/done
        start-task t cell-1
        complete t cell-1
        resolving t
        advance 29
        converge
        advance 2
        converge
        advance 31
        converge
        advance 60
        converge
        tasks
        advance 86400
        converge
        tasks
        ",
        expect![[r#"
            task t http://caller/done: ok
                task     task_created t Pending
                then auction task t
            start-task t cell-1: should_start=true
                task     task_changed t Pending -> t Running on cell-1
            complete t cell-1: ok
                task     task_changed t Running on cell-1 -> t Completed result: done
                then call back t
            resolving t: ok
                task     task_changed t Completed result: done -> t Resolving result: done
            advance 29
            converge: ok
            advance 2
            converge: ok
                then call back t
            advance 31
            converge: ok
                then call back t
            advance 60
            converge: ok
                then call back t
            tasks:
                t Resolving result: done
            advance 86400
            converge: ok
                task     task_removed t Resolving result: done
            tasks: none
        "#]],
    )
    .await;
}
