//! The loop that keeps the state server and the containers of one mind.
//!
//! It looks at a container when something happened to it, and from time to time at all of them and at all records of this
//! cell. What it hears only wakes it earlier: every look compares what is with what should be, so an event that was lost costs
//! time and nothing else. A cell that starts again begins with a look at everything, which is all there is to a restart.
//!
//! Records are listed first and containers afterwards. A container is there before its record is, so that a record without a
//! container really has none; the other order would remove what was accepted in between.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::client::{Client, ClientError};
use api::models::{self, ActualLrPsRequest, TasksRequest, actual_lrp, task};
use model::{ActualLrpKey, DomainName, InstanceGuid, ProcessGuid, TaskGuid};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::carry::{Carrier, Heard, Orphan};
use super::clock::{Clock, jittered};
use super::config::Times;
use super::evacuation::Evacuation;
use super::metrics::Metrics;
use super::plan::Residue;
use super::queue::{Look, Pauses, Queue};
use crate::executor::{Container, ContainerGuid, Event, Executor, Owner, State};

/// Which request a container came with, for the logs of all who had to do with it.
pub(super) type Traces = Mutex<HashMap<ContainerGuid, String>>;

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Stopped,
    /// Everything is handed over.
    Empty,
    /// The time for that is over.
    OutOfTime,
}

pub(super) struct Reconciler {
    pub(super) bbs: Client,
    pub(super) carrier: Arc<Carrier>,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) evacuation: Arc<Evacuation>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) traces: Arc<Traces>,
    pub(super) times: Times,
}

type Looked = Result<Vec<(ContainerGuid, Vec<Orphan>)>, ClientError>;

struct Running {
    queue: Queue,
    looks: JoinSet<Heard>,
    looked_at: HashMap<Id, ContainerGuid>,
    survey: JoinSet<Looked>,
    survey_failures: u32,
    next_survey: Instant,
}

impl Reconciler {
    /// `nudges` are containers that somebody wants looked at.
    pub(super) async fn run(self, mut nudges: mpsc::Receiver<ContainerGuid>, mut stop: watch::Receiver<bool>) -> Ended {
        let mut events = self.executor.events();
        let pauses = Pauses { first: self.times.pause_first, max: self.times.pause_max };
        let mut state = Running {
            queue: Queue::new(pauses),
            looks: JoinSet::new(),
            looked_at: HashMap::new(),
            survey: JoinSet::new(),
            survey_failures: 0,
            next_survey: Instant::now(),
        };
        // Those that are found here at the start, without waiting for the state server.
        self.offer_all(&mut state.queue);
        let evacuation = self.evacuation.clone();
        let mut begins = std::pin::pin!(evacuation.begins());
        let mut known = self.evacuation.is_on();
        loop {
            self.begin_looks(&mut state);
            if let Some(ended) = self.ended(&state) {
                return ended;
            }
            let due = state.queue.next_due().into_iter().chain(self.evacuation.deadline());
            let due = due.chain(state.survey.is_empty().then_some(state.next_survey)).min();
            tokio::select! {
                () = async { drop(stop.wait_for(|stop| *stop).await) } => {
                    self.drain(state).await;
                    return Ended::Stopped;
                }
                event = events.recv() => self.take(event, &mut state.queue, &mut events),
                Some(guid) = nudges.recv() => state.queue.offer(guid, Vec::new()),
                Some(look) = state.looks.join_next_with_id() => self.finish(look, &mut state),
                Some(survey) = state.survey.join_next() => self.surveyed(survey.ok(), &mut state),
                () = &mut begins, if !known => {
                    known = true;
                    state.next_survey = Instant::now();
                    self.offer_all(&mut state.queue);
                }
                () = sleep_until(due.unwrap_or_else(|| Instant::now() + self.times.polling)) => {}
            }
            if state.survey.is_empty() && state.next_survey <= Instant::now() {
                let (bbs, carrier, evacuation) = (self.bbs.clone(), self.carrier.clone(), self.evacuation.clone());
                state.survey.spawn(async move { survey(&bbs, &carrier, &evacuation).await });
            }
        }
    }

    fn ended(&self, state: &Running) -> Option<Ended> {
        let deadline = self.evacuation.deadline()?;
        if deadline <= Instant::now() {
            return Some(Ended::OutOfTime);
        }
        (state.queue.busy() == 0 && self.executor.list().is_empty()).then_some(Ended::Empty)
    }

