//! fjall: a log-structured merge tree with a journal. Defaults, and fdatasync with every commit.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Engine, Record};

pub(super) struct Fjall {
    database: Database,
    records: Keyspace,
}

impl Fjall {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        let database = Database::builder(dir.join("fjall")).open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Self { database, records })
    }
}

impl Engine for Fjall {
    fn commit(&mut self, records: &[Record]) -> anyhow::Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (key, value) in records {
            batch.insert(&self.records, key.as_bytes(), value.as_slice());
        }
        Ok(batch.commit()?)
    }

    fn scan(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> anyhow::Result<()> {
        for guard in self.records.iter() {
            let (key, value) = guard.into_inner()?;
            visit(&key, &value);
        }
        Ok(())
    }
}
