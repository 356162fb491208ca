//! A master, cells, and a clock that moves when nobody has anything to do. It is the same in every run, and can be copied at any
//! moment, so that one story is continued in many ways.
//!
//! Time passes in rounds. In each of them cells are heard, do what they were asked and report what they have; from time to time
//! convergence looks; then the driver looks until it has nothing more to do.

use std::fmt::Write;
use std::sync::Arc;

use model::rollout::plan::{Decision, Plan, plan};
use model::rollout::{Phase, Terms};
use model::{ActualState, NANOS_PER_SECOND, Nanos, Slot};
use store::memory::Memory;
use store::{Forms, Version};

use super::book::{Book, Commit, differences, lrp, slots};
use super::cells::{Cells, Stage};
use super::node::{Node, empty};
use super::stories::{OLD, Story, app, desire, steer, update_to, vouch};
use crate::board::Board;
use crate::cells::{GRACE_NS, PRESENCE_TTL_NS};
use crate::clock::{Clock, ManualClock};
use crate::commands::{Ask, Command, Done, Roll};
use crate::writer::WriteError;

/// So late that no record looks as if it were from before the beginning of time.
const START_NS: Nanos = 1_000_000 * NANOS_PER_SECOND;
const ROUND_NS: Nanos = 5 * NANOS_PER_SECOND;
const ROUNDS_BETWEEN_PASSES: u32 = 6;
/// A story that takes longer does not end.
const ROUNDS_MAX: u32 = 150;
/// Rounds after the end in which whoever has something to say says it; convergence looks at least once.
const ROUNDS_AFTER: u32 = 7;
const LOOKS_MAX: usize = 20;

/// Something that a fault brings with it.
#[derive(Clone, Debug)]
pub(super) enum Later {
    Resume,
    /// The cells that were silent are heard again.
    Hear,
    OneForm,
}

/// Everything but the master.
#[derive(Clone)]
pub(super) struct Play {
    pub(super) cells: Cells,
    pub(super) story: Option<Story>,
    pub(super) later: Vec<(u32, Later)>,
    /// What the instances of the story have at the end; set when the end is another than without a fault.
    pub(super) was_cancelled: bool,
    pub(super) was_deleted: bool,
    /// Changes may be refused meanwhile.
    pub(super) in_two_forms: bool,
    pub(super) round: u32,
    decided: usize,
    book: Book,
    pub(super) account: String,
}

pub(super) struct World {
    pub(super) node: Node,
    pub(super) play: Play,
    since_ns: Nanos,
}

/// A moment at which one more decision is about to be carried out, or something has happened that leads to none.
pub(super) struct Point {
    store: Memory,
    board: Arc<Board>,
    now_ns: Nanos,
    ids: u64,
    since_ns: Nanos,
    play: Play,
    /// The one, and those that were decided with it and follow.
    pub(super) decisions: Vec<Decision>,
    /// Where it happens.
    pub(super) index: i32,
}

impl Point {
    pub(super) async fn world(&self) -> World {
        let clock = Arc::new(ManualClock::at(self.now_ns));
        (0..self.ids).for_each(|_| drop(clock.fresh_id()));
        let node = Node::on(self.store.copy(), Board::clone(&self.board), clock, self.since_ns).await;
        let world = World { node, play: self.play.clone(), since_ns: self.since_ns };
        world.hear();
        world
    }
}

/// The app runs its third definition.
pub(super) async fn prepared() -> World {
    let clock = Arc::new(ManualClock::at(START_NS));
    let since_ns = START_NS - GRACE_NS;
    let store = empty().await;
    let mut board = Board::default();
    board.revision = store::Store::revision(&store);
    let node = Node::on(store, board, clock, since_ns).await;
    let play = Play {
        cells: Cells::new(),
        story: None,
        later: Vec::new(),
        was_cancelled: false,
        was_deleted: false,
        in_two_forms: false,
        round: 0,
        decided: 0,
        book: Book::default(),
        account: String::new(),
    };
    let mut world = World { node, play, since_ns };
    world.tell(vouch()).await;
    world.tell(desire()).await;
    for identifier in ["v2", OLD] {
        world.go_on().await;
        world.tell(update_to(identifier, Terms::default())).await;
    }
    world.go_on().await;
    world.play.account.clear();
    world
}

impl World {
    pub(super) fn board(&self) -> Arc<Board> {
        self.node.board.load_full()
    }

