//! The durability of the writer: a fault before and after every single write of a long script, and what must hold then.
//!
//! The script runs once without a fault. That run is the measure: what each command leaves on the board and in which
//! writes, what each group answers, announces and asks for. Then it runs again for each write and each way to fail at it.
//! After every one of those runs the store is opened as after a crash, and the board that comes back is compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use store::memory::Memory;
use store::{BoxFuture, Mastership, Page, Step, Store, StoreError};
use tokio::sync::Semaphore;

use super::{GROUP_BYTES_MAX, GROUP_COMMANDS_MAX, WriteError, WriterEnd, apply, check_steps};
use crate::board::Board;
use crate::clock::Clock;
use crate::commands::{Command, Done, Draft, Setting};

mod rig;
mod workload;

use rig::{GroupClock, Outside, Reply, Rig, assert_same, reload, things};
use workload::{Expected, GROUPS, claim, desire, desire_task, desire_with, process, upsert_domain};

/// One command of the measuring run: the board after it, and the number of its last write.
struct Measured {
    board: Board,
    last_write: u64,
}

/// One group of the measuring run.
struct MeasuredGroup {
    commands: Vec<Command>,
    expected: Vec<Expected>,
    /// The board after the group, as the writer published it.
    board: Arc<Board>,
    each: Vec<Measured>,
    outside: Outside,
    last_write: u64,
}

/// Runs the script without a fault, through the writer for the outside and command by command for the writes.
async fn measure() -> Vec<MeasuredGroup> {
    let mut rig = Rig::new().await;
    let mut groups = Vec::new();
    let mut last_write = 0;
    for (number, group) in GROUPS.iter().enumerate() {
        rig.clock.turn_to(number);
        let before = rig.board();
        let (commands, expected): (Vec<_>, Vec<_>) = group(&before, rig.clock.now_ns()).into_iter().unzip();
        let each = measure_each(&before, number, &commands, last_write);
        check_replies(&rig.send(commands.clone()).await, &expected, &format!("group {number}"));
        last_write = each.last().map_or(last_write, |command| command.last_write);
        assert_eq!(rig.store.writes(), last_write, "group {number}: a write is a step");
        let (board, outside) = (rig.board(), rig.outside());
        assert_eq!(things(&board), things(&each.last().unwrap().board), "group {number}");
        groups.push(MeasuredGroup { commands, expected, board, each, outside, last_write });
    }
    let last = groups.last().unwrap();
    let (end, store) = rig.end().await;
    assert!(matches!(end, WriterEnd::Drained(_)), "{end:?}");
    assert_same(&reload(&store).await, &last.board, "without a fault");
    groups
}

fn measure_each(before: &Board, number: usize, commands: &[Command], writes_before: u64) -> Vec<Measured> {
    let clock = Arc::new(GroupClock::default());
    clock.turn_to(number);
    let setting = Setting { definitions_kept: 5, now_ns: clock.now_ns(), clock, task_rejections_max: 3 };
    let mut draft = Draft::new(before.clone(), setting, Arc::new(store::Forms::only(store::Version::LATEST)));
    let measured = commands.iter().map(|command| {
        // Refusals are looked at where the group goes through the writer.
        let _ = apply(&mut draft, command.clone(), Arc::from(""));
        Measured { board: draft.board.clone(), last_write: writes_before + draft.steps.len() as u64 }
    });
    measured.collect()
}

fn check_replies(replies: &[Reply], expected: &[Expected], when: &str) {
    assert_eq!(replies.len(), expected.len(), "{when}");
    for (at, (reply, expected)) in replies.iter().zip(expected).enumerate() {
        match (reply, expected) {
            (Ok(done), Ok(expected)) => assert_eq!(done, expected, "{when}, command {at}"),
            (Err(WriteError::Refused(refusal)), Err(expected)) => assert_eq!(refusal, expected, "{when}, command {at}"),
            _ => panic!("{when}, command {at}: {reply:?} instead of {expected:?}"),
        }
    }
}

/// The board before anything of group `number`.
fn board_before(groups: &[MeasuredGroup], number: usize) -> Arc<Board> {
    number.checked_sub(1).map_or_else(Arc::default, |before| groups[before].board.clone())
}

fn group_of(groups: &[MeasuredGroup], write: u64) -> usize {
    groups.iter().position(|group| write <= group.last_write).unwrap()
}

fn last_write(groups: &[MeasuredGroup]) -> u64 {
    groups.last().unwrap().last_write
}

