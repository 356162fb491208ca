//! Carries out what [`plan`](super::plan) decides for one container: the call, and what follows from its answer.
//!
//! Everything here may be repeated at any time and by anybody who looks at the container anew. The caller sees to it that
//! there is one at a time for each container.

use std::sync::Arc;

use api::client::{Client, ClientError, Evacuation};
use api::models::{
    ActualLrp, CompleteTaskRequest, EvacuateRunningActualLrpRequest, StartActualLrpRequest, error::Type,
};
use bytes::Bytes;
use model::{ActualLrpKey, CellId, InstanceGuid, TaskGuid, truncate_reason};

use super::agree::agrees;
use super::metrics::Metrics;
use super::plan::{Answer, Call, Residue, Then, plan, react};
use super::spec;
use crate::executor::{Container, ContainerGuid, Executor, ExecutorError, Owner};

/// The longest result of a task.
pub const RESULT_BYTES_MAX: usize = 51_200;
const RESULT_UNREADABLE: &str = "failed to fetch result";
const WRONG_STATE: &str = "invalid state transition";
const TASK_WITHOUT_CONTAINER: &str = "task container does not exist";
/// The state server refuses a crash without a reason.
const NO_REASON: &str = "ended without giving a reason";
const STOPPED: &str = "stopped";

/// Whether the state server was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing more is to be done until something changes.
    Answer,
    Silence,
}

pub(super) struct Carrier {
    pub(super) executor: Arc<dyn Executor>,
    pub(super) cell: CellId,
    pub(super) zone: String,
    pub(super) prefer_instance_address: bool,
    pub(super) metrics: Arc<Metrics>,
}

/// A record that had no container when it was looked for.
#[derive(Clone, Debug)]
pub(super) struct Orphan {
    pub(super) residue: Residue,
    pub(super) owner: Owner,
}

/// What `run` came to, where it did not come to run.
enum NotRun {
    /// The state server was silent; the container waits.
    Silence,
    /// It will never run here.
    Hopeless(String),
}

impl Carrier {
    /// One look at a container, one call, one consequence.
    pub(super) async fn settle(&self, bbs: &Client, container: &Container, evacuating: bool) -> Heard {
        let call = plan(container, evacuating);
        let answer = self.call(bbs, call, container).await;
        let then = react(call, answer);
        tracing::debug!(container = %container.guid, state = ?container.state, ?call, ?answer, ?then, "settled");
        self.metrics.calls.inc();
        match then {
            Then::Nothing => {}
            Then::Again => return Heard::Silence,
            Then::Run => return self.run(bbs, container).await,
            Then::Stop => {
                tracing::info!(container = %container.guid, ?answer, "stopped, because the state server wants another instance");
                self.note(&container.guid, "stopped", self.executor.stop(&container.guid).await);
            }
            Then::Delete => self.delete(&container.guid).await,
            Then::FailAndDelete => {
                let failed = self.completion(&container.owner, Some(WRONG_STATE), String::new());
                if self.complete(bbs, failed).await == Answer::Silence {
                    return Heard::Silence;
                }
                self.delete(&container.guid).await;
            }
        }
        Heard::Answer
    }

    async fn call(&self, bbs: &Client, call: Call, container: &Container) -> Answer {
        match &container.owner {
            Owner::Lrp { key, instance } => self.call_for_lrp(bbs, call, container, (key, instance)).await,
            Owner::Task { guid, .. } => self.call_for_task(bbs, call, container, guid).await,
        }
    }

    async fn call_for_lrp(
        &self,
        bbs: &Client,
        call: Call,
        container: &Container,
        (key, instance): (&ActualLrpKey, &InstanceGuid),
    ) -> Answer {
        let name = (spec::key(key), spec::instance_key(instance, &self.cell));
        let process_guid = key.process_guid.as_str();
        match call {
            Call::Claim { .. } => answer(bbs.claim_actual_lrp(process_guid, key.index, name.1).await, &container.guid),
            Call::Start => answer(bbs.start_actual_lrp(self.start_request(container, name)).await, &container.guid),
            Call::Remove => answer(bbs.remove_actual_lrp(process_guid, key.index, Some(name.1)).await, &container.guid),
            Call::Crash => {
                self.metrics.crashes.inc();
                answer(bbs.crash_actual_lrp(name.0, name.1, &reason(container)).await, &container.guid)
            }
            Call::EvacuateClaimed => evacuated(bbs.evacuate_claimed_actual_lrp(name.0, name.1).await, container),
            Call::EvacuateRunning => {
                let start = self.start_request(container, name);
                let request = EvacuateRunningActualLrpRequest {
                    actual_lrp_key: start.actual_lrp_key,
                    actual_lrp_instance_key: start.actual_lrp_instance_key,
                    actual_lrp_net_info: start.actual_lrp_net_info,
                    actual_lrp_internal_routes: start.actual_lrp_internal_routes,
                    metric_tags: start.metric_tags,
                    routable: start.routable,
                    availability_zone: start.availability_zone,
                };
                evacuated(bbs.evacuate_running_actual_lrp(request).await, container)
            }
            Call::EvacuateStopped => evacuated(bbs.evacuate_stopped_actual_lrp(name.0, name.1).await, container),
            Call::EvacuateCrashed => {
                evacuated(bbs.evacuate_crashed_actual_lrp(name.0, name.1, &reason(container)).await, container)
            }
            // Planned for tasks only.
            Call::StartTask { .. } | Call::RejectTask | Call::CompleteTask => Answer::Silence,
        }
    }

