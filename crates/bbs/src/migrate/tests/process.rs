//! The processes of the matrix: each from its beginning, with a crash on demand, and every way on from there.

use std::fmt;

use store::Version;
use store::memory::Memory;
use store::root::RootState;

use super::keyed::Keys;
use super::node::{Binary, Birth, End, Node, Operator, lost_power};
use super::world::{World, dump};
use crate::config::{Finalization, Mode};
use crate::migrate::ask::Ask;
use crate::migrate::status::State;

/// Commands during the process that is interrupted.
const COMMANDS: usize = 17;
/// Commands during each recovery.
const COMMANDS_AFTER: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    Migration,
    /// An operator finalizes it.
    Manual,
    Rollback,
    Abort,
    /// What is left to do after finalization.
    Cleanup,
}

impl Process {
    pub(crate) const ALL: [Self; 5] = [Self::Migration, Self::Manual, Self::Rollback, Self::Abort, Self::Cleanup];
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) from: Version,
    pub(crate) to: Version,
    pub(crate) process: Process,
    pub(crate) mode: Mode,
    pub(crate) poisoned: bool,
    pub(crate) in_flight: usize,
    pub(crate) keys: Keys,
    /// Under which key everything is at first, if anybody thinks of keys; see [`World::create`].
    pub(crate) sealed: Option<&'static str>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, process, .. } = self;
        let span = format!("{} to {}", from.name(), to.name());
        write!(f, "{span:<40} {:<10}", format!("{process:?}").to_lowercase())
    }
}

/// Where a machine dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Before(u64),
    After(u64),
}

impl Fault {
    pub(crate) fn set(self, store: &Memory) {
        match self {
            Self::Before(write) => store.fail_before_with(write, lost_power()),
            Self::After(write) => store.fail_after(write),
        }
    }
}

/// All spans of two versions.
pub(crate) fn spans() -> impl Iterator<Item = (Version, Version)> {
    let all = Version::ALL;
    all.iter().flat_map(|from| all.iter().filter(move |to| from < to).map(|to| (*from, *to)))
}

pub(crate) fn rows(mode: Mode, poisoned: bool) -> Vec<Row> {
    spans().flat_map(|(from, to)| Process::ALL.map(|process| Row::of(from, to, process, mode, poisoned))).collect()
}

impl Row {
    /// One that nobody thinks of keys in.
    pub(crate) fn of(from: Version, to: Version, process: Process, mode: Mode, poisoned: bool) -> Self {
        Self { from, to, process, mode, poisoned, in_flight: 1, keys: Keys::default(), sealed: None }
    }

    pub(crate) fn binary(&self, newest: Version) -> Binary {
        let finalization = match self.process {
            Process::Manual | Process::Abort => Finalization::Manual,
            Process::Migration | Process::Rollback | Process::Cleanup => Finalization::Auto,
        };
        Binary { newest, mode: self.mode, finalization, in_flight: self.in_flight, keys: self.keys }
    }

    fn operator(&self) -> Operator {
        match self.process {
            Process::Migration | Process::Manual | Process::Cleanup => Operator::Finalizes,
            Process::Rollback => Operator::RollsBack { to: self.from, accept_loss: self.poisoned },
            Process::Abort => Operator::Aborts,
        }
    }

    /// How the process ends if nothing goes wrong.
    fn end(&self) -> End {
        match self.process {
            Process::Rollback => End::RolledBack(self.from),
            Process::Abort => End::Rests(State::Held),
            _ if self.poisoned && self.from < self.to => End::Rests(State::Blocked),
            Process::Migration | Process::Manual | Process::Cleanup => End::Rests(State::None),
        }
    }

    /// The releases that may be started after a crash: the same, the one before and the newest.
    pub(crate) fn binaries(&self) -> Vec<Version> {
        let mut all = vec![self.from, self.to, Version::LATEST];
        all.dedup();
        all
    }

    /// The store and the world in which the process begins.
    pub(crate) async fn beginning(&self) -> (Memory, World) {
        match self.process {
            Process::Rollback => World::create(self.to, self.from, self.poisoned, self.sealed).await,
            Process::Migration | Process::Manual | Process::Abort => {
                World::create(self.from, self.from, self.poisoned, self.sealed).await
            }
            Process::Cleanup => self.just_finalized().await,
        }
    }

    /// Crashes a migration after the write that makes the newer version the current one.
    async fn just_finalized(&self) -> (Memory, World) {
        let keys = Keys::of(self.sealed.unwrap_or_default());
        let migration = Row { process: Process::Migration, keys, ..*self };
        let (store, world) = World::create(self.from, self.from, self.poisoned, self.sealed).await;
        for write in 1.. {
            let (store, mut world) = (store.copy(), world.clone());
            Fault::After(write).set(&store);
            assert_eq!(migration.run(&store, &mut world).await, End::Crashed, "it is finalized before it ends");
            let root = world.examine(&store, "just finalized").await;
            if root.version.unwrap().current == self.to.number() {
                return (store.copy(), world);
            }
        }
        unreachable!("a migration ends")
    }

