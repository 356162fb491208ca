//! Every promise of the contract, against every implementation.

use std::sync::{Arc, Mutex};

use store::contract::Site;
use store::embedded::{Embedded, Options};
use store::etcd::Etcd;
use store::memory::Memory;
use store::seal::{KeyName, Keyring, Ledger, Secret, Stamp, Stamps, Vault};
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

/// Sealing is a store over a store, so it promises the same.
#[derive(Default)]
struct VaultSite(MemorySite);

#[derive(Debug)]
struct Still;

impl Stamps for Still {
    fn stamp(&self) -> Stamp {
        Stamp { sealed_ns: 0, nonce: [0; 12] }
    }
}

impl Site for VaultSite {
    fn open(&self) -> Box<dyn Store> {
        let name = KeyName::parse("A").unwrap();
        let keyring = Keyring::new(vec![(name.clone(), Secret::new(b"bytes".to_vec()))], &name).unwrap();
        let inner = Arc::from(self.0.open());
        Box::new(Vault::new(inner, Arc::new(keyring), Ledger::default(), Arc::new(Still)))
    }
}

mod vault {
    use super::*;

    promises!(VaultSite::default());
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

/// A cluster of its own for every promise.
struct EtcdSite(rig::etcd::Cluster);

impl EtcdSite {
    fn new(members: usize, tls: bool) -> EtcdSite {
        EtcdSite(rig::etcd::Cluster::start(rig::etcd::Options { members, tls, ..Default::default() }))
    }
}

impl Site for EtcdSite {
    fn open(&self) -> Box<dyn Store> {
        let open = Etcd::open(crate::etcd::options(&self.0));
        Box::new(tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(open)).unwrap())
    }
}

mod etcd_of_one {
    use super::*;

    promises!(EtcdSite::new(1, false));
}

mod etcd_of_three_with_tls {
    use super::*;

    promises!(EtcdSite::new(3, true));
}