/// Runs the groups before `number`, and checks that they go as measured.
async fn run_up_to(groups: &[MeasuredGroup], number: usize, rig: &mut Rig) {
    for (at, group) in groups[..number].iter().enumerate() {
        rig.clock.turn_to(at);
        check_replies(&rig.send(group.commands.clone()).await, &group.expected, &format!("group {at}"));
        assert_eq!(rig.outside(), group.outside, "group {at}");
    }
}

/// Runs the group that fails, and checks that nothing of it gets out.
async fn run_failing(groups: &[MeasuredGroup], number: usize, rig: &mut Rig, when: &str) {
    rig.clock.turn_to(number);
    let published = rig.board();
    let replies = rig.send(groups[number].commands.clone()).await;
    assert_eq!(replies.len(), groups[number].commands.len());
    assert!(replies.iter().all(|reply| matches!(reply, Err(WriteError::Store(_)))), "{when}: {replies:?}");
    assert!(Arc::ptr_eq(&published, &rig.board()), "{when}: readers see what they saw before");
    assert_eq!(rig.outside(), Outside::default(), "{when}: nothing is announced and nobody is called");
    assert_same(&rig.board(), &board_before(groups, number), when);
}

/// A failure whose outcome is known, and after which writing may go on: the group is as if it had never been sent.
#[tokio::test]
async fn after_a_known_failure_at_any_write_the_server_goes_on_and_has_lost_nothing() {
    let groups = measure().await;
    for write in 1..=last_write(&groups) {
        let (when, number) = (format!("a known failure of write {write}"), group_of(&groups, write));
        let mut rig = Rig::new().await;
        // Both kinds of such a failure have their turn, at every other write.
        if write % 2 == 0 {
            rig.store.fail_before(write);
        } else {
            rig.store.fail_before_with(write, StoreError::NoSpace { doing: "testing".into() });
        }
        run_up_to(&groups, number, &mut rig).await;
        run_failing(&groups, number, &mut rig, &when).await;
        // The clients try again, and from here on all is as if nothing had happened.
        for (at, group) in groups.iter().enumerate().skip(number) {
            rig.clock.turn_to(at);
            check_replies(&rig.send(group.commands.clone()).await, &group.expected, &when);
            assert_eq!(rig.outside(), group.outside, "{when}, group {at}");
        }
        let published = rig.board();
        published.check_indexes().unwrap();
        let (end, store) = rig.end().await;
        assert!(matches!(end, WriterEnd::Drained(_)), "{when}: {end:?}");
        assert_same(&published, &groups.last().unwrap().board, &when);
        assert_same(&reload(&store).await, &published, &when);
    }
}

/// A failure whose outcome is known and final: this node may not write any more.
#[tokio::test]
async fn a_deposed_master_stops_at_any_write_and_leaves_nothing_of_its_group() {
    let groups = measure().await;
    for write in 1..=last_write(&groups) {
        let (when, number) = (format!("deposed at write {write}"), group_of(&groups, write));
        let mut rig = Rig::new().await;
        rig.store.fail_before_with(write, StoreError::NotMaster);
        run_up_to(&groups, number, &mut rig).await;
        run_failing(&groups, number, &mut rig, &when).await;
        check_stopped(&rig).await;
        let (end, store) = rig.end().await;
        assert!(matches!(&end, WriterEnd::Failed(error) if matches!(**error, StoreError::NotMaster)), "{end:?}");
        assert_same(&reload(&store).await, &board_before(&groups, number), &when);
    }
}

/// The write is durable and nobody was told, or it is not and nobody can know.
#[tokio::test]
async fn after_an_unknown_outcome_at_any_write_the_server_stops_and_every_step_is_whole() {
    let groups = measure().await;
    let mut halfway = 0;
    for write in 1..=last_write(&groups) {
        for durable in [write - 1, write] {
            let (when, number) = (format!("write {write} unknown, {durable} durable"), group_of(&groups, write));
            let mut rig = Rig::new().await;
            if durable == write {
                rig.store.fail_after(write);
            } else {
                let source = std::io::Error::other("injected fault");
                rig.store.fail_before_with(write, StoreError::Unconfirmed { doing: "testing".into(), source });
            }
            run_up_to(&groups, number, &mut rig).await;
            run_failing(&groups, number, &mut rig, &when).await;
            check_stopped(&rig).await;
            let (end, store) = rig.end().await;
            assert!(matches!(&end, WriterEnd::Failed(error) if error.outcome_unknown()), "{when}: {end:?}");
            let found = reload(&store).await;
            assert_eq!(found.revision, durable, "{when}");
            halfway += usize::from(!check_prefix(&groups, number, durable, &found, &when));
        }
    }
    assert!(halfway > 4, "the script must stop some long commands between two of their steps: {halfway}");
}

