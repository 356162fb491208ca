//! Updates of the app under load: each changes its command, its environment, its memory or its port while requests come.
//!
//! Promise: after every step all instances have the definition that should have come out of it, and only that one answers.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::models::{DesiredLrpUpdate, Rollout, RolloutTerms};
use rig::load::{self, Load};
use tokio::time::{Instant, sleep};

use crate::apps::{self, App, INSTANCES, Make};
use crate::fleet::Release;
use crate::stage::{Marks, Stage, until_routed, until_running};
use crate::steps;
use crate::world::{CELLS, PATIENCE, until};

/// How long a new instance has to run.
const HEALTHY: Duration = Duration::from_millis(1_500);
/// While something else happens, which should fall into the middle.
const HEALTHY_SLOWLY: Duration = Duration::from_secs(4);
/// For instances that start, on a machine that is busy with other things.
const IN_TIME: Duration = Duration::from_secs(60);
/// For one that never answers.
const TOO_LATE: Duration = Duration::from_secs(6);
const ANSWERS_PER_S: u32 = 40;
const ANSWERS_FOR: Duration = Duration::from_millis(500);

/// What an update leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All instances have the new definition.
    There,
    /// It was taken back.
    Back,
}

pub(crate) async fn all(stage: &mut Stage) -> anyhow::Result<()> {
    undisturbed(stage).await?;
    stage.step("update: a cell is evacuated", async |stage, marks| evacuated(stage, marks).await).await?;
    stage.step("update: scaled up and down", async |stage, marks| scaled(stage, marks).await).await?;
    stage.step("update: another key", async |stage, marks| rotated(stage, marks).await).await?;
    stage.step("update: master killed", async |stage, marks| master_killed(stage, marks).await).await?;
    stage.step("update: program of a cell killed", async |stage, marks| cell_killed(stage, marks).await).await?;
    stage.step("update: deleted meanwhile", async |stage, marks| deleted(stage, marks).await).await?;
    stage.step("update: machine killed", async |stage, marks| machine_killed(stage, marks).await).await?;
    steps_quiet(stage).await
}

/// Updates that nothing disturbs but their own definitions.
pub(crate) async fn undisturbed(stage: &mut Stage) -> anyhow::Result<()> {
    stage.step("update: all of it", async |stage, marks| whole(stage, marks).await).await?;
    stage.step("update: crashes", async |stage, marks| failing(stage, Make::CRASHING, IN_TIME, marks).await).await?;
    stage
        .step("update: never healthy", async |stage, marks| failing(stage, Make::SILENT, TOO_LATE, marks).await)
        .await?;
    stage.step("update: cancelled", async |stage, marks| cancelled(stage, marks).await).await?;
    stage.step("update: canary, paused, resumed", async |stage, marks| canary(stage, marks).await).await?;
    stage.step("update: rolled back", async |stage, marks| rolled_back(stage, marks).await).await
}

async fn steps_quiet(stage: &mut Stage) -> anyhow::Result<()> {
    stage.step("quiet", async |_, _| steps::quiet(steps::SETTLING).await).await
}

fn terms(healthy: Duration, instance_deadline: Duration) -> RolloutTerms {
    let ms = |time: Duration| i64::try_from(time.as_millis()).ok();
    RolloutTerms { healthy_ms: ms(healthy), instance_deadline_ms: ms(instance_deadline), ..Default::default() }
}

/// Names are counted, because none may be used twice.
async fn begin(stage: &mut Stage, app: &App, make: Make, terms: RolloutTerms) -> anyhow::Result<String> {
    stage.visits += 1;
    let identifier = format!("{}-{}", make.mark, stage.visits);
    let binary = stage.world.fleet.binary(Release::Present).display().to_string();
    let definition = apps::definition(&binary, app, make)?;
    let update = DesiredLrpUpdate {
        // With the port the routes change as well.
        routes: definition.routes.clone(),
        desired_lrp: Some(definition),
        update_identifier: Some(identifier.clone()),
        rollout: Some(terms),
        ..Default::default()
    };
    stage.world.client.update_desired_lrp(&app.guid, update).await?;
    Ok(identifier)
}

async fn rollout(stage: &Stage, guid: &str) -> anyhow::Result<Rollout> {
    let lrp = stage.world.client.desired_lrp_by_process_guid(guid).await?;
    lrp.rollout.with_context(|| format!("{guid} was never updated"))
}

