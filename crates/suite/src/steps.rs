//! What is done to the cluster: releases replaced, data migrated, keys rotated, processes and machines killed, users served.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::apps::{self, App, INSTANCES, Make};
use crate::configs::PRESENCE_TTL;
use crate::fleet::Release;
use crate::stage::{Marks, Stage, until_routed, until_running};
use crate::world::{BOARDS, CELLS, PATIENCE, until};

/// For programs that have nothing to hand over.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// For a cell, which hands over its instances first.
const EVACUATION_LIMIT: Duration = Duration::from_secs(120);
/// Beside the time after which a cell counts as gone, what its loss may cost.
const LOSS_MARGIN: Duration = Duration::from_secs(5);
/// How long something is left dead that others should not miss.
const ABSENCE: Duration = Duration::from_secs(4);
/// What a replacement disturbs has so long to show in its own step.
pub(crate) const SETTLING: Duration = Duration::from_secs(2);
/// How many guests answer, and the app under load is scaled by.
const GUESTS: usize = 2;

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// State servers, the one that waits first.
pub(crate) async fn boards(stage: &mut Stage, release: Release) -> anyhow::Result<()> {
    let world = &stage.world;
    for name in [world.standby().await?, world.master().await?] {
        world.fleet.stop(name, STOP_LIMIT).await?;
        world.fleet.start(name, release)?;
        world.until_board_takes_part(name).await?;
    }
    sleep(SETTLING).await;
    Ok(())
}

/// Programs that have nothing to hand over, one after the other.
pub(crate) async fn others(stage: &mut Stage, names: &[&str], release: Release) -> anyhow::Result<()> {
    let world = &stage.world;
    for name in names {
        world.fleet.stop(name, STOP_LIMIT).await?;
        world.fleet.start(name, release)?;
        world.until_there(name).await?;
    }
    sleep(SETTLING).await;
    Ok(())
}

/// One cell: it is evacuated, ends, and comes back as this release.
pub(crate) async fn cell(stage: &mut Stage, name: &str, release: Release, marks: &mut Marks) -> anyhow::Result<()> {
    let is_empty = !by_cell(stage).await?.contains_key(name);
    if is_empty {
        // It was evacuated before: new instances go there first.
        stage.scale(INSTANCES + CELLS.len()).await?;
    }
    let handed_over = by_cell(stage).await?.get(name).map_or(0, Vec::len);
    ensure!(handed_over > 0, "{name} has nothing that it could hand over");
    let world = &stage.world;
    let took = world.fleet.stop(name, EVACUATION_LIMIT).await?;
    marks.note(format!("{handed_over} handed over in {}", seconds(took)));
    world.fleet.start(name, release)?;
    world.until_cells_are(&CELLS).await?;
    if is_empty {
        stage.scale(INSTANCES).await?;
    }
    stage.settled().await
}

/// What users do at any time: more instances, fewer, another app, a task.
pub(crate) async fn look(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    stage.visits += 1;
    let visit = stage.visits;
    let began = Instant::now();
    stage.scale(INSTANCES + GUESTS).await?;
    marks.note(format!("up {}", seconds(began.elapsed())));
    stage.scale(INSTANCES).await?;
    guest(stage, visit, marks).await?;
    task(stage, visit, marks).await
}

async fn guest(stage: &Stage, visit: usize, marks: &mut Marks) -> anyhow::Result<()> {
    let world = &stage.world;
    let (app, binary) = (App::guest(visit, GUESTS), world.fleet.binary(Release::Present).display().to_string());
    let began = Instant::now();
    world.client.desire_lrp(apps::definition(&binary, &app, Make::FIRST)?).await?;
    until_running(world, &app.guid, GUESTS).await?;
    until_routed(world, &app.host(), GUESTS).await?;
    marks.note(format!("app {}", seconds(began.elapsed())));
    world.client.remove_desired_lrp(&app.guid).await?;
    until_running(world, &app.guid, 0).await?;
    until_routed(world, &app.host(), 0).await
}

