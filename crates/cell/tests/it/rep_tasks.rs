//! The life of a task, as the state server hears of it.

use api::models::error::Type;
use bytes::Bytes;
use cell::executor::Ending;
use cell::executor::simulated::Behaviour;
use cell::rep::RESULT_BYTES_MAX;

use crate::rep_board::Reply;
use crate::rep_world::{World, quick, task_container};

#[tokio::test]
async fn a_task_is_started_run_and_completed_with_its_result() {
    let world = World::new().await;
    world.board.script.lock().unwrap().definition.result_file = "/tmp/result".into();
    assert_eq!(world.task("t-1").await, r#"{"LRPs":null,"Tasks":null}"#);
    assert_eq!(world.board.hears("start_task").await, "start_task t-1 on cell-1 (trace-7)");
    assert_eq!(world.board.hears("complete").await, r#"complete t-1 false "" "done" (trace-7)"#);
    world.is_empty().await;
    assert_eq!(world.executor.runs().get(&task_container("t-1")), Some(&1));
}

#[tokio::test]
async fn a_result_that_is_too_long_fails_the_task() {
    let world = World::new().await;
    world.board.script.lock().unwrap().definition.result_file = "/tmp/result".into();
    world.executor.set_behaviour(Behaviour { result: Bytes::from(vec![b'x'; RESULT_BYTES_MAX + 1]), ..quick() });
    world.task("t-1").await;
    assert_eq!(world.board.hears("complete").await, r#"complete t-1 true "failed to fetch result" "" (trace-7)"#);
    world.is_empty().await;
}

#[tokio::test]
async fn a_failure_completes_a_task_and_a_failure_of_the_cell_rejects_it() {
    let world = World::new().await;
    let broken = |retryable| Ending { failed: true, reason: "broken".into(), retryable, stopped: false };
    for (guid, ending, told) in [
        ("t-1", broken(false), r#"complete t-1 true "broken" """#),
        ("t-2", broken(true), r#"reject t-2 "broken""#),
        ("t-3", Ending { stopped: true, ..Ending::default() }, r#"complete t-3 true "stopped" """#),
    ] {
        world.executor.set_behaviour(Behaviour { task: std::time::Duration::from_secs(60), ..quick() });
        world.task(guid).await;
        world.board.hears(&format!("task {guid}")).await;
        world.executor.end(&task_container(guid), ending);
        world.board.hears(told).await;
        world.is_empty().await;
    }
}

#[tokio::test]
async fn a_task_that_ended_in_another_state_is_failed_and_then_let_go() {
    let world = World::new().await;
    world.board.always("complete", Some(Reply::Error(Type::InvalidStateTransition)));
    world.task("t-1").await;
    world.board.hears(r#"complete t-1 false"#).await;
    world.board.hears(r#"complete t-1 true "invalid state transition""#).await;
    world.is_empty().await;
}

#[tokio::test]
async fn a_task_that_is_not_ours_goes_without_having_run() {
    for refusal in [Type::InvalidStateTransition, Type::ResourceNotFound] {
        let world = World::new().await;
        world.board.replies("start_task", &[Reply::Error(refusal)]);
        world.task("t-1").await;
        world.board.hears("start_task").await;
        world.is_empty().await;
        assert!(world.executor.runs().is_empty());
    }
}

/// The state server has it running here; only we can know that nothing runs.
#[tokio::test]
async fn a_task_whose_start_was_granted_in_a_lost_answer_runs_once() {
    let world = World::new().await;
    world.board.replies("start_task", &[Reply::HangUp]);
    world.task("t-1").await;
    world.board.hears("complete t-1 false").await;
    world.is_empty().await;
    assert_eq!(world.executor.runs().get(&task_container("t-1")), Some(&1));
}

#[tokio::test]
async fn a_task_that_is_sent_twice_is_accepted_twice_and_runs_once() {
    let world = World::new().await;
    world.executor.set_behaviour(Behaviour { task: std::time::Duration::from_secs(60), ..quick() });
    for _ in 0..2 {
        assert_eq!(world.task("t-1").await, r#"{"LRPs":null,"Tasks":null}"#);
    }
    world.board.hears("task t-1").await;
    world.board.hears("start_task t-1").await;
    assert_eq!(world.executor.runs().get(&task_container("t-1")), Some(&1));
    assert_eq!(world.network("POST", "/v1/tasks/t-1/cancel", "").await.0, 202);
    world.is_empty().await;
    assert_eq!(world.network("POST", "/v1/tasks/t-1/cancel", "").await.0, 202);
}