/// Until nothing is under way any more, and it came to this end.
async fn over(stage: &Stage, end: End, marks: &mut Marks) -> anyhow::Result<()> {
    let front = App::front();
    let began = Instant::now();
    let mut seen = None;
    let so = async || {
        seen = rollout(stage, &front.guid).await.ok();
        seen.as_ref().is_some_and(|rollout| rollout.phase == "done")
    };
    let waited = until("the update is over", PATIENCE, so).await;
    waited.with_context(|| format!("it is {seen:#?}"))?;
    let rollout = seen.context("it was there just now")?;
    let expected = end == End::Back;
    ensure!(rollout.reverts == expected, "taken back should be {expected}: {rollout:#?}");
    let why = if rollout.why.is_empty() { String::new() } else { format!(", {}", rollout.why) };
    marks.note(format!("over after {:.1} s{why}", began.elapsed().as_secs_f64()));
    Ok(())
}

/// All instances have the definition in use, and it is this one.
async fn arrived(stage: &Stage, identifier: &str, make: Make) -> anyhow::Result<()> {
    let (front, world) = (App::front(), &stage.world);
    until_running(world, &front.guid, INSTANCES).await?;
    until_routed(world, &front.host(), INSTANCES).await?;
    let lrp = world.client.desired_lrp_by_process_guid(&front.guid).await?;
    ensure!(lrp.definition_identifier == identifier, "in use is {:?}, not {identifier:?}", lrp.definition_identifier);
    ensure!(lrp.previous_definition_identifier.is_empty() && lrp.memory_mb as u32 == make.memory_mb);
    for row in stage.instances_of(&front).await? {
        ensure!(row.definition_number == lrp.definition_number, "an instance has another definition: {row:?}");
    }
    // Long enough for those that are told to stop to be gone.
    sleep(steps::SETTLING).await;
    let load = Load::start(load::Options {
        server: world.router,
        host: front.host(),
        path: "/".into(),
        rate_per_s: ANSWERS_PER_S,
        deadline: PATIENCE,
        contains: format!("{} {}", front.message(), make.mark),
    });
    sleep(ANSWERS_FOR).await;
    let failure = load.finish().await.into_iter().find_map(|sample| sample.failure);
    ensure!(failure.is_none(), "{} should answer, and not: {failure:?}", make.mark);
    Ok(())
}

/// What the app has now, to know what it should come back to.
async fn present(stage: &Stage) -> anyhow::Result<String> {
    Ok(stage.world.client.desired_lrp_by_process_guid(&App::front().guid).await?.definition_identifier)
}

/// Until at least one index has been replaced, and at least one has not.
async fn halfway(stage: &Stage) -> anyhow::Result<()> {
    let front = App::front();
    let mut seen = Vec::new();
    let so = async || {
        let Ok(rollout) = rollout(stage, &front.guid).await else { return false };
        let Ok(rows) = stage.instances_of(&front).await else { return false };
        seen = rows.iter().map(|row| (row.definition_number, row.leaving, row.state.clone())).collect();
        let landed = rows.iter().filter(|row| row.presence == 0 && row.state == "RUNNING");
        landed.filter(|row| row.definition_number == rollout.to_definition).count() >= 2
    };
    until("the update is in the middle", PATIENCE, so).await.with_context(|| format!("{seen:?}"))?;
    Ok(())
}

/// Command, environment, port and memory.
async fn whole(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let identifier = begin(stage, &App::front(), Make::SECOND, terms(HEALTHY, IN_TIME)).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &identifier, Make::SECOND).await
}

async fn failing(stage: &mut Stage, make: Make, deadline: Duration, marks: &mut Marks) -> anyhow::Result<()> {
    let before = present(stage).await?;
    begin(stage, &App::front(), make, terms(HEALTHY, deadline)).await?;
    over(stage, End::Back, marks).await?;
    arrived(stage, &before, Make::SECOND).await
}

async fn cancelled(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let before = present(stage).await?;
    begin(stage, &App::front(), Make::THIRD, terms(HEALTHY, IN_TIME)).await?;
    halfway(stage).await?;
    stage.world.client.cancel_update(&App::front().guid).await?;
    over(stage, End::Back, marks).await?;
    arrived(stage, &before, Make::SECOND).await
}