async fn task(stage: &Stage, visit: usize, marks: &mut Marks) -> anyhow::Result<()> {
    let (world, callbacks) = (&stage.world, &stage.callbacks);
    let guid = format!("task-{visit}");
    let began = Instant::now();
    world.client.desire_task(&guid, apps::DOMAIN, apps::task(&callbacks.url(&guid))?).await?;
    until(&format!("the end of {guid} is reported"), PATIENCE, async || callbacks.has(&guid)).await?;
    marks.note(format!("task {}", seconds(began.elapsed())));
    let ended = world.client.task_by_guid(&guid).await?;
    ensure!(!ended.failed && ended.result == "done", "{guid} ended otherwise: {ended:?}");
    world.client.delete_task(&guid).await?;
    Ok(())
}

/// The migration that waits for a word of the operator, up to the point where both forms are complete.
pub(crate) async fn migrate(stage: &mut Stage) -> anyhow::Result<()> {
    let world = &stage.world;
    world.until_state("migration", "held").await?;
    world.tell_master(&["migrate", "start"]).await?;
    world.until_state("migration", "ready").await
}

/// Gives the older form up.
pub(crate) async fn finalize(stage: &mut Stage) -> anyhow::Result<()> {
    let world = &stage.world;
    world.until_state("migration", "ready").await?;
    world.tell_master(&["migrate", "finalize", "--yes", "--wait"]).await?;
    world.until_state("migration", "none").await
}

/// Another key: made known to all, then used, then the only one.
pub(crate) async fn rotate(stage: &mut Stage) -> anyhow::Result<()> {
    for (keys, active_key) in [("AB", 'A'), ("AB", 'B'), ("B", 'B')] {
        stage.world.set_board(|board| (board.keys, board.active_key) = (keys, active_key))?;
        boards(stage, Release::Present).await?;
        stage.world.until_state("keys", "settled").await?;
    }
    let status = stage.world.ask_master("keys").await?;
    ensure!(status["marker"] == "B" && status["plain_records"] == 0, "not all is under the new key: {status:#}");
    Ok(())
}

/// The master dies without a word, and the other one takes over.
pub(crate) async fn kill_master(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let world = &stage.world;
    let master = world.master().await?;
    let release = world.fleet.release(master);
    let other = BOARDS.into_iter().find(|name| *name != master).context("there are two")?;
    world.fleet.kill(master)?;
    let serving = async || world.status(other).await.is_some_and(|status| status["phase"] == "serving");
    let took = until(&format!("{other} serves"), PATIENCE, serving).await?;
    marks.note(format!("{other} served after {}", seconds(took)));
    world.fleet.start(master, release)?;
    world.until_board_takes_part(master).await
}

/// Kills a process, leaves it dead for a moment, starts it again.
pub(crate) async fn kill(stage: &mut Stage, name: &str) -> anyhow::Result<()> {
    let world = &stage.world;
    let release = world.fleet.release(name);
    world.fleet.kill(name)?;
    sleep(ABSENCE).await;
    world.fleet.start(name, release)?;
    world.until_there(name).await
}

/// Which instances of the apps under load run where, by cell.
pub(crate) async fn by_cell(stage: &Stage) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut cells: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut rows = stage.instances_of(&App::front()).await?;
    rows.extend(stage.instances_of(&App::single()).await?);
    for key in rows.into_iter().filter_map(|row| row.actual_lrp_instance_key) {
        cells.entry(key.cell_id).or_default().push(key.instance_guid);
    }
    cells.values_mut().for_each(|guids| guids.sort());
    Ok(cells)
}

/// The cell whose loss is noticed: the one with the single instance.
async fn dearest(stage: &Stage) -> anyhow::Result<String> {
    let rows = stage.instances_of(&App::single()).await?;
    let key = rows.into_iter().find_map(|row| row.actual_lrp_instance_key);
    Ok(key.context("the single instance runs nowhere")?.cell_id)
}

