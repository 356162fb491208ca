//! Plays lines of calls against a server and writes down what came of each: the answer, what was announced, what would have
//! been asked of auctioneer and cells. A test is a script and its transcript.
//!
//! An instance `p/0` is index 0 of process `p`; a container `a` is on `cell-a`, `a@z` on the cell `z`.

use std::fmt::Write;

use api::Route;
use api::client::{Client, Evacuation, EventStream};
use api::models::{ActualLrpLifecycleResponse, CompleteTaskRequest, DesiredLrp, DesiredLrpUpdate, EvacuationResponse};
use bbs::clock::Clock;
use bbs::commands::Effect;
use expect_test::Expect;
use model::ActualLrp;

use crate::assembled::Assembled;
use crate::harness::verdict;
use crate::narrate;
use crate::samples::{self, instance, key};

/// What a transcript shows beside the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Answers,
    Events,
}

/// Plays the script on a fresh server and compares the transcript.
pub(crate) async fn check(show: Show, script: &str, expected: Expect) {
    let mut play = Play::new(show).await;
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        play.line(line).await;
    }
    expected.assert_eq(&play.transcript);
}

struct Play {
    world: Assembled,
    client: Client,
    streams: Vec<(&'static str, EventStream)>,
    fences: usize,
    transcript: String,
}

impl Play {
    async fn new(show: Show) -> Self {
        let world = Assembled::new().await;
        let client = world.client();
        let mut streams = Vec::new();
        if show == Show::Events {
            streams.push(("group   ", client.subscribe_to_events(Default::default()).await.unwrap()));
            streams.push(("instance", client.subscribe_to_instance_events(Default::default()).await.unwrap()));
            streams.push(("task    ", client.subscribe_to_task_events(Default::default()).await.unwrap()));
        }
        Self { world, client, streams, fences: 0, transcript: String::new() }
    }

    async fn line(&mut self, line: &str) {
        let answer = self.call(&line.split_whitespace().collect::<Vec<_>>()).await;
        match answer.as_str() {
            "" => writeln!(self.transcript, "{line}").unwrap(),
            list if list.starts_with(' ') => writeln!(self.transcript, "{line}:\n{list}").unwrap(),
            answer => writeln!(self.transcript, "{line}: {answer}").unwrap(),
        }
        let effects = std::iter::from_fn(|| self.world.effects.try_recv().ok());
        let mut effects: Vec<_> =
            effects.map(|traced| told(&traced.effect)).filter(|told| !told.contains("fence")).collect();
        // The passes over LRPs and tasks run side by side, so what they ask for comes in no particular order.
        effects.sort();
        self.events().await;
        for effect in &effects {
            writeln!(self.transcript, "    then {effect}").unwrap();
        }
    }

    /// Events come in commit order, so when those of a last change are there, all before them are.
    async fn events(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        self.fences += 1;
        let fence = format!("fence-{}", self.fences);
        self.client.desire_lrp(samples::lrp(&fence, 0)).await.unwrap();
        self.client.desire_task(&fence, "fence", samples::task()).await.unwrap();
        for (name, stream) in &mut self.streams {
            loop {
                let event = stream.next().await.unwrap().expect("the stream goes on");
                let event = narrate::event(&event.payload);
                if event.contains(&fence) {
                    break;
                }
                // Older fences age like everything else.
                if !event.contains("fence-") {
                    writeln!(self.transcript, "    {name} {event}").unwrap();
                }
            }
        }
        while self.world.effects.try_recv().is_ok() {}
    }

