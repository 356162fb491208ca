//! The cluster under observation: load, probes and watches that never rest, and steps that happen meanwhile.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use api::models::{ActualLrPsRequest, ActualLrp, DesiredLrpUpdate};
use rig::load::{self, Load, Sample};
use tokio::time::Instant;

use crate::account::{Allowance, Seen, Step};
use crate::apps::{self, App, Make};
use crate::callbacks::Callbacks;
use crate::fleet::{Binaries, Release};
use crate::probe::Probe;
use crate::watch::{Dip, Watch};
use crate::world::{PATIENCE, World, until};
use crate::{Report, Say};

const RATE_PER_S: u32 = 60;
/// To the app with a single instance.
const SINGLE_RATE_PER_S: u32 = 30;
/// Beside those, requests that take their time, so that there is always one under way to whatever goes away.
const SLOW_RATE_PER_S: u32 = 3;
const SLOW_PATH: &str = "/slow?ms=2500";
const SLOW_TIME: Duration = Duration::from_millis(2_500);
/// For each request, beside what it is told to take. Much longer than any takes, also on a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(5);
/// For each call of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const DOMAIN_TTL_S: u32 = 120;

pub(crate) struct Stage {
    loads: Vec<Load>,
    reads: Probe,
    writes: Probe,
    /// Of the larger app under load, and of the one with a single instance.
    pub(crate) watches: [Watch; 2],
    pub(crate) callbacks: Callbacks,
    pub(crate) world: World,
    zero: Instant,
    /// When the load began.
    loaded: Instant,
    steps: Vec<Step>,
    say: Say,
    /// Guests and tasks are counted, so that each has a name of its own.
    pub(crate) visits: usize,
}

/// What a step tells about itself while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) allowance: Allowance,
    pub(crate) notes: Vec<String>,
}

impl Marks {
    pub(crate) fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }
}

impl Stage {
    /// All of the former release, and the app under load.
    pub(crate) async fn set(folder: &Path, binaries: &Binaries, say: Say) -> anyhow::Result<Self> {
        let zero = Instant::now();
        let world = World::start(folder, binaries).await?;
        say(&format!("all processes are there after {:.1} s", zero.elapsed().as_secs_f64()));
        world.client.upsert_domain(apps::DOMAIN, DOMAIN_TTL_S).await?;
        let apps = [App::front(), App::single()];
        let binary = world.fleet.binary(Release::Present).display().to_string();
        for app in &apps {
            world.client.desire_lrp(apps::definition(&binary, app, Make::FIRST)?).await?;
        }
        for app in &apps {
            until_running(&world, &app.guid, app.instances).await?;
            until_routed(&world, &app.host(), app.instances).await?;
        }
        let impatient = world.impatient(PROBE_TIMEOUT);
        let watches = apps.each_ref().map(|app| {
            let watch = Watch::start(&app.guid, &impatient);
            watch.demand(app.instances);
            watch
        });
        let reader = impatient.clone();
        let reads = Probe::start(move || {
            let reader = reader.clone();
            async move { reader.domains().await.is_ok() }
        });
        let writes = Probe::start(move || {
            let writer = impatient.clone();
            async move { writer.upsert_domain(apps::DOMAIN, DOMAIN_TTL_S).await.is_ok() }
        });
        let loaded = Instant::now();
        let [front, single] = &apps;
        let kinds = [
            (front, "/", RATE_PER_S, Duration::ZERO),
            (front, SLOW_PATH, SLOW_RATE_PER_S, SLOW_TIME),
            (single, "/", SINGLE_RATE_PER_S, Duration::ZERO),
        ];
        let load = |(app, path, rate_per_s, time): (&App, &str, u32, Duration)| {
            Load::start(load::Options {
                server: world.router,
                host: app.host(),
                path: path.to_owned(),
                rate_per_s,
                deadline: DEADLINE + time,
                contains: app.message(),
            })
        };
        let loads = kinds.into_iter().map(load).collect();
        let callbacks = Callbacks::start(world.callbacks).await?;
        Ok(Self { loads, reads, writes, watches, callbacks, world, zero, loaded, steps: Vec::new(), say, visits: 0 })
    }

    /// Does something and keeps the account of it. An error is told with the name of the step.
    pub(crate) async fn step(
        &mut self,
        name: &str,
        work: impl AsyncFnOnce(&mut Self, &mut Marks) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        // Whatever happens belongs to some step.
        let began = self.steps.last().map_or(self.loaded, |before| before.ended);
        let mut marks = Marks::default();
        let outcome = work(self, &mut marks).await;
        let ended = Instant::now();
        let Marks { allowance, notes } = marks;
        let mut step = Step {
            name: name.to_owned(),
            began,
            ended,
            allowance,
            notes,
            reads_gap: Duration::ZERO,
            writes_gap: Duration::ZERO,
            fewest: None,
        };
        self.measure(&mut step);
        self.steps.push(step);
        let (step, seen) = (&self.steps[self.steps.len() - 1], self.seen(self.samples()));
        let judged = step.judge(&self.steps, &seen, self.zero);
        (self.say)(&step.line(&judged));
        for breach in &judged.breaches {
            (self.say)(&format!("    {breach}"));
        }
        outcome.with_context(|| format!("the step `{name}` could not be done"))
    }

