//! The two forms of the suite: which steps, in which order.

use std::time::Duration;

use crate::fleet::Release::{self, Former, Present};
use crate::stage::Stage;
use crate::world::{BRAINS, CELLS, EMITTERS, LOCKETS};
use crate::{steps, updates};

/// What comes late has so long to show.
const QUIET: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Once forward, with a migration, and the worst deaths: a few minutes.
    Short,
    /// All of it.
    Full,
    /// Definitions of the app under load are updated, taken back, and disturbed meanwhile; nothing is replaced.
    Updates,
}

pub(crate) async fn play(stage: &mut Stage, form: Form) -> anyhow::Result<()> {
    match form {
        Form::Short => short(stage).await,
        Form::Full => full(stage).await,
        Form::Updates => updates::all(stage).await,
    }
}

async fn short(stage: &mut Stage) -> anyhow::Result<()> {
    stage.step("C0: all former", async |stage, marks| steps::look(stage, marks).await).await?;
    control_plane(stage, Present).await?;
    stage.step("C3: cell-1 present", async |stage, marks| steps::cell(stage, CELLS[0], Present, marks).await).await?;
    boards(stage, "back: state servers former", Former).await?;
    boards(stage, "forward: state servers present", Present).await?;
    for cell in &CELLS[1..] {
        let name = format!("C4: {cell} present");
        stage.step(&name, async |stage, marks| steps::cell(stage, cell, Present, marks).await).await?;
    }
    emitters(stage, Present).await?;
    start_migration(stage).await?;
    finalize_migration(stage).await?;
    stage.step("killed: a machine", async |stage, marks| steps::kill_machine(stage, marks).await).await?;
    stage.step("killed: leader of etcd", async |stage, marks| steps::etcd_leader(stage, marks).await).await?;
    stage.step("killed: master", async |stage, marks| steps::kill_master(stage, marks).await).await?;
    look(stage).await?;
    stage.step("quiet", async |_, _| steps::quiet(QUIET).await).await
}

async fn full(stage: &mut Stage) -> anyhow::Result<()> {
    stage.step("C0: all former", async |stage, marks| steps::look(stage, marks).await).await?;
    control_plane(stage, Present).await?;
    cells(stage, CELLS, Present).await?;
    emitters(stage, Present).await?;
    start_migration(stage).await?;
    look(stage).await?;

    emitters(stage, Former).await?;
    let mut backwards = CELLS;
    backwards.reverse();
    cells(stage, backwards, Former).await?;
    control_plane(stage, Former).await?;
    look(stage).await?;

    control_plane(stage, Present).await?;
    cells(stage, CELLS, Present).await?;
    emitters(stage, Present).await?;
    stage.step("killed: master, in both forms", async |stage, marks| steps::kill_master(stage, marks).await).await?;
    finalize_migration(stage).await?;
    look(stage).await?;
    stage.step("another key", async |stage, _| steps::rotate(stage).await).await?;

    stage.step("killed: master", async |stage, marks| steps::kill_master(stage, marks).await).await?;
    stage.step("killed: leader of etcd", async |stage, marks| steps::etcd_leader(stage, marks).await).await?;
    stage.step("killed: program of a cell", async |stage, marks| steps::kill_cell(stage, marks).await).await?;
    for name in LOCKETS.iter().chain(&BRAINS).chain(&EMITTERS) {
        stage.step(&format!("killed: {name}"), async |stage, _| steps::kill(stage, name).await).await?;
    }
    look(stage).await?;
    stage.step("killed: NATS", async |stage, _| steps::nats(stage).await).await?;
    updates::undisturbed(stage).await?;
    stage.step("killed: a machine", async |stage, marks| steps::kill_machine(stage, marks).await).await?;
    stage.step("frozen: a machine", async |stage, marks| steps::freeze_machine(stage, marks).await).await?;
    look(stage).await?;
    stage.step("quiet", async |_, _| steps::quiet(QUIET).await).await
}

/// State servers and Lockets, then auctioneers; the other way round on the way back.
async fn control_plane(stage: &mut Stage, release: Release) -> anyhow::Result<()> {
    match release {
        Present => {
            boards(stage, "C1: state servers present", release).await?;
            others(stage, "C1: Lockets present", &LOCKETS, release).await?;
            others(stage, "C2: auctioneers present", &BRAINS, release).await
        }
        Former => {
            others(stage, "back: auctioneers former", &BRAINS, release).await?;
            others(stage, "back: Lockets former", &LOCKETS, release).await?;
            boards(stage, "back: state servers former", release).await
        }
    }
}

async fn boards(stage: &mut Stage, name: &str, release: Release) -> anyhow::Result<()> {
    stage.step(name, async |stage, _| steps::boards(stage, release).await).await
}

async fn others(stage: &mut Stage, name: &str, names: &[&str], release: Release) -> anyhow::Result<()> {
    stage.step(name, async |stage, _| steps::others(stage, names, release).await).await
}

/// One after the other, with a look after the first: then the cells are of both releases.
async fn cells(stage: &mut Stage, names: [&str; 3], release: Release) -> anyhow::Result<()> {
    for (at, cell) in names.into_iter().enumerate() {
        let which = match release {
            Present if at == 0 => "C3",
            Present => "C4",
            Former => "back",
        };
        let name = format!("{which}: {cell} {}", release.name());
        stage.step(&name, async |stage, marks| steps::cell(stage, cell, release, marks).await).await?;
        if at == 0 {
            look(stage).await?;
        }
    }
    Ok(())
}

async fn emitters(stage: &mut Stage, release: Release) -> anyhow::Result<()> {
    let name = match release {
        Present => "C5: emitters of routes present",
        Former => "back: emitters of routes former",
    };
    others(stage, name, &EMITTERS, release).await
}

async fn start_migration(stage: &mut Stage) -> anyhow::Result<()> {
    stage.step("migration: started", async |stage, _| steps::migrate(stage).await).await
}

async fn finalize_migration(stage: &mut Stage) -> anyhow::Result<()> {
    stage.step("migration: finalized", async |stage, _| steps::finalize(stage).await).await
}

async fn look(stage: &mut Stage) -> anyhow::Result<()> {
    stage.step("a look", async |stage, marks| steps::look(stage, marks).await).await
}