    pub(super) fn now_ns(&self) -> Nanos {
        self.node.clock.now_ns()
    }

    pub(super) fn note(&mut self, what: &str) {
        let second = (self.now_ns() - START_NS) / NANOS_PER_SECOND;
        writeln!(self.play.account, "{second:>4} s  {what}").unwrap();
    }

    pub(super) fn fail(&self, why: &str) -> ! {
        let rows: String = slots(&self.board()).map(|(index, slot)| format!("{index}: {}\n", shown(slot))).collect();
        panic!("{why}\n{}{rows}{:#?}", self.play.account, lrp(&self.board()).and_then(|lrp| lrp.history.clone()));
    }

    /// A command that is not refused.
    pub(super) async fn tell(&mut self, command: Command) {
        if let Err(error) = self.submit(command).await {
            self.fail(&error.to_string());
        }
    }

    pub(super) async fn submit(&mut self, command: Command) -> Result<Done, WriteError> {
        let before = self.board();
        let name = command.name();
        let reply = self.node.writer.submit(command, Arc::from("")).await;
        self.committed(&before, name);
        reply
    }

    /// Looks at what a commit has changed.
    pub(super) fn committed(&mut self, before: &Board, what: &str) {
        let after = self.board();
        let asked = self.node.asked();
        for (index, slot) in slots(&after).filter(|_| after.revision != before.revision) {
            let was = before.slot(&app(), index);
            if *slot != was {
                self.note(&format!("{what} {index}: {} -> {}", shown(&was), shown(slot)));
            }
        }
        let commit = Commit { before, after: &after, asked: &asked, what, now_ns: self.now_ns() };
        let checked = self.play.book.check(&commit, &self.play.cells);
        self.play.cells.asked.extend(asked);
        if let Err(why) = checked {
            self.fail(&format!("after {what}: {why}"));
        }
    }

    fn hear(&self) {
        self.node.registry.announce_all(self.play.cells.heard(), PRESENCE_TTL_NS, self.node.clock.uptime_ns());
    }

    pub(super) fn plan(&self) -> Plan {
        let board = self.board();
        let all: Vec<(i32, &Slot)> = slots(&board).collect();
        lrp(&board).map(|lrp| plan(lrp, &all, self.now_ns())).unwrap_or_default()
    }

    /// As the driver does when there is news. Returns whether something was decided.
    async fn look(&mut self) -> bool {
        let (before, plan) = (self.board(), self.plan());
        let looked = self.node.driver.look(&before, self.now_ns()).await;
        if let Err(error) = looked {
            if !self.play.in_two_forms {
                self.fail(&error.to_string());
            }
            return false;
        }
        if plan.decisions.is_empty() {
            if plan.look_ns.is_some_and(|at_ns| at_ns <= self.now_ns()) {
                self.fail("it would look again at once, for ever");
            }
            return false;
        }
        self.note(&format!("{:?}", plan.decisions));
        self.play.decided += plan.decisions.len();
        self.committed(&before, "roll");
        if self.board().revision == before.revision {
            self.fail("nothing came of what was decided");
        }
        true
    }

    async fn look_until_rest(&mut self) {
        for _ in 0..LOOKS_MAX {
            if !self.look().await {
                return;
            }
        }
        self.fail("it never has enough");
    }

    /// Plays until nothing more happens.
    pub(super) async fn go_on(&mut self) {
        let (mut calm, first) = (0, self.play.round);
        while calm < ROUNDS_AFTER {
            self.look_until_rest().await;
            calm = if self.is_over() { calm + 1 } else { 0 };
            if self.play.round - first > ROUNDS_MAX {
                self.fail("it does not end");
            }
            self.pass().await;
        }
    }

    /// Every index has its container, nothing waits, and nobody has anything to say.
    fn is_over(&self) -> bool {
        let board = self.board();
        let is_at_rest = |(_, slot): (i32, &Slot)| {
            let row = slot.ordinary.as_ref().filter(|row| row.state == ActualState::Running);
            let by = row.and_then(|row| row.instance.as_ref());
            by.is_some_and(|by| self.play.cells.serves(by)) && slot.rows().count() == 1
        };
        let is_over = lrp(&board).is_none_or(|lrp| lrp.rollout().is_none() && lrp.previous.is_none());
        is_over && slots(&board).all(is_at_rest) && self.play.later.is_empty()
    }