    async fn call_for_task(&self, bbs: &Client, call: Call, container: &Container, guid: &TaskGuid) -> Answer {
        match call {
            Call::StartTask { .. } => match bbs.start_task(guid.as_str(), self.cell.as_str()).await {
                Ok(true) => Answer::Done,
                Ok(false) => Answer::RunningAlready,
                Err(error) => answer(Err(error), &container.guid),
            },
            Call::RejectTask => answer(bbs.reject_task(guid.as_str(), &reason(container)).await, &container.guid),
            Call::CompleteTask => {
                // Whoever stops a task does not get its result.
                let ended = match container.ending.as_ref().filter(|ending| ending.failed || ending.stopped) {
                    Some(_) => Err(reason(container)),
                    None => match self.result(bbs, container, guid).await {
                        Ok(result) => result,
                        Err(silence) => return silence,
                    },
                };
                let request = match ended {
                    Ok(result) => self.completion(&container.owner, None, result),
                    Err(failure) => self.completion(&container.owner, Some(&failure), String::new()),
                };
                self.complete(bbs, request).await
            }
            // Planned for instances only.
            _ => Answer::Silence,
        }
    }

    /// Whether the record of an instance says what its container would.
    pub(super) fn agrees(&self, record: &ActualLrp, container: &Container) -> bool {
        let Owner::Lrp { key, instance } = &container.owner else { return false };
        let name = (spec::key(key), spec::instance_key(instance, &self.cell));
        agrees(record, container.state, &self.start_request(container, name))
    }

    fn start_request(
        &self,
        container: &Container,
        (key, instance_key): (api::models::ActualLrpKey, api::models::ActualLrpInstanceKey),
    ) -> StartActualLrpRequest {
        StartActualLrpRequest {
            actual_lrp_key: Some(key),
            actual_lrp_instance_key: Some(instance_key),
            actual_lrp_net_info: Some(spec::net_info(container, self.prefer_instance_address)),
            actual_lrp_internal_routes: spec::internal_routes(container),
            metric_tags: container.metric_tags.clone(),
            routable: Some(container.is_routable),
            availability_zone: self.zone.clone(),
            definition_number: container.definition.map_or(0, |number| number.0),
        }
    }

    /// The content of the result file. Which file that is, is asked of the state server, because a cell that was started again
    /// does not know it any more.
    async fn result(
        &self,
        bbs: &Client,
        container: &Container,
        guid: &TaskGuid,
    ) -> Result<Result<String, String>, Answer> {
        let path = match bbs.task_by_guid(guid.as_str()).await {
            Ok(task) => task.task_definition.map(|definition| definition.result_file).unwrap_or_default(),
            Err(error) => match answer(Err(error), &container.guid) {
                // Nobody will ask for the result either; what completing says decides.
                Answer::Refused(_) => String::new(),
                silence => return Err(silence),
            },
        };
        if path.is_empty() {
            return Ok(Ok(String::new()));
        }
        Ok(match self.executor.file(&container.guid, &path, RESULT_BYTES_MAX).await {
            Ok(content) => Ok(text(&content)),
            Err(error) => {
                tracing::warn!(container = %container.guid, %error, "the result of a task cannot be read");
                Err(RESULT_UNREADABLE.to_owned())
            }
        })
    }

    fn completion(&self, owner: &Owner, failure: Option<&str>, result: String) -> CompleteTaskRequest {
        CompleteTaskRequest {
            task_guid: owner.container().as_str().to_owned(),
            cell_id: self.cell.as_str().to_owned(),
            failed: failure.is_some(),
            failure_reason: failure.unwrap_or_default().to_owned(),
            result,
        }
    }

    async fn complete(&self, bbs: &Client, request: CompleteTaskRequest) -> Answer {
        let guid = request.task_guid.clone();
        let outcome = bbs.complete_task(request).await;
        judge(outcome, &guid)
    }

    async fn run(&self, bbs: &Client, container: &Container) -> Heard {
        match self.try_run(bbs, container).await {
            Ok(()) => Heard::Answer,
            Err(NotRun::Silence) => Heard::Silence,
            Err(NotRun::Hopeless(why)) => {
                tracing::warn!(container = %container.guid, why, "accepted work cannot be run here and is given back");
                self.give_back(bbs, container, &why).await
            }
        }
    }