/// The writer is gone: whoever comes now is told so and may try another node.
async fn check_stopped(rig: &Rig) {
    let replies = rig.send([upsert_domain("late", 0)]).await;
    assert!(matches!(replies[..], [Err(WriteError::Stopping)]), "{replies:?}");
}

/// Compares a board that came back with the measure: the commands whose writes are all durable are there in full, those
/// without one are not there at all, and of the one in between each thing is as it was before or as it is after.
///
/// Returns whether the durable writes ended with a whole command.
fn check_prefix(groups: &[MeasuredGroup], number: usize, durable: u64, found: &Board, when: &str) -> bool {
    let group = &groups[number];
    let whole = group.each.iter().rev().find(|command| command.last_write <= durable);
    let before = whole.map_or_else(|| board_before(groups, number), |command| Arc::new(command.board.clone()));
    let ends_whole = whole.map_or(number.checked_sub(1).map_or(0, |at| groups[at].last_write), |it| it.last_write);
    let (found, before) = (things(found), things(&before));
    if ends_whole == durable {
        assert!(found == before, "{when}: the board ends with a whole command");
        return true;
    }
    let cut = group.each.iter().find(|command| command.last_write > durable).unwrap();
    let after = things(&cut.board);
    let mut changed = 0;
    for name in found.keys().chain(before.keys()).chain(after.keys()) {
        let (is, was, becomes) = (found.get(name), before.get(name), after.get(name));
        assert!(is == was || is == becomes, "{when}: {name} is half changed: {is:?}");
        changed += usize::from(is != was);
    }
    assert!(changed > 0, "{when}: {} durable steps of the command changed nothing", durable - ends_whole);
    false
}

#[tokio::test]
async fn events_come_in_the_order_of_their_revisions_and_never_before_them() {
    let groups = measure().await;
    let mut published = [0; 3];
    for (number, group) in groups.iter().enumerate() {
        let first = board_before(&groups, number).revision + 1;
        for (stream, frames) in group.outside.frames.iter().enumerate() {
            let revisions: Vec<u64> = frames.iter().map(|frame| revision(frame)).collect();
            assert!(revisions.is_sorted(), "group {number}, stream {stream}: {revisions:?}");
            let of_the_group = first..=group.board.revision;
            assert!(revisions.iter().all(|revision| of_the_group.contains(revision)), "group {number}: {revisions:?}");
            published[stream] += frames.len();
        }
    }
    assert!(published.iter().all(|count| *count > 10), "{published:?}");
}

/// A frame begins with `id: 17` or `id: 17-2`.
fn revision(frame: &str) -> u64 {
    frame.strip_prefix("id: ").and_then(|rest| rest.split(['-', '\n']).next()).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_command_that_panics_changes_nothing_and_harms_nobody_else() {
    let mut rig = Rig::new().await;
    let defect = Command::PanicAfter(Box::new(desire("broken", 100)));
    let replies = rig.send([desire("first", 1), defect, claim("first", 0, "a"), desire("broken", 2)]).await;
    assert!(matches!(replies[..], [Ok(_), Err(WriteError::Panicked), Ok(_), Ok(_)]), "{replies:?}");
    let board = rig.board();
    assert_eq!(board.slots_of(&process("broken")).count(), 2, "of the panicking command nothing stayed");
    let Outside { frames: [_, instances, _], effects } = rig.outside();
    // Two processes and three instances were created, and one of the instances was claimed.
    assert_eq!(instances.len(), 6, "{instances:?}");
    assert_eq!(effects.len(), 2, "{effects:?}");
    let (end, store) = rig.end().await;
    assert!(matches!(end, WriterEnd::Drained(_)), "{end:?}");
    assert_same(&reload(&store).await, &board, "after the panic");
}

#[tokio::test]
async fn a_record_that_is_too_large_is_refused_alone() {
    let mut rig = Rig::new().await;
    let large = desire_with("large", 100, Bytes::from(vec![0; store::STEP_BYTES_MAX]));
    let replies = rig.send([desire("first", 1), large, desire("last", 1), claim("large", 0, "a")]).await;
    let [Ok(_), Err(WriteError::Store(error)), Ok(_), Err(WriteError::Refused(_))] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert!(matches!(**error, StoreError::TooLarge { .. }), "{error}");
    let board = rig.board();
    assert_eq!(
        things(&board).keys().collect::<Vec<_>>(),
        ["desired first", "desired last", "slot first/0", "slot last/0"]
    );
    let Outside { frames: [_, instances, _], effects } = rig.outside();
    assert_eq!((instances.len(), effects.len()), (4, 2), "only the two others are announced and placed");
    let (_, store) = rig.end().await;
    assert_same(&reload(&store).await, &board, "after the refusal");
}

/// A commit that no store would take must not be tried: it would end the writer, and one request would end the server.
#[test]
fn a_command_larger_than_a_commit_is_refused() {
    let mut step = Step::default();
    step.put("/k", Bytes::from(vec![0; store::STEP_BYTES_MAX - 2]));
    // The clones share the value, so this needs no memory worth speaking of.
    let fits = (store::GROUP_BYTES_MAX - GROUP_BYTES_MAX) / store::STEP_BYTES_MAX;
    assert!(check_steps(&vec![step.clone(); fits]).is_ok());
    let error = check_steps(&vec![step.clone(); fits + 1]).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { what: "bytes of all records of a request", .. }), "{error}");
    step.put("/k", Bytes::from(vec![0; 2]));
    assert!(matches!(check_steps(&[step]), Err(StoreError::TooLarge { what: "bytes of a step", .. })));
}

