//! The rehearsal: a whole migration in memory over the live records, and not one write.
//!
//! Every record goes from the version it is stored in to the other one, back, and there again. What does not come back as it
//! was is named by its id, and what the other version has no room for is listed. Sizes and the time it took make a forecast.
//!
//! Records of one entity may lie far apart in the order of keys. They are read from all places at once, a page here and a
//! page there, so that one half does not wait in memory until the end for the other.

use bytes::Bytes;
use serde::Serialize;
use store::record::DataVersion;
use store::{Rehearsal, Store, StoreError, Version};
use tokio::time::Instant;

use super::ask::{Loss, NAMED_MAX, Refused};
use super::status::VersionName;

const PAGE_RECORDS: usize = 512;
/// Where halves of one entity may lie, in any version. What lies elsewhere is read by itself.
const APART: [&str; 3] = ["desired/schedule/", "desired/run/", "desired/definition/"];
/// Writing costs about as much as working it out; verifying reads everything once more.
const WORK_PER_REHEARSAL: f64 = 2.0;

#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub from: VersionName,
    pub to: VersionName,
    pub records: u64,
    pub entities: u64,
    pub failures: Vec<Failure>,
    pub failures_total: u64,
    pub losses: Vec<Loss>,
    pub losses_total: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub forecast_s: f64,
    pub took_s: f64,
    pub lossless: bool,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub id: String,
    pub why: String,
}

/// The other version of a rehearsal: the one asked for, or the newest if the records are older.
pub fn destination(current: Version, newest: Version, asked: Option<DataVersion>) -> Result<Version, Refused> {
    let to = match asked {
        Some(number) => Version::of(number).ok_or_else(|| {
            Refused::new("unknown-version", format!("{number} is not a data version that this release writes"), None)
        })?,
        None => newest,
    };
    if to == current {
        let message = format!("the records are of data version {} already", to.number());
        return Err(Refused::new("nothing-to-do", message, Some("corkboard migrate plan --to VERSION")));
    }
    Ok(to)
}

pub async fn rehearse(store: &dyn Store, from: Version, to: Version) -> Result<Plan, StoreError> {
    let begun = Instant::now();
    let mut rehearsal = Rehearsal::new(from, to);
    let mut plan = Plan {
        from: from.into(),
        to: to.into(),
        records: 0,
        entities: 0,
        failures: Vec::new(),
        failures_total: 0,
        losses: Vec::new(),
        losses_total: 0,
        bytes_before: 0,
        bytes_after: 0,
        forecast_s: 0.0,
        took_s: 0.0,
        lossless: true,
        message: String::new(),
    };
    let mut lanes: Vec<Lane> = APART.iter().map(|below| Lane::new(format!("{}{below}", from.root()), None)).collect();
    lanes.push(Lane::new(from.root().to_owned(), Some(from)));
    while lanes.iter().any(|lane| !lane.done) {
        for lane in &mut lanes {
            for (key, value) in lane.next(store).await? {
                plan.take(&mut rehearsal, &key, &value);
            }
            tokio::task::yield_now().await;
        }
    }
    for bad in rehearsal.finish() {
        plan.fail(bad.key, bad.why);
    }
    plan.conclude(begun.elapsed().as_secs_f64());
    Ok(plan)
}

/// One place that is read page by page.
struct Lane {
    prefix: String,
    after: Option<String>,
    done: bool,
    /// Set for the lane that reads what no other does.
    rest_of: Option<Version>,
}

impl Lane {
    fn new(prefix: String, rest_of: Option<Version>) -> Self {
        Self { prefix, after: None, done: false, rest_of }
    }

    async fn next(&mut self, store: &dyn Store) -> Result<Vec<(String, Bytes)>, StoreError> {
        if self.done {
            return Ok(Vec::new());
        }
        let mut page = store.scan(&self.prefix, self.after.as_deref(), PAGE_RECORDS).await?;
        if let Some(version) = self.rest_of {
            page.records.retain(|(key, _)| read_apart(version, key).is_none());
            // Behind the last key that the other lane can have.
            page.next = page.next.map(|key| match read_apart(version, &key) {
                Some(below) => format!("{}{below}\u{10FFFF}", version.root()),
                None => key,
            });
        }
        self.done = page.next.is_none();
        self.after = page.next;
        Ok(page.records)
    }
}

/// The lane of its own that reads a record, if one does.
fn read_apart(version: Version, key: &str) -> Option<&'static str> {
    let below = key.strip_prefix(version.root())?;
    APART.into_iter().find(|apart| below.starts_with(apart))
}

impl Plan {
    fn take(&mut self, rehearsal: &mut Rehearsal, key: &str, value: &Bytes) {
        self.records += 1;
        self.bytes_before += (key.len() + value.len()) as u64;
        let Some(done) = rehearsal.feed(key, value) else { return };
        self.entities += 1;
        self.bytes_after += done.bytes_after as u64;
        if let Some(why) = done.failure {
            self.fail(done.id, why);
        }
        for lost in done.lost {
            self.losses_total += 1;
            if self.losses.len() < NAMED_MAX {
                self.losses.push(lost.into());
            }
        }
    }

    fn fail(&mut self, id: String, why: String) {
        self.failures_total += 1;
        if self.failures.len() < NAMED_MAX {
            self.failures.push(Failure { id, why });
        }
    }

    fn conclude(&mut self, took_s: f64) {
        self.took_s = took_s;
        self.forecast_s = took_s * WORK_PER_REHEARSAL;
        self.lossless = self.losses_total == 0 && self.failures_total == 0;
        self.message = if self.lossless {
            format!("all {} entities go over and come back as they were; nothing was written", self.entities)
        } else {
            format!(
                "{} entities: {} do not come back as they were, {} things have no room in the other version; nothing was written",
                self.entities, self.failures_total, self.losses_total
            )
        };
    }
}
