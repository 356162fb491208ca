//! Every promise of the contract, against every implementation.

use std::sync::Mutex;

use store::contract::Site;
use store::embedded::{Embedded, Options};
use store::memory::Memory;
use store::{Store, promises};
use tempfile::TempDir;

use crate::files::small;

#[derive(Default)]
struct MemorySite(Mutex<Memory>);

impl Site for MemorySite {
    fn open(&self) -> Box<dyn Store> {
        let mut memory = self.0.lock().unwrap();
        *memory = memory.reopen();
        Box::new(memory.clone())
    }
}

struct EmbeddedSite {
    dir: TempDir,
    options: Options,
}

impl EmbeddedSite {
    fn new(options: Options) -> EmbeddedSite {
        EmbeddedSite { dir: tempfile::tempdir().unwrap(), options }
    }
}

impl Site for EmbeddedSite {
    fn open(&self) -> Box<dyn Store> {
        Box::new(Embedded::open(self.dir.path(), self.options.clone()).unwrap())
    }
}

mod memory {
    use super::*;

    promises!(MemorySite::default());
}

mod embedded {
    use super::*;

    promises!(EmbeddedSite::new(Options::default()));
}

mod embedded_with_small_logs {
    use super::*;

    promises!(EmbeddedSite::new(small()));
}

/// Checkpoints run all the time, beside everything else.
mod embedded_with_checkpoints {
    use super::*;

    promises!(EmbeddedSite::new(Options { checkpoint_min_bytes: 1, ..small() }));
}
