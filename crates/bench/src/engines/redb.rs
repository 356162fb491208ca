//! redb: a copy-on-write B-tree in one file. Defaults, which sync with every commit.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Engine, Record};

const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");

pub(super) struct Redb(Database);

impl Redb {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self(Database::create(dir.join("redb"))?))
    }
}

impl Engine for Redb {
    fn commit(&mut self, records: &[Record]) -> anyhow::Result<()> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(RECORDS)?;
            for (key, value) in records {
                table.insert(key.as_str(), value.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn scan(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> anyhow::Result<()> {
        let table = self.0.begin_read()?.open_table(RECORDS)?;
        for record in table.iter()? {
            let (key, value) = record?;
            visit(key.value().as_bytes(), value.value());
        }
        Ok(())
    }
}
