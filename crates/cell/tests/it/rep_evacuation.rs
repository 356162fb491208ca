//! A cell hands over its instances and ends.

use std::time::Duration;

use api::cell::EvacuationProgress;
use api::models::error::Type;
use cell::executor::simulated::Behaviour;
use cell::executor::{Executor, State};
use cell::rep::Ending;

use crate::rep_board::{Board, Reply};
use crate::rep_world::{World, call, config, executor, lrp, quick, until, work};

async fn progress(world: &World) -> EvacuationProgress {
    serde_json::from_str(&world.admin("GET", "/evacuation").await.1).unwrap()
}

async fn evacuate(world: &World) {
    assert_eq!(world.admin("POST", "/evacuate").await, (202, r#"{"ping_path":"/ping"}"#.to_owned()));
}

#[tokio::test]
async fn instances_stay_until_their_replacements_run() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    assert!(!progress(&world).await.evacuating);
    world.board.always("evacuate_running", Some(Reply::Keep(true)));
    evacuate(&world).await;
    for _ in 0..3 {
        world.board.hears("evacuate_running").await;
    }
    assert_eq!(world.only().state, State::Running);
    let told = progress(&world).await;
    // To be asked again changes nothing.
    evacuate(&world).await;
    assert_eq!(progress(&world).await.since_ns, told.since_ns);
    assert_eq!((told.evacuating, told.lrps.get("running")), (true, Some(&1)));
    assert!(told.since_ns.is_some() && told.seconds_left.is_some_and(|left| left > 500), "{told:?}");
    assert!(world.network("GET", "/state", "").await.1.contains(r#""Evacuating":true"#));
    let (status, refused) = world.network("POST", "/work", &work(&[lrp(5, 1)], &[])).await;
    assert!(status == 200 && refused.contains(r#""index":5"#), "{refused}");
    assert!(!world.presence.log.lock().unwrap().contains(&"withdrawn".to_owned()));

    world.board.always("evacuate_running", Some(Reply::Keep(false)));
    let (presence, admin, executor) = (world.presence.clone(), world.ready.admin, world.executor.clone());
    assert_eq!(world.ends().await, Ending::Evacuated);
    assert_eq!(presence.log.lock().unwrap().last().unwrap(), "withdrawn");
    assert!(executor.list().is_empty());
    assert_eq!(call(admin, "GET", "/ping", "").await, None);
}

#[tokio::test]
async fn a_signal_evacuates_too_and_an_empty_cell_ends_at_once() {
    let mut world = World::new().await;
    world.evacuate.take().unwrap().send(()).unwrap();
    assert_eq!(world.ends().await, Ending::Evacuated);
}

#[tokio::test]
async fn what_does_not_run_yet_is_given_back_and_tasks_run_to_their_end() {
    let world = World::new().await;
    world.executor.set_behaviour(Behaviour { create: Duration::from_secs(60), ..quick() });
    world.lrps(&[64]).await;
    world.board.hears("desired").await;
    world.executor.set_behaviour(Behaviour { task: Duration::from_millis(400), ..quick() });
    world.task("t-1").await;
    world.board.hears("task t-1").await;
    evacuate(&world).await;
    let board = world.board.clone();
    assert_eq!(world.ends().await, Ending::Evacuated);
    board.hears("evacuate_claimed app/0").await;
    board.hears(r#"complete t-1 false"#).await;
    assert_eq!(board.count("evacuate_running"), 0);
}

#[tokio::test]
async fn crashes_and_stops_are_told_in_the_words_of_an_evacuation() {
    let world = World::new().await;
    world.board.always("evacuate_running", Some(Reply::Keep(true)));
    world.lrps(&[64, 32]).await;
    until("both run", || world.board.count("start") >= 2).await;
    evacuate(&world).await;
    until("both are announced", || world.board.count("evacuate_running") >= 2).await;
    let all = world.executor.list();
    let crashed = cell::executor::Ending { failed: true, reason: "broken".into(), ..Default::default() };
    world.executor.end(&all[0].guid, crashed);
    world.executor.stop(&all[1].guid).await.unwrap();
    let board = world.board.clone();
    assert_eq!(world.ends().await, Ending::Evacuated);
    assert_eq!(board.count("evacuate_stopped"), 1, "{:?}", board.log());
    assert_eq!(
        board.log().iter().filter(|line| line.contains("evacuate_crashed") && line.contains(": broken")).count(),
        1
    );
    assert_eq!(board.count("crash"), 0);
}

#[tokio::test]
async fn nothing_ends_before_the_state_server_has_heard_of_it() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    world.board.away().await;
    evacuate(&world).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.only().state, State::Running);
    assert!(progress(&world).await.state_server_silent_since_ns.is_some());
    world.board.replies("evacuate_running", &[Reply::Keep(true)]);
    world.board.back();
    world.board.hears("evacuate_running").await;
    assert_eq!(world.ends().await, Ending::Evacuated);
}

/// An error is an answer, and what it says about the container counts.
#[tokio::test]
async fn an_error_that_says_no_more_than_that_lets_the_container_go() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    world.board.always("evacuate_running", Some(Reply::Error(Type::ResourceNotFound)));
    evacuate(&world).await;
    assert_eq!(world.ends().await, Ending::Evacuated);
}

#[tokio::test]
async fn when_the_time_is_over_the_rest_is_ended() {
    let mut config = config();
    config.times.evacuation = Duration::from_millis(400);
    let world = World::with(config, Board::start().await.into(), executor()).await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    world.board.away().await;
    evacuate(&world).await;
    let (executor, presence) = (world.executor.clone(), world.presence.clone());
    assert_eq!(executor.list().len(), 1);
    assert_eq!(world.ends().await, Ending::Evacuated);
    assert!(executor.list().is_empty());
    assert_eq!(presence.log.lock().unwrap().last().unwrap(), "withdrawn");
}