    /// Runs the process until it ends, well or in a crash.
    pub(crate) async fn run(&self, store: &Memory, world: &mut World) -> End {
        match Node::start(store, self.binary(self.to), world).await {
            Birth::Alive(mut node) => node.live(world, &self.operator(), COMMANDS).await,
            Birth::Crashed => End::Crashed,
            Birth::ShutDown | Birth::KeysRefused(_) => panic!("{self}: it does not begin"),
        }
    }

    /// Runs without a fault and counts the writes.
    pub(crate) async fn count(&self, store: &Memory, world: &World) -> u64 {
        let (store, mut world) = (store.copy(), world.clone());
        let end = self.run(&store, &mut world).await;
        assert_eq!(end, self.end(), "{self}");
        world.examine(&store, &format!("{self} to its end")).await;
        store.writes()
    }

    /// Runs with another master coming up after so many writes: nothing is written after that.
    pub(crate) async fn depose(&self, store: &Memory, world: &World, after: u64) {
        let (store, mut world) = (store.copy(), world.clone());
        let Birth::Alive(mut node) = Node::start(&store, self.binary(self.to), &world).await else {
            panic!("{self}: it does not begin");
        };
        node.deposed_after = Some(after);
        let end = node.live(&mut world, &self.operator(), COMMANDS).await;
        let when = format!("{self}, deposed after write {after}");
        if let Some(before) = node.at_deposition.take() {
            assert_eq!(end, End::Crashed, "{when}");
            assert!(before == dump(&store).await, "{when}: a deposed master wrote");
        } else {
            assert_eq!(end, self.end(), "{when}");
        }
    }
}

/// What a release has to do, by the table of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Serve,
    Migrate,
    ShutDown,
}

fn table(root: &RootState, mine: Version) -> Table {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let version = root.version.as_ref().unwrap();
    match (version.current.cmp(&mine.number()), version.target.cmp(&mine.number())) {
        (Less, Less | Equal | Greater) => Table::Migrate,
        (Equal, Equal | Greater) => Table::Serve,
        (Equal, Less) | (Greater, _) => Table::ShutDown,
    }
}

/// What a recovery starts from, with a name for messages.
#[derive(Clone)]
pub(crate) struct Wreck<'a> {
    pub(crate) row: &'a Row,
    pub(crate) store: Memory,
    pub(crate) world: World,
    pub(crate) root: RootState,
    pub(crate) when: String,
}