    fn seen(&self, samples: Vec<Sample>) -> Seen {
        Seen { samples, dips: dips(&self.watches), incidents: self.world.fleet.incidents() }
    }

    fn samples(&self) -> Vec<Sample> {
        self.loads.iter().flat_map(Load::samples).collect()
    }

    fn measure(&self, step: &mut Step) {
        step.reads_gap = self.reads.longest_gap(step.began, step.ended);
        step.writes_gap = self.writes.longest_gap(step.began, step.ended);
        step.fewest = self.watches[0].fewest(step.began, step.ended);
    }

    /// Ends the load, and gives the whole account.
    pub(crate) async fn finish(self, outcome: anyhow::Result<()>) -> Report {
        let mut breaches: Vec<String> = outcome.err().map(|error| format!("{error:#}")).into_iter().collect();
        let mut samples = Vec::new();
        for load in self.loads {
            samples.extend(load.finish().await);
        }
        let seen = Seen { samples, dips: dips(&self.watches), incidents: self.world.fleet.incidents() };
        let mut table = vec![Step::head()];
        for step in &self.steps {
            let judged = step.judge(&self.steps, &seen, self.zero);
            table.push(step.line(&judged));
            breaches.extend(judged.breaches.iter().map(|breach| format!("in `{}`: {breach}", step.name)));
        }
        breaches.extend(self.world.fleet.panics());
        let failed = seen.samples.iter().filter(|sample| sample.failure.is_some()).count();
        table.push(format!("{} requests, {failed} failed; {:?}", seen.samples.len(), self.zero.elapsed()));
        self.world.keep_logs();
        Report { table: table.join("\n"), breaches }
    }

    /// Changes how many instances of the larger app are desired, and waits until it is so.
    pub(crate) async fn scale(&self, instances: usize) -> anyhow::Result<()> {
        let (front, watch) = (App::front(), &self.watches[0]);
        // Fewer are enough from the moment on in which fewer are asked for, and more only when they are there.
        watch.demand(front.instances.min(instances));
        let update = DesiredLrpUpdate { instances: Some(i32::try_from(instances)?), ..Default::default() };
        self.world.client.update_desired_lrp(&front.guid, update).await?;
        until_running(&self.world, &front.guid, instances).await?;
        until_routed(&self.world, &front.host(), instances).await?;
        watch.demand(instances);
        Ok(())
    }

    /// Until the apps under load run as desired, nothing of them is on its way, and the router knows.
    pub(crate) async fn settled(&self) -> anyhow::Result<()> {
        for app in [App::front(), App::single()] {
            until_running(&self.world, &app.guid, app.instances).await?;
            until_routed(&self.world, &app.host(), app.instances).await?;
        }
        Ok(())
    }

    pub(crate) async fn instances_of(&self, app: &App) -> anyhow::Result<Vec<ActualLrp>> {
        instances_of(&self.world, &app.guid).await
    }
}

fn dips(watches: &[Watch]) -> Vec<Dip> {
    watches.iter().flat_map(Watch::dips).collect()
}

async fn instances_of(world: &World, guid: &str) -> anyhow::Result<Vec<ActualLrp>> {
    let request = ActualLrPsRequest { process_guid: guid.to_owned(), ..Default::default() };
    Ok(world.client.actual_lrps(request).await?)
}

/// Until exactly so many run, all of them ordinary ones, and there is nothing else.
pub(crate) async fn until_running(world: &World, guid: &str, instances: usize) -> anyhow::Result<()> {
    let mut seen = Vec::new();
    let so = async || {
        let Ok(rows) = instances_of(world, guid).await else { return false };
        seen = rows.iter().map(shown).collect();
        rows.len() == instances && rows.iter().all(|row| row.state == "RUNNING" && row.presence == 0)
    };
    let waited = until(&format!("{instances} instances of {guid} run and nothing else"), PATIENCE, so).await;
    waited.map(drop).with_context(|| format!("there is {seen:#?}"))
}

fn shown(row: &ActualLrp) -> String {
    let index = row.actual_lrp_key.as_ref().map_or(0, |key| key.index);
    let cell = row.actual_lrp_instance_key.as_ref().map_or("", |key| key.cell_id.as_str());
    format!("{index} {} on {cell:?}, presence {}, {}{}", row.state, row.presence, row.placement_error, row.crash_reason)
}

/// Until the router knows exactly so many instances of a host.
pub(crate) async fn until_routed(world: &World, host: &str, instances: usize) -> anyhow::Result<()> {
    let mut seen = 0;
    let so = async || {
        seen = world.routes().await[host].as_array().map_or(0, Vec::len);
        seen == instances
    };
    let waited = until(&format!("the router knows {instances} instances of {host}"), PATIENCE, so).await;
    waited.map(drop).with_context(|| format!("it knows {seen}"))
}