    fn offer_all(&self, queue: &mut Queue) {
        for container in self.executor.list() {
            queue.offer(container.guid.clone(), Vec::new());
        }
    }

    fn take(&self, event: Result<Event, RecvError>, queue: &mut Queue, events: &mut broadcast::Receiver<Event>) {
        match event {
            // On its way from reserved to running nothing is due: it was claimed, and will be started.
            Ok(Event::Changed(container))
                if matches!(container.state, State::Initializing | State::Created) && !self.evacuation.is_on() => {}
            Ok(Event::Changed(container)) => queue.offer(container.guid.clone(), Vec::new()),
            Ok(Event::Deleted(guid)) => {
                self.traces.lock().unwrap_or_else(PoisonError::into_inner).remove(&guid);
            }
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "events of containers were missed; all containers are looked at");
                self.offer_all(queue);
            }
            // Nobody sends any more; looking from time to time is what is left.
            Err(RecvError::Closed) => *events = self.executor.events(),
        }
    }

    fn begin_looks(&self, state: &mut Running) {
        while let Some(Look { guid, orphans }) = state.queue.next(Instant::now()) {
            let trace = self.traces.lock().unwrap_or_else(PoisonError::into_inner).get(&guid).cloned();
            let bbs = trace.and_then(|trace| self.bbs.with_trace_id(&trace).ok()).unwrap_or_else(|| self.bbs.clone());
            let (carrier, executor) = (self.carrier.clone(), self.executor.clone());
            let (evacuation, name) = (self.evacuation.clone(), guid.clone());
            let look = state.looks.spawn(async move {
                match executor.get(&name) {
                    Some(container) => carrier.settle(&bbs, &container, evacuation.is_on()).await,
                    None => {
                        let mut heard = Heard::Answer;
                        for orphan in &orphans {
                            heard = carrier.settle_orphan(&bbs, orphan).await;
                        }
                        heard
                    }
                }
            });
            state.looked_at.insert(look.id(), guid);
        }
    }

    fn finish(&self, look: Result<(Id, Heard), tokio::task::JoinError>, state: &mut Running) {
        let (id, heard) = match look {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "a look at a container met a defect; it is looked at again later");
                (error.id(), Heard::Answer)
            }
        };
        if heard == Heard::Silence {
            self.metrics.call_failures.inc();
        }
        if let Some(guid) = state.looked_at.remove(&id) {
            let jitter = |pause| jittered(pause, self.clock.as_ref());
            state.queue.finished(&guid, heard, Instant::now(), jitter);
            self.note_silence(&state.queue);
        }
    }

    fn surveyed(&self, survey: Option<Looked>, state: &mut Running) {
        self.metrics.syncs.inc();
        // Of containers whose end was missed.
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        traces.retain(|guid, _| self.executor.get(guid).is_some());
        drop(traces);
        let polling = if self.evacuation.is_on() { self.times.polling_evacuating } else { self.times.polling };
        match survey {
            Some(Ok(found)) => {
                state.survey_failures = 0;
                state.queue.heard(Heard::Answer);
                state.next_survey = Instant::now() + polling;
                for (guid, orphans) in found {
                    state.queue.offer(guid, orphans);
                }
            }
            failed => {
                self.metrics.sync_failures.inc();
                state.survey_failures += 1;
                state.queue.heard(Heard::Silence);
                let pauses = Pauses { first: self.times.pause_first, max: self.times.pause_max.min(polling) };
                let pause = jittered(pauses.after(state.survey_failures), self.clock.as_ref());
                state.next_survey = Instant::now() + pause;
                match failed {
                    Some(Err(error)) if state.survey_failures == 1 => {
                        tracing::warn!(%error, "the records of this cell could not be listed; it is tried again");
                    }
                    Some(Err(error)) => tracing::debug!(%error, "the records of this cell could not be listed"),
                    _ => tracing::error!("the comparison of all containers with all records met a defect"),
                }
            }
        }
        self.note_silence(&state.queue);
        if self.evacuation.is_on() {
            let progress = self.evacuation.progress(&self.executor.list());
            let (lrps, tasks, left_s) = (progress.lrps, progress.tasks, progress.seconds_left);
            tracing::info!(?lrps, ?tasks, left_s, "evacuating");
        }
    }

    fn note_silence(&self, queue: &Queue) {
        let silent = queue.is_silent();
        if self.evacuation.note_silence(silent, self.clock.as_ref()) {
            self.metrics.state_server_away.set(i64::from(silent));
            let containers = self.executor.list().len();
            match silent {
                true => tracing::warn!(
                    containers,
                    "the state server does not answer; containers run on, and it is asked again"
                ),
                false => tracing::info!(containers, "the state server answers again"),
            }
        }
    }

    /// Looks that have begun are ended, within a limit; whatever is cut off is made up for at the next start.
    async fn drain(&self, mut state: Running) {
        let drained = timeout(self.times.ending, async { while state.looks.join_next().await.is_some() {} });
        if drained.await.is_err() {
            tracing::info!("calls to the state server were cut off; they are made again at the next start");
        }
    }
}