/// The program of a cell dies, and finds its containers when it is back.
pub(crate) async fn kill_cell(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let cell = dearest(stage).await?;
    let before = by_cell(stage).await?;
    let release = stage.world.fleet.release(&cell);
    stage.world.fleet.kill(&cell)?;
    stage.world.fleet.start(&cell, release)?;
    stage.world.until_there(&cell).await?;
    // Longer than its presence lasts without a word: if nobody speaks for it, that shows.
    sleep(PRESENCE_TTL + ABSENCE).await;
    stage.settled().await?;
    let after = by_cell(stage).await?;
    ensure!(before == after, "instances moved although their cell came back: {before:?}, then {after:?}");
    marks.note(format!("{cell} found {} again", before[&cell].len()));
    Ok(())
}

/// A whole machine dies: the cell and everything on it.
pub(crate) async fn kill_machine(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let cell = dearest(stage).await?;
    let fleet = &stage.world.fleet;
    let release = fleet.release(&cell);
    marks.allowance.harm = Some((Instant::now(), PRESENCE_TTL + LOSS_MARGIN));
    fleet.kill(&cell)?;
    let processes = fleet.signal_containers(&cell, Signal::KILL);
    ensure!(processes > 0, "nothing of {cell} was found that could be killed");
    until_elsewhere(stage, &cell, marks).await?;
    stage.world.fleet.start(&cell, release)?;
    stage.world.until_cells_are(&CELLS).await?;
    stage.settled().await
}

/// A whole machine stands still, and comes back when nobody expects it any more.
pub(crate) async fn freeze_machine(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let cell = dearest(stage).await?;
    let fleet = &stage.world.fleet;
    marks.allowance.harm = Some((Instant::now(), PRESENCE_TTL + LOSS_MARGIN));
    fleet.signal_only(&cell, Signal::STOP)?;
    let processes = fleet.signal_containers(&cell, Signal::STOP);
    ensure!(processes > 0, "nothing of {cell} was found that could be stopped");
    until_elsewhere(stage, &cell, marks).await?;
    // Nobody who still waits for it is helped by its coming back.
    sleep(ABSENCE).await;
    fleet.signal_containers(&cell, Signal::CONT);
    fleet.signal_only(&cell, Signal::CONT)?;
    stage.world.until_cells_are(&CELLS).await?;
    stage.settled().await
}

/// Until everything runs on other cells, and the router knows.
async fn until_elsewhere(stage: &Stage, cell: &str, marks: &mut Marks) -> anyhow::Result<()> {
    let mut where_now = BTreeMap::new();
    let elsewhere = async || {
        let Ok(cells) = by_cell(stage).await else { return false };
        where_now = cells;
        !where_now.contains_key(cell)
    };
    let took = until(&format!("nothing is on {cell} any more"), PATIENCE, elsewhere).await;
    let took = took.with_context(|| format!("there is {where_now:?}"))?;
    stage.settled().await?;
    marks.note(format!("{cell} was replaced after {}", seconds(took)));
    Ok(())
}

/// The leader of etcd dies, another one is elected, and it comes back.
pub(crate) async fn etcd_leader(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let etcd = &stage.world.etcd;
    let leader = tokio::task::block_in_place(|| {
        let leader = etcd.leader();
        etcd.kill(leader);
        leader
    });
    sleep(ABSENCE).await;
    tokio::task::block_in_place(|| {
        etcd.restart(leader);
        etcd.wait_until_ready(PATIENCE);
    });
    marks.note(format!("it was m{leader}"));
    Ok(())
}

/// The bus dies and comes back.
pub(crate) async fn nats(stage: &mut Stage) -> anyhow::Result<()> {
    tokio::task::block_in_place(|| stage.world.nats.kill());
    sleep(ABSENCE).await;
    tokio::task::block_in_place(|| stage.world.nats.restart());
    sleep(ABSENCE).await;
    stage.settled().await
}

/// Nothing happens: what comes late shows here.
pub(crate) async fn quiet(time: Duration) -> anyhow::Result<()> {
    sleep(time).await;
    Ok(())
}