/// A store whose commits wait for the test, and are counted.
#[derive(Debug)]
struct Slow {
    inner: Memory,
    commits: AtomicU64,
    permits: Semaphore,
}

impl Store for Slow {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        self.inner.campaign(node)
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.resign(held)
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        self.inner.get(key)
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        self.inner.scan(prefix, after, limit)
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            self.commits.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.unwrap().forget();
            self.inner.commit(held, steps).await
        })
    }

    fn revision(&self) -> u64 {
        self.inner.revision()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

async fn slow_rig() -> (Arc<Slow>, Rig) {
    let slow = Arc::new(Slow { inner: Memory::new(), commits: AtomicU64::new(0), permits: Semaphore::new(0) });
    let held = slow.campaign("test").await.unwrap();
    let rig = Rig::over(slow.inner.clone(), slow.clone(), held);
    (slow, rig)
}

#[tokio::test]
async fn what_queues_up_behind_a_commit_shares_the_next_one() {
    const WAITING: u32 = 300;
    let (slow, rig) = slow_rig().await;
    let writer = rig.writer.clone().unwrap();
    let submit = |number| {
        let writer = writer.clone();
        tokio::spawn(async move { writer.submit(desire_task(number), Arc::from("")).await })
    };
    let first = submit(0);
    while slow.commits.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let waiting: Vec<_> = (1..=WAITING).map(submit).collect();
    while writer.queue.max_capacity() - writer.queue.capacity() < WAITING as usize {
        tokio::task::yield_now().await;
    }
    assert!(!first.is_finished(), "no reply before the store has confirmed");
    assert!(rig.board().tasks.is_empty(), "nothing is visible before the store has confirmed");
    slow.permits.add_permits(10);
    assert!(matches!(first.await.unwrap(), Ok(Done::Ok)));
    for reply in waiting {
        assert!(matches!(reply.await.unwrap(), Ok(Done::Ok)));
    }
    assert_eq!(slow.commits.load(Ordering::SeqCst), 2, "{WAITING} commands waited and shared one commit");
    assert!(WAITING as usize <= GROUP_COMMANDS_MAX);
    drop(writer);
    let published = rig.board();
    let (_, store) = rig.end().await;
    assert_same(&reload(&store).await, &published, "after two commits");
}

#[tokio::test]
async fn a_caller_that_hangs_up_takes_nothing_back() {
    let (slow, rig) = slow_rig().await;
    let writer = rig.writer.clone().unwrap();
    let caller = tokio::spawn(async move { writer.submit(desire("app", 2), Arc::from("")).await });
    while slow.commits.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    slow.permits.add_permits(10);
    let replies = rig.send([desire("app", 2)]).await;
    assert!(matches!(replies[..], [Err(WriteError::Refused(model::Refusal::Exists))]), "{replies:?}");
    assert_eq!(rig.board().slots_of(&process("app")).count(), 2);
}
