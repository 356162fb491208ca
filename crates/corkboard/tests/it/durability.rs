//! What was acknowledged is there after a crash, and nothing else is: the real server, killed again and again.
//!
//! Several writers, each with records of its own, send calls that must succeed and keep a model of what was acknowledged.
//! At a moment that the dice choose the server gets a SIGKILL. Of each writer at most one call is in doubt then. A new server
//! on the same directory must show, in every list and look-up, exactly the models, with each call in doubt carried out whole
//! or not at all. Followers of the event streams check that what they were told adds up to the same, unless they are warned.
//!
//! A kill takes the process and leaves the kernel, so this says nothing about a machine that loses power: what the store
//! does about torn and missing writes is tested where it is built.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::client::{Client, ClientError, TransportKind};
use api::models::ActualLrPsRequest;
use tempfile::TempDir;
use tokio::sync::watch;

pub(crate) mod census;
pub(crate) mod dice;
mod follower;
mod full_disk;
mod server;
pub(crate) mod world;

use census::{Census, Tags};
use dice::Dice;
use follower::{Follower, Kind};
use server::{Server, log_beside};
use world::{Op, World};

/// How many kills are looked at.
const KILLS: usize = 120;
const WRITERS: usize = 6;
/// The server is killed after at most so many acknowledged calls.
const CALLS_PER_LIFE_MAX: u64 = 150;
/// And up to so long after the last of them, to hit every part of a commit.
const KILL_DELAY_MAX_US: u64 = 3_000;
/// In one life of so many the writers pause before the kill, so that the followers have seen everything.
const QUIET_EVERY: usize = 5;

struct Writer {
    name: String,
    dice: Dice,
    /// As acknowledged.
    world: World,
    /// The call that was under way when the server died.
    doubt: Option<Op>,
    seen: Tags,
}

impl Writer {
    fn new(number: usize, dice: Dice) -> Self {
        let (world, doubt, seen) = (World::default(), None, Tags::default());
        Self { name: format!("w{number}"), dice, world, doubt, seen }
    }

    /// Sends calls until the server dies or the test says stop.
    async fn work(mut self, client: Client, acknowledged: watch::Sender<u64>, stop: Arc<AtomicBool>) -> Self {
        while !stop.load(Ordering::SeqCst) {
            let op = self.world.choose(&self.name, &mut self.dice);
            match op.clone().send(&client).await {
                Ok(()) => self.world = self.world.after(&op),
                Err(error @ ClientError::Bbs { .. }) => panic!("{op:?} was refused: {error}\nin {:#?}", self.world),
                Err(ClientError::Transport { kind: TransportKind::Refused, .. }) => return self,
                Err(_) => {
                    self.doubt = Some(op);
                    return self;
                }
            }
            acknowledged.send_modify(|count| *count += 1);
            if self.dice.below(8) == 0 && self.read_back(&client).await.is_err() {
                return self;
            }
        }
        self
    }

    /// What was acknowledged is visible at once.
    async fn read_back(&mut self, client: &Client) -> Result<(), ClientError> {
        let Some((guid, _)) = self.dice.pick(self.world.rows.keys()).cloned() else { return Ok(()) };
        let filter = ActualLrPsRequest { process_guid: guid.clone(), ..ActualLrPsRequest::default() };
        let rows = client.actual_lrps(filter).await?;
        let mut found = World::default();
        rows.iter().for_each(|row| found.put_row(row));
        let expected = self.world.rows.iter().filter(|((of, _), _)| *of == guid);
        let expected = expected.map(|(key, row)| (key.clone(), row.clone())).collect();
        assert_eq!(found.rows, expected, "{guid} is not shown as acknowledged");
        self.seen.add_rows(&rows);
        Ok(())
    }

    /// Compares what a new server shows with the model, and learns what became of the call in doubt: was it carried out?
    fn settle(&mut self, census: &Census, when: &str) -> Option<bool> {
        let found = census.world_of(&self.name);
        let Some(op) = self.doubt.take() else {
            assert_eq!(found, self.world, "{when}: not what {} was acknowledged", self.name);
            return None;
        };
        let after = self.world.after(&op);
        let whole = found == self.world || found == after;
        let allowed = if op.is_one_step(&self.world) { whole } else { found.is_between(&self.world, &after) };
        assert!(allowed, "{when}: neither without nor with {op:?}: {found:#?}\ninstead of {:#?}", self.world);
        let carried_out = found != self.world;
        self.world = found;
        Some(carried_out)
    }
}

/// What the test has met, so that it cannot pass without having tested anything.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    carried_out: usize,
    not_carried_out: usize,
    gaps: usize,
    resumed: usize,
}