    async fn call(&mut self, words: &[&str]) -> String {
        let client = self.client.clone();
        match words {
            ["trace", id, rest @ ..] => {
                let before = std::mem::replace(&mut self.client, client.with_trace_id(id).unwrap());
                let answer = Box::pin(self.call(rest)).await;
                self.client = before;
                answer
            }
            ["desire", guid, instances, rest @ ..] => {
                let mut lrp = samples::lrp(guid, instances.parse().unwrap());
                if rest == ["recreate"] {
                    lrp.update_strategy = 1;
                }
                verdict(client.desire_lrp(lrp).await)
            }
            ["scale", guid, instances] => {
                let update = DesiredLrpUpdate { instances: Some(instances.parse().unwrap()), ..Default::default() };
                verdict(client.update_desired_lrp(guid, update).await)
            }
            ["redefine", guid, identifier, rest @ ..] => {
                let update = DesiredLrpUpdate {
                    instances: rest.first().map(|instances| instances.parse().unwrap()),
                    ..samples::redefinition(identifier)
                };
                verdict(client.update_desired_lrp(guid, update).await)
            }
            ["definitions", guid] => self.definitions(guid),
            ["roll"] => self.roll().await,
            ["cancel-update", guid] => verdict(client.cancel_update(guid).await),
            ["pause", guid] => verdict(client.pause_update(guid).await),
            ["resume", guid] => verdict(client.resume_update(guid).await),
            ["rollback", guid, to @ ..] => {
                let to = to.first().map(|to| (*to).to_owned());
                verdict(client.rollback_desired_lrp(guid, to, None).await)
            }
            ["update-nothing", guid] => verdict(client.update_desired_lrp(guid, Default::default()).await),
            ["unwant", guid] => verdict(client.remove_desired_lrp(guid).await),
            ["tag", guid] => self.tag(guid).await,
            ["advance", seconds] => {
                self.world.clock.advance(seconds.parse::<i64>().unwrap() * model::NANOS_PER_SECOND);
                String::new()
            }
            ["domain", name, ttl] => verdict(client.upsert_domain(name, ttl.parse().unwrap()).await),
            ["domains"] => format!("{:?}", client.domains().await.unwrap()),
            ["hear", cells @ ..] => {
                cells.iter().for_each(|cell| self.world.hear(cell));
                String::new()
            }
            ["lose", cell] => {
                self.world.lose(cell);
                String::new()
            }
            ["converge"] => self.world.converger.pass().await.map_or_else(|error| error.to_string(), |()| "ok".into()),
            ["rows"] => self.rows().await,
            ["tasks"] => self.tasks().await,
            [task_call, guid, rest @ ..] if !guid.contains('/') => task(&client, task_call, guid, rest).await,
            [call, place, rest @ ..] => {
                let (guid, index) = place.split_once('/').unwrap();
                actual(&client, call, (guid, index.parse().unwrap()), rest).await
            }
            _ => panic!("no such call: {words:?}"),
        }
    }

    /// What the loop that drives rollouts does when it looks, until it has nothing more to do.
    async fn roll(&self) -> String {
        const LOOKS_MAX: usize = 20;
        for _ in 0..LOOKS_MAX {
            let board = self.world.app.board.load_full();
            if let Err(error) = self.world.driver.look(&board, self.world.clock.now_ns()).await {
                return error.to_string();
            }
            if self.world.app.board.load().revision == board.revision {
                return String::new();
            }
        }
        panic!("it never has enough");
    }

    async fn tag(&self, guid: &str) -> String {
        match self.client.desired_lrp_by_process_guid(guid).await {
            Ok(DesiredLrp { modification_tag: Some(tag), .. }) => tag.index.to_string(),
            other => verdict(other),
        }
    }

    /// What the board knows and the wire does not show.
    fn definitions(&self, guid: &str) -> String {
        let board = self.world.app.board.load();
        let guid = model::ProcessGuid::parse(guid).unwrap();
        let lrp = board.desired.get(&guid).map(|entry| {
            let lrp = &entry.lrp;
            let previous = lrp.previous.as_ref().map_or(String::new(), |previous| format!(", previous {previous:?}"));
            let rollout = lrp.history.as_ref().and_then(|history| history.rollout.as_ref());
            let rollout = rollout.map_or(String::new(), told_rollout);
            format!("in use {} {:?}{previous}{rollout}", lrp.definition, lrp.definition_identifier)
        });
        let rows = board.slots_of(&guid).flat_map(|(_, entry)| entry.slot.rows()).map(|row| {
            let leaving = if row.leaving { " and leaves" } else { "" };
            let ActualLrp { key, state, presence, definition, .. } = &**row;
            format!("{guid}/{} {state} {presence:?} names {definition}{leaving}", key.index)
        });
        listed(lrp.into_iter().chain(rows))
    }

    async fn rows(&self) -> String {
        let rows = self.client.actual_lrps(Default::default()).await.unwrap();
        listed(rows.iter().map(narrate::row_in_full))
    }