    async fn try_run(&self, bbs: &Client, container: &Container) -> Result<(), NotRun> {
        let fetched = match &container.owner {
            Owner::Lrp { key, instance } => {
                let name = spec::instance_key(instance, &self.cell);
                let desired = bbs.desired_lrp_of_instance(key.process_guid.as_str(), name).await;
                desired.map(|desired| spec::of_lrp(desired, key, instance))
            }
            Owner::Task { guid, .. } => {
                let task = bbs.task_by_guid(guid.as_str()).await;
                task.map(|task| spec::of_task(task.task_definition.unwrap_or_default()))
            }
        };
        let (spec, update) = match fetched {
            Ok(fetched) => fetched,
            Err(error) => {
                let why = error.to_string();
                return Err(match answer(Err(error), &container.guid) {
                    Answer::Refused(_) => NotRun::Hopeless(why),
                    _ => NotRun::Silence,
                });
            }
        };
        // Before it runs, so that the first thing that the state server hears of it is complete.
        self.note(&container.guid, "updated", self.executor.update(&container.guid, update).await);
        match self.executor.run(&container.guid, spec).await {
            // Another look was faster; what runs, runs.
            Ok(()) | Err(ExecutorError::WrongState { .. } | ExecutorError::Unknown { .. }) => Ok(()),
            Err(error) => Err(NotRun::Hopeless(error.to_string())),
        }
    }

    async fn give_back(&self, bbs: &Client, container: &Container, why: &str) -> Heard {
        let outcome = match &container.owner {
            Owner::Lrp { key, instance } => {
                let instance_key = spec::instance_key(instance, &self.cell);
                bbs.remove_actual_lrp(key.process_guid.as_str(), key.index, Some(instance_key)).await
            }
            Owner::Task { guid, .. } => bbs.reject_task(guid.as_str(), why).await,
        };
        if answer(outcome, &container.guid) == Answer::Silence {
            return Heard::Silence;
        }
        self.delete(&container.guid).await;
        Heard::Answer
    }

    /// A record says that something is here, and it is not.
    pub(super) async fn settle_orphan(&self, bbs: &Client, orphan: &Orphan) -> Heard {
        let guid = orphan.owner.container();
        tracing::info!(container = %guid, residue = ?orphan.residue, "a record without a container is cleared away");
        let answer = match (&orphan.owner, orphan.residue) {
            (Owner::Lrp { key, instance }, Residue::EvacuatingInstance) => {
                let (key, instance) = (spec::key(key), spec::instance_key(instance, &self.cell));
                answer(bbs.remove_evacuating_actual_lrp(key, instance).await, &guid)
            }
            (Owner::Lrp { key, instance }, _) => {
                let instance = spec::instance_key(instance, &self.cell);
                answer(bbs.remove_actual_lrp(key.process_guid.as_str(), key.index, Some(instance)).await, &guid)
            }
            (owner @ Owner::Task { .. }, _) => {
                let reason = Some(TASK_WITHOUT_CONTAINER);
                self.complete(bbs, self.completion(owner, reason, TASK_WITHOUT_CONTAINER.to_owned())).await
            }
        };
        if answer == Answer::Silence { Heard::Silence } else { Heard::Answer }
    }

    async fn delete(&self, guid: &ContainerGuid) {
        self.note(guid, "deleted", self.executor.delete(guid).await);
    }

    /// The next look finds out whether it matters.
    fn note(&self, guid: &ContainerGuid, what: &str, outcome: Result<(), ExecutorError>) {
        match outcome {
            Ok(()) | Err(ExecutorError::Unknown { .. }) => {}
            Err(error) => tracing::warn!(container = %guid, %error, "a container could not be {what}"),
        }
    }
}

fn reason(container: &Container) -> String {
    let ending = container.ending.as_ref();
    let reason = ending.map(|ending| ending.reason.as_str()).filter(|reason| !reason.is_empty());
    let is_stopped = ending.is_some_and(|ending| ending.stopped);
    truncate_reason(reason.unwrap_or(if is_stopped { STOPPED } else { NO_REASON }))
}

fn text(content: &Bytes) -> String {
    String::from_utf8_lossy(content).into_owned()
}

fn answer(outcome: Result<(), ClientError>, guid: &ContainerGuid) -> Answer {
    judge(outcome, guid.as_str())
}

fn judge(outcome: Result<(), ClientError>, guid: &str) -> Answer {
    let Err(error) = outcome else { return Answer::Done };
    match error.bbs() {
        // It answers, and its database does not.
        Some(refusal) if !refusal.retryable() && refusal.kind() != Type::Unrecoverable => {
            tracing::debug!(container = guid, %error, "refused");
            Answer::Refused(refusal.kind())
        }
        _ => {
            tracing::debug!(container = guid, %error, "no answer that counts");
            Answer::Silence
        }
    }
}

fn evacuated(evacuation: Evacuation, container: &Container) -> Answer {
    match (answer(evacuation.outcome, &container.guid), evacuation.keep_container) {
        (Answer::Done, true) => Answer::Keep,
        (Answer::Refused(_), true) => Answer::RefusedKeep,
        (answer, _) => answer,
    }
}
