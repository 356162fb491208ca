//! A cell during an update: it says what its containers were made from, and what leaves runs on until the state server is done
//! with it. The state server here follows the model.

use cell::executor::{Ending, Executor, State};

use crate::rep_slot::{Index, words};
use crate::rep_world::{World, config, instance, until};

const OLD: &str = "00000000-0000-4000-8000-0000";

#[tokio::test]
async fn a_container_remembers_the_definition_that_it_was_made_from() {
    for (sent, said) in [(0, 1), (1, 1), (7, 7)] {
        let world = World::new().await;
        world.board.script.lock().unwrap().desired.definition_number = sent;
        world.lrps(&[64]).await;
        assert!(world.board.hears("desired").await.starts_with(&format!("desired app of {OLD}")));
        let number =
            |line: &str| line.contains(&format!("definition {said} ")) || line.ends_with(&format!("definition {said}"));
        assert!(number(&world.board.hears("start").await), "{sent}: {:?}", world.board.log());
        // What the state server uses by now is not what the container was made from.
        world.board.script.lock().unwrap().desired.definition_number = 9;
        let (board, executor) = (world.board.clone(), world.executor.clone());
        world.stops().await;
        let world = World::with(config(), board, executor).await;
        assert!(number(&world.board.hears("start").await), "{sent}: {:?}", world.board.log());
    }
}

/// A cell with an instance that runs and is being replaced.
async fn rolling() -> World {
    let world = World::new().await;
    world.board.script.lock().unwrap().index = Some(Index::wanted());
    world.lrps(&[64]).await;
    until("it runs", || slot(&world) == format!("Ordinary RUNNING {OLD}")).await;
    change(&world, Index::roll);
    assert_eq!(slot(&world), format!("Ordinary UNCLAIMED nobody; Evacuating RUNNING {OLD}, leaves"));
    world
}

fn change(world: &World, change: impl FnOnce(&mut Index)) {
    change(world.board.script.lock().unwrap().index.as_mut().unwrap());
}

fn slot(world: &World) -> String {
    words(&world.board.script.lock().unwrap().index.as_ref().unwrap().slot)
}

/// Waits until the cell has compared everything a few times.
async fn surveys(world: &World) {
    let lists = || world.board.script.lock().unwrap().lists;
    let before = lists();
    until("everything was compared", || lists() >= before + 3).await;
}

fn running(world: &World) -> Vec<String> {
    let all = world.executor.list();
    let runs = all.iter().filter(|container| container.state == State::Running);
    let mut names: Vec<String> = runs.map(|container| container.guid.as_str().to_owned()).collect();
    names.sort();
    names
}

/// Runs the successor on the same cell, and gives its name.
async fn succeed(world: &World) -> String {
    world.lrps(&[64]).await;
    let starts = |slot: String| slot.strip_prefix("Ordinary RUNNING ")?.split(';').next().map(ToOwned::to_owned);
    until("the new one runs", || starts(slot(world)).is_some()).await;
    starts(slot(world)).unwrap()
}

#[tokio::test]
async fn what_leaves_runs_on_and_nothing_is_said_of_it() {
    let world = rolling().await;
    surveys(&world).await;
    let told = world.board.log().len();
    surveys(&world).await;
    assert_eq!(world.board.log()[told..], [] as [String; 0]);
    assert_eq!(running(&world), [OLD]);
}

/// The call to stop it was lost. That it has no record any more, and that its index runs elsewhere, is the answer to the next call.
#[tokio::test]
async fn both_run_on_one_cell_and_the_old_one_stops_when_its_record_is_gone() {
    let world = rolling().await;
    let new = succeed(&world).await;
    surveys(&world).await;
    assert_eq!(running(&world), [OLD, new.as_str()]);
    assert_eq!(slot(&world), format!("Ordinary RUNNING {new}; Evacuating RUNNING {OLD}, leaves"));
    change(&world, Index::finish);
    until("the old one is gone", || world.executor.get(&instance(OLD)).is_none()).await;
    surveys(&world).await;
    assert_eq!(running(&world), [new.as_str()]);
    assert_eq!(slot(&world), format!("Ordinary RUNNING {new}"));
    assert_eq!(world.board.count("crash"), 0);
}

#[tokio::test]
async fn an_update_that_is_taken_back_stops_the_new_one() {
    let world = rolling().await;
    let new = succeed(&world).await;
    change(&world, Index::take_back);
    until("the new one is gone", || world.executor.get(&instance(&new)).is_none()).await;
    surveys(&world).await;
    assert_eq!((running(&world), slot(&world)), (vec![OLD.to_owned()], format!("Ordinary RUNNING {OLD}")));
}

/// However it ends, its record goes at once, and its successor's stays.
#[tokio::test]
async fn what_leaves_may_end_by_itself() {
    for (how, call) in [("crash", "crash"), ("end", "crash"), ("stop", "remove")] {
        let world = rolling().await;
        match how {
            "crash" => {
                world
                    .executor
                    .end(&instance(OLD), Ending { failed: true, reason: "broken".into(), ..Ending::default() });
            }
            "end" => world.executor.end(&instance(OLD), Ending::default()),
            _ => world.executor.stop(&instance(OLD)).await.unwrap(),
        }
        until("it is gone", || world.executor.list().is_empty()).await;
        assert_eq!(world.board.count(call), 1, "{how}: {:?}", world.board.log());
        assert_eq!(slot(&world), "Ordinary UNCLAIMED nobody", "{how}");
        assert_eq!(world.board.count("remove_evacuating"), 0, "{how}: nobody had to find it");
    }
}

#[tokio::test]
async fn what_leaves_a_cell_that_drains_stays_until_its_successor_has_proven_itself() {
    let mut world = rolling().await;
    world.evacuate.take().unwrap().send(()).unwrap();
    world.board.hears("evacuate_running").await;
    world.board.hears("evacuate_running").await;
    assert_eq!(running(&world), [OLD]);
    change(&world, Index::run_elsewhere);
    world.board.hears("evacuate_running").await;
    world.board.hears("evacuate_running").await;
    assert_eq!(running(&world), [OLD]);
    change(&world, Index::finish);
    let board = world.board.clone();
    assert_eq!(world.ends().await, cell::rep::Ending::Evacuated);
    let script = board.script.lock().unwrap();
    assert_eq!(words(&script.index.as_ref().unwrap().slot), "Ordinary RUNNING other");
}