    async fn tasks(&self) -> String {
        let tasks = self.client.tasks(Default::default()).await.unwrap();
        listed(tasks.iter().filter(|task| task.domain != "fence").map(narrate::task))
    }
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.map(|item| format!("    {item}")).collect();
    if items.is_empty() { "none".into() } else { items.join("\n") }
}

async fn task(client: &Client, call: &str, guid: &str, rest: &[&str]) -> String {
    match (call, rest) {
        ("task", []) => verdict(client.desire_task(guid, samples::DOMAIN, samples::task()).await),
        ("task", [url]) => {
            let definition =
                api::models::TaskDefinition { completion_callback_url: (*url).to_owned(), ..samples::task() };
            verdict(client.desire_task(guid, samples::DOMAIN, definition).await)
        }
        ("start-task", [cell]) => match client.start_task(guid, cell).await {
            Ok(should_start) => format!("should_start={should_start}"),
            error => verdict(error),
        },
        ("complete", [cell, rest @ ..]) => {
            let request = CompleteTaskRequest {
                task_guid: guid.into(),
                cell_id: (*cell).into(),
                failed: rest.first() == Some(&"failed"),
                failure_reason: rest.get(1).copied().unwrap_or_default().into(),
                result: if rest.is_empty() { "done".into() } else { String::new() },
            };
            verdict(client.complete_task(request).await)
        }
        ("cancel", []) => verdict(client.cancel_task(guid).await),
        ("fail-task", [reason]) => verdict(client.fail_task(guid, reason).await),
        ("reject", [reason]) => verdict(client.reject_task(guid, reason).await),
        ("resolving", []) => verdict(client.resolving_task(guid).await),
        ("delete", []) => verdict(client.delete_task(guid).await),
        _ => panic!("no such call: {call} {guid} {rest:?}"),
    }
}

async fn actual(client: &Client, call: &str, (guid, index): (&str, i32), rest: &[&str]) -> String {
    let key = key(guid, index);
    match (call, rest) {
        ("claim", [by]) => verdict(client.claim_actual_lrp(guid, index, instance(by)).await),
        ("start", [by]) => verdict(client.start_actual_lrp(samples::start(guid, index, by)).await),
        ("start-r0", [by]) => {
            let call =
                client.call::<ActualLrpLifecycleResponse>(Route::StartActualLrpR0, samples::start(guid, index, by));
            verdict(call.await)
        }
        ("start", [by, "of", definition]) => {
            let definition_number = definition.parse().unwrap();
            let start = samples::start(guid, index, by);
            verdict(client.start_actual_lrp(api::models::StartActualLrpRequest { definition_number, ..start }).await)
        }
        ("start", [by, "unroutable"]) => {
            let request =
                api::models::StartActualLrpRequest { routable: Some(false), ..samples::start(guid, index, by) };
            verdict(client.start_actual_lrp(request).await)
        }
        ("start", [by, "in", domain]) => {
            let mut request = samples::start(guid, index, by);
            request.actual_lrp_key.as_mut().unwrap().domain = (*domain).into();
            verdict(client.start_actual_lrp(request).await)
        }
        ("crash", [by]) => verdict(client.crash_actual_lrp(key, instance(by), "it broke").await),
        ("fail", [reason]) => verdict(client.fail_actual_lrp(key, reason).await),
        ("remove", []) => verdict(client.remove_actual_lrp(guid, index, None).await),
        ("remove", [by]) => verdict(client.remove_actual_lrp(guid, index, Some(instance(by))).await),
        ("retire", []) => verdict(client.retire_actual_lrp(key).await),
        ("evacuate-claimed", [by]) => kept(client.evacuate_claimed_actual_lrp(key, instance(by)).await),
        ("evacuate-crashed", [by]) => kept(client.evacuate_crashed_actual_lrp(key, instance(by), "it broke").await),
        ("evacuate-stopped", [by]) => kept(client.evacuate_stopped_actual_lrp(key, instance(by)).await),
        ("evacuate-running", [by]) => {
            kept(client.evacuate_running_actual_lrp(samples::evacuate_running(guid, index, by)).await)
        }
        ("evacuate-running-r0", [by]) => {
            let request = samples::evacuate_running(guid, index, by);
            let answer = client.call::<EvacuationResponse>(Route::EvacuateRunningActualLrpR0, request).await;
            let keep_container = answer.as_ref().is_ok_and(|answer| answer.keep_container);
            kept(Evacuation { keep_container, outcome: answer.map(|_| ()) })
        }
        ("remove-evacuating", [by]) => verdict(client.remove_evacuating_actual_lrp(key, instance(by)).await),
        _ => panic!("no such call: {call} {guid}/{index} {rest:?}"),
    }
}

fn kept(evacuation: Evacuation) -> String {
    let keep = if evacuation.keep_container { "keep" } else { "let go" };
    format!("{keep}, {}", verdict(evacuation.outcome))
}

fn told_rollout(rollout: &model::Rollout) -> String {
    let model::Rollout { from, to, phase, reverts, why, flights, .. } = rollout;
    let flying: Vec<i32> = flights.iter().map(|flight| flight.index).collect();
    let back = if *reverts { " back" } else { "" };
    let why = if why.is_empty() { String::new() } else { format!(" because {why}") };
    format!("; {phase:?}{back} {from} to {to}, {flying:?} in flight{why}")
}

fn told(effect: &Effect) -> String {
    match effect {
        Effect::AuctionLrp { desired, indices } => format!("auction {} {indices:?}", desired.process_guid),
        Effect::AuctionTask(task) => format!("auction task {}", task.guid),
        Effect::StopInstance { key, instance } => {
            format!("stop {}/{} {}@{}", key.process_guid, key.index, instance.instance_guid, instance.cell_id)
        }
        Effect::UpdateInstance { key, routes, tags, .. } => {
            format!("update {}/{} routes={routes} tags={tags}", key.process_guid, key.index)
        }
        Effect::CancelTask { guid, cell } => format!("cancel {guid} on {cell}"),
        Effect::CallBack(guid) => format!("call back {guid}"),
    }
}
