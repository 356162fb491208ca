//! The state server is away: what runs runs on, what ended is kept, and everything is told when it is back.

use std::time::Duration;

use cell::executor::{Ending, Executor, State};

use crate::rep_board::Reply;
use crate::rep_world::{World, instance, until};

const FIRST: &str = "00000000-0000-4000-8000-0000";
const SECOND: &str = "00000001-0000-4000-8000-0000";

async fn check_silence(leave: impl AsyncFn(&World), come_back: impl Fn(&World)) {
    let world = World::new().await;
    world.lrps(&[64, 32]).await;
    until("both run", || world.board.count("start") >= 2).await;
    leave(&world).await;
    let reason = "Exited with status 9".to_owned();
    world.executor.end(&instance(SECOND), Ending { failed: true, reason, ..Ending::default() });
    until("the silence is noticed", || world.executor.list().iter().any(|it| it.state == State::Completed)).await;
    let silent = async {
        while !world.admin("GET", "/metrics").await.1.contains("corkboard_cell_state_server_away 1") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    crate::rep_world::patiently(silent).await.expect("the silence shows");
    // Several looks later everything is as it was.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.executor.get(&instance(FIRST)).unwrap().state, State::Running);
    assert_eq!(world.executor.get(&instance(SECOND)).unwrap().state, State::Completed);
    assert_eq!(world.network("GET", "/state", "").await.0, 200);
    come_back(&world);
    world.board.hears(&format!("crash app/1 {SECOND}: Exited with status 9")).await;
    world.board.hears(&format!("start app/0 {FIRST}")).await;
    until("the crashed one is gone", || world.executor.list().len() == 1).await;
    assert_eq!(world.executor.runs().values().copied().max(), Some(1));
}

#[tokio::test]
async fn refused_connections() {
    check_silence(async |world| world.board.away().await, |world| world.board.back()).await;
}

#[tokio::test]
async fn a_server_that_is_not_ready() {
    const ROUTES: [&str; 3] = ["list", "start", "crash"];
    let leave = async |world: &World| ROUTES.iter().for_each(|it| world.board.always(it, Some(Reply::Status(503))));
    check_silence(leave, |world| ROUTES.iter().for_each(|it| world.board.always(it, None))).await;
}

#[tokio::test]
async fn work_that_came_while_the_server_was_away_is_begun_when_it_is_back() {
    let world = World::new().await;
    world.board.away().await;
    world.lrps(&[64]).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.only().state, State::Reserved);
    world.board.back();
    world.board.hears("claim").await;
    world.board.hears("start").await;
}

/// Every second call fails in some way, after it was carried out or before. In the end everything has happened that should
/// have, and nothing twice.
async fn check_trouble(seed: u64) {
    let world = World::new().await;
    world.board.script.lock().unwrap().trouble = Some(seed);
    let tasks: Vec<String> = (0..4).map(|number| format!("t-{number}")).collect();
    for task in &tasks {
        assert_eq!(world.task(task).await, r#"{"LRPs":null,"Tasks":null}"#, "seed {seed}");
    }
    world.lrps(&[16, 16, 16]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.board.script.lock().unwrap().trouble = None;
    until("the tasks are gone and the instances run", || {
        let all = world.executor.list();
        all.len() == 3 && all.iter().all(|container| container.state == State::Running)
    })
    .await;
    assert_eq!(world.executor.runs().len(), 7, "seed {seed}");
    assert!(world.executor.runs().values().all(|runs| *runs == 1), "seed {seed}");
    for task in &tasks {
        assert!(world.board.count(&format!("complete {task} false")) > 0, "seed {seed}: {:#?}", world.board.log());
    }
    for index in 0..3 {
        until("it is started", || world.board.count(&format!("start app/{index}")) > 0).await;
    }
    assert_eq!(world.board.count("crash") + world.board.count("remove"), 0, "seed {seed}");
}

#[tokio::test]
async fn trouble_of_every_kind_loses_nothing_and_does_nothing_twice() {
    for seed in 0..6 {
        check_trouble(seed).await;
    }
}