struct Run {
    dir: TempDir,
    dice: Dice,
    writers: Vec<Writer>,
    followers: [Follower; 2],
    tags: Tags,
    tally: Tally,
    /// Whether the follower of LRPs had seen everything when the server was killed.
    was_quiet: bool,
}

impl Run {
    fn new(mut dice: Dice) -> Self {
        let writers = (0..WRITERS).map(|number| Writer::new(number, dice.split())).collect();
        let followers = [Follower::new(Kind::Tasks), Follower::new(Kind::Lrps)];
        let (tags, tally) = (Tags::default(), Tally::default());
        Self { dir: TempDir::new().unwrap(), dice, writers, followers, tags, tally, was_quiet: false }
    }

    async fn life(&mut self, number: usize) {
        let mut server = Server::start(&self.dir.path().join("board"));
        let when = format!("life {number}");
        let mut streams = Vec::new();
        let gaps_before = self.followers.each_ref().map(Follower::gaps);
        for follower in &self.followers {
            streams.push(follower.subscribe(&server.client).await);
        }
        let census = Census::take(&server.client).await;
        self.check_records(&census, &when);
        self.check_followers(&server.client, &census, gaps_before, &when).await;

        let quiet = number % QUIET_EVERY == QUIET_EVERY - 1;
        self.write_and_kill(&mut server, quiet).await;
        for stream in streams {
            stream.await.unwrap();
        }
        self.was_quiet = quiet;
    }

    fn check_records(&mut self, census: &Census, when: &str) {
        let mut expected = 0;
        for writer in &mut self.writers {
            match writer.settle(census, when) {
                Some(true) => self.tally.carried_out += 1,
                Some(false) => self.tally.not_carried_out += 1,
                None => {}
            }
            let world = &writer.world;
            expected += world.lrps.len() + world.rows.len() + world.tasks.len() + world.domains.len();
            self.tags.follow(std::mem::take(&mut writer.seen));
        }
        assert_eq!(census.records(), expected, "{when}: there are records that nobody wrote");
        self.tags.follow(census.tags());
    }

    /// Nobody but the followers themselves writes meanwhile, and their markers are gone again afterwards.
    async fn check_followers(&mut self, client: &Client, census: &Census, gaps_before: [usize; 2], when: &str) {
        for (follower, gaps_before) in self.followers.iter().zip(gaps_before) {
            follower.catch_up(client).await;
            if follower.gaps() > gaps_before {
                follower.read_anew(census);
                self.tally.gaps += 1;
            } else {
                follower.check(census, when);
                self.tally.resumed += 1;
            }
        }
        let lrps = &self.followers[1];
        let warned = lrps.gaps() > gaps_before[1];
        assert!(!(self.was_quiet && warned), "{when}: a follower that had seen everything was told of a gap");
    }

    async fn write_and_kill(&mut self, server: &mut Server, quiet: bool) {
        let (acknowledged, mut count) = watch::channel(0);
        let stop = Arc::new(AtomicBool::new(false));
        let work = |writer: Writer| writer.work(server.client.clone(), acknowledged.clone(), stop.clone());
        let working: Vec<_> = self.writers.drain(..).map(|writer| tokio::spawn(work(writer))).collect();
        let calls = 1 + self.dice.below(CALLS_PER_LIFE_MAX);
        let delay = Duration::from_micros(self.dice.below(KILL_DELAY_MAX_US));
        drop(acknowledged);
        // When all writers have ended the channel closes; a panic of theirs is reported below.
        let _ = count.wait_for(|count| *count >= calls).await;
        if !quiet {
            tokio::time::sleep(delay).await;
            server.kill();
        }
        stop.store(true, Ordering::SeqCst);
        for writer in working {
            self.writers.push(writer.await.unwrap());
        }
        self.tally.acknowledged += *count.borrow();
        if quiet {
            let census = Census::take(&server.client).await;
            for follower in &self.followers {
                follower.catch_up(&server.client).await;
                follower.check(&census, "while the server runs");
            }
            server.kill();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_nothing_it_acknowledged() {
    let mut run = Run::new(Dice::from_environment());
    // Each life but the first looks at what the kill before it left.
    for number in 0..=KILLS {
        run.life(number).await;
    }
    println!("{:#?}", run.tally);
    let Tally { acknowledged, carried_out, not_carried_out, gaps, resumed } = run.tally;
    assert!(acknowledged > 1_000, "{acknowledged} calls are not much of a load");
    assert!(carried_out > 0 && not_carried_out > 0, "calls in doubt went both ways: {carried_out}, {not_carried_out}");
    assert!(gaps > 0 && resumed > 0, "followers were warned and not warned: {gaps}, {resumed}");
    let log = std::fs::read_to_string(log_beside(&run.dir.path().join("board"))).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}
