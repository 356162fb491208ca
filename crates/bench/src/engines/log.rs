//! Our own store, through the trait that the server uses.

use std::path::Path;

use bytes::Bytes;
use store::embedded::{Embedded, Options};
use store::{Mastership, STEP_OPS_MAX, Step, Store};
use tokio::runtime::Runtime;

use super::{Engine, Record};

/// Records per page of a scan.
const PAGE_RECORDS: usize = 4_096;

pub(super) struct Log {
    // The mastership goes before the store, and the store before the runtime it reads with.
    held: Mastership,
    store: Embedded,
    runtime: Runtime,
}

impl Log {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let store = Embedded::open(dir.join("board"), Options::default())?;
        let held = runtime.block_on(store.campaign("bench"))?;
        Ok(Self { held, store, runtime })
    }
}

impl Engine for Log {
    fn commit(&mut self, records: &[Record]) -> anyhow::Result<()> {
        let step = |records: &[Record]| {
            let mut step = Step::default();
            records.iter().for_each(|(key, value)| step.put(key.clone(), Bytes::from(value.clone())));
            step
        };
        let steps: Vec<Step> = records.chunks(STEP_OPS_MAX).map(step).collect();
        self.runtime.block_on(self.store.commit(&self.held, &steps))?;
        Ok(())
    }

    fn scan(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> anyhow::Result<()> {
        let mut after: Option<String> = None;
        loop {
            let page = self.runtime.block_on(self.store.scan("", after.as_deref(), PAGE_RECORDS))?;
            page.records.iter().for_each(|(key, value)| visit(key.as_bytes(), value));
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
