//! One store through all its keys, while clients call and servers are killed at any moment.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::audit::Audit;
use super::keys::{rotate, site, table, until_settled, until_under_way};
use super::{CRAWLING_PER_S, UNLIMITED, WALKING_PER_S};
use crate::durability::dice::Dice;
use crate::upgrade::QUIETLY;
use crate::upgrade::load::{Load, stock};
use crate::upgrade::site::{Release, Site};

const CALLS_PER_LIFE_MAX: u64 = 20;
/// Less than a rotation takes that crawls.
const SHORT_MS: u64 = 600;
/// More than a rotation takes that walks.
const LONG_MS: u64 = 3_000;

struct Run {
    site: Site,
    dice: Dice,
    load: Load,
    /// Kills that met a rotation, and kills that came after it.
    kills: [usize; 2],
}

impl Run {
    fn config(active: &str, names: &str, pace: u32) -> String {
        format!("{QUIETLY}\n{}", table(active, names, pace))
    }

    async fn call_and_kill(&mut self, delay_max_ms: u64) -> Audit {
        self.load.more(1 + self.dice.below(CALLS_PER_LIFE_MAX)).await;
        tokio::time::sleep(Duration::from_millis(self.dice.below(delay_max_ms))).await;
        self.site.kill();
        let audit = Audit::of(&self.site).await;
        self.kills[usize::from(audit.marker.is_some())] += 1;
        audit
    }

    /// A server that is killed before all records are under its key.
    async fn interrupted(&mut self, active: &str, names: &str) {
        self.site.spawn(Release::Newest, &Self::config(active, names, CRAWLING_PER_S));
        let audit = self.call_and_kill(SHORT_MS).await;
        assert_eq!(audit.marker, None, "it was slow enough to be hit in the middle: {audit:#?}");
    }

    /// A server that is killed while records come under its key, while that is proven, or just after.
    async fn killed(&mut self, active: &str, names: &str) {
        self.site.spawn(Release::Newest, &Self::config(active, names, WALKING_PER_S));
        self.call_and_kill(LONG_MS).await;
    }

    /// A server that brings everything under its key and is killed only then.
    async fn settles(&mut self, active: &str, names: &str) {
        self.site.start(Release::Newest, &Self::config(active, names, UNLIMITED)).await;
        until_settled(&self.site, active).await;
        self.load.more(10).await;
        self.site.kill();
        Audit::settled(&self.site, active).await;
    }

    /// A server that is given another key to work with in the middle of its work, and is killed in the middle of that.
    async fn told_otherwise(&mut self, (first, then): (&str, &str), names: &str) {
        self.site.start(Release::Newest, &Self::config(first, names, CRAWLING_PER_S)).await;
        until_under_way(&self.site).await;
        self.load.more(1 + self.dice.below(CALLS_PER_LIFE_MAX)).await;
        self.site.configure(&Self::config(then, names, CRAWLING_PER_S));
        let answer = rotate(&self.site).await.unwrap();
        assert_eq!(answer["message"], format!("records are being brought under key {then}"), "{answer:#}");
        until_under_way(&self.site).await;
        let audit = self.call_and_kill(SHORT_MS).await;
        assert_eq!(audit.marker, None, "{audit:#?}");
        assert!(audit.under(then) > 0 && audit.records.len() > 1, "it was at work with that key: {audit:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_change_under_load_and_under_fire_and_nothing_is_lost() {
    let mut dice = Dice::from_environment();
    let mut site = site();
    site.start(Release::Newest, QUIETLY).await;
    let stock = stock(&site).await;
    let load = Load::start(&site, &mut dice);
    load.more(60).await;
    site.kill();
    Audit::plain(&site).await;
    let mut run = Run { site, dice, load, kills: [0; 2] };

    run.interrupted("A", "A").await;
    run.killed("A", "A").await;
    run.killed("A", "A").await;
    run.settles("A", "A").await;

    run.interrupted("B", "AB").await;
    run.interrupted("B", "AB").await;
    run.interrupted("C", "ABC").await;
    run.killed("C", "ABC").await;
    run.killed("C", "ABC").await;
    run.settles("C", "ABC").await;

    run.interrupted("A", "AC").await;
    run.told_otherwise(("A", "B"), "ABC").await;
    run.killed("B", "ABC").await;
    run.settles("B", "ABC").await;

    // What was called free is free: nothing needs the other keys.
    let Run { mut site, load, kills, .. } = run;
    site.start(Release::Newest, &Run::config("B", "B", UNLIMITED)).await;
    load.more(30).await;
    println!("kills in the middle and after it: {kills:?}, {:?}", load.tally);
    assert!(load.tally.read_back.load(Ordering::Relaxed) > 0, "clients read what they had written");
    assert!(load.tally.turned_away.load(Ordering::Relaxed) > 0, "clients called while no server was there");
    load.check(&site, &stock).await;
    assert_eq!(site.terminate().await, 0);
    Audit::settled(&site, "B").await;
}