async fn canary(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let front = App::front();
    let terms = RolloutTerms { canaries: Some(1), canary_pause_ms: Some(-1), ..terms(HEALTHY, IN_TIME) };
    let identifier = begin(stage, &front, Make::THIRD, terms).await?;
    let phase_is = async |stage: &Stage, phase: &str| {
        let so = async || rollout(stage, &front.guid).await.is_ok_and(|rollout| rollout.phase == phase);
        until(&format!("the update is {phase}"), PATIENCE, so).await
    };
    phase_is(stage, "canary").await?;
    let new = stage.world.client.desired_lrp_by_process_guid(&front.guid).await?.definition_number;
    let rows = stage.instances_of(&front).await?;
    let canaries = rows.iter().filter(|row| row.definition_number == new).count();
    ensure!((canaries, rows.len()) == (1, INSTANCES), "{canaries} of {} have it", rows.len());
    let client = &stage.world.client;
    client.pause_update(&front.guid).await?;
    phase_is(stage, "paused").await?;
    client.resume_update(&front.guid).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &identifier, Make::THIRD).await
}

/// To the definition before the present one, by its name.
async fn rolled_back(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let front = App::front();
    let kept = stage.world.client.desired_lrp_definitions(&front.guid).await?;
    let before = kept.get(1).context("a former definition is kept")?.definition_identifier.clone();
    let terms = terms(HEALTHY, IN_TIME);
    stage.world.client.rollback_desired_lrp(&front.guid, Some(before.clone()), Some(terms)).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &before, Make::SECOND).await
}

/// Begins an update that takes its time and is in the middle.
async fn slowly(stage: &mut Stage, make: Make) -> anyhow::Result<String> {
    let identifier = begin(stage, &App::front(), make, terms(HEALTHY_SLOWLY, IN_TIME)).await?;
    halfway(stage).await?;
    Ok(identifier)
}

async fn evacuated(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let identifier = slowly(stage, Make::THIRD).await?;
    let mut cells = steps::by_cell(stage).await?;
    cells.retain(|cell, _| CELLS.contains(&cell.as_str()));
    let (cell, _) = cells.into_iter().max_by_key(|(_, guids)| guids.len()).context("instances run on cells")?;
    steps::cell(stage, &cell, Release::Present, marks).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &identifier, Make::THIRD).await
}

async fn scaled(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let identifier = slowly(stage, Make::FOURTH).await?;
    stage.scale(INSTANCES + 2).await?;
    stage.scale(INSTANCES).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &identifier, Make::FOURTH).await
}

async fn rotated(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let identifier = slowly(stage, Make::THIRD).await?;
    steps::rotate(stage).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &identifier, Make::THIRD).await
}

async fn master_killed(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let identifier = slowly(stage, Make::FOURTH).await?;
    steps::kill_master(stage, marks).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &identifier, Make::FOURTH).await
}

/// The program comes back and finds both instances of an index again.
async fn cell_killed(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let identifier = slowly(stage, Make::THIRD).await?;
    let (cell, _) = steps::by_cell(stage).await?.into_iter().next().context("instances run on cells")?;
    let fleet = &stage.world.fleet;
    fleet.kill(&cell)?;
    fleet.start(&cell, Release::Present)?;
    stage.world.until_there(&cell).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &identifier, Make::THIRD).await
}

/// Nothing of a guest is left that was in the middle of an update.
async fn deleted(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    stage.visits += 1;
    let guest = App::guest(stage.visits, 2);
    let binary = stage.world.fleet.binary(Release::Present).display().to_string();
    stage.world.client.desire_lrp(apps::definition(&binary, &guest, Make::FIRST)?).await?;
    until_running(&stage.world, &guest.guid, guest.instances).await?;
    begin(stage, &guest, Make::SECOND, terms(HEALTHY_SLOWLY, IN_TIME)).await?;
    let both = async || stage.instances_of(&guest).await.is_ok_and(|rows| rows.iter().any(|row| row.leaving));
    until("an instance is about to leave", PATIENCE, both).await?;
    stage.world.client.remove_desired_lrp(&guest.guid).await?;
    let began = Instant::now();
    until_running(&stage.world, &guest.guid, 0).await?;
    until_routed(&stage.world, &guest.host(), 0).await?;
    marks.note(format!("gone after {:.1} s", began.elapsed().as_secs_f64()));
    Ok(())
}

async fn machine_killed(stage: &mut Stage, marks: &mut Marks) -> anyhow::Result<()> {
    let identifier = slowly(stage, Make::FOURTH).await?;
    steps::kill_machine(stage, marks).await?;
    over(stage, End::There, marks).await?;
    arrived(stage, &identifier, Make::FOURTH).await
}
