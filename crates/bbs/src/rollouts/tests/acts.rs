//! What cells do in a round: what they were asked, and what they report of what they have.

use model::{ActualLrpKey, InstanceKey, Presence, Refusal};

use super::book::{lrp, served, slots};
use super::cells::{Container, Stage, State, report};
use super::stories::{New, app, desire};
use super::world::World;
use crate::commands::{Claim, Command, Crash, Done, Effect, Evacuate, Evacuated, Remove, RemoveEvacuating, Start};
use crate::writer::WriteError;

/// How long a container takes that runs late.
const ROUNDS_LATE: u32 = 14;

impl World {
    pub(super) async fn cells_act(&mut self) {
        for effect in std::mem::take(&mut self.play.cells.asked) {
            match effect {
                Effect::AuctionLrp { indices, .. } => indices.into_iter().for_each(|at| self.play.cells.reserve(at)),
                Effect::StopInstance { instance, .. } => self.stop(&instance).await,
                _ => {}
            }
        }
        for container in self.play.cells.containers.clone() {
            match self.play.cells.state(&container.by.cell_id) {
                State::Serves => self.report(&container).await,
                State::Drains => self.hand_over(&container).await,
                State::Silent | State::Dead => {}
            }
        }
        self.clear_away().await;
    }

    pub(super) fn key(index: i32) -> ActualLrpKey {
        match desire() {
            Command::DesireLrp(command) => command.lrp.key(index),
            _ => unreachable!("it is one"),
        }
    }

    /// A container ends because somebody said so. Whoever says so must not take an index its last.
    async fn stop(&mut self, by: &InstanceKey) {
        let Some(container) = self.play.cells.get(by).cloned() else { return };
        let state = self.play.cells.state(&by.cell_id);
        if !self.play.cells.is_heard(&by.cell_id) {
            return;
        }
        self.note(&format!("{} of {} is stopped", by.instance_guid, container.index));
        self.delete(by);
        let key = Self::key(container.index);
        let ended = match state {
            State::Drains => Command::Evacuate(Box::new(Evacuate { key, by: by.clone(), what: Evacuated::Stopped })),
            _ => Command::Remove(Remove { process_guid: app(), index: container.index, by: Some(by.clone()) }),
        };
        // Its row may be gone already.
        let _ = self.submit(ended).await;
    }

    fn delete(&mut self, by: &InstanceKey) {
        let board = self.board();
        let before = served(&board, &self.play.cells);
        self.play.cells.delete(by);
        let wanted = lrp(&board).map_or(0, |lrp| lrp.instances);
        let after = served(&board, &self.play.cells);
        if before.iter().any(|index| *index < wanted && !after.contains(index)) {
            self.fail(&format!("the last of an index was stopped: {by:?}"));
        }
    }

    async fn report(&mut self, container: &Container) {
        let Container { index, by, stage } = container;
        match *stage {
            Stage::Reserved => self.claim(*index, by).await,
            Stage::Claimed(definition, since) => {
                let is_new = lrp(&self.board()).and_then(|lrp| lrp.identifier_of(definition)).map(str::to_owned);
                let story = self.play.story.filter(|story| Some(story.to) == is_new.as_deref());
                match story.map_or(New::Runs, |story| story.new) {
                    New::Hangs => self.claim_again(*index, by).await,
                    New::RunsLate if self.play.round < since + ROUNDS_LATE => self.claim_again(*index, by).await,
                    New::Crashes => self.crash(by, *index).await,
                    New::Runs | New::RunsLate => {
                        self.play.cells.set(by, Stage::Running(definition));
                        self.start(*index, by, true).await;
                    }
                }
            }
            Stage::Running(_) => self.start(*index, by, false).await,
        }
    }

    async fn claim(&mut self, index: i32, by: &InstanceKey) {
        let claim = Command::Claim(Claim { process_guid: app(), index, by: by.clone() });
        match self.submit(claim).await {
            Ok(_) => {
                let board = self.board();
                let row = slots(&board).flat_map(|(_, slot)| slot.rows()).find(|row| row.is_held_by(by)).cloned();
                match (lrp(&board), row) {
                    (Some(lrp), Some(row)) => {
                        let known = lrp.identifier_of(row.definition).map_or(lrp.definition, |_| row.definition);
                        self.play.cells.set(by, Stage::Claimed(known, self.play.round));
                    }
                    _ => self.play.cells.delete(by),
                }
            }
            Err(WriteError::Refused(_)) => self.play.cells.delete(by),
            Err(error) if self.play.in_two_forms => self.note(&error.to_string()),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Cells repeat it while the container is made.
    async fn claim_again(&mut self, index: i32, by: &InstanceKey) {
        let claim = Claim { process_guid: app(), index, by: by.clone() };
        if claim.changes_nothing(&self.board()) {
            return;
        }
        if let Err(WriteError::Refused(Refusal::CannotBeClaimed)) = self.submit(Command::Claim(claim)).await {
            self.play.cells.delete(by);
        }
    }

    /// Also the heartbeat; one that changes nothing does not get as far as the writer unless it is forced.
    pub(super) async fn start(&mut self, index: i32, by: &InstanceKey, forced: bool) {
        let Some(Stage::Running(number)) = self.play.cells.get(by).map(|container| container.stage) else { return };
        let start = Start { key: Self::key(index), by: by.clone(), report: report(), definition: Some(number) };
        if !forced && start.changes_nothing(&self.board()) {
            return;
        }
        if let Err(WriteError::Refused(Refusal::CannotBeStarted)) = self.submit(Command::Start(Box::new(start))).await {
            self.stop(by).await;
        }
    }

    pub(super) async fn crash(&mut self, by: &InstanceKey, index: i32) {
        self.play.cells.delete(by);
        let (key, reason) = (Self::key(index), "it broke".to_owned());
        let _ = self.submit(Command::Crash(Crash { key, by: by.clone(), reason })).await;
    }

    async fn hand_over(&mut self, container: &Container) {
        let Container { index, by, stage } = container;
        let what = match stage {
            Stage::Running(_) => Evacuated::Running(report()),
            Stage::Reserved | Stage::Claimed(..) => Evacuated::Claimed,
        };
        let evacuate = Evacuate { key: Self::key(*index), by: by.clone(), what };
        match self.submit(Command::Evacuate(Box::new(evacuate))).await {
            Ok(Done::Evacuated { keep: true, .. }) => {}
            Ok(_) => {
                self.note(&format!("{} of {index} is let go", by.instance_guid));
                self.delete(by);
            }
            Err(error) if self.play.in_two_forms => self.note(&error.to_string()),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// Records that name a container which is not there.
    async fn clear_away(&mut self) {
        let board = self.board();
        let rows = slots(&board).flat_map(|(index, slot)| slot.rows().map(move |row| (index, row)));
        for (index, row) in rows {
            let Some(by) = &row.instance else { continue };
            if !self.play.cells.is_heard(&by.cell_id) || self.play.cells.get(by).is_some() {
                continue;
            }
            let (key, by) = (Self::key(index), by.clone());
            let _ = match row.presence {
                Presence::Evacuating => self.submit(Command::RemoveEvacuating(RemoveEvacuating { key, by })).await,
                _ => self.submit(Command::Remove(Remove { process_guid: app(), index, by: Some(by) })).await,
            };
        }
    }
}