impl Wreck<'_> {
    fn copied(&self) -> (Memory, World) {
        (self.store.copy(), self.world.clone())
    }

    /// Starts a release on a copy and checks that it does what the table says. Returns how many starts it took.
    pub(crate) async fn recover(&self, mine: Version) -> u64 {
        let (store, mut world) = self.copied();
        let when = format!("{}, then {}", self.when, mine.name());
        let before = dump(&store).await;
        let born = Node::start(&store, self.row.binary(mine), &world).await;
        match (table(&self.root, mine), born) {
            (Table::ShutDown, Birth::ShutDown) => {
                assert!(before == dump(&store).await, "{when}: it shut down, but wrote");
                let interrupted = self.root.version.as_ref().unwrap();
                if interrupted.current == mine.number() && interrupted.target < mine.number() {
                    return 1 + self.resume_rollback(mine).await + self.undo_rollback(mine).await;
                }
                1
            }
            (Table::Serve, Birth::Alive(node)) => {
                serve(*node, &mut world, &when).await;
                let mut starts = 1;
                if mine < self.row.to {
                    // The release before has served in between. Nothing of that is lost when the newer one takes over.
                    starts += self.migrate(&store, &mut world, self.row.to, &when).await;
                } else {
                    self.conclude(&store, &mut world, mine, &when).await;
                }
                starts
            }
            (Table::Migrate, Birth::Alive(node)) => {
                serve(*node, &mut world, &when).await;
                self.conclude(&store, &mut world, mine, &when).await;
                1
            }
            (table, _) => panic!("{when}: it did not do what the table says, {table:?}"),
        }
    }

    /// Dies once more while the same release recovers. `None` if it recovers before that.
    pub(crate) async fn crash_again(&self, fault: Fault) -> Option<Self> {
        let (store, mut world) = self.copied();
        let when = format!("{}, then crash {fault:?}", self.when);
        let binary = self.row.binary(self.row.to);
        fault.set(&store);
        let end = match Node::start(&store, binary, &world).await {
            Birth::Alive(mut node) => node.live(&mut world, &Operator::SeesToIt, COMMANDS_AFTER).await,
            Birth::Crashed => End::Crashed,
            Birth::ShutDown => match Node::errand(&store, binary, &world).await {
                Ok(mut node) => {
                    let operator = Operator::RollsBack { to: self.row.from, accept_loss: self.row.poisoned };
                    node.live(&mut world, &operator, 0).await
                }
                Err(_) => End::Crashed,
            },
            Birth::KeysRefused(why) => panic!("{when}: {why}"),
        };
        let root = world.examine(&store, &when).await;
        (end == End::Crashed).then(|| Self { store, world, root, when, ..self.clone() })
    }

    async fn migrate(&self, store: &Memory, world: &mut World, mine: Version, when: &str) -> u64 {
        let when = format!("{when}, then {}", mine.name());
        let Birth::Alive(node) = Node::start(store, self.row.binary(mine), world).await else {
            panic!("{when}: it does not start");
        };
        serve(*node, world, &when).await;
        self.conclude(store, world, mine, &when).await;
        1
    }

    /// One way out of a rollback that was interrupted: to finish it.
    async fn resume_rollback(&self, mine: Version) -> u64 {
        let (store, mut world) = self.copied();
        let to = self.row.from;
        let when = format!("{}, then the rollback is resumed", self.when);
        let mut node = Node::errand(&store, self.row.binary(mine), &world).await.unwrap();
        node.ask(Ask::Rollback { to: to.number(), accept_loss: self.row.poisoned }).await.unwrap();
        let end = node.live(&mut world, &Operator::Finalizes, 0).await;
        assert_eq!(end, End::RolledBack(to), "{when}");
        let root = world.examine(&store, &when).await;
        assert_eq!(table(&root, to), Table::Serve, "{when}");
        let Birth::Alive(node) = Node::start(&store, self.row.binary(to), &world).await else {
            panic!("{when}: the former release does not start");
        };
        serve(*node, &mut world, &when).await;
        2 + self.migrate(&store, &mut world, mine, &when).await
    }

    /// The other way: to undo it.
    async fn undo_rollback(&self, mine: Version) -> u64 {
        let (store, mut world) = self.copied();
        let when = format!("{}, then the rollback is undone", self.when);
        let mut node = Node::errand(&store, self.row.binary(mine), &world).await.unwrap();
        node.ask(Ask::Abort).await.unwrap();
        drop(node);
        1 + self.migrate(&store, &mut world, mine, &when).await
    }

    /// Everything is there, in one version, and nothing is left over, unless a record cannot be read.
    async fn conclude(&self, store: &Memory, world: &mut World, mine: Version, when: &str) {
        let root = world.examine(store, when).await;
        let version = root.version.as_ref().unwrap();
        let older: Vec<_> = root.roots.iter().filter(|root| **root < mine.number()).collect();
        assert_eq!((version.current, version.target), (mine.number(), version.target.max(mine.number())), "{when}");
        let came_from = self.root.version.as_ref().unwrap().current;
        if !self.row.poisoned {
            assert!(older.is_empty(), "{when}: {older:?} are left");
        } else if came_from < mine.number() {
            assert!(older.contains(&&came_from), "{when}: cleaned up beside a record that cannot be read");
            self.give_up_poison(store, world, mine, when).await;
        }
    }

    /// Once an operator has given up what cannot be read, cleaning up goes on.
    async fn give_up_poison(&self, store: &Memory, world: &World, mine: Version, when: &str) {
        let (store, mut world) = (store.copy(), world.clone());
        let Birth::Alive(mut node) = Node::start(&store, self.row.binary(mine), &world).await else {
            panic!("{when}: it does not start");
        };
        world.poisoned = false;
        let blocked = node.live(&mut world, &Operator::SeesToIt, 0).await;
        assert_eq!(blocked, End::Rests(State::Blocked), "{when}");
        for id in node.quarantine() {
            node.ask(Ask::Discard { id }).await.unwrap();
        }
        assert_eq!(node.live(&mut world, &Operator::SeesToIt, 0).await, End::Rests(State::None), "{when}");
        let root = world.examine(&store, when).await;
        assert!(root.roots.iter().all(|root| *root >= mine.number()), "{when}: {:?}", root.roots);
    }
}

/// A release that the table lets serve comes to rest with everything on its board.
async fn serve(mut node: Node, world: &mut World, when: &str) {
    let end = node.live(world, &Operator::SeesToIt, COMMANDS_AFTER).await;
    let rests = if world.poisoned { [State::None, State::Blocked] } else { [State::None; 2] };
    assert!(rests.iter().any(|state| end == End::Rests(*state)), "{when}: it ends as {end:?}");
    assert!(node.is_settled(), "{when}: it rests, and not all records are under the active key");
    world.compare(&node.board.load(), when);
}
