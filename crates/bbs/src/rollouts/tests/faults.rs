//! Everything that can come between two decisions of a rollout.

use model::rollout::plan::Decision;
use model::{ActualLrp, DesiredUpdate, InstanceKey};
use store::StoreError;

use super::book::{lrp, slots};
use super::cells::State;
use super::node::both_forms;
use super::stories::{INSTANCES, app, steer, update};
use super::world::{Later, World};
use crate::commands::{Ask, Command, Effect, RemoveLrp};
use crate::writer::WriteError;

/// Longer than a presence holds, and than the time between two passes of convergence.
const SILENCE_ROUNDS: u32 = 10;
const PAUSE_ROUNDS: u32 = 3;
const TWO_FORMS_ROUNDS: u32 = 4;

/// Which of the two containers of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Of the definition that is being left.
    Old,
    New,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    FailOver,
    KeysBegun,
    KeysDone,
    DataRollbackRefused,
    DataInTwoForms,
    Drain(Which),
    Crash(Which),
    Lose(Which),
    Silence(Which),
    Converge,
    StopLost,
    AuctionLost,
    Heartbeats,
    ScaleUp,
    ScaleDown,
    Delete,
    PauseAndResume,
    Cancel,
}

impl Fault {
    pub(super) const ALL: [Self; 22] = [
        Self::FailOver,
        Self::KeysBegun,
        Self::KeysDone,
        Self::DataRollbackRefused,
        Self::DataInTwoForms,
        Self::Drain(Which::Old),
        Self::Drain(Which::New),
        Self::Crash(Which::Old),
        Self::Crash(Which::New),
        Self::Lose(Which::Old),
        Self::Lose(Which::New),
        Self::Silence(Which::Old),
        Self::Silence(Which::New),
        Self::Converge,
        Self::StopLost,
        Self::AuctionLost,
        Self::Heartbeats,
        Self::ScaleUp,
        Self::ScaleDown,
        Self::Delete,
        Self::PauseAndResume,
        Self::Cancel,
    ];

    /// Lets it happen, close to `index` where it is about one. `false` if there is nothing here that it could happen to.
    pub(super) async fn happens(self, world: &mut World, index: i32) -> bool {
        world.note(&format!("{self:?} at {index}"));
        match self {
            Self::FailOver => self.fail_over(world, "").await,
            Self::KeysBegun | Self::KeysDone => self.fail_over(world, "A").await,
            Self::DataRollbackRefused => {
                let refused = world.node.ask_for_the_version_before().await;
                assert_eq!(refused.code, "loss-refused", "{}", refused.message);
                assert!(refused.losses.iter().any(|loss| loss.id == "DesiredLRP app"), "{:?}", refused.losses);
            }
            Self::DataInTwoForms => {
                world.node.store_in(both_forms()).await;
                world.play.in_two_forms = true;
                world.in_rounds(TWO_FORMS_ROUNDS, Later::OneForm);
            }
            Self::Drain(which) => return turn_cell(world, index, which, State::Drains),
            Self::Lose(which) => return turn_cell(world, index, which, State::Dead),
            Self::Silence(which) => {
                world.in_rounds(SILENCE_ROUNDS, Later::Hear);
                return turn_cell(world, index, which, State::Silent);
            }
            Self::Crash(which) => {
                let Some(by) = container(world, index, which) else { return false };
                world.crash(&by, index).await;
            }
            Self::Converge => world.converge().await,
            Self::StopLost => return lose(world, |effect| matches!(effect, Effect::StopInstance { .. })),
            Self::AuctionLost => return lose(world, |effect| matches!(effect, Effect::AuctionLrp { .. })),
            Self::Heartbeats => {
                for container in world.play.cells.containers.clone() {
                    world.start(container.index, &container.by, true).await;
                }
            }
            Self::ScaleUp => world.tell(scale(INSTANCES + 2)).await,
            Self::ScaleDown => world.tell(scale(1)).await,
            Self::Delete => {
                world.play.was_deleted = true;
                world.tell(Command::RemoveLrp(RemoveLrp { process_guid: app() })).await;
            }
            Self::Cancel => return world.cancel().await,
            Self::PauseAndResume => {
                let paused = world.submit(steer(Ask::Pause)).await;
                world.in_rounds(PAUSE_ROUNDS, Later::Resume);
                return paused.is_ok();
            }
        }
        true
    }

    async fn fail_over(self, world: &mut World, keys: &str) {
        let before = world.board();
        world.fail_over(&before, keys).await;
        if self == Self::KeysDone {
            world.node.rotate().await;
        }
    }
}

fn scale(instances: i32) -> Command {
    update(DesiredUpdate { instances: Some(instances), ..DesiredUpdate::default() })
}

/// The container of an index that has the one definition or the other. Without a rollout there is only the new one.
fn container(world: &World, index: i32, which: Which) -> Option<InstanceKey> {
    let board = world.board();
    let in_use = lrp(&board)?.definition;
    let is_meant = |row: &ActualLrp| (row.definition == in_use) == (which == Which::New);
    let (_, slot) = slots(&board).find(|(at, _)| *at == index)?;
    let mut held = slot.rows().filter(|row| is_meant(row)).filter_map(|row| row.instance.clone());
    held.find(|by| world.play.cells.get(by).is_some())
}

fn turn_cell(world: &mut World, index: i32, which: Which, state: State) -> bool {
    let found = container(world, index, which);
    found.into_iter().inspect(|by| world.play.cells.turn(&by.cell_id, state)).count() > 0
}

/// What was asked of others is not heard by them.
fn lose(world: &mut World, is_meant: impl Fn(&Effect) -> bool) -> bool {
    let asked = &mut world.play.cells.asked;
    let before = asked.len();
    asked.retain(|effect| !is_meant(effect));
    asked.len() < before
}

/// What can become of the write of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFault {
    /// It is known not to be stored, and the master goes on.
    Refused,
    /// The master ends, and it is not stored.
    Lost,
    /// The master ends, and it is.
    Unanswered,
}

impl WriteFault {
    pub(super) const ALL: [Self; 3] = [Self::Refused, Self::Lost, Self::Unanswered];

    /// Carries out what was decided, and the first of it fails.
    pub(super) async fn happens(self, world: &mut World, decisions: &[Decision]) {
        world.note(&format!("{self:?}"));
        let (before, write) = (world.board(), world.node.store.writes() + 1);
        match self {
            Self::Refused => world.node.store.fail_before(write),
            Self::Lost => {
                let source = std::io::Error::other("the machine lost power");
                world.node.store.fail_before_with(write, StoreError::Unconfirmed { doing: "test".into(), source });
            }
            Self::Unanswered => world.node.store.fail_after(write),
        }
        let reply = world.carry_out(decisions).await;
        assert!(matches!(reply, Err(WriteError::Store(_))), "{reply:?}");
        if self == Self::Refused {
            // Whoever answered has nothing stored, so nothing has changed.
            assert_eq!(world.board().revision, before.revision);
        }
    }
}
