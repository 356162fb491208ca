//! Wall clocks that jump by an hour, forward and back, on a master and on a node that waits.
//!
//! Nobody gains or loses a mastership by it, no instance is touched, and every read and write stays true. What is dated by the
//! wall clock, because its records are, follows it: a domain with a time to live ends when the clock of the master has passed
//! its end, and does not come back with the clock, so that nothing is taken for superfluous until its owner says again what it
//! wants; a task that waited for longer than it may, by that clock, fails for good. A clock that goes back lengthens both.
//!
//! The clocks are those of `libfaketime`: it stands between the program and the C library, and what it adds to the time is read
//! from a file that the test changes. Clocks that cannot be set are left alone, as a real jump leaves them.

use std::path::{Path, PathBuf};

use api::client::Client;
use api::models::task;
use tokio::time::Instant;

use super::cells::{CELLS, GRACE, instances_on, populate, prepare, set_cells};
use super::clients::Crowd;
use super::nodes::{LEASE, Nodes};
use super::verdict;
use crate::durability::dice::Dice;
use crate::durability::world::task_definition;
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE};

const HOUR_S: i64 = 3600;
/// Ends within the hour that is jumped over, and not while the test runs.
const TTL_S: u32 = 1200;
const CALLS_BETWEEN: u64 = 200;
const PASSES: u64 = 3;
/// Where Debian has the library, below the folder of the architecture.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_moves_nothing_but_what_is_dated_by_it() {
    let mut dice = Dice::from_environment();
    let mut nodes = with_clocks_that_jump().await;
    let master = nodes.master().await;
    let client = nodes.client(master, PATIENCE);
    populate(&client).await;
    client.upsert_domain("for-ever", 0).await.unwrap();
    client.upsert_domain("for-a-while", TTL_S).await.unwrap();
    let crowd = Crowd::start(&mut nodes, &mut dice).await;
    let mut scene = Scene { epoch: nodes.epoch_now(master), client, master, nodes, crowd };

    let waiting = scene.nodes.standby().await;
    for seconds in [HOUR_S, -HOUR_S, 0] {
        scene.check(waiting, seconds, &["for-a-while", "for-ever"]).await;
    }
    scene.client.desire_task("patient", "apps", task_definition()).await.unwrap();
    scene.check(master, -HOUR_S, &["for-a-while", "for-ever"]).await;
    assert_eq!(scene.state_of("patient").await, task::State::Pending);
    scene.check(master, 0, &["for-a-while", "for-ever"]).await;
    assert_eq!(scene.state_of("patient").await, task::State::Pending);
    scene.check(master, HOUR_S, &["for-ever"]).await;
    assert_eq!(scene.state_of("patient").await, task::State::Completed);
    scene.check(master, 0, &["for-ever"]).await;
    assert_eq!(scene.state_of("patient").await, task::State::Completed);
    verdict::check(scene.nodes, scene.crowd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_that_goes_is_noticed_after_the_clock_went_back_too() {
    let mut nodes = with_clocks_that_jump().await;
    let master = nodes.master().await;
    let client = nodes.client(master, PATIENCE);
    populate(&client).await;
    let before = instances_on(&client, 0..CELLS).await;
    tokio::time::sleep(GRACE).await;
    jump(&nodes, master, -HOUR_S);
    set_cells(nodes.dir.path(), 0..CELLS - 1);
    let since = Instant::now();
    while instances_on(&client, 0..CELLS).await == before {
        assert!(since.elapsed() < PATIENCE, "the cell that is gone is not noticed\n{}", nodes.logs());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    nodes.finish().await;
}

async fn with_clocks_that_jump() -> Nodes {
    let mut nodes = prepare();
    for at in nodes.all() {
        let file = time_file(&nodes, at);
        jump(&nodes, at, 0);
        nodes.node(at).environment = vec![
            ("LD_PRELOAD".to_owned(), library().display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE".to_owned(), file.display().to_string()),
            ("FAKETIME_NO_CACHE".to_owned(), "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC".to_owned(), "1".to_owned()),
        ];
    }
    nodes.start_all().await;
    nodes
}

struct Scene {
    nodes: Nodes,
    crowd: Crowd,
    client: Client,
    master: usize,
    epoch: u64,
}

impl Scene {
    /// Sets a clock to so many seconds from the true time, and looks at everything for longer than a lease.
    async fn check(&mut self, at: usize, seconds: i64, fresh: &[&str]) {
        let before = instances_on(&self.client, 0..CELLS).await;
        jump(&self.nodes, at, seconds);
        self.wait_until_it_has_jumped(at, seconds).await;
        let since = Instant::now();
        self.crowd.more(CALLS_BETWEEN).await;
        self.nodes.passes(self.master, PASSES).await;
        tokio::time::sleep_until(since + LEASE * 2).await;
        let (when, master) = (format!("n{at} is {seconds} s off"), self.nodes.master().await);
        assert_eq!((master, self.nodes.epoch_now(master)), (self.master, self.epoch), "{when}\n{}", self.nodes.logs());
        assert_eq!(instances_on(&self.client, 0..CELLS).await, before, "{when}");
        let mut domains = self.client.domains().await.unwrap();
        domains.sort();
        assert_eq!(domains, fresh, "{when}");
    }

    /// The time since its start, as it sees it, shows the jump.
    async fn wait_until_it_has_jumped(&self, at: usize, seconds: i64) {
        let since = Instant::now();
        loop {
            let status = self.nodes.ask_health(at, "/status").await.unwrap_or_default();
            let uptime_s = status["uptime_s"].as_i64().unwrap_or_default();
            if (uptime_s - seconds).abs() < HOUR_S / 2 {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "the clock of n{at} did not jump: {uptime_s} s");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn state_of(&self, task: &str) -> task::State {
        self.client.task_by_guid(task).await.unwrap().state()
    }
}

fn time_file(nodes: &Nodes, at: usize) -> PathBuf {
    nodes.dir.path().join(format!("n{at}.time"))
}

/// The file is never seen half written.
fn jump(nodes: &Nodes, at: usize, seconds: i64) {
    let (file, new) = (time_file(nodes, at), nodes.dir.path().join("time.new"));
    std::fs::write(&new, format!("{seconds:+}\n")).unwrap();
    std::fs::rename(new, file).unwrap();
}

fn library() -> PathBuf {
    let below = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().join(LIBRARY));
    below(Path::new("/usr/lib")).find(|path| path.exists()).expect("the package faketime is installed")
}
