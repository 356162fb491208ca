//! Locks that outlive the process, where presences and locks are kept in its memory.
//!
//! Promise: a lock that was granted is written to a file before its owner hears of it, and the next process takes the locks of
//! that file as held, each for its whole time again. So whoever held a lock keeps it over a restart of the keeper by asking for it
//! again, and nobody else gets it before its time is over. Diego's Locket promises the same, with rows in a database.
//!
//! Only changes of owner, value or time limit are written, which are rare; a holder that repeats itself costs nothing. Presences
//! are not written: cells repeat themselves every few seconds, and the state server concludes nothing from their absence at first.
//!
//! What cannot be written is not granted. What cannot be read is named in the log, and then whoever asks first gets a lock: a
//! lock service that does not start would help nobody, and what protects records from two masters is the store.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use locket::book::Asked;
use locket::keeper::Later;
use locket::{Keeper, Kind, Refusal, Resource};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

/// How long a lock whose time is over may stay in the file.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// A keeper that forgets, and the file that does not.
#[derive(Debug)]
pub(crate) struct Lasting<K> {
    keeper: K,
    /// Held over a call and what is written about it, so that the file tells what happened last.
    ledger: Mutex<Ledger>,
}

#[derive(Debug)]
struct Ledger {
    file: PathBuf,
    locks: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    owner: String,
    value: String,
    ttl_s: i64,
}

impl<K: Keeper> Lasting<K> {
    /// Takes what the file says for the keeper, which must be empty.
    pub(crate) async fn open(keeper: K, file: PathBuf) -> Self {
        let locks = read(&file).unwrap_or_else(|error| {
            let file = file.display();
            tracing::warn!(%error, %file, "the locks of the former process cannot be read; whoever asks first gets them");
            BTreeMap::new()
        });
        for (key, entry) in &locks {
            let asked = entry.asked(key);
            match keeper.lock(Some(asked), entry.ttl_s).await {
                Ok(()) => tracing::info!(key, owner = entry.owner, "a lock of the former process is held on"),
                Err(refusal) => tracing::warn!(key, %refusal, "a lock of the former process is not held on"),
            }
        }
        Self { keeper, ledger: Mutex::new(Ledger { file, locks }) }
    }

    async fn take(&self, asked: Option<Asked>, ttl_s: i64) -> Result<(), Refusal> {
        let mut ledger = self.ledger.lock().await;
        let wanted = asked.clone();
        self.keeper.lock(asked, ttl_s).await?;
        let Some(Asked { key, owner, value, type_code, .. }) = wanted else { return Ok(()) };
        let is_lock = type_code == i32::from(Kind::Lock.code());
        let entry = is_lock.then_some(Entry { owner, value, ttl_s });
        let before = ledger.locks.get(&key).cloned();
        if before == entry {
            return Ok(());
        }
        ledger.set(&key, entry.clone());
        let Err(error) = ledger.write() else { return Ok(()) };
        ledger.set(&key, before.clone());
        let is_new = before.is_none_or(|before| entry.as_ref().is_some_and(|entry| entry.owner != before.owner));
        if let Some(entry) = entry.filter(|_| is_new) {
            // It is not granted, so it must not stand in anybody's way.
            let _ = self.keeper.release(Some(entry.asked(&key))).await;
        }
        Err(Refusal::Unavailable(format!("a lock cannot be written to {}: {error}", ledger.file.display())))
    }

    async fn give_back(&self, asked: Option<Asked>) -> Result<(), Refusal> {
        let mut ledger = self.ledger.lock().await;
        let key = asked.as_ref().map(|asked| asked.key.clone());
        self.keeper.release(asked).await?;
        if let Some(key) = key.filter(|key| ledger.locks.contains_key(key)) {
            ledger.set(&key, None);
            ledger.write_or_complain();
        }
        Ok(())
    }

    /// Takes out of the file what has expired.
    async fn sweep(&self) {
        let mut ledger = self.ledger.lock().await;
        let Ok(held) = self.keeper.fetch_all(Kind::Lock.code().into()).await else { return };
        let is_held = |key: &str, entry: &Entry| held.iter().any(|held| held.key == key && held.owner == entry.owner);
        let before = ledger.locks.len();
        ledger.locks.retain(|key, entry| {
            let is_held = is_held(key, entry);
            if !is_held {
                tracing::info!(key, owner = entry.owner, "the time of a lock is over");
            }
            is_held
        });
        if ledger.locks.len() < before {
            ledger.write_or_complain();
        }
    }
}

impl<K: Keeper> Keeper for Lasting<K> {
    fn lock(&self, asked: Option<Asked>, ttl_s: i64) -> Later<'_, Result<(), Refusal>> {
        Box::pin(self.take(asked, ttl_s))
    }

    fn release(&self, asked: Option<Asked>) -> Later<'_, Result<(), Refusal>> {
        Box::pin(self.give_back(asked))
    }

    fn fetch(&self, key: String) -> Later<'_, Result<Resource, Refusal>> {
        self.keeper.fetch(key)
    }

    fn fetch_all(&self, type_code: i32) -> Later<'_, Result<Vec<Resource>, Refusal>> {
        self.keeper.fetch_all(type_code)
    }

    fn look_after(&self) -> Later<'_, ()> {
        Box::pin(async {
            let sweeping = async {
                loop {
                    tokio::time::sleep(SWEEP_EVERY).await;
                    self.sweep().await;
                }
            };
            tokio::join!(self.keeper.look_after(), sweeping);
        })
    }
}

impl Entry {
    fn asked(&self, key: &str) -> Asked {
        Asked {
            key: key.to_owned(),
            owner: self.owner.clone(),
            value: self.value.clone(),
            r#type: Kind::Lock.name().to_owned(),
            type_code: Kind::Lock.code().into(),
        }
    }
}

impl Ledger {
    fn set(&mut self, key: &str, entry: Option<Entry>) {
        match entry {
            Some(entry) => self.locks.insert(key.to_owned(), entry),
            None => self.locks.remove(key),
        };
    }

    /// A few hundred bytes, so this thread does it. Whoever reads sees all of it or all of what was there before.
    fn write(&self) -> io::Result<()> {
        let mut name = self.file.as_os_str().to_owned();
        name.push(".new");
        let fresh = PathBuf::from(name);
        let mut file = File::create(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(&self.locks)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.file)?;
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    /// For what is over anyway: at worst the next process holds it for its time once more.
    fn write_or_complain(&self) {
        if let Err(error) = self.write() {
            tracing::warn!(%error, file = %self.file.display(), "the end of a lock cannot be written");
        }
    }
}

fn read(file: &Path) -> io::Result<BTreeMap<String, Entry>> {
    match fs::read(file) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
