//! What sealing costs a write: the same clients claim and start the same instances on servers with and without a key.
//!
//! Each server has a fresh store, and both kinds take turns, in changing order, so that what changes on the machine during a
//! run hits both. One is compared with the other by the medians; how far the runs of one kind are apart is said beside it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::{Bench, KEY_A, keys};
use crate::course::{self, ROTATION};
use crate::fleet::Fleet;
use crate::load::{self, Load, Measure, Phase, PhaseReport, Settings};
use crate::median::median;
use crate::quiet::Quiet;
use crate::server::{Ending, Server};
use crate::sizes::CELLS;
use crate::table::{grouped, milliseconds};

const CROWD: &str = "claim + start";
const ALONE: &str = "claim alone + start alone";
const DESIRE: &str = "desire";

/// One server, from the first LRP to the last start.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    pub sealed: bool,
    pub desire: Measure,
    /// By all clients at once.
    pub crowd: Measure,
    /// By one client.
    pub alone: Measure,
    pub taken_by_others: f64,
}

#[derive(Debug, Serialize)]
pub struct Writes {
    pub lrps: u64,
    pub clients: u64,
    pub trials: Vec<Trial>,
}

impl Writes {
    /// The median of the trials of one kind.
    pub fn median(&self, sealed: bool, figure: impl Fn(&Trial) -> f64) -> f64 {
        median(self.figures(sealed, figure))
    }

    /// How far the trials of one kind are apart, as a share of their median.
    pub fn spread(&self, sealed: bool, figure: impl Fn(&Trial) -> f64 + Copy) -> f64 {
        let figures = self.figures(sealed, figure);
        let (least, most) =
            (figures.iter().copied().fold(f64::MAX, f64::min), figures.iter().copied().fold(0.0, f64::max));
        (most - least).max(0.0) / self.median(sealed, figure).max(1e-9)
    }

    /// What sealing takes away, as a share.
    pub fn cost(&self, figure: impl Fn(&Trial) -> f64 + Copy) -> f64 {
        1.0 - self.median(true, figure) / self.median(false, figure).max(1e-9)
    }

    /// The least and the most that sealing took away in a pair of trials that followed each other.
    pub fn costs_of_pairs(&self, figure: impl Fn(&Trial) -> f64) -> (f64, f64) {
        let cost = |pair: &[Trial]| {
            let of = |sealed| pair.iter().find(|trial| trial.sealed == sealed).map_or(0.0, &figure);
            1.0 - of(true) / of(false).max(1e-9)
        };
        let costs = self.trials.chunks_exact(2).map(cost);
        costs.fold((f64::MAX, f64::MIN), |(least, most), cost| (least.min(cost), most.max(cost)))
    }

    fn figures(&self, sealed: bool, figure: impl Fn(&Trial) -> f64) -> Vec<f64> {
        self.trials.iter().filter(|trial| trial.sealed == sealed).map(figure).collect()
    }
}

/// Every second pair has the other order.
pub(super) async fn measure(bench: &Bench<'_>, lrps: u64, pairs: u64) -> anyhow::Result<Writes> {
    let mut trials = Vec::new();
    for pair in 0..pairs {
        let first_sealed = pair % 2 == 1;
        for sealed in [first_sealed, !first_sealed] {
            let kind = if sealed { "sealed" } else { "plain" };
            (bench.say)(&format!("claim and start, pair {} of {pairs}: {kind}", pair + 1));
            let trial = trial(bench, lrps, sealed).await?;
            let Measure { per_second, latency, .. } = &trial.crowd;
            let (rate, p99) = (grouped(*per_second), milliseconds(latency.p99_ms));
            (bench.say)(&format!("  {rate} writes a second, p99 {p99}"));
            trials.push(trial);
        }
    }
    Ok(Writes { lrps, clients: Settings::default().clients, trials })
}

async fn trial(bench: &Bench<'_>, lrps: u64, sealed: bool) -> anyhow::Result<Trial> {
    let dir = bench.home.join("writes");
    fs::create_dir(&dir)?;
    let trial = on_a_fresh_store(bench, &dir, lrps, sealed).await;
    fs::remove_dir_all(&dir)?;
    trial
}

async fn on_a_fresh_store(bench: &Bench<'_>, dir: &Path, lrps: u64, sealed: bool) -> anyhow::Result<Trial> {
    let encryption = sealed.then(|| keys(&[KEY_A], "online"));
    let (mut server, _) = bench.launch(dir, encryption).start().await?;
    if sealed {
        course::follow(&mut server, &ROTATION, &|_| {}).await?;
    }
    let target = server.target(&bench.certificates).await?;
    let load = Load::new(target, Fleet { lrps, cells: CELLS }, Settings::default(), Some(server.process()));
    let (quiet, before_s) = (Quiet::start()?, server.process().cpu_seconds()?);
    let reports = [load.run(Phase::Populate).await, load.run(Phase::ClaimStart).await];
    let taken_by_others = quiet.taken_by_others(server.process().cpu_seconds()? - before_s)?;
    anyhow::ensure!(!reports.iter().any(PhaseReport::failed), "Writes failed:\n{}", load::table(&reports));
    is_as_told(bench, &server, sealed).await?;
    server.end(Ending::Stop).await?;
    let find = |what: &str| {
        let found = reports.iter().find_map(|report| report.measure(what));
        found.cloned().with_context(|| format!("nothing was measured of {what}"))
    };
    Ok(Trial { sealed, desire: find(DESIRE)?, crowd: find(CROWD)?, alone: find(ALONE)?, taken_by_others })
}

/// A comparison of two servers that both seal, or both do not, would look splendid.
async fn is_as_told(bench: &Bench<'_>, server: &Server, sealed: bool) -> anyhow::Result<()> {
    if sealed {
        bench.all_under(server, KEY_A).await?;
        return Ok(());
    }
    let state = bench.keys(server).await?["state"].clone();
    anyhow::ensure!(state == "off", "The server without a key says that its encryption is {state}.");
    Ok(())
}
