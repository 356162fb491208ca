//! A cell that starts again goes on where it was, and clears away what is here on paper only.

use api::models::{self, actual_lrp, task};
use cell::executor::{Executor, State};

use crate::rep_board::{Board, Reply};
use crate::rep_world::{World, config, executor, until};

#[tokio::test]
async fn a_cell_that_starts_again_finds_everything_and_starts_nothing_twice() {
    let world = World::new().await;
    world.lrps(&[64, 32]).await;
    until("both run", || world.board.count("start") >= 2).await;
    // One more that is claimed and cannot be fetched yet.
    world.board.always("desired", Some(Reply::Status(500)));
    let third = crate::rep_world::work(&[crate::rep_world::lrp(7, 16)], &[]);
    assert_eq!(world.network("POST", "/work", &third).await.0, 200);
    until("it is claimed", || world.board.count("claim app/7") > 0).await;
    let (board, executor, presence) = (world.board.clone(), world.executor.clone(), world.presence.clone());
    world.stops().await;
    assert!(!presence.log.lock().unwrap().contains(&"withdrawn".to_owned()));
    assert_eq!(executor.list().len(), 3);

    let told = board.log().len();
    board.always("desired", None);
    let world = World::with(config(), board, executor).await;
    until("the third runs", || world.board.count("start app/7") > 0).await;
    until("all are told again", || {
        let log = world.board.log();
        ["start app/0", "start app/1"].iter().all(|it| log[told..].iter().any(|line| line.starts_with(it)))
    })
    .await;
    assert!(world.executor.list().iter().all(|container| container.state == State::Running));
    assert_eq!(world.executor.runs().values().copied().collect::<Vec<_>>(), [1, 1, 1]);
    for gone in ["remove", "crash", "remove_evacuating"] {
        assert_eq!(world.board.count(gone), 0, "{:?}", world.board.log());
    }
}

fn record(instance: &str, presence: actual_lrp::Presence) -> models::ActualLrp {
    let key = models::ActualLrpKey { process_guid: "app".into(), index: 3, domain: "d".into() };
    let instance = models::ActualLrpInstanceKey { instance_guid: instance.into(), cell_id: "cell-1".into() };
    models::ActualLrp {
        actual_lrp_key: Some(key),
        actual_lrp_instance_key: Some(instance),
        presence: presence.into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn records_without_containers_are_cleared_away() {
    let board = Board::start().await;
    {
        let mut script = board.script.lock().unwrap();
        script.lrps = vec![
            record("one", actual_lrp::Presence::Ordinary),
            record("two", actual_lrp::Presence::Evacuating),
            record("both", actual_lrp::Presence::Ordinary),
            record("both", actual_lrp::Presence::Evacuating),
        ];
        let task = |guid: &str, state: task::State| models::Task {
            task_guid: guid.into(),
            domain: "d".into(),
            state: state.into(),
            ..Default::default()
        };
        script.tasks = vec![task("t-1", task::State::Running), task("t-2", task::State::Completed)];
    }
    let world = World::with(config(), board.into(), executor()).await;
    until("everything is cleared away", || {
        ["remove app/3 one", "remove_evacuating app/3 two", "remove app/3 both", "remove_evacuating app/3 both"]
            .iter()
            .all(|line| world.board.count(line) > 0)
    })
    .await;
    let lost = "task container does not exist";
    world.board.hears(&format!("complete t-1 true {lost:?} {lost:?}")).await;
    assert_eq!(world.board.count("complete t-2"), 0);
}

/// The list of records is older than the container: it was made before, and its record is claimed by it.
#[tokio::test]
async fn a_record_whose_container_is_here_is_left_alone() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    let guid = world.only().guid.as_str().to_owned();
    world.board.script.lock().unwrap().lrps = vec![record(&guid, actual_lrp::Presence::Ordinary)];
    for _ in 0..3 {
        world.board.hears("start").await;
    }
    assert_eq!(world.board.count("remove"), 0);
}