    /// The next round, up to the look of the driver.
    async fn pass(&mut self) {
        self.play.round += 1;
        self.node.clock.advance(ROUND_NS);
        for (_, later) in self.play.later.extract_if(.., |(due, _)| *due <= self.play.round).collect::<Vec<_>>() {
            self.happens(later).await;
        }
        self.hear();
        self.cells_act().await;
        if self.play.round.is_multiple_of(ROUNDS_BETWEEN_PASSES) {
            self.converge().await;
        }
        if self.is_time_to_cancel() {
            self.cancel().await;
        }
    }

    fn is_time_to_cancel(&self) -> bool {
        let Some(story) = self.play.story.filter(|_| !self.play.was_cancelled) else { return false };
        let board = self.board();
        let is_halted = lrp(&board).and_then(|lrp| lrp.rollout()).is_some_and(|rollout| rollout.phase == Phase::Halted);
        story.cancelled_after.is_some_and(|after| after <= self.play.decided)
            || (story.cancelled_when_halted && is_halted)
    }

    /// It may be over already, or the app may be gone.
    pub(super) async fn cancel(&mut self) -> bool {
        let cancelled = self.submit(steer(Ask::Cancel)).await.is_ok();
        self.note(if cancelled { "cancelled" } else { "too late to be cancelled" });
        self.play.was_cancelled |= cancelled;
        cancelled
    }

    async fn happens(&mut self, later: Later) {
        self.note(&format!("{later:?}"));
        match later {
            Later::Resume => drop(self.submit(steer(Ask::Resume)).await),
            Later::Hear => self.play.cells.end_of_silence(),
            Later::OneForm => {
                self.play.in_two_forms = false;
                self.node.store_in(Forms::only(Version::LATEST)).await;
            }
        }
    }

    pub(super) fn in_rounds(&mut self, rounds: u32, later: Later) {
        self.play.later.push((self.play.round + rounds, later));
    }

    pub(super) async fn converge(&mut self) {
        let before = self.board();
        let passed = self.node.converger.pass().await;
        assert!(passed.is_ok() || self.play.in_two_forms, "{passed:?}");
        self.committed(&before, "converge");
    }
}

/// Telling a story.
impl World {
    pub(super) async fn begin(&mut self, story: Story) {
        self.play.story = Some(story);
        self.play.decided = 0;
        self.tell(story.begin()).await;
    }

    /// Plays the story to its end and keeps every moment at which something is decided or has changed.
    pub(super) async fn record(&mut self) -> Vec<Point> {
        let (mut points, mut calm, mut seen) = (Vec::new(), 0, 0);
        while calm < ROUNDS_AFTER {
            loop {
                let decisions = self.plan().decisions;
                if decisions.is_empty() {
                    break;
                }
                for at in 0..decisions.len() {
                    points.push(self.point(decisions[at..].to_vec()));
                    self.carry_out(&decisions[at..=at]).await.unwrap();
                }
            }
            let board = self.board();
            if seen != board.revision && lrp(&board).is_some_and(|lrp| lrp.rollout().is_some()) {
                points.push(self.point(Vec::new()));
            }
            seen = board.revision;
            calm = if self.is_over() { calm + 1 } else { 0 };
            self.pass().await;
        }
        points
    }

    fn point(&self, decisions: Vec<Decision>) -> Point {
        let drawn = self.node.clock.fresh_id();
        let board = self.board();
        let flight = lrp(&board).and_then(|lrp| lrp.rollout()?.flights.first());
        let index = decisions.first().and_then(Decision::index).or(flight.map(|flight| flight.index)).unwrap_or(0);
        let ids = drawn.strip_prefix("id-").and_then(|number| number.parse::<u64>().ok()).unwrap() + 1;
        Point {
            store: self.node.store.copy(),
            board,
            index,
            now_ns: self.now_ns(),
            ids,
            since_ns: self.since_ns,
            play: self.play.clone(),
            decisions,
        }
    }

    /// What was decided, now or before something else happened.
    pub(super) async fn carry_out(&mut self, decisions: &[Decision]) -> Result<Done, WriteError> {
        self.note(&format!("{decisions:?}"));
        self.play.decided += decisions.len();
        let command = Roll { process_guid: app(), decisions: decisions.to_vec() };
        self.submit(Command::Roll(Box::new(command))).await
    }