/// Everything of this cell that is not settled: containers of which their records do not say what they would say themselves, and
/// records without a container.
async fn survey(bbs: &Client, carrier: &Carrier, evacuation: &Evacuation) -> Looked {
    let cell = carrier.cell.as_str();
    let lrps = ActualLrPsRequest { cell_id: cell.to_owned(), ..Default::default() };
    let tasks = TasksRequest { cell_id: cell.to_owned(), ..Default::default() };
    let (lrps, tasks) = tokio::try_join!(bbs.actual_lrps(lrps), bbs.tasks(tasks))?;
    let containers = carrier.executor.list();
    let here: HashSet<&ContainerGuid> = containers.iter().map(|container| &container.guid).collect();
    let mut found: HashMap<ContainerGuid, Vec<Orphan>> = HashMap::new();
    for orphan in lrps.iter().filter_map(orphan_of_lrp).chain(tasks.iter().filter_map(orphan_of_task)) {
        let guid = orphan.owner.container();
        if !here.contains(&guid) {
            found.entry(guid).or_default().push(orphan);
        }
    }
    let records: HashMap<&str, &models::ActualLrp> = lrps.iter().filter_map(|lrp| Some((guid_of(lrp)?, lrp))).collect();
    let is_settled = |container: &Container| {
        let record = records.get(container.guid.as_str());
        !evacuation.is_on() && record.is_some_and(|record| carrier.agrees(record, container))
    };
    let unsettled = containers.iter().filter(|container| !is_settled(container));
    Ok(found.into_iter().chain(unsettled.map(|container| (container.guid.clone(), Vec::new()))).collect())
}

fn guid_of(lrp: &models::ActualLrp) -> Option<&str> {
    lrp.actual_lrp_instance_key.as_ref().map(|instance| instance.instance_guid.as_str())
}

fn orphan_of_lrp(lrp: &models::ActualLrp) -> Option<Orphan> {
    let (key, instance) = (lrp.actual_lrp_key.as_ref()?, lrp.actual_lrp_instance_key.as_ref()?);
    let key = ActualLrpKey {
        process_guid: ProcessGuid::parse(&key.process_guid).ok()?,
        index: key.index,
        domain: DomainName::parse(&key.domain).ok()?,
    };
    let residue = match lrp.presence() {
        actual_lrp::Presence::Evacuating => Residue::EvacuatingInstance,
        actual_lrp::Presence::Ordinary | actual_lrp::Presence::Suspect => Residue::Instance,
    };
    Some(Orphan { residue, owner: Owner::Lrp { key, instance: InstanceGuid::parse(&instance.instance_guid).ok()? } })
}

fn orphan_of_task(task: &models::Task) -> Option<Orphan> {
    let owner =
        Owner::Task { guid: TaskGuid::parse(&task.task_guid).ok()?, domain: DomainName::parse(&task.domain).ok()? };
    (task.state() == task::State::Running).then_some(Orphan { residue: Residue::Task, owner })
}

/// After an evacuation: ends what is left, and waits for it within a limit.
pub(super) async fn delete_all(executor: &dyn Executor, limit: std::time::Duration) {
    let mut events = executor.events();
    let left = executor.list();
    if left.is_empty() {
        return;
    }
    let running = left.iter().filter(|container| container.state == State::Running).count();
    tracing::warn!(containers = left.len(), running, "the time of the evacuation is over; what is left is ended");
    let gone = timeout(limit, async {
        for container in &left {
            if let Err(error) = executor.delete(&container.guid).await {
                tracing::warn!(container = %container.guid, %error, "a container could not be deleted");
            }
        }
        while !executor.list().is_empty() {
            // A slow listener is told so, and then looks again as well.
            if matches!(events.recv().await, Err(RecvError::Closed)) {
                return;
            }
        }
    });
    if gone.await.is_err() {
        tracing::warn!(containers = executor.list().len(), "some containers did not end in time and are left behind");
    }
}
