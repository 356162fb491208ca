//! The proof: every record is read from the store and opened with the key it names.
//!
//! Nothing that this process remembers counts here, only bytes that come back from the store. While it runs, clients go on
//! changing records; what they write is under the active key, so a record of another key that is not seen was not there.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use store::Step;
use store::seal::envelope;
use store::seal::{Unopened, Vault};
use tokio::time::Instant;

use super::status::State;
use super::sweep::Pages;
use super::{Rotator, Task, Trouble};
use crate::writer::errand::Control;

/// How many records are named by key, and how many that cannot be opened; the rest are counted.
pub(super) const NAMED_MAX: usize = 100;
const PAGE_RECORDS: usize = 1024;
const STRAY: &str = "it is not under the active key, and this server did not know of it: somebody wrote to the store without this \
                     server. Restart it, and it is brought there";
/// Pages that are looked at at once while nobody is served.
const ALONE_IN_FLIGHT: usize = 3;

/// A record that no key of this node opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    pub id: String,
    /// The key it needs, as far as it tells.
    pub key: Option<String>,
    pub why: String,
}

impl Broken {
    pub(super) fn new(id: String, value: &[u8], why: &Unopened) -> Self {
        Self { id, key: envelope::key_name(value).map(ToOwned::to_owned), why: why.to_string() }
    }
}

/// The records of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyTally {
    pub records: u64,
    pub oldest_ns: Option<i64>,
    /// The oldest of them.
    pub oldest_id: Option<String>,
    /// Some of them.
    pub ids: Vec<String>,
}

/// What a look at every record found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub records: u64,
    pub bytes: u64,
    /// Records that are not sealed.
    pub plain: KeyTally,
    pub keys: BTreeMap<String, KeyTally>,
    pub broken: Vec<Broken>,
    pub broken_total: u64,
}

impl Tally {
    /// Takes one record into account.
    fn look(&mut self, vault: &Vault, key: &str, value: &Bytes) {
        self.records += 1;
        self.bytes += value.len() as u64;
        let of_key = match envelope::key_name(value) {
            Some(name) => match self.keys.get_mut(name) {
                Some(tally) => tally,
                None => self.keys.entry(name.to_owned()).or_default(),
            },
            None => &mut self.plain,
        };
        of_key.records += 1;
        if of_key.ids.len() < NAMED_MAX {
            of_key.ids.push(key.to_owned());
        }
        let sealed_ns = envelope::parse(value).map(|envelope| envelope.sealed_ns);
        if let Some(sealed_ns) = sealed_ns.filter(|ns| of_key.oldest_ns.is_none_or(|oldest| *ns < oldest)) {
            of_key.oldest_ns = Some(sealed_ns);
            of_key.oldest_id = Some(key.to_owned());
        }
        if let Some(why) = vault.explain(key, value) {
            self.broken_total += 1;
            if self.broken.len() < NAMED_MAX {
                self.broken.push(Broken::new(key.to_owned(), value, &why));
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.plain.add(other.plain);
        for (name, tally) in other.keys {
            self.keys.entry(name).or_default().add(tally);
        }
        self.broken_total += other.broken_total;
        let room = NAMED_MAX.saturating_sub(self.broken.len());
        self.broken.extend(other.broken.into_iter().take(room));
    }

    /// Whether there is nothing that another key, or none, has to do with.
    pub fn is_all_under(&self, active: &str) -> bool {
        let others = self.keys.iter().filter(|(name, tally)| name.as_str() != active && tally.records > 0).count();
        self.plain.records == 0 && others == 0 && self.broken_total == 0
    }

    /// What keeps the old keys needed: what cannot be opened, and what somebody wrote past this server.
    pub(super) fn blocked(&self, stuck: Vec<Broken>, active: &str) -> Vec<Broken> {
        let mut blocked = self.broken.clone();
        let strays = self.keys.iter().filter(|(name, _)| name.as_str() != active);
        let strays = strays.map(|(name, tally)| (Some(name.clone()), tally)).chain([(None, &self.plain)]);
        let strays = strays.flat_map(|(key, tally)| {
            tally.ids.iter().map(move |id| Broken { id: id.clone(), key: key.clone(), why: STRAY.to_owned() })
        });
        for broken in stuck.into_iter().chain(strays) {
            if blocked.len() < NAMED_MAX && blocked.iter().all(|known| known.id != broken.id) {
                blocked.push(broken);
            }
        }
        blocked
    }
}

impl KeyTally {
    fn add(&mut self, other: Self) {
        self.records += other.records;
        let is_older = match (other.oldest_ns, self.oldest_ns) {
            (Some(other), Some(own)) => other < own,
            (other, own) => other.is_some() && own.is_none(),
        };
        if is_older {
            (self.oldest_ns, self.oldest_id) = (other.oldest_ns, other.oldest_id);
        }
        let room = NAMED_MAX.saturating_sub(self.ids.len());
        self.ids.extend(other.ids.into_iter().take(room));
    }
}

impl Rotator {
    pub(super) async fn verify(&mut self, state: State) -> Result<Tally, Trouble> {
        self.parts.tracker.begin(state, self.parts.vault.census().total());
        let mut pages = Pages::of(&self.parts.vault);
        let mut tally = Tally::default();
        let mut in_flight = FuturesUnordered::new();
        let most = if self.parts.alone { ALONE_IN_FLIGHT } else { 1 };
        let mut more = true;
        while more || !in_flight.is_empty() {
            self.attend().await?;
            let begun = Instant::now();
            while more && in_flight.len() < most {
                match pages.next(PAGE_RECORDS).await? {
                    Some(records) => in_flight.push(look(self.parts.vault.clone(), records)),
                    None => more = false,
                }
            }
            if let Some(done) = in_flight.next().await {
                let found: Tally = done?;
                let records = found.records;
                tally.add(found);
                self.parts.tracker.advance(records);
                self.pause(begun, records).await;
            }
        }
        Ok(tally)
    }

    pub(super) async fn verify_for_operator(&mut self) -> Result<(), Trouble> {
        let tally = self.verify(State::Checking).await?;
        let active = self.active().active().to_string();
        let blocked = if tally.is_all_under(&active) { Vec::new() } else { tally.blocked(Vec::new(), &active) };
        let at_ns = self.parts.clock.now_ns();
        self.parts.tracker.verified(tally, at_ns);
        if blocked.is_empty() {
            self.task = Task::Nothing;
            return Ok(());
        }
        if self.parts.vault.ledger().marker.is_some() {
            // The store says what is not so: take it back before anybody removes a key because of it.
            let mut step = Step::default();
            self.parts.vault.begin(&mut step, &self.active(), at_ns);
            self.parts.writer.control(Control { steps: vec![step], ..Control::default() }).await?;
        }
        self.block(blocked).await
    }
}

async fn look(vault: Arc<Vault>, records: Vec<(String, Bytes)>) -> Result<Tally, Trouble> {
    let looking = tokio::task::spawn_blocking(move || {
        let mut tally = Tally::default();
        records.iter().for_each(|(key, value)| tally.look(&vault, key, value));
        tally
    });
    looking.await.map_err(|_| Trouble::Stopping)
}