    /// The same, of something that may have been overtaken: then it must not be done.
    pub(super) async fn carry_out_if_still_decided(&mut self, decision: &Decision) {
        let is_same = |other: &Decision| match (other, decision) {
            // Of what failed, the last reason counts as well as the first.
            (Decision::Turn { to, .. }, Decision::Turn { to: was, .. }) => to == was,
            (Decision::Halt { to, .. }, Decision::Halt { to: was, .. }) => to == was,
            (other, decision) => other == decision,
        };
        let (before, still) = (self.board().revision, self.plan().decisions.iter().any(is_same));
        let done = self.carry_out(std::slice::from_ref(decision)).await;
        if done.is_err() && !self.play.in_two_forms {
            self.fail(&format!("{done:?}"));
        }
        if !still && self.board().revision != before {
            self.fail("what was decided was overtaken, and done all the same");
        }
    }

    /// Somebody else becomes master, and finds `expected`.
    pub(super) async fn fail_over(&mut self, expected: &Board, keys: &str) {
        self.node = Node::after(&self.node.store, self.node.clock.clone(), keys).await;
        self.since_ns = self.node.clock.uptime_ns();
        self.hear();
        let found = self.board();
        let differ = differences(&found, expected);
        if !differ.is_empty() || !found.quarantine.is_empty() {
            self.fail(&format!("the next master finds something else: {differ:#?}"));
        }
        found.check_indexes().unwrap();
    }

    /// What must be so when all is over.
    pub(super) async fn check_the_end(&mut self) {
        let board = self.board();
        if let Some(stray) = self
            .play
            .cells
            .containers
            .iter()
            .find(|container| !slots(&board).any(|(_, slot)| slot.rows().any(|row| row.is_held_by(&container.by))))
        {
            self.fail(&format!("{stray:?} runs, and nobody knows of it"));
        }
        match lrp(&board) {
            Some(lrp) => self.check_the_app(&board, lrp),
            None if self.play.was_deleted && slots(&board).next().is_none() => {}
            None => self.fail("the app is gone, or not all of it"),
        }
        self.node.check_seals("at the end").await;
        let differ = differences(&self.node.read().await, &board);
        if !differ.is_empty() {
            self.fail(&format!("the store holds something else: {differ:#?}"));
        }
    }

    fn check_the_app(&self, board: &Board, lrp: &model::DesiredLrp) {
        let phase = lrp.history.as_ref().and_then(|history| history.rollout.as_ref()).map(|rollout| rollout.phase);
        let expected = self.play.story.map(|story| story.ends_at(self.play.was_cancelled));
        let is_row_good = |slot: &Slot| {
            let alone = slot.evacuating.is_none() && slot.suspect.is_none();
            let ordinary = slot.ordinary.as_ref().filter(|row| row.state == ActualState::Running && !row.leaving);
            alone && ordinary.is_some_and(|row| row.definition == lrp.definition)
        };
        let rows = slots(board).collect::<Vec<_>>();
        let complete = rows.iter().map(|(index, _)| *index).eq(0..lrp.instances);
        if phase != Some(Phase::Done)
            || Some(lrp.definition_identifier.as_str()) != expected
            || lrp.previous.is_some()
            || !complete
            || !rows.iter().all(|(_, slot)| is_row_good(slot))
            || self.play.was_deleted
        {
            self.fail(&format!("it does not end well: {phase:?} at {:?}", lrp.definition_identifier));
        }
        for (index, slot) in rows {
            let by = slot.ordinary.as_ref().and_then(|row| row.instance.clone());
            let stage = by.and_then(|by| self.play.cells.get(&by).map(|container| container.stage));
            if stage != Some(Stage::Running(lrp.definition)) {
                self.fail(&format!("the container of {index} is {stage:?}"));
            }
        }
    }
}

/// One line: the rows with their definitions.
fn shown(slot: &Slot) -> String {
    let row = |row: &Arc<model::ActualLrp>| {
        let by = row.instance.as_ref().map_or(String::new(), |by| format!(" {}@{}", by.instance_guid, by.cell_id));
        let leaving = if row.leaving { " leaves" } else { "" };
        format!("{:?} {} of {}{by}{leaving}", row.presence, row.state, row.definition)
    };
    if slot.is_empty() { "nothing".to_owned() } else { slot.rows().map(row).collect::<Vec<_>>().join(", ") }
}
